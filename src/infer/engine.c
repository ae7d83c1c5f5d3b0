#include "infer/engine.h"

#include "base/memory.h"
#include "base/threads.h"
#include "base/units.h"
#include "infer/engine_internal.h"
#include "ops/cache_write/cache_write.h"
#include "run/rates.h"

static bool is_limited(const engine *e) { return e->options.memory && e->options.memory != UINT64_MAX; }

status engine_open(const engine_options *o, const model_folder *f, engine **out) {
    engine *e = *out = memory_new(1, sizeof *e); /* large for a stack */
    if (!e) return status_set(STATUS_FAILED, "no memory to continue texts");
    e->options = *o, e->folder = f, e->share = 1;
    if (e->options.threads <= 0) e->options.threads = threads_available();
    return STATUS_OK;
}

void engine_close(engine *e) {
    if (!e) return;
    exec_close(e->exec);
    plan_close(&e->plan);
    blocks_close(&e->blocks);
    memory_free(e->table);
    memory_free(e->sources);
    memory_free(e->numbers);
    memory_free(e->ids);
    memory_free(e->texts);
    memory_free(e->order);
    memory_free(e->draws);
    memory_free(e);
}

const engine_sizes *engine_planned(const engine *e) { return &e->sizes; }
const plan *engine_plan_of(const engine *e) { return &e->plan; }
uint64_t engine_planned_bytes(const engine *e) { return e->plan.peak_bytes; }

/* ---- the plan ---- */

/* Arrays of engine_rows. */
static uint64_t row_numbers(const engine_sizes *s) { return s->whole ? 8 : 7; }

/* What the engine itself allocates at its start. */
static uint64_t own_bytes(const engine_sizes *s) {
    uint64_t texts = (uint64_t)s->texts;
    int64_t line = engine_blocks(s->text_length) + engine_blocks(s->source_length); /* of the tables */
    return sizeof(engine) + blocks_bytes(s->blocks) +
           texts * ((uint64_t)(line + 1) * sizeof(int32_t) + sizeof(engine_text)) +
           (uint64_t)engine_wanted(s) * sizeof(engine_draw_of) +
           texts * (uint64_t)(s->text_length + 1 + s->source_length) * sizeof(int32_t) +
           row_numbers(s) * (uint64_t)engine_most_rows(s) * sizeof(int32_t);
}

/* 1, 2, 4, ... up to all of them. */
static compose_steps choose_programs(int64_t rows) {
    compose_steps s = { .count = 0 };
    for (int64_t n = 1; n < rows && s.count + 1 < COMPOSE_MOST_ROWS; n *= 2) s.rows[s.count++] = n;
    if (rows) s.rows[s.count++] = rows;
    return s;
}

/* Behind a source the text begins with one id, so a step has no use for more rows than texts write. */
static engine_sizes usable(const engine_sizes *wanted) {
    engine_sizes s = *wanted;
    if (s.source_length && s.rows > engine_wanted(&s)) s.rows = engine_wanted(&s);
    return s;
}

static status plan_sizes(engine *e, const engine_sizes *wanted) {
    const engine_options *o = &e->options;
    const engine_sizes *s = &e->sizes;
    const device *on = o->on;
    if (!on) TRY(device_find(o->device ? o->device : "auto", &on));
    e->sizes = usable(wanted);
    e->text_blocks = engine_blocks(s->text_length), e->source_blocks = engine_blocks(s->source_length);
    paged_sizes sizes = { .texts = s->texts,
                          .text_blocks = e->text_blocks,
                          .source_blocks = e->source_blocks,
                          .cache_blocks = s->blocks,
                          .wanted = engine_wanted(s),
                          .cache = s->cache,
                          .hidden = s->pools };
    compose_run run = {
        .model = &e->folder->model,
        .adapters = e->folder->several.count ? &e->folder->several : NULL,
        .batch = 1,
        .kept_bytes = s->held_bytes + e->folder->listed_bytes + own_bytes(s),
        .lower = { .device = on, .threads = o->threads, .rates = rates_find(RATES_KNOWN, on, o->threads) }
    };
    sample_needs needs = { s->sampling.changes || s->constrained, s->sampling.counts };
    e->mask_at = sample_bytes(&needs, e->folder->model.vocabulary);
    e->sampling_bytes =
        e->mask_at + (s->constrained ? constraint_mask_bytes(e->folder->model.vocabulary) : 0);
    run.buffers[run.buffer_count++] = (plan_buffer){ "sampling", (uint64_t)o->threads * e->sampling_bytes };
    e->steps = choose_programs(s->rows), e->source_steps = choose_programs(s->source_length);
    threads_set(o->threads);
    plan_close(&e->plan);
    return compose_rows(&run, &e->folder->pinned, &sizes, &e->steps, &e->source_steps, &e->plan);
}

