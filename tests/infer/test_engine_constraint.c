/* Texts that are JSON of a schema, in the engine: alone or among others, on one thread or several, with or
 * without guesses, each is the same, and a value where it was not cut. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "base/threads.h"
#include "infer/engine_clients.h"
#include "io/scratch.h"
#include "sanitized.h"

enum { TEXTS = 6, END = 63 };

/* What the ids of the model stand for. */
static const char *const words[VOCABULARY] = {
    "{",  "}",     "[",        "]",        "\"",     ":",     ",",          "1",   "0",   "-",     ".",
    "e",  "true",  "false",    "null",     " ",      "{\"",   "\":",        "\",", "\"}", "]}",    "a",
    "b",  "ab",    "\\n",      "\xc3",     "\xa9",   "\\u00", "41",         "x\"", "}}",  "[[",    "2",
    "33", "word ", "\xf0\x9f", "\x98\x80", "tru",    "e,",    "\n",         "[1",  ",\"", "\":\"", "\\",
    "/",  "t",     "r",        "u",        "E+",     "00",    "é",          "{}",  "[]",  "\"\"",  "A",
    "z",  "y",     "q",        "\"a\"",    "\"b\":", "list",  "\"list\":[", "ll",  ""
};
static constraint_words vocabulary;

static status word_of(void *context, int32_t id, language_piece *out) {
    (void)context;
    *out = (language_piece){ words[id], strlen(words[id]) };
    return STATUS_OK;
}
static bool ends(void *context, int32_t id) { return (void)context, id == END; }

static int open_all(void **state) {
    language l = { .word = word_of, .ends = ends };
    uint64_t bytes, letters;
    static uint64_t memory[1024];
    if (scratch_open(state) != 0 || open_folder("model", NEVER, &folder) != STATUS_OK) return -1;
    if (vocabulary_measure(&l, VOCABULARY, &bytes, &letters) != STATUS_OK || bytes > sizeof memory) return -1;
    return vocabulary_open(&l, VOCABULARY, letters, memory, &vocabulary) == STATUS_OK ? 0 : -1;
}

typedef struct {
    client asked;
    constraint rule;
    bool constrained, ended; /* by a value that is whole */
} writer;

static status take_word(void *context, int32_t id, bool *over) {
    writer *w = context;
    client *c = &w->asked;
    assert_true(id != ENGINE_NONE && !c->over);
    c->got[c->got_count++] = id;
    w->ended = w->constrained && (id == END || constraint_over(&w->rule));
    *over = w->ended || c->got_count == c->tokens;
    c->over = *over;
    return STATUS_OK;
}

static void begin(engine *e, writer *w, uint64_t seed, uint32_t i) {
    *w = (writer){ .constrained = i % 3 != 2 };
    make_client(&w->asked, seed, i, 20);
    w->asked.tokens = 60;
    schema_object(&w->rule.schema);
    constraint_begin(&w->rule, &vocabulary);
    engine_request r = request_of(&w->asked);
    r.context = w, r.constraint = w->constrained ? &w->rule : NULL;
    assert_int_equal(engine_begin(e, &r) == ENGINE_NONE, false);
}

static engine *start_for(int64_t texts, int threads, int64_t guesses) {
    engine_sizes sizes = sizes_of(texts, 24, 0, DTYPE_F32);
    sizes.constrained = true, sizes.guesses = guesses;
    return start(&folder, &sizes, 0, threads);
}

/* What was written so far is how a value begins; and a whole one where it ended by itself. */
static void check(const writer *w) {
    static machine_frame frames[MACHINE_FRAMES];
    machine m = { .schema = &w->rule.schema, .frames = frames, .room = MACHINE_FRAMES };
    machine_state a, b;
    machine_begin(&m, &a);
    for (int64_t i = 0; i < w->asked.got_count; i++)
        for (const char *c = words[w->asked.got[i]]; *c; c++) {
            machine_step(&m, &a, (unsigned char)*c, &b);
            machine_settle(&m, &b);
            a = b;
        }
    assert_true(a.count > 0);
    assert_true(!w->ended || machine_complete(&a));
}

static void constrained_texts_are_what_they_are_alone(void **state) {
    (void)state;
    static writer alone[TEXTS], together[TEXTS];
    uint32_t whole = 0;
    for (uint64_t seed = 1; seed <= (SANITIZED ? 4u : 20u); seed++) {
        for (uint32_t i = 0; i < TEXTS; i++) {
            engine *e = start_for(1, 1, 0);
            begin(e, &alone[i], seed, i);
            while (engine_going(e)) assert_int_equal(engine_step(e, take_word), STATUS_OK);
            engine_close(e);
            if (alone[i].constrained) check(&alone[i]);
            whole += alone[i].ended;
        }
        engine *e = start_for(TEXTS, 1 + (int)(seed % 3), seed % 2 ? 3 : 0);
        for (uint32_t i = 0; i < TEXTS; i++) begin(e, &together[i], seed, i);
        while (engine_going(e)) assert_int_equal(engine_step(e, take_word), STATUS_OK);
        engine_close(e);
        for (uint32_t i = 0; i < TEXTS; i++) {
            assert_int_equal(alone[i].asked.got_count, together[i].asked.got_count);
            assert_memory_equal(alone[i].asked.got, together[i].asked.got, sizeof alone[i].asked.got);
        }
    }
    assert_true(whole > 10);
    threads_set(1);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(constrained_texts_are_what_they_are_alone) };
    return cmocka_run_group_tests(tests, open_all, scratch_close);
}
