/* Is it a disc, a square, a triangle or a cross? A small convolutional network learns to tell, from drawings
 * with noise, inside a memory budget:
 *
 *     example-images [MEBIBYTES [OUT]]
 *
 * The weights go to OUT (images-out). At the end it is asked about drawings that it has not seen, 64 at a
 * time. Exit codes are those of the library. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <snug/snug.h>

enum { SIDE = 20, KINDS = 4, AT_ONCE = 64, TRIES = 16 * AT_ONCE };

/* Numbers from 0 to 1 that follow from i and k alone. */
static float chance(int64_t i, int k) {
    uint64_t x = ((uint64_t)i * 1024 + (uint64_t)k + 1) * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (float)((x ^ x >> 31) >> 40) / (float)(1 << 24);
}

/* Does kind k, of radius 1 around 0, have the place (x, y)? */
static int covers(int k, float x, float y) {
    if (k == 0) return x * x + y * y < 1;
    if (k == 1) return fabsf(x) < 0.9f && fabsf(y) < 0.9f;
    if (k == 2) return y < 0.9f && fabsf(x) < (y + 1) / 2;
    return (fabsf(x) < 0.3f || fabsf(y) < 0.3f) && fabsf(x) < 1 && fabsf(y) < 1;
}

static int draw(void *context, int64_t i, void *const fields[]) {
    float *image = fields[0], radius = 4 + 4 * chance(i, 0);
    float left = radius + (SIDE - 2 * radius) * chance(i, 1),
          top = radius + (SIDE - 2 * radius) * chance(i, 2);
    int kind = *(int32_t *)fields[1] = (int)(i % KINDS);
    (void)context;
    for (int p = 0; p < SIDE * SIDE; p++) {
        float x = ((float)(p % SIDE) - left) / radius, y = ((float)(p / SIDE) - top) / radius;
        image[p] = (float)covers(kind, x, y) - 0.5f + 1.2f * (chance(i, 3 + p) - 0.5f);
    }
    return 0;
}

static void build(void *context, snug_graph *g) {
    const snug_conv2d_options same = { .padding = 1 };
    (void)context;
    snug_tensor x = snug_input(g, "image"); /* (samples, 20, 20, 1) */
    x = snug_max_pool(g, snug_relu(g, snug_convolution(g, "edges", x, 8, 3, &same)), 2, 2, 0);
    x = snug_max_pool(g, snug_relu(g, snug_convolution(g, "parts", x, 16, 3, &same)), 2, 2, 0);
    x = snug_reshape(g, x, SNUG_SHAPE(SIDE / 4 * SIDE / 4 * 16));
    x = snug_linear(g, "kinds", snug_relu(g, snug_linear(g, "whole", x, 48)), KINDS);
    snug_cross_entropy(g, x, snug_input(g, "kind"));
    snug_output(g, x);
}

/* How many of TRIES drawings that it has not seen does it tell right? -1: it failed. */
static int try_out(const snug_network *network, const char *weights) {
    snug_predictor *p = snug_load_batch(network, weights, 0, 0, NULL, AT_ONCE);
    static float images[AT_ONCE][SIDE * SIDE];
    int right = 0;
    for (int64_t first = 0; p && first < TRIES; first += AT_ONCE) {
        int32_t kinds[AT_ONCE];
        for (int i = 0; i < AT_ONCE; i++)
            draw(NULL, 1000000 + first + i, (void *const[]){ images[i], &kinds[i] });
        const float *score = snug_predict_batch(p, AT_ONCE, (const void *const[]){ images, NULL }, NULL);
        if (!score) return -1;
        for (int i = 0; i < AT_ONCE; i++, score += KINDS) {
            int best = 0;
            for (int k = 1; k < KINDS; k++) best = score[k] > score[best] ? k : best;
            right += best == kinds[i];
        }
    }
    snug_unload(p);
    return p ? right : -1;
}

int main(int argc, char **argv) {
    const snug_network network = { .name = "images",
                                   .fields = { { "image", SNUG_SHAPE(SIDE, SIDE, 1), SNUG_F32 },
                                               { .name = "kind", .type = SNUG_I32 } },
                                   .labels = "kind",
                                   .build = build };
    const snug_data drawings = { .samples = 1 << 16, .read = draw };
    snug_options options = snug_defaults();
    options.memory = (uint64_t)(argc > 1 ? strtoull(argv[1], NULL, 10) : 64) << 20;
    options.out = argc > 2 ? argv[2] : "images-out";
    options.batch = 32, options.steps = 500, options.learning_rate = 3e-3, options.overwrite = true;
    snug_run *run;
    snug_status status = snug_plan(&network, &drawings, NULL, &options, &run);
    if (run) printf("%s\n", snug_run_text(run));
    if (status == SNUG_OK) status = snug_train(run, NULL, NULL);
    snug_close(run);
    int right = status == SNUG_OK ? try_out(&network, options.out) : -1;
    if (right < 0) fprintf(stderr, "images: %s\n", snug_error());
    if (right >= 0) printf("%d of %d unseen drawings told right\n", right, TRIES);
    return status == SNUG_OK && right < 0 ? SNUG_FAILED : (int)status;
}
