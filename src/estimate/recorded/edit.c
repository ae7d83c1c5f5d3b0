#include "estimate/recorded/edit.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"

/* ---- tables that grow ---- */

static bool grow(recorded_edit *e, void **of, uint32_t *room, uint32_t need, size_t size) {
    if (need <= *room) return true;
    uint32_t more = *room ? *room : 64;
    while (more < need && more < UINT32_MAX / 2) more *= 2;
    void *grown = more >= need ? memory_resize(*of, more, size) : NULL;
    if (!grown) {
        e->failed = true;
        return false;
    }
    *of = grown, *room = more;
    return true;
}

bool edit_add_number(recorded_edit *e, recording_column *c, int64_t x) {
    if (!grow(e, (void **)&c->of, &c->room, c->count + 1, sizeof *c->of)) return false;
    c->of[c->count++] = x;
    return true;
}

static void copy_column(recorded_edit *e, const recording_column *from, recording_column *to) {
    if (!from->count || !grow(e, (void **)&to->of, &to->room, from->count, sizeof *to->of)) return;
    memcpy(to->of, from->of, from->count * sizeof *to->of);
    to->count = from->count;
}

/* The number of a text among the strings; constants are added. */
static uint32_t string_of(recorded_edit *e, const char *text) {
    for (uint32_t i = e->strings.count; i-- > 0;)
        if (strcmp(e->strings.of[i], text) == 0) return i;
    if (!grow(e, (void **)&e->strings.of, &e->strings.room, e->strings.count + 1, sizeof *e->strings.of))
        return 0;
    e->strings.of[e->strings.count] = (char *)(uintptr_t)text; /* borrowed, and only read */
    return e->strings.count++;
}

static uint32_t shape_of(recorded_edit *e, double rows, double columns) {
    bool fine = edit_add_number(e, &e->shape_at, e->shape_dims.count) &&
                edit_add_number(e, &e->shape_dims, (int64_t)rows) &&
                (!(columns > 0) || edit_add_number(e, &e->shape_dims, (int64_t)columns)) &&
                edit_add_number(e, &e->shape_ranks, columns > 0 ? 2 : 1);
    return fine ? e->shape_at.count - 1 : 0;
}

/* ---- opening ---- */

static void open_tables(recorded_edit *e) {
    const recording_program *p = e->from;
    copy_column(e, &p->shape_ranks, &e->shape_ranks);
    copy_column(e, &p->shape_dims, &e->shape_dims);
    copy_column(e, &p->shape_at, &e->shape_at);
    uint32_t strings = p->strings.count;
    if (grow(e, (void **)&e->strings.of, &e->strings.room, strings + 1, sizeof *e->strings.of)) {
        if (strings) memcpy(e->strings.of, p->strings.of, strings * sizeof *e->strings.of);
        e->strings.count = strings;
    }
}

static void open_storages(recorded_edit *e, const recorded_sizes *sizes) {
    const recording_program *p = e->from;
    uint32_t count = recording_storages(p), call = 0;
    if (!grow(e, (void **)&e->storages, &e->storage_room, count + 1, sizeof *e->storages)) return;
    e->storages[0] = (edit_storage){ .gone = true };
    for (uint32_t i = 1; i <= count; i++)
        e->storages[i] = (edit_storage){ .died = EDIT_NEVER,
                                         .left = EDIT_NEVER,
                                         .dtype = (uint32_t)p->dtype.of[i - 1],
                                         .name = (uint32_t)p->name.of[i - 1],
                                         .shape = (uint32_t)p->shape[0].of[i - 1],
                                         .role = (recording_role)p->role.of[i - 1],
                                         .bytes = sizes->bytes[i],
                                         .gone = p->role.of[i - 1] >= RECORDING_GRADIENT };
    e->storage_count = count;
    for (uint32_t i = 0; i < p->events.count; i++) {
        int64_t x = p->events.of[i];
        if (!x) call++;
        if (x > 0) e->storages[x].born = call, e->storages[x].gone = false;
        if (x < 0) e->storages[-x].died = call;
    }
}

