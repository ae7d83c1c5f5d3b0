#include "estimate/titan/titan_time.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- what a device reaches ---- */

/* Of the rate of 16 bits: cuBLAS multiplied 8,192 x 8,192 x 8,192 with 738 trillion operations a second on an
 * H200 (bench/results/gpu.md). Of 8 bits by as much less as the best products of an H100 reach of their rate,
 * 0.709 to 0.803 (github.com/stas00/ml-engineering, compute/accelerator, "Maximum Achievable Matmul"). */
static const double products_16 = 0.746, products_8 = 0.746 * 0.709 / 0.803;

/* FlashAttention-2, which torch's attention is: 35 % of an H100 at its best (arXiv:2407.08608), forward and
 * backward of causal texts less; of an A100, whose instructions it was written for, 50 to 73 %
 * (arXiv:2307.08691). */
static const double flash_hopper = 0.31, flash_ampere = 0.6;

/* Of the memory's rate, what kernels that move long rows reach. */
static const double moves = 0.85;

/* Of a link's rate: 370 of 450 GB/s, for protocols take a fifth (github.com/NVIDIA/nccl-tests/issues/212). */
static const double sends = 370.0 / 450;

/* What async tensor parallelism hides of collectives: of 70B on 256 devices, the one published pair of runs
 * with and without it, a step got shorter by a third of what these take here. */
static const double hidden = 1.0 / 3;

static const double begin = 10e-6; /* seconds of beginning a kernel from Python */

/* Published tokens a second are between these shares of the likely ones (bench/results/titan.md). */
static const double slowest = 0.7, fastest = 1.25;

enum { NODE = 8 }; /* devices of a node */

static double flash_of(const hardware *h) {
    return strtod(h->capability, NULL) >= 9 ? flash_hopper : flash_ampere;
}

/* ---- sizes ---- */

/* Of a device, a token of its part of a micro-batch, and a layer. */
typedef struct {
    const titan_settings *s;
    const hardware *h;
    heads of;
    double tensor, contexts, shards;
    double tokens;  /* of its part of a micro-batch */
    double c;       /* channels */
    double q, k, f; /* numbers of queries, of keys, within the feed-forward, divided by tensors */
    double looks;   /* tokens that one looks back at, at the mean of layers */
} sizes;

static double mean_looks(const heads *h, int64_t context) {
    double all = (double)context, w = (double)h->window, far = all / 2;
    double near = h->window && w < all ? w - w * w / (2 * all) : far;
    double share = h->layers ? (double)h->near / (double)h->layers : 0;
    return share * near + (1 - share) * far;
}

static sizes sizes_of(const model_config *c, const titan_settings *s, const hardware *h, double shards) {
    sizes z = { .s = s,
                .h = h,
                .tensor = (double)s->tensor,
                .contexts = (double)s->contexts,
                .shards = shards,
                .tokens = (double)(s->batch / s->passes) * (double)s->context / (double)s->contexts };
    heads_of(c, &z.of);
    z.c = (double)z.of.channels;
    z.q = (double)(z.of.heads * z.of.head_size) / z.tensor;
    z.k = (double)(z.of.kv_heads * z.of.head_size) / z.tensor;
    z.f = (double)z.of.inner / z.tensor;
    z.looks = mean_looks(&z.of, s->context);
    return z;
}

/* Weights of a layer's products, on one device: queries and the last one, keys and values, the
 * feed-forward's. */
static double layer_numbers(const sizes *z) {
    return z->c * (2 * z->q + 2 * z->k + (z->of.gated ? 3 : 2) * z->f);
}

/* Of these what a block computes again: all but its last product, which nothing in backward reads; or every
 * second product: of keys, the one behind attention, the feed-forward's second one. */
static double again_numbers(const sizes *z) {
    switch (z->s->checkpoint) {
    case TITAN_FULL: return layer_numbers(z) - z->c * z->f;
    case TITAN_SELECTIVE: return z->c * (z->k + z->q + (z->of.gated ? z->f : 0));
    case TITAN_KEEPS: break;
    }
    return 0;
}

static double head_numbers(const sizes *z) { return z->c * (double)z->of.vocabulary / z->tensor; }

/* ---- kernels between products ---- */

/* Of a token and layer, in either direction: positions are complex numbers in f32, which nothing fuses, and
 * keys and values are repeated for the heads that share them. */
static double turning_bytes(const sizes *z) {
    double turned = z->of.rotated ? 20 * (z->q + z->k) : 0;
    return turned + (z->of.kv_heads < z->of.heads ? 2 * 2 * (z->q + z->k) : 0);
}

/* Bytes of a token and layer, forward and backward. An eager norm is written out, in f32; a compiled one
 * reads and writes once, with the sum before it. */
