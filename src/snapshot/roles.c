#include "snapshot/roles.h"

#include <stdlib.h>

#include "base/memory.h"
#include "snapshot/timeline.h"

const char *roles_name(roles_role r) {
    static const char *const names[ROLES_COUNT] = {
        [ROLES_WEIGHT] = "weights",         [ROLES_GRADIENT] = "gradients", [ROLES_STATE] = "optimizer",
        [ROLES_ACTIVATION] = "activations", [ROLES_INPUT] = "inputs",       [ROLES_TEMPORARY] = "temporaries",
        [ROLES_WORKSPACE] = "workspaces",   [ROLES_BEFORE] = "before",      [ROLES_UNKNOWN] = "unknown"
    };
    return names[r];
}

const char *roles_evidence(evidence e) {
    static const char *const names[EVIDENCES] = { "nothing", "frames", "lifetime", "size", "file" };
    return names[e];
}

/* ---- lifetimes ---- */

/* In its own run, before or after it, or in none. */
typedef struct {
    uint32_t born, died; /* runs; UINT32_MAX: before the first, or never */
    bool outlives;       /* it lives when the next run begins */
    bool last;           /* there is no next one */
} life;

static life life_of(const course *c, const snapshot_piece *p) {
    life l = { .born = course_run_at(c, p->born), .died = UINT32_MAX };
    uint32_t next = l.born + 1; /* UINT32_MAX + 1 is the first */
    if (p->died != SNAPSHOT_NEVER) l.died = course_run_at(c, p->died);
    l.last = next >= c->count;
    l.outlives = p->died == SNAPSHOT_NEVER ? !l.last : !l.last && p->died > c->runs[next].begins;
    return l;
}

static bool is_before_first(const life *l) { return l->born == UINT32_MAX; }

static course_phase death_phase(const course *c, const life *l) {
    return l->died == UINT32_MAX ? COURSE_OTHER : c->runs[l->died].phase;
}

/* It lives through a whole step after its own. */
static bool stays(const course *c, const snapshot_piece *p, const life *l) {
    if (p->died != SNAPSHOT_NEVER || is_before_first(l)) return false;
    uint32_t step = c->runs[l->born].step;
    for (uint32_t i = l->born + 1; i < c->count; i++)
        if (c->runs[i].phase == COURSE_UPDATE && c->runs[i].step > step) return true;
    return false;
}

/* ---- sizes ---- */

