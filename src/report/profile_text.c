/* The profile as text: time by op and by block beside what was predicted and what can't be beaten, and the
 * time between the kernels. Then memory, planned and measured. */
#include <stdio.h>

#include "base/units.h"
#include "report/parts.h"

/* ---- parts of a line ---- */

static double percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

static void add_columns(text *out, const profile_row *row, double whole) {
    text_add(out, " %5u %9.3f %5.1f %% %9.3f %9.3f %c %5.0f %%", (unsigned)row->calls, 1e3 * row->seconds,
             percent(row->seconds, whole), 1e3 * row->predicted, 1e3 * row->bound,
             row->compute >= row->traffic ? 'c' : 'b', percent(row->bound, row->seconds));
    text_add(out, " %6.1f %6.1f\n", row->seconds > 0 ? 1e-9 * row->flops / row->seconds : 0,
             row->seconds > 0 ? 1e-9 * row->bytes / row->seconds : 0);
}

static void add_header(text *out, const char *title, const char *second, const parts_colours *k) {
    text_add(out, "\n%s%-24s%s %s%-8s %5s %9s %7s %9s %9s   %7s %6s %6s%s\n", k->bold, title, k->end, k->dim,
             second, "calls", "ms", "share", "predicted", "bound", "of time", "GF/s", "GB/s", k->end);
}

/* ---- the tables ---- */

static void add_ops(text *out, const profile_result *r, double whole, const parts_colours *k) {
    add_header(out, "Time by op", "phase", k);
    for (uint32_t i = 0; i < r->op_count; i++) {
        text_add(out, "%-24s %-8s", r->ops[i].op, parts_phase_name(r->ops[i].phase));
        add_columns(out, &r->ops[i], whole);
    }
    text_add(out, "%-24s %-8s", "all kernels", "");
    add_columns(out, &r->total, whole);
}

static void add_blocks(text *out, const profile_result *r, double whole, const parts_colours *k) {
    char site[REPORT_NUMBER_BYTES];
    add_header(out, "Time by block", "", k);
    for (uint32_t i = 0; i < r->block_count; i++) {
        text_add(out, "%-24s %-8s", parts_site_text(r->blocks[i].site, site), "");
        add_columns(out, &r->blocks[i], whole);
    }
    for (int p = PHASE_FORWARD; p <= PHASE_UPDATE; p++) {
        if (p == PHASE_REDUCE && r->total.by_phase[p] <= 0) continue; /* there are no units */
        text_add(out, "%-24s %-8s %5s %9.3f %5.1f %%\n", p == PHASE_FORWARD ? "all, by phase" : "",
                 parts_phase_name((phase)p), "", 1e3 * r->total.by_phase[p],
                 percent(r->total.by_phase[p], whole));
    }
}

static void add_between(text *out, const profile_step *x, bool ranks, const parts_colours *k) {
    double whole = x->end - x->begin;
    text_add(out, "\n%sThe step%s, %.3f ms by the clock\n", k->bold, k->end, 1e3 * whole);
    text_add(out, "  %-15s %10.3f ms %7.3f %%\n", "in kernels", 1e3 * x->kernels, percent(x->kernels, whole));
    text_add(out, "  %-15s %10.3f ms %7.3f %%  for the batch; the loader reads ahead\n", "waiting",
             1e3 * x->data, percent(x->data, whole));
    if (ranks)
        text_add(out, "  %-15s %10.3f ms %7.3f %%  for the word of the other ranks\n", "meeting",
                 1e3 * x->meeting, percent(x->meeting, whole));
    text_add(out, "  %-15s %10.3f ms %7.3f %%  of samples to the inputs of programs\n", "copying",
             1e3 * x->hand_in, percent(x->hand_in, whole));
    text_add(out, "  %-15s %10.3f ms %7.3f %%  reading the loss, giving the batch back\n", "the loop",
             1e3 * x->rest, percent(x->rest, whole));
}

/* ---- several ranks ---- */

