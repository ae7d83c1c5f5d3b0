#include "server/answer.h"

#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "io/json.h"

enum {
    FRAME = 640 /* around the text of a piece, the model's name aside */,
    ESCAPED = 6 /* bytes for one */,
    EVENTS = 6
};

static uint64_t line_bytes(const char *name, uint32_t piece_bytes) {
    uint64_t each = (uint64_t)piece_bytes + STOP_BYTES + JOB_TAIL;
    /* A token and the end: what it adds, in parts where that is long, what was held back, the frame of the
     * end. */
    return (EVENTS + piece_bytes / 1024) * (FRAME + ESCAPED * strlen(name)) + 2 * ESCAPED * each;
}

uint64_t answer_bytes(const char *name, uint32_t piece_bytes) { return line_bytes(name, piece_bytes) + 4096; }
size_t answer_room(const answer_writer *w) { return (size_t)line_bytes(w->model, w->piece_bytes); }

status answer_open(answer_writer *w, const char *name, uint32_t piece_bytes) {
    *w = (answer_writer){ .model = name, .piece_bytes = piece_bytes };
    if (text_reserve(&w->line, (size_t)answer_bytes(name, piece_bytes) - 1)) return STATUS_OK;
    return status_set(STATUS_FAILED, "no memory for answers");
}

void answer_close(answer_writer *w) { text_close(&w->line); }

/* ---- pieces of text ---- */

/* How many of these bytes end with a whole character; what stands behind may go on. */
static size_t whole_characters(const char *bytes, size_t count) {
    for (size_t back = 1; back <= 3 && back <= count; back++) {
        unsigned char c = (unsigned char)bytes[count - back];
        if ((c & 0xc0) == 0x80) continue; /* amidst one */
        size_t length = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;
        return length > back ? count - back : count;
    }
    return count;
}

/* The quoted string without its quotes. Bytes that are no text become U+FFFD. */
static void add_escaped(text *line, char *bytes, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!bytes[i]) bytes[i] = '\xff';
    bytes[count] = 0;
    size_t before = line->length;
    json_add_quoted(line, bytes);
    memmove(line->data + before, line->data + before + 1, line->length - before - 2);
    line->length -= 2;
    line->data[line->length] = 0;
}

/* What was held back and these, up to the last whole character; the rest is held back. */
static void add_text(text *line, job *j, const char *bytes, size_t count, bool all) {
    enum { SOME = 1024 };
    char room[JOB_TAIL + SOME + 1];
    do {
        size_t take = count < SOME ? count : SOME, held = j->tail_count;
        memcpy(room, j->tail, held);
        memcpy(room + held, bytes, take);
        bytes += take, count -= take;
        size_t whole = all && !count ? held + take : whole_characters(room, held + take);
        j->tail_count = held + take - whole;
        memcpy(j->tail, room + whole, j->tail_count);
        if (whole) add_escaped(line, room, whole);
    } while (count);
}

/* ---- frames ---- */

static void begin_object(const answer_writer *w, text *line, const job *j, const char *kind) {
    text_add(line, "{\"id\":\"%s-%llu\",\"object\":\"%s\",\"created\":%lld,\"model\":",
             j->chat ? "chatcmpl" : "cmpl", (unsigned long long)j->number, kind, (long long)j->created);
    json_add_quoted(line, w->model);
    text_add(line, ",\"choices\":[");
}

static void add_usage(text *line, const job *j) {
    text_add(line,
             "\"usage\":{\"prompt_tokens\":%lld,\"completion_tokens\":%lld,\"total_tokens\":%lld,"
             "\"prompt_tokens_details\":{\"cached_tokens\":%lld}}",
             (long long)j->count, (long long)j->drawn, (long long)(j->count + j->drawn),
             (long long)j->cached);
}

static const char *reason(const job *j) {
    return j->end == JOB_STOP ? "\"stop\"" : j->end == JOB_LENGTH ? "\"length\"" : "null";
}

static void put(answer_writer *w, job *j) {
    ring_write(&j->out, w->line.data, w->line.length);
    w->line.length = 0;
    j->begun = true;
}

