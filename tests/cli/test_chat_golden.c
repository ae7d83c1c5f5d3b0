/* Fine-tuning on chats beside transformers and PyTorch (tools/goldens_chat.py): the same ids, the same of
 * them learned, and ten losses and norms. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "cli/command.h"
#include "golden/golden.h"
#include "io/safetensors.h"
#include "io/scratch.h"

enum { CHANNELS = 32, KEYS = 16, INNER = 48, BLOCKS = 2, WEIGHTS = 3 + 9 * BLOCKS };
#define CHATS SNUG_ROOT "/tests/golden/chat"
#define COURSE                                                                                               \
    "--pack pad --batch 3 --context 96 --steps 10 --schedule constant --warmup 0 --seed 1337 --eval-data "   \
    "model/chats.jsonl --quiet "

/* ---- the model, its weights by the formula ---- */

static void add(safetensors_item *item, const char *name, int64_t rows, int64_t columns) {
    int64_t count = rows * (columns ? columns : 1);
    float *x = malloc((size_t)count * sizeof *x);
    for (int64_t i = 0; i < count; i++) x[i] = golden_weight(name, columns ? 2 : 1, i);
    *item = (safetensors_item){ .name = strdup(name),
                                .dtype = "F32",
                                .shape = columns ? SHAPE(rows, columns) : SHAPE(rows),
                                .data = x,
                                .bytes = (uint64_t)count * sizeof *x };
}

static void add_block(safetensors_item *items, int block) {
    static const struct {
        const char *name;
        int64_t rows, columns;
    } parts[] = { { "self_attn.q_proj", CHANNELS, CHANNELS }, { "self_attn.k_proj", KEYS, CHANNELS },
                  { "self_attn.v_proj", KEYS, CHANNELS },     { "self_attn.o_proj", CHANNELS, CHANNELS },
                  { "mlp.gate_proj", INNER, CHANNELS },       { "mlp.up_proj", INNER, CHANNELS },
                  { "mlp.down_proj", CHANNELS, INNER },       { "input_layernorm", CHANNELS, 0 },
                  { "post_attention_layernorm", CHANNELS, 0 } };
    char name[96];
    for (int i = 0; i < 9; i++) {
        snprintf(name, sizeof name, "model.layers.%d.%s.weight", block, parts[i].name);
        add(&items[i], name, parts[i].rows, parts[i].columns);
    }
}

static int make_model(void **state) {
    static golden g;
    safetensors_item items[WEIGHTS];
    if (scratch_open(state) != 0 || !golden_open(&g, "chat")) return -1;
    *state = &g;
    int64_t words = (int64_t)golden_number(&g, "vocabulary");
    if (system("cp -r " CHATS " model") != 0) return -1;
    add(&items[0], "model.embed_tokens.weight", words, CHANNELS);
    add(&items[1], "lm_head.weight", words, CHANNELS);
    add(&items[2], "model.norm.weight", CHANNELS, 0);
    for (int b = 0; b < BLOCKS; b++) add_block(&items[3 + 9 * b], b);
    status written = safetensors_write("model/model.safetensors", items, WEIGHTS);
    for (int i = 0; i < WEIGHTS; i++)
        free((void *)(uintptr_t)items[i].name), free((void *)(uintptr_t)items[i].data);
    return written == STATUS_OK ? 0 : -1;
}

static int close_all(void **state) {
    golden_close(*state);
    return scratch_close(state);
}

/* ---- tokens ---- */

static void expect_table(const golden *g, const safetensors *s, const char *name, const char *tensor) {
    const golden_tensor *t = golden_gradient(g, name);
    const safetensors_entry *e = safetensors_find(s, tensor);
    uint8_t bytes[8192];
    assert_non_null(t);
    assert_non_null(e);
    assert_int_equal(e->dim[0], t->count);
    assert_true(e->bytes <= sizeof bytes);
    assert_int_equal(safetensors_read_bytes(s, e, 0, bytes, e->bytes), STATUS_OK);
    size_t each = e->bytes / (size_t)t->count;
    for (int64_t i = 0; i < t->count; i++) {
        uint64_t number = 0;
        memcpy(&number, bytes + (size_t)i * each, each);
        if (number != (uint64_t)t->value[i])
            fail_msg("%s %d is %d and not %d", name, (int)i, (int)number, (int)t->value[i]);
    }
}

static void expect_tokens(const golden *g, const char *path) {
    safetensors s;
    assert_int_equal(safetensors_open(path, &s), STATUS_OK);
    expect_table(g, &s, "ids", "tokens");
    expect_table(g, &s, "learned", "learned");
    expect_table(g, &s, "ends", "ends");
    safetensors_close(&s);
}

static void tokens_and_what_is_learned_are_theirs(void **state) {
    command_expect(0, "tokenize model --data model/chats.jsonl --out made.safetensors --quiet");
    expect_tokens(*state, "made.safetensors");
}

/* ---- losses ---- */

static void train(const golden *g, const char *more) {
    char line[1024];
    snprintf(line, sizeof line,
             "train model --data model/chats.jsonl " COURSE
             "--lr %g --weight-decay %g --clip %g --beta1 %g --beta2 "
             "%g --out tuned --overwrite %s",
             golden_number(g, "rate"), golden_number(g, "decay"), golden_number(g, "clip"),
             golden_number(g, "beta1"), golden_number(g, "beta2"), more);
    command_expect(0, line);
}

/* Of each line of metrics.jsonl that is a step's. */
static void expect_steps(const golden *g) {
    FILE *file = fopen("tuned/metrics.jsonl", "r");
    char line[1024];
    int steps = 0;
    while (fgets(line, sizeof line, file)) {
        const char *loss = strstr(line, "\"loss\": "), *norm = strstr(line, "\"grad_norm\": ");
        if (!loss || !norm) continue;
        double mine = atof(loss + 8), wanted = g->loss[steps], length = atof(norm + 13);
        if (!(fabs(mine - wanted) <= 1e-5 * wanted)) fail_msg("loss %d: %.9g, not %.9g", steps, mine, wanted);
        if (!(fabs(length - g->norm[steps]) <= 1e-4 * g->norm[steps]))
            fail_msg("norm %d: %.9g, not %.9g", steps, length, g->norm[steps]);
        steps++;
    }
    fclose(file);
    assert_int_equal(steps, (int)golden_number(g, "steps"));
    assert_int_equal(g->loss_count, steps);
}

static void losses_and_norms_are_theirs(void **state) {
    static const char *const ways[] = { "", "--threads 1", "--threads 2 --micro-batch 1",
                                        "--attention plain --chunk-loss 64" };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        train(*state, ways[i]);
        expect_tokens(*state, "tuned/data/train.safetensors");
        expect_steps(*state);
    }
}

/* The golden sees what is learned: with everything learned the first loss is another one. */
static void other_labels_are_other_losses(void **state) {
    const golden *g = *state;
    train(g, "--learn all");
    FILE *file = fopen("tuned/metrics.jsonl", "r");
    char line[1024];
    const char *loss = NULL;
    while (!loss && fgets(line, sizeof line, file)) loss = strstr(line, "\"loss\": ");
    fclose(file);
    assert_non_null(loss);
    assert_true(fabs(atof(loss + 8) - g->loss[0]) > 1e-3 * g->loss[0]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_and_what_is_learned_are_theirs),
        cmocka_unit_test(losses_and_norms_are_theirs),
        cmocka_unit_test(other_labels_are_other_losses),
    };
    return cmocka_run_group_tests(tests, make_model, close_all);
}
