/* snug compare: every technique beside plain training, planned, and with --measure run. */
#define _GNU_SOURCE
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/units.h"
#include "cli/apart.h"
#include "cli/cli.h"
#include "cli/page_file.h"
#include "cli/signals.h"
#include "io/file.h"

/* ---- measuring ---- */

typedef struct {
    output *out;
    const compare_table *table;
    uint32_t row;
    double left; /* seconds that the rows after this one are predicted to take */
    const device *on;
} showing;

static bool is_measurable(const compare_row *row) {
    return row->point.peak_bytes && !row->measured.done && !row->measured.why[0];
}

/* Steps and validation, of which the first three times as much. */
static double predicted_seconds(const setup *s, const compare_row *row) {
    const compose_run *r = &s->request.run;
    double share = r->batch ? (double)r->eval_samples / (double)r->batch : 0;
    return row->point.seconds * ((double)s->options.steps + share / 3);
}

static void show_step(void *context, const apart_step *x) {
    const showing *w = context;
    const compare_row *row = &w->table->rows[w->row];
    char left[REPORT_NUMBER_BYTES];
    if (!w->out->terminal) return;
    output_add(w->out, "\r\033[Kmeasuring row %u of %u, %s %s: step %lld of %lld, %s left", w->row + 1,
               w->table->count, row->name, row->setting, (long long)x->step, (long long)x->steps,
               report_duration((double)(x->steps - x->step) * x->seconds + w->left, left));
    output_flush(w->out);
}

/* Where the output is no terminal: a line a row. */
static void show_row(const showing *w) {
    const compare_row *row = &w->table->rows[w->row];
    char seconds[UNITS_TEXT_BYTES];
    if (w->out->terminal) {
        output_add(w->out, "\r\033[K");
    } else if (row->measured.done) {
        output_add(w->out, "measured row %u of %u, %s%s%s: %s a step\n", w->row + 1, w->table->count,
                   row->name, row->setting[0] ? " " : "", row->setting,
                   units_seconds_text(row->measured.step_seconds, seconds));
    }
    output_flush(w->out);
}

static bool same_other(const compare_row *a, const compare_row *b) {
    const compare_other *x = &a->other, *y = &b->other;
    return a->optimizer == b->optimizer && x->optimizer == y->optimizer && x->batch == y->batch &&
           x->context == y->context && x->eval_batch == y->eval_batch && x->workers == y->workers &&
           x->eval_only == y->eval_only;
}

/* Rows of one plan and run are one: the earlier one's numbers are theirs. */
static const compare_row *same_run(const compare_table *t, uint32_t i) {
    for (uint32_t k = 0; k < i; k++) {
        const compare_row *a = &t->rows[k], *b = &t->rows[i];
        if (a->measured.done && same_other(a, b) && a->point.peak_bytes == b->point.peak_bytes &&
            strcmp(a->choice, b->choice) == 0)
            return a;
    }
    return NULL;
}

static status measure_row(apart *a, showing *w, compare_table *t) {
    compare_row *row = &t->rows[w->row];
    const compare_row *same = same_run(t, w->row);
    char needed[UNITS_TEXT_BYTES], there[UNITS_TEXT_BYTES];
    if (same) {
        row->measured = same->measured;
        return STATUS_OK;
    }
    uint64_t available = w->on->available(w->on);
    if (row->point.peak_bytes > available) {
        snprintf(row->measured.why, sizeof row->measured.why, "needs %s, and %s are free",
                 units_bytes_text(row->point.peak_bytes, needed), units_bytes_text(available, there));
        return STATUS_OK;
    }
    TRY(apart_run(a, row, show_step, w, &signals_stop, &row->measured));
    show_row(w);
    return STATUS_OK;
}

static status measure(apart *a, output *out, const setup *s, compare_table *t) {
    showing w = { .out = out, .table = t, .on = lower_device(&s->request.run.lower) };
    status result = STATUS_OK;
    for (uint32_t i = 0; i < t->count; i++) w.left += predicted_seconds(s, &t->rows[i]);
    for (; w.row < t->count && result == STATUS_OK; w.row++) {
        if (signals_stop)
            return status_set(STATUS_INTERRUPTED, "stopped; rows without numbers were not measured");
        w.left -= predicted_seconds(s, &t->rows[w.row]);
        if (is_measurable(&t->rows[w.row])) result = measure_row(a, &w, t);
    }
    if (out->terminal) output_add(out, "\r\033[K");
    if (result != STATUS_INTERRUPTED) return result;
    return status_set(STATUS_INTERRUPTED, "stopped; rows without numbers were not measured");
}