static bool fits(const engine *e) { return !is_limited(e) || e->plan.peak_bytes <= e->options.memory; }

static status refuse(const engine *e) {
    char budget[UNITS_TEXT_BYTES], bytes[UNITS_TEXT_BYTES], more[UNITS_TEXT_BYTES];
    uint64_t needed = e->plan.peak_bytes;
    return status_set(STATUS_NO_FIT, "generating with %s does not fit %s: it needs %s (%llu bytes), %s more",
                      e->folder->model.name, units_bytes_text(e->options.memory, budget),
                      units_bytes_text(needed, bytes), (unsigned long long)needed,
                      units_bytes_text(needed - e->options.memory, more));
}

static int64_t least_blocks(const engine_sizes *s) {
    int64_t texts = s->least_texts < s->texts ? s->least_texts : s->texts;
    int64_t all = texts * engine_sizes_longest(s), useful = engine_sizes_useful(s);
    return all < useful ? all : useful;
}

static int64_t least_rows(const engine_sizes *s) { return s->whole ? s->text_length : 1; }

static status plan_least(engine *e, engine_sizes *s) {
    s->blocks = least_blocks(s);
    return plan_sizes(e, s);
}

/* Rows and texts with which the fewest blocks fit; s is what was planned last. Where one row of one text does
 * not fit, nothing between is tried. */
static status choose_rows(engine *e, engine_sizes *s) {
    engine_sizes one = *s;
    one.rows = least_rows(s), one.texts = 1;
    if (s->blocks != least_blocks(s)) TRY(plan_least(e, s));
    if (fits(e)) return STATUS_OK;
    if (s->exact) return refuse(e);
    TRY(plan_least(e, &one));
    if (!fits(e)) return refuse(e);
    do {
        int64_t least = least_rows(s);
        if (s->texts > s->rows || s->rows == least)
            s->texts = (s->texts + 1) / 2;
        else
            s->rows = (s->rows + 1) / 2 > least ? (s->rows + 1) / 2 : least;
        TRY(plan_least(e, s));
    } while (!fits(e));
    return STATUS_OK;
}

/* Numbers of blocks, of which `low` fits and `high` does not, and the peaks with them. */
typedef struct {
    int64_t low, high;
    double low_bytes, high_bytes;
} block_range;

static status try_blocks(engine *e, engine_sizes *s, block_range *r, int64_t n) {
    s->blocks = n <= r->low ? r->low + 1 : n >= r->high ? r->high - 1 : n;
    TRY(plan_sizes(e, s));
    double bytes = (double)e->plan.peak_bytes;
    if (fits(e))
        r->low = s->blocks, r->low_bytes = bytes;
    else
        r->high = s->blocks, r->high_bytes = bytes;
    return STATUS_OK;
}

/* The peak grows by the same bytes with each block, but for whole pages: a straight line through both ends
 * says how many fit, and the next number does not. Where they do, or those do not, it is drawn anew, or the
 * range is halved. */
static status choose_blocks(engine *e, engine_sizes *s, block_range *r) {
    for (int tries = 0; r->low + 1 < r->high; tries++) {
        double share = ((double)e->options.memory - r->low_bytes) / (r->high_bytes - r->low_bytes);
        int64_t most = r->low + (int64_t)(share * (double)(r->high - r->low));
        if (tries >= 4) most = r->low + (r->high - r->low) / 2;
        TRY(try_blocks(e, s, r, most + 1));
        if (r->high == most + 1 && r->low < most) TRY(try_blocks(e, s, r, most));
    }
    if (s->blocks == r->low) return STATUS_OK;
    s->blocks = r->low;
    return plan_sizes(e, s);
}

/* Those that are of use, or as many as are wanted. */
static int64_t most_blocks(const engine_sizes *wanted, const engine_sizes *s) {
    int64_t useful = engine_sizes_useful(s), least = least_blocks(s);
    int64_t most = wanted->blocks && wanted->blocks < useful ? wanted->blocks : useful;
    return most > least ? most : least;
}

