#include "report/page/page_memory.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/units.h"
#include "ir/op.h"
#include "report/parts.h"

enum { FORM_BYTES = SHAPE_TEXT_BYTES + 16, PART_BYTES = 64, BANDS_ALONE = 6000 };

typedef struct {
    const setup *s;
    const decision *d;
    const profile_result *profile;
    const exec_lives *lives;
    page_seen *seen;                 /* by band */
    bool observed[COMPOSE_PROGRAMS]; /* by part */
    page_band *base, *bands;
    page_moment *moments;
    double *times;
    char (*forms)[FORM_BYTES]; /* of the base, then of the bands */
    uint32_t base_count, band_count, moment_count;
    uint32_t order[COMPOSE_PROGRAMS]; /* of programs, as they run */
    char names[COMPOSE_PROGRAMS][PART_BYTES];
    const char *parts[COMPOSE_PROGRAMS];
} memory_picture;

/* ---- what stays ---- */

static const char *form_of(memory_picture *m, uint32_t i, const shape *s, dtype type) {
    char few[SHAPE_TEXT_BYTES];
    snprintf(m->forms[i], FORM_BYTES, "%s %s", shape_text(s, few), dtype_name(type));
    return m->forms[i];
}

/* The block of a persistent tensor is that of the first kernel with a block that reads it. */
static void find_blocks(const plan *p, int32_t *block) {
    for (uint32_t i = 0; i < p->persistent_count; i++) block[i] = -1;
    for (uint32_t k = 0; k < p->program_count; k++) {
        const program *x = &p->programs[k].program;
        for (uint32_t step = 0; step < x->count; step++) {
            const node *n = graph_node(&x->graph, x->steps[step].node);
            for (uint32_t i = 0; n->site >= 0 && i < n->in_count; i++) {
                tensor_id t = node_in(&x->graph, n, i);
                if (!t || graph_tensor(&x->graph, t)->producer) continue;
                if (!role_persistent((role)graph_tensor(&x->graph, t)->role)) continue;
                const plan_persistent *at = plan_find(p, graph_name(&x->graph, t));
                if (at && block[at - p->persistent] < 0) block[at - p->persistent] = n->site;
            }
        }
    }
}

static bool add_base(memory_picture *m) {
    const plan *p = &m->d->plan;
    int32_t *block = memory_new(p->persistent_count + 1u, sizeof *block);
    if (!block) return false;
    find_blocks(p, block);
    for (uint32_t i = 0; i < p->persistent_count; i++) {
        const plan_persistent *x = &p->persistent[i];
        if (x->pool != POOL_MEMORY) continue;
        uint32_t at = m->base_count++;
        m->base[at] = (page_band){ .name = x->name,
                                   .form = x->shape.rank ? form_of(m, at, &x->shape, x->dtype) : NULL,
                                   .category = (uint8_t)x->category,
                                   .group = block[i],
                                   .bytes = x->bytes };
    }
    if (p->by_category[CATEGORY_RUNTIME])
        m->base[m->base_count++] = (page_band){ .name = "code, stacks, tables",
                                                .category = CATEGORY_RUNTIME,
                                                .group = -1,
                                                .bytes = p->by_category[CATEGORY_RUNTIME] };
    memory_free(block);
    return true;
}

/* ---- the arena ---- */

/* Of a program that did not run nobody knows. */
static void add_seen(memory_picture *m, const plan_program *pp, const live_storage *x, uint32_t before) {
    const exec_lives *l = &m->lives[pp - m->d->plan.programs];
    const exec_life *seen = l->ran ? exec_life_of(l, x) : NULL;
    if (seen) m->seen[m->band_count] = (page_seen){ before + seen->first, before + seen->last, seen->bytes };
}

static void add_storage(memory_picture *m, const plan_program *pp, const live_storage *x, uint32_t before) {
    const graph *g = &pp->program.graph;
    const node *born = graph_node(g, pp->program.steps[x->first].node);
    if (m->seen) add_seen(m, pp, x, before);
    uint32_t at = m->band_count++;
    page_band *b = &m->bands[at];
    *b = (page_band){ .name = "scratch",
                      .from = born->op->name,
                      .category = (uint8_t)x->category,
                      .phase = (uint8_t)born->phase,
                      .group = born->site,
                      .first = before + x->first,
                      .last = before + x->last,
                      .bytes = x->bytes };
    if (!x->owner) return;
    const tensor *t = graph_tensor(g, x->owner);
    b->name = graph_name(g, x->owner);
    b->form = form_of(m, m->base_count + at, &t->shape, (dtype)t->dtype);
    b->from = t->producer ? graph_node(g, t->producer)->op->name : NULL;
}

