/* What sharing beginnings, guessing and expected admission are worth: bench-engine DIR [THREADS].
 *
 * DIR is a model directory. A line "first SAME OWN" is answered by "cold warm cached": seconds to the first
 * new token of a text whose first SAME ids nobody has computed, and of one that has the same and OWN others.
 * "write IDS TOKENS GUESSES" is answered by "seconds proposed accepted steps" of a text that goes on from
 * IDS ids that repeat themselves. "load TEXTS BLOCKS EXPECTS" is answered by "seconds tokens steps
 * put_back again_tokens" of TEXTS texts that may have 128 tokens and end before, in so many blocks. Numbers
 * of one line use the same plan; another one is made where a line asks for it. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "infer/engine.h"
#include "ops/cache_write/cache_write.h"

enum { ROWS = 256, LONGEST = 2560, LOAD_PROMPT = 32, LOAD_TOKENS = 128 };

static model_folder folder;
static int threads;
static engine *opened;
static engine_sizes sizes;
static uint32_t state = 1;

static int32_t any_id(void) {
    state = state * 1664525u + 1013904223u;
    return (int32_t)(state >> 8) % (int32_t)folder.model.vocabulary;
}

static void must(status s) {
    if (s == STATUS_OK) return;
    fprintf(stderr, "%s\n", status_message());
    exit((int)s);
}

static engine *engine_for(const engine_sizes *wanted) {
    if (opened && memcmp(&sizes, wanted, sizeof sizes) == 0) return opened;
    engine_close(opened);
    must(engine_open(&(engine_options){ .threads = threads }, &folder, &opened));
    must(engine_plan(opened, wanted));
    must(engine_start(opened));
    sizes = *wanted;
    return opened;
}

static int64_t length_of(int64_t wanted) {
    int64_t most = families_context(&folder.config);
    return wanted < most ? wanted : most;
}

static status take(void *context, int32_t id, bool *over) {
    int64_t *left = context;
    (void)id;
    *over = --*left == 0;
    return STATUS_OK;
}

static const sample_options likeliest = { .top_p = 1, .repetition_penalty = 1 };

static double run_text(engine *e, const int32_t *ids, int64_t count, int64_t tokens, int64_t *cached) {
    int64_t left = tokens;
    double begin = bench_seconds();
    int32_t n = engine_begin(
        e, &(engine_request){
               .ids = ids, .count = count, .tokens = tokens, .sample = &likeliest, .context = &left });
    if (n == ENGINE_NONE) exit(3);
    while (engine_going(e)) must(engine_step(e, take));
    double seconds = bench_seconds() - begin;
    *cached = engine_cached(e, n);
    engine_leave(e, n);
    return seconds;
}

static void first(int64_t same, int64_t own) {
    static int32_t ids[1 << 16];
    int64_t length = length_of(LONGEST), cached;
    engine_sizes wanted = {
        .texts = 1, .text_length = length, .rows = ROWS, .least_texts = 1, .cache = DTYPE_F32
    };
    engine *e = engine_for(&wanted);
    for (int64_t i = 0; i < same + own; i++) ids[i] = any_id();
    double cold = run_text(e, ids, same + own, 1, &cached);
    for (int64_t i = same; i < same + own; i++) ids[i] = any_id();
    double warm = run_text(e, ids, same + own, 1, &cached);
    printf("%.9f %.9f %lld\n", cold, warm, (long long)cached);
}

static void write_one(int64_t count, int64_t tokens, int64_t guesses) {
    static int32_t ids[1 << 16];
    int64_t length = length_of(count + tokens), cached;
    engine_stats before, after;
    engine_sizes wanted = { .texts = 1,
                            .text_length = length,
                            .rows = ROWS,
                            .guesses = guesses,
                            .least_texts = 1,
                            .cache = DTYPE_F32 };
    engine *e = engine_for(&wanted);
    for (int64_t i = 0; i < count; i++) ids[i] = i < 32 ? any_id() : ids[i - 32];
    run_text(e, ids, count, 1, &cached);
    engine_stats_of(e, &before);
    double seconds = run_text(e, ids, count, tokens, &cached);
    engine_stats_of(e, &after);
    printf("%.9f %llu %llu %llu\n", seconds, (unsigned long long)(after.proposed - before.proposed),
           (unsigned long long)(after.accepted - before.accepted),
           (unsigned long long)(after.steps - before.steps));
}

static void load(int64_t texts, int64_t blocks, bool expects) {
    enum { AT_ONCE = 16, MOST = 1024 };
    static int64_t left[MOST];
    int32_t ids[LOAD_PROMPT];
    int64_t begun = 0;
    bool there[AT_ONCE] = { 0 };
    engine_stats before, after;
    engine_sizes wanted = { .texts = AT_ONCE,
                            .text_length = LOAD_PROMPT + LOAD_TOKENS,
                            .rows = ROWS,
                            .blocks = blocks,
                            .least_texts = 1,
                            .expects = expects,
                            .cache = DTYPE_F32 };
    engine *e = engine_for(&wanted);
    if (texts > MOST) texts = MOST;
    engine_stats_of(e, &before);
    double begin = bench_seconds();
    while (begun < texts || engine_going(e)) {
        for (; begun < texts; begun++) {
            state = (uint32_t)begun;
            left[begun] = 8 + any_id() % 32 + (any_id() % 8 ? 0 : LOAD_TOKENS - 48);
            for (int i = 0; i < LOAD_PROMPT; i++) ids[i] = any_id();
            engine_request r = { .ids = ids,
                                 .count = LOAD_PROMPT,
                                 .tokens = LOAD_TOKENS,
                                 .sample = &likeliest,
                                 .group = ENGINE_ALONE,
                                 .context = &left[begun] };
            int32_t n = engine_begin(e, &r);
            if (n == ENGINE_NONE) break;
            there[n] = true;
        }
        must(engine_step(e, take));
        for (int32_t i = 0; i < AT_ONCE; i++)
            if (there[i] && !engine_goes_on(e, i)) engine_leave(e, i), there[i] = false;
    }
    double seconds = bench_seconds() - begin;
    engine_stats_of(e, &after);
    printf("%.9f %llu %llu %llu %llu\n", seconds, (unsigned long long)(after.drawn - before.drawn),
           (unsigned long long)(after.steps - before.steps),
           (unsigned long long)(after.put_back - before.put_back),
           (unsigned long long)(after.again_tokens - before.again_tokens));
}

static void answer(const char *line) {
    long long a, b, c;
    if (sscanf(line, "first %lld %lld", &a, &b) == 2)
        first(a, b);
    else if (sscanf(line, "write %lld %lld %lld", &a, &b, &c) == 3)
        write_one(a, b, c);
    else if (sscanf(line, "load %lld %lld %lld", &a, &b, &c) == 3)
        load(a, b, c != 0);
    else
        printf("0\n");
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    threads = argc > 2 ? atoi(argv[2]) : 0;
    must(model_folder_open(argv[1], NULL, DTYPE_NONE, UINT64_MAX, &folder));
    bench_serve(answer, "engine");
    engine_close(opened);
    return 0;
}