static uint32_t size_place(const roles *r, uint64_t bytes) {
    uint32_t low = 0, high = r->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (r->sizes[middle].bytes < bytes)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool roles_is_weight_size(const roles *r, uint64_t bytes) {
    uint32_t i = size_place(r, bytes);
    return i < r->count && r->sizes[i].bytes == bytes;
}

/* What cuBLAS is given before Hopper and since, which it keeps: 2 of 4 MiB and 8 of 16 KiB; 32 MiB. */
static bool is_workspace(const roles *r, const snapshot_piece *p) {
    bool is = p->bytes == (8 << 20) + (128 << 10) || p->bytes == 32 << 20;
    return is && p->died == SNAPSHOT_NEVER && !roles_is_weight_size(r, p->bytes);
}

/* What cuBLASLt is given is set in MiB. It is asked for once, and stays. */
static bool may_be_workspace(const course *c, const snapshot_piece *p, const life *l) {
    return p->bytes && p->bytes % (1 << 20) == 0 && p->bytes <= 128 << 20 && stays(c, p, l);
}

/* ---- verdicts ---- */

static verdict of_update(const roles *r, const snapshot_piece *p, const life *l, uint32_t bits) {
    bool kept = l->outlives || (l->last && p->died == SNAPSHOT_NEVER);
    if (!kept) return (verdict){ ROLES_TEMPORARY, BY_LIFETIME };
    if (bits & TRAIT_STATE) return (verdict){ ROLES_STATE, BY_FRAMES };
    if (l->outlives) return (verdict){ ROLES_STATE, BY_LIFETIME };
    return roles_is_weight_size(r, p->bytes) ? (verdict){ ROLES_STATE, BY_SIZE }
                                             : (verdict){ ROLES_TEMPORARY, BY_NOTHING };
}

static verdict of_backward(const roles *r, const snapshot_piece *p, const life *l, uint32_t bits) {
    bool kept = l->outlives || (l->last && p->died == SNAPSHOT_NEVER);
    if (bits & TRAIT_ACCUMULATES) return (verdict){ ROLES_GRADIENT, BY_FRAMES };
    if (!kept) return (verdict){ ROLES_TEMPORARY, BY_LIFETIME };
    if (roles_is_weight_size(r, p->bytes)) return (verdict){ ROLES_GRADIENT, BY_SIZE };
    if (may_be_workspace(r->course, p, l)) return (verdict){ ROLES_WORKSPACE, BY_SIZE };
    return l->last ? (verdict){ ROLES_TEMPORARY, BY_NOTHING } : (verdict){ ROLES_UNKNOWN, BY_NOTHING };
}

/* Backward frees what forward kept for it; a recording that ends before it is over has not seen that. */
static verdict of_forward(const roles *r, const snapshot_piece *p, const life *l) {
    const course *c = r->course;
    if (p->died != SNAPSHOT_NEVER && !l->outlives) {
        bool over = p->died > c->runs[l->born].ends; /* as what the loop is handed */
        return (verdict){ over ? ROLES_ACTIVATION : ROLES_TEMPORARY, BY_LIFETIME };
    }
    if (p->died != SNAPSHOT_NEVER) return (verdict){ ROLES_ACTIVATION, BY_LIFETIME };
    if (may_be_workspace(c, p, l)) return (verdict){ ROLES_WORKSPACE, BY_SIZE };
    if (stays(c, p, l)) return (verdict){ ROLES_UNKNOWN, BY_NOTHING };
    return (verdict){ ROLES_ACTIVATION, BY_LIFETIME };
}

/* Objects that are made before the first step and keep memory are modules. */
static bool is_made_first(const snapshot_piece *p, const life *l, uint32_t bits) {
    return bits & TRAIT_MAKES && is_before_first(l) && p->died == SNAPSHOT_NEVER;
}

/* Outside of modules: a batch, a loss by functions, what is loaded. */
static verdict of_others(const roles *r, const snapshot_piece *p, const life *l, uint32_t bits) {
    const course *c = r->course;
    bool first = is_before_first(l), kept = p->died == SNAPSHOT_NEVER;
    if (bits & TRAIT_DATA) return (verdict){ ROLES_INPUT, BY_FRAMES };
    if (is_made_first(p, l, bits)) return (verdict){ ROLES_WEIGHT, BY_FRAMES };
    if (death_phase(c, l) == COURSE_BACKWARD && !first) return (verdict){ ROLES_ACTIVATION, BY_LIFETIME };
    if (first && kept && !r->loaded && roles_is_weight_size(r, p->bytes))
        return (verdict){ ROLES_WEIGHT, BY_SIZE };
    if (!l->outlives && !kept) return (verdict){ ROLES_TEMPORARY, BY_LIFETIME };
    if (!p->stack || stays(c, p, l) || (l->last && !c->traits->modules))
        return (verdict){ ROLES_UNKNOWN, BY_NOTHING };
    return (verdict){ ROLES_INPUT, BY_LIFETIME };
}

/* Of weights in shares: those of all devices while they are read, and sums of gradients. */
static verdict of_gathering(const snapshot_piece *p, const life *l, course_phase phase) {
    bool kept = l->outlives || (l->last && p->died == SNAPSHOT_NEVER);
    roles_role role = !kept ? ROLES_TEMPORARY : phase == COURSE_BACKWARD ? ROLES_GRADIENT : ROLES_WEIGHT;
    return (verdict){ role, BY_FRAMES };
}

static verdict of_loading(const snapshot_piece *p, const life *l) {
    if (p->died == SNAPSHOT_NEVER || l->outlives) return (verdict){ ROLES_WEIGHT, BY_FRAMES };
    return (verdict){ ROLES_TEMPORARY, BY_LIFETIME };
}

verdict roles_of(const roles *r, const snapshot_piece *p) {
    const course *c = r->course;
    if (c->snapshot->form == SNAPSHOT_TIMELINE) return (verdict){ timeline_role(p->stack), BY_FILE };
    uint32_t bits = c->traits->of[p->stack];
    life l = life_of(c, p);
    if (bits & TRAIT_WORKSPACE) return (verdict){ ROLES_WORKSPACE, BY_FRAMES };
    if (bits & TRAIT_LOADING) return of_loading(p, &l);
    if (bits & TRAIT_TRIES) return (verdict){ ROLES_TEMPORARY, BY_FRAMES };
    if (p->born == 0 && bits == 0) return (verdict){ ROLES_BEFORE, BY_NOTHING };
    if (is_workspace(r, p)) return (verdict){ ROLES_WORKSPACE, BY_SIZE };
    if (is_before_first(&l)) return of_others(r, p, &l, bits);
    const course_run *run = &c->runs[l.born];
    bool updates = run->phase == COURSE_UPDATE && p->born <= run->ends;
    course_phase phase = updates ? COURSE_UPDATE : course_phase_of(c, p);
    if (bits & TRAIT_GATHERS) return of_gathering(p, &l, phase);
    if (phase == COURSE_OTHER) return of_others(r, p, &l, bits);
    switch (phase) {
    case COURSE_UPDATE: return of_update(r, p, &l, bits);
    case COURSE_BACKWARD: return of_backward(r, p, &l, bits);
    default: return of_forward(r, p, &l);
    }
}

/* ---- the sizes of weights ---- */

static int by_bytes(const void *a, const void *b) {
    uint64_t x = ((const roles_size *)a)->bytes, y = ((const roles_size *)b)->bytes;
    return x < y ? -1 : x > y;
}

static bool is_loaded(const course *c, const snapshot_piece *p) {
    life l = life_of(c, p);
    uint32_t bits = c->traits->of[p->stack];
    if (is_made_first(p, &l, bits)) return true;
    return bits & TRAIT_LOADING && (p->died == SNAPSHOT_NEVER || l.outlives);
}

/* What the optimizer makes and keeps has its weight's size, whoever made the weight. */
static bool is_state(const course *c, const snapshot_piece *p) {
    life l = life_of(c, p);
    return c->traits->of[p->stack] & TRAIT_UPDATE && l.outlives && !is_before_first(&l);
}

static status find_sizes(roles *r, const array *pieces) {
    const course *c = r->course;
    uint32_t room = 0;
    for (uint32_t i = 0; i < snapshot_count(pieces); i++) {
        const snapshot_piece *p = snapshot_piece_at(pieces, i);
        bool loaded = is_loaded(c, p);
        if (!loaded && !is_state(c, p)) continue;
        r->loaded = r->loaded || loaded;
        if (r->count == room) {
            room = room ? 2 * room : 64;
            roles_size *more = memory_resize(r->sizes, room, sizeof *more);
            if (!more) return status_set(STATUS_FAILED, "no memory for the sizes of weights");
            r->sizes = more;
        }
        r->sizes[r->count++] = (roles_size){ .bytes = p->bytes, .weights = loaded };
    }
    return STATUS_OK;
}

status roles_open(const course *c, roles *r) {
    *r = (roles){ .course = c };
    status result = find_sizes(r, &c->trace->pieces);
    if (result != STATUS_OK) {
        roles_close(r);
        return result;
    }
    if (r->count) qsort(r->sizes, r->count, sizeof *r->sizes, by_bytes);
    uint32_t count = 0;
    for (uint32_t i = 0; i < r->count; i++) {
        if (count && r->sizes[count - 1].bytes == r->sizes[i].bytes)
            r->sizes[count - 1].weights += r->sizes[i].weights;
        else
            r->sizes[count++] = r->sizes[i];
    }
    r->count = count;
    return STATUS_OK;
}

void roles_close(roles *r) {
    memory_free(r->sizes);
    *r = (roles){ 0 };
}
