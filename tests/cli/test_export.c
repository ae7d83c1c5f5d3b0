/* snug export as a user has it: which tensor became which, in which order and type; which words the tokenizer
 * got; and what is refused, by name, before a byte is written. That llama.cpp draws the same tokens is looked
 * at where there is one (tests/cli/test_export_live.sh). */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/half.h"
#include "cli/command.h"
#include "golden/gguf_reader.h"
#include "io/safetensors.h"
#include "io/scratch.h"

#define GOLDEN SNUG_ROOT "/tests/text/golden/"
#define SIZES                                                                                                \
    "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"hidden_size\": "    \
    "32, "                                                                                                   \
    "\"intermediate_size\": 48, \"max_position_embeddings\": 64"
#define LLAMA "{\"model_type\": \"llama\", " SIZES ", \"vocab_size\": 400"

/* A model directory of that configuration with weights, as if it had been trained. */
static void make_model(const char *name, const char *config) {
    char path[128], line[256];
    snprintf(path, sizeof path, "made-%s", name);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "made-%s/config.json", name);
    scratch_write(path, config, strlen(config));
    snprintf(line, sizeof line,
             "train made-%s --data text --data-kind bytes --out %s --steps 1 --batch 2 --context 8 --quiet",
             name, name);
    command_expect(0, line);
}

static int make_models(void **state) {
    if (scratch_open(state) != 0) return -1;
    command_make_files();
    make_model("bytes", "{\"model_type\": \"gpt2\", \"n_layer\": 2, \"n_head\": 2, \"n_embd\": 32, "
                        "\"n_positions\": 32, \"vocab_size\": 260, \"layer_norm_epsilon\": 0.001}");
    make_model("llama",
               LLAMA ", \"rms_norm_eps\": 0.002, \"rope_theta\": 5000, \"tie_word_embeddings\": false}");
    command_shell("cp " GOLDEN "gpt2.json llama/tokenizer.json");
    command_expect(0, "train bytes --data text --out adapter --lora rank=2 --steps 1 --context 8 --quiet");
    return 0;
}

static gguf_reader *exported(const char *line) {
    char whole[256];
    const char *why;
    snprintf(whole, sizeof whole, "export %s --to gguf --out x.gguf --quiet", line);
    unlink("x.gguf");
    command_expect(0, whole);
    gguf_reader *r = gguf_reader_open("x.gguf", &why);
    if (!r) fail_msg("%s: %s", line, why);
    assert_int_equal(gguf_reader_u32(r, "general.architecture"), UINT32_MAX); /* it is a text */
    return r;
}

/* ---- numbers ---- */

typedef struct {
    float *x;
    int64_t rows, columns;
} matrix;

static matrix tensor_of(const char *directory, const char *name) {
    safetensors s;
    assert_int_equal(safetensors_open(directory, &s), STATUS_OK);
    const safetensors_entry *e = safetensors_find(&s, name);
    if (!e) fail_msg("no %s", name);
    matrix m = { malloc(e->bytes), e->dim[0], e->rank > 1 ? e->dim[1] : 1 };
    assert_int_equal(safetensors_read(&s, e, m.x, e->bytes), STATUS_OK);
    safetensors_close(&s);
    return m;
}

enum { F32 = 0, F16 = 1, Q8_0 = 8, BF16 = 30 };

/* How far a number of the file may be from the model's. */
static float error_of(uint32_t type, const float *row, int64_t i, int64_t columns) {
    float largest = 0;
    if (type == F32) return 0;
    if (type == F16) return fabsf(row[i]) * 0x1p-11f + 0x1p-25f;
    if (type == BF16) return fabsf(row[i]) * 0x1p-8f;
    for (int64_t k = i / 32 * 32; k < i / 32 * 32 + 32 && k < columns; k++)
        largest = fmaxf(largest, fabsf(row[k]));
    return largest / 127 * 0.51f + largest * 0x1p-11f;
}

/* Row `source(r)` of the model is row r of the file. */
static void same_rows(const gguf_reader *r, const char *name, uint32_t type, const matrix *m,
                      int64_t (*source)(int64_t row, int64_t rows)) {
    const gguf_reader_tensor *t = gguf_reader_tensor_of(r, name);
    if (!t || t->type != type) fail_msg("%s: %s", name, t ? "of another type" : "is missing");
    bool vector = t->rank == 1;
    assert_int_equal(t->dim[0], vector ? m->rows : m->columns);
    if (!vector) assert_int_equal(t->dim[1], m->rows);
    for (int64_t row = 0; row < m->rows; row++) {
        const float *x = m->x + (source ? source(row, m->rows) : row) * m->columns;
        for (int64_t i = 0; i < m->columns; i++) {
            float is = gguf_reader_number(t, (uint64_t)(row * m->columns + i));
            if (!(fabsf(is - x[i]) <= error_of(type, x, i, m->columns)))
                fail_msg("%s[%d,%d]: %g became %g", name, (int)row, (int)i, (double)x[i], (double)is);
        }
    }
}

static void expect_rows(const gguf_reader *r, const char *name, uint32_t type, const char *directory,
                        const char *parameter, int64_t (*source)(int64_t row, int64_t rows)) {
    matrix m = tensor_of(directory, parameter);
    same_rows(r, name, type, &m, source);
    free(m.x);
}

