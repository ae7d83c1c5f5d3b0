/* The settings of PyTorch and transformers, from options. */
#include <string.h>

#include "cli/estimate/estimate.h"
#include "estimate/torch/torch_versions.h"

/* Scores with soft caps are none that torch's own kernels know: transformers writes them out. */
static torch_attention attention_of(const estimate_question *e) {
    const model_config *c = &e->config;
    const estimate_options *x = &e->o->estimate;
    bool capped = c->family == FAMILY_DECODER && c->decoder.cap_scores > 0;
    switch (x->attention) {
    case ATTENTION_FLASH: return TORCH_FLASH;
    case ATTENTION_EAGER: return TORCH_EAGER;
    case ATTENTION_FLASH_ATTN: return x->framework == FRAMEWORK_HF ? TORCH_FLASH_ATTN : TORCH_FLASH;
    case ATTENTION_AUTO: break;
    }
    return capped ? TORCH_EAGER : torch_usual_attention(x->torch, x->framework == FRAMEWORK_HF);
}

int64_t estimate_step_of(const setup_options *run, int64_t gpus) {
    if (run->accumulate) return (run->micro_batch ? run->micro_batch : run->batch) * gpus * run->accumulate;
    return run->micro_batch ? run->batch : run->batch * gpus;
}

/* A whole context may be much more than anybody trains with. What --solve turns is not assumed, and of its
 * answer nothing else says how large a batch it is of. */
static void note_assumed(estimate_question *e) {
    const setup_options *run = &e->o->run;
    const estimate_options *x = &e->o->estimate;
    int64_t most = families_context(&e->config);
    bool solving = x->solve != SOLVE_FITS;
    bool batch = x->solve != SOLVE_BATCH && x->batch_assumed && !run->micro_batch && !run->accumulate;
    bool context = x->solve != SOLVE_CONTEXT && !run->context && most;
    if (!context && !(batch && solving)) return;
    if (batch) text_add(&e->notes, "a batch of %lld%s", (long long)run->batch, context ? " and " : "");
    if (context) text_add(&e->notes, "the whole context of %lld tokens", (long long)most);
    text_add(&e->notes, " %s assumed; say %s%s%s\n", batch && context ? "are" : "is", batch ? "--batch" : "",
             batch && context ? " and " : "", context ? "--context" : "");
}

/* TRL's defaults, but for completions of short texts. */
static torch_grpo grpo_of(const estimate_question *e, int64_t context) {
    const estimate_options *x = &e->o->estimate;
    int64_t half = context / 2, usual = half < 512 ? half : 512;
    return (torch_grpo){ .asked = x->trainer == TRAINER_GRPO,
                         .rollouts = x->rollouts,
                         .completion = x->completion ? x->completion
                                       : usual > 1   ? usual
                                                     : 1,
                         .generations = x->generations,
                         .iterations = x->iterations,
                         .passes = x->passes,
                         .beta = x->beta,
                         .share = x->engine_share };
}

void estimate_settle_torch(estimate_question *e) {
    const estimate_options *x = &e->o->estimate;
    const setup_options *run = &e->o->run;
    bool hf = x->framework == FRAMEWORK_HF;
    note_assumed(e);
    int64_t context = run->context ? run->context : families_context(&e->config);
    torch_grpo grpo = grpo_of(e, context);
    torch_update update = x->update == UPDATE_AUTO ? torch_usual_update(x->torch, hf)
                                                   : (torch_update)(x->update - UPDATE_FOREACH);
    e->settings.torch = (torch_settings){ .version = x->torch,
                                          .transformers = hf,
                                          .litgpt = x->framework == FRAMEWORK_LITGPT,
                                          .older = x->libraries == LIBRARIES_OLDER,
                                          .cuda = !x->device || strcmp(x->device, "cpu") != 0,
                                          .types = x->types == TORCH_TYPES_UNSAID ? TORCH_AUTOCAST : x->types,
                                          .attention = attention_of(e),
                                          .update = update,
                                          .shard = x->shard,
                                          .optimizer = run->optimizer.kind,
                                          .momentum = run->optimizer.momentum,
                                          .state_bits = x->state_bits,
                                          .batch = run->micro_batch ? run->micro_batch : run->batch,
                                          .step = estimate_step_of(run, x->gpus),
                                          .context = context,
                                          .grpo = grpo,
                                          .adapter_rank = x->adapter_rank,
                                          .adapter_targets = x->adapter_targets,
                                          .adapter_dropout = x->adapter_dropout,
                                          .magnitudes = x->magnitudes,
                                          .base_bits = x->base_bits,
                                          .plain_scales = x->scales == SCALES_PLAIN,
                                          .gpus = x->gpus,
                                          .host_keeps = x->host_keeps,
                                          .workers = x->workers,
                                          .node_gpus = x->node_gpus,
                                          .tokens = x->tokens,
                                          .steps = x->steps,
                                          .share = x->share,
                                          .checkpointing = x->checkpointing,
                                          .reentrant = x->reentrant,
                                          .holds_output = x->holds_output,
                                          .keeps_gradients = x->keeps_gradients,
                                          .expandable = x->expandable,
                                          .padded = x->padded || (grpo.asked && x->shortest != context),
                                          .compiled = x->compiled,
                                          .benchmarks = x->benchmarks,
                                          .shortest = x->shortest,
                                          .fused_loss = x->loss == LOSS_FUSED };
}
