/* What settings of Megatron-LM go together. */
#include <string.h>

#include "estimate/megatron/megatron.h"

static status indivisible(const char *what, int64_t number, const char *option, int64_t by) {
    return status_set(STATUS_INVALID, "%s: %lld can't be divided by --%s %lld", what, (long long)number,
                      option, (long long)by);
}

typedef struct {
    const char *what;
    int64_t number;
    const char *option;
    int64_t by;
} division;

static status check_divisions(const megatron_shape *m, const megatron_settings *s) {
    const char *by_tensor = "tensor-model-parallel-size";
    int64_t heads = m->heads / s->tensor, kv = m->kv_heads / s->tensor, tokens = s->context / s->contexts;
    bool moved = s->contexts > 1 && s->context_kind == MEGATRON_ALL_TO_ALL;
    const division all[] = {
        { "heads", m->heads, by_tensor, s->tensor },
        { "heads of keys and values", m->kv_heads, by_tensor, s->tensor },
        { "the feed-forward's width", m->inner, by_tensor, s->tensor },
        { "the shared expert's width", m->shared, by_tensor, s->tensor },
        { "experts", m->experts, "expert-model-parallel-size", s->experts },
        { "an expert's width", m->expert_inner, "expert-tensor-parallel-size", s->expert_tensor },
        { "a device's tokens of a sample", s->sequence ? tokens : 0, by_tensor, s->tensor },
        { "a device's heads", moved ? heads : 0, "context-parallel-size", s->contexts },
        { "a device's heads of keys and values", moved ? kv : 0, "context-parallel-size", s->contexts }
    };
    if (s->contexts > 1 && s->context % (2 * s->contexts))
        return status_set(STATUS_INVALID,
                          "--context %lld is no multiple of %lld, twice --context-parallel-size",
                          (long long)s->context, 2 * (long long)s->contexts);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].number % all[i].by)
            return indivisible(all[i].what, all[i].number, all[i].option, all[i].by);
    return STATUS_OK;
}

static int64_t common_divisor(int64_t a, int64_t b) {
    while (b) {
        int64_t rest = a % b;
        a = b, b = rest;
    }
    return a;
}

static int64_t common_multiple(int64_t a, int64_t b) {
    int64_t left = a / common_divisor(a, b);
    return left > INT64_MAX / b ? INT64_MAX : left * b;
}

int64_t megatron_context_step(const megatron_settings *s) {
    int64_t halves = s->contexts > 1 ? 2 : 1, shared = s->sequence ? s->tensor : 1;
    return s->contexts * common_multiple(halves, shared);
}

int64_t megatron_least_devices(const megatron_settings *s) {
    int64_t each = s->expert_tensor ? s->expert_tensor : s->tensor;
    int64_t dense = common_multiple(s->tensor * s->contexts, s->tensor * s->instances);
    int64_t all = common_multiple(dense, each * s->experts * s->instances);
    return all > INT64_MAX / s->pipeline ? INT64_MAX : all * s->pipeline;
}

static status check_devices(const megatron_shape *m, const megatron_settings *s) {
    int64_t dense = s->tensor * s->pipeline * s->contexts,
            mixed = s->expert_tensor * s->experts * s->pipeline;
    if (s->gpus % dense)
        return status_set(
            STATUS_INVALID,
            "--gpus %lld: tensor, pipeline and context parallelism take %lld devices for each copy "
            "of the model; say a multiple of %lld",
            (long long)s->gpus, (long long)dense, (long long)dense);
    if (m->experts && s->gpus % mixed)
        return status_set(STATUS_INVALID,
                          "--gpus %lld: experts are divided among %lld devices; say a multiple of that",
                          (long long)s->gpus, (long long)mixed);
    if (s->instances > 1 && !s->shares)
        return status_set(STATUS_INVALID,
                          "--num-distributed-optimizer-instances is of --use-distributed-optimizer");
    if (s->gpus / (s->tensor * s->pipeline) % s->instances || (m->experts && s->gpus / mixed % s->instances))
        return status_set(
            STATUS_INVALID,
            "--num-distributed-optimizer-instances %lld: the devices that share a weight's state can't "
            "be divided by that",
            (long long)s->instances);
    if (!m->experts && s->experts > 1)
        return status_set(STATUS_INVALID, "--expert-model-parallel-size %lld: the model has no experts",
                          (long long)s->experts);
    return STATUS_OK;
}

