/* What autograd keeps of a recorded step, while settings rewrite it.
 *
 * What a call of forward keeps is what the calls that differentiate it read. So a tensor that was recorded as
 * kept stays so while one of those calls reads it, one that they read instead is kept in its place, and one
 * that none of them reads any more is let go. A module runs from its first call that is left to its last one,
 * with what was put in beside them for it. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "estimate/recorded/edit.h"

static uint32_t most_of(uint32_t a, uint32_t b) { return a > b ? a : b; }

static bool is_forward(const recorded_edit *e, uint32_t call) {
    return call && e->calls[call].phase == RECORDING_FORWARD;
}

/* ---- as it was recorded ---- */

/* Behind so many calls; more than there are: never. */
static uint32_t behind(const recording_program *p, int64_t calls) {
    return calls > p->call_name.count ? EDIT_NEVER : (uint32_t)calls;
}

/* The next call of backward wanted it, and says whose it was; 0: there is none. */
static uint32_t wanted_by(const recording_program *p, uint32_t used) {
    return used < p->call_name.count ? used + 1 : 0;
}

static bool add_save(recorded_edit *e, const edit_save *save) {
    if (e->save_count == e->save_room) {
        uint32_t more = e->save_room ? 2 * e->save_room : 64;
        void *grown = more > e->save_room ? memory_resize(e->saves, more, sizeof *e->saves) : NULL;
        if (!grown) {
            e->failed = true;
            return false;
        }
        e->saves = grown, e->save_room = more;
    }
    e->saves[e->save_count++] = *save;
    return true;
}

/* By call of forward: the calls of backward that differentiate it, as lists in order; 0 ends. */
typedef struct {
    uint32_t *first, *last, *next;
} by_node;

static bool open_nodes(recorded_edit *e, by_node *n) {
    size_t calls = (size_t)e->call_count + 1;
    n->first = memory_new(calls, sizeof *n->first);
    n->last = memory_new(calls, sizeof *n->last);
    n->next = memory_new(calls, sizeof *n->next);
    if (!n->first || !n->last || !n->next) {
        e->failed = true;
        return false;
    }
    for (uint32_t call = edit_first(e); call; call = edit_next(e, call)) {
        uint32_t of = e->calls[call].of;
        if (!of || e->calls[call].phase != RECORDING_BACKWARD) continue;
        if (n->last[of])
            n->next[n->last[of]] = call;
        else
            n->first[of] = call;
        n->last[of] = call;
    }
    return true;
}

static void close_nodes(by_node *n) {
    memory_free(n->first);
    memory_free(n->last);
    memory_free(n->next);
}

static bool reads(const recorded_edit *e, uint32_t call, uint32_t storage) {
    for (uint32_t k = 0; k < e->calls[call].reads; k++)
        if (edit_reads(e, call)[k] == storage) return true;
    return false;
}

static bool backward_reads(const recorded_edit *e, const by_node *n, uint32_t keeper, uint32_t storage) {
    for (uint32_t call = n->first[keeper]; call; call = n->next[call])
        if (reads(e, call, storage)) return true;
    return false;
}

void edit_open_kept(recorded_edit *e) {
    const recording_program *p = e->from;
    by_node n = { 0 };
    for (uint32_t i = 1; p->left.count && i <= recording_storages(p); i++)
        edit_at(e, i)->left = behind(p, p->left.of[i - 1]);
    if (!p->left.count || !open_nodes(e, &n)) {
        close_nodes(&n);
        return;
    }
    for (uint32_t i = 0; i < p->save_storage.count; i++) {
        edit_save save = { .module = (uint32_t)p->save_module.of[i],
                           .storage = (uint32_t)p->save_storage.of[i],
                           .at = behind(p, p->save_at.of[i]),
                           .used = behind(p, p->save_used.of[i]),
                           .until = behind(p, p->save_until.of[i]) };
        save.wanted = wanted_by(p, save.used);
        save.node = save.wanted ? (uint32_t)p->of.of[save.wanted - 1] : 0;
        save.was_read = save.node && backward_reads(e, &n, save.node, save.storage);
        if (!add_save(e, &save)) break;
    }
    close_nodes(&n);
}

/* ---- as calls now are ---- */

/* Of a call that is gone that of the one before it. */
static uint32_t place_of(const recorded_edit *e, const uint32_t *place, uint32_t call) {
    while (call != EDIT_NEVER && call && e->calls[call].gone) call = e->calls[call].before;
    return call == EDIT_NEVER ? EDIT_NEVER : place[call];
}

/* Code has what calls of forward that were put in read, or make, until then. */
static void find_left(recorded_edit *e, const uint32_t *place) {
    uint32_t known = recording_storages(e->from), end = edit_forward_end(e);
    for (uint32_t call = edit_first(e); call; call = edit_next(e, call)) {
        const edit_call *c = edit_call_at(e, call);
        for (uint32_t k = 0; is_forward(e, call) && k < c->reads + c->makes; k++) {
            uint32_t i = edit_reads(e, call)[k];
            edit_storage *s = edit_at(e, i);
            if (s->left == EDIT_NEVER || (i <= known && call <= e->from->call_name.count)) continue;
            if (place_of(e, place, s->left) < place[call]) s->left = call;
            if (s->outlasts) s->left = end;
        }
    }
}

