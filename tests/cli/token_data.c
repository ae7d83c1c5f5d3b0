#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/token_data.h"
#include "io/safetensors.h"
#include "io/scratch.h"
#include "language/tokenizer_of.h"

/* ---- model directories ---- */

static const char CONFIG[] =
    "{\"model_type\": \"llama\", \"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": 16, "
    "\"intermediate_size\": 32, \"num_hidden_layers\": 1, \"num_attention_heads\": 2, "
    "\"num_key_value_heads\": 2, \"max_position_embeddings\": 256, \"rms_norm_eps\": 1e-6, "
    "\"vocab_size\": 4096, \"tie_word_embeddings\": true}";
static const char TEMPLATE[] = "{% for m in messages %}<{{ m.role }}>{{ m.content }}</s>{% endfor %}"
                               "{% if add_generation_prompt %}<assistant>{% endif %}";

void tokens_model(const char *folder, const char *kind) {
    char path[256], told[] = "{\"eos_token\": \"</s>\"}";
    command_shell("rm -rf %s && mkdir %s && cp %s/tests/text/golden/%s.json %s/tokenizer.json", folder,
                  folder, SNUG_ROOT, kind, folder);
    snprintf(path, sizeof path, "%s/config.json", folder);
    scratch_write(path, CONFIG, sizeof CONFIG - 1);
    snprintf(path, sizeof path, "%s/tokenizer_config.json", folder);
    scratch_write(path, told, sizeof told - 1);
    snprintf(path, sizeof path, "%s/chat_template.jinja", folder);
    scratch_write(path, TEMPLATE, sizeof TEMPLATE - 1);
}

/* ---- documents ---- */

static const char *const words[] = { "snow",  "is",   "cold", "Zwölf", "naïve", "読む",  "42",
                                     "don't", "  ",   "\t",   "a",     "…",     "Größe", "\n",
                                     "x = 1", "मौसम", "I'll", "🙂",  "end.",  "of" };

static void add_words(FILE *file, uint64_t *random, uint32_t count, bool json) {
    for (uint32_t i = 0; i < count; i++) {
        const char *word = words[scratch_random(random) % (sizeof words / sizeof *words)];
        if (json && *word == '\t') word = "\\t";
        if (json && *word == '\n') word = "\\n";
        fprintf(file, "%s%s", i ? " " : "", word);
    }
}

void tokens_texts(const char *path, uint64_t count, uint32_t longest, uint64_t seed) {
    FILE *file = fopen(path, "wb");
    for (uint64_t d = 0; d < count; d++) {
        fprintf(file, "{\"id\": \"%llu\", \"text\": \"", (unsigned long long)d);
        add_words(file, &seed, scratch_random(&seed) % longest, true);
        fprintf(file, "\"}\n");
    }
    assert_int_equal(fclose(file), 0);
}

/* Texts of `letters` of them without a blank, between short ones. */
void tokens_unbroken(const char *path, const char *const *letters, uint32_t kinds, uint32_t bytes) {
    FILE *file = fopen(path, "wb");
    uint64_t random = 5;
    for (uint32_t d = 0; d < 12; d++) {
        fprintf(file, "{\"text\": \"");
        if (d % 4 == 2)
            for (uint32_t n = 0; n < bytes; n += (uint32_t)strlen(letters[0]))
                fputs(letters[scratch_random(&random) % kinds], file);
        else
            add_words(file, &random, 20, true);
        fprintf(file, "\"}\n");
    }
    assert_int_equal(fclose(file), 0);
}

void tokens_pairs(const char *path, uint64_t records, uint64_t seed) {
    FILE *file = fopen(path, "wb");
    for (uint64_t d = 0; d < records; d++) {
        fprintf(file, d % 2 ? "{\"completion\": \"" : "{\"prompt\": \"");
        add_words(file, &seed, 1 + scratch_random(&seed) % 9, true);
        fprintf(file, d % 2 ? "\", \"prompt\": \"" : "\", \"completion\": \"");
        add_words(file, &seed, 1 + scratch_random(&seed) % 9, true);
        fprintf(file, "\"}\n");
    }
    assert_int_equal(fclose(file), 0);
}

void tokens_chats(const char *path, uint64_t records, const char *const names[3], uint64_t seed) {
    FILE *file = fopen(path, "wb");
    for (uint64_t d = 0; d < records; d++) {
        uint32_t turns = 1 + scratch_random(&seed) % 4;
        fprintf(file, "{\"%s\": [", names[0]);
        for (uint32_t t = 0; t < 2 * turns; t++) {
            const char *role = *names[1] == 'r' ? (t % 2 ? "assistant" : "user") : (t % 2 ? "gpt" : "human");
            fprintf(file, "%s{\"%s\": \"%s\", \"%s\": \"", t ? ", " : "", names[1], role, names[2]);
            add_words(file, &seed, 1 + scratch_random(&seed) % 9, true);
            fprintf(file, "\"}");
        }
        fprintf(file, "]}\n");
    }
    assert_int_equal(fclose(file), 0);
}

/* ---- what was made ---- */

