/* --pack: documents in one sample, and documents that stay whole, by the commands. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "io/safetensors.h"
#include "io/scratch.h"

#define RUN "--steps 4 --batch 4 --context 32 --eval-samples 2 --threads 2 --seed 5 --save-every 2 "

static void expect(int code, const char *line, const char *words) {
    if (!command_says(line, code, words)) fail_msg("%s: not exit %d with '%s'", line, code, words);
}

/* One document, of which nothing is learned but its end. */
static void make_long(const char *path, int64_t length, bool learned) {
    static uint16_t tokens[3000];
    static uint8_t is_learned[3000];
    uint64_t end = (uint64_t)length;
    is_learned[length - 1] = 1;
    safetensors_item items[] = {
        { .name = "ends", .dtype = "U64", .shape = SHAPE(1), .data = &end, .bytes = sizeof end },
        { .name = "tokens", .dtype = "U16", .shape = SHAPE(length), .data = tokens, .bytes = end * 2 },
        { .name = "learned", .dtype = "U8", .shape = SHAPE(length), .data = is_learned, .bytes = end },
    };
    if (safetensors_write(path, items, learned ? 3 : 2) != STATUS_OK) fail_msg("%s", status_message());
}

/* More documents than are packed among themselves, some longer than a sample. */
static void make_tokens(void) {
    enum { DOCUMENTS = 2500, MOST = DOCUMENTS * 80 };
    static uint64_t ends[DOCUMENTS];
    static uint16_t tokens[MOST];
    uint64_t random = 41, count = 0;
    for (int d = 0; d < DOCUMENTS; d++) {
        uint64_t length = 1 + scratch_random(&random) % (d % 9 ? 30 : 80);
        for (uint64_t i = 0; i < length; i++) tokens[count++] = (uint16_t)('a' + ((uint64_t)d + i * i) % 26);
        ends[d] = count;
    }
    safetensors_item items[] = {
        { .name = "ends", .dtype = "U64", .shape = SHAPE(DOCUMENTS), .data = ends, .bytes = sizeof ends },
        { .name = "tokens",
          .dtype = "U16",
          .shape = SHAPE((int64_t)count),
          .data = tokens,
          .bytes = count * 2 },
    };
    if (safetensors_write("d.safetensors", items, 2) != STATUS_OK) fail_msg("%s", status_message());
}

static int open_folder(void **state) {
    if (scratch_open(state) != 0) return -1;
    FILE *lines = fopen("d.jsonl", "w"), *one = fopen("one", "w");
    for (int i = 0; i < 60; i++) {
        fprintf(lines, "{\"text\": \"document %d of them, about %d things\"}\n", i, i * i);
        fprintf(one, "line %d of a text, about %d things\n", i, i * i);
    }
    make_tokens();
    scratch_write("ids.u16", (char[2048]){ 1 }, 2048);
    return fclose(lines) == 0 && fclose(one) == 0 ? 0 : -1;
}

static double loss_of(const char *run) {
    char line[256];
    snprintf(line, sizeof line, "%s/run.json", run);
    json_document d;
    double loss;
    assert_int_equal(json_open(line, &d), STATUS_OK);
    assert_int_equal(json_as_number(json_item(command_value(&d, "losses"), 3), 0, 99, &loss), STATUS_OK);
    json_close(&d);
    return loss;
}

static void what_data_say_decides(void **state) {
    (void)state;
    expect(0, "train char-small --data d.jsonl " RUN "--out auto", "60 documents, each by itself");
    expect(0, "train char-small --data d.jsonl " RUN "--out documents --pack documents", "each by itself");
    expect(0, "train char-small --data d.jsonl " RUN "--out cross --pack cross", "planned");
    assert_true(loss_of("auto") == loss_of("documents"));
    assert_true(loss_of("auto") != loss_of("cross"));
    expect(0, "train char-small --data one " RUN "--out one-auto", "planned");
    expect(0, "train char-small --data one " RUN "--out one-documents --pack documents", "planned");
    assert_true(loss_of("one-auto") == loss_of("one-documents"));
    expect(0, "plan char-small --pack documents --batch 4 --context 32", "least budget");
    expect(0, "train auto --eval-only --data d.jsonl --context 32 --eval-samples 2", "validation loss");
}

static bool says_of_data(const char *data, const char *words) {
    char line[256];
    snprintf(line, sizeof line, "train auto %s --out mixed --overwrite --steps 1 --batch 1", data);
    command_result r = command_run(line);
    if (r.exit != 0) fail_msg("%s: %s", line, r.err);
    bool says = command_has_words(r.out, words) || command_has_words(r.err, words);
    command_free(&r);
    return says;
}

