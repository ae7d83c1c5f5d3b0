/* A small transformer learns to sort: after eight digits and a dash it writes the same digits in their order.
 *
 *     example-sort [MEBIBYTES [OUT]]
 *
 * It learns inside a memory budget, and its weights go to OUT (sort-out). At the end it sorts digits that it
 * has not seen, one digit at a time, many lines at once. Exit codes are those of the library. */
#include <stdio.h>
#include <stdlib.h>

#include <snug/snug.h>

enum { DIGITS = 8, DASH = 10, SYMBOLS = 11, LENGTH = 2 * DIGITS, WIDE = 48, BLOCKS = 2, TRIES = 100 };

/* Line i: its digits, a dash, and all but the last of the sorted ones; what comes after each counts from the
 * dash on. */
static int read_line(void *context, int64_t i, void *const fields[]) {
    int32_t *line = fields[0], *next = fields[1], sorted[DIGITS], count = 0;
    uint64_t x = ((uint64_t)i + 1) * 0x9e3779b97f4a7c15u;
    (void)context;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u >> 20;
    for (int t = 0; t < DIGITS; t++, x /= 10) line[t] = (int32_t)(x % 10);
    for (int32_t digit = 0; digit < 10; digit++)
        for (int t = 0; t < DIGITS; t++)
            if (line[t] == digit) sorted[count++] = digit;
    line[DIGITS] = DASH;
    for (int t = 0; t < DIGITS - 1; t++) line[DIGITS + 1 + t] = sorted[t];
    for (int t = 0; t < LENGTH; t++) next[t] = t < DIGITS ? SNUG_IGNORED_LABEL : sorted[t - DIGITS];
    return 0;
}

static snug_tensor norm(snug_graph *g, const char *name, snug_tensor x) {
    return snug_rmsnorm(g, x, snug_parameter(g, name, SNUG_SHAPE(WIDE), 1, 0), 1e-5);
}

static void build(void *context, snug_graph *g) {
    const snug_attention_options causal = { .heads = 4, .causal = true };
    char name[6][24];
    (void)context;
    snug_tensor table = snug_parameter(g, "symbols", SNUG_SHAPE(SYMBOLS, WIDE), 0, 0.3);
    snug_tensor x = snug_embedding(g, snug_input(g, "line"), table); /* (samples, LENGTH, WIDE) */
    x = snug_add_positions(g, x, snug_parameter(g, "places", SNUG_SHAPE(LENGTH, WIDE), 0, 0.3));
    for (int b = 0; b < BLOCKS; b++) {
        static const char *const parts[6] = { "norm", "look", "out", "norm2", "up", "down" };
        for (int k = 0; k < 6; k++) snprintf(name[k], sizeof name[k], "block.%d.%s", b, parts[k]);
        snug_block(g, b);
        snug_tensor y = snug_linear(g, name[1], norm(g, name[0], x), 3 * WIDE);
        x = snug_add(g, x, snug_linear(g, name[2], snug_attention(g, y, 0, 0, &causal), WIDE));
        y = snug_gelu(g, snug_linear(g, name[4], norm(g, name[3], x), 4 * WIDE));
        x = snug_add(g, x, snug_linear(g, name[5], y, WIDE));
    }
    snug_block(g, -1);
    x = snug_linear(g, "head", norm(g, "last", x), SYMBOLS);
    snug_cross_entropy(g, x, snug_input(g, "next"));
    snug_output(g, x);
}

/* How many of TRIES lines does it sort? -1: it failed. */
static int try_out(const snug_network *network, const char *weights) {
    snug_predictor *p = snug_load_batch(network, weights, 0, 0, NULL, TRIES);
    static int32_t lines[TRIES][LENGTH], should[TRIES][LENGTH], wrong[TRIES];
    for (int64_t i = 0; i < TRIES; i++) read_line(NULL, 1000000 + i, (void *const[]){ lines[i], should[i] });
    for (int t = DIGITS; p && t < LENGTH; t++) {
        const float *score = snug_predict_batch(p, TRIES, (const void *const[]){ lines, NULL }, NULL);
        if (!score) return -1;
        for (int i = 0; i < TRIES; i++) {
            const float *s = score + (i * LENGTH + t) * SYMBOLS;
            int32_t best = 0;
            for (int32_t k = 1; k < SYMBOLS; k++) best = s[k] > s[best] ? k : best;
            wrong[i] |= best != should[i][t];
            if (t + 1 < LENGTH) lines[i][t + 1] = best; /* what it wrote, and not what it should have */
        }
    }
    int right = 0;
    for (int i = 0; i < TRIES; i++) right += !wrong[i];
    snug_unload(p);
    return p ? right : -1;
}

int main(int argc, char **argv) {
    const snug_network network = { .name = "sort",
                                   .fields = { { "line", SNUG_SHAPE(LENGTH), SNUG_I32 },
                                               { "next", SNUG_SHAPE(LENGTH), SNUG_I32 } },
                                   .labels = "next",
                                   .build = build };
    const snug_data lines = { .samples = 1 << 18, .read = read_line };
    snug_options options = snug_defaults();
    options.memory = (uint64_t)(argc > 1 ? strtoull(argv[1], NULL, 10) : 64) << 20;
    options.out = argc > 2 ? argv[2] : "sort-out";
    options.batch = 64, options.steps = 500, options.learning_rate = 3e-3, options.overwrite = true;
    snug_run *run;
    snug_status status = snug_plan(&network, &lines, NULL, &options, &run);
    if (run) printf("%s\n", snug_run_text(run));
    if (status == SNUG_OK) status = snug_train(run, NULL, NULL);
    snug_close(run);
    int right = status == SNUG_OK ? try_out(&network, options.out) : -1;
    if (right < 0) fprintf(stderr, "sort: %s\n", snug_error());
    if (right >= 0) printf("%d of %d unseen lines sorted\n", right, TRIES);
    return status == SNUG_OK && right < 0 ? SNUG_FAILED : (int)status;
}
