#include "snapshot/levels.h"

#include <stdlib.h>

#include "base/memory.h"

static int ascending(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

status levels_open(const snapshot_trace *t, levels *l) {
    uint32_t pieces = snapshot_count(&t->pieces), before = snapshot_count(&t->before);
    *l = (levels){ .trace = t };
    l->deaths = memory_room((size_t)pieces + before + 1, sizeof *l->deaths);
    if (!l->deaths) return status_set(STATUS_FAILED, "no memory to play the recording");
    for (uint32_t i = 0; i < pieces; i++)
        if (snapshot_piece_at(&t->pieces, i)->died != SNAPSHOT_NEVER)
            l->deaths[l->count++] = (uint64_t)snapshot_piece_at(&t->pieces, i)->died << 32 | i;
    for (uint32_t i = 0; i < before; i++)
        if (snapshot_piece_at(&t->before, i)->died != SNAPSHOT_NEVER)
            l->deaths[l->count++] =
                (uint64_t)snapshot_piece_at(&t->before, i)->died << 32 | LEVELS_BEFORE | i;
    qsort(l->deaths, l->count, sizeof *l->deaths, ascending);
    return STATUS_OK;
}

void levels_close(levels *l) {
    memory_free(l->deaths);
    *l = (levels){ 0 };
}

static uint64_t weight_of(const levels *l, const levels_play *p, uint32_t piece) {
    return p->weight ? p->weight(p->of, piece) : levels_piece(l, piece)->bytes;
}

static void reach(const levels_play *p, levels_peak *peak, uint32_t at, uint64_t level) {
    if (level > peak->bytes) *peak = (levels_peak){ level, at };
    if (p->each) p->each(p->context, at, level);
}

levels_peak levels_run(const levels *l, const levels_play *p) {
    uint32_t next = 0, dead = 0, pieces = snapshot_count(&l->trace->pieces);
    uint64_t level = 0;
    levels_peak peak = { 0, 0 };
    for (uint32_t i = 0; i < snapshot_count(&l->trace->before); i++)
        level += weight_of(l, p, LEVELS_BEFORE | i);
    reach(p, &peak, 0, level);
    while (next < pieces || dead < l->count) {
        uint32_t born = next < pieces ? snapshot_piece_at(&l->trace->pieces, next)->born : SNAPSHOT_NEVER,
                 died = dead < l->count ? (uint32_t)(l->deaths[dead] >> 32) : SNAPSHOT_NEVER,
                 at = born < died ? born : died;
        for (; dead < l->count && l->deaths[dead] >> 32 == at; dead++)
            level -= weight_of(l, p, (uint32_t)l->deaths[dead]);
        if (born == at) level += weight_of(l, p, next++);
        reach(p, &peak, at, level);
    }
    return peak;
}
