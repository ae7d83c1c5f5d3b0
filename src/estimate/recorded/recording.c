/* Reading: columns as they come, then what they must agree in. */
#include "estimate/recorded/recording.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/json_reader.h"
#include "base/memory.h"
#include "io/file.h"
#include "io/json_file.h"

enum {
    MOST_NUMBERS = 1 << 22, /* of a column */
    MOST_TEXTS = 1 << 20,
    MOST_RANK = 16
};
/* A file of 70 billion weights has 2 MB. */
static const uint64_t most_bytes = 256u << 20;

/* ---- columns ---- */

static status grow(void **of, uint32_t *room, uint32_t count, uint32_t most, size_t size) {
    if (count < *room) return STATUS_OK;
    if (count >= most)
        return status_set(STATUS_INVALID, "a list of the recording has %u entries or more", most);
    uint32_t more = *room ? 2 * *room : 64;
    void *grown = memory_resize(*of, more, size);
    if (!grown) return status_set(STATUS_FAILED, "no memory to read a recording");
    *of = grown, *room = more;
    return STATUS_OK;
}

static status add_number(recording_column *c, int64_t x) {
    TRY(grow((void **)&c->of, &c->room, c->count, MOST_NUMBERS, sizeof *c->of));
    c->of[c->count++] = x;
    return STATUS_OK;
}

static status add_text(recording_texts *t, const char *x) {
    TRY(grow((void **)&t->of, &t->room, t->count, MOST_TEXTS, sizeof *t->of));
    char *copy = memory_text(x);
    if (!copy) return status_set(STATUS_FAILED, "no memory to read a recording");
    t->of[t->count++] = copy;
    return STATUS_OK;
}

typedef struct {
    int64_t low, high;
} range;
/* Sums of as many storages as there may be are still counted. */
static const range sizes = { 0, INT64_C(1) << 40 }, places = { 0, UINT32_MAX }, counts = { 1, 1 << 30 };

static status read_number(json_reader *r, const range *in, int64_t *out) {
    json_numeral n;
    TRY(json_reader_numeral(r, &n));
    if (!n.whole || n.integer < in->low || n.integer > in->high)
        return json_reader_wrong(r, "that number may not stand there");
    *out = n.integer;
    return STATUS_OK;
}

/* Is there a first item behind the bracket? */
static status begin_list(json_reader *r, bool *more) {
    TRY(json_reader_expect(r, '['));
    *more = !json_reader_take(r, ']');
    return STATUS_OK;
}

static status read_numbers(json_reader *r, const range *in, recording_column *c) {
    bool more;
    int64_t x = 0;
    if (c->room) return json_reader_wrong(r, "a list stands there for the second time");
    TRY(begin_list(r, &more));
    while (more) {
        TRY(read_number(r, in, &x));
        TRY(add_number(c, x));
        TRY(json_reader_another(r, ']', &more));
    }
    return STATUS_OK;
}

/* A list of numbers for each run. */
static status read_by_run(json_reader *r, const range *in, recording_column *of) {
    bool more;
    uint32_t runs = 0;
    TRY(begin_list(r, &more));
    while (more) {
        if (runs == RECORDING_MOST_RUNS) return json_reader_wrong(r, "there are too many runs");
        TRY(read_numbers(r, in, of + runs++));
        TRY(json_reader_another(r, ']', &more));
    }
    return STATUS_OK;
}

static status read_texts(json_reader *r, recording_texts *t) {
    char word[JSON_READER_STRING];
    bool more;
    if (t->room) return json_reader_wrong(r, "a list stands there for the second time");
    TRY(begin_list(r, &more));
    while (more) {
        TRY(json_reader_string(r, word));
        TRY(add_text(t, word));
        TRY(json_reader_another(r, ']', &more));
    }
    return STATUS_OK;
}

/* ---- the parts of a file: what a key stands before ---- */

typedef status read_member(json_reader *r, const char *key, void *into);

static status read_object(json_reader *r, read_member *member, void *into) {
    char key[JSON_READER_STRING];
    TRY(json_reader_expect(r, '{'));
    bool more = !json_reader_take(r, '}');
    while (more) {
        TRY(json_reader_string(r, key));
        TRY(json_reader_expect(r, ':'));
        TRY(member(r, key, into));
        TRY(json_reader_another(r, '}', &more));
    }
    return STATUS_OK;
}

static bool is(const char *key, const char *name) { return strcmp(key, name) == 0; }

