#include "report/page/page_time.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "ir/op.h"
#include "report/parts.h"

enum { SHOWN = 24 }; /* bars; the rest is one more */

static profile_row *row_of(profile_row *rows, uint32_t *count, const char *name, phase of) {
    for (uint32_t i = 0; i < *count; i++)
        if (rows[i].phase == of && strcmp(rows[i].op, name) == 0) return &rows[i];
    rows[*count] = (profile_row){ .op = name, .phase = of };
    return &rows[(*count)++];
}

/* Predicted and bound of an optimizer step (of the validation, where nothing is trained) by op and phase. */
static uint32_t add_calls(const setup *s, const plan *p, profile_row *rows) {
    program_task task = s->request.run.training ? TASK_TRAIN : TASK_EVALUATE;
    uint32_t count = 0;
    for (uint32_t k = 0; k < p->program_count; k++) {
        const program *x = &p->programs[k].program;
        double calls = (double)x->shape.calls;
        for (uint32_t step = 0; x->shape.task == task && step < x->count; step++) {
            const node *n = graph_node(&x->graph, x->steps[step].node);
            profile_row *row = row_of(rows, &count, n->op->name, (phase)n->phase);
            row->calls += (uint32_t)x->shape.calls;
            row->predicted += calls * x->steps[step].seconds;
            row->bound += calls * profile_bound_of(x, step, &s->request.run.lower.rates).bound;
        }
    }
    return count;
}

static int longest_first(const void *a, const void *b) {
    const profile_row *x = a, *y = b;
    return (x->predicted < y->predicted) - (x->predicted > y->predicted);
}

static double value_of(const profile_row *x, bool measured) { return measured ? x->seconds : x->predicted; }

/* Rows with the longest first. */
static void put_ops(page *p, const profile_row *rows, uint32_t count, bool measured) {
    page_bar bars[SHOWN + 1];
    char rest[64];
    uint32_t n = count < SHOWN ? count : SHOWN;
    for (uint32_t i = 0; i < n; i++)
        bars[i] = (page_bar){ .label = rows[i].op,
                              .note = parts_phase_name(rows[i].phase),
                              .value = value_of(&rows[i], measured),
                              .marks = { measured ? rows[i].predicted : NAN, rows[i].bound } };
    if (count > n) {
        snprintf(rest, sizeof rest, "%u others together", (unsigned)(count - n));
        bars[n] = (page_bar){ .label = rest, .note = "" };
        for (uint32_t i = n; i < count; i++) {
            bars[n].value += value_of(&rows[i], measured);
            bars[n].marks[0] += rows[i].predicted;
            bars[n].marks[1] += rows[i].bound;
        }
        if (!measured) bars[n].marks[0] = NAN;
        n++;
    }
    page_put_bars(p, &(page_bars){ .name = "Time by op",
                                   .about = "The bound is the time that a call can't be faster than, by its "
                                            "arithmetic and its bytes; what still lies in a cache can.",
                                   .label_word = "op",
                                   .note_word = "phase",
                                   .unit = PAGE_SECONDS,
                                   .value_name = measured ? "measured" : "predicted",
                                   .mark_names = { measured ? "predicted" : NULL, "bound" },
                                   .bars = bars,
                                   .count = n });
}

static void put_predicted(page *p, const setup *s, const decision *d) {
    uint32_t most = 1;
    for (uint32_t k = 0; k < d->plan.program_count; k++) most += d->plan.programs[k].program.count;
    profile_row *rows = memory_new(most, sizeof *rows);
    if (!rows) {
        p->out.failed = true;
        return;
    }
    uint32_t count = add_calls(s, &d->plan, rows);
    qsort(rows, count, sizeof *rows, longest_first);
    put_ops(p, rows, count, false);
    memory_free(rows);
}

/* ---- measured ---- */