/* The same step on each: what of it was waiting for others, and what its thread moved meanwhile. */
static void add_ranks(text *out, const setup *s, const decision *d, const profile_result *r,
                      const parts_colours *k) {
    char name[96], bytes[REPORT_NUMBER_BYTES];
    text_add(out, "\n%s%-24s%s %s%17s %10s %10s %10s %10s %10s%s\n", k->bold, "The step by rank", k->end,
             k->dim, "peak in bytes", "ms", "links", "meeting", "moving", "MiB", k->end);
    for (int i = 0; i < r->run.rank_count; i++) {
        const profile_rank *x = &r->ranks[i];
        const train_rank *kept = &r->run.ranks[i];
        snprintf(name, sizeof name, "%d on %s", i, kept->host);
        text_add(out, "%-24.24s %17s %10.3f %10.3f %10.3f %10.3f %10.1f%s\n", name,
                 report_count(kept->peak_bytes, bytes), 1e3 * (x->step.end - x->step.begin),
                 1e3 * x->step.links, 1e3 * x->step.meeting, 1e3 * x->step.moved.seconds,
                 (double)x->step.moved.bytes / (1 << 20), kept->equal ? "" : "  bytes are not as planned");
    }
    text_add(out, "%-24s %17s %10.3f %10.3f %10s %10.3f\n", "predicted",
             report_count(d->plan.peak_bytes, bytes), 1e3 * d->point.seconds,
             1e3 * compose_waiting(&s->request.run, &d->plan), "", 1e3 * r->moving);
    text_add(out,
             "  links: in kernels that wait for what others send; meeting: for their word before the step; "
             "moving\n  and MiB: how long, and how much a rank's thread had from others beside its "
             "kernels, until they came\n");
}

/* ---- the page ---- */

static void add_title(text *out, const setup *s, const decision *d, const profile_result *r,
                      const parts_colours *k) {
    char a[UNITS_TEXT_BYTES], b[UNITS_TEXT_BYTES], c[UNITS_TEXT_BYTES], n[REPORT_NUMBER_BYTES];
    char data[REPORT_NAME_BYTES];
    const device_rates *rates = &s->request.run.lower.rates;
    double least = r->run.step_seconds, most = least;
    for (int64_t i = 0; i < r->steps; i++) {
        double seconds = r->step[i].end - r->step[i].begin;
        if (seconds < least) least = seconds;
        if (seconds > most) most = seconds;
    }
    text_add(
        out,
        "\n%sMeasured%s: %lld step%s on %d thread%s after one to warm up, %s to %s; below, the median one, ",
        k->bold, k->end, (long long)r->steps, r->steps == 1 ? "" : "s", d->plan.threads,
        d->plan.threads == 1 ? "" : "s", units_seconds_text(least, a), units_seconds_text(most, b));
    text_add(out, "%s\n", units_seconds_text(r->run.step_seconds, c));
    text_add(out, "(predicted %s, %s tokens/s). Data: %s", units_seconds_text(d->point.seconds, a),
             report_rate(r->run.tokens_per_second, n),
             s->options.data ? report_name(s->options.data, data) : "random numbers");
    if (s->options.part_count) text_add(out, " and %llu more", (unsigned long long)s->options.part_count - 1);
    text_add(out, "\n");
    text_add(out,
             "Bound: no call is faster than its arithmetic (c: products at %.1f GF/s, of bf16 %.1f, of codes "
             "at %.1f) nor than its bytes at %.1f GB/s (b), but for what lies in caches; rates of the %s\n",
             1e-9 * profile_peak(rates), 1e-9 * rates->flops[WORK_PRODUCTS_HALF],
             1e-9 * rates->flops[WORK_CODES], 1e-9 * profile_bandwidth(rates), rates->source);
}

void report_profile_text(text *out, const setup *s, const decision *d, const profile_result *r,
                         const report_style *style) {
    parts_colours k = parts_colours_of(style);
    if (!r->steps) return;
    const profile_step *shown = &r->step[r->shown];
    add_title(out, s, d, r, &k);
    add_ops(out, r, shown->end - shown->begin, &k);
    add_blocks(out, r, shown->end - shown->begin, &k);
    add_between(out, shown, r->ranks != NULL, &k);
    if (r->ranks) add_ranks(out, s, d, r, &k);
    text_add(out, "\n");
    report_memory_table(out, d, &r->run, style);
    char bytes[REPORT_NUMBER_BYTES];
    text_add(out, "  %s bytes of runtime are the profile's own tables\n",
             report_count(r->table_bytes, bytes));
}