static void open_calls(recorded_edit *e) {
    const recording_program *p = e->from;
    uint32_t count = p->call_name.count, at = 0;
    if (!grow(e, (void **)&e->calls, &e->call_room, count + 1, sizeof *e->calls) ||
        !grow(e, (void **)&e->operands, &e->operand_room, p->operands.count + 1, sizeof *e->operands))
        return;
    e->calls[0] = (edit_call){ .next = count ? 1 : 0, .before = count };
    for (uint32_t i = 1; i <= count; i++) {
        e->calls[i] = (edit_call){ .name = (uint32_t)p->call_name.of[i - 1],
                                   .module = (uint32_t)p->module.of[i - 1],
                                   .of = (uint32_t)p->of.of[i - 1],
                                   .phase = (recording_phase)p->phase.of[i - 1],
                                   .operations = p->operations[0].of[i - 1],
                                   .first = at,
                                   .reads = (uint32_t)p->reads.of[i - 1],
                                   .makes = (uint32_t)p->makes.of[i - 1],
                                   .before = i - 1,
                                   .next = i < count ? i + 1 : 0 };
        at += e->calls[i].reads + e->calls[i].makes;
    }
    for (uint32_t i = 0; i < p->operands.count; i++) e->operands[i] = (uint32_t)p->operands.of[i];
    e->call_count = count, e->operand_count = p->operands.count;
}

/* ---- who reads what last ---- */

uint32_t edit_end_of_node(const recorded_edit *e, uint32_t call) {
    const edit_call *c = edit_call_at(e, call);
    uint32_t end = call;
    if (c->phase != RECORDING_BACKWARD || !c->of) return call;
    for (uint32_t next = c->next; next; next = edit_next(e, next)) {
        const edit_call *n = edit_call_at(e, next);
        if (n->phase != RECORDING_BACKWARD || n->of != c->of) break;
        end = next;
    }
    return end;
}

/* Of each storage the call behind which it dies if only calls hold it; 0: none has to do with it. */
static uint32_t *last_uses(recorded_edit *e) {
    uint32_t *last = memory_new((size_t)e->storage_count + 1, sizeof *last);
    if (!last) {
        e->failed = true;
        return NULL;
    }
    uint32_t forward_end = edit_forward_end(e);
    for (uint32_t call = edit_first(e); call; call = edit_next(e, call)) {
        const uint32_t *operand = edit_reads(e, call);
        uint32_t count = e->calls[call].reads + e->calls[call].makes;
        uint32_t end = count ? edit_end_of_node(e, call) : call;
        for (uint32_t k = 0; k < count; k++) last[operand[k]] = end;
        for (uint32_t i = 1; call == forward_end && i <= e->storage_count; i++)
            if (edit_at(e, i)->outlasts) last[i] = call;
    }
    return last;
}

/* By call: its place in the order, from 1. */
static uint32_t *places(recorded_edit *e) {
    uint32_t *place = memory_new((size_t)e->call_count + 1, sizeof *place), at = 0;
    if (!place) {
        e->failed = true;
        return NULL;
    }
    for (uint32_t call = edit_first(e); call; call = edit_next(e, call)) place[call] = ++at;
    return place;
}

static void note_held(recorded_edit *e) {
    uint32_t *last = last_uses(e); /* calls are in the order of their numbers yet */
    for (uint32_t i = 1; last && i <= e->storage_count; i++) {
        edit_storage *s = edit_at(e, i);
        s->held = s->role != RECORDING_MADE || s->died == EDIT_NEVER || s->died > last[i];
    }
    memory_free(last);
}

