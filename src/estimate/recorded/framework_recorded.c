/* A recorded step as a framework that is asked: PyTorch, with the calls that were seen instead of rules. */
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "estimate/framework.h"
#include "estimate/recorded/recorded_course.h"
#include "estimate/recorded/recorded_play.h"
#include "estimate/recorded/recorded_rewrite.h"
#include "estimate/recorded/recorded_types.h"
#include "estimate/torch/torch_check.h"
#include "estimate/torch/torch_host.h"
#include "estimate/torch/torch_process.h"
#include "estimate/torch/torch_state.h"
#include "estimate/torch/torch_versions.h"

/* ---- asking ---- */

static status check(const framework_subject *q, const framework_settings *settings) {
    const torch_settings *s = &settings->torch;
    recorded_sizes sizes;
    TRY(torch_check_cut(s));
    TRY(torch_check_shares(s));
    TRY(torch_check_bits(s));
    if (s->in_backward && torch_accumulation(s) > 1)
        return status_set(STATUS_INVALID,
                          "--optimizer-in-backward updates with each micro-batch, so none add "
                          "up; leave --micro-batch and --accumulate out");
    status result = recorded_sizes_find(q->recorded, s->batch, s->context, s->checkpointing, &sizes);
    recorded_sizes_close(&sizes);
    return result;
}

static bool has_convolutions(const recording *r) {
    const recording_texts *names = &r->programs[0].strings;
    for (uint32_t i = 0; i < names->count; i++)
        if (strncmp(names->of[i], "convolution", 11) == 0) return true;
    return false;
}

static interval beside_of(const framework_subject *q, const torch_settings *s) {
    return torch_process(has_convolutions(q->recorded), s->gpus, torch_loads_at_once(s));
}

/* Workspaces are the allocator's, so they are in what is reserved. */
static void place(const framework_subject *q, const interval *reserved, framework_result *r) {
    hardware h = *q->hardware;
    framework_subject less = *q;
    less.hardware = &h;
    h.workspace = 0;
    framework_place(&less, r, reserved);
}

/* Of each process, in the host's memory. */
static void add_kept(const torch_settings *s, const torch_result *t, framework_result *r) {
    double width = s->types == TORCH_HALF ? 2 : 4, masters = s->types == TORCH_F32 ? 0 : 4;
    torch_host h;
    torch_host_find(&(torch_host_of){ .s = s,
                                      .weights = (double)t->parameters * width,
                                      .narrow = (double)t->parameters * 2,
                                      .state = (double)t->trained * (4 * torch_moments(s) + masters),
                                      .gradients = (double)t->trained * width },
                    &h);
    framework_add_fact(r, &(framework_fact){ .key = "host_kept_bytes",
                                             .label = "kept there, of each process",
                                             .unit = FRAMEWORK_BYTES,
                                             .layer = FRAMEWORK_DEVICE,
                                             .low = (double)h.kept.low,
                                             .likely = (double)h.kept.likely,
                                             .high = (double)h.kept.high });
    r->under[r->fact_count - 1] = "Host memory, resident";
}

static status estimate(const framework_subject *q, const framework_settings *s, framework_result *r) {
    const hardware *h = q->hardware;
    torch_result t;
    torch_settings with = s->torch;
    *r = (framework_result){ .terms_of = FRAMEWORK_LIVE, .last_layer = FRAMEWORK_DEVICE };
    r->beside = beside_of(q, &with);
    uint64_t beside = h->overhead ? h->overhead : h->context[1] + r->beside.likely;
    with.limit = h->memory > beside ? h->memory - beside : 0;
    with.workspace = h->workspace;
    TRY(recorded_play(q->recorded, &with, &t));
    r->layers[FRAMEWORK_LIVE] = t.live;
    for (int k = 0; k < TAPE_REFERENCE; k++)
        framework_add_term(r, tape_term_name((tape_term)k), t.by_term[k]);
    r->peak_in = t.peak_in;
    r->parameters = t.parameters, r->trained = t.trained;
    if (!h->memory) r->last_layer = with.cuda ? FRAMEWORK_RESERVED : FRAMEWORK_LIVE;
    if (with.host_keeps) add_kept(&with, &t, r);
    place(q, &t.reserved, r);
    return STATUS_OK;
}

/* ---- what is said ---- */

