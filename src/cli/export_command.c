/* snug export: a model directory as one file that other programs run. */
#include <string.h>

#include "base/clock.h"
#include "base/units.h"
#include "cli/cli.h"
#include "cli/progress.h"
#include "cli/shown.h"
#include "cli/signals.h"
#include "export/export.h"
#include "io/json.h"

enum { SECONDS_BETWEEN = 5 }; /* lines that say how far it is */

typedef struct {
    progress *seen;
    double next; /* time of the next line */
} watcher;

static status written(void *context, uint64_t bytes, uint64_t all) {
    watcher *w = context;
    char is[UNITS_TEXT_BYTES], of[UNITS_TEXT_BYTES];
    double now = clock_seconds();
    if (signals_stop) return status_set(STATUS_INTERRUPTED, "interrupted; no file was written");
    if (now < w->next) return STATUS_OK;
    w->next = now + SECONDS_BETWEEN;
    progress_say(w->seen, "%3.0f %%  %s of %s", 100 * (double)bytes / (double)all,
                 units_bytes_text(bytes, is), units_bytes_text(all, of));
    return STATUS_OK;
}

static status check(const options *o) {
    if (o->export_to == EXPORT_TO_UNSAID)
        return status_set(STATUS_INVALID, "export wants --to gguf, the kind of file to write");
    if (!o->run.out) return status_set(STATUS_INVALID, "export wants --out FILE, where the model is to go");
    return cli_check_directory(o->subject);
}

static void print(output *out, const options *o, const export_result *r, const char *type) {
    char a[UNITS_TEXT_BYTES], b[UNITS_TEXT_BYTES], name[REPORT_NAME_BYTES], from[REPORT_NAME_BYTES];
    output_add(out, "%s: %u tensors of %s as GGUF, %s\n", report_name(o->run.out, name), (unsigned)r->tensors,
               report_name(o->subject, from), type);
    output_add(out, "  size            %s (%llu bytes), from %s\n", units_bytes_text(r->bytes, a),
               (unsigned long long)r->bytes, units_bytes_text(r->read, b));
    output_add(out, "  architecture    %s\n", r->architecture);
    output_add(out, "  tokenizer       %s\n", r->vocabulary);
    if (r->odd)
        output_add(out, "  %u tensor%s F16: rows of Q8_0 are whole blocks of %d numbers\n", (unsigned)r->odd,
                   r->odd == 1 ? " is" : "s are", GGUF_BLOCK);
    output_add(out, "  memory          %s, planned %s\n", units_bytes_text(r->resident_peak_bytes, a),
               units_bytes_text(r->planned_bytes, b));
    for (const char *at = r->notes.data; at && *at;) {
        int length = (int)strcspn(at, "\n");
        output_add(out, "Note: %.*s.\n", length, at);
        at += length + (at[length] == '\n');
    }
    output_add(out, "Try: llama-cli -m %s -p TEXT\n", shown_word(o->run.out, name));
}

static void write_json(text *out, const export_result *r, const char *type) {
    json_writer w = { .out = out, .lines = true };
    json_begin_object(&w, NULL);
    json_put_string(&w, "format", "gguf");
    json_put_string(&w, "dtype", type);
    json_put_string(&w, "architecture", r->architecture);
    json_put_string(&w, "tokenizer", r->vocabulary);
    json_put_unsigned(&w, "tensors", r->tensors);
    json_put_unsigned(&w, "tensors_f16_instead", r->odd);
    json_put_unsigned(&w, "bytes", r->bytes);
    json_put_unsigned(&w, "bytes_read", r->read);
    json_begin_array(&w, "notes");
    for (char *at = r->notes.data, *end; at && (end = strchr(at, '\n')); at = end + 1) {
        *end = 0;
        json_put_string(&w, NULL, at);
        *end = '\n';
    }
    json_end_array(&w);
    json_put_unsigned(&w, "planned_bytes", r->planned_bytes);
    json_put_unsigned(&w, "measured_bytes", r->resident_peak_bytes);
    json_end_object(&w);
    text_add(out, "\n");
}

static status finish(const options *o, cli_streams *streams, const export_result *r) {
    static const char *const types[] = { "f16", "bf16", "f32", "q8_0" };
    text json = { 0 };
    if (streams->people.file) print(&streams->people, o, r, types[o->export_type]);
    if (!o->json) return STATUS_OK;
    write_json(&json, r, types[o->export_type]);
    output_text(&streams->result, &json);
    return STATUS_OK;
}

status cli_export(const options *o, cli_streams *streams) {
    static const gguf_write_type types[] = { GGUF_WRITE_F16, GGUF_WRITE_BF16, GGUF_WRITE_F32,
                                             GGUF_WRITE_Q8_0 };
    watcher w = { .next = clock_seconds() + SECONDS_BETWEEN };
    export_result r;
    TRY(check(o));
    TRY(progress_open(&streams->people, &w.seen));
    signals_watch(SIGNALS_READS_GO_ON);
    status result = export_run(&(export_options){ .directory = o->subject,
                                                  .out = o->run.out,
                                                  .type = types[o->export_type],
                                                  .run = o->run,
                                                  .written = written,
                                                  .context = &w },
                               &r);
    progress_close(w.seen);
    if (result == STATUS_OK) result = finish(o, streams, &r);
    export_result_close(&r);
    return result;
}
