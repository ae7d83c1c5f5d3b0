/* Drawing for the texts of a step: 32 of them from 50,257 and 128,000 words, on all threads and one alone, by
 * what is asked for; and masks of an answer by a schema over made-up words. Seconds of one round:
 *
 *   bench-draw [rounds]
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/philox.h"
#include "base/threads.h"
#include "bench.h"
#include "infer/constraint/constraint.h"
#include "infer/sample.h"

enum { TEXTS = 32, MOST = 128000, LETTERS = 16 };

static const sample_needs needs = { true, true };
static float *logits;
static char *memory;
static int64_t words;
static sample_options asked;

static double unit(uint32_t i, int part) {
    return (philox_draw(7, (philox_block){ { i } }).word[part] + 0.5) * 0x1p-32;
}

static void draw_one(void *context, int64_t text, int thread) {
    sample_from from = { .logits = logits + text * MOST,
                         .vocabulary = words,
                         .position = (uint32_t)text,
                         .memory = memory + (uint64_t)thread * sample_bytes(&needs, MOST) };
    sample_drawn drawn;
    (void)context;
    if (sample_next(&asked, &from, &drawn) != STATUS_OK) exit(1);
}

static void measure(const char *what, int rounds) {
    double all = 1e9, one = 1e9;
    for (int i = 0; i < rounds; i++) {
        double begin = bench_seconds();
        threads_for(TEXTS, draw_one, NULL);
        double middle = bench_seconds();
        draw_one(NULL, i % TEXTS, 0);
        double end = bench_seconds();
        all = middle - begin < all ? middle - begin : all;
        one = end - middle < one ? end - middle : one;
    }
    printf("%7lld words  %-24s %9.6f s for %d texts on %d threads  %9.6f s for one\n", (long long)words, what,
           all, TEXTS, threads_count(), one);
}

static void measure_draws(int rounds) {
    static const sample_options plain = { .temperature = 1, .top_p = 1, .repetition_penalty = 1 };
    for (words = 50257; words <= MOST; words += MOST - 50257) {
        asked = plain, asked.temperature = 0, measure("the likeliest", rounds);
        asked = plain, measure("all", rounds);
        asked = plain, asked.top_p = 0.9, measure("top_p 0.9", rounds);
        asked.top_k = 40, measure("top_k 40, top_p 0.9", rounds);
        asked = plain, asked.min_p = 0.05, measure("min_p 0.05", rounds);
        asked = plain, asked.top_p = 0.9, asked.logprobs = true, asked.likeliest = 20;
        measure("top_p 0.9, 20 logprobs", rounds);
    }
}

/* ---- masks ---- */

static char (*letters)[LETTERS];

/* Words of some letters, one in 25 with marks of JSON. */
static void make_words(void) {
    static const char *const marks[] = { "\"", "\",", "\":", "{\"", "\"}", "}}", "\\n", "[]", "\"]", "://" };
    for (uint32_t i = 256; i < MOST; i++) {
        uint32_t n = 1 + (uint32_t)(unit(i, 0) * 8), mark = (uint32_t)(unit(i, 1) * 250);
        char *w = letters[i];
        if (mark >= 10 && mark < 150) *w++ = ' ';
        for (uint32_t k = 0; k < n; k++) *w++ = (char)('a' + (uint32_t)(unit(i * 8 + k, 2) * 12));
        if (mark < 10) strcpy(letters[i] + n % 3, marks[mark]);
    }
    for (int i = 0; i < 256; i++) letters[i][0] = (char)i;
}

static status word_of(void *context, int32_t id, language_piece *piece) {
    (void)context;
    *piece = (language_piece){ letters[id], id < 256 ? 1 : strlen(letters[id]) };
    return STATUS_OK;
}
static bool ends(void *context, int32_t id) { return (void)context, id < 0; }

static void measure_masks(int rounds) {
    static const char answer[] =
        "{\"name\": \"a long word, \\n and more\", \"n\": [1, 2.5e3, true, {\"a\": null}]}";
    static constraint_words v;
    static constraint c;
    language l = { .word = word_of, .ends = ends };
    uint64_t bytes, text;
    letters = bench_memory((uint64_t)MOST * LETTERS);
    make_words();
    if (vocabulary_measure(&l, MOST, &bytes, &text) != STATUS_OK) exit(1);
    double begin = bench_seconds();
    if (vocabulary_open(&l, MOST, text, bench_memory(bytes), &v) != STATUS_OK) exit(1);
    double sum = 0, most = 0, opened = bench_seconds() - begin;
    constraint_mask *mask = bench_memory(constraint_mask_bytes(MOST));
    schema_object(&c.schema);
    constraint_begin(&c, &v);
    for (const char *at = answer; *at; at++) {
        double seconds = 1e9;
        for (int i = 0; i < rounds; i++) {
            begin = bench_seconds();
            constraint_allow(&c, mask);
            double each = bench_seconds() - begin;
            seconds = each < seconds ? each : seconds;
        }
        sum += seconds, most = seconds > most ? seconds : most;
        constraint_take(&c, (unsigned char)*at);
    }
    printf("%7d words  %-24s %9.6f s on average, %.6f s at most; %.6f s and %llu bytes at the start\n", MOST,
           "masks", sum / (double)strlen(answer), most, opened, (unsigned long long)bytes);
}

int main(int count, char **arguments) {
    int rounds = count > 1 ? atoi(arguments[1]) : 20;
    threads_set(threads_available());
    logits = bench_memory((uint64_t)TEXTS * MOST * sizeof *logits);
    memory = bench_memory((uint64_t)threads_count() * sample_bytes(&needs, MOST));
    for (uint32_t i = 0; i < (uint32_t)TEXTS * MOST; i++) /* normal, of deviation 2.5 */
        logits[i] = (float)(2.5 * sqrt(-2 * log(unit(i, 0))) * cos(6.283185307179586 * unit(i, 1)));
    if (rounds < 1) rounds = 1;
    measure_draws(rounds);
    measure_masks(rounds);
    return 0;
}
