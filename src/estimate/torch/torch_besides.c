#include "estimate/torch/torch_besides.h"

#include <string.h>

static bool shares_weights(const torch_settings *s) {
    return torch_is_shared(s) && (s->shard == TORCH_ZERO3 || s->shard == TORCH_FSDP);
}

static bool is_zero(const torch_settings *s) {
    return torch_is_shared(s) &&
           (s->shard == TORCH_ZERO1 || s->shard == TORCH_ZERO2 || s->shard == TORCH_ZERO3);
}

static interval spread(double low, double likely, double high) {
    return (interval){ (uint64_t)low, (uint64_t)likely, (uint64_t)high };
}

/* FSDP's shares of what computes in 16 bits are f32, of weights that are counted as 16 bits elsewhere. */
static double wide(const torch_settings *s) {
    return s->shard == TORCH_FSDP && s->masters && !s->adapter_rank ? 2 : 1;
}

/* All weights in the type of their shares. */
static double whole(const torch_besides_of *q) { return q->whole * wide(q->s); }

static double larger(double a, double b) { return a > b ? a : b; }

/* ---- loading ---- */

/* Weights that come by way of the host, or straight into the type that they are trained in, are there once.
 * A model of 16 bits that is moved before it is cast is there in f32 until each weight is. Shared ones arrive
 * unit by unit (FSDP), or parameter by parameter (zero.Init): at most a unit is whole. At the most FSDP's
 * model is whole on the device before it is wrapped, as pytorch#104755's loops have it. */
static interval loading(const torch_besides_of *q, double weights) {
    const torch_settings *s = q->s;
    bool casts = s->types == TORCH_HALF && !s->masters && !s->adapter_rank;
    if (!shares_weights(s)) return spread(weights, weights, casts ? 2 * weights : weights);
    double unit = larger(q->block, q->outside);
    if (s->shard == TORCH_ZERO3) return spread(weights, weights + unit, weights + q->block + q->outside);
    double likely = weights + wide(s) * unit;
    return spread(weights, likely, larger(likely, whole(q)));
}

/* By way of the host weights and state are there once: the Trainer does so on one device, and on several
 * loads the state alone straight on to each (transformers#22159, #22273). A file that is loaded on to the
 * device stands beside the weights until it is copied into them; the optimizer takes the loaded state over.
 * Measured on an H100 (bench/results/gpu_trace.md). With adapters the files hold those alone. */
static interval resuming(const torch_besides_of *q, double weights, double state) {
    const torch_settings *s = q->s;
    double file = s->adapter_rank ? q->trained : weights, once = weights + state;
    if (shares_weights(s) || is_zero(s)) return (interval){ 0, 0, 0 };
    return spread(once, s->transformers ? once : once + file, once + file);
}

/* What one process of several puts on to the first device where torch.load is not told where to: tensors go
 * where they were saved (transformers#4403). Beside the files each such process has a context there. */
static interval misplaced(const torch_besides_of *q, double weights, double state) {
    double file = q->s->adapter_rank ? q->trained : weights;
    if (q->s->gpus < 2 || q->s->shard != TORCH_DDP) return (interval){ 0, 0, 0 };
    return spread(state > 0 ? state : file, file + state, file + state);
}

/* ---- saving ---- */

/* FSDP's whole state dict: the hooks of each unit gather it, in the type of its shares, copy it to the host
 * and let it go, those of the root after those of all blocks. Without offload_to_cpu everything stays on the
 * device, as with accelerate before it said so (accelerate#1181). At the least shares are saved, which takes
 * nothing. DeepSpeed gathers module by module (stage3_gather_16bit_weights_on_model_save). */
static interval saving(const torch_besides_of *q, double weights, double state) {
    const torch_settings *s = q->s;
    double held = weights + state, gathered = wide(s) * (q->block + q->outside);
    if (!shares_weights(s)) return (interval){ 0, 0, 0 };
    if (s->shard == TORCH_ZERO3) return spread(held, held + larger(q->block, q->outside), held + gathered);
    return spread(held, held + gathered, held + (s->transformers ? gathered : whole(q)));
}

