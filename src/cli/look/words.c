/* Words that the text and the page of a snapshot share. */
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "cli/look/look.h"

const look_category look_categories[ROLES_COUNT] = {
    [ROLES_WEIGHT] = { "weights", "and buffers of modules" },
    [ROLES_GRADIENT] = { "gradients", "of weights" },
    [ROLES_STATE] = { "optimizer state", "moments, step counts" },
    [ROLES_ACTIVATION] = { "activations", "what forward keeps for backward" },
    [ROLES_INPUT] = { "inputs", "made outside of the model" },
    [ROLES_TEMPORARY] = { "temporaries", "freed in the phase that made them" },
    [ROLES_WORKSPACE] = { "workspaces", "of libraries, as cuBLAS" },
    [ROLES_BEFORE] = { "before recording", "there when it began" },
    [ROLES_UNKNOWN] = { "unknown", "nothing tells what it is" },
};

const look_remedy look_remedies[REMEDIES_COUNT] = {
    [REMEDIES_CHECKPOINTING] = { "gradient checkpointing",
                                 "of a block's activations what it hands on stays; a third more time" },
    [REMEDIES_HALF_BATCH] = { "half the micro-batch", "with twice the accumulation: the same run" },
    [REMEDIES_FUSED_LOSS] = { "a fused loss", "an eighth of the logits at a time, as in Liger's kernels" },
    [REMEDIES_FUSED_UPDATE] = { "a fused update", "AdamW(fused=True): no temporaries beside the weights" },
    [REMEDIES_SMALL_STATE] = { "state in 8 bits", "an optimizer of bitsandbytes or torchao: other results" },
};

/* ---- code ---- */

static const char *last_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

const char *look_frame_text(const look_file *f, const stacks_frame *x, char out[LOOK_FRAME_BYTES]) {
    char name[REPORT_NAME_BYTES], file[REPORT_NAME_BYTES], number[LOOK_NAME_BYTES];
    report_name(look_function_name(f, x, number), name);
    report_name(last_of(look_file_name(f, x, number)), file);
    if (x->line)
        snprintf(out, LOOK_FRAME_BYTES, "%.60s:%u, %.80s", file, x->line, name);
    else
        snprintf(out, LOOK_FRAME_BYTES, "%.120s", name);
    return out;
}

const char *look_said_text(const look_file *f, uint32_t stack, char out[LOOK_FRAME_BYTES]) {
    const stacks *s = &f->snapshot.stacks;
    char name[REPORT_NAME_BYTES], number[LOOK_NAME_BYTES];
    *out = 0;
    for (uint32_t i = 0; i < stacks_depth(s, stack) && !*out; i++)
        if (stacks_is_said(stacks_at(s, stack, i)))
            snprintf(out, LOOK_FRAME_BYTES, ", in %.80s",
                     report_name(look_function_name(f, stacks_at(s, stack, i), number), name));
    return out;
}

const char *look_stack_text(const look_file *f, uint32_t stack, char out[LOOK_FRAME_BYTES]) {
    const stacks *s = &f->snapshot.stacks;
    uint32_t own = traits_own_frame(&f->snapshot, stack), depth = stacks_depth(s, stack), first = 0;
    while (first < depth && stacks_is_said(stacks_at(s, stack, first))) first++;
    if (f->snapshot.form == SNAPSHOT_TIMELINE) first = 0; /* a category is all that there is */
    if (first == depth) return "no frames";
    return look_frame_text(f, stacks_at(s, stack, own == UINT32_MAX ? first : own), out);
}

/* ---- a moment ---- */

void look_moment_text(text *t, const look_device *d) {
    const snapshot_trace *x = d->trace;
    char seconds[UNITS_TEXT_BYTES];
    course_moment m = course_moment_of(&d->course, d->instant);
    if (!x->events) {
        text_add(t, "as it was when the snapshot was taken; no events were recorded");
        return;
    }
    if (m.phase != COURSE_OTHER)
        text_add(t, "in the %s of step %u, ", course_phase_name(m.phase), m.step);
    else if (d->course.count) /* else nothing tells of steps */
        text_add(t, m.step ? "before the forward of step %u, " : "before the first step, ", m.step);
    text_add(t, "at event %u of %u", d->instant, x->events);
    if (x->first)
        text_add(t, ", %s after the first", units_seconds_text(1e-6 * (double)(d->time - x->first), seconds));
}
