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
    expect(2, "plan vit-base --pack documents", "can't tell documents apart");
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
        cmocka_unit_test(a_run_goes_on_as_it_began),
        cmocka_unit_test(what_has_no_documents_is_refused),
        cmocka_unit_test(whole_documents_go_on),
    };
    return cmocka_run_group_tests_name("packs", tests, open_folder, scratch_close);
}