static void add_program(memory_picture *m, uint32_t part, double *clock) {
    const plan_program *pp = &m->d->plan.programs[m->order[part]];
    uint32_t before = m->moment_count;
    for (uint32_t i = 0; i < pp->program.count; i++) {
        const node *n = graph_node(&pp->program.graph, pp->program.steps[i].node);
        m->moments[m->moment_count++] =
            (page_moment){ n->op->name, n->site, (uint8_t)n->phase, (uint8_t)part };
        *clock += pp->program.steps[i].seconds;
        m->times[m->moment_count] = *clock;
    }
    for (uint32_t i = 0; i < pp->live.count; i++) add_storage(m, pp, &pp->live.storages[i], before);
    m->observed[part] = m->lives && m->lives[pp - m->d->plan.programs].ran;
    const program_shape *runs = &pp->program.shape;
    if (runs->calls > 1)
        snprintf(m->names[part], PART_BYTES, "%.30s, %lld times", runs->name, (long long)runs->calls);
    else
        snprintf(m->names[part], PART_BYTES, "%.30s", runs->name);
    m->parts[part] = m->names[part];
}

/* The first run of each program in the profile's median step. */
static void take_measured(memory_picture *m) {
    const plan *p = &m->d->plan;
    double clock = 0;
    for (uint32_t i = 0, at = 0; i < p->program_count; i++) {
        const double *moment = NULL;
        uint32_t k = m->order[i];
        uint32_t which = UINT32_MAX, count = p->programs[k].program.count;
        for (uint32_t run = 0; run < profile_runs(m->d) && which != k; run++)
            moment = profile_moments(m->profile, m->d, m->profile->shown, run, &which);
        for (uint32_t x = 0; x < count; x++, at++) {
            clock += which == k ? moment[x + 1] - moment[x] : p->programs[k].program.steps[x].seconds;
            m->times[at + 1] = clock;
        }
    }
}

/* ---- the whole ---- */

/* As they run: those of a step by their first sample, then validation. */
static bool runs_later(const program_shape *a, const program_shape *b) {
    return a->task != b->task ? a->task > b->task : a->first > b->first;
}

static void set_order(memory_picture *m) {
    const plan *p = &m->d->plan;
    for (uint32_t k = 0; k < p->program_count; k++) {
        uint32_t at = k;
        for (; at && runs_later(&p->programs[m->order[at - 1]].program.shape, &p->programs[k].program.shape);
             at--)
            m->order[at] = m->order[at - 1];
        m->order[at] = k;
    }
}

/* The moment of the plan's peak. */
static uint32_t find_peak(const memory_picture *m) {
    const plan *p = &m->d->plan;
    uint32_t peak = 0;
    for (uint32_t i = 0; i < p->program_count && m->order[i] != p->peak_program; i++)
        peak += p->programs[m->order[i]].program.count;
    return p->program_count ? peak + p->programs[p->peak_program].peak.step : 0;
}

static void close_memory(memory_picture *m) {
    memory_free(m->base);
    memory_free(m->bands);
    memory_free(m->moments);
    memory_free(m->times);
    memory_free(m->forms);
    memory_free(m->seen);
}

static bool open_memory(memory_picture *m) {
    const plan *p = &m->d->plan;
    uint32_t storages = 0, moments = 0;
    double clock = 0;
    for (uint32_t k = 0; k < p->program_count; k++)
        storages += p->programs[k].live.count, moments += p->programs[k].program.count;
    m->base = memory_new(p->persistent_count + 1u, sizeof *m->base);
    m->bands = memory_new(storages + 1u, sizeof *m->bands);
    m->moments = memory_new(moments + 1u, sizeof *m->moments);
    m->times = memory_new(moments + 1u, sizeof *m->times);
    m->forms = memory_new(p->persistent_count + storages + 1u, sizeof *m->forms);
    if (m->lives) m->seen = memory_new(storages + 1u, sizeof *m->seen);
    if (m->lives && !m->seen) return false;
    if (!m->base || !m->bands || !m->moments || !m->times || !m->forms || !add_base(m)) return false;
    set_order(m);
    for (uint32_t part = 0; part < p->program_count; part++) add_program(m, part, &clock);
    if (m->profile) take_measured(m);
    return true;
}

