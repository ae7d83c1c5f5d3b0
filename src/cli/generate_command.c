/* snug generate: the text goes to stdout as it comes, everything else to stderr. */
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "cli/cli.h"
#include "infer/generate.h"
#include "io/json.h"

typedef struct {
    output *out;        /* NULL: only gather */
    const char *prompt; /* not yet shown; NULL: it was */
    text text;          /* for JSON */
} listener;

/* The prompt comes with the first token, so that a refusal says its sentence alone. */
static void show_prompt(listener *l) {
    if (l->out && l->prompt)
        output_add(l->out, "%s%s%s", l->out->colour ? "\033[1m" : "", l->prompt,
                   l->out->colour ? "\033[0m" : "");
    l->prompt = NULL;
}

/* A token of a byte model is its byte; others have no text without a tokenizer, and show as numbers. */
static void heard(void *context, int32_t id) {
    listener *l = context;
    char byte = (char)id;
    show_prompt(l);
    if (id < 0 || id > 255)
        text_add(&l->text, " %d", (int)id);
    else if (l->out)
        output_bytes(l->out, &byte, 1);
    else
        text_add(&l->text, id ? "%c" : "\xef\xbf\xbd", id);
    if (!l->out) return;
    if (id > 255) output_bytes(l->out, l->text.data ? l->text.data : "", l->text.length);
    l->text.length = 0;
    output_flush(l->out);
    if (l->out->gone) exit(STATUS_OK); /* nobody reads, and nothing is to be saved */
}

static double rate(int64_t tokens, double seconds) { return seconds > 0 ? (double)tokens / seconds : 0; }

static void print_json(output *out, const options *o, const listener *l, const generate_result *r) {
    text json = { 0 };
    json_writer w = { .out = &json, .lines = true };
    json_begin_object(&w, NULL);
    json_put_string(&w, "prompt", o->prompt);
    json_put_string(&w, "text", l->text.data ? l->text.data : "");
    json_put_integer(&w, "prompt_tokens", r->prompt_tokens);
    json_put_integer(&w, "new_tokens", r->new_tokens);
    json_put_number(&w, "seconds_prompt", r->seconds_prompt);
    json_put_number(&w, "seconds_new", r->seconds_new);
    json_put_number(&w, "tokens_per_second", rate(r->new_tokens, r->seconds_new));
    json_begin_object(&w, "predicted");
    json_put_unsigned(&w, "peak_bytes", r->planned_bytes);
    json_end_object(&w);
    json_begin_object(&w, "measured");
    json_put_unsigned(&w, "peak_bytes", r->resident_peak_bytes);
    json_end_object(&w);
    json_end_object(&w);
    text_add(&json, "\n");
    output_text(out, &json);
}

static void print_end(output *out, const generate_result *r) {
    char planned[UNITS_TEXT_BYTES], measured[UNITS_TEXT_BYTES];
    output_add(out, "%lld tokens, %.0f a second; memory %s, planned %s\n", (long long)r->new_tokens,
               rate(r->new_tokens, r->seconds_new), units_bytes_text(r->resident_peak_bytes, measured),
               units_bytes_text(r->planned_bytes, planned));
    output_flush(out);
}

status cli_generate(const options *o, cli_streams *streams) {
    if (!o->prompt)
        return status_set(STATUS_INVALID, "generate wants --prompt TEXT, the beginning of the text");
    listener l = { .out = o->json ? NULL : &streams->result, .prompt = o->prompt };
    generate_options g = { .directory = o->subject,
                           .prompt = o->prompt,
                           .tokens = o->tokens,
                           .temperature = o->temperature,
                           .top_k = o->top_k,
                           .seed = (uint64_t)o->run.seed,
                           .threads = (int)o->run.threads,
                           .token = heard,
                           .context = &l,
                           .memory = o->run.memory_auto ? setup_automatic_budget() : o->run.memory };
    generate_result r = { 0 };
    if (!o->quiet) streams->people = output_of(stderr);
    status result = generate_run(&g, &r);
    if (result == STATUS_OK) show_prompt(&l);
    if (l.out && !l.prompt) output_add(l.out, "\n");
    if (result == STATUS_OK && o->json) print_json(&streams->result, o, &l, &r);
    if (l.out) output_flush(l.out);
    if (result == STATUS_OK) print_end(&streams->people, &r);
    text_close(&l.text);
    return result;
}
