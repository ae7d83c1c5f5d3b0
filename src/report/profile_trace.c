/* A profile as a trace for Perfetto (ui.perfetto.dev) and chrome://tracing, in the JSON of the trace event
 * format: a complete event ("ph": "X") for each kernel call, for each step and for what lies between kernels,
 * and a counter ("ph": "C") of the bytes alive, by category, at each call. Microseconds since the first step.
 * It goes to the file a piece at a time, since it is much longer than what it is made of. Of several ranks
 * each has a file and is a process of its own in it, so that files can be looked at together. */
#include <math.h>
#include <stdio.h>

#include "base/memory.h"
#include "io/json.h"
#include "report/parts.h"

enum { FIRST_PROCESS = 1, THREAD_STEPS = 1, THREAD_KERNELS = 2 };

typedef struct {
    const setup *s;
    const decision *d;
    const profile_result *r;
    io_writer *file;
    text piece;
    json_writer w;
    uint64_t persistent[CATEGORY_COUNT];
    uint64_t **alive; /* by program: by step and category; NULL: not in an optimizer step */
} trace;

/* ---- memory ---- */

/* The plan's bytes alive at each step, by category. That they are those of the run is what train and profile
 * show elsewhere: planned and measured categories are equal. */
static uint64_t *alive_of(const plan_program *pp) {
    uint32_t steps = pp->program.count;
    uint64_t *alive = memory_new(((size_t)steps + 1) * CATEGORY_COUNT, sizeof *alive);
    if (!alive) return NULL;
    for (uint32_t i = 0; i < pp->live.count; i++) {
        const live_storage *x = &pp->live.storages[i];
        alive[(size_t)x->first * CATEGORY_COUNT + x->category] += x->bytes;
        alive[((size_t)x->last + 1) * CATEGORY_COUNT + x->category] -=
            x->bytes; /* wraps, and back in the sum */
    }
    for (size_t i = CATEGORY_COUNT; i < (size_t)steps * CATEGORY_COUNT; i++)
        alive[i] += alive[i - CATEGORY_COUNT];
    return alive;
}

static status open_memory(trace *t) {
    const plan *p = &t->d->plan;
    for (uint32_t i = 0; i < p->persistent_count; i++)
        if (p->persistent[i].pool == POOL_MEMORY)
            t->persistent[p->persistent[i].category] += p->persistent[i].bytes;
    t->alive = memory_new(p->program_count, sizeof *t->alive);
    for (uint32_t k = 0; k < p->program_count; k++) {
        if (t->alive && p->programs[k].program.shape.task != TASK_TRAIN) continue;
        if (t->alive) t->alive[k] = alive_of(&p->programs[k]);
        if (!t->alive || !t->alive[k]) return status_set(STATUS_FAILED, "no memory for a trace");
    }
    return STATUS_OK;
}

/* ---- events ---- */

/* To the nanosecond, which is what the clock has. */
static double microseconds(double seconds) { return (double)llround(1e9 * seconds) / 1e3; }

/* An event a line. */
static void begin_line(trace *t, const char *name, const char *kind, int thread) {
    t->w.lines = true;
    json_begin_object(&t->w, NULL);
    t->w.lines = false;
    json_put_string(&t->w, "name", name);
    json_put_string(&t->w, "ph", kind);
    json_put_integer(&t->w, "pid", FIRST_PROCESS + t->s->comm.rank);
    json_put_integer(&t->w, "tid", thread);
}

static void begin_event(trace *t, const char *name, const char *kind, int thread, double moment) {
    begin_line(t, name, kind, thread);
    json_put_number(&t->w, "ts", microseconds(moment - t->r->step[0].begin));
}

static void add_span(trace *t, const char *name, double from, double to) {
    begin_event(t, name, "X", THREAD_STEPS, from);
    json_put_number(&t->w, "dur", microseconds(to - from));
    json_end_object(&t->w);
}

/* How a track is called. */
static void add_label(trace *t, const char *kind, int thread, const char *label) {
    begin_line(t, kind, "M", thread);
    json_begin_object(&t->w, "args");
    json_put_string(&t->w, "name", label);
    json_end_object(&t->w);
    json_end_object(&t->w);
}

static void put_shape(trace *t, const graph *g, tensor_id id) {
    char form[SHAPE_TEXT_BYTES], both[SHAPE_TEXT_BYTES + 16];
    snprintf(both, sizeof both, "%s %s", shape_text(graph_shape(g, id), form),
             dtype_name((dtype)graph_tensor(g, id)->dtype));
    json_put_string(&t->w, NULL, both);
}

static void put_shapes(trace *t, const graph *g, const node *n) {
    json_begin_array(&t->w, "reads");
    for (uint32_t i = 0; i < n->in_count; i++)
        if (node_in(g, n, i)) put_shape(t, g, node_in(g, n, i));
    json_end_array(&t->w);
    json_begin_array(&t->w, "makes");
    for (uint32_t i = 0; i < n->out_count; i++) put_shape(t, g, node_out(g, n, i));
    json_end_array(&t->w);
}

