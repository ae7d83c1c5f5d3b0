/* Where autograd adds gradients up. A recorded f32 step has no casts, so its sums stand elsewhere than those
 * of 16 bits: results are cast before they are added, those of a norm's f32 copy behind their own sum. */
#include "estimate/recorded/recorded_retyping.h"

/* The call of forward that a gradient is of, also behind a cast; 0: none. */
static uint32_t node_of(const recorded_edit *e, uint32_t gradient) {
    uint32_t born = edit_at(e, gradient)->born;
    bool cast = born > e->from->call_name.count && edit_is_call(e, born, "_to_copy");
    if (cast) born = edit_at(e, edit_reads(e, born)[0])->born;
    return born ? e->calls[born].of : 0;
}

bool recorded_is_sum(const recorded_edit *e, uint32_t call) {
    const edit_call *c = edit_call_at(e, call);
    if (!edit_is_call(e, call, "add") || c->phase != RECORDING_BACKWARD || c->reads != 2) return false;
    uint32_t before = edit_reads(e, call)[0], result = edit_reads(e, call)[1];
    if (!c->of || !is_of_backward(e, before) || !is_of_backward(e, result)) return false;
    return node_of(e, result) == c->of && node_of(e, before) != c->of;
}

uint32_t recorded_end_of_node(const recorded_edit *e, uint32_t call) {
    uint32_t last = edit_end_of_node(e, call);
    while (call != last && !recorded_is_sum(e, edit_next(e, call))) call = edit_next(e, call);
    return call;
}

void recorded_replace_behind(recorded_edit *e, uint32_t call, uint32_t old, uint32_t new) {
    while ((call = edit_next(e, call)) != 0)
        for (uint32_t k = 0; k < e->calls[call].reads + e->calls[call].makes; k++)
            if (edit_reads(e, call)[k] == old) edit_reads(e, call)[k] = new, e->calls[call].rewired = true;
    edit_at(e, old)->loose = edit_at(e, new)->loose = true;
}

/* ---- sums of a norm's gradients ---- */

/* The first behind `call` that reads `storage`; 0: none. */
static uint32_t next_reader(const recorded_edit *e, uint32_t call, uint32_t storage) {
    while ((call = edit_next(e, call)) != 0)
        for (uint32_t k = 0; k < e->calls[call].reads; k++)
            if (edit_reads(e, call)[k] == storage) return call;
    return 0;
}

/* Does it add what that norm of several calls has made to other gradients? */
static bool is_sum_of_norm(const retyping *t, uint32_t call, uint32_t module) {
    const recorded_edit *e = t->e;
    bool norm = t->writes_norm[module] && t->is_of_narrow[module];
    return norm && call && e->calls[call].module == module && recorded_is_sum(e, call);
}

static bool share_copy(const retyping *t, uint32_t one, uint32_t other) {
    for (uint32_t i = t->casts[one]; i; i = t->cast[i].next)
        for (uint32_t k = t->casts[other]; k; k = t->cast[k].next)
            if (t->cast[i].made == t->cast[k].made) return true;
    return false;
}

/* Where `first` adds one of two gradients of a copy to others, the sum that adds the other one; 0: it is not
 * so. */
static uint32_t second_sum(const retyping *t, uint32_t first) {
    const recorded_edit *e = t->e;
    uint32_t module = e->calls[first].module;
    if (!is_sum_of_norm(t, first, module)) return 0;
    uint32_t sum = edit_makes(e, first)[0], second = next_reader(e, first, sum);
    if (!is_sum_of_norm(t, second, module) || edit_makes(e, second)[0] != sum) return 0;
    return share_copy(t, e->calls[first].of, e->calls[second].of) ? second : 0;
}

bool recorded_waits_for_sum(const retyping *t, uint32_t call, uint32_t result) {
    const recorded_edit *e = t->e;
    if (!t->is_of_narrow[e->calls[call].module]) return false; /* so that few look for a reader */
    uint32_t reader = next_reader(e, call, result);
    if (!is_sum_of_norm(t, reader, e->calls[call].module)) return false;
    uint32_t before = edit_reads(e, reader)[0];
    return is_wide(e, before) || second_sum(t, reader);
}

/* Where nothing else is added: the sum is cast, and all that follows has what comes of it. */
static void cast_sum(retyping *t, uint32_t call) {
    recorded_edit *e = t->e;
    uint32_t sum = edit_makes(e, call)[0], next = next_reader(e, call, sum);
    bool both = is_wide(e, edit_reads(e, call)[0]) && is_wide(e, edit_reads(e, call)[1]);
    if (!both || !next || next > e->from->call_name.count) return;
    if (!share_copy(t, node_of(e, edit_reads(e, call)[0]), e->calls[call].of)) return;
    uint32_t made = recorded_cast(e, call, call, sum, narrow);
    recorded_replace_behind(e, edit_next(e, call), sum, made);
}

bool recorded_add_behind_norm(retyping *t, uint32_t call) {
    recorded_edit *e = t->e;
    uint32_t second = second_sum(t, call);
    if (is_sum_of_norm(t, call, e->calls[call].module)) cast_sum(t, call);
    if (!second) return false;
    uint32_t others = edit_reads(e, call)[0], one = edit_reads(e, call)[1], sum = edit_makes(e, call)[0];
    if (!edit_is_narrow(e, others) || !is_wide(e, one)) return false;
    uint64_t bytes = edit_at(e, sum)->bytes;
    edit_remove(e, call);
    edit_at(e, sum)->bytes = bytes; /* somebody else makes it */
    edit_read_instead(e, second, sum, one);
    edit_makes(e, second)[0] = one;
    uint32_t end = edit_end_of_node(e, second), cast = recorded_cast(e, end, second, one, narrow);
    edit_new_call add = { "add.Tensor", RECORDING_BACKWARD, e->calls[second].module, 0, { others, cast },
                          { sum } };
    edit_insert(e, edit_next(e, end), &add);
    return true;
}