static void describe_runs(const recording *r, const torch_settings *s, text *out) {
    recorded_sizes sizes;
    if (recorded_sizes_find(r, s->batch, s->context, s->checkpointing, &sizes) != STATUS_OK) return;
    const recording_program *p = sizes.program;
    if (!sizes.was_recorded) {
        text_add(out, "sizes are computed from those recorded at");
        for (uint32_t i = 0; i < p->batches.count; i++)
            text_add(out, "%s %lld x %lld", i ? "," : "", (long long)p->batches.of[i],
                     (long long)p->lengths.of[i]);
        text_add(out,
                 ": each dimension by so much for each sample and token, and the calls are taken to be the "
                 "same\n");
    }
    recorded_sizes_close(&sizes);
}

/* What the recording does not have, and is played by rules. */
static void describe_rules(const recording *x, const torch_settings *s, text *out) {
    static const char *const types[] = { "f32", "autocast to 16 bits", "16 bits" };
    static const char *const shards[] = { "", "ddp", "zero1", "zero2", "zero3", "fsdp" };
    torch_types recorded = recorded_types_of(x);
    if (s->types != recorded)
        text_add(out, "it was recorded in %s; %s are played by rule\n", types[recorded], types[s->types]);
    if (s->types != recorded && s->types != TORCH_F32)
        text_add(
            out, "%s\n",
            x->programs[0].tells_widened
                ? "what the model's own code casts to f32 stays f32; what it casts to the type of another "
                  "tensor is not to be seen in such a recording"
                : "what the model's own code casts is not to be seen in such a recording: norms that are "
                  "written out and the logits are taken to be f32, and the interval reaches to a step "
                  "that casts nothing");
    if (s->adapter_rank)
        text_add(out, "adapters of rank %lld stand beside products as PEFT has them; all else is frozen%s\n",
                 (long long)s->adapter_rank,
                 s->base_bits == 4 ? ", and the blocks' products have 4 bits" : "");
    if (torch_is_shared(s))
        text_add(out,
                 "one of %lld devices with --shard %s; a unit is an item of the model's lists of modules\n",
                 (long long)s->gpus, shards[s->shard]);
    if (s->loss_chunks)
        text_add(out,
                 "the last product and the loss are computed in %lld pieces of rows, and each piece again in "
                 "backward\n",
                 (long long)s->loss_chunks);
    if (s->in_backward)
        text_add(out, "a weight is updated as soon as its gradient is there, which then goes\n");
    if (s->averages) text_add(out, "an average of weights and buffers stands beside them\n");
}

/* What stays is not drawn again, so what is drawn behind it is not what forward drew. */
static void describe_saves(const recording *x, const torch_settings *s, text *out) {
    recorded_kinds known;
    uint64_t kinds;
    recorded_kinds_find(x, &known);
    if (recorded_kinds_read(&known, s->checkpoint_saves, &kinds) != STATUS_OK) return;
    text_add(out, "what these operations make in them stays: %s\n", s->checkpoint_saves);
    uint64_t draws = known.draws[s->cuda];
    if (kinds & draws && draws & ~kinds)
        text_add(out,
                 "some of these may draw random numbers, and others that do are computed again: those then "
                 "draw other numbers than in forward, so gradients are wrong; keep what all of them make, "
                 "or of none\n");
}

static void describe_again(const recording *x, const torch_settings *s, text *out) {
    if (!recorded_computes_again(x))
        text_add(out,
                 "nothing is computed again: %s has no list of modules of one class, and its library "
                 "computes none again; record it with torch.utils.checkpoint in it where you have that\n",
                 x->model);
    else if (x->again.count)
        text_add(out,
                 "the modules that the model's own library computes again keep their inputs and run twice\n");
    else
        text_add(out, "the items of the model's lists of modules keep their inputs and are computed again\n");
    if (s->checkpoint_saves && recorded_computes_again(x)) describe_saves(x, s, out);
}