static double forward_bytes(const sizes *z) {
    bool c = z->s->compiled;
    double rows = z->c / z->tensor, norms = 2 * (c ? 4 : 38) * rows, sums = 2 * (c ? 2 : 6) * rows;
    double gate = z->of.gated ? (c ? 6 : 10) * z->f : 4 * z->f;
    double merged = z->contexts > 1 ? 36 * z->q * z->contexts : 0; /* of a ring's parts, in f32 */
    return norms + sums + turning_bytes(z) + gate + merged;
}

static double backward_bytes(const sizes *z) {
    bool c = z->s->compiled;
    double rows = z->c / z->tensor, norms = 2 * (c ? 10 : 60) * rows, sums = 2 * (c ? 2 : 6) * rows;
    double gate = z->of.gated ? (c ? 12 : 18) * z->f : 6 * z->f;
    double shared = (c ? 10 : 18) * rows; /* gradients of what several products read add up */
    return norms + sums + turning_bytes(z) + gate + shared;
}

/* Coding products' operands in 8 bits: a pass for the largest, then one that reads, and writes it as products
 * want it. `again`: of the forward's, for its results were not kept. */
static double coding_bytes(const sizes *z, double again) {
    if (!z->s->float8) return 0;
    double in = 2 * z->c + z->q + z->f, out = z->q + 2 * z->k + 2 * z->c + (z->of.gated ? 2 : 1) * z->f;
    return 5 * in * (2 + again) + 6 * out;
}

/* The loss: logits in f32, their log-softmax, and the way back; compiled, twice read and once written. */
static double loss_bytes(const sizes *z) {
    bool fused = z->s->compiled && !z->s->eager_loss;
    return (fused ? 8 : 32) * (double)z->of.vocabulary / z->tensor;
}

/* ---- what devices send ---- */

/* Bytes a second of a ring of `size` devices that lie `apart` in the order of devices. Rings that leave a
 * node use its links to others together. */
static double ring_rate(const sizes *z, double size, double apart) {
    double inside = fmax(1, NODE / apart);
    if (size * apart <= NODE) return z->h->peers * sends;
    return fmin(z->h->peers, z->h->network * inside) * sends;
}

/* Seconds in which each device gets what all others have of `bytes`. */
static double gathering(const sizes *z, double bytes, double size, double apart) {
    return size > 1 ? bytes * (size - 1) / size / ring_rate(z, size, apart) : 0;
}

/* Of a layer's tensors: what products read is gathered, in 8 bits if they are; what they make is scattered,
 * in 16. `gathers`, `scatters`: how often. */
static double of_tensors(const sizes *z, double gathers, double scatters) {
    double rows = z->tokens * z->c, shown = z->s->sends_beside ? 1 - hidden : 1;
    return shown * gathering(z, rows * (gathers * (z->s->float8 ? 1 : 2) + scatters * 2), z->tensor, 1);
}

/* Of a layer's contexts: keys and values of all heads, `times`. */
static double of_contexts(const sizes *z, double times) {
    return gathering(z, times * 2 * 2 * z->q * z->tokens * z->contexts, z->contexts, z->tensor);
}

/* ---- a micro-batch ---- */

static void add(titan_time *to, const titan_time *x, double times) {
    to->products += times * x->products, to->attention += times * x->attention;
    to->memory += times * x->memory, to->sending += times * x->sending;
}

static double seconds(const titan_time *x) { return x->products + x->attention + x->memory + x->sending; }

typedef struct {
    titan_time forward, backward;
} passes;

static double rate_of_products(const sizes *z) {
    return z->s->float8 ? z->h->f8 * products_8 : z->h->f16 * products_16;
}

/* A layer of a micro-batch. What is computed again is backward's. */
static passes layer(const sizes *z) {
    bool full = z->s->checkpoint == TITAN_FULL, keeps = z->s->checkpoint == TITAN_KEEPS;
    double t = z->tokens, all = layer_numbers(z), again = again_numbers(z);
    double flash = 4 * z->looks * z->q / (z->h->f16 * flash_of(z->h)), memory = z->h->bandwidth * moves;
    double coded = coding_bytes(z, again / all), in = z->s->float8 ? 5 * (2 * z->c + z->q + z->f) : 0;
    double forward = forward_bytes(z);
    return (passes){
        .forward = { .products = 2 * t * all / rate_of_products(z),
                     .attention = t * flash,
                     .memory = t * (forward + in) / memory,
                     .sending = of_tensors(z, 2, 2) + of_contexts(z, 1) },
        .backward = { .products = 2 * t * (2 * all + again) / rate_of_products(z),
                      .attention = t * flash * (2.5 + full),
                      .memory = t * (backward_bytes(z) + (keeps ? 0 : forward) + coded - in) / memory,
                      .sending = of_tensors(z, 2 + (keeps ? 0 : 2), 2 + full) + of_contexts(z, 2 + full) }
    };
}

