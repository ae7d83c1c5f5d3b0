/* Rotary positions: pairs of a head's numbers are turned by angles that grow with the position.
 *
 * Of every head its first R numbers are turned, i with i + R/2, as in most of Hugging Face's models:
 *     y[i] = x[i] cos - x[i + R/2] sin,   y[i + R/2] = x[i + R/2] cos + x[i] sin
 * or, where a pair's numbers are neighbours, 2 i with 2 i + 1, as in GLM; the others stay. The angles do not
 * depend on the layer: they are a value of their own, made once in a program and read by all layers. The
 * gradient is a turn back by the same angles.
 * Paper: Su et al., "RoFormer", arXiv:2104.09864; stretched angles: Chen et al., arXiv:2306.15595;
 * Peng et al., "YaRN", arXiv:2309.00071; Ding et al., "LongRoPE", arXiv:2402.13753. */
#pragma once

#include "ir/op.h"

typedef enum {
    ROTARY_PLAIN,
    ROTARY_LINEAR, /* positions divided by `factor` */
    ROTARY_LLAMA3, /* only waves longer than original/low are divided, and a ramp up to original/high */
    ROTARY_YARN, /* pairs that turn less than `low` times in `original` positions are divided, those that turn
                    more than `high` times stay, and a ramp over the pairs between */
    ROTARY_LONG, /* each pair is divided by a number of its own: of `near` while a call's last position is
                    within the first `original`, of `far` where it is beyond */
} rotary_stretch;

enum { ROTARY_MOST_TURNED = 512 };

typedef struct {
    int64_t rows;   /* T, of the table */
    int32_t turned; /* R, even */
    int32_t stretch;
    double theta;
    double factor, low, high, original; /* read as `stretch` says */
    double gain;                        /* of cosines and sines; 0: 1 */
    int64_t unrounded;                  /* YaRN: the ramp begins and ends between pairs */
    float near[ROTARY_MOST_TURNED / 2], far[ROTARY_MOST_TURNED / 2]; /* long: above 0 for each pair */
} rotary_angles_attributes;

typedef struct {
    int32_t heads;      /* the first so many of a row; what stands behind them stays */
    int32_t size;       /* D, of a head */
    int32_t turned;     /* R <= D */
    int32_t back;       /* 1: the other way round */
    int32_t neighbours; /* 1: the numbers of a pair stand side by side */
} rotary_attributes;

/* offset? (1) or (T) i32 -> (T,R): T rows of R/2 cosines | R/2 sines. Row t stands at offset + t; of T
 * offsets it stands at its own, and is its call's last position. */
extern const op_def op_rotary_angles;
extern const op_def op_rotary; /* x (B,T,W), angles (T,R) -> y; y may live in x */
extern const op_kernel rotary_angles_cpu[], rotary_cpu[];
extern const op_kernel rotary_angles_cuda[], rotary_cuda[];

/* Where pair i of a head begins, and how far behind that its other number stands. */
typedef struct {
    int64_t step, apart;
} rotary_layout;
static inline rotary_layout rotary_layout_of(const rotary_attributes *a) {
    return a->neighbours ? (rotary_layout){ 2, 1 } : (rotary_layout){ 1, a->turned / 2 };
}

tensor_id rotary_angles_apply(graph *g, tensor_id offset, const rotary_angles_attributes *a);
tensor_id rotary_apply(graph *g, tensor_id x, tensor_id angles, const rotary_attributes *a);
