/* Optimizer state in fewer bits than weights: f32, a float of 16 bits, or a code of 8 bits with one f32 scale
 * for each block of STATE_BLOCK consecutive elements. Kernels hold one block at a time in f32: it is widened,
 * updated and narrowed again, and a whole wide copy never exists.
 *
 * Codes (Dettmers et al., "8-bit optimizers via block-wise quantization", arXiv:2110.02861): a block is
 * divided by its largest absolute value, and what is left, in [-1, 1], becomes the nearest value of a map,
 * "dynamic tree" for what may be negative and "dynamic" for what may not. The map has seven decades; in the
 * one of 10^(d-7) .. 10^(d-6), d = 0 .. 6, stand 2^d values (2^(d+1) where there is no sign), evenly: with n
 * of them, number i is 10^(d-6) (0.1 + 0.9 (i + 1/2) / n) Beside them and their negatives stand 0 and 1,
 * which makes 256. Codes count them from the smallest to the largest.
 *
 * Codes of a state that drifts by less at a time than codes are apart (op_state.drifts) are not the nearest
 * but one of the two neighbours, drawn so that the mean is right, where the call has a random key: rounded to
 * the nearest, what is added in a step would be lost.
 *
 * One thing is not the paper's: a positive second moment never becomes 0 but the smallest positive value. It
 * stands under the root of a divisor, and the first moment's element may well outlive it. */
#pragma once

#include "base/half.h"
#include "ir/op.h"
#include "ir/update.h"

enum { STATE_BLOCK = 2048, STATE_CODES = 256, STATE_MOST = 2 /* states of an update */ };

/* What the codes of a block stand for, before its scale; `positive`: no sign. */
const float *state_map(bool positive);

static inline int64_t state_scales(int64_t elements) { return (elements + STATE_BLOCK - 1) / STATE_BLOCK; }

/* ---- for rules ---- */

/* Do weight, gradient and weight' of node n, inputs 0 and 1 and output 0, go together, and are the numbers
 * `first` .. `last` of its inputs one element each? */
status state_infer_weight(const graph *g, const node *n, uint32_t first, uint32_t last, tensor *out);

/* Checks a state of node n, whose weight is input 0, and says what its outputs are. */
status state_infer(const graph *g, const node *n, const op_state *s, tensor *out);

/* Of an update with `flops` operations per element, and what its states take to be widened and narrowed. */
op_cost state_cost(const graph *g, const node *n, double flops);

/* Types that a state may have, and for test cases: more than one block, with their scales, and a piece of
 * one. */
enum { STATE_DTYPES = DTYPE_MASK_FLOAT | 1u << DTYPE_U8 };
#define STATE_CASE_ARRAY(type, low, high)                                                                    \
    { type, { { 3, 67, 101 }, 3 }, low, high }
#define STATE_CASE_SCALES(low, high)                                                                         \
    { DTYPE_F32, { { 10 }, 1 }, low, high }
#define STATE_CASE_ONE(type, low, high)                                                                      \
    { type, { { 77 }, 1 }, low, high }

/* ---- for kernels ---- */

/* Are weight, gradient (inputs 0 and 1) and all states f32; or is one of them narrower? */
bool state_is_wide(const op_call *c, const op_state *s, uint32_t count);
bool state_is_narrow(const op_call *c, const op_state *s, uint32_t count);

/* Runs `sweep`, an update of the op whose arguments are all f32, on a block after the other: what is narrower
 * is widened before and narrowed after; bf16, and codes of what drifts, with stochastic rounding where the
 * call has a random key. */
typedef void state_sweep(const op_call *c, int64_t first, int64_t last);
void state_run_blocks(const op_call *c, const op_def *op, state_sweep *sweep);

/* Where the random bits of a call come from, for its weight (`which` 0) or state number `which` - 1; false:
 * it has none, and rounds to the nearest. */
bool state_rounding(const op_call *c, const op_def *op, uint32_t which, half_random *r);

/* n numbers from element `first` on to the weight (`which` 0) or to state number `which` - 1, of 16 bits:
 * rounded as there. */
void state_store_half(const op_call *c, const op_def *op, uint32_t which, int64_t first, int64_t n,
                      const float *x);

/* The same to state number `which` - 1 of 8 bits: n numbers of one block, which begins at `first`. */
void state_store_codes(const op_call *c, const op_def *op, uint32_t which, int64_t first, int64_t n,
                       const float *x);

/* Elements first .. first + n - 1 of a state, a block or its beginning, in double and plainly: codes by
 * looking through the map. */
void state_load_reference(const op_call *c, const op_state *s, int64_t first, int64_t n, double *x);
void state_store_reference(const op_call *c, const op_def *op, const op_state *s, int64_t first, int64_t n,
                           const double *x);
/* Element i of the weight. */
void state_set_weight(const op_call *c, const op_def *op, int64_t i, double w);

/* For an update that is skipped: outputs that must live in inputs get what those hold. */
void state_keep(const op_call *c, const op_def *op);
