#include "server/serve_sizes.h"

#include <string.h>

#include "server/pages.h"
#include "server/server.h"
#include "text/template/template_json.h"

enum {
    BYTES_OF_TOKEN = 8,     /* of text, that a token stands for in the longest prompts that are taken */
    BODY_BESIDE = 64 << 10, /* around a prompt */
    ENCODED = 48,           /* what a tokenizer holds per byte of a text, ids included */
    MARKS_BESIDE = 8192,    /* commas and brackets of a body beside those of a list of ids */
    RING_PIECES = 32,       /* tokens that a ring has room for, at least */
    STACKS = 320 << 10,     /* of the two HTTP threads, as far as they are touched */
    LONGEST_AT_ONCE = 2,    /* of the longest bodies; shorter ones share their room */
};

const char *serve_sizes_name(const serve_options *o) {
    const char *name = o->name;
    for (uint32_t i = 0; i < o->adapter_count; i++)
        if (strlen(o->adapters[i].name) > strlen(name)) name = o->adapters[i].name;
    return name;
}

uint32_t serve_sizes_list(const serve_options *o, const language *l) {
    enum { OF_ONE = 128 };
    return l->piece_bytes + o->adapter_count * (uint32_t)(OF_ONE + strlen(o->name));
}

uint64_t serve_sizes_ids(int64_t text_length, const serve_words *w) {
    return (uint64_t)(text_length + 1 + (w->answers ? text_length : 0));
}

serve_sizes serve_sizes_of(const serve_options *o, int64_t texts, int64_t text_length, const language *l,
                           const serve_words *words) {
    serve_sizes s = { .words = serve_sizes_rounded((uint64_t)text_length * BYTES_OF_TOKEN + BODY_BESIDE),
                      .vocabulary = serve_sizes_rounded(words->vocabulary) };
    answer_writer w = { .model = serve_sizes_name(o), .piece_bytes = l->piece_bytes };
    s.body = s.words + BODY_BESIDE;
    s.room = serve_sizes_rounded(template_json_most(s.body, (uint64_t)text_length + MARKS_BESIDE));
    s.ring = serve_sizes_rounded(RING_PIECES * 256 + (uint64_t)(2 + o->guesses) * answer_room(&w) +
                                 (uint64_t)(1 + o->guesses) * words->told);
    s.jobs = (uint64_t)(texts + o->queue);
    uint64_t vector = (uint64_t)words->vector * sizeof(double);
    s.numbers = serve_sizes_rounded((uint64_t)(text_length + 1) * sizeof(float));
    if (vector > s.numbers) s.numbers = serve_sizes_rounded(vector);
    /* A short body has a page, and so has every connection that sends one. */
    s.pages = LONGEST_AT_ONCE * pages_for(s.body) + o->connections;
    s.job = serve_sizes_rounded(sizeof(job)) +
            serve_sizes_rounded(serve_sizes_ids(text_length, words) * sizeof(int32_t)) + s.numbers +
            (words->vocabulary ? serve_sizes_rounded(sizeof(constraint)) : 0) + s.ring;
    s.reading = s.room + s.words + s.job - s.ring;
    return s;
}

uint64_t serve_sizes_block(const serve_sizes *s) {
    return s->jobs * s->job + s->reading + s->vocabulary + serve_sizes_rounded(pages_bytes(s->pages));
}

serve_held serve_sizes_held(const serve_options *o, const serve_sizes *s, const language *l,
                            const serve_words *w) {
    return (serve_held){
        .queue = sizeof(server) + s->jobs * s->job,
        .pages = serve_sizes_rounded(pages_bytes(s->pages)),
        .connections = http_bytes(o->connections) + STACKS,
        .reading = s->reading + ENCODED * s->words + TEMPLATE_JSON_READING,
        .tokenizer = l->held_bytes,
        .templates = o->chat ? chat_bytes(o->chat) + TEMPLATE_OUTPUT_ROOM(s->words) : 0,
        .answers = answer_bytes(serve_sizes_name(o), l->piece_bytes, w->told) +
                   answer_bytes(serve_sizes_name(o), serve_sizes_list(o, l), w->told),
        .formats = s->vocabulary,
    };
}

uint64_t serve_sizes_sum(const serve_held *h) {
    return h->queue + h->pages + h->connections + h->reading + h->tokenizer + h->templates + h->answers +
           h->formats;
}
