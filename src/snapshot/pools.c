#include "snapshot/pools.h"

#include <stdlib.h>

#include "base/memory.h"

typedef struct {
    uint64_t begins, ends;
    uint16_t lane;
    int32_t device;
} stretch;

static int by_address(const void *a, const void *b) {
    const stretch *x = a, *y = b;
    return x->begins < y->begins ? -1 : x->begins > y->begins;
}

/* The last that begins at the address or before it; devices have addresses of their own. */
static const stretch *find(const stretch *all, uint32_t count, uint64_t address, int32_t device) {
    uint32_t low = 0, high = count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (all[middle].begins <= address)
            low = middle + 1;
        else
            high = middle;
    }
    bool inside = low && address < all[low - 1].ends && all[low - 1].device == device;
    return inside ? &all[low - 1] : NULL;
}

static void set_lanes(const stretch *all, uint32_t count, const snapshot_trace *t) {
    const stretch *x;
    for (uint32_t i = 0; i < snapshot_count(&t->pieces); i++) {
        snapshot_piece *p = snapshot_piece_at(&t->pieces, i);
        if ((x = find(all, count, p->address, t->device))) p->lane = x->lane & 0x7fffu;
    }
    for (uint32_t i = 0; i < snapshot_count(&t->before); i++) {
        snapshot_piece *p = snapshot_piece_at(&t->before, i);
        if ((x = find(all, count, p->address, t->device))) p->lane = x->lane & 0x7fffu;
    }
    for (uint32_t i = 0; i < snapshot_count(&t->turns); i++) {
        snapshot_turn *turn = snapshot_turn_at(t, i);
        x = turn->kind < SNAPSHOT_OOM ? find(all, count, turn->address, t->device) : NULL;
        if (x) turn->lane = x->lane;
    }
}

status pools_infer(snapshot *s) {
    uint32_t count = 0, segments = snapshot_count(&s->segments);
    if (s->tells_pools || !segments) return STATUS_OK;
    stretch *all = memory_room(segments, sizeof *all);
    if (!all) return status_set(STATUS_FAILED, "no memory for the segments of the snapshot");
    for (uint32_t i = 0; i < segments; i++) {
        const snapshot_segment *g = snapshot_segment_at(s, i);
        if (snapshot_lane_at(s, g->stream)->pool && g->address <= UINT64_MAX - g->bytes)
            all[count++] = (stretch){ g->address, g->address + g->bytes, (uint16_t)g->stream, g->device };
    }
    qsort(all, count, sizeof *all, by_address);
    for (uint32_t i = 0; i < s->trace_count && count; i++)
        if (!s->traces[i].host) set_lanes(all, count, &s->traces[i]);
    memory_free(all);
    return STATUS_OK;
}
