#include "estimate/recorded/recorded_regions.h"

#include <string.h>

#include "base/memory.h"

static status no_memory(void) { return status_set(STATUS_FAILED, "no memory to estimate"); }

static uint32_t most_of(uint32_t a, uint32_t b) { return a > b ? a : b; }

static uint32_t calls_of(const recording_program *p) { return p->call_name.count; }

static bool is_forward(const recording_program *p, uint32_t call) {
    return call && call <= calls_of(p) && p->phase.of[call - 1] == RECORDING_FORWARD;
}

/* ---- lifetimes ---- */

static void note_events(recorded_holds *h) {
    uint32_t call = 0;
    for (uint32_t s = 1; s <= recording_storages(h->p); s++) h->died[s] = RECORDED_NEVER;
    for (uint32_t i = 0; i < h->p->events.count; i++) {
        int64_t e = h->p->events.of[i];
        if (!e) call++;
        if (e < 0) h->died[-e] = call;
        if (e > 0 && is_forward(h->p, call)) h->born[e] = call;
    }
}

/* The last call of forward that reads or makes each storage. */
static void note_reads(const recorded_holds *h, uint32_t *read) {
    uint32_t at = 0;
    for (uint32_t call = 1; call <= calls_of(h->p); call++) {
        int64_t operands = h->p->reads.of[call - 1] + h->p->makes.of[call - 1];
        for (int64_t k = 0; k < operands && is_forward(h->p, call); k++)
            read[h->p->operands.of[at + k]] = call;
        at += (uint32_t)operands;
    }
}

static uint32_t last_forward(const recording_program *p) {
    uint32_t last = 0;
    for (uint32_t call = 1; call <= calls_of(p); call++)
        if (is_forward(p, call)) last = call;
    return last;
}

/* Autocast holds its copies of weights until forward is over: as if forward's last call read them. */
static void note_copies(const recorded_holds *h, uint32_t last, uint32_t *read) {
    const recording_program *p = h->p;
    uint32_t at = 0;
    for (uint32_t call = 1; call <= calls_of(p); call++) {
        const int64_t *operands = p->operands.of + at;
        int64_t reads = p->reads.of[call - 1], makes = p->makes.of[call - 1];
        bool copies = strncmp(p->strings.of[p->call_name.of[call - 1]], "_to_copy", 8) == 0 && reads && makes;
        if (copies && is_forward(p, call) && p->role.of[operands[0] - 1] == RECORDING_PARAMETER)
            read[operands[reads]] = last;
        at += (uint32_t)(reads + makes);
    }
}

/* Does it outlive forward, which made it? */
static bool outlives(const recorded_holds *h, uint32_t storage, uint32_t last) {
    return h->born[storage] && h->died[storage] != RECORDED_NEVER && h->died[storage] > last;
}

static status find_left(recorded_holds *h, bool casts) {
    const recording_program *p = h->p;
    if (p->left.count) {
        for (uint32_t s = 1; s <= recording_storages(p); s++) {
            int64_t left = p->left.of[s - 1];
            h->left[s] = left > calls_of(p) ? RECORDED_NEVER : (uint32_t)left;
        }
        return STATUS_OK;
    }
    uint32_t *read = memory_new((size_t)recording_storages(p) + 1, sizeof *read), last = last_forward(p);
    if (!read) return no_memory();
    note_reads(h, read);
    if (casts) note_copies(h, last, read);
    for (uint32_t s = 1; s <= recording_storages(p); s++)
        h->left[s] = outlives(h, s, last) ? most_of(read[s], h->born[s]) : h->died[s];
    memory_free(read);
    return STATUS_OK;
}

/* ---- regions ---- */

static uint32_t open_region(recorded_holds *h, uint32_t parent, uint32_t first, uint32_t block) {
    uint32_t n = ++h->region_count, depth = h->regions[parent].depth + 1;
    h->regions[n] = (recorded_region){
        .block = block, .parent = parent, .depth = depth, .first = first, .last = first - 1
    };
    if (depth > h->depth) h->depth = depth;
    return n;
}

/* Deeper ones belong to those around them: memory grows with each. */
enum { MOST_DEPTH = 8 };

/* Saves of a visit are those of its region until one within is entered. */
static void regions_of_visits(recorded_holds *h, const uint32_t *block_of) {
    const recording_program *p = h->p;
    uint32_t current = 0;
    for (uint32_t i = 0; i < p->visit_module.count; i++) {
        uint32_t from = (uint32_t)p->visit_calls.of[2 * i], to = (uint32_t)p->visit_calls.of[2 * i + 1];
        uint32_t block = block_of[p->visit_module.of[i]];
        while (current && h->regions[current].last <= from) current = h->regions[current].parent;
        if (current && to > h->regions[current].last) to = h->regions[current].last;
        const recorded_region *around = &h->regions[current];
        if (!block || around->block == block || to <= from || around->depth == MOST_DEPTH) continue;
        current = open_region(h, current, from + 1, block);
        recorded_region *g = &h->regions[current];
        g->last = to;
        g->saves = (uint32_t)p->visit_saves.of[2 * i], g->saves_end = (uint32_t)p->visit_saves.of[2 * i + 1];
        for (uint32_t k = g->saves; k < g->saves_end; k++) h->saves[k].region = current;
    }
}

/* Calls of one block that follow one another. */
static void regions_of_calls(recorded_holds *h, const uint32_t *block_of) {
    uint32_t current = 0;
    for (uint32_t call = 1; is_forward(h->p, call); call++) {
        uint32_t block = block_of[h->p->module.of[call - 1]];
        if (block && h->regions[current].block != block)
            current = open_region(h, 0, call, block);
        else if (!block)
            current = 0;
        if (current) h->regions[current].last = call;
    }
}

