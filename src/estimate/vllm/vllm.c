#include "estimate/vllm/vllm.h"

#include <math.h>

#include "estimate/serving/served.h"

#define MIB (1024.0 * 1024.0)

/* Of reports of vLLM's start (bench/estimate/points_serving.csv): what sampling needs for each number of the
 * logits of all requests, what CUDA graphs take for a layer, and what is neither torch's nor counted before.
 */
enum { SAMPLER_LOW = 12, SAMPLER = 39, SAMPLER_HIGH = 50 };
static const double graph_of_layer[3] = { 3 * MIB, 8 * MIB, 24 * MIB };
static const double beside_torch[3] = { 10 * MIB, 150 * MIB, 600 * MIB };

/* Above 70 GiB, and no A100, which gains nothing by more (EngineArgs.get_batch_defaults). */
void vllm_defaults(const hardware *h, vllm_settings *s) {
    bool large = h->memory >= (UINT64_C(70) << 30) && h->f8 > 0;
    s->batched = large ? 8192 : 2048;
    s->sequences = large ? 1024 : 256;
}

/* ---- the run over the largest batch ---- */

static served_form form_of(const vllm_settings *s) {
    return (served_form){ .quantization = s->quantization, .wide = s->wide, .gpus = s->gpus };
}

static double sampler_bytes(const heads *h, const vllm_settings *s, int for_each) {
    double kept = (double)(s->batched * h->channels) * (s->wide ? 4 : 2);
    return (double)(s->sequences * h->vocabulary) * for_each + kept;
}

static interval activations(const heads *h, const vllm_settings *s) {
    served_form f = form_of(s);
    double rows = (double)s->batched;
    double low = fmax(rows * served_row(h, &f, true), sampler_bytes(h, s, SAMPLER_LOW));
    double likely = fmax(rows * served_row(h, &f, false), sampler_bytes(h, s, SAMPLER));
    double high = fmax(rows * served_row(h, &f, false) * 1.2, sampler_bytes(h, s, SAMPLER_HIGH));
    return (interval){ (uint64_t)low, (uint64_t)likely, (uint64_t)high };
}

static interval graphs(const heads *h, const vllm_settings *s) {
    double n = s->eager ? 0 : (double)h->layers;
    return (interval){ (uint64_t)(n * graph_of_layer[0]), (uint64_t)(n * graph_of_layer[1]),
                       (uint64_t)(n * graph_of_layer[2]) };
}

/* Counts of the tokens that each request has seen are kept for penalties; collectives have buffers. */
static interval libraries(const heads *h, const vllm_settings *s) {
    double counts = (double)(s->sequences * h->vocabulary) * 4, sent = s->gpus > 1 ? 200 * MIB : 0;
    return (interval){ (uint64_t)beside_torch[0], (uint64_t)(beside_torch[1] + counts + sent),
                       (uint64_t)(beside_torch[2] + counts + 3 * sent) };
}

/* ---- pages ---- */

/* Layers that see all and those that see a window only have pages of their own kind, in groups of equally
 * many layers: a block of a group is as many pages as it has layers. */
typedef struct {
    double page;              /* bytes, of keys and values of `block` tokens in one layer */
    double layers;            /* of a group */
    double far, near, window; /* groups */
    double block, batched;
} pages;

static pages pages_of(const heads *h, const vllm_settings *s) {
    double near = h->window ? (double)h->near : 0, far = (double)h->layers - near, most = fmax(near, far);
    double least = near > 0 && far > 0 ? fmin(near, far) : most;
    double layers = most < 1.25 * least ? most : least;
    double width = s->cache == VLLM_CACHE_FP8 ? 1 : s->wide ? 4 : 2;
    return (pages){ .page = served_token(h, s->gpus, width) * (double)s->block,
                    .layers = layers,
                    .far = ceil(far / layers),
                    .near = ceil(near / layers),
                    .window = (double)h->window,
                    .block = (double)s->block,
                    .batched = (double)s->batched };
}

/* Blocks of one text: behind a window lies what the next batch brings, and one more for where it begins. */
static double blocks_of(const pages *p, double tokens) {
    double seen = fmin(p->window - 1 + p->batched, tokens);
    double near = fmin(ceil(seen / p->block) + 1, ceil(tokens / p->block) + 1);
    return p->far * ceil(tokens / p->block) + p->near * near;
}