/* ---- events ---- */

static void begin_event(const answer_writer *w, text *line, const job *j) {
    text_add(line, "data: ");
    begin_object(w, line, j, j->chat ? "chat.completion.chunk" : "text_completion");
    if (j->chat)
        text_add(line, "{\"index\":0,\"delta\":{%s\"content\":\"", j->begun ? "" : "\"role\":\"assistant\",");
    else
        text_add(line, "{\"index\":0,\"text\":\"");
}

static void end_event(text *line, const job *j) {
    text_add(line, j->chat ? "\"},\"finish_reason\":%s}]" : "\",\"logprobs\":null,\"finish_reason\":%s}]",
             reason(j));
    text_add(line, j->tells_usage ? ",\"usage\":null}\n\n" : "}\n\n");
}

static void add_event(answer_writer *w, job *j, const char *bytes, size_t count, bool all) {
    begin_event(w, &w->line, j);
    size_t before = w->line.length;
    add_text(&w->line, j, bytes, count, all);
    if (w->line.length == before && !all) {
        w->line.length = 0; /* nothing of it is whole yet */
        return;
    }
    end_event(&w->line, j);
    put(w, j);
}

static void end_events(answer_writer *w, job *j) {
    add_event(w, j, "", 0, true);
    if (j->tells_usage) {
        text_add(&w->line, "data: ");
        begin_object(w, &w->line, j, j->chat ? "chat.completion.chunk" : "text_completion");
        text_add(&w->line, "],");
        add_usage(&w->line, j);
        text_add(&w->line, "}\n\n");
    }
    text_add(&w->line, "data: [DONE]\n\n");
    put(w, j);
}

/* ---- whole answers ---- */

static void begin_whole(answer_writer *w, job *j) {
    if (j->begun) return;
    begin_object(w, &w->line, j, j->chat ? "chat.completion" : "text_completion");
    text_add(&w->line, j->chat ? "{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\""
                               : "{\"index\":0,\"text\":\"");
}

static void end_whole(answer_writer *w, job *j) {
    begin_whole(w, j);
    add_text(&w->line, j, "", 0, true);
    text_add(&w->line,
             j->chat ? "\"},\"logprobs\":null,\"finish_reason\":%s}],"
                     : "\",\"logprobs\":null,\"finish_reason\":%s}],",
             reason(j));
    add_usage(&w->line, j);
    text_add(&w->line, "}\n");
    put(w, j);
}

void answer_add(answer_writer *w, job *j, const char *bytes, size_t count) {
    if (j->streams) {
        add_event(w, j, bytes, count, false);
        return;
    }
    begin_whole(w, j);
    add_text(&w->line, j, bytes, count, false);
    put(w, j);
}

void answer_end(answer_writer *w, job *j) { j->streams ? end_events(w, j) : end_whole(w, j); }

void answer_text(answer_writer *w, job *j, const char *bytes, size_t count, bool all) {
    add_text(&w->line, j, bytes, count, all);
}

const char *answer_error(answer_writer *w, const char *kind, const char *sentence, const char *field) {
    json_writer json = { .out = &w->line };
    w->line.length = 0;
    json_begin_object(&json, NULL);
    json_begin_object(&json, "error");
    json_put_string(&json, "message", sentence);
    json_put_string(&json, "type", kind);
    json_put_string(&json, "param", *field ? field : NULL);
    json_put_null(&json, "code");
    json_end_object(&json);
    json_end_object(&json);
    return w->line.data;
}

void answer_fail(answer_writer *w, job *j, const char *sentence) {
    char line[640];
    if (!j->streams) j->out.begin = j->out.count = 0; /* half an answer is none */
    snprintf(line, sizeof line, "%s%s%s", j->streams ? "data: " : "",
             answer_error(w, "server_error", sentence, ""), j->streams ? "\n\ndata: [DONE]\n\n" : "\n");
    w->line.length = 0;
    ring_write(&j->out, line, strlen(line));
    j->begun = true, j->end = JOB_FAILED;
}