static matrix turned(matrix m) {
    matrix t = { malloc((size_t)(m.rows * m.columns) * sizeof(float)), m.columns, m.rows };
    for (int64_t i = 0; i < m.rows; i++)
        for (int64_t k = 0; k < m.columns; k++) t.x[k * m.rows + i] = m.x[i * m.columns + k];
    free(m.x);
    return t;
}

/* Of heads of 8 rows: 0 4 1 5 2 6 3 7. */
static int64_t paired(int64_t row, int64_t rows) {
    (void)rows;
    static const int64_t order[] = { 0, 4, 1, 5, 2, 6, 3, 7 };
    return row / 8 * 8 + order[row % 8];
}

static const struct {
    const char *word;
    uint32_t type, file;
} types[] = { { "f32", F32, 0 }, { "f16", F16, 1 }, { "bf16", BF16, 32 }, { "q8_0", Q8_0, 7 } };
enum { TYPES = sizeof types / sizeof *types };

static void gpt2_is_turned(void **state) {
    (void)state;
    static const char *const products[][2] = { { "attn_qkv", "attn.c_attn" },
                                               { "attn_output", "attn.c_proj" },
                                               { "ffn_up", "mlp.c_fc" },
                                               { "ffn_down", "mlp.c_proj" } };
    for (int k = 0; k < TYPES; k++) {
        char line[64], name[64], parameter[64];
        snprintf(line, sizeof line, "bytes --dtype %s", types[k].word);
        gguf_reader *r = exported(line);
        assert_int_equal(gguf_reader_u32(r, "general.file_type"), types[k].file);
        assert_int_equal(gguf_reader_u32(r, "general.quantization_version"), k == 3 ? 2 : UINT32_MAX);
        for (int i = 0; i < 8; i++) {
            snprintf(name, sizeof name, "blk.%d.%s.weight", i / 4, products[i % 4][0]);
            snprintf(parameter, sizeof parameter, "transformer.h.%d.%s.weight", i / 4, products[i % 4][1]);
            matrix m = turned(tensor_of("bytes", parameter));
            same_rows(r, name, types[k].type, &m, NULL);
            free(m.x);
            snprintf(name, sizeof name, "blk.%d.%s.bias", i / 4, products[i % 4][0]);
            snprintf(parameter, sizeof parameter, "transformer.h.%d.%s.bias", i / 4, products[i % 4][1]);
            expect_rows(r, name, F32, "bytes", parameter, NULL);
        }
        expect_rows(r, "token_embd.weight", types[k].type, "bytes", "transformer.wte.weight", NULL);
        expect_rows(r, "position_embd.weight", F32, "bytes", "transformer.wpe.weight", NULL);
        expect_rows(r, "blk.1.ffn_norm.bias", F32, "bytes", "transformer.h.1.ln_2.bias", NULL);
        assert_null(gguf_reader_tensor_of(r, "output.weight")); /* tied */
        assert_int_equal(r->tensors, 2 + 2 + 2 * 12);
        gguf_reader_close(r);
    }
}

static void neighbours_are_turned_together_in_llama(void **state) {
    (void)state;
    gguf_reader *r = exported("llama --dtype f32");
    expect_rows(r, "blk.1.attn_q.weight", F32, "llama", "model.layers.1.self_attn.q_proj.weight", paired);
    expect_rows(r, "blk.1.attn_k.weight", F32, "llama", "model.layers.1.self_attn.k_proj.weight", paired);
    expect_rows(r, "blk.1.attn_v.weight", F32, "llama", "model.layers.1.self_attn.v_proj.weight", NULL);
    expect_rows(r, "blk.0.ffn_gate.weight", F32, "llama", "model.layers.0.mlp.gate_proj.weight", NULL);
    expect_rows(r, "output.weight", F32, "llama", "lm_head.weight", NULL);
    expect_rows(r, "output_norm.weight", F32, "llama", "model.norm.weight", NULL);
    assert_true(gguf_reader_says(r, "general.architecture", "llama"));
    assert_int_equal(gguf_reader_u32(r, "llama.block_count"), 2);
    assert_int_equal(gguf_reader_u32(r, "llama.context_length"), 64);
    assert_int_equal(gguf_reader_u32(r, "llama.attention.head_count_kv"), 2);
    assert_int_equal(gguf_reader_u32(r, "llama.rope.dimension_count"), 8);
    assert_true(gguf_reader_f32(r, "llama.rope.freq_base") == 5000);
    assert_true(gguf_reader_f32(r, "llama.attention.layer_norm_rms_epsilon") == 0.002f);
    gguf_reader_close(r);
}

/* 48 numbers are no whole blocks: those tensors are of 16 bits, and that is said. */
static void odd_rows_are_of_16_bits(void **state) {
    (void)state;
    gguf_reader *r = exported("llama --dtype q8_0");
    expect_rows(r, "blk.0.ffn_down.weight", F16, "llama", "model.layers.0.mlp.down_proj.weight", NULL);
    expect_rows(r, "blk.0.ffn_up.weight", Q8_0, "llama", "model.layers.0.mlp.up_proj.weight", NULL);
    gguf_reader_close(r);
    unlink("odd.gguf");
    assert_true(command_says("export llama --to gguf --dtype q8_0 --out odd.gguf", 0,
                             "2 tensors are F16: rows of Q8_0 are whole blocks of 32 numbers"));
}