/* ---- what autograd keeps ---- */

static void saves_of_columns(recorded_holds *h) {
    const recording_program *p = h->p;
    for (uint32_t i = 0; i < p->save_storage.count; i++) {
        int64_t used = p->save_used.of[i], until = p->save_until.of[i];
        h->saves[i] = (recorded_save){ .storage = (uint32_t)p->save_storage.of[i],
                                       .at = (uint32_t)p->save_at.of[i],
                                       .used = used > calls_of(p) ? RECORDED_NEVER : (uint32_t)used,
                                       .until = until > calls_of(p) ? RECORDED_NEVER : (uint32_t)until };
    }
    h->save_count = p->save_storage.count;
}

static uint32_t region_of_call(const recorded_holds *h, uint32_t call) {
    for (uint32_t n = h->region_count; n; n--)
        if (h->regions[n].first <= call && call <= h->regions[n].last) return n;
    return 0;
}

/* By region: behind which call its backward begins. */
static void note_backward(const recorded_holds *h, const uint32_t *region_of, uint32_t *begin) {
    for (uint32_t call = calls_of(h->p); call; call--) {
        int64_t of = h->p->of.of[call - 1];
        if (of && h->p->phase.of[call - 1] == RECORDING_BACKWARD) begin[region_of[of]] = call - 1;
    }
}

/* What outlives forward, as if it were kept by the call that made it; by others if they read it. */
static void guess_with(recorded_holds *h, uint32_t *region_of, uint32_t *begin, bool *outside) {
    const recording_program *p = h->p;
    uint32_t last = last_forward(p), at = 0;
    for (uint32_t call = 1; call <= calls_of(p); call++) {
        region_of[call] = is_forward(p, call) ? region_of_call(h, call) : 0;
        for (int64_t k = 0; k < p->reads.of[call - 1] && is_forward(p, call); k++) {
            int64_t s = p->operands.of[at + k];
            outside[s] |= h->born[s] && region_of[h->born[s]] != region_of[call];
        }
        at += (uint32_t)(p->reads.of[call - 1] + p->makes.of[call - 1]);
    }
    note_backward(h, region_of, begin);
    for (uint32_t s = 1; s <= recording_storages(p); s++) {
        uint32_t region = region_of[h->born[s]];
        if (!outlives(h, s, last)) continue;
        if (outside[s] || h->died[s] < begin[region]) region = 0;
        h->saves[h->save_count++] = (recorded_save){ s, h->born[s], begin[region], h->died[s], region };
    }
    for (uint32_t n = 1; n <= h->region_count; n++) h->regions[n].saves_end = h->save_count;
}

static status guess_saves(recorded_holds *h) {
    uint32_t *region_of = memory_new((size_t)calls_of(h->p) + 1, sizeof *region_of);
    uint32_t *begin = memory_new((size_t)h->region_count + 1, sizeof *begin);
    bool *outside = memory_new((size_t)recording_storages(h->p) + 1, sizeof *outside);
    bool made = region_of && begin && outside;
    if (made) guess_with(h, region_of, begin, outside);
    memory_free(region_of);
    memory_free(begin);
    memory_free(outside);
    return made ? STATUS_OK : no_memory();
}

/* ---- when regions are run again ---- */

/* What a region keeps counts for those around it too. */
static void time_regions(recorded_holds *h) {
    for (uint32_t n = 1; n <= h->region_count; n++) h->regions[n].begin = RECORDED_NEVER;
    for (uint32_t i = 0; i < h->save_count; i++) {
        const recorded_save *s = &h->saves[i];
        for (uint32_t n = s->region; n; n = h->regions[n].parent) {
            recorded_region *g = &h->regions[n];
            if (s->used < g->begin) g->begin = s->used;
            if (s->until != RECORDED_NEVER) g->end = most_of(g->end, s->until);
            /* of a region within it keeps what that was given, so it stops before that */
            g->stop = most_of(g->stop, n == s->region ? s->at : 0);
        }
    }
    for (uint32_t n = h->region_count; n; n--) {
        recorded_region *g = &h->regions[n], *outer = &h->regions[g->parent];
        if (g->begin == RECORDED_NEVER || is_forward(h->p, g->begin + 1)) g->end = 0;
        if (g->stop > g->last) g->stop = g->last;
        if (g->parent && g->end) outer->stop = most_of(outer->stop, g->first - 1);
    }
}

static status open_holds(recorded_holds *h) {
    const recording_program *p = h->p;
    size_t storages = (size_t)recording_storages(p) + 1,
           regions = most_of(p->visit_module.count, calls_of(p));
    h->born = memory_new(storages, sizeof *h->born);
    h->died = memory_new(storages, sizeof *h->died);
    h->left = memory_new(storages, sizeof *h->left);
    h->saves = memory_new(most_of((uint32_t)storages, p->save_storage.count + 1), sizeof *h->saves);
    h->regions = memory_new(regions + 1, sizeof *h->regions);
    return h->born && h->died && h->left && h->saves && h->regions ? STATUS_OK : no_memory();
}

status recorded_holds_find(const recording_program *p, const uint32_t *block_of, bool casts,
                           recorded_holds *h) {
    *h = (recorded_holds){ .p = p };
    TRY(open_holds(h));
    note_events(h);
    status result = find_left(h, casts);
    if (p->left.count) {
        saves_of_columns(h);
        regions_of_visits(h, block_of);
    } else {
        regions_of_calls(h, block_of);
        if (result == STATUS_OK) result = guess_saves(h);
    }
    time_regions(h);
    return result;
}

void recorded_holds_close(recorded_holds *h) {
    memory_free(h->born);
    memory_free(h->died);
    memory_free(h->left);
    memory_free(h->saves);
    memory_free(h->regions);
    *h = (recorded_holds){ 0 };
}
