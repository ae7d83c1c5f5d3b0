#include "server/request.h"

#include <stdio.h>
#include <string.h>

#include "server/drawing.h"
#include "server/field.h"
#include "text/template/template_json.h"

/* ---- one field ---- */

typedef struct {
    const request_reader *reader;
    job *job;
    const template_value *prompt, *messages, *tools;
    int64_t tokens, best; /* 0: not said */
    bool no_tokens;       /* 0 was said */
    request_kind kind;
    bool other_model;
    bool plain; /* no special tokens are put around the text */
} asked;

typedef status take_field(asked *a, const template_value *v);

static status number_of(const template_value *v, double low, double high, double *out) {
    return field_number(v, low, high, out);
}
static status whole_of(const template_value *v, int64_t low, int64_t high, int64_t *out) {
    return field_whole(v, low, high, out);
}
static status bool_of(const template_value *v, bool *out) { return field_bool(v, out); }

static status take_model(asked *a, const template_value *v) {
    if (v->kind != TEMPLATE_TEXT) return status_set(STATUS_INVALID, "it must be a name");
    a->other_model = !template_value_says(v, a->reader->model);
    if (!a->other_model) return STATUS_OK;
    for (uint32_t i = 0; i < a->reader->adapter_count; i++) {
        if (!template_value_says(v, a->reader->adapters[i].name)) continue;
        a->job->adapter = (int32_t)i + 1, a->job->model = a->reader->adapters[i].name;
        a->other_model = false;
        return STATUS_OK;
    }
    return status_set(STATUS_INVALID, "the model that is served here is '%s'", a->reader->model);
}

static status take_prompt(asked *a, const template_value *v) { return a->prompt = v, STATUS_OK; }
static status take_messages(asked *a, const template_value *v) { return a->messages = v, STATUS_OK; }

static status take_tools(asked *a, const template_value *v) {
    if (v->kind != TEMPLATE_LIST) return status_set(STATUS_INVALID, "it must be a list of tools");
    a->tools = v->list.count ? v : NULL;
    return STATUS_OK;
}

static status take_tokens(asked *a, const template_value *v) {
    TRY(whole_of(v, 0, a->reader->text_length, &a->tokens));
    a->no_tokens = !a->tokens;
    return STATUS_OK;
}
static status take_temperature(asked *a, const template_value *v) {
    return number_of(v, 0, 1000, &a->job->sample.temperature);
}
static status take_top_p(asked *a, const template_value *v) {
    TRY(number_of(v, 0, 1, &a->job->sample.top_p));
    return a->job->sample.top_p > 0 ? STATUS_OK : status_set(STATUS_INVALID, "it must be above 0");
}
static status take_top_k(asked *a, const template_value *v) {
    if (v->kind == TEMPLATE_INTEGER && v->integer == -1) return STATUS_OK; /* vLLM's word for all */
    return whole_of(v, 0, INT32_MAX, &a->job->sample.top_k);
}
static status take_penalty(asked *a, const template_value *v) {
    return number_of(v, 0.01, 100, &a->job->sample.repetition_penalty);
}
static status take_seed(asked *a, const template_value *v) {
    int64_t seed = 0;
    TRY(whole_of(v, INT64_MIN, INT64_MAX, &seed));
    a->job->sample.seed = (uint64_t)seed;
    return STATUS_OK;
}
static status take_stream(asked *a, const template_value *v) { return bool_of(v, &a->job->streams); }

static status take_stream_options(asked *a, const template_value *v) {
    if (v->kind != TEMPLATE_OBJECT) return status_set(STATUS_INVALID, "it must be an object");
    for (size_t i = 0; i < v->list.count; i++) {
        const template_value *member = &v->list.items[i];
        if (member->key_length != strlen("include_usage") ||
            memcmp(member->key, "include_usage", member->key_length) != 0)
            return status_set(STATUS_INVALID, "of its members include_usage alone is known");
        TRY(bool_of(member, &a->job->tells_usage));
    }
    return STATUS_OK;
}

static status add_stop(job *j, const template_value *v) {
    if (v->kind != TEMPLATE_TEXT || !v->text.length || v->text.length >= STOP_BYTES ||
        memchr(v->text.bytes, 0, v->text.length))
        return status_set(STATUS_INVALID, "a stop string has 1 to %d bytes, none of them zero",
                          STOP_BYTES - 1);
    if (j->stops.count == JOB_STOPS)
        return status_set(STATUS_INVALID, "there are at most %d stop strings", JOB_STOPS);
    memcpy(j->stop_bytes[j->stops.count], v->text.bytes, v->text.length);
    j->stop_bytes[j->stops.count++][v->text.length] = 0;
    return STATUS_OK;
}