status edit_open(recorded_edit *e, const recording *r, const recorded_sizes *sizes) {
    *e = (recorded_edit){ .r = r, .from = sizes->program };
    open_tables(e);
    open_storages(e, sizes);
    open_calls(e);
    if (!e->failed) note_held(e);
    if (!e->failed) edit_open_kept(e);
    return e->failed ? status_set(STATUS_FAILED, "no memory to estimate") : STATUS_OK;
}

void edit_close(recorded_edit *e) {
    memory_free(e->storages);
    memory_free(e->calls);
    memory_free(e->operands);
    memory_free(e->saves);
    memory_free(e->strings.of);
    memory_free(e->shape_ranks.of);
    memory_free(e->shape_dims.of);
    memory_free(e->shape_at.of);
    *e = (recorded_edit){ 0 };
}

/* ---- storages ---- */

uint32_t edit_add(recorded_edit *e, const edit_new *what) {
    if (!grow(e, (void **)&e->storages, &e->storage_room, e->storage_count + 2, sizeof *e->storages))
        return 0;
    double numbers = what->rows * (what->columns > 0 ? what->columns : 1);
    e->storages[++e->storage_count] =
        (edit_storage){ .died = EDIT_NEVER,
                        .left = what->role == RECORDING_MADE ? 0 : EDIT_NEVER,
                        .dtype = string_of(e, what->dtype),
                        .name = string_of(e, ""),
                        .shape = shape_of(e, what->rows, what->columns),
                        .role = what->role,
                        .bytes = (uint64_t)(numbers * edit_width(what->dtype) + 0.5),
                        .gone = what->role >= RECORDING_GRADIENT,
                        .held = what->stays || what->role != RECORDING_MADE,
                        .loose = true };
    return e->storage_count;
}

void edit_drop(recorded_edit *e, uint32_t storage) {
    edit_storage *s = edit_at(e, storage);
    s->gone = true, s->bytes = 0;
    if (s->role == RECORDING_GRADIENT) s->role = RECORDING_MADE;
}

const char *edit_dtype(const recorded_edit *e, uint32_t storage) {
    return e->strings.of[edit_at(e, storage)->dtype];
}
const char *edit_name(const recorded_edit *e, uint32_t storage) {
    return e->strings.of[edit_at(e, storage)->name];
}

double edit_width(const char *kind) {
    if (strstr(kind, "complex")) return strstr(kind, "128") ? 16 : 8;
    if (strstr(kind, "64")) return 8;
    if (strstr(kind, "32")) return 4;
    return strstr(kind, "16") ? 2 : 1;
}

bool edit_is_float(const char *kind) {
    return strncmp(kind, "float", 5) == 0 || strcmp(kind, "bfloat16") == 0;
}

bool edit_is_narrow(const recorded_edit *e, uint32_t storage) {
    return edit_is_float(edit_dtype(e, storage)) && edit_width(edit_dtype(e, storage)) == 2;
}

double edit_numbers(const recorded_edit *e, uint32_t storage) {
    return (double)edit_at(e, storage)->bytes / edit_width(edit_dtype(e, storage));
}

void edit_retype(recorded_edit *e, uint32_t storage, const char *kind) {
    edit_storage *s = edit_at(e, storage);
    s->bytes = (uint64_t)(edit_numbers(e, storage) * edit_width(kind) + 0.5);
    s->dtype = string_of(e, kind);
}

static uint32_t place_of(const uint32_t *place, uint32_t call) {
    return call == EDIT_NEVER ? EDIT_NEVER : place[call];
}

