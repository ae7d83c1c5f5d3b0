/* Members of config.json that make a decoder's feed-forward halves mixtures of experts. */
#include <string.h>

#include "io/config_families.h"

/* Which layers have none: mlp_only_layers, and with decoder_sparse_step s all but every s-th. */
static status read_dense(json_value root, int64_t layers, decoder_experts *e) {
    json_value list;
    size_t count = 0;
    int64_t step = 1, layer;
    TRY(json_optional_integer(root, "decoder_sparse_step", 1, INT32_MAX, &step));
    for (int64_t i = 0; i < layers && i < DECODER_MOST_LAYERS; i++)
        if ((i + 1) % step) e->dense[i / 64] |= UINT64_C(1) << (i % 64);
    if (!json_find(root, "mlp_only_layers", &list)) return STATUS_OK;
    TRY(json_as_array(list, &count));
    for (size_t i = 0; i < count; i++) {
        TRY(json_as_integer(json_item(list, i), 0, INT32_MAX, &layer));
        if (layer >= layers || layer >= DECODER_MOST_LAYERS)
            return json_wrong(json_item(list, i), "is %lld, and there are %lld layers", (long long)layer,
                              (long long)layers);
        e->dense[layer / 64] |= UINT64_C(1) << (layer % 64);
    }
    return STATUS_OK;
}

status config_experts_read(json_value root, decoder_config *c) {
    const decoder_experts_kind *k = c->kind->experts;
    decoder_experts *e = &c->experts;
    if (!k) return STATUS_OK;
    *e = (decoder_experts){ .count = k->usual_count,
                            .chosen = k->usual_chosen,
                            .inner = k->usual_inner ? k->usual_inner : c->inner,
                            .shared = k->usual_shared,
                            .normalised = k->normalised,
                            .wide = k->wide };
    TRY(json_optional_integer(root, "num_experts", 1, INT32_MAX, &e->count));
    TRY(json_optional_integer(root, "num_local_experts", 1, INT32_MAX, &e->count));
    TRY(json_optional_integer(root, "num_experts_per_tok", 1, INT32_MAX, &e->chosen));
    if (k->usual_inner) TRY(json_optional_integer(root, k->inner, 1, INT32_MAX, &e->inner));
    if (k->shared)
        TRY(json_optional_integer(root, "shared_expert_intermediate_size", 1, INT32_MAX, &e->shared));
    if (k->asked) TRY(json_optional_bool(root, "norm_topk_prob", &e->normalised));
    e->balance = k->usual_balance;
    TRY(json_optional_number(root, "router_aux_loss_coef", 0, 1e6, &e->balance));
    TRY(json_optional_bool(root, "output_router_logits", &e->balanced));
    return k->dense_layers ? read_dense(root, c->layers, e) : STATUS_OK;
}

void config_experts_put(json_writer *w, const decoder_config *c) {
    const decoder_experts_kind *k = c->kind->experts;
    const decoder_experts *e = &c->experts;
    if (!k) return;
    json_put_integer(w, k->count, e->count);
    json_put_integer(w, "num_experts_per_tok", e->chosen);
    if (k->usual_inner) json_put_integer(w, k->inner, e->inner);
    if (k->shared) json_put_integer(w, "shared_expert_intermediate_size", e->shared);
    if (k->asked) json_put_bool(w, "norm_topk_prob", e->normalised);
    json_put_real(w, "router_aux_loss_coef", e->balance);
    json_put_bool(w, "output_router_logits", e->balanced);
    if (!k->dense_layers) return;
    json_begin_array(w, "mlp_only_layers");
    for (int64_t i = 0; i < c->layers; i++)
        if (!decoder_experts_at(e, i)) json_put_integer(w, NULL, i);
    json_end_array(w);
}

bool config_experts_knows(const char *key) {
    static const char *const keys[] = { "num_experts",
                                        "num_local_experts",
                                        "num_experts_per_tok",
                                        "moe_intermediate_size",
                                        "shared_expert_intermediate_size",
                                        "norm_topk_prob",
                                        "decoder_sparse_step",
                                        "mlp_only_layers",
                                        "output_router_logits",
                                        "router_aux_loss_coef",
                                        "router_jitter_noise" };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(key, keys[i]) == 0) return true;
    return false;
}