static passes head(const sizes *z) {
    double once = 2 * z->tokens * head_numbers(z) / (z->h->f16 * products_16),
           loss = z->tokens * loss_bytes(z) / (z->h->bandwidth * moves);
    double sent = gathering(z, 2 * z->tokens * z->c, z->tensor, 1);
    return (passes){ .forward = { .products = once, .memory = loss / 2, .sending = sent },
                     .backward = { .products = 2 * once, .memory = loss / 2, .sending = sent } };
}

/* ---- a step ---- */

/* The device of the pipeline whose layers, and head, take longest. */
static passes slowest_device(const sizes *z, double *layers) {
    const titan_settings *s = z->s;
    passes l = layer(z), h = head(z), most = { .forward = { 0 } };
    for (int64_t device = 0; device < s->pipeline; device++) {
        passes p = { .forward = { 0 } };
        double n = 0;
        for (int64_t i = 0; i < s->stages_each; i++)
            n += titan_layers(s, z->of.layers, device + i * s->pipeline);
        add(&p.forward, &l.forward, n), add(&p.backward, &l.backward, n);
        if (device == s->pipeline - 1) add(&p.forward, &h.forward, 1), add(&p.backward, &h.backward, 1);
        if (seconds(&p.forward) + seconds(&p.backward) <= seconds(&most.forward) + seconds(&most.backward))
            continue;
        most = p, *layers = n;
    }
    return most;
}

/* What FSDP sends is hidden by what computes beside it, but for the first block's weights and the last one's
 * gradients. Without a pipeline weights are gathered for forward and for backward; a pipeline keeps them, and
 * sends gradients behind its last micro-batch. Copies out of what was gathered, and into what is sent, go
 * through the device's memory. */
static void add_shares(const sizes *z, const passes *p, double numbers, double layers, titan_time *r) {
    bool pipe = z->s->pipeline > 1;
    double copies = (double)z->s->replicas, each = z->s->gathers_float8 ? 1 : 2, n = z->shards,
           far = z->tensor;
    if (n * copies <= 1) return;
    double gather = gathering(z, each * numbers, n, far), scatter = gathering(z, 4 * numbers, n, far);
    if (copies > 1) scatter += 2 * gathering(z, 4 * numbers / n, copies, far * n);
    double times = pipe ? 1 : 2, beside = pipe ? 0 : gather;
    double first = gather / (layers + 1), last = scatter / (layers + 1);
    r->sending += first + last + fmax(0, gather - first - seconds(&p->forward)) +
                  fmax(0, beside + scatter - last - seconds(&p->backward));
    r->memory += numbers * (times * 2 * each + 4 + (pipe ? 4 : 2)) / (z->h->bandwidth * moves);
}

/* Kernels of a layer, forward and backward. */
static double kernels(const titan_settings *s) { return s->compiled ? 60 : 150; }

static void find(const sizes *z, const titan_result *t, titan_time *r) {
    const titan_settings *s = z->s;
    double layers = 0, micro = (double)s->passes;
    passes p = slowest_device(z, &layers);
    *r = (titan_time){ .step = 0 };
    add(r, &p.forward, micro), add(r, &p.backward, micro);
    double once = seconds(r), least = micro * layers * kernels(s) * begin;
    r->idle = once / micro * (double)(s->pipeline - 1) / (double)s->stages_each;
    r->begins = fmax(0, least - once);
    add_shares(z, &p, t->share * z->shards, layers, r);
    double a = (double)s->accumulate; /* each pass gathers and sends */
    r->products *= a, r->attention *= a, r->memory *= a, r->sending *= a, r->idle *= a, r->begins *= a;
    r->update = t->share * (s->foreach ? 96 : 40) / (z->h->bandwidth * moves);
    r->step = seconds(r) + r->idle + r->begins + r->update;
    r->tokens = a * micro * z->tokens / (z->tensor * (double)s->pipeline) / r->step;
    r->tokens_low = r->tokens * slowest, r->tokens_high = r->tokens * fastest;
}

static const char *missing(const heads *of, const titan_settings *s, const hardware *h) {
    if (of->experts) return "seconds of experts, whose tokens are sent to and fro, have no rule";
    if (!(h->bandwidth > 0) || !(h->f16 > 0))
        return "seconds have no rule: the device's file has no rate for 16 bits, or of its memory";
    if (s->float8 && !(h->f8 > 0)) return "seconds have no rule: the device's file has no rate for 8 bits";
    if (h->no_flash || h->no_fused) return "seconds of attention without flash attention have no rule";
    if (s->gpus > 1 && !(h->peers > 0))
        return "seconds have no rule: the device's file does not say what it sends to others of its node";
    if (s->gpus > NODE && !(h->network > 0))
        return "seconds have no rule: the device's file does not say what its node sends to others";
    return NULL;
}

const char *titan_time_find(const model_config *c, const titan_settings *s, const hardware *h,
                            const titan_result *t, titan_time *r) {
    sizes z = sizes_of(c, s, h, (double)t->shards);
    const char *why = missing(&z.of, s, h);
    if (!why) find(&z, t, r);
    return why;
}
