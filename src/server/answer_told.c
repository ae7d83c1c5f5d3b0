/* What is told of tokens: the logarithms of their probabilities, in the forms of completions and of chats. */
#include <math.h>
#include <string.h>

#include "server/answer_internal.h"

enum {
    FRAME = 240,    /* around what is told of one token, */
    FRAME_TOP = 80, /* and around each of the likeliest */
    TOP = SAMPLE_LIKELIEST + 1
};

bool answer_holds(const job *j) { return j->embeds || j->compares || (!j->streams && j->logarithms); }

/* ---- how much it may be ---- */

/* A token as a string, and as a list of bytes. */
static uint64_t told_bytes(const language_piece *word) {
    uint64_t bytes = FRAME_TOP;
    for (size_t i = 0; i < word->count; i++) {
        unsigned char c = (unsigned char)word->bytes[i];
        bytes += 4u + (c < 0x20 || c == 0x7f || c == '"' || c == '\\' ? 6u : c < 0x80 ? 1u : 3u);
    }
    return bytes;
}

/* The longest ones, and one of them once more. */
status answer_told_most(const language *l, int64_t count, uint64_t *bytes, uint64_t *letters) {
    uint64_t longest[TOP] = { 0 };
    *letters = 0;
    for (int64_t id = 0; id < count; id++) {
        language_piece word;
        TRY(l->word(l->context, (int32_t)id, &word));
        uint64_t new = told_bytes(&word);
        *letters += word.count;
        for (int i = 0; i<TOP &&new> longest[TOP - 1]; i++) {
            uint64_t old = longest[i];
            if (new <= old) continue;
            longest[i] = new, new = old;
        }
    }
    *bytes = FRAME + longest[0];
    for (int i = 0; i < TOP; i++) *bytes += longest[i];
    return STATUS_OK;
}

/* ---- tokens ---- */

/* In quotes. */
static void add_token(text *line, const language_piece *word) {
    char room[STOP_BYTES + 1];
    text_add(line, "\"");
    for (size_t at = 0, n; at < word->count; at += n) { /* in parts that end with whole characters */
        n = word->count - at < STOP_BYTES ? word->count - at : STOP_BYTES;
        while (n > 1 && at + n < word->count && (word->bytes[at + n] & 0xc0) == 0x80) n--;
        memcpy(room, word->bytes + at, n);
        answer_escape(line, room, n);
    }
    text_add(line, "\"");
}

static int64_t characters(const language_piece *word) {
    int64_t n = 0;
    for (size_t i = 0; i < word->count; i++) n += (word->bytes[i] & 0xc0) != 0x80;
    return n;
}

static status word_of(const language *l, int32_t id, language_piece *word) {
    return l->word(l->context, id, word);
}

/* ---- the form of chats ---- */

static status add_entry(text *line, const language *l, const sample_likely *t) {
    language_piece word;
    TRY(word_of(l, t->id, &word));
    text_add(line, "{\"token\":");
    add_token(line, &word);
    text_add(line, ",\"logprob\":%.7g,\"bytes\":[", (double)t->logprob);
    for (size_t i = 0; i < word.count; i++)
        text_add(line, "%s%u", i ? "," : "", (unsigned)(unsigned char)word.bytes[i]);
    text_add(line, "]");
    return STATUS_OK;
}

static status add_chat(text *line, const language *l, const sample_drawn *d) {
    TRY(add_entry(line, l, &(sample_likely){ d->id, d->logprob }));
    text_add(line, ",\"top_logprobs\":[");
    for (int32_t i = 0; i < d->count; i++) {
        if (i) text_add(line, ",");
        TRY(add_entry(line, l, &d->likeliest[i]));
        text_add(line, "}");
    }
    text_add(line, "]}");
    return STATUS_OK;
}

/* ---- the form of completions ---- */

static status add_pair(text *line, const language *l, const sample_likely *t) {
    language_piece word;
    TRY(word_of(l, t->id, &word));
    add_token(line, &word);
    text_add(line, ":%.7g", (double)t->logprob);
    return STATUS_OK;
}

