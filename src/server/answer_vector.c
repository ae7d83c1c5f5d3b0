/* Embeddings: the vectors of texts, as numbers or in base64. */
#include <string.h>

#include "io/json.h"
#include "server/answer_internal.h"

enum { AT_ONCE = 96 /* numbers; their bytes are whole groups of three */, LETTERS = AT_ONCE * 4 / 3 * 4 };

static void begin(text *line, const job *j) {
    text_add(line, j->first == j ? "{\"object\":\"list\",\"data\":[" : ",");
    text_add(line, "{\"object\":\"embedding\",\"index\":%u,\"embedding\":%s", j->index,
             j->base64 ? "\"" : "[");
}

/* ---- numbers ---- */

static void add_numbers(text *line, const job *j, int64_t count) {
    for (int64_t i = j->at; i < j->at + count; i++)
        text_add(line, "%s%.9g", i ? "," : "", (double)(float)j->pooled.numbers[i]);
}

/* Of f32, the lowest byte first; RFC 4648. */
static void add_base64(text *line, const job *j, int64_t count) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    unsigned char bytes[AT_ONCE * 4 + 2] = { 0 };
    char out[LETTERS + 1], *to = out;
    for (int64_t i = 0; i < count; i++) {
        float x = (float)j->pooled.numbers[j->at + i];
        uint32_t bits;
        memcpy(&bits, &x, sizeof bits);
        for (int b = 0; b < 4; b++) bytes[i * 4 + b] = (unsigned char)(bits >> (8 * b));
    }
    for (int64_t i = 0; i < count * 4; i += 3) {
        uint32_t group = (uint32_t)bytes[i] << 16 | (uint32_t)bytes[i + 1] << 8 | bytes[i + 2];
        for (int k = 0; k < 4; k++) *to++ = i + k > count * 4 ? '=' : letters[group >> (18 - 6 * k) & 63];
    }
    *to = 0;
    text_add(line, "%s", out);
}

/* ---- frames ---- */

void answer_close_vectors(answer_writer *w, const job *first) {
    int64_t tokens = 0;
    for (const job *j = first; j; j = j->next) tokens += j->count;
    text_add(&w->line, "],\"model\":");
    json_add_quoted(&w->line, first->model);
    text_add(&w->line, ",\"usage\":{\"prompt_tokens\":%lld,\"total_tokens\":%lld}}\n", (long long)tokens,
             (long long)tokens);
}

void answer_vector(answer_writer *w, job *j, bool *done) {
    int64_t kept = j->pooled.kept, count = kept - j->at < AT_ONCE ? kept - j->at : AT_ONCE;
    if (!j->at) begin(&w->line, j);
    j->base64 ? add_base64(&w->line, j, count) : add_numbers(&w->line, j, count);
    j->at += count;
    *done = j->at == kept;
    if (*done) text_add(&w->line, j->base64 ? "\"}" : "]}");
    if (*done && answer_is_alone(j)) answer_close_vectors(w, j);
    answer_put(w, j);
}