static status read_storages(json_reader *r, const char *key, void *into) {
    recording_program *p = into;
    static const range roles = { 0, RECORDING_ROLES - 1 };
    if (is(key, "dtype")) return read_numbers(r, &places, &p->dtype);
    if (is(key, "role")) return read_numbers(r, &roles, &p->role);
    if (is(key, "name")) return read_numbers(r, &places, &p->name);
    if (is(key, "shape")) return read_by_run(r, &places, p->shape);
    if (is(key, "bytes")) return read_by_run(r, &sizes, p->bytes);
    if (is(key, "left")) return read_numbers(r, &places, &p->left);
    return json_reader_skip(r);
}

static status read_calls(json_reader *r, const char *key, void *into) {
    recording_program *p = into;
    static const range phases = { 0, RECORDING_PHASES - 1 }, operations = { 0, INT64_MAX };
    if (is(key, "name")) return read_numbers(r, &places, &p->call_name);
    if (is(key, "phase")) return read_numbers(r, &phases, &p->phase);
    if (is(key, "module")) return read_numbers(r, &places, &p->module);
    if (is(key, "of")) return read_numbers(r, &places, &p->of);
    if (is(key, "operations")) return read_by_run(r, &operations, p->operations);
    if (is(key, "reads")) return read_numbers(r, &places, &p->reads);
    if (is(key, "makes")) return read_numbers(r, &places, &p->makes);
    if (is(key, "operands")) return read_numbers(r, &counts, &p->operands);
    return json_reader_skip(r);
}

static status read_saves(json_reader *r, const char *key, void *into) {
    recording_program *p = into;
    if (is(key, "module")) return read_numbers(r, &places, &p->save_module);
    if (is(key, "storage")) return read_numbers(r, &places, &p->save_storage);
    if (is(key, "at")) return read_numbers(r, &places, &p->save_at);
    if (is(key, "used")) return read_numbers(r, &places, &p->save_used);
    if (is(key, "until")) return read_numbers(r, &places, &p->save_until);
    return json_reader_skip(r);
}

static status read_visits(json_reader *r, const char *key, void *into) {
    recording_program *p = into;
    if (is(key, "module")) return read_numbers(r, &places, &p->visit_module);
    if (is(key, "calls")) return read_numbers(r, &places, &p->visit_calls);
    if (is(key, "saves")) return read_numbers(r, &places, &p->visit_saves);
    return json_reader_skip(r);
}

static status read_switched(json_reader *r, recording_program *p) {
    static const range flags = { 0, 1 };
    int64_t switched = 0;
    TRY(read_number(r, &flags, &switched));
    p->switched = switched != 0;
    return STATUS_OK;
}

/* No numbers say that code casts nothing. */
static status read_widened(json_reader *r, recording_program *p) {
    p->tells_widened = true;
    return read_numbers(r, &counts, &p->widened);
}

/* [[1, 1024], [2, 1024]]: into two columns. */
static status read_runs(json_reader *r, recording_program *p) {
    bool more;
    int64_t batch = 0, length = 0;
    TRY(begin_list(r, &more));
    while (more) {
        TRY(json_reader_expect(r, '['));
        TRY(read_number(r, &counts, &batch));
        TRY(json_reader_expect(r, ','));
        TRY(read_number(r, &counts, &length));
        TRY(json_reader_expect(r, ']'));
        TRY(add_number(&p->batches, batch));
        TRY(add_number(&p->lengths, length));
        TRY(json_reader_another(r, ']', &more));
    }
    return STATUS_OK;
}

static status read_shapes(json_reader *r, recording_program *p) {
    bool more, another;
    int64_t x = 0;
    TRY(begin_list(r, &more));
    while (more) {
        int64_t rank = 0;
        TRY(add_number(&p->shape_at, p->shape_dims.count));
        TRY(begin_list(r, &another));
        while (another) {
            if (rank++ == MOST_RANK) return json_reader_wrong(r, "a shape has too many dimensions");
            TRY(read_number(r, &sizes, &x));
            TRY(add_number(&p->shape_dims, x));
            TRY(json_reader_another(r, ']', &another));
        }
        TRY(add_number(&p->shape_ranks, rank));
        TRY(json_reader_another(r, ']', &more));
    }
    return STATUS_OK;
}