void edit_replace(recorded_edit *e, const uint32_t *by) {
    uint32_t *place = places(e);
    for (uint32_t i = 1; place && i <= e->storage_count; i++) {
        edit_storage *old = edit_at(e, i), *new = edit_at(e, by[i]);
        if (by[i] == i) continue;
        if (old->role == RECORDING_GRADIENT && new->role == RECORDING_MADE)
            new->role = RECORDING_GRADIENT, new->name = old->name, new->held = true, new->died = old->died;
        if (old->held && place_of(place, old->died) > place_of(place, new->died))
            new->held = true, new->died = old->died;
        if (place_of(place, old->left) > place_of(place, new->left)) new->left = old->left;
        new->loose = true, old->gone = true, old->bytes = 0;
    }
    memory_free(place);
    for (uint32_t i = 0; i < e->operand_count; i++) e->operands[i] = by[e->operands[i]];
    for (uint32_t i = 0; i < e->save_count; i++) e->saves[i].storage = by[e->saves[i].storage];
}

uint32_t edit_divert(recorded_edit *e, uint32_t call, uint32_t storage, const char *kind) {
    uint32_t number = edit_add(e, &(edit_new){ .dtype = kind, .role = RECORDING_MADE, .rows = 1 });
    if (e->failed) return storage;
    edit_storage *new = edit_at(e, number), *old = edit_at(e, storage);
    new->shape = old->shape, new->gone = false, new->born = call;
    new->bytes = (uint64_t)(edit_numbers(e, storage) * edit_width(kind) + 0.5);
    for (uint32_t k = 0; k < e->calls[call].makes; k++)
        if (edit_makes(e, call)[k] == storage) edit_makes(e, call)[k] = number;
    old->gone = true;
    return number;
}

int edit_rank(const recorded_edit *e, uint32_t storage) {
    return (int)e->shape_ranks.of[edit_at(e, storage)->shape];
}

double edit_dim(const recorded_edit *e, uint32_t storage, int i) {
    uint32_t which = edit_at(e, storage)->shape;
    int rank = edit_rank(e, storage), at = i < 0 ? rank + i : i;
    return at >= 0 && at < rank ? (double)e->shape_dims.of[e->shape_at.of[which] + at] : 1;
}

/* ---- calls ---- */

const char *edit_call_name(const recorded_edit *e, uint32_t call) {
    return e->strings.of[edit_call_at(e, call)->name];
}

bool edit_is_call(const recorded_edit *e, uint32_t call, const char *name) {
    const char *own = edit_call_name(e, call);
    size_t n = strlen(name);
    return strncmp(own, name, n) == 0 && (own[n] == '.' || !own[n]);
}

static uint32_t add_operands(recorded_edit *e, const uint32_t of[EDIT_OPERANDS]) {
    uint32_t count = 0;
    while (count < EDIT_OPERANDS && of[count]) {
        if (!grow(e, (void **)&e->operands, &e->operand_room, e->operand_count + 1, sizeof *e->operands))
            return count;
        e->operands[e->operand_count++] = of[count++];
    }
    return count;
}

/* Of a product of (m, k) and (k, n) by how many numbers there are. */
static int64_t operations_of(const recorded_edit *e, const edit_new_call *c) {
    if (strcmp(c->name, "mm.default") != 0) return 0;
    double numbers = edit_numbers(e, c->reads[0]) * edit_numbers(e, c->reads[1]);
    return (int64_t)fmin(2 * sqrt(numbers * edit_numbers(e, c->makes[0])), 0x1p62);
}

uint32_t edit_insert(recorded_edit *e, uint32_t behind, const edit_new_call *what) {
    if (!grow(e, (void **)&e->calls, &e->call_room, e->call_count + 2, sizeof *e->calls)) return behind;
    uint32_t number = ++e->call_count, next = e->calls[behind].next;
    edit_call c = { .name = string_of(e, what->name),
                    .module = what->module,
                    .of = what->of,
                    .phase = what->phase,
                    .operations = operations_of(e, what),
                    .first = e->operand_count,
                    .before = behind,
                    .next = next,
                    .rewired = true };
    c.reads = add_operands(e, what->reads);
    c.makes = add_operands(e, what->makes);
    e->calls[number] = c;
    e->calls[behind].next = e->calls[next].before = number;
    for (uint32_t k = 0; k < c.reads; k++) edit_at(e, what->reads[k])->loose = true;
    for (uint32_t k = 0; k < c.makes; k++) {
        edit_storage *made = edit_at(e, what->makes[k]);
        if (made->gone) made->gone = false, made->born = number;
    }
    return number;
}