static void add_kernel(trace *t, uint32_t k, uint32_t step, const double *moment) {
    const program *p = &t->d->plan.programs[k].program;
    const node *n = graph_node(&p->graph, p->steps[step].node);
    profile_bound bound = profile_bound_of(p, step, &t->s->request.run.lower.rates);
    begin_event(t, n->op->name, "X", THREAD_KERNELS, moment[step]);
    json_put_string(&t->w, "cat", parts_phase_name((phase)n->phase));
    json_put_number(&t->w, "dur", microseconds(moment[step + 1] - moment[step]));
    json_begin_object(&t->w, "args");
    json_put_string(&t->w, "op", n->op->name);
    json_put_string(&t->w, "kernel", p->steps[step].kernel->name);
    json_put_string(&t->w, "phase", parts_phase_name((phase)n->phase));
    if (n->site >= 0) json_put_integer(&t->w, "block", n->site);
    json_put_string(&t->w, "program", p->shape.name);
    json_put_unsigned(&t->w, "step", step);
    put_shapes(t, &p->graph, n);
    json_put_unsigned(&t->w, "scratch_bytes", p->steps[step].scratch_bytes);
    json_put_number(&t->w, "flops", bound.flops);
    json_put_number(&t->w, "bytes", bound.bytes);
    json_put_number(&t->w, "bound_us", microseconds(bound.bound));
    json_put_number(&t->w, "predicted_us", microseconds(p->steps[step].seconds));
    json_end_object(&t->w);
    json_end_object(&t->w);
}

static void add_memory(trace *t, const uint64_t *arena, double moment) {
    begin_event(t, "bytes alive", "C", THREAD_KERNELS, moment);
    json_begin_object(&t->w, "args");
    for (int c = 0; c < CATEGORY_COUNT; c++)
        if (c != CATEGORY_GAPS && c != CATEGORY_RUNTIME)
            json_put_unsigned(&t->w, category_name((category)c), t->persistent[c] + arena[c]);
    json_end_object(&t->w);
    json_end_object(&t->w);
}

/* ---- the file ---- */

static status write_piece(trace *t) {
    status result = t->piece.failed ? status_set(STATUS_FAILED, "no memory for a trace") : STATUS_OK;
    if (result == STATUS_OK && t->piece.length)
        result = io_writer_add(t->file, t->piece.data, t->piece.length);
    text_close(&t->piece);
    return result;
}

static status add_run(trace *t, int64_t step, uint32_t run, double *last) {
    enum { CALLS_IN_A_PIECE = 128 };
    uint32_t k;
    const double *moment = profile_moments(t->r, t->d, step, run, &k);
    const program *p = &t->d->plan.programs[k].program;
    uint32_t count = p->count;
    add_span(t, "copying the samples", *last, moment[0]);
    add_span(t, p->shape.name, moment[0], moment[count]);
    for (uint32_t i = 0; i < count; i++) {
        add_kernel(t, k, i, moment);
        add_memory(t, t->alive[k] + (size_t)i * CATEGORY_COUNT, moment[i]);
        if (i % CALLS_IN_A_PIECE == 0) TRY(write_piece(t));
    }
    *last = moment[count];
    return write_piece(t);
}

static status add_step(trace *t, int64_t number) {
    const profile_step *step = &t->r->step[number];
    char name[REPORT_NUMBER_BYTES];
    snprintf(name, sizeof name, "step %lld", (long long)number + 1);
    add_span(t, name, step->begin, step->end);
    add_span(t, "waiting for data", step->begin, step->ready);
    if (t->s->comm.world > 1) add_span(t, "waiting for the word of other ranks", step->ready, step->met);
    double last = step->met;
    for (uint32_t run = 0; run < profile_runs(t->d); run++) TRY(add_run(t, number, run, &last));
    return STATUS_OK;
}

/* How the process is called. */
static void add_process(trace *t) {
    char name[REPORT_NAME_BYTES], both[REPORT_NAME_BYTES + 32];
    report_name(t->s->model.name, name);
    snprintf(both, sizeof both, "%s, rank %d", name, t->s->comm.rank);
    add_label(t, "process_name", THREAD_STEPS, t->s->comm.world > 1 ? both : name);
}

status report_profile_trace(io_writer *file, const setup *s, const decision *d, const profile_result *r) {
    trace t = { .s = s, .d = d, .r = r, .file = file };
    t.w.out = &t.piece;
    status result = open_memory(&t);
    json_begin_object(&t.w, NULL);
    json_put_string(&t.w, "displayTimeUnit", "ms");
    json_begin_array(&t.w, "traceEvents");
    add_process(&t);
    add_label(&t, "thread_name", THREAD_STEPS, "steps");
    add_label(&t, "thread_name", THREAD_KERNELS, "kernels");
    for (int64_t i = 0; i < r->steps && result == STATUS_OK; i++) result = add_step(&t, i);
    t.w.lines = true;
    json_end_array(&t.w);
    json_end_object(&t.w);
    text_add(&t.piece, "\n");
    if (result == STATUS_OK) result = write_piece(&t);
    text_close(&t.piece);
    for (uint32_t k = 0; t.alive && k < d->plan.program_count; k++) memory_free(t.alive[k]);
    memory_free(t.alive);
    return result;
}
