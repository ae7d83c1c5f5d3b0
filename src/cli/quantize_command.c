/* snug quantize: a trained model with weights of 8 or 4 bits, and what that did to it. */
#include <math.h>
#include <string.h>

#include "base/units.h"
#include "cli/cli.h"
#include "cli/shown.h"
#include "io/json.h"
#include "quantize/quantize.h"

static bool is_static(const options *o) {
    return o->to == QUANTIZE_TO_INT8_STATIC || o->to == QUANTIZE_TO_INT8_STATIC_ALL ||
           o->mode == QUANTIZE_STATIC;
}

static bool is_all(const options *o) {
    return o->to == QUANTIZE_TO_INT8_ALL || o->to == QUANTIZE_TO_INT8_STATIC_ALL ||
           o->to == QUANTIZE_TO_INT4_ALL;
}

static bool is_narrow(const options *o) { return o->to == QUANTIZE_TO_INT4 || o->to == QUANTIZE_TO_INT4_ALL; }

static status check(const options *o) {
    if (!o->run.out)
        return status_set(STATUS_INVALID, "quantize wants --out DIR, where the quantized model is to go");
    if (o->to == QUANTIZE_TO_UNSAID)
        return status_set(STATUS_INVALID,
                          "quantize wants --to int8, --to int8:static or --to int4, what weights are to "
                          "become; with :all behind it embeddings too");
    if (is_narrow(o) && o->mode == QUANTIZE_STATIC)
        return status_set(STATUS_INVALID, "--to int4 has no --mode static; leave --mode out");
    if (is_static(o) && o->mode == QUANTIZE_DYNAMIC)
        return status_set(STATUS_INVALID, "--to int8:static and --mode dynamic contradict each other; leave "
                                          "--mode out");
    if (is_static(o) && !o->calibrate)
        return status_set(
            STATUS_INVALID,
            "--to int8:static wants --calibrate PATH, a text that the model is run on for scales");
    if (!is_static(o) && o->calibrate)
        return status_set(STATUS_INVALID,
                          "--calibrate %s is for --to int8:static; to see the change in loss "
                          "name the text with --data",
                          o->calibrate);
    return STATUS_OK;
}

static double percent(double after, double before) { return before > 0 ? 100 * (after / before - 1) : 0; }

static void print(output *out, const options *o, const quantize_result *r) {
    char a[UNITS_TEXT_BYTES], b[UNITS_TEXT_BYTES], name[REPORT_NAME_BYTES], from[REPORT_NAME_BYTES];
    double before = (double)r->bytes.before, after = (double)r->bytes.after;
    output_add(out, "%s: %u weights of %s as %s\n", report_name(o->run.out, name),
               (unsigned)r->bytes.quantized, report_name(o->subject, from), r->setting);
    output_add(out, "  weights         %s -> %s, %+.1f %%\n", units_bytes_text(r->bytes.before, a),
               units_bytes_text(r->bytes.after, b), percent(after, before));
    if (r->calibrated)
        output_add(out, "  calibrated      on %lld samples of %s\n", (long long)r->calibrated,
                   report_name(o->calibrate, from));
    if (r->evaluated)
        output_add(out, "  validation loss %.4f -> %.4f, %+.3f %%, over %lld samples\n", r->loss_before,
                   r->loss_after, percent(r->loss_after, r->loss_before), (long long)r->samples);
    if (r->trained && (r->evaluated || r->calibrated))
        output_add(out, "  samples         of %lld tokens, as in training; --context N sets others\n",
                   (long long)r->context);
    if (r->planned_bytes)
        output_add(out, "  memory          %s, planned %s\n", units_bytes_text(r->resident_peak_bytes, a),
                   units_bytes_text(r->planned_bytes, b));
    output_add(out, "For generating and evaluating; it saves nothing in training.\n");
    output_add(out,
               r->no_text ? "Try: snug train %s --data PATH --eval-only\n"
                          : "Try: snug generate %s --prompt TEXT\n",
               shown_word(o->run.out, name));
}

static void write_json(text *out, const quantize_result *r) {
    json_writer w = { .out = out, .lines = true };
    json_begin_object(&w, NULL);
    json_put_string(&w, "setting", r->setting);
    json_put_unsigned(&w, "weights", r->bytes.quantized);
    json_put_unsigned(&w, "bytes_before", r->bytes.before);
    json_put_unsigned(&w, "bytes_after", r->bytes.after);
    json_put_integer(&w, "calibration_samples", r->calibrated);
    json_put_integer(&w, "samples", r->samples);
    r->evaluated ? json_put_number(&w, "loss_before", r->loss_before) : json_put_null(&w, "loss_before");
    r->evaluated ? json_put_number(&w, "loss_after", r->loss_after) : json_put_null(&w, "loss_after");
    json_put_unsigned(&w, "planned_bytes", r->planned_bytes);
    json_put_unsigned(&w, "measured_bytes", r->resident_peak_bytes);
    json_end_object(&w);
    text_add(out, "\n");
}

status cli_quantize(const options *o, cli_streams *streams) {
    quantize_result r;
    TRY(check(o));
    TRY(quantize_run(&(quantize_options){ .directory = o->subject,
                                          .out = o->run.out,
                                          .is_narrow = is_narrow(o),
                                          .is_static = is_static(o),
                                          .all = is_all(o),
                                          .calibrate = o->calibrate,
                                          .run = o->run },
                     &r));
    if (streams->people.file) print(&streams->people, o, &r);
    if (!o->json) return STATUS_OK;
    text json = { 0 };
    write_json(&json, &r);
    output_text(&streams->result, &json);
    return STATUS_OK;
}
