#include "estimate/weights.h"

#include <string.h>

#include "base/memory.h"

/* Endings of names without ".weight", over all families of decoders. The first that fits counts. */
static const struct {
    const char *ending;
    weights_part part;
} endings[] = {
    { "embed_tokens", WEIGHTS_TABLE }, { "embed_in", WEIGHTS_TABLE },
    { ".wte", WEIGHTS_TABLE },         { ".wpe", WEIGHTS_POSITIONS },
    { "lm_head", WEIGHTS_HEAD },       { "embed_out", WEIGHTS_HEAD },
    { "qkv_proj", WEIGHTS_QKV },       { "query_key_value", WEIGHTS_QKV },
    { "c_attn", WEIGHTS_QKV },         { "q_proj", WEIGHTS_Q },
    { "k_proj", WEIGHTS_K },           { "v_proj", WEIGHTS_V },
    { "o_proj", WEIGHTS_O },           { "attn.c_proj", WEIGHTS_O },
    { "attention.dense", WEIGHTS_O },  { "self_attn.dense", WEIGHTS_O },
    { "gate_up_proj", WEIGHTS_UP },    { "gate_proj", WEIGHTS_GATE },
    { "up_proj", WEIGHTS_UP },         { "c_fc", WEIGHTS_UP },
    { "dense_h_to_4h", WEIGHTS_UP },   { "fc1", WEIGHTS_UP },
    { "down_proj", WEIGHTS_DOWN },     { "mlp.c_proj", WEIGHTS_DOWN },
    { "dense_4h_to_h", WEIGHTS_DOWN }, { "fc2", WEIGHTS_DOWN },
    { "mlp.gate", WEIGHTS_ROUTER },
};

static bool ends(const char *name, size_t length, const char *ending) {
    size_t n = strlen(ending);
    return length >= n && memcmp(name + length - n, ending, n) == 0;
}

static weights_part part_of(const tensor *x, const char *name) {
    size_t length = strlen(name);
    if (x->shape.rank < 2) return WEIGHTS_VECTOR;
    if (ends(name, length, ".weight")) length -= strlen(".weight");
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (ends(name, length, endings[i].ending)) return endings[i].part;
    return WEIGHTS_OTHER;
}

/* GPT-2's products lie as (in, out). */
static weights_item item_of(const graph *g, tensor_id t, bool turned) {
    const tensor *x = graph_tensor(g, t);
    const shape *s = &x->shape;
    weights_item item = { .part = part_of(x, graph_name(g, t)),
                          .block = -1,
                          .copies = s->rank > 2 ? s->dim[0] : 1 };
    item.inner = shape_last(s);
    item.rows = shape_elements(s) / item.inner / item.copies;
    if (turned && weights_of_block(&item)) {
        int64_t rows = item.rows;
        item.rows = item.inner, item.inner = rows;
    }
    return item;
}

/* By tensor, the block of its first reader; NULL: no memory. */
static int32_t *find_blocks(const graph *g) {
    int32_t *block = memory_new(g->tensors.count, sizeof *block);
    for (tensor_id t = 0; block && t < g->tensors.count; t++) block[t] = -1;
    for (node_id id = g->nodes.count; block && id-- > 1;) {
        const node *n = graph_node(g, id);
        for (uint32_t i = 0; i < n->in_count; i++) block[node_in(g, n, i)] = n->site;
    }
    return block;
}

static status gather(const graph *g, bool turned, const int32_t *block, weights *w) {
    bool head = false;
    for (tensor_id t = 1; t < g->tensors.count; t++) {
        const tensor *x = graph_tensor(g, t);
        uint32_t at;
        if (x->role != ROLE_PARAMETER || x->producer) continue;
        TRY(array_add(&w->items, 1, &at));
        weights_item *item = (weights_item *)w->items.data + at;
        *item = item_of(g, t, turned);
        item->block = block[t];
        w->elements += weights_elements(item);
        head |= item->part == WEIGHTS_HEAD;
    }
    w->tied = !head;
    return STATUS_OK;
}

status weights_open(const model *m, weights *w) {
    enum { MOST = 1 << 16 };
    graph g;
    model_ports ports = { 0 };
    *w = (weights){ 0 };
    TRY(array_open(&w->items, sizeof(weights_item), MOST));
    TRY(graph_open(&g));
    m->build(m, &g, &(model_run){ .mode = MODEL_EVALUATE, .batch = 1, .context = 16 }, &ports);
    status result = graph_status(&g);
    int32_t *block = result == STATUS_OK ? find_blocks(&g) : NULL;
    if (block) result = gather(&g, strcmp(m->family, "gpt2") == 0, block, w);
    if (result == STATUS_OK && !block) result = status_set(STATUS_FAILED, "no memory to look at weights");
    memory_free(block);
    graph_close(&g);
    return result;
}

void weights_close(weights *w) { array_close(&w->items); }