static void heads_that_are_tied_are_copied_where_they_must_be(void **state) {
    (void)state;
    make_model("neox", "{\"model_type\": \"gpt_neox\", " SIZES
                       ", \"vocab_size\": 256, \"tie_word_embeddings\": true, \"num_key_value_heads\": 4, "
                       "\"rotary_pct\": 0.5}");
    gguf_reader *r = exported("neox --dtype f32");
    expect_rows(r, "token_embd.weight", F32, "neox", "gpt_neox.embed_in.weight", NULL);
    expect_rows(r, "output.weight", F32, "neox", "gpt_neox.embed_in.weight", NULL);
    matrix m = tensor_of("neox", "gpt_neox.layers.0.attention.query_key_value.bias");
    const gguf_reader_tensor *t = gguf_reader_tensor_of(r, "blk.0.attn_qkv.bias");
    for (uint64_t i = 0; i < 96; i++) { /* of 4 heads of 8: all q, all k, all v */
        uint64_t which = i / 32, head = i % 32 / 8;
        assert_true(gguf_reader_number(t, i) == m.x[head * 24 + which * 8 + i % 8]);
    }
    free(m.x);
    assert_int_equal(gguf_reader_u32(r, "gptneox.rope.dimension_count"), 4);
    gguf_reader_close(r);
}

/* Rows of more numbers than pass through at a time. */
static void long_rows_pass_as_well(void **state) {
    (void)state;
    enum { LONG = (1 << 20) + 32, ITEMS = 16 };
    static const char config[] = "{\"model_type\": \"gpt2\", \"n_layer\": 1, \"n_head\": 1, \"n_embd\": 2, "
                                 "\"n_positions\": 8, \"n_inner\": 1048608, \"vocab_size\": 256}";
    static const struct {
        const char *name;
        int64_t rows, columns; /* columns 0: a vector */
    } of[ITEMS] = { { "wte.weight", 256, 2 },
                    { "wpe.weight", 8, 2 },
                    { "ln_f.weight", 2, 0 },
                    { "ln_f.bias", 2, 0 },
                    { "h.0.ln_1.weight", 2, 0 },
                    { "h.0.ln_1.bias", 2, 0 },
                    { "h.0.ln_2.weight", 2, 0 },
                    { "h.0.ln_2.bias", 2, 0 },
                    { "h.0.attn.c_attn.weight", 2, 6 },
                    { "h.0.attn.c_attn.bias", 6, 0 },
                    { "h.0.attn.c_proj.weight", 2, 2 },
                    { "h.0.attn.c_proj.bias", 2, 0 },
                    { "h.0.mlp.c_fc.weight", 2, LONG },
                    { "h.0.mlp.c_fc.bias", LONG, 0 },
                    { "h.0.mlp.c_proj.weight", LONG, 2 },
                    { "h.0.mlp.c_proj.bias", 2, 0 } };
    safetensors_item items[ITEMS];
    uint16_t *numbers = malloc(4 * LONG);
    for (int i = 0; i < 2 * LONG; i++) numbers[i] = (uint16_t)(0x3f80 + i % 97); /* BF16, near 1 */
    for (int i = 0; i < ITEMS; i++) {
        int64_t count = of[i].rows * (of[i].columns ? of[i].columns : 1);
        items[i] = (safetensors_item){ .name = of[i].name, .dtype = "BF16", .data = numbers };
        items[i].shape = of[i].columns ? SHAPE(of[i].rows, of[i].columns) : SHAPE(of[i].rows);
        items[i].bytes = 2 * (uint64_t)count;
    }
    mkdir("long", 0700);
    scratch_write("long/config.json", config, sizeof config - 1);
    assert_int_equal(safetensors_write("long/model.safetensors", items, ITEMS), STATUS_OK);
    gguf_reader *r = exported("long --dtype bf16");
    const gguf_reader_tensor *down = gguf_reader_tensor_of(r, "blk.0.ffn_down.weight"),
                             *up = gguf_reader_tensor_of(r, "blk.0.ffn_up.weight");
    assert_true(down->dim[0] == LONG && down->dim[1] == 2 && up->dim[0] == 2 && up->dim[1] == LONG);
    for (uint64_t i = 0; i < LONG; i += 1009)
        for (uint64_t k = 0; k < 2; k++) {
            assert_true(gguf_reader_number(down, k * LONG + i) == half_from_bf16(numbers[2 * i + k]));
            assert_true(gguf_reader_number(up, 2 * i + k) == half_from_bf16(numbers[k * LONG + i]));
        }
    gguf_reader_close(r);
    free(numbers);
}

/* ---- words ---- */

static void bytes_are_tokens_where_there_is_no_tokenizer(void **state) {
    (void)state;
    gguf_reader *r = exported("bytes");
    assert_true(gguf_reader_says(r, "tokenizer.ggml.model", "rwkv"));
    assert_true(gguf_reader_item(r, "tokenizer.ggml.tokens", 0, "\\x00"));
    assert_true(gguf_reader_item(r, "tokenizer.ggml.tokens", 255, "\\xff"));
    assert_true(gguf_reader_item(r, "tokenizer.ggml.tokens", 259, "\\xff<259>"));
    assert_int_equal(gguf_reader_find(r, "tokenizer.ggml.tokens")->count, 260);
    assert_null(gguf_reader_find(r, "tokenizer.ggml.eos_token_id"));
    gguf_reader_close(r);
    unlink("n.gguf");
    assert_true(
        command_says("export bytes --to gguf --out n.gguf", 0, "tokens 0 to 255 are bytes in the file"));
    unlink("n.gguf"); /* of 32 positions */
    assert_true(command_says("export bytes --to gguf --out n.gguf", 0, "trained on samples of 8 tokens"));
}