/* Whatever stands first: one of several documents has them told apart, one that says nothing of them not. */
static void parts_decide_together(void **state) {
    (void)state;
    static const char words[] = "documents, each by itself", longest[] = "as the longest document";
    assert_true(says_of_data("--data d.jsonl --data one --context 32", words));
    assert_true(says_of_data("--data one --data d.jsonl --context 32", words));
    assert_false(says_of_data("--data one --context 32 --pack documents", words));
    assert_false(says_of_data("--data d.jsonl --data ids.u16 --context 32", words));
    assert_false(says_of_data("--data ids.u16 --data d.jsonl --context 32", words));
    expect(2, "train auto --data ids.u16 --data d.jsonl --context 32 --out o --steps 1 --pack documents",
           "ids.u16 doesn't say where its documents end");
    expect(2, "train auto --data d.jsonl --data ids.u16 --context 32 --out o --steps 1 --pack documents",
           "ids.u16 doesn't say where its documents end");
    assert_true(says_of_data("--data d.safetensors --data d.safetensors", longest));
    assert_false(says_of_data("--data d.safetensors --data ids.u16", longest));
    assert_false(says_of_data("--data ids.u16 --data d.safetensors", longest));
}

/* What is cut anyway needs no long samples; what is learned of in parts is not cut. */
static void long_documents_are_cut_or_fit(void **state) {
    (void)state;
    static const char config[] =
        "{\"model_type\": \"llama\", \"hidden_size\": 16, \"intermediate_size\": 16, \"num_hidden_layers\": "
        "1, \"num_attention_heads\": 1, \"max_position_embeddings\": 4096, \"vocab_size\": 256}";
    static const struct {
        const char *data, *says;
    } cases[] = { { "plain.safetensors", "1 sample of 2048 tokens" },
                  { "learned.safetensors", "1 sample of 2560 tokens" },
                  { "plain.safetensors --pack whole", "1 sample of 2560 tokens" },
                  { "plain.safetensors --pack pad", "1 sample of 2560 tokens" },
                  { "plain.safetensors --data learned.safetensors", "1 sample of 2560 tokens" },
                  { "learned.safetensors --data plain.safetensors", "1 sample of 2560 tokens" } };
    mkdir("wide", 0700);
    scratch_write("wide/config.json", config, sizeof config - 1);
    make_long("plain.safetensors", 2500, false);
    make_long("learned.safetensors", 2500, true);
    make_long("short.safetensors", 20, false);
    expect(0, "train wide --data one --context 8 --batch 1 --steps 1 --out wider", "planned");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[256];
        snprintf(line, sizeof line, "plan wider --batch 1 --data %s", cases[i].data);
        expect(0, line, cases[i].says);
    }
    expect(2, "train wider --data short.safetensors --context 20 --batch 1 --steps 1 --out o",
           "short.safetensors has 18 tokens; a context of 20 needs at least 21");
}

static void a_run_goes_on_as_it_began(void **state) {
    (void)state;
    expect(2, "train char-small --data d.jsonl " RUN "--out auto --resume --pack cross",
           "--pack was documents and is cross");
    expect(2, "train char-small --data d.jsonl " RUN "--out cross --resume",
           "--pack was cross and is documents");
    expect(0, "train char-small --data d.jsonl " RUN "--out auto --resume", "resuming");
    expect(0, "train char-small --data d.jsonl " RUN "--out cross --resume --pack cross", "resuming");
}

static void what_has_no_documents_is_refused(void **state) {
    (void)state;
    expect(2, "train char-small --data ids.u16 " RUN "--out o --pack documents",
           "ids.u16 doesn't say where its documents end");
    expect(0, "train char-small --data ids.u16 " RUN "--out o --pack cross", "planned");
    expect(2, "plan vit-base --pack documents", "--pack is of texts");
    expect(2, "plan t5-small --pack documents", "can't tell documents apart");
    expect(2, "train char-small --data d.jsonl " RUN "--out o --pack together",
           "none of auto, documents, whole, pad, cross");
}

/* Several blocks, any number of readers, and a run that was cut: the same weights. */
static void whole_documents_go_on(void **state) {
    (void)state;
#define WHOLE "train char-small --data d.safetensors --pack whole " RUN
    expect(0, WHOLE "--out whole --workers 0", "2,500 documents, each by itself and whole");
    expect(0, WHOLE "--out read --workers 3", "planned");
    assert_int_equal(system("cmp whole/model.safetensors read/model.safetensors"), 0);
    assert_int_equal(system("test -d read/checkpoint-2 && rm -r read/checkpoint-4 read/model.safetensors"),
                     0);
    expect(0, WHOLE "--out read --workers 2 --resume", "resuming");
    assert_int_equal(system("cmp whole/model.safetensors read/model.safetensors"), 0);
    expect(2, "train char-small --data d.safetensors --pack pad " RUN "--out whole --resume",
           "--pack was whole by size and is pad");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_data_say_decides),
        cmocka_unit_test(parts_decide_together),
        cmocka_unit_test(long_documents_are_cut_or_fit),
        cmocka_unit_test(a_run_goes_on_as_it_began),
        cmocka_unit_test(what_has_no_documents_is_refused),
        cmocka_unit_test(whole_documents_go_on),
    };
    return cmocka_run_group_tests_name("packs", tests, open_folder, scratch_close);
}
