/* A model with a tokenizer: its prompt becomes tokens, what it says becomes text, and it says when a text
 * ends. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <string.h>

#include "cli/command.h"
#include "io/json_file.h"
#include "io/scratch.h"
#include "sanitized.h"
#include "text/tokenizer/tokenizer.h"

/* Letters of several bytes, so that tokens end within some. */
static const char SENTENCE[] =
    "Dès Noël, où un zéphyr haï me vêt de glaçons würmiens, je dîne. 子曰：學而時習之。";

static const char *const kinds[] = { "gpt2", "llama3", "llama2", "gemma", "qwen2" };
enum { KINDS = SANITIZED ? 1 : sizeof kinds / sizeof *kinds, TIMES = 40 };

typedef struct {
    uint32_t size;  /* of the vocabulary */
    uint64_t bytes; /* of its tables */
    uint32_t first; /* ids of the sentence begin so */
    size_t count;
} learned;

/* A file of ids: the sentence over and over. */
static learned write_ids(const char *kind, const char *to) {
    char path[512];
    snprintf(path, sizeof path, "%s/tests/text/golden/%s.json", SNUG_ROOT, kind);
    struct stat about;
    tokenizer *t;
    tokenizer_work *w;
    tokenizer_ids ids;
    int file = open(path, O_RDONLY);
    assert_true(file >= 0 && fstat(file, &about) == 0);
    json_source source = json_file_source(&file, path, "the tokenizer", 0, (uint64_t)about.st_size);
    if (tokenizer_open(&source, &t) != STATUS_OK) fail_msg("%s", status_message());
    assert_int_equal(tokenizer_work_open(t, &w), STATUS_OK);
    assert_int_equal(tokenizer_encode(t, w, SENTENCE, strlen(SENTENCE), true, &ids), STATUS_OK);
    learned l = { tokenizer_size(t), tokenizer_bytes(t), ids.id[0], ids.count };
    command_write_ids(to, ids.id, ids.count, TIMES);
    close(file);
    tokenizer_work_close(w);
    tokenizer_close(t);
    return l;
}

/* A model that knows one sentence, with the tokenizer that it is of. */
static learned make_model(const char *kind) {
    char line[1024];
    learned l = write_ids(kind, "ids.u16");
    command_shell("rm -rf model known && mkdir model");
    snprintf(line, sizeof line,
             "echo '{\"model_type\": \"gpt2\", \"vocab_size\": %u, \"n_positions\": 256, \"n_embd\": 32, "
             "\"n_layer\": 2, \"n_head\": 2, \"embd_pdrop\": 0, \"attn_pdrop\": 0, \"resid_pdrop\": 0}' > "
             "model/config.json && cp %s/tests/text/golden/%s.json model/tokenizer.json",
             l.size, SNUG_ROOT, kind);
    command_shell("%s", line);
    command_expect(
        0, "train model --data ids.u16 --context 128 --batch 4 --steps 300 --lr 5e-3 --warmup 10 --quiet "
           "--eval-samples 1 --out known");
    return l;
}

/* People are told what the tokenizer takes where that is some of the plan. */
static void people_see_the_tokenizer(void **state) {
    (void)state;
    if (SANITIZED) skip(); /* beside what those take a tokenizer is next to nothing, and is not said */
    make_model(kinds[0]);
    assert_true(command_says("generate known --prompt D --tokens 1", 0, " of it the tokenizer's\n"));
    command_result r = command_run("generate known --data-kind bytes --prompt D --tokens 1");
    assert_int_equal(r.exit, 0);
    assert_false(command_has_words(r.err, "tokenizer"));
    command_free(&r);
}