/* The vocabulary has 380 tokens and the model 400. */
static void what_has_no_token_is_named(void **state) {
    (void)state;
    gguf_reader *r = exported("llama");
    assert_true(gguf_reader_says(r, "tokenizer.ggml.model", "gpt2"));
    assert_true(gguf_reader_says(r, "tokenizer.ggml.pre", "gpt-2"));
    assert_int_equal(gguf_reader_find(r, "tokenizer.ggml.tokens")->count, 400);
    assert_int_equal(gguf_reader_find(r, "tokenizer.ggml.token_type")->count, 400);
    assert_true(gguf_reader_item(r, "tokenizer.ggml.tokens", 399, "[PAD399]"));
    assert_true(gguf_reader_item(r, "tokenizer.ggml.token_type", 399, "5"));
    assert_true(gguf_reader_item(r, "tokenizer.ggml.tokens", 379, "<|endoftext|>") ||
                gguf_reader_item(r, "tokenizer.ggml.tokens", 0, "<|endoftext|>"));
    assert_int_equal(gguf_reader_find(r, "tokenizer.ggml.merges")->count, 123);
    assert_int_equal(gguf_reader_u32(r, "tokenizer.ggml.add_bos_token"), 0);
    assert_int_equal(gguf_reader_u32(r, "tokenizer.ggml.eos_token_id"), 380); /* which is never used */
    gguf_reader_close(r);
}

static void a_vocabulary_that_is_larger_is_refused(void **state) {
    (void)state;
    make_model("short", "{\"model_type\": \"llama\", " SIZES ", \"vocab_size\": 379}");
    command_shell("cp " GOLDEN "gpt2.json short/tokenizer.json");
    assert_true(command_says("export short --to gguf --out never.gguf", 2,
                             "short/tokenizer.json has tokens up to the id 379, and the model has 379"));
}

static void what_is_said_of_tokens_is_carried(void **state) {
    (void)state;
    static const char config[] =
        "{\"bos_token\": null, \"eos_token\": {\"content\": \"<|endoftext|>\", \"lstrip\": false}, "
        "\"added_tokens_decoder\": {\"0\": {\"content\": \"x\"}}, "
        "\"chat_template\": [{\"template\": \"{{ 'caf\\u00e9' }}\", \"name\": \"default\"}, "
        "{\"name\": \"tools\", \"template\": \"no\"}]}";
    command_shell("rm -rf said && cp -r llama said");
    scratch_write("said/tokenizer_config.json", config, sizeof config - 1);
    gguf_reader *r = exported("said");
    assert_true(gguf_reader_says(r, "tokenizer.chat_template", "{{ 'caf\xc3\xa9' }}"));
    uint32_t end = gguf_reader_u32(r, "tokenizer.ggml.eos_token_id");
    assert_true(end < 380 && gguf_reader_item(r, "tokenizer.ggml.tokens", end, "<|endoftext|>"));
    assert_true(gguf_reader_item(r, "tokenizer.ggml.token_type", end, "3"));
    assert_int_equal(gguf_reader_u32(r, "tokenizer.ggml.bos_token_id"), end);
    gguf_reader_close(r);
    char ends[64];
    int length = snprintf(ends, sizeof ends, "{\"eos_token_id\": [5, %u, 7, 5]}", (unsigned)end);
    scratch_write("said/generation_config.json", ends, (size_t)length);
    r = exported("said");
    assert_int_equal(gguf_reader_u32(r, "tokenizer.ggml.eos_token_id"), end);
    assert_int_equal(gguf_reader_u32(r, "tokenizer.ggml.eot_token_id"), 5);
    assert_int_equal(gguf_reader_u32(r, "tokenizer.ggml.eom_token_id"), 7);
    gguf_reader_close(r);
    scratch_write("said/chat_template.jinja", "of the file", 11);
    r = exported("said");
    assert_true(gguf_reader_says(r, "tokenizer.chat_template", "of the file"));
    gguf_reader_close(r);
    scratch_write("said/tokenizer_config.json", "{\"eos_token\": \"<nothing>\"}", 26);
    assert_true(
        command_says("export said --to gguf --out never.gguf", 2,
                     "said names the token '<nothing>' as its eos_token, which the tokenizer has not"));
}