/* As many blocks as are wanted do not fit. */
static status fit_in(engine *e, const engine_sizes *wanted, engine_sizes *s) {
    block_range r = { .high = s->blocks, .high_bytes = (double)e->plan.peak_bytes };
    int64_t texts = s->texts, rows = s->rows;
    TRY(choose_rows(e, s));
    r.low = s->blocks, r.low_bytes = (double)e->plan.peak_bytes;
    if (s->texts == texts && s->rows == rows) return choose_blocks(e, s, &r);
    int64_t most = most_blocks(wanted, s); /* with fewer texts or rows they may */
    if (most == r.low) return STATUS_OK;
    r.high = most + 1;
    TRY(try_blocks(e, s, &r, most));
    return r.low == most ? STATUS_OK : choose_blocks(e, s, &r);
}

status engine_plan(engine *e, const engine_sizes *wanted) {
    engine_sizes s = *wanted;
    s.window = e->folder->model.window, s.whole = e->folder->model.reads_whole;
    if (s.rows < least_rows(&s)) s.rows = least_rows(&s);
    s.blocks = most_blocks(wanted, &s);
    TRY(plan_sizes(e, &s));
    if (!fits(e)) TRY(fit_in(e, wanted, &s));
    memory_trim();
    return STATUS_OK;
}

/* ---- the start ---- */

static status allocate(engine *e) {
    const engine_sizes *s = &e->sizes;
    size_t texts = (size_t)s->texts, rows = (size_t)engine_most_rows(s);
    size_t own = (size_t)(s->text_length + 1), source = (size_t)s->source_length;
    TRY(blocks_open(s->blocks, &e->blocks));
    e->table = memory_new(texts * (size_t)e->text_blocks, sizeof *e->table);
    e->texts = memory_new(texts, sizeof *e->texts);
    e->sources = memory_new(texts * (size_t)e->source_blocks, sizeof *e->sources);
    e->ids = memory_new(texts * (own + source), sizeof *e->ids);
    e->numbers = memory_new(row_numbers(s) * rows, sizeof *e->numbers);
    e->order = memory_new(texts, sizeof *e->order);
    e->draws = memory_new((size_t)engine_wanted(s), sizeof *e->draws);
    if (!e->table || !e->sources || !e->order || !e->draws || !e->texts || !e->ids || !e->numbers)
        return status_set(STATUS_FAILED, "no memory for %lld texts", (long long)s->texts);
    for (size_t t = 0; t < texts; t++) {
        e->texts[t].ids = e->ids + t * (own + source);
        e->texts[t].source = e->texts[t].ids + own;
    }
    e->step = (engine_rows){ .tokens = e->numbers,
                             .position = e->numbers + rows,
                             .text = e->numbers + 2 * rows,
                             .slot = e->numbers + 3 * rows,
                             .wanted = e->numbers + 4 * rows,
                             .adapter = e->numbers + 5 * rows,
                             .last = e->numbers + 6 * rows,
                             .place = s->whole ? e->numbers + 7 * rows : NULL };
    return STATUS_OK;
}

static void find_values(engine *e) {
    for (uint32_t k = 0; k < e->steps.count + e->source_steps.count; k++)
        e->programs[k] = (engine_program){ .tokens = exec_input(e->exec, k, "tokens"),
                                           .position = exec_input(e->exec, k, "position"),
                                           .text = exec_input(e->exec, k, "text"),
                                           .slot = exec_input(e->exec, k, "slot"),
                                           .table = exec_input(e->exec, k, "table"),
                                           .wanted = exec_input(e->exec, k, "wanted"),
                                           .sources = exec_input(e->exec, k, "sources"),
                                           .source_last = exec_input(e->exec, k, "source_last"),
                                           .adapter = exec_input(e->exec, k, "adapter"),
                                           .place = exec_input(e->exec, k, "place"),
                                           .last = exec_input(e->exec, k, "last"),
                                           .logits = exec_output(e->exec, k, "logits"),
                                           .hidden = exec_output(e->exec, k, "hidden") };
    e->sampling = exec_buffer(e->exec, "sampling");
}

status engine_start(engine *e) {
    uint64_t beside;
    TRY(exec_open(&e->plan, EXEC_OBSERVE, &e->exec));
    TRY(exec_check_reserve(e->exec, &beside));
    TRY(model_folder_load(e->folder, e->exec));
    TRY(allocate(e));
    find_values(e);
    return STATUS_OK;
}

status engine_measure(const engine *e, exec_measured *out) {
    *out = (exec_measured){ 0 };
    return e && e->exec ? exec_measure(e->exec, out) : STATUS_OK;
}