/* The likeliest, and the token itself where it is none of them. */
static status add_top(text *line, const language *l, const sample_drawn *d) {
    bool there = false;
    if (!d->count) {
        text_add(line, "null");
        return STATUS_OK;
    }
    text_add(line, "{");
    for (int32_t i = 0; i < d->count; i++) {
        if (i) text_add(line, ",");
        TRY(add_pair(line, l, &d->likeliest[i]));
        there = there || d->likeliest[i].id == d->id;
    }
    if (!there) text_add(line, ",");
    if (!there) TRY(add_pair(line, l, &(sample_likely){ d->id, d->logprob }));
    text_add(line, "}");
    return STATUS_OK;
}

/* NaN: it has none. */
static void add_logarithm(text *line, float x) {
    if (isnan(x))
        text_add(line, "null");
    else
        text_add(line, "%.7g", (double)x);
}

static status add_completion(text *line, job *j, const language *l, const sample_drawn *d) {
    language_piece word;
    TRY(word_of(l, d->id, &word));
    text_add(line, "{\"tokens\":[");
    add_token(line, &word);
    text_add(line, "],\"token_logprobs\":[");
    add_logarithm(line, d->logprob);
    text_add(line, "],\"text_offset\":[%lld],\"top_logprobs\":[", (long long)j->offset);
    j->offset += characters(&word);
    TRY(add_top(line, l, d));
    text_add(line, "]}");
    return STATUS_OK;
}

/* ---- as they come ---- */

static status tell_event(answer_writer *w, job *j, const language *l, const sample_drawn *d) {
    w->told.length = 0;
    if (!j->chat) return add_completion(&w->told, j, l, d);
    text_add(&w->told, "{\"content\":[");
    TRY(add_chat(&w->told, l, d));
    text_add(&w->told, "],\"refusal\":null}");
    return STATUS_OK;
}

static void begin_held(answer_writer *w, job *j) {
    answer_begin_choice(&w->line, j);
    text_add(&w->line, "\"logprobs\":{\"%s\":[", j->chat ? "content" : "top_logprobs");
}

/* The ids that are told: behind the prompt, or with it. */
static int32_t *told_ids(const job *j) { return j->ids + (j->echoes ? 0 : j->count); }

static void keep(job *j, const sample_drawn *d) {
    told_ids(j)[j->told] = d->id;
    j->logprobs[j->told++] = d->logprob;
}

static status tell_held(answer_writer *w, job *j, const language *l, const sample_drawn *d) {
    if (!j->begun)
        begin_held(w, j);
    else
        text_add(&w->line, ",");
    TRY(j->chat ? add_chat(&w->line, l, d) : add_top(&w->line, l, d));
    keep(j, d);
    answer_put(w, j);
    return STATUS_OK;
}

status answer_tell(answer_writer *w, job *j, const language *l, const sample_drawn *d) {
    if (j->compares) return keep(j, d), STATUS_OK;
    return answer_holds(j) ? tell_held(w, j, l, d) : tell_event(w, j, l, d);
}

/* ---- the rest of an answer that held its text ---- */

enum { CLOSES, LOGPROBS, TOKENS, OFFSETS, BEGINS, TEXT, LIKELIEST, PLAIN };

int answer_first_phase(const job *j) { return !j->compares ? CLOSES : j->logarithms ? LIKELIEST : PLAIN; }

/* In the language: its place's, or where it has none that of who reads beside texts. */
static uint32_t row_of(const job *j) { return j->place < 0 ? LANGUAGE_READS : (uint32_t)j->place; }

status answer_resume(const job *j, const language *l) {
    language_piece more;
    if (j->place >= 0 || j->phase != TEXT) return STATUS_OK;
    TRY(l->begin(l->context, row_of(j), j->ids, job_before(j)));
    for (int64_t i = 0; i < j->at; i++) TRY(l->add(l->context, row_of(j), told_ids(j)[i], &more));
    return STATUS_OK;
}

