/* snug generate: texts go to stdout as they come, everything else to stderr. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/units.h"
#include "cli/cli.h"
#include "cli/conversation.h"
#include "cli/language.h"
#include "cli/shown.h"
#include "infer/generate.h"
#include "io/file.h"
#include "io/json.h"
#include "io/model_config.h"
#include "run/unconfirmed.h"

/* ---- prompts ---- */

/* Those of --prompt, then the lines of --prompt-file; as chats the texts that these become. */
typedef struct {
    const char **texts, **asked; /* asked: NULL where that is the same */
    uint32_t count;
    char *file; /* its lines, each ended by a zero */
} prompts;

static bool is_chat(const options *o) { return o->chat || o->chat_file; }
/* Nothing is asked yet: users say it as they go. */
static bool is_conversation(const options *o) {
    return o->chat && !o->chat_file && !o->prompts.count && !o->prompt_file;
}

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
    if (p->count || is_conversation(o)) return STATUS_OK;
    if (o->prompt_file) return status_set(STATUS_INVALID, "%s has no line with a prompt", o->prompt_file);
    if (o->chat_file) p->texts[p->count++] = NULL; /* it alone */
    if (p->count) return STATUS_OK;
    return status_set(STATUS_INVALID, "generate wants --prompt TEXT, the beginning of the text");
}

/* What is asked becomes the text that a model is to go on with. */
static status write_chats(prompts *p, conversation *c) {
    p->asked = p->texts;
    p->texts = memory_new(p->count, sizeof *p->texts);
    if (!p->texts) return status_set(STATUS_FAILED, "no memory for the prompts");
    for (uint32_t i = 0; i < p->count; i++) {
        char *written;
        status result = conversation_once(c, p->asked[i], &written);
        if (result != STATUS_OK && p->count > 1) return status_prefix(result, "prompt %u", i + 1);
        TRY(result);
        p->texts[i] = written;
    }
    return STATUS_OK;
}

static void close_prompts(prompts *p) {
    for (uint32_t i = 0; p->asked && p->texts && i < p->count; i++) memory_free((char *)p->texts[i]);
    memory_free(p->texts);
    memory_free(p->asked);
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
    conversation *talk; /* that users lead; NULL: there are prompts */
    output *people;
    /* What a user says, of at most `most` bytes and an end; what the model does, of which one byte more is
     * kept: so long a turn is refused when the conversation goes on. */
    char *line, *answer;
    size_t most, answer_bytes;
    bool answered; /* the model's turn was before */
    bool answers;  /* what it says is no continuation of a prompt, also where there is no chat */
    generate_end end;
} listener;

static void show_prompt(listener *l, const char *prompt) {
    if (l->out->colour) output_add(l->out, "\033[1m");
    shown_add(&l->shown, prompt, strlen(prompt));
    shown_end(&l->shown);
    if (l->out->colour) output_add(l->out, "\033[0m");
}

/* A prompt comes with the first of its text, so that a refusal says its sentence alone. An answer is no
 * continuation: its question is shown only where there are several. */
