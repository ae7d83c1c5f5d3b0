/* Reads the files beside it: what PyTorch computed, written by tools/goldens.py, which describes the format.
 * Weights and tokens are not in the files: they come from the formulas below, which the script shares. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef struct {
    char name[64];
    double value;
} golden_fact;

typedef struct {
    char name[96];
    int rank;
    int64_t dim[4], count;
    double *value;
} golden_tensor;

enum { GOLDEN_STEPS = 64, GOLDEN_FACTS = 64 };

typedef struct {
    golden_fact fact[GOLDEN_FACTS];
    int fact_count;
    double loss[GOLDEN_STEPS]; /* of each step, before its update */
    double norm[GOLDEN_STEPS]; /* of all gradients together, before clipping */
    int loss_count, norm_count;
    golden_tensor *gradient; /* of the first step, before clipping; and tables */
    int gradient_count;
} golden;

/* Reads tests/golden/NAME.txt. On failure false, with one line on stderr and *g closed. */
bool golden_open(golden *g, const char *name);
void golden_close(golden *g);

/* A size of the model or a setting of the optimizer; NAN when the file has no such line. */
double golden_number(const golden *g, const char *name);

/* The gradient of a parameter; NULL when there is none of this name. */
const golden_tensor *golden_gradient(const golden *g, const char *name);

/* Element i of the parameter `name`: in [-0.1, 0.1), or around 1 for the scale of a norm (rank 1,
 * "*.weight"). */
float golden_weight(const char *name, int rank, int64_t i);

/* The token at `time` of a sample of the global batch; its label is the token at time + 1. */
int32_t golden_token(int step, int sample, int time, int vocabulary);

/* Number i of an image, channels last: in [-1, 1). */
float golden_pixel(int step, int sample, int64_t i);