uint32_t edit_insert_in_node(recorded_edit *e, uint32_t call, const edit_new_call *what) {
    uint32_t of = e->calls[call].of, end = edit_end_of_node(e, call);
    edit_new_call c = *what;
    c.of = of;
    for (uint32_t i = end; of && i && e->calls[i].of == of; i = e->calls[i].before)
        for (uint32_t k = 0; k < e->calls[i].reads; k++) edit_at(e, edit_reads(e, i)[k])->loose = true;
    return edit_insert(e, end, &c);
}

void edit_read_instead(recorded_edit *e, uint32_t call, uint32_t old, uint32_t new) {
    for (uint32_t k = 0; k < e->calls[call].reads; k++)
        if (edit_reads(e, call)[k] == old) edit_reads(e, call)[k] = new;
    e->calls[call].rewired = true;
    edit_at(e, old)->loose = edit_at(e, new)->loose = true;
}

uint32_t edit_still_there(const recorded_edit *e, uint32_t call) {
    while (call && call != EDIT_NEVER && e->calls[call].gone) call = e->calls[call].before;
    return call;
}

uint32_t edit_forward_end(const recorded_edit *e) {
    uint32_t end = 0;
    for (uint32_t call = edit_first(e); call; call = edit_next(e, call))
        if (e->calls[call].phase == RECORDING_FORWARD) end = call;
    return end;
}

void edit_remove(recorded_edit *e, uint32_t call) {
    edit_call *c = edit_call_at(e, call);
    if (c->gone) return;
    for (uint32_t k = 0; k < c->reads; k++) edit_at(e, edit_reads(e, call)[k])->loose = true;
    for (uint32_t k = 0; k < c->makes; k++) {
        uint32_t made = edit_makes(e, call)[k];
        if (edit_at(e, made)->born == call) edit_drop(e, made);
    }
    e->calls[c->before].next = c->next, e->calls[c->next].before = c->before;
    c->gone = true;
}

/* ---- what nobody wants ---- */

static void mark_reads(const recorded_edit *e, bool *marks, uint32_t call) {
    for (uint32_t k = 0; k < e->calls[call].reads; k++) marks[edit_reads(e, call)[k]] = true;
}

static bool is_wanted(const recorded_edit *e, const bool *wanted, uint32_t call) {
    const edit_call *c = edit_call_at(e, call);
    for (uint32_t k = 0; k < c->makes; k++) {
        uint32_t made = edit_makes(e, call)[k];
        const edit_storage *s = edit_at(e, made);
        if (wanted[made] || (s->role == RECORDING_GRADIENT && !s->gone)) return true;
    }
    return !c->makes;
}

void edit_prune(recorded_edit *e) {
    bool *wanted = memory_new((size_t)e->storage_count + 1, sizeof *wanted),
         *read = memory_new((size_t)e->storage_count + 1, sizeof *read);
    if (!wanted || !read) e->failed = true;
    for (uint32_t call = e->calls[0].before; !e->failed && call; call = e->calls[call].before)
        if (e->calls[call].phase == RECORDING_BACKWARD) mark_reads(e, read, call);
    for (uint32_t call = e->calls[0].before, before; !e->failed && call; call = before) {
        const edit_call *c = edit_call_at(e, call);
        before = c->before;
        if (c->phase != RECORDING_BACKWARD) continue;
        if (!is_wanted(e, wanted, call)) {
            edit_remove(e, call);
            continue;
        }
        mark_reads(e, wanted, call);
        for (uint32_t k = 0; k < c->makes; k++) { /* of several results those that led nowhere */
            uint32_t made = edit_makes(e, call)[k];
            if (edit_at(e, made)->born == call && read[made] && !wanted[made] &&
                edit_at(e, made)->role == RECORDING_MADE)
                edit_drop(e, made);
        }
    }
    memory_free(wanted);
    memory_free(read);
}

