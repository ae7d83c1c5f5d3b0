/* Any bytes as bodies of requests: the first one says which kind and how many pages there are, the rest comes
 * in pieces. Whatever comes, a job's numbers are within their bounds, and pages are given back. */
#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz.h"
#include "server/pages.h"
#include "server/request.h"
#include "text/template/template_json.h"

enum { LENGTH = 40, VOCABULARY = 256, WORDS = 512, BODY = 1 << 16, PAGES = 18, JOBS = 9 };

/* Each text of the list is read, or refused by its field. */
static void check_texts(const request_reader *r, const job *first) {
    static int32_t ids[LENGTH + 1];
    request_refusal why = { 0 };
    FUZZ_EXPECT(first->embeds && first->tokens == 1 && first->choices >= 1 && first->choices <= JOBS);
    FUZZ_EXPECT(first->dimensions >= 0 && first->dimensions <= r->pooling->width);
    for (int64_t i = 1; i < first->choices; i++) {
        job j = { .ids = ids };
        if (fuzz_said(request_text(r, first, i, &j, &why)) == STATUS_OK)
            FUZZ_EXPECT(j.count >= 1 && j.count <= LENGTH);
        else
            FUZZ_EXPECT(strcmp(why.field, "input") == 0);
    }
}

static void check(const request_reader *r, const job *j, request_kind kind) {
    FUZZ_EXPECT(j->count >= 1 && j->count <= LENGTH);
    for (int64_t i = 0; i < j->count; i++) FUZZ_EXPECT(j->ids[i] >= 0 && j->ids[i] < VOCABULARY);
    if (kind == REQUEST_EMBEDDINGS) check_texts(r, j);
    if (!(kind & (REQUEST_COMPLETION | REQUEST_CHAT))) return;
    FUZZ_EXPECT(j->tokens >= !j->echoes && j->kept >= 1 && j->kept <= j->choices);
    FUZZ_EXPECT(j->compares == (j->kept < j->choices) && !(j->compares && j->streams));
    FUZZ_EXPECT(j->count + j->tokens <= LENGTH + 1);
    FUZZ_EXPECT(j->stops.count <= JOB_STOPS && j->sample.temperature >= 0);
    FUZZ_EXPECT(j->sample.top_p > 0 && j->sample.top_p <= 1 && r->text_length == LENGTH);
}

static bool put_in_pieces(paper *a, pages *p, const uint8_t *data, size_t size, size_t most) {
    for (size_t at = 0; at < size; at += most) {
        size_t some = size - at < most ? size - at : most;
        if (!pages_add(a, p, (const char *)data + at, some)) return false;
    }
    return true;
}

/* As it went in. */
static void compare(const paper *a, const uint8_t *data, size_t size) {
    char out[PAGES_BYTES + 100];
    FUZZ_EXPECT(a->count == size);
    for (size_t at = 0; at < size; at += sizeof out) {
        size_t n = pages_read(a, at, out, sizeof out), rest = size - at;
        FUZZ_EXPECT(n == (rest < sizeof out ? rest : sizeof out) && memcmp(out, data + at, n) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const request_kind kinds[] = { REQUEST_COMPLETION, REQUEST_CHAT, REQUEST_TOKENS, REQUEST_TEXT,
                                          REQUEST_EMBEDDINGS };
    static int32_t ids[LENGTH + 1];
    static char words[WORDS];
    static language bytes;
    static char *memory, *room;
    if (size < 2 || size > BODY) return 0;
    uint64_t room_bytes = template_json_most(BODY, BODY);
    if (!memory) {
        memory = malloc(pages_bytes(PAGES));
        room = aligned_alloc(64, (room_bytes + 63) / 64 * 64);
        if (!memory || !room || language_of_bytes(VOCABULARY, &bytes) != STATUS_OK) abort();
    }
    request_reader r = { .language = &bytes,
                         .model = "m",
                         .vocabulary = VOCABULARY,
                         .text_length = LENGTH,
                         .jobs = JOBS,
                         .engine = &(engine_sizes){ .blocks = 1000, .rows = 16 },
                         .pooling = &(pooling){ .width = 8 },
                         .room = room,
                         .room_bytes = room_bytes,
                         .words = words,
                         .words_bytes = WORDS };
    pages p;
    paper body;
    job j = { .ids = ids };
    request_refusal why;
    pages_open(&p, 1 + data[0] % PAGES, memory);
    pages_begin(&body, &p);
    request_kind kind = kinds[data[0] / PAGES % 5];
    if (put_in_pieces(&body, &p, data + 1, size - 1, 1 + data[1] * 7u)) {
        compare(&body, data + 1, size - 1);
        request_body read = { pages_source(&body, "request", "the body"), kind };
        if (fuzz_said(request_read(&r, &read, &j, &why)) == STATUS_OK) check(&r, &j, kind);
        FUZZ_EXPECT(strlen(why.field) < REQUEST_FIELD_BYTES);
    }
    pages_end(&body, &p);
    FUZZ_EXPECT(p.left == p.count && !body.count);
    return 0;
}