static status check_stages(const megatron_shape *m, const megatron_settings *s) {
    int64_t said = (s->first_layers > 0) + (s->last_layers > 0), rest = s->pipeline - said;
    int64_t left = m->layers - s->first_layers - s->last_layers;
    if (said && s->pipeline < 2)
        return status_set(STATUS_INVALID,
                          "--decoder-first-pipeline-num-layers and --decoder-last-pipeline-num-"
                          "layers are of several stages; say --pipeline-model-parallel-size");
    if (left < rest || (!rest && left))
        return status_set(STATUS_INVALID, "%lld layers over %lld stages of the pipeline: %s",
                          (long long)m->layers, (long long)s->pipeline,
                          rest ? "a stage has none" : "they are not as many as those two stages have");
    if (rest && left % rest)
        return status_set(
            STATUS_INVALID,
            "%lld layers can't be divided evenly over %lld stages of the pipeline; "
            "--decoder-first-pipeline-num-layers or --decoder-last-pipeline-num-layers say others",
            (long long)left, (long long)rest);
    if (s->stage >= s->pipeline)
        return status_set(STATUS_INVALID, "--pipeline-stage %lld: there are %lld, and the first one is 0",
                          (long long)s->stage, (long long)s->pipeline);
    return STATUS_OK;
}

static status check_virtual(const megatron_shape *m, const megatron_settings *s) {
    int64_t each = m->layers / s->pipeline;
    if (!s->virtual_layers) return STATUS_OK;
    if (s->pipeline < 2 || s->first_layers || s->last_layers)
        return status_set(STATUS_INVALID, "--num-layers-per-virtual-pipeline-stage needs several stages of "
                                          "equally many layers; say --pipeline-model-parallel-size alone");
    if (each % s->virtual_layers)
        return status_set(
            STATUS_INVALID,
            "--num-layers-per-virtual-pipeline-stage %lld: a stage's %lld layers can't be divided "
            "by that",
            (long long)s->virtual_layers, (long long)each);
    return STATUS_OK;
}

static status check_batch(const megatron_settings *s, const char *by) {
    int64_t replicas = s->gpus / (s->tensor * s->pipeline * s->contexts), pass = s->batch * replicas;
    if (s->step % pass)
        return status_set(STATUS_INVALID,
                          "%s %lld: %lld %s of the model %s %lld samples at once, of which it is no multiple",
                          by, (long long)s->step, (long long)replicas, replicas == 1 ? "copy" : "copies",
                          replicas == 1 ? "takes" : "take", (long long)pass);
    int64_t count = s->accumulate ? s->accumulate : s->step / pass;
    if (s->virtual_layers && count % s->pipeline)
        return status_set(STATUS_INVALID,
                          "%lld micro-batches: with virtual stages they are a multiple of the %lld stages",
                          (long long)count, (long long)s->pipeline);
    return STATUS_OK;
}

/* --batch says the same as --global-batch-size where --micro-batch cuts it. */
static status settle_step(megatron_settings *s) {
    const char *by = s->step ? "--global-batch-size" : "--batch";
    if (s->step && s->batch_step && s->step != s->batch_step)
        return status_set(
            STATUS_INVALID,
            "--batch %lld and --global-batch-size %lld both say how many samples a step has; say "
            "one of them",
            (long long)s->batch_step, (long long)s->step);
    if (!s->step) s->step = s->batch_step;
    if (s->step && s->accumulate)
        return status_set(STATUS_INVALID,
                          "%s and --accumulate both say how many micro-batches a step has; say one of them",
                          by);
    return check_batch(s, by);
}

/* ---- what is computed again ---- */