static double block_bytes(const pages *p) { return p->page * p->layers; }

static double longest_of(const pages *p, double bytes) {
    double blocks = floor(bytes / block_bytes(p)), low = 0, high = 1 << 30;
    while (high - low > 1) {
        double middle = floor((low + high) / 2);
        *(blocks_of(p, middle * p->block) <= blocks ? &low : &high) = middle;
    }
    return low * p->block;
}

static uint64_t tokens_of(const pages *p, uint64_t bytes) {
    double blocks = floor((double)bytes / block_bytes(p));
    return (uint64_t)(floor(blocks / (p->far + p->near)) * p->block);
}

static void fill_cache(const pages *p, const vllm_settings *s, vllm_result *r) {
    const uint64_t bytes[3] = { r->cache.low, r->cache.likely, r->cache.high };
    double one = blocks_of(p, (double)s->context);
    uint64_t longest[3];
    for (int i = 0; i < 3; i++) {
        r->concurrency[i] = floor((double)bytes[i] / block_bytes(p)) / one;
        longest[i] = (uint64_t)fmin(longest_of(p, (double)bytes[i]), 1 << 30);
    }
    r->tokens = (interval){ tokens_of(p, bytes[0]), tokens_of(p, bytes[1]), tokens_of(p, bytes[2]) };
    r->longest = (interval){ longest[0], longest[1], longest[2] };
}

/* ---- the whole ---- */

status vllm_check(const model *m, const model_config *c, const vllm_settings *s) {
    TRY(served_check(m, c, s->gpus, "vLLM", "vllm"));
    if (s->block > 256 || (s->block & (s->block - 1)) || s->block == 2 || s->block == 4)
        return status_set(STATUS_INVALID,
                          "--block-size %lld: vLLM has pages of 1, 8, 16, 32, 64, 128 and 256",
                          (long long)s->block);
    if (s->sequences > s->batched)
        return status_set(STATUS_INVALID,
                          "--max-num-seqs %lld is more than the tokens of a batch, --max-num-batched-tokens "
                          "%lld",
                          (long long)s->sequences, (long long)s->batched);
    return STATUS_OK;
}

static uint64_t left(uint64_t share, double taken) {
    return (double)share > taken ? share - (uint64_t)taken : 0;
}

static void take(const heads *h, const hardware *on, const vllm_settings *s, vllm_result *r) {
    const interval *parts[] = { &r->weights, &r->activations, &r->graphs, &r->libraries };
    double low = 0, likely = 0, high = 0;
    pages p = pages_of(h, s);
    for (int i = 0; i < 4; i++)
        low += (double)parts[i]->low, likely += (double)parts[i]->likely, high += (double)parts[i]->high;
    r->needed = blocks_of(&p, (double)s->context) * block_bytes(&p) * (double)s->requests;
    r->share = (uint64_t)((double)on->memory * s->utilization);
    if (on->memory)
        r->cache = (interval){ left(r->share, high), left(r->share, likely), left(r->share, low) };
    else
        r->cache = (interval){ (uint64_t)r->needed, (uint64_t)r->needed, (uint64_t)r->needed };
    fill_cache(&p, s, r);
}

status vllm_estimate(const model *m, const model_config *c, const hardware *on, const vllm_settings *s,
                     vllm_result *r) {
    heads h;
    weights w;
    *r = (vllm_result){ 0 };
    heads_of(c, &h);
    status result = weights_open(m, &w);
    if (result == STATUS_OK) {
        served_form f = form_of(s);
        double bytes = served_weights(&w, c, &h, &f), spread = f.quantization == SERVED_PLAIN ? 0.003 : 0.03;
        r->weights =
            (interval){ (uint64_t)(bytes * (1 - spread)), (uint64_t)bytes, (uint64_t)(bytes * (1 + spread)) };
        r->activations = activations(&h, s);
        r->graphs = graphs(&h, s);
        r->libraries = libraries(&h, s);
        r->parameters = (uint64_t)w.elements;
        take(&h, on, s, r);
    }
    weights_close(&w);
    return result;
}