/* What backward makes that was put in goes when nobody reads it. */
static uint32_t left_of(const recorded_edit *e, const uint32_t *place, const edit_storage *s) {
    if (s->left == EDIT_NEVER) return EDIT_NEVER;
    if (!s->left && s->born && !is_forward(e, s->born)) return place_of(e, place, s->died);
    return most_of(place_of(e, place, s->left), place[s->born]);
}

static bool remains(const recorded_edit *e, const by_node *n, const edit_save *s) {
    if (edit_at(e, s->storage)->gone) return false;
    if (!s->node) return true;
    if (!n->first[s->node]) return false;
    return !s->was_read || backward_reads(e, n, s->node, s->storage);
}

/* A node lets go when its last call is done, which may have been put in. */
static void let_go(recorded_edit *e, const by_node *n) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < e->save_count; i++) {
        edit_save s = e->saves[i];
        if (!remains(e, n, &s)) continue;
        bool with_node = s.node && s.until != EDIT_NEVER && e->calls[s.until].of == s.node;
        if (with_node && n->last[s.node] > e->from->call_name.count) s.until = n->last[s.node];
        e->saves[kept++] = s;
    }
    e->save_count = kept;
}

static bool is_kept(const recorded_edit *e, const uint32_t *first, const uint32_t *next, uint32_t keeper,
                    uint32_t storage) {
    for (uint32_t i = first[keeper]; i; i = next[i])
        if (e->saves[i - 1].storage == storage) return true;
    return false;
}

static bool made_in_backward(const recorded_edit *e, uint32_t storage) {
    uint32_t born = edit_at(e, storage)->born;
    return edit_at(e, storage)->role == RECORDING_GRADIENT || (born && !is_forward(e, born));
}

/* What a node reads that was put in, or in place of another. */
static void keep_of_node(recorded_edit *e, const by_node *n, uint32_t keeper, const uint32_t *first,
                         const uint32_t *next) {
    uint32_t known = e->save_count;
    for (uint32_t call = n->first[keeper]; call; call = n->next[call])
        for (uint32_t k = 0; e->calls[call].rewired && k < e->calls[call].reads; k++) {
            uint32_t s = edit_reads(e, call)[k];
            bool twice = false;
            for (uint32_t i = known; i < e->save_count; i++) twice |= e->saves[i].storage == s;
            if (twice || made_in_backward(e, s) || is_kept(e, first, next, keeper, s)) continue;
            edit_save save = { .module = e->calls[keeper].module,
                               .storage = s,
                               .node = keeper,
                               .at = edit_at(e, s)->born == keeper ? keeper : e->calls[keeper].before,
                               .wanted = n->first[keeper],
                               .until = n->last[keeper],
                               .was_read = true };
            if (!add_save(e, &save)) return;
        }
}

static void keep_instead(recorded_edit *e, const by_node *n) {
    uint32_t *first = memory_new((size_t)e->call_count + 1, sizeof *first);
    uint32_t *next = memory_new((size_t)e->save_count + 2, sizeof *next);
    if (!first || !next) e->failed = true;
    for (uint32_t i = e->save_count; !e->failed && i; i--)
        next[i] = first[e->saves[i - 1].node], first[e->saves[i - 1].node] = i;
    for (uint32_t keeper = edit_first(e); keeper && !e->failed; keeper = edit_next(e, keeper))
        if (is_forward(e, keeper)) keep_of_node(e, n, keeper, first, next);
    memory_free(first);
    memory_free(next);
}

