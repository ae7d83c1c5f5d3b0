/* A training step of gpt2 written out by hand, in double: no graph, no planner, no kernels. It shares no code
 * with the library, so where the two agree, both are right.
 *
 * Parameters have the names and layouts of Hugging Face's gpt2: transformer.wte.weight (V,C),
 * transformer.wpe.weight (T,C), transformer.h.N.attn.c_attn.weight (in,out), ..., lm_head.weight (V,C) when
 * the embedding is not tied. Pre-norm, GELU with tanh, norms with epsilon 1e-5, no dropout. Being a test, it
 * aborts when there is no memory.
 *
 * One step:  oracle_zero; oracle_accumulate for each micro-batch; oracle_clip; oracle_update. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef struct {
    int layers, heads, channels, context, vocabulary;
    int batch; /* largest number of samples in one call of oracle_accumulate */
    bool tied; /* the output projection is the token embedding */
} oracle_config;

typedef struct {
    char name[64];
    int rank; /* 1 or 2; weight decay applies to rank 2 */
    int64_t dim[2], count;
    double *value, *gradient, *moment1, *moment2;
} oracle_tensor;

typedef struct {
    int samples, time;
    const int32_t *tokens; /* (samples,time) */
    const int32_t *labels; /* (samples,time); -100 is not counted */
    double scale;          /* of the summed loss: one over the number of counted labels of the global batch */
} oracle_batch;

typedef struct {
    double rate, beta1, beta2, epsilon, decay;
} oracle_adamw;

typedef struct oracle oracle;

oracle *oracle_open(const oracle_config *config); /* all parameters are 0 */
void oracle_close(oracle *o);

int oracle_count(const oracle *o);                       /* of parameters */
oracle_tensor *oracle_tensor_at(oracle *o, int i);       /* i in 0 .. count-1 */
oracle_tensor *oracle_find(oracle *o, const char *name); /* NULL when there is none */

double oracle_loss(oracle *o, const oracle_batch *b);       /* forward alone */
void oracle_zero(oracle *o);                                /* the gradients */
double oracle_accumulate(oracle *o, const oracle_batch *b); /* adds to the gradients; returns the loss */
double oracle_norm(const oracle *o);                        /* of all gradients together */
double oracle_clip(oracle *o, double most);                 /* as torch; returns the norm before */
void oracle_update(oracle *o, const oracle_adamw *a);       /* one AdamW step; counts the steps itself */
