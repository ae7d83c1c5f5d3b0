/* How far does a ball fly? A small network learns it from throws with noise, inside a memory budget:
 *
 *     example-regress [MEBIBYTES [OUT]]
 *
 * A throw has a speed, an angle and a height to start from; the weights go to OUT (regress-out). At the end
 * throws without noise tell how far off the network is. Exit codes are those of the library. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <snug/snug.h>

enum { HIDDEN = 64, TRIES = 200 };

/* Numbers from 0 to 1 that follow from i and k alone. */
static double chance(int64_t i, int k) {
    uint64_t x = ((uint64_t)i * 8 + (uint64_t)k + 1) * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (double)((x ^ x >> 31) >> 11) / 9007199254740992.0;
}

/* Throw i, and its distance in units of 10 m. */
static double throw_ball(int64_t i, float throw[3]) {
    for (int k = 0; k < 3; k++) throw[k] = (float)chance(i, k);
    double speed = 5 + 10 * chance(i, 0), angle = 0.2 + chance(i, 1), height = 2 * chance(i, 2);
    double up = speed * sin(angle), g = 9.81;
    return speed * cos(angle) * (up + sqrt(up * up + 2 * g * height)) / g / 10;
}

static int read_throw(void *context, int64_t i, void *const fields[]) {
    (void)context;
    double noise = 0.1 * (chance(i, 3) + chance(i, 4) - 1);
    *(float *)fields[1] = (float)(throw_ball(i, fields[0]) + noise);
    return 0;
}

static void build(void *context, snug_graph *g) {
    (void)context;
    snug_tensor x = snug_tanh(g, snug_linear(g, "first", snug_input(g, "throw"), HIDDEN));
    x = snug_tanh(g, snug_linear(g, "second", x, HIDDEN));
    x = snug_linear(g, "distance", x, 1);
    snug_squared_error(g, x, snug_input(g, "flown"));
    snug_output(g, x);
}

/* The root of the mean squared error of throws that were not trained on, in metres; negative: it failed. */
static double try_out(const snug_network *network, const char *weights) {
    snug_predictor *p = snug_load(network, weights, 0, 1);
    double sum = 0;
    for (int64_t i = 0; p && i < TRIES; i++) {
        float throw[3];
        double flown = throw_ball(1000000 + i, throw);
        const float *said = snug_predict(p, (const void *const[]){ throw, NULL }, NULL);
        if (!said) return -1;
        sum += (flown - (double)*said) * (flown - (double)*said);
    }
    if (!p) return -1;
    snug_unload(p);
    return 10 * sqrt(sum / TRIES);
}

int main(int argc, char **argv) {
    const snug_network network = {
        .name = "regress",
        .fields = { { "throw", SNUG_SHAPE(3), SNUG_F32 }, { .name = "flown", .type = SNUG_F32 } },
        .build = build,
    };
    const snug_data throws = { .samples = 1 << 16, .read = read_throw };
    snug_options options = snug_defaults();
    options.memory = (uint64_t)(argc > 1 ? strtoull(argv[1], NULL, 10) : 64) << 20;
    options.out = argc > 2 ? argv[2] : "regress-out";
    options.batch = 256, options.steps = 1500, options.learning_rate = 5e-3, options.weight_decay = 0;
    options.overwrite = true;
    snug_run *run;
    snug_result result;
    snug_status status = snug_plan(&network, &throws, NULL, &options, &run);
    if (run) printf("%s\n", snug_run_text(run));
    if (status == SNUG_OK) status = snug_train(run, NULL, &result);
    snug_close(run);
    double away = status == SNUG_OK ? try_out(&network, options.out) : -1;
    if (away < 0) fprintf(stderr, "regress: %s\n", snug_error());
    if (away >= 0) printf("loss %.5f; throws it has not seen are off by %.2f m\n", result.loss, away);
    return status == SNUG_OK && away < 0 ? SNUG_FAILED : (int)status;
}
