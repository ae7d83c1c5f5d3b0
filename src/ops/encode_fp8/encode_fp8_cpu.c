#include <math.h>

#include "base/least.h"
#include "ops/codes.h"
#include "ops/encode_fp8/encode_fp8.h"
#include "ops/fast.h"
#include "ops/reference.h"

static fp8_form form_of(const op_call *c) {
    return (fp8_form)((const encode_fp8_attributes *)c->attributes)->form;
}

/* ---- plainly: by the formats' definitions, in double ---- */

/* The code of |x|, which none is too large for. */
static int plain_code(fp8_form form, double x) {
    int fraction = form == FP8_E4M3 ? 3 : 2, least_exponent = form == FP8_E4M3 ? -6 : -14, exponent;
    frexp(x, &exponent); /* x < 2^exponent */
    exponent = x > 0 && exponent - 1 > least_exponent ? exponent - 1 : least_exponent;
    double steps = nearbyint(ldexp(x, fraction - exponent)); /* of the last place */
    return (int)steps + (exponent - least_exponent) * (1 << fraction);
}

static void plain_block(const op_call *c, int64_t first, int64_t n, int64_t block) {
    const op_arg *x = op_in(c, 0);
    double largest = 0, most = form_of(c) == FP8_E4M3 ? 448 : 57344;
    int scale = FP8_LEAST_SCALE - 127;
    for (int64_t i = 0; i < n; i++) largest = fmax(largest, fabs(reference_get(x, first + i)));
    while (ldexp(most, scale) < largest) scale++;
    reference_set(&c->out[1], block, scale + 127);
    for (int64_t i = 0; i < n; i++) {
        double value = ldexp(reference_get(x, first + i), -scale);
        reference_set(&c->out[0], first + i,
                      plain_code(form_of(c), fabs(value)) + (signbit(value) ? 128 : 0));
    }
}

/* Of finite numbers. */
static void encode_reference(const op_call *c) {
    const shape *s = &op_in(c, 0)->shape;
    int64_t width = shape_last(s), blocks = fp8_blocks(width);
    for (int64_t k = 0; k < shape_rows(s) * blocks; k++) {
        int64_t at = k % blocks * FP8_TILE;
        plain_block(c, k / blocks * width + at, least(FP8_TILE, width - at), k);
    }
}

/* ---- fast ---- */

static void encode_rows(const op_call *c, int64_t first, int64_t last) {
    const op_arg *x = op_in(c, 0);
    int64_t width = shape_last(&x->shape), blocks = fp8_blocks(width);
    float room[FP8_TILE];
    for (int64_t row = first; row < last; row++)
        for (int64_t block = 0; block < blocks; block++) {
            int64_t at = row * width + block * FP8_TILE, n = least(FP8_TILE, width - block * FP8_TILE);
            const float *numbers = fast_floats(x, at, n, room);
            uint8_t scale = fp8_scale(form_of(c), codes_largest(numbers, n));
            ((uint8_t *)c->out[1].data)[row * blocks + block] = scale;
            fp8_encode_run(form_of(c), numbers, scale, n, (uint8_t *)c->out[0].data + at);
        }
}

static void encode_fast(const op_call *c) {
    const shape *s = &op_in(c, 0)->shape;
    fast_for(c, shape_rows(s), fast_rows(shape_last(s)), encode_rows);
}

const op_kernel encode_fp8_cpu[] = { { "encode_fp8_cpu_rows", NULL, NULL, encode_fast },
                                     { "encode_fp8_reference", NULL, NULL, encode_reference },
                                     { 0 } };