static status read_program(json_reader *r, const char *key, void *into) {
    recording_program *p = into;
    static const range events = { -(int64_t)MOST_NUMBERS, MOST_NUMBERS };
    if (is(key, "runs")) return read_runs(r, p);
    if (is(key, "switched")) return read_switched(r, p);
    if (is(key, "storages")) return read_object(r, read_storages, p);
    if (is(key, "calls")) return read_object(r, read_calls, p);
    if (is(key, "events")) return read_numbers(r, &events, &p->events);
    if (is(key, "saved")) return read_numbers(r, &places, &p->saved);
    if (is(key, "widened")) return read_widened(r, p);
    if (is(key, "widened_for")) return read_numbers(r, &counts, &p->widened_for);
    if (is(key, "within")) return read_numbers(r, &counts, &p->within);
    if (is(key, "saves")) return read_object(r, read_saves, p);
    if (is(key, "visits")) return read_object(r, read_visits, p);
    if (is(key, "shapes")) return read_shapes(r, p);
    if (is(key, "strings")) return read_texts(r, &p->strings);
    return json_reader_skip(r);
}

static status read_programs(json_reader *r, recording *x) {
    bool more;
    TRY(begin_list(r, &more));
    while (more) {
        if (x->program_count == RECORDING_MOST_PROGRAMS)
            return json_reader_wrong(r, "there are too many programs");
        TRY(read_object(r, read_program, &x->programs[x->program_count++]));
        TRY(json_reader_another(r, ']', &more));
    }
    return STATUS_OK;
}

/* [["", "GPT2LMHeadModel"], ...] */
static status read_modules(json_reader *r, recording *x) {
    char word[JSON_READER_STRING];
    bool more;
    TRY(begin_list(r, &more));
    while (more) {
        TRY(json_reader_expect(r, '['));
        TRY(json_reader_string(r, word));
        TRY(add_text(&x->modules, word));
        TRY(json_reader_expect(r, ','));
        TRY(json_reader_string(r, word));
        TRY(add_text(&x->classes, word));
        TRY(json_reader_expect(r, ']'));
        TRY(json_reader_another(r, ']', &more));
    }
    return STATUS_OK;
}

static status read_word(json_reader *r, char **into) {
    char word[JSON_READER_STRING];
    TRY(json_reader_string(r, word));
    memory_free(*into);
    *into = memory_text(word);
    return *into ? STATUS_OK : status_set(STATUS_FAILED, "no memory to read a recording");
}

static status read_version(json_reader *r) {
    static const range versions = { 0, INT32_MAX };
    int64_t version = 0;
    char why[128];
    TRY(read_number(r, &versions, &version));
    if (version == RECORDING_VERSION) return STATUS_OK;
    snprintf(why, sizeof why,
             "the recording is of version %lld and this snug reads version %d; record it again with 'snug "
             "estimate --recipe plain'",
             (long long)version, RECORDING_VERSION);
    return json_reader_wrong(r, why);
}

static status read_head(json_reader *r, const char *key, void *into) {
    recording *x = into;
    if (is(key, "snug_step")) return read_version(r);
    if (is(key, "torch")) return read_word(r, &x->torch);
    if (is(key, "device")) return read_word(r, &x->device);
    if (is(key, "model")) return read_word(r, &x->model);
    if (is(key, "autocast")) return read_word(r, &x->autocast);
    if (is(key, "optimizer")) return read_word(r, &x->optimizer);
    if (is(key, "modules")) return read_modules(r, x);
    if (is(key, "entered")) return read_numbers(r, &places, &x->entered);
    if (is(key, "trained")) return read_texts(r, &x->trained);
    if (is(key, "again")) return read_numbers(r, &places, &x->again);
    if (is(key, "programs")) return read_programs(r, x);
    return json_reader_skip(r);
}

/* ---- what must agree ---- */

static status contradicts(const char *path, const char *what) {
    return status_set(STATUS_INVALID, "%s: the recording contradicts itself: %s; record it again", path,
                      what);
}

static bool below(const recording_column *c, uint32_t bound) {
    for (uint32_t i = 0; i < c->count; i++)
        if (c->of[i] < 0 || c->of[i] >= bound) return false;
    return true;
}

static bool each_has(const recording_column *c, uint32_t runs, uint32_t count) {
    for (uint32_t i = 0; i < RECORDING_MOST_RUNS; i++)
        if (c[i].count != (i < runs ? count : 0)) return false;
    return true;
}

