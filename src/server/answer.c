#include "server/answer.h"

#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "io/json.h"
#include "server/answer_internal.h"
#include "server/group.h"

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

static uint64_t room_bytes(const char *name, uint32_t piece_bytes, uint64_t told_bytes) {
    return line_bytes(name, piece_bytes) + told_bytes;
}

uint64_t answer_bytes(const char *name, uint32_t piece_bytes, uint64_t told_bytes) {
    return room_bytes(name, piece_bytes, told_bytes) + 4096 + told_bytes;
}
size_t answer_room(const answer_writer *w) {
    return (size_t)room_bytes(w->model, w->piece_bytes, w->told_bytes);
}

status answer_open(answer_writer *w, const char *name, uint32_t piece_bytes, uint64_t told_bytes) {
    *w = (answer_writer){ .model = name, .piece_bytes = piece_bytes, .told_bytes = told_bytes };
    if (text_reserve(&w->line, (size_t)room_bytes(name, piece_bytes, told_bytes) + 4095) &&
        (!told_bytes || text_reserve(&w->told, (size_t)told_bytes - 1)))
        return STATUS_OK;
    return status_set(STATUS_FAILED, "no memory for answers");
}

void answer_close(answer_writer *w) {
    text_close(&w->line);
    text_close(&w->told);
}

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
void answer_escape(text *line, char *bytes, size_t count) {
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
void answer_add_text(text *line, job *j, const char *bytes, size_t count, bool all) {
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
        if (whole) answer_escape(line, room, whole);
    } while (count);
}

/* ---- frames ---- */

void answer_begin(text *line, const job *j, const char *kind) {
    text_add(line, "{\"id\":\"%s-%llu\",\"object\":\"%s\",\"created\":%lld,\"model\":",
             j->chat ? "chatcmpl" : "cmpl", (unsigned long long)j->number, kind, (long long)j->created);
    json_add_quoted(line, j->model);
    text_add(line, ",\"choices\":[");
}

/* Of all answers to the request. */
void answer_usage(text *line, const job *first) {
    int64_t drawn = 0;
    for (const job *j = first; j; j = j->next) drawn += j->drawn;
    text_add(line,
             "\"usage\":{\"prompt_tokens\":%lld,\"completion_tokens\":%lld,\"total_tokens\":%lld,"
             "\"prompt_tokens_details\":{\"cached_tokens\":%lld}}",
             (long long)first->count, (long long)drawn, (long long)(first->count + drawn),
             (long long)first->cached);
}

const char *answer_reason(const job *j) {
    return j->end == JOB_STOP ? "\"stop\"" : j->end == JOB_LENGTH ? "\"length\"" : "null";
}

void answer_put(answer_writer *w, job *j) {
    ring_write(&j->out, w->line.data, w->line.length);
    w->line.length = 0;
    j->begun = true;
}

/* ---- events ---- */

static void begin_event(text *line, const job *j) {
    text_add(line, "data: ");
    answer_begin(line, j, j->chat ? "chat.completion.chunk" : "text_completion");
    if (j->chat)
        text_add(line, "{\"index\":%u,\"delta\":{%s\"content\":\"", j->index,
                 j->begun ? "" : "\"role\":\"assistant\",");
    else
        text_add(line, "{\"index\":%u,\"text\":\"", j->index);
}

/* What is told of its token, which is told once. */
static void add_told(answer_writer *w, text *line, const job *j) {
    if (!j->logarithms && j->chat) return;
    text_add(line, ",\"logprobs\":%s", w->told.length ? w->told.data : "null");
    w->told.length = 0;
}

static void end_event(answer_writer *w, text *line, const job *j) {
    text_add(line, j->chat ? "\"}" : "\"");
    add_told(w, line, j);
    text_add(line, ",\"finish_reason\":%s}]", answer_reason(j));
    text_add(line, j->tells_usage ? ",\"usage\":null}\n\n" : "}\n\n");
}

static void add_event(answer_writer *w, job *j, const char *bytes, size_t count, bool all) {
    begin_event(&w->line, j);
    size_t before = w->line.length;
    answer_add_text(&w->line, j, bytes, count, all);
    if (w->line.length == before && !all && !w->told.length) {
        w->line.length = 0; /* nothing of it is whole yet */
        return;
    }
    end_event(w, &w->line, j);
    answer_put(w, j);
}

void answer_told(answer_writer *w, job *j) {
    if (w->told.length) add_event(w, j, "", 0, false);
}

/* Behind all events. */
static void close_events(answer_writer *w, job *first) {
    if (first->tells_usage) {
        text_add(&w->line, "data: ");
        answer_begin(&w->line, first, first->chat ? "chat.completion.chunk" : "text_completion");
        text_add(&w->line, "],");
        answer_usage(&w->line, first);
        text_add(&w->line, "}\n\n");
    }
    text_add(&w->line, "data: [DONE]\n\n");
}

bool answer_is_alone(const job *j) { return j->first == j && !j->next; }

static void end_events(answer_writer *w, job *j) {
    add_event(w, j, "", 0, true);
    if (!answer_is_alone(j)) return;
    close_events(w, j);
    answer_put(w, j);
}

/* ---- whole answers ---- */

void answer_begin_choice(text *line, const job *j) {
    if (j->first == j)
        answer_begin(line, j, j->chat ? "chat.completion" : "text_completion");
    else
        text_add(line, ",");
    text_add(line, "{\"index\":%u,", j->index);
}

static void begin_whole(answer_writer *w, job *j) {
    if (j->begun) return;
    answer_begin_choice(&w->line, j);
    text_add(&w->line, j->chat ? "\"message\":{\"role\":\"assistant\",\"content\":\"" : "\"text\":\"");
}

static void close_whole(answer_writer *w, job *first) {
    text_add(&w->line, "],");
    answer_usage(&w->line, first);
    text_add(&w->line, "}\n");
}

void answer_close_group(answer_writer *w, job *first) {
    first->embeds    ? answer_close_vectors(w, first)
    : first->streams ? close_events(w, first)
                     : close_whole(w, first);
    answer_put(w, group_last(first));
    first->closed = true;
}

void answer_end_text(answer_writer *w, job *j) {
    answer_add_text(&w->line, j, "", 0, true);
    text_add(&w->line, j->chat ? "\"}" : "\"");
    if (!j->logarithms) text_add(&w->line, ",\"logprobs\":null");
    text_add(&w->line, ",\"finish_reason\":%s}", answer_reason(j));
    if (answer_is_alone(j)) close_whole(w, j);
    answer_put(w, j);
}

static void end_whole(answer_writer *w, job *j) {
    if (answer_holds(j)) return; /* answer_more does it */
    begin_whole(w, j);
    answer_end_text(w, j);
}

void answer_add(answer_writer *w, job *j, const char *bytes, size_t count) {
    if (j->streams) {
        add_event(w, j, bytes, count, false);
        return;
    }
    if (answer_holds(j)) {
        j->text_bytes += count;
        return;
    }
    begin_whole(w, j);
    answer_add_text(&w->line, j, bytes, count, false);
    answer_put(w, j);
}

void answer_end(answer_writer *w, job *j) { j->streams ? end_events(w, j) : end_whole(w, j); }

void answer_text(answer_writer *w, job *j, const char *bytes, size_t count, bool all) {
    answer_add_text(&w->line, j, bytes, count, all);
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