/* Ids stand in two files; that of generating counts before the model's where it says one of them. */
static void ids_are_those_of_the_configurations(void **state) {
    (void)state;
    static const struct {
        const char *generation;
        uint32_t begin, end[3];
    } cases[] = { { "{}", 7, { 5, 6, UINT32_MAX } },
                  { "{\"bos_token_id\": 9}", 7, { 5, 6, UINT32_MAX } },
                  { "{\"eos_token_id\": 8}", 7, { 8, UINT32_MAX, UINT32_MAX } },
                  { "{\"eos_token_id\": 8, \"bos_token_id\": 9}", 9, { 8, UINT32_MAX, UINT32_MAX } },
                  { "{\"eos_token_id\": [10, 11, 12]}", 7, { 10, 11, 12 } },
                  { "{\"eos_token_id\": [10, 11, 12, 13, 14, 15]}", 7, { 10, 11, 12 } } };
    command_shell("rm -rf ids && cp -r llama ids && sed -i -e '/_token_id/d' -e '1s/{/{\"bos_token_id\": 7, "
                  "\"eos_token_id\": [5, 6],/' ids/config.json");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static const char *const keys[] = { "tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                            "tokenizer.ggml.eom_token_id" };
        scratch_write("ids/generation_config.json", cases[i].generation, strlen(cases[i].generation));
        gguf_reader *r = exported("ids");
        assert_int_equal(gguf_reader_u32(r, "tokenizer.ggml.bos_token_id"), cases[i].begin);
        for (int e = 0; e < 3; e++) assert_int_equal(gguf_reader_u32(r, keys[e]), cases[i].end[e]);
        gguf_reader_close(r);
    }
    unlink("x.gguf");
    assert_true(command_says("export ids --to gguf --out x.gguf", 0,
                             "of the tokens that end a text the file names 3; others do not end one there"));
}

/* Where transformers looks for special tokens they are looked for: the older file of them, and the class,
 * whose usual ones count only where the tokenizer has them. */
static void tokens_are_looked_for_as_elsewhere(void **state) {
    (void)state;
    static const char map[] = "{\"eos_token\": \"<|endoftext|>\", \"pad_token\": {\"content\": \"!\"}}",
                      older[] = "{\"tokenizer_class\": \"GPT2TokenizerFast\"}",
                      other[] = "{\"tokenizer_class\": \"LlamaTokenizer\"}";
    command_shell("rm -rf older && cp -r llama older");
    scratch_write("older/special_tokens_map.json", map, sizeof map - 1);
    gguf_reader *r = exported("older");
    uint32_t end = gguf_reader_u32(r, "tokenizer.ggml.eos_token_id"),
             padding = gguf_reader_u32(r, "tokenizer.ggml.padding_token_id");
    assert_true(gguf_reader_item(r, "tokenizer.ggml.tokens", end, "<|endoftext|>"));
    assert_true(gguf_reader_item(r, "tokenizer.ggml.tokens", padding, "!"));
    gguf_reader_close(r);
    command_shell("rm older/special_tokens_map.json");
    scratch_write("older/tokenizer_config.json", older, sizeof older - 1);
    r = exported("older");
    assert_int_equal(gguf_reader_u32(r, "tokenizer.ggml.eos_token_id"), end);
    assert_int_equal(gguf_reader_u32(r, "tokenizer.ggml.bos_token_id"), end);
    gguf_reader_close(r);
    scratch_write("older/tokenizer_config.json", other, sizeof other - 1);
    r = exported("older");
    assert_int_equal(gguf_reader_u32(r, "tokenizer.ggml.eos_token_id"), 380); /* which is never used */
    gguf_reader_close(r);
}

/* What stands before a text is looked at, not what the file says of it. */
static void what_begins_a_text_is_found(void **state) {
    (void)state;
    command_shell("rm -rf begun && cp -r llama begun && cp " GOLDEN "llama3.json begun/tokenizer.json");
    gguf_reader *r = exported("begun");
    assert_true(gguf_reader_says(r, "tokenizer.ggml.pre", "llama-bpe"));
    assert_int_equal(gguf_reader_u32(r, "tokenizer.ggml.add_bos_token"), 1);
    assert_int_equal(gguf_reader_u32(r, "tokenizer.ggml.add_eos_token"), 0);
    uint32_t begin = gguf_reader_u32(r, "tokenizer.ggml.bos_token_id");
    assert_true(gguf_reader_item(r, "tokenizer.ggml.tokens", begin, "<|begin_of_text|>"));
    gguf_reader_close(r);
    command_shell("sed -i 's/\"invert\": *false/\"invert\": true/' begun/tokenizer.json");
    assert_true(
        command_says("export begun --to gguf --out never.gguf", 2, "no pre_tokenizer with ignore_merges"));
    command_shell("sed 's/\"add_prefix_space\": *false/\"add_prefix_space\": true/' " GOLDEN
                  "gpt2.json >begun/tokenizer.json");
    assert_true(command_says("export begun --to gguf --out never.gguf", 2, "no pre_tokenizer like this one"));
}

/* Names that stand for nothing: where they are tokens already, where there are none left, and of a model. */
static void names_mean_what_they_say(void **state) {
    (void)state;
    command_shell("rm -rf named && cp -r llama named && sed 's/<|endoftext|>/[PAD399]/g' " GOLDEN
                  "gpt2.json >named/tokenizer.json");
    gguf_reader *r = exported("named");
    assert_true(gguf_reader_says(r, "general.name", "named"));
    assert_true(gguf_reader_item(r, "tokenizer.ggml.tokens", 399, "[PAD399]_"));
    assert_true(gguf_reader_item(r, "tokenizer.ggml.tokens", 398, "[PAD398]"));
    gguf_reader_close(r);
    command_shell(
        "rm -rf my-Phi-3 && cp -r llama my-Phi-3"); /* llama.cpp would look for tokens that are not there */
    r = exported("my-Phi-3/");
    assert_null(gguf_reader_find(r, "general.name"));
    gguf_reader_close(r);
    make_model("whole", "{\"model_type\": \"llama\", " SIZES ", \"vocab_size\": 380}");
    command_shell("cp " GOLDEN "gpt2.json whole/tokenizer.json");
    assert_true(command_says("export whole --to gguf --out never.gguf", 2, "nothing says which token of"));
}