static status take_stop(asked *a, const template_value *v) {
    if (v->kind != TEMPLATE_LIST) return add_stop(a->job, v);
    for (size_t i = 0; i < v->list.count; i++) TRY(add_stop(a->job, &v->list.items[i]));
    return STATUS_OK;
}

static status take_no(asked *a, const template_value *v) {
    bool yes = false;
    (void)a;
    TRY(bool_of(v, &yes));
    return yes ? status_set(STATUS_INVALID, "only false is known here") : STATUS_OK;
}
static status take_echo(asked *a, const template_value *v) {
    TRY(bool_of(v, &a->job->echoes));
    if (!a->job->echoes || !a->reader->answers) return STATUS_OK;
    return status_set(STATUS_INVALID,
                      "the model answers a prompt in a text of its own; only false is known here");
}
static status take_choices(asked *a, const template_value *v) {
    return whole_of(v, 1, REQUEST_CHOICES, &a->job->choices);
}
static status take_best(asked *a, const template_value *v) {
    return whole_of(v, 1, REQUEST_CHOICES, &a->best);
}
static status take_min_p(asked *a, const template_value *v) { return drawing_min_p(a->job, v); }
static status take_presence(asked *a, const template_value *v) { return drawing_presence_penalty(a->job, v); }
static status take_frequency(asked *a, const template_value *v) {
    return drawing_frequency_penalty(a->job, v);
}
static status take_yes(asked *a, const template_value *v) {
    bool yes = false;
    (void)a;
    TRY(bool_of(v, &yes));
    return yes ? STATUS_OK : status_set(STATUS_INVALID, "only true is known here");
}
static status take_special(asked *a, const template_value *v) {
    bool yes = true;
    TRY(bool_of(v, &yes));
    a->plain = !yes;
    return STATUS_OK;
}
static status take_bias(asked *a, const template_value *v) {
    return drawing_bias(a->job, v, a->reader->vocabulary);
}
static status take_logprobs(asked *a, const template_value *v) { return drawing_logprobs(a->job, v); }
static status take_top_logprobs(asked *a, const template_value *v) { return drawing_top_logprobs(a->job, v); }
static status take_format(asked *a, const template_value *v) { return drawing_format(a->job, v); }
static status take_any(asked *a, const template_value *v) { return (void)a, (void)v, STATUS_OK; }

/* ---- of embeddings ---- */

static status take_encoding(asked *a, const template_value *v) {
    a->job->base64 = template_value_says(v, "base64");
    if (a->job->base64 || template_value_says(v, "float")) return STATUS_OK;
    return status_set(STATUS_INVALID, "it must be \"float\" or \"base64\"");
}

static status take_dimensions(asked *a, const template_value *v) {
    int64_t width = a->reader->pooling->width;
    return whole_of(v, 1, width ? width : INT32_MAX, &a->job->dimensions);
}

/* ---- all fields ---- */

enum {
    COMPLETION = REQUEST_COMPLETION,
    CHAT = REQUEST_CHAT,
    BOTH = REQUEST_COMPLETION | REQUEST_CHAT,
    TOKENS = REQUEST_TOKENS,
    EMBEDS = REQUEST_EMBEDDINGS,
    ASKS = BOTH | EMBEDS,
    ALL = ASKS | REQUEST_TOKENS | REQUEST_TEXT
};
static const struct {
    const char *name;
    int where;
    take_field *take;
} fields[] = { { "model", ALL, take_model },
               { "prompt", COMPLETION | TOKENS, take_prompt },
               { "messages", CHAT | TOKENS, take_messages },
               { "tools", CHAT | TOKENS, take_tools },
               { "tokens", REQUEST_TEXT, take_prompt },
               { "add_special_tokens", TOKENS, take_special },
               { "add_generation_prompt", TOKENS, take_yes },
               { "max_tokens", BOTH, take_tokens },
               { "max_completion_tokens", CHAT, take_tokens },
               { "temperature", BOTH, take_temperature },
               { "top_p", BOTH, take_top_p },
               { "top_k", BOTH, take_top_k },
               { "repetition_penalty", BOTH, take_penalty },
               { "seed", BOTH, take_seed },
               { "stop", BOTH, take_stop },
               { "stream", BOTH, take_stream },
               { "stream_options", BOTH, take_stream_options },
               { "n", BOTH, take_choices },
               { "best_of", COMPLETION, take_best },
               { "min_p", BOTH, take_min_p },
               { "presence_penalty", BOTH, take_presence },
               { "frequency_penalty", BOTH, take_frequency },
               { "logit_bias", BOTH, take_bias },
               { "logprobs", BOTH, take_logprobs },
               { "top_logprobs", CHAT, take_top_logprobs },
               { "response_format", BOTH, take_format },
               { "echo", COMPLETION, take_echo },
               { "input", EMBEDS, take_prompt },
               { "encoding_format", EMBEDS, take_encoding },
               { "dimensions", EMBEDS, take_dimensions },
               { "user", ASKS, take_any },
               { "metadata", BOTH, take_any },
               { "store", CHAT, take_no } };