/* How what was observed differs from the plan. */
static void say_likeness(page *p, const decision *d, const exec_lives *lives) {
    exec_likeness like = exec_lives_like(&d->plan, lives);
    char all[REPORT_NUMBER_BYTES], some[REPORT_NUMBER_BYTES], bytes[REPORT_NUMBER_BYTES];
    uint64_t apart;
    if (exec_lives_apart(&d->plan, lives, &apart) != STATUS_OK) p->out.failed = true;
    report_count(like.planned, all);
    if (like.same == like.planned && !like.beside && !apart)
        page_say(p,
                 "Observed: all %s buffers of the programs that ran had the planned bytes, from the planned "
                 "kernel "
                 "to the planned one. The difference is 0 bytes at every kernel.",
                 all);
    else
        page_say(p,
                 "Observed: %s of %s buffers were other than planned, and %u were not planned. The "
                 "difference is at most "
                 "%s bytes of a category at a kernel.",
                 report_count(like.planned - like.same, some), all, (unsigned)like.beside,
                 report_count(apart, bytes));
}

#define ABOUT                                                                                                \
    "Each band is a tensor, from the kernel that makes it to the last one that reads it; what stays lies "   \
    "below. Gaps are of the arena and not in use at that kernel. Each program is shown once."

void page_put_memory(page *p, const setup *s, const decision *d, const profile_result *profile,
                     const exec_lives *lives) {
    const plan *x = &d->plan;
    memory_picture m = { .s = s, .d = d, .profile = profile, .lives = lives };
    const char *categories[CATEGORY_COUNT], *phases[PHASE_COUNT];
    if (!open_memory(&m)) {
        p->out.failed = true;
        close_memory(&m);
        return;
    }
    for (int c = 0; c < CATEGORY_COUNT; c++) categories[c] = category_name((category)c);
    for (int i = 0; i < PHASE_COUNT; i++) phases[i] = parts_phase_name((phase)i);
    page_put_bands(
        p,
        &(page_bands){
            .name = "Memory over the step",
            .about = lives ? ABOUT " The dashed line is where they would end as they were observed; what did "
                                   "not run has none."
                           : ABOUT,
            .categories = categories,
            .category_count = CATEGORY_COUNT,
            .phases = phases,
            .phase_count = PHASE_COUNT,
            .parts = m.parts,
            .part_count = x->program_count,
            .group_word = "block",
            .moment_word = "kernel",
            .moments = m.moments,
            .moment_count = m.moment_count,
            .times = m.times,
            .base = m.base,
            .base_count = m.base_count,
            .bands = m.bands,
            .band_count = m.band_count,
            .seen = m.seen,
            .observed = m.observed,
            .held = &x->peak_bytes,
            .free = CATEGORY_GAPS,
            .budget = d->budget,
            .peak = find_peak(&m),
            .most = BANDS_ALONE,
        });
    if (lives) say_likeness(p, d, lives);
    close_memory(&m);
}

/* ---- who is alive at the peak ---- */

void page_put_holders(page *p, const decision *d) {
    enum { SHOWN = 40 };
    static const page_column columns[] = { { "bytes", true },   { "share", true },     { "how many", true },
                                           { "shape", false },  { "category", false }, { "from", false },
                                           { "largest", false } };
    parts_holder holders[SHOWN];
    uint32_t count = 0;
    uint64_t rest = 0;
    char few[REPORT_NUMBER_BYTES], form[FORM_BYTES], sizes[SHAPE_TEXT_BYTES];
    if (parts_holders(&d->plan, holders, SHOWN, &count, &rest) != STATUS_OK) p->out.failed = true;
    page_table_begin(p, "Alive at the peak, largest first", columns, 7);
    for (uint32_t i = 0; i < count && i < SHOWN; i++) {
        const parts_holder *h = &holders[i];
        snprintf(form, sizeof form, "%s %s", shape_text(&h->shape, sizes), dtype_name(h->dtype));
        if (h->persistent)
            page_row_of_bands(p, (uint8_t)h->category, NULL, NULL);
        else
            page_row_of_bands(p, (uint8_t)h->category, h->from ? h->from : "", h->shape.rank ? form : "");
        page_cell(p, &columns[0], report_count(h->bytes, few));
        snprintf(few, sizeof few, "%.1f %%", 100 * (double)h->bytes / (double)d->plan.peak_bytes);
        page_cell(p, &columns[1], few);
        snprintf(few, sizeof few, "%u", (unsigned)h->count);
        page_cell(p, &columns[2], few);
        page_cell(p, &columns[3], h->shape.rank && !h->persistent ? form : "");
        page_cell(p, &columns[4], category_name(h->category));
        page_cell(p, &columns[5], h->from ? h->from : h->persistent ? "stays" : "");
        page_cell(p, &columns[6], h->name);
    }
    page_table_end(p);
    if (rest) {
        char bytes[2 * PAGE_VALUE_BYTES];
        page_say(p, "%s more are in %u smaller kinds.", page_exact(rest, bytes), (unsigned)(count - SHOWN));
    }
}
