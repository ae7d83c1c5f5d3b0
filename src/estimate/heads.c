#include "estimate/heads.h"

static int64_t count_near(const decoder_config *d) {
    int64_t near = 0;
    for (int64_t i = 0; i < d->layers; i++) near += !decoder_sees_far(d, i);
    return near;
}

static void of_decoder(const decoder_config *d, heads *h) {
    *h = (heads){ .layers = d->layers,
                  .heads = d->heads,
                  .kv_heads = d->kv_heads,
                  .head_size = d->head_size,
                  .channels = d->channels,
                  .inner = d->inner,
                  .vocabulary = d->vocabulary,
                  .context = d->context,
                  .window = d->window,
                  .near = count_near(d),
                  .rotated = d->rotary.turned,
                  .gated = d->kind->gate != NULL };
}

/* Where only some blocks have experts the others' width is left out of account: they are narrower. */
static void of_experts(const decoder_experts *e, heads *h) {
    if (!e->count) return;
    h->experts = e->count, h->chosen = e->chosen, h->shared = e->shared;
    h->inner = e->inner;
}

static void of_gpt2(const gpt2_config *g, heads *h) {
    *h = (heads){ .layers = g->layers,
                  .heads = g->heads,
                  .kv_heads = g->heads,
                  .head_size = g->channels / g->heads,
                  .channels = g->channels,
                  .inner = g->inner,
                  .vocabulary = g->vocabulary,
                  .context = g->context };
}

bool heads_of(const model_config *c, heads *h) {
    if (c->family == FAMILY_DECODER) {
        of_decoder(&c->decoder, h);
        of_experts(&c->decoder.experts, h);
        return true;
    }
    if (c->family != FAMILY_GPT2) return false;
    of_gpt2(&c->gpt2, h);
    return true;
}