/* ---- as a program ---- */

/* The call behind which nobody has it: code has what forward made as it had it when it was recorded. */
static uint32_t end_of(const recorded_edit *e, const uint32_t *place, const edit_storage *s, uint32_t last) {
    uint32_t end = last ? last : s->born;
    bool by_forward = s->born && e->calls[s->born].phase == RECORDING_FORWARD && s->left != EDIT_NEVER;
    uint32_t left = by_forward ? edit_still_there(e, s->left) : 0;
    return place[left] > place[end] ? left : end;
}

/* What nothing reads any more dies where it was made. The end of one that died behind a call that is gone is
 * that of the call before. */
static void find_ends(recorded_edit *e, const uint32_t *place) {
    uint32_t *last = last_uses(e);
    for (uint32_t i = 1; last && i <= e->storage_count; i++) {
        edit_storage *s = edit_at(e, i);
        if (s->gone) continue;
        s->died = edit_still_there(e, s->died);
        uint32_t end = end_of(e, place, s, last[i]);
        if (s->loose && !s->held) s->died = end;
        if (s->loose && s->died != EDIT_NEVER && place[end] > place[s->died]) s->died = end;
    }
    memory_free(last);
}

/* Storages are numbered in the order in which they are made (recorded_course looks for the last of a block),
 * those that were there first. */
static void renumber(recorded_edit *e, const uint32_t *place) {
    uint32_t count = e->storage_count, *first = memory_new((size_t)e->call_count + 2, sizeof *first),
             *number = memory_new((size_t)count + 1, sizeof *number);
    edit_storage *sorted = memory_new((size_t)count + 1, sizeof *sorted);
    bool made = first && number && sorted;
    for (uint32_t i = 1; made && i <= count; i++) first[place[edit_at(e, i)->born] + 1]++;
    for (uint32_t k = 1; made && k < e->call_count + 2; k++) first[k] += first[k - 1];
    for (uint32_t i = 1; made && i <= count; i++) {
        number[i] = ++first[place[edit_at(e, i)->born]];
        sorted[number[i]] = *edit_at(e, i);
    }
    for (uint32_t i = 0; made && i < e->operand_count; i++) e->operands[i] = number[e->operands[i]];
    for (uint32_t i = 0; made && i < e->save_count; i++) e->saves[i].storage = number[e->saves[i].storage];
    if (made) memcpy(e->storages + 1, sorted + 1, count * sizeof *sorted);
    if (!made) e->failed = true;
    memory_free(first);
    memory_free(number);
    memory_free(sorted);
}

static void put_storages(recorded_edit *e, recording_program *out) {
    for (uint32_t i = 1; i <= e->storage_count && !e->failed; i++) {
        const edit_storage *s = edit_at(e, i);
        bool there = edit_add_number(e, &out->role, s->role) && edit_add_number(e, &out->dtype, s->dtype) &&
                     edit_add_number(e, &out->name, s->name) &&
                     edit_add_number(e, &out->shape[0], s->shape) &&
                     edit_add_number(e, &out->bytes[0], (int64_t)s->bytes);
        if (!there) return;
    }
}

static void put_call(recorded_edit *e, const uint32_t *place, uint32_t call, recording_program *out) {
    const edit_call *c = edit_call_at(e, call);
    edit_add_number(e, &out->call_name, c->name), edit_add_number(e, &out->phase, c->phase);
    edit_add_number(e, &out->module, c->module), edit_add_number(e, &out->of, place[c->of]);
    edit_add_number(e, &out->operations[0], c->operations);
    edit_add_number(e, &out->reads, c->reads), edit_add_number(e, &out->makes, c->makes);
    for (uint32_t k = 0; k < c->reads + c->makes; k++)
        edit_add_number(e, &out->operands, edit_reads(e, call)[k]);
}