static status take_member(asked *a, const template_value *member, char field[REQUEST_FIELD_BYTES]) {
    snprintf(field, REQUEST_FIELD_BYTES, "%.*s", (int)(member->key_length < 60 ? member->key_length : 60),
             member->key);
    if (member->kind == TEMPLATE_NONE) return STATUS_OK; /* null: as if it were not there */
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (fields[i].where & (int)a->kind && strlen(fields[i].name) == member->key_length &&
            memcmp(fields[i].name, member->key, member->key_length) == 0)
            return fields[i].take(a, member);
    return status_set(STATUS_INVALID, "this server does not know it, and it may change the answer");
}

/* ---- the prompt ---- */

static status put_ids(const asked *a, const int32_t *ids, int64_t count) {
    int64_t most = a->reader->text_length;
    if (!count) return status_set(STATUS_INVALID, "it is empty");
    if (count > most)
        return status_set(STATUS_INVALID, "it has %lld tokens, and a text here has %lld at most",
                          (long long)count, (long long)most);
    memcpy(a->job->ids, ids, (size_t)count * sizeof *ids);
    a->job->count = count;
    return STATUS_OK;
}

/* A text without zero bytes, which has one behind it. `whole`: it has its special tokens. */
static status encode(const asked *a, const char *words, bool whole) {
    language *l = a->reader->language;
    const int32_t *ids;
    int64_t count;
    status result = (whole && l->encode_whole ? l->encode_whole : l->encode)(l->context, words, &ids, &count);
    if (result == STATUS_OK) result = put_ids(a, ids, count);
    l->forget(l->context);
    return result;
}

static status take_ids(const asked *a) {
    const template_value *v = a->prompt;
    if (v->list.count > (size_t)a->reader->text_length)
        return status_set(STATUS_INVALID, "it has %zu tokens, and a text here has %lld at most",
                          v->list.count, (long long)a->reader->text_length);
    for (size_t i = 0; i < v->list.count; i++) {
        int64_t id = 0;
        TRY(whole_of(&v->list.items[i], 0, a->reader->vocabulary - 1, &id));
        a->job->ids[i] = (int32_t)id;
    }
    a->job->count = (int64_t)v->list.count;
    return v->list.count ? STATUS_OK : status_set(STATUS_INVALID, "it is empty");
}

static status encode_prompt(const asked *a) {
    const template_value *v = a->prompt;
    if (!v) return status_set(STATUS_INVALID, "it is missing");
    if (v->kind == TEMPLATE_LIST) return take_ids(a);
    if (v->kind != TEMPLATE_TEXT || memchr(v->text.bytes, 0, v->text.length))
        return status_set(STATUS_INVALID, "it must be one text without zero bytes, or a list of ids");
    if (v->text.length >= a->reader->words_bytes)
        return status_set(STATUS_INVALID, "it has %zu bytes, and a prompt here %llu at most", v->text.length,
                          (unsigned long long)a->reader->words_bytes - 1);
    memcpy(a->reader->words, v->text.bytes, v->text.length);
    a->reader->words[v->text.length] = 0;
    return encode(a, a->reader->words, a->plain);
}

/* Text `i` of a list of such, or the only one. */
static const template_value *input_at(const template_value *v, int64_t i) {
    bool several = v->kind == TEMPLATE_LIST && v->list.count && v->list.items->kind != TEMPLATE_INTEGER;
    return several ? &v->list.items[i] : v;
}

static status encode_input(const asked *a) {
    if (a->prompt && a->prompt->kind == TEMPLATE_TEXT && !a->prompt->text.length)
        return status_set(STATUS_INVALID, "it is an empty text");
    return encode_prompt(a);
}

