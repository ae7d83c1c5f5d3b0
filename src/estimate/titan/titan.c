#include "estimate/titan/titan.h"

#include <math.h>

#include "estimate/weights.h"

/* ---- sizes ---- */

/* Numbers of weights; `copies`: of a layer's experts, all of them. */
typedef struct {
    double block, copies, matrices; /* of a layer: dense ones, experts, and matrices among the dense */
    double table, head;             /* of tokens; of logits, which is 0 where it is tied to the table */
} numbers;

static status numbers_of(const model *m, const heads *h, numbers *n, double *all) {
    weights w;
    double layers = (double)h->layers;
    *n = (numbers){ .block = 0 };
    status result = weights_open(m, &w);
    for (uint32_t i = 0; result == STATUS_OK && i < w.items.count; i++) {
        const weights_item *x = weights_at(&w, i);
        double count = weights_elements(x);
        if (x->block < 0 && x->part == WEIGHTS_HEAD)
            n->head += count;
        else if (x->block < 0)
            n->table += count;
        else if (x->copies > 1)
            n->copies += count / layers;
        else
            n->block += count / layers, n->matrices += x->rows > 1 ? count / layers : 0;
    }
    *all = w.elements;
    weights_close(&w);
    return result;
}

/* Of one device and one micro-batch. */
typedef struct {
    heads h;
    numbers n;
    const titan_settings *s;
    double tokens, own; /* of a sequence's part; those between products, where tensors divide them */
    double channels, queries, keys; /* numbers of a token */
    double inner;                   /* of the feed-forward's; of experts, times those that a token meets */
    double shares;                  /* devices that a dense weight is shared out among, besides tensors */
} sizes;

static double tensor_of(const sizes *z) { return (double)z->s->tensor; }

static int64_t shards_of(const titan_settings *s) {
    return s->gpus / (s->tensor * s->pipeline * s->replicas);
}

static status sizes_of(const model *m, const model_config *c, const titan_settings *s, sizes *z,
                       double *all) {
    *z = (sizes){ .s = s, .shares = (double)shards_of(s) };
    heads_of(c, &z->h);
    const heads *h = &z->h;
    double t = (double)s->tensor;
    z->tokens = (double)(s->batch / s->passes) * (double)s->context / (double)s->contexts;
    z->own = z->tokens / t;
    z->channels = (double)h->channels;
    z->queries = (double)(h->heads * h->head_size) / t;
    z->keys = (double)(h->kv_heads * h->head_size) / t;
    double met = h->experts ? (double)(h->chosen + h->shared) : 1;
    z->inner = (double)h->inner * met / t;
    return numbers_of(m, h, &z->n, all);
}

/* ---- weights ---- */

static double block_numbers(const sizes *z) {
    return z->n.block / tensor_of(z) + z->n.copies / (double)z->s->experts;
}

/* A block's weights as they compute: in bf16; what FSDP sends in 8 bits stays so. */
static double block_bytes(const sizes *z) {
    double eight = z->s->gathers_float8 ? z->n.matrices / tensor_of(z) : 0;
    return 2 * block_numbers(z) - eight;
}

static double table_numbers(const sizes *z) { return z->n.table / tensor_of(z); }
static double head_numbers(const sizes *z) { return z->n.head / tensor_of(z); }

/* Experts are shared out among the devices that divide tensors and contexts too, so that each has as much of
 * them as of all else. */
static double share_of(const sizes *z, double layers, bool first, bool last) {
    double dense = layers * z->n.block + (first ? z->n.table : 0) + (last ? z->n.head : 0);
    if (last && !first && z->n.head <= 0) dense += z->n.table; /* a tied table stands there once more */
    return (dense + layers * z->n.copies) / (tensor_of(z) * z->shares);
}

/* ---- what a block keeps ---- */

/* Rows of a layer's attention: its result, and a number a row and head. */
static double attention_result(const sizes *z) {
    return z->tokens * (2 * z->queries + 4 * (double)z->h.heads / tensor_of(z));
}

/* All of it: what came in, the sum with attention, both normed and gathered for the products; queries, keys,
 * values; gate, up, the gate's silu, their product. A compiled block computes again what is cheap: silu, the
 * product, and norms that no collective stands behind. */
