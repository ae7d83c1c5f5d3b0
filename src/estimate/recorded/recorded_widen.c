#include "estimate/recorded/recorded_widen.h"

#include <string.h>

#include "base/memory.h"

/* Between the types that become one. */
static bool casts_nothing(const recorded_edit *e, uint32_t call) {
    const edit_call *c = edit_call_at(e, call);
    if (!edit_is_call(e, call, "_to_copy") || c->reads != 1 || c->makes != 1) return false;
    uint32_t x = edit_reads(e, call)[0], y = edit_makes(e, call)[0];
    bool floats = edit_is_float(edit_dtype(e, x)) && edit_is_float(edit_dtype(e, y));
    return x != y && floats && edit_is_narrow(e, x) != edit_is_narrow(e, y);
}

/* What a cast made is what it read; then the cast goes. In this order, since what goes with its call is no
 * gradient any more. `widened`: of storages, moves with what is replaced. */
void recorded_widen(recorded_edit *e, bool *widened) {
    uint32_t *by = memory_new((size_t)e->storage_count + 1, sizeof *by), next;
    bool *is_cast = memory_new((size_t)e->call_count + 1, sizeof *is_cast);
    bool there = by && is_cast;
    for (uint32_t i = 0; there && i <= e->storage_count; i++) by[i] = i;
    for (uint32_t call = there ? edit_first(e) : 0; call; call = edit_next(e, call)) {
        is_cast[call] = casts_nothing(e, call);
        if (is_cast[call]) by[edit_makes(e, call)[0]] = by[edit_reads(e, call)[0]];
    }
    for (uint32_t i = 1; there && i <= e->storage_count; i++) {
        if (edit_is_narrow(e, i)) edit_retype(e, i, "float32");
        widened[by[i]] |= widened[i];
    }
    if (there)
        edit_replace(e, by);
    else
        e->failed = true;
    for (uint32_t call = there ? edit_first(e) : 0; call; call = next) {
        next = edit_next(e, call);
        if (is_cast[call]) edit_remove(e, call);
    }
    memory_free(by);
    memory_free(is_cast);
}