/* A storage is made within the step exactly where its role says so. */
static const char *check_events(const recording_program *p, uint8_t *state) {
    enum { MADE = 1, DEAD = 2 };
    uint32_t storages = p->role.count, calls = 0;
    for (uint32_t i = 0; i < p->events.count; i++) {
        int64_t e = p->events.of[i], n = e < 0 ? -e : e;
        if (n > storages) return "an event is of a storage that is not there";
        calls += !e;
        if (!e) continue;
        bool there = p->role.of[n - 1] < RECORDING_GRADIENT || (state[n] & MADE);
        if (e > 0 && (!calls || there || state[n])) return "a storage is made twice, or by no call";
        if (e < 0 && (!there || (state[n] & DEAD))) return "a storage dies twice, or before it is made";
        state[n] |= e > 0 ? MADE : DEAD;
    }
    return calls == p->call_name.count ? NULL : "it has more calls than events of them, or fewer";
}

static const char *check_calls(const recording_program *p, const recording *x) {
    uint32_t calls = p->call_name.count, runs = p->batches.count;
    int64_t operands = 0;
    if (p->phase.count != calls || p->module.count != calls || p->of.count != calls ||
        p->reads.count != calls || p->makes.count != calls || !each_has(p->operations, runs, calls))
        return "columns of calls differ in length";
    if (!below(&p->call_name, p->strings.count) || !below(&p->module, x->modules.count))
        return "a call has no name or module";
    for (uint32_t i = 0; i < calls; i++) {
        if (p->of.of[i] > i) return "a call differentiates one that comes later";
        operands += p->reads.of[i] + p->makes.of[i];
    }
    if (operands != p->operands.count) return "calls have other operands than are listed";
    return below(&p->operands, p->role.count + 1) ? NULL : "a call reads a storage that is not there";
}

/* Pairs of a beginning and an end, each visit after or within those before it. */
static bool nests(const recording_column *pairs, uint32_t most) {
    for (uint32_t i = 0; i < pairs->count; i += 2)
        if (pairs->of[i] > pairs->of[i + 1] || pairs->of[i + 1] > most ||
            (i && pairs->of[i - 2] > pairs->of[i]))
            return false;
    return true;
}

/* All of that is there, or nothing. */
static const char *check_holds(const recording_program *p, const recording *x) {
    uint32_t calls = p->call_name.count, saves = p->save_storage.count, visits = p->visit_module.count;
    if (!p->left.count && !saves && !visits) return NULL;
    if (p->left.count != p->role.count || p->save_module.count != saves || p->save_at.count != saves ||
        p->save_used.count != saves || p->save_until.count != saves || p->visit_calls.count != 2 * visits ||
        p->visit_saves.count != 2 * visits)
        return "columns of what is kept differ in length";
    if (!below(&p->left, calls + 2) || !below(&p->save_at, calls + 1) || !below(&p->save_used, calls + 2) ||
        !below(&p->save_until, calls + 2))
        return "something is kept or let go behind a call that is not there";
    if (!below(&p->save_module, x->modules.count) || !below(&p->visit_module, x->modules.count) ||
        !below(&p->save_storage, p->role.count + 1))
        return "something is kept that is not there";
    for (uint32_t i = 0; i < saves; i++)
        if (!p->save_storage.of[i]) return "something is kept that is not there";
    bool fine = nests(&p->visit_calls, calls) && nests(&p->visit_saves, saves);
    return fine ? NULL : "a module ends before it begins";
}

static const char *check_program(const recording_program *p, const recording *x, uint8_t *state) {
    uint32_t storages = p->role.count, runs = p->batches.count;
    if (!runs || runs > RECORDING_MOST_RUNS) return "a program has no runs, or too many";
    if (p->dtype.count != storages || p->name.count != storages || !each_has(p->bytes, runs, storages) ||
        !each_has(p->shape, runs, storages))
        return "columns of storages differ in length";
    if (!below(&p->dtype, p->strings.count) || !below(&p->name, p->strings.count))
        return "a storage has no name or type";
    for (uint32_t i = 0; i < runs; i++)
        if (!below(&p->shape[i], p->shape_at.count)) return "a storage has no shape";
    if (p->saved.count % 2) return "what is saved comes in pairs";
    for (uint32_t i = 0; i < p->saved.count; i += 2)
        if (p->saved.of[i] >= x->modules.count || !p->saved.of[i + 1] || p->saved.of[i + 1] > storages)
            return "something is saved that is not there";
    if (!below(&p->widened, storages + 1)) return "something is cast that is not there";
    if (p->widened_for.count % 2) return "what is cast for a call comes in pairs";
    for (uint32_t i = 0; i < p->widened_for.count; i += 2)
        if (p->widened_for.of[i] > storages || p->widened_for.of[i + 1] > p->call_name.count)
            return "something is cast for a call that is not there";
    if (!below(&p->within, storages)) return "a call has something within itself that is not there";
    const char *wrong = check_calls(p, x);
    if (!wrong) wrong = check_holds(p, x);
    return wrong ? wrong : check_events(p, state);
}