/* Of texts that were compared there are none. */
static status tell_likeliest(answer_writer *w, job *j) {
    if (!j->begun) begin_held(w, j);
    text_add(&w->line, j->at ? ",null" : "null");
    return STATUS_OK;
}

static status tell_number(answer_writer *w, job *j) {
    if (j->at) text_add(&w->line, ",");
    add_logarithm(&w->line, j->logprobs[j->at]);
    return STATUS_OK;
}

static status tell_token(answer_writer *w, job *j, const language *l) {
    language_piece word;
    TRY(word_of(l, told_ids(j)[j->at], &word));
    if (j->at) text_add(&w->line, ",");
    add_token(&w->line, &word);
    return STATUS_OK;
}

static status tell_offset(answer_writer *w, job *j, const language *l) {
    language_piece word;
    TRY(word_of(l, told_ids(j)[j->at], &word));
    text_add(&w->line, "%s%lld", j->at ? "," : "", (long long)j->offset);
    j->offset += characters(&word);
    return STATUS_OK;
}

/* What the token at j->at adds, or what waits behind the last, as far as it goes out. */
static status tell_text(answer_writer *w, job *j, const language *l, bool *done) {
    language_piece more = { 0 };
    if (j->at < j->told)
        TRY(l->add(l->context, row_of(j), told_ids(j)[j->at], &more));
    else
        TRY(l->end(l->context, row_of(j), &more));
    size_t count = more.count < j->text_bytes ? more.count : j->text_bytes;
    j->text_bytes -= count;
    answer_add_text(&w->line, j, more.bytes ? more.bytes : "", count, false);
    *done = j->at == j->told;
    return STATUS_OK;
}

static void begin_phase(answer_writer *w, job *j) {
    static const char *const between[] = { [LOGPROBS] = "],\"token_logprobs\":[",
                                           [TOKENS] = "],\"tokens\":[",
                                           [OFFSETS] = "],\"text_offset\":[",
                                           [BEGINS] = "]},\"text\":\"" };
    if (!j->begun) begin_held(w, j); /* no token came */
    j->phase++, j->at = 0;
    if (j->chat) j->phase = BEGINS;
    text_add(&w->line, "%s",
             j->chat ? "],\"refusal\":null},\"message\":{\"role\":\"assistant\",\"content\":\""
                     : between[j->phase]);
}

/* The phase ends where all tokens had their turn. */
static status tell_some(answer_writer *w, job *j, const language *l, bool *done) {
    if (j->phase == PLAIN) {
        answer_begin_choice(&w->line, j);
        text_add(&w->line, "\"text\":\"");
        j->phase = BEGINS;
        return STATUS_OK;
    }
    if (j->phase == LIKELIEST && j->at == j->told) {
        if (!j->begun) begin_held(w, j);
        j->phase = CLOSES;
        return STATUS_OK;
    }
    if (j->phase == BEGINS) {
        j->phase = TEXT, j->at = 0;
        return l->begin(l->context, row_of(j), j->ids, job_before(j));
    }
    if (j->phase == CLOSES || (j->phase != TEXT && j->at == j->told)) {
        begin_phase(w, j);
        return STATUS_OK;
    }
    status result = j->phase == LOGPROBS    ? tell_number(w, j)
                    : j->phase == LIKELIEST ? tell_likeliest(w, j)
                    : j->phase == TOKENS    ? tell_token(w, j, l)
                    : j->phase == OFFSETS   ? tell_offset(w, j, l)
                                            : tell_text(w, j, l, done);
    j->at++;
    return result;
}

status answer_more(answer_writer *w, job *j, const language *l, bool *done) {
    *done = false;
    if (j->embeds) return answer_vector(w, j, done), STATUS_OK;
    TRY(tell_some(w, j, l, done));
    if (*done)
        answer_end_text(w, j);
    else
        answer_put(w, j);
    return STATUS_OK;
}
