/* snug tokenize on chats in the forms of published templates (tests/text/published_forms.h): the tokens, and
 * which of them are learned. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/utf8.h"
#include "cli/command.h"
#include "io/safetensors.h"
#include "io/scratch.h"
#include "language/tokenizer_of.h"
#include "text/published_forms.h"

/* ---- the tokenizer: all bytes and some words ---- */

/* The letter that stands for a byte in byte-level tokenizers. */
static unsigned long letter_of(unsigned byte) {
    unsigned long next = 256;
    for (unsigned b = 0; b < 256; b++) {
        bool itself = (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
        if (b == byte) return itself ? b : next;
        next += !itself;
    }
    return 0;
}

static void put_text(FILE *file, const char *words, size_t length) {
    fputc('"', file);
    for (size_t i = 0; i < length; i++) {
        if (words[i] == '"' || words[i] == '\\') fputc('\\', file);
        if (words[i] == '\n')
            fputs("\\n", file);
        else
            fputc(words[i], file);
    }
    fputc('"', file);
}

static void write_tokenizer(const char *path) {
    FILE *file = fopen(path, "w");
    fprintf(
        file,
        "{\"version\": \"1.0\", \"added_tokens\": [], \"pre_tokenizer\": {\"type\": \"ByteLevel\", "
        "\"add_prefix_space\": false, \"trim_offsets\": false, \"use_regex\": true}, \"decoder\": {\"type\": "
        "\"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": false, \"use_regex\": true}, "
        "\"model\": {\"type\": \"BPE\", \"ignore_merges\": true, \"merges\": [], \"vocab\": {");
    for (unsigned b = 0; b < 256; b++) {
        char letter[4];
        size_t length = utf8_encode(letter_of(b), letter);
        put_text(file, letter, length);
        fprintf(file, ": %u, ", b);
    }
    size_t count = sizeof published_words / sizeof *published_words;
    for (size_t i = 0; i < count; i++) {
        put_text(file, published_words[i], strlen(published_words[i]));
        fprintf(file, ": %zu%s", 256 + i, i + 1 < count ? ", " : "}}}");
    }
    assert_int_equal(fclose(file), 0);
}

static void write_chat(const char *path, const char *const *said) {
    FILE *file = fopen(path, "w");
    fputs("{\"messages\": [", file);
    for (; *said; said++) {
        fprintf(file, "{\"role\": \"%s\", \"content\": ",
                **said == 's'   ? "system"
                : **said == 'u' ? "user"
                                : "assistant");
        put_text(file, *said + 1, strlen(*said) - 1);
        fputs(said[1] ? "}, " : "}]}\n", file);
    }
    assert_int_equal(fclose(file), 0);
}

/* ---- what comes out ---- */

/* As the file has it, but for blanks and ends of lines. */
static void add_token(char *out, const char *token, size_t bytes) {
    static const char blank[] = "Ġ", end[] = "Ċ";
    for (size_t i = 0; i < bytes; i++) {
        bool is_blank = i + 1 < bytes && memcmp(token + i, blank, 2) == 0,
             is_end = i + 1 < bytes && memcmp(token + i, end, 2) == 0;
        strncat(out, is_blank ? " " : is_end ? "\n" : token + i, 1);
        i += is_blank || is_end;
    }
}

static void show(const char *path, const text_list *markers, char *out) {
    safetensors s;
    wanted_tokens w;
    tokenizer *t;
    bool there;
    uint16_t ids[512];
    uint8_t learned[512];
    assert_int_equal(wanted_tokens_find("form", markers, &w), STATUS_OK);
    assert_int_equal(tokenizer_of_open_with("form", &w, &t, &there), STATUS_OK);
    assert_int_equal(safetensors_open(path, &s), STATUS_OK);
    const safetensors_entry *e = safetensors_find(&s, "tokens"), *l = safetensors_find(&s, "learned");
    assert_true(e->bytes <= sizeof ids && l->bytes == e->bytes / 2);
    assert_int_equal(safetensors_read_bytes(&s, e, 0, ids, e->bytes), STATUS_OK);
    assert_int_equal(safetensors_read_bytes(&s, l, 0, learned, l->bytes), STATUS_OK);
    *out = 0;
    for (size_t i = 0, was = 0; i < l->bytes; was = learned[i++]) {
        size_t bytes;
        const char *token = tokenizer_token(t, ids[i], &bytes);
        strcat(out, was && !learned[i] ? "»" : "");
        strcat(out, i ? "·" : "");
        strcat(out, learned[i] && !was ? "«" : "");
        add_token(out, token, bytes);
        if (learned[i] && i + 1 == l->bytes) strcat(out, "»");
    }
    safetensors_close(&s);
    tokenizer_close(t);
    wanted_tokens_close(&w);
}

static void tokens_of_published_forms(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof published_forms / sizeof *published_forms; i++) {
        const published_form *f = &published_forms[i];
        char line[1024] = "tokenize form --data chat.jsonl --out made.safetensors --quiet", markers[512],
             out[4096];
        text_list list = { 0 };
        snprintf(markers, sizeof markers, "%s", f->markers);
        for (char *rest, *m = strtok_r(markers, " ", &rest); m; m = strtok_r(NULL, " ", &rest)) {
            list.items[list.count++] = m;
            strcat(strcat(line, " --add-token "), m);
        }
        scratch_write("form/chat_template.jinja", f->bytes.template, strlen(f->bytes.template));
        write_chat("chat.jsonl", f->bytes.chat);
        command_expect(0, line);
        show("made.safetensors", &list, out);
        if (strcmp(out, f->tokens) != 0) fail_msg("%zu: %s\ninstead of %s", i, out, f->tokens);
    }
}

static int make_folder(void **state) {
    static const char told[] = "{\"eos_token\": \"</s>\"}";
    if (scratch_open(state) != 0 || mkdir("form", 0700) != 0) return -1;
    write_tokenizer("form/tokenizer.json");
    scratch_write("form/tokenizer_config.json", told, sizeof told - 1);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_of_published_forms),
    };
    return cmocka_run_group_tests(tests, make_folder, scratch_close);
}