static int by_key(const void *a, const void *b) {
    const edit_save *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* In the order in which nodes keep them, and recorded ones in theirs. */
static void order(recorded_edit *e, const uint32_t *place, uint32_t recorded) {
    uint32_t key = 0;
    for (uint32_t i = 0; i < e->save_count; i++) {
        edit_save *s = &e->saves[i];
        uint32_t own = s->node && !e->calls[s->node].gone ? place[s->node] : place_of(e, place, s->at);
        if (i < recorded) key = most_of(key, own);
        s->key = i < recorded ? key : own, s->rank = i;
    }
    if (e->save_count) qsort(e->saves, e->save_count, sizeof *e->saves, by_key);
}

void edit_find_kept(recorded_edit *e, const uint32_t *place) {
    by_node n = { 0 };
    find_left(e, place);
    if (e->from->left.count && open_nodes(e, &n)) {
        let_go(e, &n);
        uint32_t recorded = e->save_count;
        keep_instead(e, &n);
        order(e, place, recorded);
    }
    close_nodes(&n);
}

/* ---- as columns ---- */

static uint32_t earlier(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* A call's place as a column has it; `last`: calls there are. */
static int64_t column_of(uint32_t at, uint32_t last) { return at == EDIT_NEVER ? (int64_t)last + 1 : at; }

/* Behind which call it is wanted: gradients are cast before, where they are. */
static uint32_t used_of(const recorded_edit *e, const uint32_t *place, const edit_save *s) {
    bool there = s->wanted && !e->calls[s->wanted].gone;
    return there ? place[s->wanted] - 1 : place_of(e, place, s->wanted ? s->wanted : s->used);
}

static void put_saves(recorded_edit *e, const uint32_t *place, uint32_t last, recording_program *out) {
    for (uint32_t i = 0; i < e->save_count; i++) {
        const edit_save *s = &e->saves[i];
        uint32_t died = edit_at(e, s->storage)->died, at = place_of(e, place, s->at);
        uint32_t until = earlier(place_of(e, place, s->until), place_of(e, place, died));
        edit_add_number(e, &out->save_module, s->module);
        edit_add_number(e, &out->save_storage, s->storage);
        edit_add_number(e, &out->save_at, column_of(at, last));
        edit_add_number(e, &out->save_used, column_of(used_of(e, place, s), last));
        edit_add_number(e, &out->save_until, column_of(most_of(at, until), last));
    }
}

/* Pairs of a module and a storage, each once: of a storage those that are there are a list. */
static void put_saved(recorded_edit *e, recording_program *out) {
    uint32_t *first = memory_new((size_t)e->storage_count + 1, sizeof *first);
    uint32_t *next = memory_new((size_t)e->save_count + 1, sizeof *next);
    if (!first || !next) e->failed = true;
    for (uint32_t i = 0; !e->failed && i < e->save_count; i++) {
        const edit_save *s = &e->saves[i];
        uint32_t there = first[s->storage];
        while (there && e->saves[there - 1].module != s->module) there = next[there];
        if (there) continue;
        next[i + 1] = first[s->storage], first[s->storage] = i + 1;
        edit_add_number(e, &out->saved, s->module), edit_add_number(e, &out->saved, s->storage);
    }
    memory_free(first);
    memory_free(next);
}

/* Was that call put in for the module, or one in it? */
static bool is_put_into(const recorded_edit *e, uint32_t call, uint32_t module) {
    const char *outer = e->r->modules.of[module], *inner = e->r->modules.of[e->calls[call].module];
    size_t n = strlen(outer);
    if (call <= e->from->call_name.count || !is_forward(e, call)) return false;
    return !n || (strncmp(outer, inner, n) == 0 && (!inner[n] || inner[n] == '.'));
}

/* A module's calls behind `from` up to `to` of those that were recorded, as places. */
static void span(const recorded_edit *e, const uint32_t *place, uint32_t module, uint32_t *from,
                 uint32_t *to) {
    uint32_t first = *from + 1, last = *to;
    while (first <= last && e->calls[first].gone) first++;
    while (last >= first && e->calls[last].gone) last--;
    if (first > last) {
        *from = *to = place_of(e, place, *from);
        return;
    }
    while (is_put_into(e, e->calls[first].before, module)) first = e->calls[first].before;
    while (is_put_into(e, e->calls[last].next, module)) last = e->calls[last].next;
    *from = place[first] - 1, *to = place[last];
}

/* `kept`: by place, how many saves there are up to it. */
static void put_visits(recorded_edit *e, const uint32_t *place, const uint32_t *kept, uint32_t last,
                       recording_program *out) {
    const recording_program *p = e->from;
    for (uint32_t i = 0; i < p->visit_module.count; i++) {
        uint32_t module = (uint32_t)p->visit_module.of[i], calls = p->call_name.count,
                 from = earlier((uint32_t)p->visit_calls.of[2 * i], calls),
                 to = earlier((uint32_t)p->visit_calls.of[2 * i + 1], calls);
        span(e, place, module, &from, &to);
        edit_add_number(e, &out->visit_module, module);
        edit_add_number(e, &out->visit_calls, from), edit_add_number(e, &out->visit_calls, to);
        edit_add_number(e, &out->visit_saves, kept[earlier(from, last)]);
        edit_add_number(e, &out->visit_saves, kept[earlier(to, last)]);
    }
}

void edit_put_kept(recorded_edit *e, const uint32_t *place, recording_program *out) {
    uint32_t last = out->call_name.count;
    if (!e->from->left.count || e->failed) return;
    uint32_t *kept = memory_new((size_t)last + 2, sizeof *kept);
    if (!kept) {
        e->failed = true;
        return;
    }
    for (uint32_t i = 0; i < e->save_count; i++) kept[earlier(e->saves[i].key, last)]++;
    for (uint32_t i = 1; i <= last; i++) kept[i] += kept[i - 1];
    for (uint32_t i = 1; i <= e->storage_count; i++)
        edit_add_number(e, &out->left, column_of(left_of(e, place, edit_at(e, i)), last));
    put_saves(e, place, last, out);
    put_saved(e, out);
    put_visits(e, place, kept, last, out);
    memory_free(kept);
}