/* It goes on with the sentence, letter for letter. */
static void what_it_says_is_text(void **state) {
    (void)state;
    for (int i = 0; i < KINDS; i++) {
        learned l = make_model(kinds[i]);
        char line[512];
        snprintf(line, sizeof line,
                 "generate known --prompt Dès --temperature 0 --tokens %zu --json --quiet --threads 2",
                 l.count);
        json_document d = command_json(line);
        const char *said = command_string(&d, "text"), *rest = SENTENCE + strlen("Dès");
        size_t same =
            strlen(rest) - 8; /* with `special` tokens before it the prompt may be longer than there */
        if (strncmp(said, rest, same < strlen(said) ? same : strlen(said)) != 0 || strlen(said) < same / 2)
            fail_msg("%s: '%s' goes on after 'Dès'", kinds[i], said);
        assert_true(command_number(&d, "prompt_tokens") >= 1 && command_number(&d, "prompt_tokens") < 12);
        assert_true(command_number(&d, "measured.peak_bytes") <= command_number(&d, "predicted.peak_bytes"));
        assert_true(command_number(&d, "predicted.language_bytes") > (double)l.bytes);
        assert_true(command_number(&d, "predicted.language_bytes") <
                    command_number(&d, "predicted.peak_bytes"));
        json_close(&d);
    }
}

/* With the token that it says in the end; which is no part of the text. */
static void it_ends_where_the_model_says_so(void **state) {
    (void)state;
    learned l = make_model("gpt2");
    char line[512];
    snprintf(line, sizeof line, "echo '{\"eos_token_id\": [%u, 1]}' > known/generation_config.json", l.first);
    command_shell("%s", line);
    json_document d = command_json("generate known --prompt Dès --temperature 0 --tokens 120 --json --quiet");
    assert_string_equal(command_string(&d, "end"), "end");
    assert_string_equal(command_string(&d, "text"), SENTENCE + strlen("Dès"));
    assert_int_equal(command_number(&d, "new_tokens"), l.count - command_number(&d, "prompt_tokens") + 1);
    json_close(&d);
    d = command_json("generate known --prompt Dès --temperature 0 --tokens 120 --stop zéphyr --json --quiet");
    assert_string_equal(command_string(&d, "end"), "stop");
    assert_string_equal(command_string(&d, "text"), " Noël, où un ");
    json_close(&d);
    command_result r =
        command_run("generate known --prompt Dès --prompt Noël --temperature 0 --tokens 9 --quiet");
    assert_int_equal(r.exit, 0);
    assert_non_null(strstr(r.out, "== 2 of 2 ==\nNoël"));
    command_free(&r);
}

/* Where a text ends within a letter, what is there of it is said as the library does. */
static void a_letter_may_be_cut_by_the_end(void **state) {
    (void)state;
    learned l = make_model("gpt2");
    int cut = 0;
    for (size_t tokens = l.count - 20; tokens < l.count; tokens++) {
        char line[256];
        snprintf(line, sizeof line, "generate known --prompt Dès --temperature 0 --tokens %zu --json --quiet",
                 tokens);
        json_document d = command_json(line);
        const char *said = command_string(&d, "text");
        size_t length = strlen(said);
        cut += length >= 3 && strcmp(said + length - 3, "\xef\xbf\xbd") == 0;
        json_close(&d);
    }
    if (cut < 3) fail_msg("only %d of 20 texts end within a letter", cut);
}

static void what_cannot_be_read_is_refused(void **state) {
    (void)state;
    assert_true(command_says("generate known --prompt=", 2, "an empty prompt"));
    assert_true(command_says("generate known --prompt \xff", 2, "UTF-8"));
    command_expect(0, "generate known --prompt De --data-kind bytes --tokens 2");
    command_shell("cp -r known broken && echo '{\"model\": 1}' > broken/tokenizer.json");
    assert_true(command_says("generate broken --prompt a", 2, "broken/tokenizer.json"));
    command_shell("cp -r known other && mv other/tokenizer.json other/tokenizer.model");
    assert_true(command_says("generate other --prompt a", 2, "tokenizer.model"));
    command_shell("cp -r known wider && cp " SNUG_ROOT "/tests/text/golden/xlmr.json wider/tokenizer.json");
    command_shell("sed -i 's/\"eos_token_id\": .*/\"eos_token_id\": \"two\"}/' wider/generation_config.json");
    assert_true(command_says("generate wider --prompt a", 2, "generation_config.json"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_it_says_is_text),
        cmocka_unit_test(people_see_the_tokenizer),
        cmocka_unit_test(it_ends_where_the_model_says_so),
        cmocka_unit_test(a_letter_may_be_cut_by_the_end),
        cmocka_unit_test(what_cannot_be_read_is_refused),
    };
    return cmocka_run_group_tests_name("words", tests, scratch_open, scratch_close);
}