/* How many texts there are; the first one becomes the job's. */
static status take_inputs(asked *a) {
    const template_value *v = a->prompt;
    const request_reader *r = a->reader;
    if (r->pooling->refused[0]) return status_set(STATUS_INVALID, "%s", r->pooling->refused);
    if (!v) return status_set(STATUS_INVALID, "it is missing");
    a->job->embeds = true, a->job->tokens = 1;
    a->job->inputs = v, a->prompt = input_at(v, 0);
    a->job->choices = a->prompt == v ? 1 : (int64_t)v->list.count;
    if (a->job->choices > 1 && a->job->choices > r->jobs)
        return status_set(STATUS_INVALID,
                          "it has %lld texts, and %lld are written or wait here at most (--max-num-seqs and "
                          "--max-queue); ask in parts",
                          (long long)a->job->choices, (long long)r->jobs);
    return encode_input(a);
}

status request_text(const request_reader *r, const job *first, int64_t i, job *j, request_refusal *why) {
    asked a = { .reader = r, .job = j, .prompt = input_at(first->inputs, i) };
    status result = encode_input(&a);
    snprintf(why->field, sizeof why->field, "%s", result == STATUS_OK ? "" : "input");
    return result;
}

static status encode_chat(const asked *a) {
    template_output out = { 0 };
    const template_value *m = a->messages;
    if (!a->reader->chat)
        return status_set(STATUS_INVALID, "the model has no chat template; ask /v1/completions");
    if (!m || m->kind != TEMPLATE_LIST || !m->list.count)
        return status_set(STATUS_INVALID, "it must be a list of at least one message");
    status result = chat_render(a->reader->chat, m, a->tools, true, &out);
    if (result == STATUS_OK && strlen(out.text) != out.length)
        result = status_set(STATUS_INVALID, "the messages have a zero byte");
    if (result == STATUS_OK) result = encode(a, out.text, true);
    template_output_close(&out);
    return result;
}

/* ---- the whole ---- */

/* The field that the prompt stands in. */
static const char *prompt_field(const asked *a) {
    if (a->kind == REQUEST_TEXT) return "tokens";
    if (a->kind == REQUEST_EMBEDDINGS) return "input";
    return a->kind == REQUEST_CHAT || a->messages ? "messages" : "prompt";
}

static status encode_either(asked *a) {
    if (a->kind == REQUEST_EMBEDDINGS) return take_inputs(a);
    if (a->messages && a->prompt)
        return status_set(STATUS_INVALID, "a prompt and messages are both given; say one of them");
    if (a->kind == REQUEST_CHAT || a->messages) return encode_chat(a);
    if (a->kind == REQUEST_TEXT && a->prompt && a->prompt->kind != TEMPLATE_LIST)
        return status_set(STATUS_INVALID, "it must be a list of ids");
    return encode_prompt(a);
}

static void begin(job *j, const request_reader *r, bool is_chat) {
    uint64_t seed = r->seed;
    j->answers = r->answers;
    j->first = j, j->next = j->reads = NULL, j->index = 0, j->choices = 1, j->closed = false;
    j->chat = is_chat, j->streams = j->tells_usage = j->constrained = j->embeds = j->base64 = false;
    j->dimensions = 0, j->echoes = j->scores = j->compares = j->logarithms = false;
    j->inputs = NULL, j->kept = 1, j->echoed = 0, j->likely = 0;
    j->sample = (sample_options){ .temperature = 1, .top_p = 1, .repetition_penalty = 1, .seed = seed };
    j->stops = (stop_watch){ 0 };
    j->count = j->tokens = j->drawn = j->told = j->offset = 0, j->tail_count = j->text_bytes = 0;
    j->end = JOB_GOES_ON, j->begun = j->left = false, j->connection = NULL;
}

/* As many as are asked for; where nothing is said, the server's default or what there is room for. */
static status choose_tokens(const asked *a, char field[REQUEST_FIELD_BYTES]) {
    int64_t before = a->reader->answers ? 1 : a->job->count;
    int64_t room = a->reader->text_length + 1 - before, wanted = a->tokens;
    if (!wanted && !a->no_tokens)
        wanted =
            a->reader->default_tokens && a->reader->default_tokens < room ? a->reader->default_tokens : room;
    snprintf(field, REQUEST_FIELD_BYTES, "max_tokens");
    if (a->no_tokens && !a->job->echoes)
        return status_set(STATUS_INVALID, "0 is only for an echo of the prompt (\"echo\": true)");
    if (wanted > room && a->reader->answers)
        return status_set(STATUS_INVALID, "%lld tokens are more than the %lld that an answer has here",
                          (long long)wanted, (long long)room);
    if (wanted > room)
        return status_set(STATUS_INVALID,
                          "%lld tokens behind %lld of the prompt are more than the %lld that a text has here",
                          (long long)wanted, (long long)a->job->count, (long long)a->reader->text_length + 1);
    a->job->tokens = wanted;
    return STATUS_OK;
}

