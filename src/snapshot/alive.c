#include "snapshot/alive.h"

#include <stdlib.h>

#include "base/memory.h"

static status add(alive *a, const snapshot_piece *p) {
    if (a->count == a->room) {
        uint32_t room = a->room ? 2 * a->room : 256;
        const snapshot_piece **more = memory_resize(a->pieces, room, sizeof *more);
        if (!more) return status_set(STATUS_FAILED, "no memory for what is alive in the snapshot");
        a->pieces = more, a->room = room;
    }
    a->pieces[a->count++] = p;
    a->bytes += p->bytes;
    return STATUS_OK;
}

static status add_all(alive *a, const array *pieces, uint32_t instant) {
    for (uint32_t i = 0; i < snapshot_count(pieces); i++) {
        const snapshot_piece *p = snapshot_piece_at(pieces, i);
        if (p->born > instant) break;
        if (p->died > instant) TRY(add(a, p));
    }
    return STATUS_OK;
}

status alive_at(const snapshot_trace *t, uint32_t instant, alive *a) {
    *a = (alive){ 0 };
    status result = add_all(a, &t->before, instant);
    if (result == STATUS_OK) result = add_all(a, &t->pieces, instant);
    if (result != STATUS_OK) alive_close(a);
    return result;
}

void alive_close(alive *a) {
    memory_free(a->pieces);
    *a = (alive){ 0 };
}

static int by_stack(const void *a, const void *b) {
    uint32_t x = (*(const snapshot_piece *const *)a)->stack, y = (*(const snapshot_piece *const *)b)->stack;
    return x < y ? -1 : x > y;
}

static int largest_first(const void *a, const void *b) {
    const alive_group *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    return x->stack < y->stack ? -1 : x->stack > y->stack;
}

status alive_by_stack(const alive *a, alive_group **groups, uint32_t *count) {
    const snapshot_piece **sorted = memory_room(a->count + 1, sizeof *sorted);
    *groups = memory_room(a->count + 1, sizeof **groups);
    *count = 0;
    if (!sorted || !*groups) {
        memory_free(sorted), memory_free(*groups);
        *groups = NULL;
        return status_set(STATUS_FAILED, "no memory for what is alive in the snapshot");
    }
    for (uint32_t i = 0; i < a->count; i++) sorted[i] = a->pieces[i];
    qsort(sorted, a->count, sizeof *sorted, by_stack);
    for (uint32_t i = 0; i < a->count; i++) {
        if (i == 0 || sorted[i]->stack != sorted[i - 1]->stack)
            (*groups)[(*count)++] = (alive_group){ .stack = sorted[i]->stack };
        (*groups)[*count - 1].count++;
        (*groups)[*count - 1].bytes += sorted[i]->bytes;
    }
    memory_free(sorted);
    qsort(*groups, *count, sizeof **groups, largest_first);
    return STATUS_OK;
}