/* Scores go by the order of merges, and a text of SentencePiece's begins with a blank. */
static void characters_have_scores(void **state) {
    (void)state;
    FILE *f = fopen("sp.json", "w");
    fprintf(
        f,
        "{\"version\": \"1.0\", \"truncation\": null, \"padding\": null, \"added_tokens\": ["
        "{\"id\": 0, \"content\": \"<unk>\", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, "
        "\"normalized\": false, \"special\": true}, {\"id\": 263, \"content\": \"a\\u2581b\", "
        "\"single_word\": false, \"lstrip\": true, \"rstrip\": false, \"normalized\": false, "
        "\"special\": false}], \"normalizer\": {\"type\": \"Sequence\", "
        "\"normalizers\": [{\"type\": \"Prepend\", \"prepend\": \"\\u2581\"}, {\"type\": \"Replace\", "
        "\"pattern\": {\"String\": \" \"}, \"content\": \"\\u2581\"}]}, \"pre_tokenizer\": null, "
        "\"post_processor\": null, \"decoder\": null, \"model\": {\"type\": \"BPE\", \"unk_token\": "
        "\"<unk>\", \"fuse_unk\": true, \"byte_fallback\": true, \"vocab\": {\"<unk>\": 0");
    for (unsigned b = 0; b < 256; b++) fprintf(f, ", \"<0x%02X>\": %u", b, b + 1);
    fprintf(
        f, ", \"\\u2581\": 257, \"a\": 258, \"b\": 259, \"ab\": 260, \"\\u2581a\": 261, \"\\u2581ab\": 262}, "
           "\"merges\": [\"a b\", [\"\\u2581\", \"a\"], \"\\u2581 ab\", \"\\u2581a b\"]}}");
    fclose(f);
    command_shell("rm -rf sp && cp -r llama sp && cp sp.json sp/tokenizer.json");
    gguf_reader *r = exported("sp");
    assert_true(gguf_reader_says(r, "tokenizer.ggml.model", "llama"));
    assert_true(gguf_reader_item(r, "tokenizer.ggml.scores", 260, "-1"));
    assert_true(gguf_reader_item(r, "tokenizer.ggml.scores", 261, "-2"));
    assert_true(gguf_reader_item(r, "tokenizer.ggml.scores", 262, "-3"));
    assert_true(gguf_reader_item(r, "tokenizer.ggml.token_type", 0, "2"));
    assert_true(gguf_reader_item(r, "tokenizer.ggml.token_type", 66, "6"));
    assert_true(gguf_reader_item(r, "tokenizer.ggml.token_type", 260, "1"));
    assert_true(gguf_reader_item(r, "tokenizer.ggml.token_type", 263, "4"));
    assert_true(gguf_reader_item(r, "tokenizer.ggml.tokens", 263, "a b")); /* looked for among blanks */
    assert_int_equal(gguf_reader_u32(r, "tokenizer.ggml.add_space_prefix"), 1);
    assert_null(gguf_reader_find(r, "tokenizer.ggml.merges"));
    gguf_reader_close(r);
    unlink("n.gguf");
    assert_true(command_says("export sp --to gguf --out n.gguf", 0, "1 added tokens look at the blanks"));
    /* A pair that is not merged, and one whose merges stand apart. */
    command_shell("sed -i 's/, \"\\\\u2581a b\"\\]/]/' sp/tokenizer.json");
    assert_true(command_says("export sp --to gguf --out never.gguf", 2, "no order that scores can say"));
    command_shell("sed 's/\\[\"a b\", \\(.*\\), \"\\\\u2581 ab\"/[\"\\\\u2581 ab\", \"a b\", \\1/' sp.json "
                  ">sp/tokenizer.json");
    command_shell("! cmp -s sp.json sp/tokenizer.json");
    assert_true(command_says("export sp --to gguf --out never.gguf", 2, "no order that scores can say"));
    command_shell("sed 's/<0x41>/<0xZZ>/' sp.json >sp/tokenizer.json");
    assert_true(command_says("export sp --to gguf --out never.gguf", 2, "no token '<0x41>'"));
}

static void other_tokenizers_are_refused_by_name(void **state) {
    (void)state;
    static const struct {
        const char *file, *words;
    } rows[] = { { "bert", "its model is WordPiece" },
                 { "t5", "its model is Unigram" },
                 { "word_level", "its model is WordLevel" },
                 { "clip", "llama.cpp has no end_of_word_suffix in BPE" },
                 { "deepseek", "llama.cpp has no pre_tokenizer like this one (Sequence)" },
                 { "llama2", "no order that scores can say" } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        command_shell(
            "rm -rf other && cp -r llama other && sed 's/\"vocab_size\": 400/\"vocab_size\": 4000/' "
            "llama/config.json >other/config.json && cp " GOLDEN "%s.json other/tokenizer.json",
            rows[i].file);
        assert_true(command_says("export other --to gguf --out never.gguf", 2, rows[i].words));
    }
    command_shell("rm other/tokenizer.json && echo >other/tokenizer.model");
    assert_true(
        command_says("export other --to gguf --out never.gguf", 2, "no tokenizer.json, which alone is read"));
    assert_int_not_equal(access("never.gguf", F_OK), 0);
}