/* ---- the whole ---- */

status torch_besides_find(const torch_besides_of *q, torch_besides *r) {
    tape_settings how = *q->how;
    tape_result played;
    *r = (torch_besides){ .loading = { 0, 0, 0 } };
    if (q->s->litgpt) return STATUS_OK;
    how.evaluates = true;
    how.listener = NULL;
    TRY(tape_play(q->t, &how, &played));
    double weights = (double)played.at_peak[TAPE_WEIGHTS], state = (double)played.at_peak[TAPE_OPTIMIZER],
           peak = (double)played.peak;
    bool several = q->s->gpus > 1 || torch_is_shared(q->s);
    r->evaluating = spread(peak * (several ? 0.87 : 0.97), peak, peak * (several ? 1.07 : 1.05));
    r->loading = loading(q, weights);
    r->resuming = resuming(q, weights, state);
    r->misplaced = misplaced(q, weights, state);
    r->saving = saving(q, weights, state);
    return STATUS_OK;
}

/* ---- generating ---- */

/* transformers' generate has one; modules of torch.nn have none, and where weights are shared some are asked
 * for around the hooks that gather them. */
bool torch_generates(const torch_settings *s) {
    return s->transformers && s->cache_numbers > 0 && s->context > 0 && !shares_weights(s);
}

/* Since transformers 4.45 the head sees the last token of a prompt alone (num_logits_to_keep). Before, logits
 * of all were made and copied to f32; the loss is not computed in either. */
static void shrink_head(const torch_besides_of *q) {
    tape *t = q->t;
    bool loss = false;
    for (uint32_t i = 1; i < t->calls.count; i++) {
        tape_call *c = (tape_call *)t->calls.data + i;
        tape_item *made = tape_at(t, c->out);
        if (made->term != TAPE_LOGITS) continue;
        loss |= strcmp(c->what, "contiguous") == 0 || strcmp(c->what, "log_softmax") == 0;
        if (!q->s->older || loss) made->elements /= q->s->context;
        if (loss) c->forward = 0;
    }
}

status torch_besides_prompt(const torch_besides_of *q, uint64_t *bytes) {
    tape_settings how = *q->how;
    tape_result played;
    how.evaluates = true;
    how.listener = NULL;
    shrink_head(q);
    tape_make_for_each(q->t, q->s->batch);
    TRY(tape_play(q->t, &how, &played));
    *bytes = played.peak;
    return STATUS_OK;
}

/* In 16 bits also under autocast, whose products make them; but keys that are turned by cosines and sines in
 * f32 have their type. */
uint64_t torch_cache_bytes(const torch_settings *s, int64_t tokens, bool joins) {
    double values = s->types == TORCH_F32 ? 4 : 2,
           keys = s->types == TORCH_AUTOCAST && s->turns_keys ? 4 : values;
    int64_t seen = s->window && tokens > s->window && !s->older ? s->window : tokens;
    double layers =
        (double)(s->layers - s->near_layers) * (double)tokens + (double)s->near_layers * (double)seen;
    double bytes = layers * (keys + values) + (joins ? (double)tokens * keys : 0);
    return (uint64_t)(bytes * (double)s->batch * (double)s->cache_numbers / 2);
}

/* ---- what is not known ---- */

int torch_besides_unknown(const torch_settings *s, const char *out[TORCH_BESIDES_UNKNOWN]) {
    int count = 0;
    if (s->litgpt) {
        out[count++] = "validating, generating, loading and saving of litgpt have no rule";
        return count;
    }
    if (!s->transformers) out[count++] = "generating has no rule: torch.nn has no cache of keys and values";
    if (s->transformers && s->cache_numbers && shares_weights(s))
        out[count++] =
            "generating with shared weights has no rule: it goes around the hooks that gather them";
    if (s->transformers && !s->cache_numbers && s->context)
        out[count++] = "generating has no rule for this model";
    if (shares_weights(s) || is_zero(s))
        out[count++] = "loading a checkpoint of shared state has no rule on the device";
    return count;
}
