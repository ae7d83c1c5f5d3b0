/* snug generate: texts go to stdout as they come, everything else to stderr. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/units.h"
#include "cli/cli.h"
#include "cli/language.h"
#include "cli/shown.h"
#include "infer/generate.h"
#include "io/file.h"
#include "io/json.h"

/* ---- prompts ---- */

/* Those of --prompt, then the lines of --prompt-file. */
typedef struct {
    const char **texts;
    uint32_t count;
    char *file; /* its lines, each ended by a zero */
} prompts;

static uint32_t lines_in(const char *data, uint64_t bytes) {
    uint32_t count = 1;
    for (uint64_t i = 0; i < bytes; i++) count += data[i] == '\n';
    return count;
}

/* Each line becomes a text; `end` is where a zero stands. */
static void add_lines(prompts *p, char *line, char *end) {
    while (line < end) {
        char *next = memchr(line, '\n', (size_t)(end - line));
        if (!next) next = end;
        *next = 0;
        if (next > line && next[-1] == '\r') next[-1] = 0;
        if (*line) p->texts[p->count++] = line;
        line = next + 1;
    }
}

static status read_prompts(const options *o, prompts *p) {
    enum { FILE_LIMIT = 4 << 20, MOST = 1 << 16 }; /* read before there is a plan, so the reserve has room */
    uint64_t bytes = 0;
    if (o->prompt_file) TRY(io_read_file(o->prompt_file, FILE_LIMIT, &p->file, &bytes));
    if (p->file && memchr(p->file, 0, (size_t)bytes))
        return status_set(STATUS_INVALID, "%s has a zero byte, and prompts are text", o->prompt_file);
    if (lines_in(p->file, bytes) > MOST)
        return status_set(STATUS_INVALID, "%s has more than %d lines; give them in several files",
                          o->prompt_file, MOST);
    p->texts = memory_new(o->prompts.count + (size_t)lines_in(p->file, bytes), sizeof *p->texts);
    if (!p->texts) return status_set(STATUS_FAILED, "no memory for the prompts");
    for (uint32_t i = 0; i < o->prompts.count; i++) p->texts[p->count++] = o->prompts.items[i];
    if (p->file) add_lines(p, p->file, p->file + bytes);
    if (p->count) return STATUS_OK;
    if (o->prompt_file) return status_set(STATUS_INVALID, "%s has no line with a prompt", o->prompt_file);
    return status_set(STATUS_INVALID, "generate wants --prompt TEXT, the beginning of the text");
}

static void close_prompts(prompts *p) {
    memory_free(p->texts);
    memory_free(p->file);
}

/* ---- listening ---- */

/* Texts are shown one after the other, in the order of the prompts: the first that is not over as it comes,
 * the others are gathered until it is their turn. For JSON all are gathered. */
typedef struct {
    const prompts *prompts;
    output *out; /* NULL: only gather */
    shown shown;
    uint32_t current; /* whose turn it is */
    bool begun;       /* its prompt was shown */
    text *gathered;   /* by prompt */
    bool *over;
} listener;

/* A prompt comes with the first of its text, so that a refusal says its sentence alone. */
static void begin(listener *l) {
    if (l->begun) return;
    const char *prompt = l->prompts->texts[l->current];
    if (l->prompts->count > 1)
        output_add(l->out, "%s== %u of %u ==\n", l->current ? "\n" : "", l->current + 1, l->prompts->count);
    if (l->out->colour) output_add(l->out, "\033[1m");
    shown_add(&l->shown, prompt, strlen(prompt));
    shown_end(&l->shown);
    if (l->out->colour) output_add(l->out, "\033[0m");
    l->begun = true;
}

static void show(listener *l, const char *bytes, size_t count) {
    begin(l);
    shown_add(&l->shown, bytes, count);
    output_flush(l->out);
    if (l->out->gone) exit(STATUS_OK); /* nobody reads, and nothing is to be saved */
}

static void said(void *context, uint32_t prompt, const char *bytes, size_t count) {
    listener *l = context;
    if (l->out && prompt == l->current) {
        show(l, bytes, count);
        return;
    }
    for (size_t i = 0; i < count; i++) /* JSON has no zero bytes */
        text_add(&l->gathered[prompt], l->out || bytes[i] ? "%c" : "\xef\xbf\xbd", bytes[i]);
}

static void ended(void *context, uint32_t prompt, generate_end how) {
    listener *l = context;
    (void)how;
    l->over[prompt] = true;
    while (l->out && l->current < l->prompts->count && l->over[l->current]) {
        show(l, "", 0);
        shown_end(&l->shown);
        output_add(l->out, "\n");
        l->begun = false;
        if (++l->current == l->prompts->count) break;
        text *waiting = &l->gathered[l->current];
        if (waiting->length) show(l, waiting->data, waiting->length);
        text_close(waiting);
    }
}

static status open_listener(listener *l, const prompts *p, output *out) {
    *l = (listener){ .prompts = p, .out = out, .shown = { .out = out } };
    l->gathered = memory_new(p->count, sizeof *l->gathered);
    l->over = memory_new(p->count, sizeof *l->over);
    return l->gathered && l->over ? STATUS_OK : status_set(STATUS_FAILED, "no memory for the texts");
}

