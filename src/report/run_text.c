/* Text on what a program does kernel by kernel, and on what a run has measured. */
#include <stdio.h>

#include "base/memory.h"
#include "base/units.h"
#include "ir/op.h"
#include "report/parts.h"

/* ---- the listing ---- */

static void add_step(text *out, const plan_program *pp, uint32_t step, uint64_t alive) {
    const lower_step *x = &pp->program.steps[step];
    const graph *g = &pp->program.graph;
    const node *n = graph_node(g, x->node);
    char count[REPORT_NUMBER_BYTES], form[SHAPE_TEXT_BYTES], site[16] = "";
    if (n->site >= 0) snprintf(site, sizeof site, "%d", (int)n->site);
    text_add(out, "%6u  %-22s %-28s %-9s %5s  %15s ", (unsigned)step + 1, n->op->name, x->kernel->name,
             parts_phase_name((phase)n->phase), site, report_count(alive, count));
    for (uint32_t o = 0; o < n->out_count; o++) {
        tensor_id t = node_out(g, n, o);
        text_add(out, " %s%s@%llu", shape_text(graph_shape(g, t), form),
                 dtype_name((dtype)graph_tensor(g, t)->dtype), (unsigned long long)pp->offset[t]);
    }
    if (x->scratch_bytes)
        text_add(out, " scratch %s@%llu", report_count(x->scratch_bytes, count),
                 (unsigned long long)pp->scratch[step]);
    text_add(out, "\n");
}

static void list_program(text *out, const decision *d, const plan_program *pp) {
    char a[REPORT_NUMBER_BYTES], b[REPORT_NUMBER_BYTES], c[REPORT_NUMBER_BYTES];
    uint64_t *alive = memory_new(pp->program.count + 1u, sizeof *alive);
    if (!alive) {
        out->failed = true;
        return;
    }
    parts_alive(pp, alive);
    text_add(out, "\nprogram %s: %s kernels, an arena of %s bytes from byte %s of the pool on\n",
             pp->program.shape.name, report_count(pp->program.count, a), report_count(pp->arena_bytes, b),
             report_count(d->plan.pools[POOL_MEMORY].persistent_bytes, c));
    text_add(out, "%6s  %-22s %-28s %-9s %5s  %15s  %s\n", "step", "op", "kernel", "phase", "block",
             "bytes alive", "makes shape and type @ byte of the pool");
    for (uint32_t step = 0; step < pp->program.count; step++) add_step(out, pp, step, alive[step]);
    memory_free(alive);
}

void report_listing(text *out, const decision *d) {
    for (uint32_t k = 0; k < d->plan.program_count; k++) list_program(out, d, &d->plan.programs[k]);
}

/* ---- planned beside measured ---- */

static void add_row(text *out, const char *name, uint64_t planned, uint64_t measured) {
    char a[REPORT_NUMBER_BYTES], b[REPORT_NUMBER_BYTES];
    text_add(out, "  %-15s %17s  %17s   ", name, report_count(planned, a), report_count(measured, b));
}

/* What must be the same number. */
static void add_equal(text *out, uint64_t planned, uint64_t measured, const parts_colours *k) {
    char a[REPORT_NUMBER_BYTES];
    uint64_t apart = planned > measured ? planned - measured : measured - planned;
    if (apart)
        text_add(out, "%sapart by %s%s\n", k->bad, report_count(apart, a), k->end);
    else
        text_add(out, "%sequal%s\n", k->good, k->end);
}

/* What must not be more than planned. */
static void add_within(text *out, uint64_t planned, uint64_t measured, const parts_colours *k) {
    char a[REPORT_NUMBER_BYTES];
    if (measured <= planned)
        text_add(out, "%swithin%s\n", k->good, k->end);
    else
        text_add(out, "%s%s too many%s\n", k->bad, report_count(measured - planned, a), k->end);
}

/* The host's pool is taken in whole pages. */
static uint64_t in_pages(uint64_t bytes) { return units_align(bytes, 4096); }

/* Of a device apart: what its runtime is made of, and the two other kinds of memory. */
static void add_places(text *out, const decision *d, const train_result *r, const parts_measured *m,
                       const parts_colours *k) {
    const plan *p = &d->plan;
    uint64_t host = r->resident_peak_bytes, ours = p->device->host ? m->pools[POOL_MEMORY] : 0; /* emulated */
    const struct {
        const char *name;
        uint64_t planned, measured;
    } rows[] = { { "  context", p->beside.context, m->beside.context },
                 { "  code", p->beside.code, m->beside.code },
                 { "  handles", p->beside.handles, m->beside.handles },
                 { "  captured", p->beside.captured, m->beside.captured },
                 { "  transport", p->beside.ranks, m->beside.ranks },
                 { "  moved by", 0, m->moved_bytes },
                 { "host, peak", plan_taken(p, POOL_HOST), host > ours ? host - ours : 0 } };
    enum { CAPTURED = 3, TRANSPORT }; /* which not every run has */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if ((i == CAPTURED || i == TRANSPORT) && !rows[i].planned) continue;
        add_row(out, rows[i].name, rows[i].planned, rows[i].measured);
        add_within(out, rows[i].planned, rows[i].measured, k);
    }
    add_row(out, "host, its pool", in_pages(plan_allocated(p, POOL_HOST)), m->pools[POOL_HOST]);
    add_equal(out, in_pages(plan_allocated(p, POOL_HOST)), m->pools[POOL_HOST], k);
    add_row(out, "files", plan_file_bytes(p), m->pools[POOL_FILE]);
    add_equal(out, plan_file_bytes(p), m->pools[POOL_FILE], k);
}

void report_memory_table(text *out, const decision *d, const train_result *r, const report_style *style) {
    parts_colours k = parts_colours_of(style);
    parts_measured m = parts_measured_of(d, r);
    const plan *p = &d->plan;
    text_add(out, "%s%-17s %17s  %17s%s\n", k.bold, "Memory in bytes", "planned", "measured", k.end);
    for (int c = 0; c < CATEGORY_COUNT; c++) {
        if (!p->by_category[c] && !m.by_category[c]) continue;
        add_row(out, category_name((category)c), p->by_category[c], m.by_category[c]);
        (c == CATEGORY_RUNTIME ? add_within : add_equal)(out, p->by_category[c], m.by_category[c], &k);
    }
    add_row(out, p->device->apart ? "device, peak" : "process, peak", p->peak_bytes, m.peak_bytes);
    add_within(out, p->peak_bytes, m.peak_bytes, &k);
    if (p->device->apart) add_places(out, d, r, &m, &k);
    if (d->budget == UINT64_MAX) return;
    char a[REPORT_NUMBER_BYTES];
    text_add(out, "  %-15s %17s\n", "budget", report_count(d->budget, a));
}

/* ---- steps that take longer than before ---- */

void report_slowed(text *out, int64_t step, const pace_fall *fall, bool apart) {
    const double most = 0.9; /* of the processors asked for: with more of them, others did not take them */
    char now[UNITS_TEXT_BYTES], before[UNITS_TEXT_BYTES];
    text_add(out, "step %lld  a step takes %s, where it took %s at step %lld: ", (long long)step,
             units_seconds_text(fall->now, now), units_seconds_text(fall->before, before),
             (long long)fall->before_at);
    if (apart)
        text_add(out, "`nvidia-smi -q -d PERFORMANCE` tells whether the GPU's clock fell, and why\n");
    else if (fall->share < most)
        text_add(out, "other work left %.0f %% of the processors asked for\n", 100 * fall->share);
    else
        text_add(out, "the clock fell, or others use the memory\n");
}