/* Storages by the call at which something happens to them, as lists: of[i] is the next one. */
typedef struct {
    uint32_t *first, *of;
} by_call;

static bool open_by_call(recorded_edit *e, by_call *b) {
    b->first = memory_new((size_t)e->call_count + 1, sizeof *b->first);
    b->of = memory_new((size_t)e->storage_count + 1, sizeof *b->of);
    if (!b->first || !b->of) e->failed = true;
    return !e->failed;
}

static void close_by_call(by_call *b) {
    memory_free(b->first);
    memory_free(b->of);
}

static void put_events(recorded_edit *e, const uint32_t *place, recording_program *out) {
    by_call births = { 0 }, deaths = { 0 };
    bool fine = open_by_call(e, &births) && open_by_call(e, &deaths);
    for (uint32_t i = e->storage_count; fine && i >= 1; i--) {
        const edit_storage *s = edit_at(e, i);
        if (s->gone || (s->born && e->calls[s->born].gone))
            continue; /* it may be within a call that is gone */
        if (s->born) births.of[i] = births.first[s->born], births.first[s->born] = i;
        if (s->died != EDIT_NEVER) deaths.of[i] = deaths.first[s->died], deaths.first[s->died] = i;
    }
    uint32_t call = 0;
    do {
        if (call) edit_add_number(e, &out->events, 0), put_call(e, place, call, out);
        for (uint32_t i = fine ? births.first[call] : 0; i; i = births.of[i])
            edit_add_number(e, &out->events, i);
        for (uint32_t i = fine ? deaths.first[call] : 0; i; i = deaths.of[i])
            edit_add_number(e, &out->events, -(int64_t)i);
        call = edit_next(e, call);
    } while (call && fine && !e->failed);
    close_by_call(&births);
    close_by_call(&deaths);
}

static status no_memory(void) { return status_set(STATUS_FAILED, "no memory to estimate"); }

status edit_write(recorded_edit *e, recording_program *out, uint64_t **bytes) {
    *out = (recording_program){ 0 };
    *bytes = NULL;
    if (e->failed) return no_memory();
    uint32_t *place = places(e);
    if (place) find_ends(e, place);
    if (place) edit_find_kept(e, place);
    if (place) renumber(e, place);
    uint64_t *sizes = memory_new((size_t)e->storage_count + 1, sizeof *sizes);
    if (place && sizes) {
        put_storages(e, out);
        put_events(e, place, out);
        edit_put_kept(e, place, out);
        for (uint32_t i = 1; i <= e->storage_count; i++) sizes[i] = edit_at(e, i)->bytes;
        copy_column(e, &e->shape_ranks, &out->shape_ranks);
        copy_column(e, &e->shape_dims, &out->shape_dims);
        copy_column(e, &e->shape_at, &out->shape_at);
    }
    memory_free(place);
    *bytes = sizes;
    if (e->failed || !place || !sizes) return no_memory();
    out->strings = e->strings;
    e->strings = (recording_texts){ 0 };
    return STATUS_OK;
}

void edit_close_program(recording_program *p) {
    recording_column *const all[] = { &p->role,         &p->dtype,         &p->name,        &p->shape[0],
                                      &p->bytes[0],     &p->call_name,     &p->phase,       &p->module,
                                      &p->of,           &p->operations[0], &p->reads,       &p->makes,
                                      &p->operands,     &p->events,        &p->shape_ranks, &p->shape_dims,
                                      &p->shape_at,     &p->left,          &p->saved,       &p->save_module,
                                      &p->save_storage, &p->save_at,       &p->save_used,   &p->save_until,
                                      &p->visit_module, &p->visit_calls,   &p->visit_saves };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) memory_free(all[i]->of);
    memory_free(p->strings.of);
    *p = (recording_program){ 0 };
}
