#include "estimate/recorded/recorded_within.h"

#include <string.h>

#include "base/memory.h"

static const char narrow[] = "bfloat16", wide[] = "float32";

static const char *const elementwise[] = { "add",     "sub",     "mul",     "div",     "pow", "where",
                                           "addcmul", "addcdiv", "maximum", "minimum", "eq",  "ne",
                                           "lt",      "le",      "gt",      "ge" };

static bool is_narrow(const char *type) { return edit_is_float(type) && edit_width(type) == 2; }

/* "add.Tensor" and "add_.Tensor" are `add`. */
static bool is_elementwise(const recorded_edit *e, uint32_t call) {
    const char *name = edit_call_name(e, call);
    size_t length = strcspn(name, ".");
    if (length && name[length - 1] == '_') length--;
    for (size_t i = 0; i < sizeof elementwise / sizeof *elementwise; i++)
        if (strlen(elementwise[i]) == length && strncmp(name, elementwise[i], length) == 0) return true;
    return false;
}

/* By storage: does it come and go within a call, so that none has it as an operand? */
static bool *find_within(recorded_edit *e) {
    bool *within = memory_new((size_t)e->storage_count + 1, sizeof *within);
    if (!within) e->failed = true;
    for (uint32_t i = 1; within && i <= e->storage_count; i++) {
        const edit_storage *s = edit_at(e, i);
        within[i] = s->role == RECORDING_MADE && !s->gone && s->born && s->died == s->born;
    }
    for (uint32_t i = 0; within && i < e->operand_count; i++) within[e->operands[i]] = false;
    return within;
}

void recorded_within_widen(recorded_edit *e) {
    bool *within = find_within(e);
    const recording_column *said = &e->from->within;
    for (uint32_t i = 0; within && i < said->count; i++) within[said->of[i]] = false;
    for (uint32_t i = 1; within && i <= e->storage_count; i++)
        if (within[i] && strstr(edit_call_name(e, edit_at(e, i)->born), "mm")) edit_drop(e, i);
    memory_free(within);
}

/* The type of the first float that a call reads; nothing: there is none. */
static const char *type_now(const recorded_edit *e, uint32_t call) {
    for (uint32_t k = 0; k < e->calls[call].reads; k++) {
        const char *type = edit_dtype(e, edit_reads(e, call)[k]);
        if (edit_is_float(type)) return type;
    }
    return NULL;
}

/* By call of the recording, from 1: where its operands begin there. */
static uint32_t *find_operands(recorded_edit *e) {
    const recording_program *p = e->from;
    uint32_t *first = memory_new((size_t)p->call_name.count + 2, sizeof *first);
    if (!first) e->failed = true;
    for (uint32_t i = 1; first && i <= p->call_name.count; i++)
        first[i + 1] = first[i] + (uint32_t)(p->reads.of[i - 1] + p->makes.of[i - 1]);
    return first;
}

static const char *type_recorded(const recorded_edit *e, const uint32_t *first, uint32_t call) {
    const recording_program *p = e->from;
    for (int64_t k = 0; k < p->reads.of[call - 1]; k++) {
        const char *type = p->strings.of[p->dtype.of[p->operands.of[first[call] + k] - 1]];
        if (edit_is_float(type)) return type;
    }
    return NULL;
}

static void take_other_types(recorded_edit *e) {
    const recording_column *said = &e->from->within;
    uint32_t *first = find_operands(e);
    for (uint32_t i = 0; first && i < said->count; i++) {
        edit_storage *s = edit_at(e, (uint32_t)said->of[i]);
        if (s->gone || !s->born || s->born > e->from->call_name.count) continue;
        const char *now = type_now(e, s->born), *then = type_recorded(e, first, s->born);
        if (now && then && is_narrow(now) != is_narrow(then)) s->bytes = s[1].bytes;
    }
    memory_free(first);
}

/* Copies of what was not contiguous: they have the type of what the call reads first. */
static void lower_copies(recorded_edit *e, const bool *within) {
    for (uint32_t i = 1; i <= e->from->role.count; i++) {
        uint32_t call = edit_at(e, i)->born;
        bool copies = within[i] && strcmp(edit_dtype(e, i), wide) == 0 && e->calls[call].reads;
        if (copies && is_narrow(edit_dtype(e, edit_reads(e, call)[0]))) edit_retype(e, i, narrow);
    }
}

enum { SCALAR = 8 }; /* bytes of what has no dimensions, and takes part in no promotion */

static double numbers_cast(const recorded_edit *e, uint32_t call) {
    const edit_call *c = edit_call_at(e, call);
    double numbers = 0;
    bool meets_wide = false;
    for (uint32_t k = 0; k < c->reads; k++) {
        uint32_t x = edit_reads(e, call)[k];
        const char *type = edit_dtype(e, x);
        if (edit_at(e, x)->bytes <= SCALAR || !edit_is_float(type)) continue;
        meets_wide |= !is_narrow(type);
        numbers += is_narrow(type) ? edit_numbers(e, x) : 0;
        for (uint32_t i = 0; i < c->makes; i++) /* in place: it is copied back, too */
            numbers += is_narrow(type) && edit_makes(e, call)[i] == x ? edit_numbers(e, x) : 0;
    }
    return meets_wide ? numbers : 0;
}

void recorded_within_mix(recorded_edit *e) {
    bool *within = find_within(e);
    uint32_t known = e->storage_count;
    for (uint32_t i = 1; within && i <= known; i++)
        if (within[i] && is_elementwise(e, edit_at(e, i)->born)) edit_drop(e, i);
    for (uint32_t call = edit_first(e); within && call && !e->failed; call = edit_next(e, call)) {
        double numbers = is_elementwise(e, call) ? numbers_cast(e, call) : 0;
        if (!(numbers > 0)) continue;
        uint32_t copy = edit_add(e, &(edit_new){ RECORDING_MADE, wide, numbers, 0, false });
        edit_storage *s = edit_at(e, copy);
        s->gone = false, s->born = s->died = s->left = call;
    }
    memory_free(within);
}

void recorded_within_retype(recorded_edit *e, bool cuda) {
    bool *within = find_within(e);
    if (within) lower_copies(e, within);
    if (within && !cuda) take_other_types(e);
    memory_free(within);
}