/* Texts that are compared are held until all have ended: as ids, with one number for each. */
static status check_compared(const asked *a) {
    const job *j = a->job;
    if (a->best < j->kept)
        return status_set(STATUS_INVALID, "it must be at least n, which is %lld", (long long)j->kept);
    if (j->streams)
        return status_set(STATUS_INVALID,
                          "answers that are compared can't come as events; say \"stream\": false");
    if (j->sample.likeliest)
        return status_set(STATUS_INVALID, "there is no memory for the likeliest tokens of answers that are "
                                          "compared; say \"logprobs\": 0");
    return STATUS_OK;
}

/* All answers to a request have room in the cache and among the jobs, though not at once. */
static status check_choices(const asked *a, char field[REQUEST_FIELD_BYTES]) {
    job *j = a->job;
    const request_reader *r = a->reader;
    snprintf(field, REQUEST_FIELD_BYTES, a->best ? "best_of" : "n");
    j->kept = j->choices;
    if (a->best && a->best != j->kept) TRY(check_compared(a));
    if (a->best > j->kept) j->choices = a->best, j->compares = j->sample.logprobs = true;
    int64_t each = engine_sizes_blocks(r->engine, j->count, j->count + j->tokens), n = j->choices;
    if (j->answers) each = engine_blocks(j->count) + engine_sizes_blocks(r->engine, 1, 1 + j->tokens);
    if (n > 1 && n > r->jobs)
        return status_set(STATUS_INVALID,
                          "%lld answers at once are more than the %lld that are written or wait here",
                          (long long)n, (long long)r->jobs);
    if (n > 1 && !j->compares && n * each > r->engine->blocks)
        return status_set(
            STATUS_INVALID,
            "%lld answers of %lld tokens behind %lld of the prompt take %lld blocks, and the cache has %lld",
            (long long)n, (long long)j->tokens, (long long)j->count, (long long)(n * each),
            (long long)r->engine->blocks);
    return STATUS_OK;
}

static status check_drawing(job *j, char field[REQUEST_FIELD_BYTES]) {
    const char *name;
    status result = drawing_check(j, &name);
    if (result != STATUS_OK) snprintf(field, REQUEST_FIELD_BYTES, "%s", name);
    return result;
}

status request_read(const request_reader *r, const request_body *body, job *j, request_refusal *why) {
    asked a = { .reader = r, .job = j, .kind = body->kind };
    template_json *json;
    *why = (request_refusal){ 0 };
    begin(j, r, body->kind == REQUEST_CHAT);
    j->model = r->model, j->adapter = 0;
    if (r->engine->whole && body->kind & (REQUEST_COMPLETION | REQUEST_CHAT))
        return status_set(STATUS_INVALID, "the model is an encoder, and writes no text; ask /v1/embeddings");
    TRY(template_json_place(&body->source, r->room, r->room_bytes, &json));
    const template_value *v = template_json_value(json);
    if (v->kind != TEMPLATE_OBJECT) return status_set(STATUS_INVALID, "the body must be a JSON object");
    for (size_t i = 0; i < v->list.count; i++) {
        status result = take_member(&a, &v->list.items[i], why->field);
        why->other_model = a.other_model;
        TRY(result);
    }
    TRY(check_drawing(j, why->field));
    for (uint32_t i = 0; i < j->stops.count; i++) j->stop_strings[i] = j->stop_bytes[i];
    j->stops.strings = j->stop_strings;
    snprintf(why->field, sizeof why->field, "%s", prompt_field(&a));
    TRY(encode_either(&a));
    if (body->kind & (REQUEST_COMPLETION | REQUEST_CHAT)) {
        TRY(choose_tokens(&a, why->field));
        j->logarithms = j->sample.logprobs;
        TRY(check_choices(&a, why->field));
        j->scores = j->echoes && j->logarithms && j->count > 1;
    }
    why->field[0] = 0;
    return STATUS_OK;
}