/* Old files leave the model's type out, and null is false: the file is the same. */
static void old_tokenizers_are_read(void **state) {
    (void)state;
    command_shell("rm -rf old && cp -r llama old && sed 's/\"type\":\"BPE\",//; "
                  "s/\"byte_fallback\":false/\"byte_fallback\":null/; s/\"ignore_merges\":false/"
                  "\"ignore_merges\":null/' llama/tokenizer.json >old/tokenizer.json && "
                  "! cmp -s llama/tokenizer.json old/tokenizer.json");
    command_expect(0, "export llama --to gguf --out new.gguf");
    command_expect(0, "export old --to gguf --out old.gguf");
    /* but for the name, which is the folder's */
    command_shell("test $(stat -c %%s new.gguf) -ge $(stat -c %%s old.gguf) && "
                  "tail -c 20000 new.gguf >new.end && tail -c 20000 old.gguf | cmp - new.end");
}

/* ---- what is refused ---- */

static void choices_that_llama_cpp_has_not_are_refused(void **state) {
    (void)state;
#define OF(family, more) "{\"model_type\": \"" family "\", " SIZES ", \"vocab_size\": 256, " more "}"
    static const struct {
        const char *config, *words;
    } rows[] = {
        { "{\"model_type\": \"bert\", " SIZES ", \"vocab_size\": 300}", "the family of encoders" },
        { "{\"model_type\": \"gpt2\", \"n_layer\": 1, \"n_head\": 2, \"n_embd\": 8, \"n_positions\": 8, "
          "\"vocab_size\": 256, \"activation_function\": \"gelu\"}",
          "GELU's tanh form" },
        { OF("llama", "\"hidden_act\": \"gelu\""), "another hidden_act" },
        { OF("llama", "\"partial_rotary_factor\": 0.5"), "turns whole heads" },
        { OF("qwen2", "\"head_dim\": 16"), "head_dim for hidden_size" },
        { OF("qwen3", "\"attention_bias\": true"), "no bias of attention's output" },
        { OF("qwen3", "\"mlp_bias\": true"), "no biases of the feed-forward part" },
        { OF("gemma", "\"tie_word_embeddings\": false"), "no output projection of its own" },
        { OF("gemma2", "\"head_dim\": 8"), "query_pre_attn_scalar" },
        { OF("gemma2", "\"head_dim\": 8, \"query_pre_attn_scalar\": 8, \"attn_logit_softcapping\": null"),
          "always bounds scores" },
        { OF("gemma2", "\"head_dim\": 8, \"query_pre_attn_scalar\": 8, \"sliding_window\": 16, "
                       "\"layer_types\": [\"full_attention\", \"sliding_attention\"]"),
          "which layers have a window" },
        { OF("gemma3_text", "\"head_dim\": 8, \"query_pre_attn_scalar\": 8, \"attn_logit_softcapping\": 5"),
          "does not bound scores" },
        { OF("gpt_neox", "\"num_key_value_heads\": 4, \"attention_bias\": false"),
          "wants biases of queries" },
        { OF("qwen2", "\"rope_parameters\": {\"rope_type\": \"llama3\", \"rope_theta\": 1e4, \"factor\": 8, "
                      "\"low_freq_factor\": 1, \"high_freq_factor\": 4, "
                      "\"original_max_position_embeddings\": 32}"),
          "rope_type llama3 in the family llama only" },
        { OF("qwen2", "\"rope_parameters\": {\"rope_type\": \"yarn\", \"rope_theta\": 1e4, \"factor\": 8, "
                      "\"truncate\": false, \"original_max_position_embeddings\": 32}"),
          "yarn's ramp" },
        { OF("mixtral", "\"num_local_experts\": 2"), "the family mixtral are not written as GGUF" },
    };
    mkdir("choice", 0700);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        scratch_write("choice/config.json", rows[i].config, strlen(rows[i].config));
        if (!command_says("export choice --to gguf --out never.gguf", 2, rows[i].words))
            fail_msg("%s", rows[i].config);
    }
}

/* Within the window of Mistral's layers there are none. */
static void windows_bound_the_context(void **state) {
    (void)state;
    make_model("window",
               "{\"model_type\": \"mistral\", " SIZES ", \"vocab_size\": 256, \"sliding_window\": 16}");
    gguf_reader *r = exported("window");
    assert_int_equal(gguf_reader_u32(r, "llama.context_length"), 16);
    gguf_reader_close(r);
    make_model("gemma2", "{\"model_type\": \"gemma2\", " SIZES ", \"vocab_size\": 256, \"head_dim\": 16, "
                         "\"query_pre_attn_scalar\": 16, \"sliding_window\": 16}");
    r = exported("gemma2 --dtype f32");
    assert_int_equal(gguf_reader_u32(r, "gemma2.context_length"), 64);
    assert_int_equal(gguf_reader_u32(r, "gemma2.attention.sliding_window"), 16);
    matrix m = tensor_of("gemma2", "model.layers.1.post_feedforward_layernorm.weight");
    for (int64_t i = 0; i < m.rows; i++) m.x[i] += 1;
    same_rows(r, "blk.1.post_ffw_norm.weight", F32, &m, NULL);
    free(m.x);
    gguf_reader_close(r);
}