static void begin(listener *l) {
    if (l->begun) return;
    const prompts *p = l->prompts;
    bool chat = l->talk || p->asked || l->answers, several = p->count > 1;
    if (several) output_add(l->out, "%s== %u of %u ==\n", l->current ? "\n" : "", l->current + 1, p->count);
    if (!chat) show_prompt(l, p->texts[l->current]);
    if (chat && several) show_prompt(l, p->asked ? p->asked[l->current] : p->texts[l->current]);
    if (chat && several) output_add(l->out, "\n");
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

/* ---- a conversation ---- */

static void answered_with(void *context, uint32_t prompt, const char *bytes, size_t count) {
    listener *l = context;
    (void)prompt;
    show(l, bytes, count);
    for (size_t i = 0; i < count && l->answer_bytes <= l->most; i++) l->answer[l->answer_bytes++] = bytes[i];
}

static void answer_ended(void *context, uint32_t prompt, generate_end how) {
    listener *l = context;
    (void)prompt;
    show(l, "", 0);
    shown_end(&l->shown);
    output_add(l->out, "\n");
    output_flush(l->out);
    l->begun = false;
    l->answered = true, l->end = how;
}

/* The next line with something in it; `*any` false: there is none. */
static status read_line(listener *l, bool *any) {
    size_t n = 0;
    int c;
    if (l->out->terminal && isatty(STDIN_FILENO)) output_add(l->out, "> ");
    output_flush(l->out);
    while ((c = getc(stdin)) != EOF && (c != '\n' || !n)) {
        if (c == 0) return status_set(STATUS_INVALID, "a line of the conversation has a zero byte");
        if (c == '\n' || (c == '\r' && !n)) continue;
        if (n == l->most)
            return status_set(STATUS_INVALID, "a line of more than %zu bytes, for which memory is planned",
                              l->most);
        l->line[n++] = (char)c;
    }
    if (ferror(stdin)) return status_set(STATUS_INVALID, "standard input cannot be read");
    if (n && l->line[n - 1] == '\r') n--;
    l->line[n] = 0;
    *any = n > 0;
    if (!n && l->out->terminal) output_add(l->out, "\n"); /* behind Ctrl-D */
    return STATUS_OK;
}

static status take_turn(void *context, const char **prompt) {
    listener *l = context;
    bool any = false;
    *prompt = NULL;
    if (l->answered && l->end == GENERATE_CONTEXT) {
        output_add(l->people, "the conversation is as long as the model's context, and ends here\n");
        return STATUS_OK;
    }
    if (l->answered) TRY(conversation_answer(l->talk, l->answer, l->answer_bytes));
    l->answered = false, l->answer_bytes = 0;
    TRY(read_line(l, &any));
    return any ? conversation_say(l->talk, l->line, prompt) : STATUS_OK;
}

/* Tokens of some letters each fill the context; memory is planned for twice as much text as that takes. */
static status open_conversation(listener *l, const options *o, conversation *c) {
    enum { BYTES_OF_TOKEN = 8, LEAST = 64 << 10 };
    model_config config;
    TRY(model_config_read(o->subject, &config, NULL));
    uint64_t most = BYTES_OF_TOKEN * (uint64_t)families_context(&config);
    l->most = most > LEAST ? (size_t)most : LEAST;
    l->line = memory_new(2, l->most + 1);
    if (!l->line) return status_set(STATUS_FAILED, "no memory for a line of %zu bytes", l->most);
    l->answer = l->line + l->most + 1;
    conversation_bound(c, l->most);
    l->talk = c;
    return STATUS_OK;
}

static status open_listener(listener *l, const prompts *p, cli_streams *streams, bool json) {
    output *out = json ? NULL : &streams->result;
    *l = (listener){ .prompts = p, .out = out, .shown = { .out = out }, .people = &streams->people };
    l->gathered = memory_new(p->count + 1, sizeof *l->gathered);
    l->over = memory_new(p->count + 1, sizeof *l->over);
    return l->gathered && l->over ? STATUS_OK : status_set(STATUS_FAILED, "no memory for the texts");
}

static void close_listener(listener *l) {
    for (uint32_t i = 0; l->gathered && i < l->prompts->count; i++) text_close(&l->gathered[i]);
    memory_free(l->line);
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
    json_put_unsigned(&w, "language_bytes", r->language_bytes);
    json_end_object(&w);
    if (r->capability) unconfirmed_put(&w, r->unconfirmed);
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
    for (uint32_t i = 0; i < (l->talk ? 1 : l->prompts->count); i++) {
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
    char planned[UNITS_TEXT_BYTES], measured[UNITS_TEXT_BYTES], tokens[UNITS_TEXT_BYTES];
    char said[UNCONFIRMED_BYTES];
    uint32_t cut = 0;
    for (uint32_t i = 0; i < l->prompts->count; i++) cut += r->texts[i].end == GENERATE_CONTEXT;
    if (cut) output_add(out, "%u text%s as long as the model's context\n", cut, cut == 1 ? " is" : "s are");
    note_beyond(out, l, r);
    if (*unconfirmed_text(r->unconfirmed, r->capability, said)) output_add(out, "note: %s\n", said);
    if (r->at_once > 1) output_add(out, "%u texts at once, ", r->at_once);
    output_add(out, "%lld tokens, %.0f a second; memory %s, planned %s", (long long)r->new_tokens,
               rate(r->new_tokens, r->seconds_new), units_bytes_text(r->resident_peak_bytes, measured),
               units_bytes_text(r->planned_bytes, planned));
    bool much = r->language_bytes > 64 << 10; /* that of bytes is next to nothing */
    if (much) output_add(out, ", %s of it the tokenizer's", units_bytes_text(r->language_bytes, tokens));
    output_add(out, "\n");
    output_flush(out);
}

/* ---- the command ---- */

static status generate(const options *o, cli_streams *streams, listener *l, language *words, uint64_t held) {
    const prompts *p = l->prompts;
    uint64_t budget;
    TRY(setup_budget(&o->run, &budget));
    generate_options g = { .directory = o->subject,
                           .adapter = o->adapter,
                           .products = options_products(o),
                           .prompts = p->texts,
                           .prompt_count = p->count,
                           .next = l->talk ? take_turn : NULL,
                           .prompt_bytes = l->talk ? conversation_longest(l->talk) : 0,
                           .held_bytes = held,
                           .language = words,
                           .bytes = o->run.data_kind == DATA_KIND_BYTES,
                           .tokens = o->tokens,
                           .sample = { .temperature = o->temperature,
                                       .top_k = o->top_k,
                                       .top_p = o->top_p,
                                       .min_p = o->min_p,
                                       .repetition_penalty = o->repetition_penalty,
                                       .presence_penalty = o->presence_penalty,
                                       .frequency_penalty = o->frequency_penalty,
                                       .seed = (uint64_t)o->run.seed },
                           .stops = o->stops.items,
                           .stop_count = o->stops.count,
                           .device = o->run.device,
                           .threads = (int)o->run.threads,
                           .memory = budget,
                           .said = l->talk ? answered_with : said,
                           .ended = l->talk ? answer_ended : ended,
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

static status check_options(const options *o) {
    if (o->system && !is_chat(o)) return status_set(STATUS_INVALID, "--system begins a chat; say --chat too");
    if (is_conversation(o) && o->json)
        return status_set(STATUS_INVALID, "--json tells of prompts; a chat of lines has none, give --prompt");
    return STATUS_OK;
}

/* What is held of chats; a conversation is left open where it goes on. */
static status open_chat(const options *o, prompts *p, listener *l, conversation **c, uint64_t *held) {
    TRY(conversation_open(o, c));
    TRY(is_conversation(o) ? open_conversation(l, o, *c) : write_chats(p, *c));
    *held = conversation_bytes(*c) + (l->talk ? 2 * ((uint64_t)l->most + 1) : 0);
    if (l->talk) return STATUS_OK;
    conversation_close(*c);
    *c = NULL;
    return STATUS_OK;
}

status cli_generate(const options *o, cli_streams *streams) {
    prompts p = { 0 };
    listener l = { 0 };
    language words = { 0 };
    conversation *c = NULL;
    bool known = false;
    uint64_t held = 0;
    if (!o->quiet) streams->people = output_for_people(stderr);
    status result = check_options(o);
    if (result == STATUS_OK) result = read_prompts(o, &p);
    if (result == STATUS_OK) result = open_listener(&l, &p, streams, o->json);
    if (result == STATUS_OK) result = model_config_answers(o->subject, &l.answers);
    if (result == STATUS_OK && is_chat(o)) result = open_chat(o, &p, &l, &c, &held);
    if (result == STATUS_OK && o->run.data_kind != DATA_KIND_BYTES)
        result = cli_language_open(o->subject, &words, &known);
    if (result == STATUS_OK && known && is_chat(o)) cli_language_whole(&words);
    if (result == STATUS_OK) result = generate(o, streams, &l, known ? &words : NULL, held);
    cli_language_close(&words);
    close_listener(&l);
    conversation_close(c);
    close_prompts(&p);
    return result;
}
