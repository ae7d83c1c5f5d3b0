#include "estimate/torch/torch_time.h"

#include <math.h>

/* The share of a device's rate that public runs reach falls as it multiplies more for each byte that its
 * memory gives: kernels between products wait for memory. An A100 of 80 GB with 153 operations a byte reaches
 * 0.55 where nothing is in the way, an H100 with 295 0.40 (llm-foundry's tables). Between a third of that, as
 * in months of training with interruptions (Llama 3), and a third more lie nearly all
 * (bench/results/hours.md). */
static const double share_usual = 0.55, intensity_usual = 150, slowest = 0.38, fastest = 1.35;

/* Of convolutions in 16 bits: an A100 trains ResNet-50 with 2,600 images a second
 * (pytorch-image-models#1491), a V100 with 727 (NVIDIA's DeepLearningExamples), 0.20 and 0.14 of their rates;
 * in f32 as usual. */
static const double convolving = 0.33;

static double share_likely(const torch_settings *s, const hardware *h, const torch_result *t, double peak) {
    double intensity = h->bandwidth > 0 ? peak / h->bandwidth : intensity_usual;
    double share =
        intensity > intensity_usual ? share_usual * sqrt(intensity_usual / intensity) : share_usual;
    return s->types == TORCH_F32 ? share : share * (1 - (1 - convolving) * t->convolutions);
}

/* Seconds to begin a kernel, which short texts and small models wait for: likely, and most. */
static const double launch = 10e-6, launch_most = 25e-6;

/* Blocks that are computed again cost half of what forward did: of the same models in llm-foundry's tables
 * those with checkpointing, and larger batches, are 1.13 to 1.17 times slower, where 7/6 is 1.17. */
static const double again_costs = 0.5;

/* Bytes that an update reads and writes for each byte of a trained weight: weight, gradient and moments read,
 * weight and moments written. */
enum { UPDATE = 7 };

static double products_rate(const torch_settings *s, const hardware *h) {
    return s->types == TORCH_F32 ? h->f32 : h->f16;
}

/* Times that forward's operations are done: gradients of inputs and of weights, of adapters those of inputs
 * alone, and blocks again. */
static double passes(const torch_settings *s, bool again) {
    return (s->adapter_rank ? 2 : 3) + (again && s->checkpointing ? again_costs : 0);
}

/* Weights of 4 bits are widened for each product: read, written in 16 bits, and read. */
static double widening(const torch_settings *s, const torch_result *t) {
    bool coded = s->adapter_rank && s->base_bits == 4;
    return coded ? 4.5 * (double)(t->parameters - t->trained) * passes(s, true) : 0;
}

static double seconds_of_step(const torch_settings *s, const hardware *h, const torch_result *t, double rate,
                              double begin) {
    double sharing = s->gpus > 1 && s->shard >= TORCH_ZERO1 ? (double)s->gpus : 1,
           update = UPDATE * (double)t->trained_bytes / sharing,
           compute = t->operations * passes(s, true) / rate, begins = t->calls * passes(s, true) * begin,
           once = compute > begins ? compute : begins;
    if (h->bandwidth > 0) once += widening(s, t) / h->bandwidth;
    return once * (double)torch_accumulation(s) + (h->bandwidth > 0 ? update / h->bandwidth : 0);
}

/* The user's share leaves out what is computed again, as such shares are published. */
static double own_rate(const torch_settings *s, double peak) {
    return peak * s->share * passes(s, true) / passes(s, false);
}

bool torch_time_find(const torch_settings *s, const hardware *h, const torch_result *t, torch_time *r) {
    double devices = s->gpus > 1 ? (double)s->gpus : 1, peak = products_rate(s, h);
    if (!(peak > 0)) return false;
    double once = (double)s->batch * (s->context > 0 ? (double)s->context : 1) * devices,
           step = once * (double)torch_accumulation(s);
    *r = (torch_time){ .steps = s->tokens > 0 ? s->tokens / step : (double)s->steps, .peak = peak };
    bool own = s->share > 0;
    r->share = own ? s->share : share_likely(s, h, t, peak);
    r->share_low = own ? s->share : r->share * slowest;
    r->share_high = own ? s->share : r->share * fastest;
    double hours = r->steps / 3600;
    if (own) {
        double each = hours * seconds_of_step(s, h, t, own_rate(s, peak), 0);
        r->clock = (torch_hours){ each, each, each };
        return true;
    }
    r->clock.low = hours * seconds_of_step(s, h, t, r->share_high * peak, 0);
    r->clock.likely = hours * seconds_of_step(s, h, t, r->share * peak, launch);
    r->clock.high = hours * seconds_of_step(s, h, t, r->share_low * peak, launch_most);
    return true;
}