/* ---- what comes out ---- */

static status write_chart(io_writer *chart, const report_comparison *c) {
    text t = { 0 };
    report_compare_svg(&t, c);
    status result = t.failed ? status_set(STATUS_FAILED, "no memory for the chart")
                             : io_writer_add(chart, t.data, t.length);
    text_close(&t);
    return result == STATUS_OK ? io_writer_commit(chart) : result;
}

static void print_table(const options *o, cli_streams *streams, const report_comparison *c) {
    text t = { 0 };
    if (streams->people.file) {
        report_style style = output_style(&streams->people);
        report_compare_text(&t, c, &style);
        output_text(&streams->people, &t);
    }
    if (!o->json) return;
    report_compare_json(&t, c);
    output_text(&streams->result, &t);
}

/* Without data there is nothing to learn, and a batch of random numbers says as much as many. */
static setup_options options_of(const options *o) {
    setup_options run = o->run;
    run.steps = o->compare_steps;
    if (!run.data && run.eval_samples > run.batch) run.eval_samples = run.batch;
    return run;
}

/* What goes to files: of --svg and of --html. */
typedef struct {
    io_writer chart, html;
} comparing;

static status write_files(const options *o, cli_streams *streams, comparing *files,
                          const report_comparison *c) {
    char name[REPORT_NAME_BYTES];
    if (o->svg) TRY(write_chart(&files->chart, c));
    if (o->svg) output_add(&streams->people, "\nChart: %s\n", report_name(o->svg, name));
    if (!o->html) return STATUS_OK;
    return page_file_end(o, streams, &files->html, report_compare_page(&files->html, c));
}

static status compare(const options *o, cli_streams *streams, apart *a, comparing *files, compare_table *t) {
    setup s;
    setup_options run = options_of(o);
    TRY(setup_open(&run, NULL, &s));
    status result = a ? model_computes(&s.model) : STATUS_OK, failed = STATUS_OK;
    if (result == STATUS_OK) result = compare_plan(&s, t);
    char sentence[1024] = "";
    if (result == STATUS_OK && a) {
        signals_watch(SIGNALS_READS_END); /* shows what there is */
        failed = measure(a, &streams->people, &s, t);
        snprintf(sentence, sizeof sentence, "%s", status_message());
    }
    if (result == STATUS_OK) {
        report_comparison c = { .setup = &s, .table = t, .measured = a != NULL };
        print_table(o, streams, &c);
        result = write_files(o, streams, files, &c);
    }
    setup_close(&s);
    return result == STATUS_OK && failed != STATUS_OK ? status_set(failed, "%s", sentence) : result;
}

status cli_compare(const options *o, cli_streams *streams) {
    if (o->measure && o->run.ranks > 1)
        return status_set(STATUS_INVALID,
                          "--measure runs one process, and --ranks plans for %lld; leave one of the two out",
                          (long long)o->run.ranks);
    apart *a = NULL;
    comparing files = { 0 };
    setup_options run = options_of(o);
    if (o->html) TRY(io_check_file(o->html));
    if (o->svg && o->html && (strcmp(o->svg, o->html) == 0 || io_is_same(o->svg, o->html)))
        return status_set(STATUS_INVALID, "--svg and --html both write %s; choose two names", o->svg);
    if (o->svg) TRY(io_check_file(o->svg));
    if (o->measure) TRY(apart_open(&run, &a)); /* before this process holds anything */
    compare_table *t = memory_new(1, sizeof *t);
    status result = t ? STATUS_OK : status_set(STATUS_FAILED, "no memory to compare");
    if (result == STATUS_OK && o->svg) result = io_writer_open(&files.chart, o->svg); /* can it be written? */
    if (result == STATUS_OK) result = page_file_open(o, &files.html);
    if (result == STATUS_OK) result = compare(o, streams, a, &files, t);
    io_writer_discard(&files.chart);
    io_writer_discard(&files.html);
    apart_close(a);
    memory_free(t);
    return result;
}