static void put_blocks(page *p, const profile_result *r) {
    const char *phases[PHASE_COUNT];
    page_bar *bars = memory_new(r->block_count + 1u, sizeof *bars);
    char(*labels)[REPORT_NUMBER_BYTES] = memory_new(r->block_count + 1u, sizeof *labels);
    for (int i = 0; i < PHASE_COUNT; i++) phases[i] = parts_phase_name((phase)i);
    for (uint32_t i = 0; bars && labels && i < r->block_count; i++)
        bars[i] = (page_bar){ .label = parts_site_text(r->blocks[i].site, labels[i]),
                              .value = r->blocks[i].seconds,
                              .marks = { r->blocks[i].predicted, r->blocks[i].bound },
                              .pieces = r->blocks[i].by_phase };
    if (!bars || !labels)
        p->out.failed = true;
    else
        page_put_bars(p, &(page_bars){ .name = "Time by block",
                                       .label_word = "block",
                                       .unit = PAGE_SECONDS,
                                       .value_name = "measured",
                                       .mark_names = { "predicted", "bound" },
                                       .piece_names = phases,
                                       .piece_count = PHASE_COUNT,
                                       .bars = bars,
                                       .count = r->block_count });
    memory_free(bars);
    memory_free(labels);
}

/* What a step is made of, by the clock. */
static void put_step(page *p, const profile_result *r) {
    const profile_step *x = &r->step[r->shown];
    const struct {
        const char *name, *note;
        double seconds;
    } parts[] = { { "in kernels", "", x->kernels },
                  { "waiting", "for the batch", x->data },
                  { "meeting", "for the word of other ranks", x->meeting },
                  { "copying", "samples to the inputs", x->hand_in },
                  { "the loop", "reading the loss", x->rest } };
    page_bar bars[sizeof parts / sizeof *parts];
    uint32_t n = 0;
    for (uint32_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (r->ranks || strcmp(parts[i].name, "meeting") != 0)
            bars[n++] = (page_bar){ parts[i].name, parts[i].note, parts[i].seconds, { NAN, NAN }, NULL };
    page_put_bars(p, &(page_bars){ .name = "The step by the clock",
                                   .label_word = "part",
                                   .note_word = "what for",
                                   .unit = PAGE_SECONDS,
                                   .value_name = "seconds",
                                   .bars = bars,
                                   .count = n });
}

/* The same step on each rank, and what of it was waiting for others. */
static void put_ranks(page *p, const decision *d, const profile_result *r) {
    enum { REST, LINKS, MEETING, ALL };
    static const char *const pieces[] = { "computing and the rest", "waiting for links", "meeting" };
    uint32_t count = (uint32_t)r->run.rank_count;
    page_bar *bars = memory_new(count, sizeof *bars);
    char(*labels)[REPORT_NUMBER_BYTES] = memory_new(count, sizeof *labels);
    double(*parts)[ALL] = memory_new(count, sizeof *parts);
    for (uint32_t i = 0; bars && labels && parts && i < count; i++) {
        const profile_step *x = &r->ranks[i].step;
        double whole = x->end - x->begin;
        snprintf(labels[i], sizeof labels[i], "rank %u", (unsigned)i);
        parts[i][REST] = whole - x->links - x->meeting;
        parts[i][LINKS] = x->links, parts[i][MEETING] = x->meeting;
        bars[i] = (page_bar){ labels[i], r->run.ranks[i].host, whole, { d->point.seconds, NAN }, parts[i] };
    }
    if (!bars || !labels || !parts)
        p->out.failed = true;
    else
        page_put_bars(p, &(page_bars){ .name = "The step by rank",
                                       .label_word = "rank",
                                       .note_word = "host",
                                       .unit = PAGE_SECONDS,
                                       .value_name = "measured",
                                       .mark_names = { "predicted", NULL },
                                       .piece_names = pieces,
                                       .piece_count = ALL,
                                       .bars = bars,
                                       .count = count });
    memory_free(bars);
    memory_free(labels);
    memory_free(parts);
}

void page_put_time(page *p, const setup *s, const decision *d, const profile_result *profile) {
    if (!profile || !profile->steps) {
        put_predicted(p, s, d);
        return;
    }
    put_ops(p, profile->ops, profile->op_count, true);
    put_blocks(p, profile);
    put_step(p, profile);
    if (profile->ranks) put_ranks(p, d, profile);
}