static void describe(const framework_subject *q, const framework_settings *settings,
                     const framework_result *r, text *out) {
    const torch_settings *s = &settings->torch;
    const recording *x = q->recorded;
    char number[UNITS_TEXT_BYTES];
    text_add(out, "%s parameters, ", units_count_text(r->parameters, number));
    if (r->trained == r->parameters)
        text_add(out, "all trained, ");
    else
        text_add(out, "%s trained, ", units_count_text(r->trained, number));
    text_add(out, "%lld x %lld at once", (long long)s->batch, (long long)s->context);
    if (s->step != s->batch) text_add(out, ", %lld samples a step", (long long)s->step);
    if (*x->autocast) text_add(out, ", autocast to %s", x->autocast);
    text_add(out, "; recorded with PyTorch %s and %s\n", x->torch, x->optimizer);
    if (s->update_by_rule)
        text_add(out, "the update is not the recorded one: it is played by rules for --optimizer %s\n",
                 optimizer_name(s->optimizer));
    describe_rules(x, s, out);
    if (s->checkpointing) describe_again(x, s, out);
    if (s->cuda && strcmp(x->device, "cpu") == 0)
        text_add(out, "it was recorded as on a CPU, where dropout keeps more; record it with "
                      "device=\"cuda\" for a GPU\n");
    describe_runs(x, s, out);
}

static int64_t *variable(framework_settings *s, framework_variable v) {
    if (v == FRAMEWORK_BATCH) return &s->torch.batch;
    return v == FRAMEWORK_CONTEXT ? &s->torch.context : &s->torch.gpus;
}

/* ---- changes ---- */

/* Does the recording tell what a step takes with that? A change that it says nothing of is none. */
static bool is_told(const framework_subject *q, const torch_settings *s) {
    recorded_sizes sizes;
    recorded_course course = { 0 };
    status result = recorded_sizes_find(q->recorded, s->batch, s->context, s->checkpointing, &sizes);
    if (result == STATUS_OK && s->checkpointing)
        result = recorded_course_find(q->recorded, sizes.program, true, s->checkpoint_saves, &course);
    recorded_course_close(&course);
    recorded_sizes_close(&sizes);
    return result == STATUS_OK;
}

static bool to_fused_update(const framework_subject *q, framework_settings *settings, char *out) {
    torch_settings *s = &settings->torch;
    bool adam = strncmp(q->recorded->optimizer, "Adam", 4) == 0;
    snprintf(out, FRAMEWORK_CHANGE_BYTES, "--optimizer-kernels fused");
    bool is_new = !s->update_by_rule || s->update != TORCH_FUSED;
    if (!adam || s->optimizer != OPTIMIZER_ADAMW || s->state_bits == 8 || !is_new) return false;
    s->update = TORCH_FUSED, s->update_by_rule = true;
    return true;
}

static bool to_part(const framework_subject *q, framework_settings *settings, int64_t most, char *out) {
    torch_settings *s = &settings->torch;
    if (s->batch <= most || most < 1) return false;
    while (s->step % most) most--;
    s->batch = most;
    snprintf(out, FRAMEWORK_CHANGE_BYTES, "--micro-batch %lld", (long long)most);
    return is_told(q, s);
}

static bool to_smaller(const framework_subject *q, framework_settings *s, char *out) {
    return to_part(q, s, (s->torch.batch + 1) / 2, out);
}

static bool to_one(const framework_subject *q, framework_settings *s, char *out) {
    return to_part(q, s, 1, out);
}

static bool to_checkpointing(const framework_subject *q, framework_settings *settings, char *out) {
    torch_settings *s = &settings->torch;
    snprintf(out, FRAMEWORK_CHANGE_BYTES, "--gradient-checkpointing");
    if (s->checkpointing || !recorded_computes_again(q->recorded)) return false;
    s->checkpointing = true;
    return is_told(q, s);
}

static bool to_codes(const framework_subject *q, framework_settings *settings, char *out) {
    torch_settings *s = &settings->torch;
    bool adam = strncmp(q->recorded->optimizer, "Adam", 4) == 0;
    snprintf(out, FRAMEWORK_CHANGE_BYTES, "--optimizer-bits 8");
    if (!adam || s->state_bits == 8 || s->optimizer != OPTIMIZER_ADAMW) return false;
    s->state_bits = 8, s->update_by_rule = true;
    return true;
}

static const framework_change changes[] = {
    { .apply = to_fused_update }, { .apply = to_smaller, .alone = true }, { .apply = to_checkpointing },
    { .apply = to_one },          { .apply = to_codes, .alters = true },
};
enum { CHANGES = sizeof changes / sizeof *changes };

const framework framework_recorded = { "recorded", "PyTorch", changes,  CHANGES, check,
                                       estimate,   describe,  variable, NULL };
