/* snug train --eval-only: the loss of a model's weights. It trains nothing and saves nothing, so a signal may
 * end it at any time. */
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/units.h"
#include "cli/cli.h"
#include "cli/page_file.h"
#include "cli/ranks.h"
#include "io/file.h"

/* What would be passed over in silence otherwise, and a folder that an evaluation would spoil. */
static status check(const options *o) {
    char path[4096];
    if (!o->run.data && !o->run.eval_data)
        return status_set(STATUS_INVALID,
                          "train --eval-only wants --data PATH, of which the last tenth validates, or "
                          "--eval-data PATH, which does as a whole");
    if (o->run.resume)
        return status_set(STATUS_INVALID, "--eval-only trains nothing, so there is nothing to --resume; name "
                                          "the checkpoint's folder as the model");
    if (o->run.overwrite)
        return status_set(STATUS_INVALID, "--eval-only writes no model, so there is nothing to --overwrite");
    if (!o->run.out) return STATUS_OK;
    TRY(io_check_folder(o->run.out));
    if (snprintf(path, sizeof path, "%s/metrics.jsonl", o->run.out) < (int)sizeof path &&
        access(path, F_OK) == 0)
        return status_set(STATUS_INVALID,
                          "--out %s holds a training run, whose run.json would go; name another folder, or "
                          "leave --out away",
                          o->run.out);
    return STATUS_OK;
}

static void print_beginning(output *out, const setup *s, const decision *d) {
    text t = { 0 };
    char name[REPORT_NAME_BYTES];
    report_style style = output_style(out);
    style.brief = true;
    report_plan_text(&t, s, d, &style);
    output_text(out, &t);
    if (!s->options.context && s->request.run.context < s->model.context)
        output_add(
            out, "note: samples of %lld tokens, as %s was trained on; --context %lld is the model's own\n",
            (long long)s->request.run.context, report_name(s->weights, name), (long long)s->model.context);
}

static void print_end(output *out, const setup *s, const decision *d, const evaluate_result *r) {
    char a[REPORT_NUMBER_BYTES], b[UNITS_TEXT_BYTES], c[UNITS_TEXT_BYTES], name[REPORT_NAME_BYTES];
    text t = { 0 };
    report_style style = output_style(out);
    output_add(out, "\n");
    report_memory_table(&t, d, &r->run, &style);
    output_text(out, &t);
    output_add(out, "\n%s%s%s\n", style.colour ? "\033[1m" : "", report_name(s->weights, name),
               style.colour ? "\033[0m" : "");
    output_add(out, "  validation loss %.4f   ", r->loss);
    if (!isnan(r->accuracy)) output_add(out, "accuracy %.2f %%", 100 * r->accuracy);
    if (!isnan(r->f1)) output_add(out, ", F1 %.4f (the mean over the classes)", r->f1);
    if (s->model.head.kind == HEAD_SCORE) output_add(out, "which is the mean squared error");
    if (s->model.head.kind == HEAD_LANGUAGE) output_add(out, "perplexity %.2f", exp(r->loss));
    output_add(out, ", %lld sample%s of %s", (long long)r->samples, r->samples == 1 ? "" : "s",
               report_name(s->options.eval_data ? s->options.eval_data : s->options.data, name));
    if (s->options.part_count && !s->options.eval_data)
        output_add(out, " and %llu more", (unsigned long long)s->options.part_count - 1);
    output_add(out, "\n");
    output_add(out, "  time            %s (predicted %s), %s %s/s\n", units_seconds_text(r->seconds, b),
               units_seconds_text(d->point.seconds, c), report_rate(r->tokens_per_second, a),
               s->model.sees ? "images" : "tokens");
}

static status write_result(const options *o, cli_streams *streams, const setup *s, const decision *d,
                           const evaluate_result *r) {
    text json = { 0 };
    char path[4096];
    status result = STATUS_OK;
    report_evaluation_json(&json, s, d, r);
    if (json.failed) result = status_set(STATUS_FAILED, "no memory for the report of the evaluation");
    if (o->json && !json.failed) output_bytes(&streams->result, json.data, json.length);
    if (o->run.out && result == STATUS_OK) result = io_make_folder(o->run.out);
    if (o->run.out && result == STATUS_OK) {
        snprintf(path, sizeof path, "%s/run.json", o->run.out);
        result = io_write_file(path, json.data, json.length);
    }
    text_close(&json);
    return result;
}

/* Rank 0 writes. */
static status write_of_all(const options *o, cli_streams *streams, const setup *s, const decision *d,
                           io_writer *html, const evaluate_result *r) {
    status result = STATUS_OK;
    if (!s->comm.rank) {
        if (streams->people.file) print_end(&streams->people, s, d, r);
        result = write_result(o, streams, s, d, r);
        if (result == STATUS_OK && html->path)
            result = page_file_end(o, streams, html, report_evaluation_page(html, s, d, r));
    }
    return comm_agree(result);
}

status cli_evaluate(const options *o, cli_streams *streams, io_writer *html, status so_far) {
    setup s = { 0 };
    decision d = { 0 };
    bool decided = false;
    evaluate_result r = { 0 };
    status result = so_far == STATUS_OK ? check(o) : so_far;
    if (result == STATUS_OK) result = cli_setup(o, &s);
    result = comm_agree(result);
    if (result == STATUS_OK) result = ranks_settle(&s);
    if (result == STATUS_OK) result = cli_decide(streams, &s, NULL, &d, &decided);
    result = ranks_agree(result, &s, &d, NULL);
    if (decided && streams->people.file) print_beginning(&streams->people, &s, &d);
    if (decided && result == STATUS_NO_FIT && o->json) {
        text json = { 0 };
        report_plan_json(&json, &s, &d);
        output_text(&streams->result, &json);
    }
    if (decided && result == STATUS_NO_FIT) result = page_file_plan(o, streams, html, &s, &d, result);
    if (result == STATUS_OK) result = evaluate_run(&s, &d, NULL, &r);
    if (result == STATUS_OK) result = write_of_all(o, streams, &s, &d, html, &r);
    train_result_close(&r.run);
    decision_close(&d);
    setup_close(&s);
    return result;
}
