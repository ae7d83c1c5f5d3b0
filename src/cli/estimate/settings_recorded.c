/* The settings of a recorded step, from options. */
#include <string.h>

#include "cli/estimate/estimate.h"
#include "estimate/recorded/recorded_types.h"

/* What a recording holds as it was recorded: another one has to be made for it. */
static status check_recorded(const estimate_options *x) {
    const struct {
        bool said;
        const char *option, *how;
    } rows[] = {
        { x->attention != ATTENTION_AUTO, "--attn", "the model with that attention" },
        { x->loss != LOSS_PLAIN, "--loss", "the step with that loss" },
        { x->compiled, "--compile", "nothing: what a compiler makes of it has no rule" },
        { x->magnitudes, "--use-dora", "the model that PEFT has made, with these adapters" },
        { x->shortest, "--shortest", "batches of several lengths" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].said)
            return status_set(STATUS_INVALID, "%s: a recorded step is as it was recorded; record %s",
                              rows[i].option, rows[i].how);
    if (x->says_base && x->base_bits != 4)
        return status_set(
            STATUS_INVALID,
            "--base-bits %lld: a recorded step's weights are as they were recorded, or 16 bits by --dtype "
            "half, or have 4 by --base-bits 4; leave it out",
            (long long)x->base_bits);
    if (x->checkpoint_saves && !x->checkpointing)
        return status_set(STATUS_INVALID, "--checkpoint-saves is of modules that are computed again; say "
                                          "--gradient-checkpointing as well");
    if (x->framework != FRAMEWORK_HF && x->framework != FRAMEWORK_PYTORCH)
        return status_set(STATUS_INVALID, "a recorded step is PyTorch's; leave --framework out");
    return STATUS_OK;
}

/* Without --context the length of the first run. Without --batch one is assumed, as for other models. */
static void note_assumed(estimate_question *e) {
    const setup_options *run = &e->o->run;
    bool batch = e->o->estimate.solve != SOLVE_BATCH && e->o->estimate.batch_assumed && !run->micro_batch &&
                 !run->accumulate;
    if (batch) text_add(&e->notes, "a batch of %lld is assumed; say --batch\n", (long long)run->batch);
}

status estimate_settle_recorded(estimate_question *e) {
    const estimate_options *x = &e->o->estimate;
    const setup_options *run = &e->o->run;
    TRY(check_recorded(x));
    if (run->allow && !estimate_is_planned(e))
        return status_set(STATUS_INVALID, "--allow says what a plan may choose; say --memory SIZE as well");
    note_assumed(e);
    int64_t micro = run->micro_batch ? run->micro_batch : run->batch;
    bool other = run->optimizer.kind != OPTIMIZER_ADAMW || x->state_bits < 32 || x->adapter_rank ||
                 x->matrices || x->in_backward;
    e->settings.torch = (torch_settings){
        .version = x->torch,
        .transformers = x->framework == FRAMEWORK_HF,
        .cuda = !x->device || strcmp(x->device, "cpu") != 0,
        .types = x->types == TORCH_TYPES_UNSAID ? recorded_types_of(&e->recorded) : x->types,
        .adapter_rank = x->adapter_rank,
        .adapter_targets = x->adapter_targets,
        .adapter_dropout = x->adapter_dropout,
        .base_bits = x->base_bits,
        .plain_scales = x->scales == SCALES_PLAIN,
        .update = x->update == UPDATE_AUTO ? TORCH_FOREACH : (torch_update)(x->update - UPDATE_FOREACH),
        .update_by_rule = other || x->update != UPDATE_AUTO,
        .shard = x->shard,
        .optimizer = run->optimizer.kind,
        .momentum = run->optimizer.momentum,
        .state_bits = x->state_bits,
        .matrices = x->matrices,
        .state_rank = x->state_rank,
        .in_backward = x->in_backward,
        .averages = x->averages,
        .host_keeps = x->host_keeps,
        .batch = micro,
        .step = estimate_step_of(run, x->gpus),
        .context = run->context ? run->context : e->recorded.programs[0].lengths.of[0],
        .gpus = x->gpus,
        .checkpointing = x->checkpointing,
        .checkpoint_saves = x->checkpoint_saves,
        .loss_chunks = x->loss_chunks > 1 ? x->loss_chunks : 0,
        .expandable = x->expandable
    };
    return STATUS_OK;
}