static status read_module(const megatron_shape *m, const char *word, size_t length, uint32_t *bits) {
    static const char *const names[MEGATRON_MODULES] = { [MEGATRON_CORE_ATTENTION] = "core_attn",
                                                         [MEGATRON_NORMS] = "layernorm",
                                                         [MEGATRON_UP_PROJECTIONS] = "mla_up_proj",
                                                         [MEGATRON_FEED] = "mlp",
                                                         [MEGATRON_EXPERTS] = "moe",
                                                         [MEGATRON_EXPERT_ACTIVATION] = "moe_act",
                                                         [MEGATRON_SHARED_EXPERTS] = "shared_experts" };
    for (uint32_t i = 0; i < MEGATRON_MODULES; i++) {
        if (strlen(names[i]) != length || strncmp(names[i], word, length) != 0) continue;
        if (i == MEGATRON_UP_PROJECTIONS && !m->kv_rank)
            return status_set(STATUS_INVALID,
                              "--recompute-modules mla_up_proj: the model has no latent attention");
        if (i >= MEGATRON_EXPERTS && !m->experts)
            return status_set(STATUS_INVALID, "--recompute-modules %s: the model has no experts", names[i]);
        *bits |= 1u << i;
        return STATUS_OK;
    }
    return status_set(STATUS_INVALID, "--recompute-modules: '%.*s' is none of %s", (int)length, word,
                      MEGATRON_MODULE_NAMES);
}

static status read_modules(const megatron_shape *m, megatron_settings *s) {
    const char *at = s->again_names ? s->again_names : "core_attn";
    s->again = 0;
    bool usual = strcmp(at, "core_attn") == 0;
    if (s->recompute != MEGATRON_SELECTIVE && !usual)
        return status_set(STATUS_INVALID, "--recompute-modules is of --recompute-granularity selective");
    if (s->recompute != MEGATRON_FULL && s->again_layers)
        return status_set(STATUS_INVALID, "--recompute-num-layers is of --recompute-granularity full");
    while (s->recompute == MEGATRON_SELECTIVE) {
        size_t length = strcspn(at, ",");
        TRY(read_module(m, at, length, &s->again));
        if (!at[length]) break;
        at += length + 1;
    }
    return STATUS_OK;
}

/* What would do nothing is refused: who says it expects that it does. */
static status check_heeded(const megatron_shape *m, const megatron_settings *s) {
    if (s->expert_tensor && !m->experts)
        return status_set(STATUS_INVALID, "--expert-tensor-parallel-size %lld: the model has no experts",
                          (long long)s->expert_tensor);
    if (s->method == MEGATRON_BLOCK && s->recompute != MEGATRON_FULL)
        return status_set(STATUS_INVALID, "--recompute-method is of --recompute-granularity full");
    if (s->context_kind == MEGATRON_ALL_TO_ALL && s->contexts < 2)
        return status_set(STATUS_INVALID,
                          "--cp-comm-type says how contexts meet; say --context-parallel-size as well");
    if (m->experts && s->layers > m->patterned && m->patterned)
        return status_set(STATUS_INVALID,
                          "--num-layers %lld: which layers have experts is known of the model's %lld alone",
                          (long long)s->layers, (long long)m->patterned);
    return STATUS_OK;
}

status megatron_settle(megatron_settings *s, megatron_shape *m, const char *name) {
    TRY(check_heeded(m, s));
    if (s->layers) m->layers = s->layers;
    if (!s->expert_tensor) s->expert_tensor = s->tensor;
    s->sequence = s->sequence && s->tensor > 1;
    if (m->layers > DECODER_MOST_LAYERS || s->pipeline > MEGATRON_MOST_STAGES)
        return status_set(STATUS_INVALID, "%s has at most %d layers here, and a pipeline %d stages", name,
                          DECODER_MOST_LAYERS, MEGATRON_MOST_STAGES);
    if (m->experts && s->tensor > 1 && !s->sequence)
        return status_set(STATUS_INVALID,
                          "Megatron-Core trains experts with --tensor-model-parallel-size %lld "
                          "only with --sequence-parallel",
                          (long long)s->tensor);
    if (s->pads && !(s->capacity > 0))
        return status_set(STATUS_INVALID,
                          "--moe-pad-expert-input-to-capacity: say --moe-expert-capacity-factor");
    if (s->capacity > 0 && !m->experts)
        return status_set(STATUS_INVALID, "--moe-expert-capacity-factor: the model has no experts");
    if (m->learns_positions && s->context > m->context)
        return status_set(STATUS_INVALID,
                          "--context %lld is longer than the %lld positions that %s has learned",
                          (long long)s->context, (long long)m->context, name);
    TRY(check_devices(m, s));
    TRY(check_stages(m, s));
    TRY(check_virtual(m, s));
    TRY(check_divisions(m, s));
    TRY(settle_step(s));
    return read_modules(m, s);
}