static void close_listener(listener *l) {
    for (uint32_t i = 0; l->gathered && i < l->prompts->count; i++) text_close(&l->gathered[i]);
    memory_free(l->gathered);
    memory_free(l->over);
}

/* ---- the result ---- */

static double rate(int64_t tokens, double seconds) { return seconds > 0 ? (double)tokens / seconds : 0; }

static void put_text(json_writer *w, const listener *l, uint32_t i, const generate_text *t) {
    json_put_string(w, "prompt", l->prompts->texts[i]);
    json_put_string(w, "text", l->gathered[i].data ? l->gathered[i].data : "");
    json_put_integer(w, "prompt_tokens", t->prompt_tokens);
    json_put_integer(w, "new_tokens", t->new_tokens);
    json_put_string(w, "end", generate_end_name(t->end));
}

/* One text stands at the top, several in "texts". */
static void print_json(output *out, const listener *l, const generate_result *r) {
    text json = { 0 };
    json_writer w = { .out = &json, .lines = true };
    json_begin_object(&w, NULL);
    if (l->prompts->count == 1) {
        put_text(&w, l, 0, &r->texts[0]);
    } else {
        json_begin_array(&w, "texts");
        for (uint32_t i = 0; i < l->prompts->count; i++) {
            json_begin_object(&w, NULL);
            put_text(&w, l, i, &r->texts[i]);
            json_end_object(&w);
        }
        json_end_array(&w);
        json_put_integer(&w, "prompt_tokens", r->prompt_tokens);
        json_put_integer(&w, "new_tokens", r->new_tokens);
    }
    json_put_integer(&w, "at_once", r->at_once);
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

/* What was drawn behind the positions that training has reached is not the model's fault. */
static void note_beyond(output *out, const listener *l, const generate_result *r) {
    int64_t longest = 0;
    for (uint32_t i = 0; i < l->prompts->count; i++) {
        int64_t length = r->texts[i].prompt_tokens + r->texts[i].new_tokens;
        if (length > longest) longest = length;
    }
    if (!r->learned || longest <= r->learned) return;
    output_add(out,
               "note: the model was trained on texts of %lld tokens, and knows no order behind them; this "
               "goes to %lld\n",
               (long long)r->learned, (long long)longest);
}

static void print_end(output *out, const listener *l, const generate_result *r) {
    char planned[UNITS_TEXT_BYTES], measured[UNITS_TEXT_BYTES];
    uint32_t cut = 0;
    for (uint32_t i = 0; i < l->prompts->count; i++) cut += r->texts[i].end == GENERATE_CONTEXT;
    if (cut) output_add(out, "%u text%s as long as the model's context\n", cut, cut == 1 ? " is" : "s are");
    note_beyond(out, l, r);
    if (r->at_once > 1) output_add(out, "%u texts at once, ", r->at_once);
    output_add(out, "%lld tokens, %.0f a second; memory %s, planned %s\n", (long long)r->new_tokens,
               rate(r->new_tokens, r->seconds_new), units_bytes_text(r->resident_peak_bytes, measured),
               units_bytes_text(r->planned_bytes, planned));
    output_flush(out);
}

/* ---- the command ---- */

static status generate(const options *o, cli_streams *streams, const prompts *p, listener *l,
                       language *words) {
    uint64_t budget;
    TRY(setup_budget(&o->run, &budget));
    generate_options g = { .directory = o->subject,
                           .adapter = o->adapter,
                           .prompts = p->texts,
                           .prompt_count = p->count,
                           .language = words,
                           .bytes = o->run.data_kind == DATA_KIND_BYTES,
                           .tokens = o->tokens,
                           .sample = { .temperature = o->temperature,
                                       .top_k = o->top_k,
                                       .top_p = o->top_p,
                                       .repetition_penalty = o->repetition_penalty,
                                       .seed = (uint64_t)o->run.seed },
                           .stops = o->stops.items,
                           .stop_count = o->stops.count,
                           .device = o->run.device,
                           .threads = (int)o->run.threads,
                           .memory = budget,
                           .said = said,
                           .ended = ended,
                           .context = l };
    generate_result r;
    status result = generate_run(&g, &r);
    if (l->out && l->begun) output_add(l->out, "\n"); /* a text that failed on its way */
    if (l->out) output_flush(l->out);
    if (result == STATUS_OK && o->json) print_json(&streams->result, l, &r);
    if (result == STATUS_OK) print_end(&streams->people, l, &r);
    generate_result_close(&r);
    return result;
}

status cli_generate(const options *o, cli_streams *streams) {
    prompts p = { 0 };
    listener l = { 0 };
    language words = { 0 };
    bool known = false;
    if (!o->quiet) streams->people = output_for_people(stderr);
    status result = read_prompts(o, &p);
    if (result == STATUS_OK) result = open_listener(&l, &p, o->json ? NULL : &streams->result);
    if (result == STATUS_OK && o->run.data_kind != DATA_KIND_BYTES)
        result = cli_language_open(o->subject, &words, &known);
    if (result == STATUS_OK) result = generate(o, streams, &p, &l, known ? &words : NULL);
    cli_language_close(&words);
    close_listener(&l);
    close_prompts(&p);
    return result;
}