static double all_kept(const sizes *z) {
    double c = z->channels, kept = 2 * 2 * z->own * c + attention_result(z);
    double normed = 2 * 2 * z->tokens * c, wide = 2 * z->tokens * z->inner;
    kept += 2 * z->tokens * (z->queries + 2 * z->keys);
    kept += (z->s->compiled ? 2 : z->h.gated ? 4 : 2) * wide;
    if (z->h.experts) kept += 2 * z->tokens * c * (double)z->h.chosen / tensor_of(z);
    return kept + (z->s->compiled && z->s->tensor == 1 ? 0 : normed);
}

/* Every second product's result, from the first on (of queries, values, gates, and the last), attention's,
 * and what a collective has scattered. A compiled block does not keep what no gradient reads. */
static double some_kept(const sizes *z) {
    double c = z->channels, last = z->s->compiled ? 0 : 2 * z->tokens * c;
    double scattered = z->s->tensor > 1 ? (z->s->compiled ? 1 : 2) * 2 * z->own * c : 0;
    return 2 * z->own * c + 2 * z->tokens * (z->queries + z->keys + z->inner) + attention_result(z) + last +
           scattered;
}

static double kept_of(const sizes *z) {
    switch (z->s->checkpoint) {
    case TITAN_SELECTIVE: return some_kept(z);
    case TITAN_FULL: return 2 * z->own * z->channels;
    case TITAN_KEEPS: break;
    }
    return all_kept(z);
}

/* While a block is differentiated: what is computed again, gradients of the feed-forward's rows, of what it
 * gave and of what it got; of float8 a copy of the largest operand, and of a weight that came in bf16. */
static double differentiating(const sizes *z) {
    double again = all_kept(z) - (z->s->checkpoint == TITAN_KEEPS ? all_kept(z) : kept_of(z));
    double wide = 2 * z->tokens * z->inner, narrow = 2 * z->tokens * z->channels;
    double codes = z->s->float8 ? fmax(wide, narrow) / 2 : 0;
    if (z->s->float8 && !z->s->gathers_float8) codes += z->n.matrices / tensor_of(z) / 2;
    return fmax(again, 0) + 3 * wide + 2 * narrow + codes;
}

/* ---- the loss ---- */

static double cut_of(const sizes *z) { return z->s->loss == TITAN_LOSS_CHUNKED ? TITAN_CHUNKS : 1; }

/* Logits in bf16 and f32 and their log-softmax; on the way back the log-softmax, and two more in f32. Where
 * products are divided it is written out: one more of these. Compiled, it reads logits in bf16 and makes
 * gradients in bf16; divided, it keeps the log-softmax as well. */
static double logits_of(const sizes *z) {
    bool fused = z->s->compiled && !z->s->eager_loss, divided = z->s->tensor > 1;
    double each = fused ? (divided ? 8 : 4) : divided ? 16 : 12;
    return each * z->tokens * (double)z->h.vocabulary / tensor_of(z) / cut_of(z);
}

/* Logits in bf16 and in f32 lie side by side and are given back before backward: room for one tensor of f32
 * and half of another. The half stays empty until gradients are rounded to bf16. A compiled loss has no f32,
 * but both published runs with one hold as much more. */
static double left_of(const sizes *z) {
    return 2 * z->tokens * (double)z->h.vocabulary / tensor_of(z) / cut_of(z);
}

/* The last norm's result, gathered for the head; of chunks also its gradient in f32. */
static double head_input(const sizes *z) {
    return z->tokens * z->channels * (z->s->loss == TITAN_LOSS_CHUNKED ? 2 + 4 : 2);
}

/* ---- pipelines ---- */

static int64_t stages_of(const titan_settings *s) { return s->pipeline * s->stages_each; }

/* Table and head count as a layer each where layers are shared out. */
double titan_layers(const titan_settings *s, int64_t all, int64_t stage) {
    int64_t stages = stages_of(s);
    if (stages == 1) return (double)all;
    int64_t each = (all + 2) / stages, rest = (all + 2) % stages;
    return (double)(each + (stage < rest) - (stage == 0) - (stage == stages - 1));
}

/* Micro-batches whose blocks' inputs lie on a device at most; of virtual stages each counts. */
static double in_flight(const titan_settings *s, int64_t device) {
    int64_t behind = s->pipeline - device;
    int64_t most = s->stages_each == 1 ? behind : 2 * (behind - 1) + (s->stages_each - 1) * s->pipeline + 1;
    int64_t all = s->passes * s->stages_each;
    return (double)(most < all ? most : all);
}