static void nothing_is_written_where_something_is_wrong(void **state) {
    (void)state;
    static const struct {
        const char *line;
        int code;
        const char *words;
    } rows[] = {
        { "export bytes --out never.gguf", 2, "export wants --to gguf" },
        { "export bytes --to gguf", 2, "export wants --out FILE" },
        { "export bytes --to onnx --out never.gguf", 2, "--to" },
        { "export bytes --to gguf --dtype q4_0 --out never.gguf", 2, "--dtype" },
        { "export nowhere --to gguf --out never.gguf", 2, "nowhere" },
        { "export adapter --to gguf --out never.gguf", 2, "snug merge" },
        { "export made-bytes --to gguf --out never.gguf", 2, "model.safetensors" },
        { "export coded --to gguf --out never.gguf", 2, "export the model that it was made from" },
        { "export bytes --to gguf --out text", 2, "--out text is there already" },
        { "export bytes --to gguf --out bytes", 2, "--out bytes is there already" },
        { "export bytes --to gguf --out no/such/never.gguf", 2, "no/such" },
        { "export bytes --to gguf --out never.gguf --memory 1MiB", 3, "does not fit 1.0 MiB: it needs" },
        { "export infinite --to gguf --out never.gguf", 2, "not finite" },
        { "export big --to gguf --out never.gguf", 2, "more than F16 holds; choose --dtype f32 or bf16" },
    };
    command_expect(0, "quantize bytes --to int8 --out coded --quiet");
    command_shell("rm -rf infinite big && cp -r bytes infinite && cp -r bytes big");
    const uint32_t bad[] = { 0x7f800000u, 0x47800000u /* 65536 */ };
    for (int i = 0; i < 2; i++) {
        FILE *f = fopen(i ? "big/model.safetensors" : "infinite/model.safetensors", "r+b");
        uint64_t head;
        assert_int_equal(fread(&head, 1, 8, f), 8);
        assert_int_equal(fseek(f, (long)head + 8 + 400, SEEK_SET), 0);
        assert_int_equal(fwrite(&bad[i], 1, 4, f), 4);
        fclose(f);
    }
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_true(command_says(rows[i].line, rows[i].code, rows[i].words));
    assert_int_not_equal(access("never.gguf", F_OK), 0);
    assert_int_not_equal(access("never.gguf.partial", F_OK), 0);
}

static void a_disk_that_is_too_small_is_said_before(void **state) {
    (void)state;
    if (system("unshare -m true 2>/dev/null") != 0) skip();
    mkdir("small", 0700);
    command_shell(
        "unshare -m sh -c 'mount -t tmpfs -o size=32k none small && " SNUG_BUILD
        "/snug export bytes --to gguf --out small/x.gguf 2>complaint; test $? = 3 && ls -A small | wc -l "
        ">left'");
    command_shell(
        "grep -q 'the disk of small/x.gguf has 32.0 KiB left, and the file takes' complaint && grep -qx 0 "
        "left");
}

/* What is said of memory holds, and programs read the rest. */
static void what_is_said_is_so(void **state) {
    (void)state;
    command_result r = command_run("export bytes --to gguf --out j.gguf --json");
    json_document d;
    struct stat about;
    assert_int_equal(r.exit, 0);
    assert_int_equal(json_parse("result", r.out, strlen(r.out), &d), STATUS_OK);
    assert_int_equal(stat("j.gguf", &about), 0);
    assert_int_equal(command_number(&d, "bytes"), about.st_size);
    assert_int_equal(command_number(&d, "tensors"), 28);
    assert_true(command_number(&d, "measured_bytes") <= command_number(&d, "planned_bytes"));
    assert_true(r.resident_peak <= command_number(&d, "planned_bytes"));
    json_close(&d);
    command_free(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            what_is_said_is_so), /* first: what this process has held counts for those it starts */
        cmocka_unit_test(gpt2_is_turned),
        cmocka_unit_test(neighbours_are_turned_together_in_llama),
        cmocka_unit_test(odd_rows_are_of_16_bits),
        cmocka_unit_test(heads_that_are_tied_are_copied_where_they_must_be),
        cmocka_unit_test(bytes_are_tokens_where_there_is_no_tokenizer),
        cmocka_unit_test(what_has_no_token_is_named),
        cmocka_unit_test(a_vocabulary_that_is_larger_is_refused),
        cmocka_unit_test(what_is_said_of_tokens_is_carried),
        cmocka_unit_test(long_rows_pass_as_well),
        cmocka_unit_test(ids_are_those_of_the_configurations),
        cmocka_unit_test(tokens_are_looked_for_as_elsewhere),
        cmocka_unit_test(what_begins_a_text_is_found),
        cmocka_unit_test(names_mean_what_they_say),
        cmocka_unit_test(characters_have_scores),
        cmocka_unit_test(old_tokenizers_are_read),
        cmocka_unit_test(other_tokenizers_are_refused_by_name),
        cmocka_unit_test(choices_that_llama_cpp_has_not_are_refused),
        cmocka_unit_test(windows_bound_the_context),
        cmocka_unit_test(nothing_is_written_where_something_is_wrong),
        cmocka_unit_test(a_disk_that_is_too_small_is_said_before),
    };
    return cmocka_run_group_tests(tests, make_models, scratch_close);
}
