/* Techniques that add parameters beside the model's and train those in their place (pass.adapting). */
#pragma once

#include "passes/pass.h"

/* An adapter: small matrices that a pass puts beside the model's weights, and that are trained in their
 * place. */
typedef struct {
    int64_t rank;
    double alpha, dropout;
    char targets[PASS_SETTING_BYTES]; /* names of products with '+' between them; "all" */
    char base[8];                     /* the form that the model's matrices are held in; "f32" */
} pass_adapter;

#define PASS_ADAPTER_NAME "adapter.%u."

/* Several at once in a program by rows, each for rows of its own: the input "adapter" (N) i32 has the number
 * of each row's, or -1. Parameters of adapter k are called "adapter.<k>." and what they are called alone. */
typedef struct pass_adapters {
    const pass_adapter *of; /* of one base */
    uint32_t count;         /* at most ADAPTERS_MOST (ops/adapter_matmul) */
} pass_adapters;

struct pass_adapting {
    status (*describe)(const pass_setting *s, pass_adapter *out);
    status (*setting)(const pass_adapter *a, pass_setting *out); /* the reverse; fails with a sentence */

    /* Is this parameter one that the pass adds? It is initialised from a normal distribution with this
     * deviation; 0: with zeros. */
    bool (*begins)(const char *parameter, const shape *s, float *deviation);

    /* The parameters that the pass adds beside a weight of the model's; false: none. */
    bool (*beside)(const char *weight, char a[PASS_PARAMETER_BYTES], char b[PASS_PARAMETER_BYTES]);

    /* Adds the product of a and b to w (of shape s): the model then computes the same without them.
     * `by_rows`: w is stored as (out, in), not as (in, out). */
    void (*merge)(const pass_adapter *d, const shape *s, bool by_rows, const float *a, const float *b,
                  float *w);
};