static status check(const recording *x, const char *path) {
    if (!x->model || !x->device || !x->torch || !x->optimizer || !x->autocast || !x->program_count ||
        !x->modules.count)
        return status_set(STATUS_INVALID,
                          "%s: the recording is not whole: the model, what it was recorded "
                          "with or the step itself is missing",
                          path);
    if (x->entered.count && x->entered.count != x->modules.count)
        return contradicts(path, "it says of other modules how often they run than it has");
    for (uint32_t i = 0; i < x->again.count; i++)
        if (x->again.of[i] >= x->modules.count || (i && x->again.of[i] <= x->again.of[i - 1]))
            return contradicts(path, "modules that are computed again are not there, or not in their order");
    if (x->programs[0].switched)
        return contradicts(path, "its first program is one of modules that are computed again");
    for (uint32_t i = 0; i < x->program_count; i++) {
        const recording_program *p = &x->programs[i];
        uint8_t *state = memory_new((size_t)p->role.count + 1, 1);
        if (!state) return status_set(STATUS_FAILED, "no memory to read a recording");
        const char *wrong = check_program(p, x, state);
        memory_free(state);
        if (wrong) return contradicts(path, wrong);
    }
    return STATUS_OK;
}

/* ---- the whole ---- */

bool recording_is(const char *path) {
    static const char begins[] = "{\"snug_step\":";
    char first[sizeof begins] = "";
    int file;
    uint64_t bytes;
    if (io_open(path, &file, &bytes) != STATUS_OK) return false;
    bool is_one = bytes >= sizeof begins &&
                  io_read_at(file, path, 0, first, sizeof begins - 1) == STATUS_OK &&
                  strcmp(first, begins) == 0;
    close(file);
    return is_one;
}

status recording_read(const char *path, recording *x) {
    int file;
    uint64_t bytes;
    json_reader r;
    *x = (recording){ 0 };
    TRY(io_open(path, &file, &bytes));
    json_source source = json_file_source(&file, path, "the recording", 0, bytes);
    json_reader_begin(&r, &source);
    status result = bytes > most_bytes
                        ? status_set(STATUS_INVALID, "%s: a recording of more than 256 MiB is not read", path)
                        : read_object(&r, read_head, x);
    if (result == STATUS_OK) result = json_reader_end(&r);
    close(file);
    return result == STATUS_OK ? check(x, path) : result;
}

static void close_texts(recording_texts *t) {
    for (uint32_t i = 0; i < t->count; i++) memory_free(t->of[i]);
    memory_free(t->of);
}

static void close_program(recording_program *p) {
    recording_column *const single[] = {
        &p->batches,     &p->lengths,      &p->role,        &p->dtype,       &p->name,       &p->call_name,
        &p->phase,       &p->module,       &p->of,          &p->reads,       &p->makes,      &p->operands,
        &p->events,      &p->saved,        &p->shape_ranks, &p->shape_dims,  &p->shape_at,   &p->left,
        &p->save_module, &p->save_storage, &p->save_at,     &p->save_used,   &p->save_until, &p->visit_module,
        &p->visit_calls, &p->visit_saves,  &p->widened,     &p->widened_for, &p->within
    };
    for (size_t i = 0; i < sizeof single / sizeof *single; i++) memory_free(single[i]->of);
    for (int i = 0; i < RECORDING_MOST_RUNS; i++) {
        memory_free(p->shape[i].of);
        memory_free(p->bytes[i].of);
        memory_free(p->operations[i].of);
    }
    close_texts(&p->strings);
}

void recording_close(recording *x) {
    char *const words[] = { x->torch, x->device, x->model, x->autocast, x->optimizer };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) memory_free(words[i]);
    for (uint32_t i = 0; i < x->program_count; i++) close_program(&x->programs[i]);
    memory_free(x->entered.of);
    close_texts(&x->modules);
    close_texts(&x->classes);
    close_texts(&x->trained);
    memory_free(x->again.of);
    *x = (recording){ 0 };
}