void tokens_read(const char *path, tokens_made *m) {
    safetensors s;
    if (safetensors_open(path, &s) != STATUS_OK) fail_msg("%s", status_message());
    const safetensors_entry *tokens = safetensors_find(&s, "tokens"), *ends = safetensors_find(&s, "ends"),
                            *learned = safetensors_find(&s, "learned");
    *m = (tokens_made){ .count = (uint64_t)tokens->dim[0],
                        .documents = (uint64_t)ends->dim[0],
                        .masks = learned };
    m->tokens = calloc(m->count, 4), m->learned = calloc(m->count, 1), m->ends = calloc(m->documents, 8);
    assert_int_equal(safetensors_read_bytes(&s, tokens, 0, m->tokens, tokens->bytes), STATUS_OK);
    assert_int_equal(safetensors_read_bytes(&s, ends, 0, m->ends, ends->bytes), STATUS_OK);
    if (learned)
        assert_int_equal(safetensors_read_bytes(&s, learned, 0, m->learned, learned->bytes), STATUS_OK);
    if (strcmp(tokens->dtype, "U16") == 0)
        for (uint64_t i = m->count; i-- > 0;) m->tokens[i] = ((uint16_t *)m->tokens)[i];
    safetensors_close(&s);
}

void tokens_free(tokens_made *m) { free(m->tokens), free(m->learned), free(m->ends); }

void tokens_open(const char *folder, const char *path, tokens_checker *c) {
    bool there;
    if (tokenizer_of_open(folder, &c->tokenizer, &there) != STATUS_OK) fail_msg("%s", status_message());
    assert_int_equal(tokenizer_take_whole(c->tokenizer), STATUS_OK);
    assert_int_equal(tokenizer_work_open(c->tokenizer, &c->work), STATUS_OK);
    c->end = tokenizer_id(c->tokenizer, "</s>", 4);
    tokens_read(path, &c->made);
    c->made.at = 0;
}

void tokens_close(tokens_checker *c) {
    assert_int_equal(c->made.at, c->made.documents);
    tokens_free(&c->made);
    tokenizer_work_close(c->work);
    tokenizer_close(c->tokenizer);
}

/* The next document: these ids, of which those from `learned` on are learned. */
void tokens_expect(tokens_checker *c, const uint32_t *ids, size_t count, size_t learned) {
    tokens_made *m = &c->made;
    if (!count) return;
    assert_true(m->at < m->documents);
    uint64_t first = m->at ? m->ends[m->at - 1] : 0;
    assert_int_equal(m->ends[m->at] - first, count);
    for (size_t i = 0; i < count; i++) {
        if (m->tokens[first + i] != ids[i])
            fail_msg("token %zu of document %llu is %u and not %u", i, (unsigned long long)m->at,
                     m->tokens[first + i], ids[i]);
        if (m->masks) assert_int_equal(m->learned[first + i], i >= learned);
    }
    m->at++;
}

/* A text as the tokenizer frames it; the model's end behind it where it puts nothing there. */
size_t tokens_frame(tokens_checker *c, const char *words_of, size_t bytes, uint32_t *out) {
    tokenizer_ids ids;
    if (tokenizer_encode(c->tokenizer, c->work, words_of, bytes, true, &ids) != STATUS_OK)
        fail_msg("%s", status_message());
    if (ids.count) memcpy(out, ids.id, ids.count * sizeof *out);
    size_t count = ids.count;
    assert_int_equal(tokenizer_encode(c->tokenizer, c->work, "a", 1, true, &ids), STATUS_OK);
    uint32_t last = ids.id[ids.count - 1];
    assert_int_equal(tokenizer_encode(c->tokenizer, c->work, "a", 1, false, &ids), STATUS_OK);
    if (last == ids.id[ids.count - 1] && c->end != TOKENIZER_NONE) out[count++] = c->end;
    return count;
}

/* The value of a string member in a line that this test has written, its escapes undone. */
size_t tokens_member(const char *line, const char *name, char *out) {
    char key[40];
    snprintf(key, sizeof key, "\"%s\": \"", name);
    const char *at = strstr(line, key) + strlen(key);
    size_t n = 0;
    for (; *at != '"'; at++) {
        out[n] = *at;
        if (*at == '\\') out[n] = *++at == 't' ? '\t' : '\n';
        n++;
    }
    return n;
}

static uint32_t expected[TOKENS_MOST];
static char line[4 << 20], value[4 << 20];

void tokens_check(const char *folder, const char *data, const char *path) {
    tokens_checker c = { 0 };
    FILE *file = fopen(data, "rb");
    tokens_open(folder, path, &c);
    while (fgets(line, sizeof line, file)) {
        size_t bytes = tokens_member(line, "text", value);
        tokens_expect(&c, expected, tokens_frame(&c, value, bytes, expected), 0);
    }
    fclose(file);
    tokens_close(&c);
}

void tokens_make(const char *folder, const char *data, const char *rest, const char *out) {
    char call[512];
    snprintf(call, sizeof call, "tokenize %s --data %s --out %s --quiet %s", folder, data, out, rest);
    command_expect(0, call);
}