/* ---- a device ---- */

typedef struct {
    double weights, gradients, whole; /* shares, and what is gathered for the step's whole length */
    double layers, virtual_layers;
    bool first, last;
} holding;

static holding hold(const sizes *z, int64_t device) {
    const titan_settings *s = z->s;
    holding h = { .first = device == 0, .last = device == s->pipeline - 1 };
    for (int64_t i = 0; i < s->stages_each; i++)
        h.layers += titan_layers(s, z->h.layers, device + i * s->pipeline);
    h.virtual_layers = h.layers / (double)s->stages_each;
    double share = share_of(z, h.layers, h.first, h.last);
    h.weights = h.gradients = 4 * share;
    double ends = (h.first ? table_numbers(z) : 0) + (h.last ? head_numbers(z) : 0);
    /* A pipeline's weights stay gathered from the first micro-batch to the last, and gradients of all of them
     * add up in f32 before they are sent. Else the ends are whole, and of blocks one and the next. */
    if (s->pipeline > 1)
        h.whole = h.layers * (block_bytes(z) + 4 * block_numbers(z)) + (2 + 4) * ends;
    else
        h.whole = 2 * block_bytes(z) + 2 * ends;
    return h;
}

/* Sends: a block is gathered into a buffer of its own, and gradients go out of one in f32, which streams
 * keep. So are the shares of gradients that they make. */
static double streams_of(const sizes *z, const holding *h, bool counted) {
    double ends = fmax(h->first ? table_numbers(z) : 0, h->last ? head_numbers(z) : 0);
    double sent = fmax(block_numbers(z), ends);
    return z->shares > 1 || z->s->replicas > 1 ? block_bytes(z) + 4 * sent + (counted ? 0 : h->gradients) : 0;
}

/* The higher of three moments: the loss, or a pipeline's end of forward; the first block's way back, where
 * all is kept; the last's, where all gradients are there. Then the update. */
static titan_stage stage_of(const sizes *z, int64_t device) {
    const titan_settings *s = z->s;
    holding h = hold(z, device);
    double kept = kept_of(z), flying = in_flight(s, device), block = kept * h.virtual_layers * flying;
    double loss = h.last ? logits_of(z) + head_input(z) : 0;
    double step = 2 * block_numbers(z) + differentiating(z);
    bool adds = s->accumulate > 1; /* shares of gradients are there from the pass before */
    titan_stage r = { .weights = h.weights,
                      .optimizer = 2 * h.weights,
                      .gathered = h.whole,
                      .layers = h.layers,
                      .kept = flying };
    double early = block + fmax(loss, step), late = kept + h.gradients + step;
    double update = s->foreach ? h.weights - h.whole : -h.whole;
    if (adds) early += h.gradients;
    r.peak_in = "backward";
    if (early >= late && early >= h.gradients + update) {
        r.activations = block, r.logits = loss >= step ? loss : 0, r.temporaries = loss >= step ? 0 : step;
        r.gradients = adds ? h.gradients : 0;
    } else if (late >= h.gradients + update) {
        r.activations = kept, r.temporaries = step, r.gradients = h.gradients;
    } else {
        r.peak_in = "update", r.gathered = 0, r.gradients = h.gradients;
        r.temporaries = s->foreach ? h.weights : 0;
    }
    r.streams = streams_of(z, &h, r.gradients > 0);
    r.left = r.logits > 0 ? left_of(z) : 0;
    if (s->gathers_float8) {
        double eight = z->n.matrices / tensor_of(z);
        r.saved = eight * (s->pipeline > 1 ? h.layers : 2) + eight;
    }
    r.live = r.weights + r.gradients + r.optimizer + r.gathered + r.activations + r.logits + r.temporaries;
    return r;
}

double titan_held(const titan_stage *at) { return at->live + at->streams + at->left; }

status titan_estimate(const model *m, const model_config *c, const titan_settings *s, titan_result *r) {
    sizes z;
    *r = (titan_result){ .stages = s->pipeline, .shards = shards_of(s) };
    TRY(sizes_of(m, c, s, &z, &r->parameters));
    for (int64_t i = 0; i < s->pipeline; i++) {
        titan_stage at = stage_of(&z, i);
        r->share = fmax(r->share, at.weights / 4);
        if (i && titan_held(&at) <= titan_held(&r->at)) continue;
        r->at = at, r->stage = i;
    }
    return STATUS_OK;
}

