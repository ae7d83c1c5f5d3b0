#include "estimate/torch/torch_beyond.h"

/* Measured on an H100 with PyTorch 2.11 (bench/results/gpu.md): compiled steps took 0.49 (gpt2), 0.79
 * (tinyllama-1.1b) and 1.17 (vit-base) of what is played without, in live and in reserved bytes. */
static const double compiled_low = 0.45, compiled_high = 1.2;

/* resnet-50, 64 images (bench/results/gpu_trace.md): 10,387 MiB were asked for in the first step and 5,658 in
 * later ones, reserved were 10,612 and 6,914. */
static const double benchmark_high = 2;

/* Reserved bytes of resnet-50 and a small convnext were up to 12 % more than is played, because which
 * algorithm cuDNN takes is not known (bench/results/gpu_trace.md). */
static const double convolutions_high = 1.15;

/* QLoRA of 13B on a T4, with libraries of May 2023 (huggingface.co/blog/4bit-transformers-bitsandbytes):
 * 1,024 tokens failed where 75 % of the device are played, and scales in 8 bits, which save 0.6 GB, made them
 * run. */
static const double codes_high = 1.4;
static bool is_codes_in_f16(const framework_subject *q, const torch_settings *s) {
    return s->transformers && s->older && s->adapter_rank && s->base_bits == 4 && q->hardware->no_bf16;
}

/* Of all that does not stay from step to step samples of eight lengths reserve up to 2.2 times what those of
 * one length do, in nine of ten of 150 settings that were played (bench/estimate/lengths.py). Their order is
 * no better known than where --shortest is said, so the interval is no narrower than there. */
static const double unequal_passes = 2.2;

static uint64_t times(uint64_t bytes, double factor) { return (uint64_t)((double)bytes * factor); }

/* Another model, and what makes texts for the trained one. */
static uint64_t beside(const torch_result *r) { return r->by_term[TAPE_REFERENCE] + r->by_term[TAPE_ENGINE]; }

static void lower(uint64_t *to, uint64_t bytes) {
    if (bytes < *to) *to = bytes;
}

static void raise(uint64_t *to, uint64_t bytes) {
    if (bytes > *to) *to = bytes;
}

void torch_reach_beyond(const framework_subject *q, const torch_settings *s, torch_result *r) {
    bool convolves = q->config->family == FAMILY_RESNET || q->config->family == FAMILY_CONVNEXT;
    if (is_codes_in_f16(q, s)) raise(&r->reserved.high, times(r->reserved.likely, codes_high));
    if (convolves && s->cuda) raise(&r->reserved.high, times(r->reserved.likely, convolutions_high));
    if (s->compiled) {
        uint64_t stays = r->by_term[TAPE_WEIGHTS] + r->by_term[TAPE_OPTIMIZER] + beside(r),
                 least = times(r->live.likely, compiled_low);
        lower(&r->live.low, least > stays ? least : stays);
        lower(&r->reserved.low, r->live.low);
        raise(&r->live.high, times(r->live.likely, compiled_high));
        raise(&r->reserved.high, times(r->reserved.likely, compiled_high));
    }
    if (s->benchmarks) {
        raise(&r->live.high, times(r->live.likely, benchmark_high));
        raise(&r->reserved.high, times(r->reserved.likely, benchmark_high));
    }
}

uint64_t torch_unequal_adds(const torch_settings *s, const torch_result *r) {
    if (!s->cuda || !s->context || s->shortest || s->expandable) return 0;
    uint64_t stays =
        r->by_term[TAPE_WEIGHTS] + r->by_term[TAPE_GRADIENTS] + r->by_term[TAPE_OPTIMIZER] + beside(r);
    uint64_t likely = r->reserved.likely, passes = likely > stays ? likely - stays : 0;
    uint64_t most = times(likely - passes + times(passes, unequal_passes), torch_unequal_order);
    return most > r->reserved.high ? most - r->reserved.high : 0;
}

void torch_describe_beyond(const framework_subject *q, const torch_settings *s, text *out) {
    if (is_codes_in_f16(q, s))
        text_add(out, "4 bits in f16 with libraries of 2023: a run that is known took a third more than is "
                      "played, and the cause is not known\n");
    if (s->compiled)
        text_add(out, "torch.compile is not played: the likely value is that of a step without it, and three "
                      "models that were measured took 0.49 to 1.17 of that\n");
    if (s->benchmarks)
        text_add(out, "cudnn.benchmark tries every algorithm at the first use of a convolution, which took "
                      "1.8 times as much once; the likely value is that of later steps\n");
    if (s->shortest && s->shortest == s->context)
        text_add(out, "all samples are as long\n");
    else if (s->shortest)
        text_add(out, "samples of %lld to %lld tokens: reserved memory is that of steps of several lengths\n",
                 (long long)s->shortest, (long long)s->context);
    else if (s->context && s->cuda)
        text_add(out,
                 "all samples are taken to be as long; of unequal lengths more is reserved, up to the end of "
                 "the interval (--shortest TOKENS says it; --shortest %lld: all are as long)\n",
                 (long long)s->context);
}

status torch_check_beyond(const framework_subject *q, const torch_settings *s) {
    bool images = !q->model->context;
    if (s->benchmarks && !images)
        return status_set(STATUS_INVALID, "--cudnn-benchmark is for convolutions, and %s has none",
                          q->model->name);
    if ((s->padded || s->shortest) && images)
        return status_set(STATUS_INVALID, "%s: %s sees images, which are all of one size",
                          s->padded ? "--padding" : "--shortest", q->model->name);
    if (s->shortest > s->context)
        return status_set(STATUS_INVALID, "--shortest %lld is more than the %lld tokens of --context",
                          (long long)s->shortest, (long long)s->context);
    if (s->expandable && (!s->cuda || q->hardware->mps))
        return status_set(STATUS_INVALID,
                          "--expandable-segments is a setting of PyTorch's allocator for CUDA and ROCm");
    if (s->benchmarks && (!s->cuda || q->hardware->mps))
        return status_set(STATUS_INVALID, "--cudnn-benchmark is for GPUs that have cuDNN or MIOpen");
    return STATUS_OK;
}