/* ---- what goes together ---- */

static status indivisible(const char *what, int64_t number, const char *option, int64_t by) {
    return status_set(STATUS_INVALID, "%s: %lld can't be divided by --%s %lld", what, (long long)number,
                      option, (long long)by);
}

/* Experts are divided among the devices of tensors, contexts and shares together. */
int64_t titan_least_devices(const titan_settings *s) {
    int64_t dense = s->tensor * s->contexts, a = dense, b = s->experts;
    while (b) {
        int64_t rest = a % b;
        a = b, b = rest;
    }
    return s->pipeline * s->replicas * dense * (s->experts / a);
}

static status check_devices(const titan_settings *s) {
    int64_t each = s->tensor * s->pipeline * s->contexts * s->replicas;
    if (s->gpus % each)
        return status_set(STATUS_INVALID,
                          "--gpus %lld: tensor, pipeline and context parallelism take %lld devices for %lld "
                          "%s; say a multiple of %lld",
                          (long long)s->gpus, (long long)each, (long long)s->replicas,
                          s->replicas == 1 ? "copy" : "copies", (long long)each);
    int64_t sparse = s->gpus / (s->pipeline * s->replicas);
    if (sparse % s->experts)
        return indivisible("devices of a stage", sparse, "expert-parallel-degree", s->experts);
    return STATUS_OK;
}

static status check_pipeline(const heads *h, const titan_settings *s) {
    int64_t stages = stages_of(s);
    if (s->stages_each > 1 && s->pipeline < 2)
        return status_set(STATUS_INVALID, "--pipeline-parallel-schedule is of several stages; say "
                                          "--pipeline-parallel-degree as well");
    if (s->pipeline == 1 && s->passes > 1)
        return status_set(STATUS_INVALID, "--num-pp-microbatches is of a pipeline; say "
                                          "--pipeline-parallel-degree as well");
    if (s->batch % s->passes)
        return indivisible("samples of --batch", s->batch, "num-pp-microbatches", s->passes);
    if (stages > TITAN_MOST_STAGES || (stages > 1 && (h->layers + 2) / stages < 2))
        return status_set(
            STATUS_INVALID,
            "%lld layers over %lld stages of the pipeline: the first and the last one count table "
            "and head as a layer, and would have none",
            (long long)h->layers, (long long)stages);
    return STATUS_OK;
}

status titan_check(const model *m, const model_config *c, const titan_settings *s) {
    heads h;
    if (!heads_of(c, &h) || c->family != FAMILY_DECODER)
        return status_set(STATUS_INVALID,
                          "--framework torchtitan is for decoders such as llama's, and %s is none", m->name);
    const struct {
        const char *what;
        int64_t number, by;
        const char *option;
    } divisions[] = { { "heads", h.heads, s->tensor, "tensor-parallel-degree" },
                      { "heads of keys and values", h.kv_heads, s->tensor, "tensor-parallel-degree" },
                      { "the feed-forward's width", h.inner, s->tensor, "tensor-parallel-degree" },
                      { "tokens of --context", s->context, s->tensor * s->contexts,
                        s->contexts > 1 ? "context-parallel-degree and tensors together"
                                        : "tensor-parallel-degree" },
                      { "experts", h.experts, s->experts, "expert-parallel-degree" } };
    for (size_t i = 0; i < sizeof divisions / sizeof *divisions; i++)
        if (divisions[i].number % divisions[i].by)
            return indivisible(divisions[i].what, divisions[i].number, divisions[i].option, divisions[i].by);
    if (s->experts > 1 && !h.experts)
        return status_set(STATUS_INVALID, "--expert-parallel-degree %lld: the model has no experts",
                          (long long)s->experts);
    if (s->gathers_float8 && s->float8 != TITAN_TENSORWISE)
        return status_set(STATUS_INVALID,
                          "--float8-all-gather: torchao sends weights in 8 bits with one scale a "
                          "tensor alone; say --float8 tensorwise");
    TRY(check_devices(s));
    return check_pipeline(&h, s);
}
