#include "ops/matmul/matmul_epilogue.h"

#include <string.h>

#include "base/half.h"
#include "base/least.h"
#include "ops/gelu/gelu_math.h"
#include "ops/vector_math.h"

VECTOR_INLINE void epilogue_rows(const matmul_epilogue *e, int64_t columns, const bool before,
                                 const bool bias, const bool residual) {
    for (int64_t i = 0; i < e->rows; i++) {
        const float *sum = e->sum + i * e->sum_stride;
        const float *b = before ? (const float *)e->before + i * e->before_stride : NULL;
        const float *r = residual ? (const float *)e->residual + i * e->residual_stride : NULL;
        float *out = (float *)e->out + i * e->out_stride;
#pragma GCC ivdep
        for (int64_t j = 0; j < columns; j++) {
            float x = (before ? b[j] : 0.0f) + sum[j];
            if (bias) x = x + ((const float *)e->bias)[j];
            if (residual) x = x + r[j];
            out[j] = x;
        }
    }
}

VECTOR_INLINE void epilogue_columns(const matmul_epilogue *e, int64_t columns) {
    if (!e->bias && !e->residual) {
        if (e->before)
            epilogue_rows(e, columns, true, false, false);
        else
            epilogue_rows(e, columns, false, false, false);
    } else if (!e->residual)
        epilogue_rows(e, columns, e->before != NULL, true, false);
    else if (!e->bias)
        epilogue_rows(e, columns, e->before != NULL, false, true);
    else
        epilogue_rows(e, columns, e->before != NULL, true, true);
}

VECTOR_INLINE void gelu_row(float *restrict out, const float *x, int64_t n, const bool tanh) {
    if (x)
#pragma GCC ivdep
        for (int64_t j = 0; j < n; j++)
            out[j] = out[j] * (tanh ? gelu_tanh_slope_f32(x[j]) : gelu_erf_slope_f32(x[j]));
    else
#pragma GCC ivdep
        for (int64_t j = 0; j < n; j++) out[j] = tanh ? gelu_tanh_f32(out[j]) : gelu_erf_f32(out[j]);
}

VECTOR_INLINE void gelu_rows(const matmul_epilogue *e, const bool tanh) {
    for (int64_t i = 0; i < e->rows; i++) {
        float *out = (float *)e->out + i * e->out_stride;
        gelu_row(out, e->x ? (const float *)e->x + i * e->out_stride : NULL, e->columns, tanh);
    }
}

VECTOR_CLONES static void gelu_block(const matmul_epilogue *e) {
    if (e->gelu == MATMUL_GELU_TANH)
        gelu_rows(e, true);
    else
        gelu_rows(e, false);
}

VECTOR_CLONES static void epilogue_f32(const matmul_epilogue *e) {
    if (e->columns == 32)
        epilogue_columns(e, 32);
    else
        epilogue_columns(e, e->columns);
}

/* x += what is stored at `from`. */
VECTOR_INLINE void add_stored(float *x, const void *from, int64_t n, dtype type) {
    const uint16_t *half = from;
    const float *wide = from;
    if (type == DTYPE_BF16)
        for (int64_t j = 0; j < n; j++) x[j] = half_from_bf16(half[j]) + x[j];
    else if (type == DTYPE_F16)
        for (int64_t j = 0; j < n; j++) x[j] = half_from_f16(half[j]) + x[j];
    else
        for (int64_t j = 0; j < n; j++) x[j] = wide[j] + x[j];
}

VECTOR_INLINE void store_row(const float *x, int64_t n, dtype type, void *to) {
    uint16_t *half = to;
    if (type == DTYPE_BF16)
        for (int64_t j = 0; j < n; j++) half[j] = half_to_bf16(x[j]);
    else if (type == DTYPE_F16)
        for (int64_t j = 0; j < n; j++) half[j] = half_to_f16(x[j]);
    else
        memcpy(to, x, (size_t)n * sizeof *x);
}

/* GELU of the row as it would have been stored, in 16 bits: the bits are those of a product and a GELU apart.
 */
VECTOR_INLINE void gelu_half_row(const matmul_epilogue *e, int64_t i, float *x, int64_t n) {
    float slope_at[MATMUL_MAX_COLUMNS] = { 0 };
    union {
        uint16_t half[MATMUL_MAX_COLUMNS];
        float wide[MATMUL_MAX_COLUMNS];
    } stored;
    store_row(x, n, e->type, &stored);
    for (int64_t j = 0; j < n; j++) x[j] = 0;
    add_stored(x, &stored, n, e->type);
    if (e->x) add_stored(slope_at, matmul_element(e->x, i * e->out_stride, e->type), n, e->type);
    if (e->gelu == MATMUL_GELU_TANH)
        gelu_row(x, e->x ? slope_at : NULL, n, true);
    else
        gelu_row(x, e->x ? slope_at : NULL, n, false);
}

/* Where out, bias or before has 16 bits: summed in f32 in the same order as for f32, and converted to the
 * type of `out` once, when it is stored. */
VECTOR_INLINE void epilogue_mixed_columns(const matmul_epilogue *e, int64_t columns) {
    for (int64_t i = 0; i < e->rows; i++) {
        float x[MATMUL_MAX_COLUMNS];
        for (int64_t j = 0; j < columns; j++) x[j] = e->sum[i * e->sum_stride + j];
        if (e->before)
            add_stored(x, matmul_element(e->before, i * e->before_stride, e->before_type), columns,
                       e->before_type);
        if (e->bias) add_stored(x, e->bias, columns, e->bias_type);
        if (e->residual)
            add_stored(x, matmul_element(e->residual, i * e->residual_stride, e->type), columns, e->type);
        if (e->gelu && dtype_is_half(e->type)) gelu_half_row(e, i, x, columns);
        store_row(x, columns, e->type, (char *)e->out + i * e->out_stride * matmul_bytes(e->type));
    }
}

/* What most blocks need: sums, with a bias or an f32 before them or neither, that are narrowed, and GELU of
 * them or times the slope of GELU at x. With types as constants a row stays in registers, and takes half of
 * the time or less. */
typedef struct {
    bool before, bias;
    dtype type;
    matmul_gelu_form gelu;
    bool slope;
} narrowing;

VECTOR_INLINE float widened(uint16_t x, const dtype type) {
    return type == DTYPE_BF16 ? half_from_bf16(x) : half_from_f16(x);
}

VECTOR_INLINE uint16_t narrowed(float x, const dtype type) {
    return type == DTYPE_BF16 ? half_to_bf16(x) : half_to_f16(x);
}

VECTOR_INLINE float with_gelu(float y, float x, const matmul_gelu_form gelu, const bool slope) {
    if (gelu == MATMUL_GELU_TANH) return slope ? y * gelu_tanh_slope_f32(x) : gelu_tanh_f32(y);
    return slope ? y * gelu_erf_slope_f32(x) : gelu_erf_f32(y);
}

VECTOR_INLINE void narrow_rows(const matmul_epilogue *e, const int64_t columns, const narrowing as) {
    for (int64_t i = 0; i < e->rows; i++) {
        const float *sum = e->sum + i * e->sum_stride;
        const float *before = as.before ? (const float *)e->before + i * e->before_stride : NULL;
        const uint16_t *x = as.slope ? (const uint16_t *)e->x + i * e->out_stride : NULL;
        uint16_t *out = (uint16_t *)e->out + i * e->out_stride;
#pragma GCC ivdep
        for (int64_t j = 0; j < columns; j++) {
            float y = as.before ? before[j] + sum[j] : sum[j];
            if (as.bias) y = ((const float *)e->bias)[j] + y;
            if (as.gelu)
                y = with_gelu(widened(narrowed(y, as.type), as.type), as.slope ? widened(x[j], as.type) : 0,
                              as.gelu, as.slope);
            out[j] = narrowed(y, as.type);
        }
    }
}

VECTOR_INLINE void narrow_with(const matmul_epilogue *e, const dtype type, const matmul_gelu_form gelu,
                               const bool slope) {
    if (e->before && e->bias)
        narrow_rows(e, MATMUL_MAX_COLUMNS, (narrowing){ true, true, type, gelu, slope });
    else if (e->before)
        narrow_rows(e, MATMUL_MAX_COLUMNS, (narrowing){ true, false, type, gelu, slope });
    else if (e->bias)
        narrow_rows(e, MATMUL_MAX_COLUMNS, (narrowing){ false, true, type, gelu, slope });
    else
        narrow_rows(e, MATMUL_MAX_COLUMNS, (narrowing){ false, false, type, gelu, slope });
}

static bool only_narrows(const matmul_epilogue *e) {
    return e->columns == MATMUL_MAX_COLUMNS && dtype_is_half(e->type) && !e->residual &&
           (!e->before || e->before_type == DTYPE_F32) && (!e->bias || e->bias_type == DTYPE_F32) &&
           (!e->gelu || e->type == DTYPE_BF16);
}

VECTOR_CLONES static void narrow_f16(const matmul_epilogue *e) {
    narrow_with(e, DTYPE_F16, MATMUL_NO_GELU, false);
}

VECTOR_CLONES static void narrow_bf16(const matmul_epilogue *e) {
    narrow_with(e, DTYPE_BF16, MATMUL_NO_GELU, false);
}

VECTOR_CLONES static void narrow_gelu(const matmul_epilogue *e) {
    if (e->gelu == MATMUL_GELU_TANH)
        narrow_with(e, DTYPE_BF16, MATMUL_GELU_TANH, false);
    else
        narrow_with(e, DTYPE_BF16, MATMUL_GELU_ERF, false);
}

/* A row of x takes so long that the processor does not see the next ones coming: they are asked for before.
 */
static void fetch_x(const matmul_epilogue *e) {
    for (int64_t i = 0; i < e->rows; i++)
        __builtin_prefetch(matmul_element(e->x, i * e->out_stride, e->type));
}

VECTOR_CLONES static void narrow_slope(const matmul_epilogue *e) {
    fetch_x(e);
    if (e->gelu == MATMUL_GELU_TANH)
        narrow_with(e, DTYPE_BF16, MATMUL_GELU_TANH, true);
    else
        narrow_with(e, DTYPE_BF16, MATMUL_GELU_ERF, true);
}

VECTOR_CLONES static void epilogue_any(const matmul_epilogue *e) {
    if (e->columns == MATMUL_MAX_COLUMNS)
        epilogue_mixed_columns(e, MATMUL_MAX_COLUMNS);
    else
        epilogue_mixed_columns(e, e->columns);
}

static void epilogue_mixed(const matmul_epilogue *e) {
    if (!only_narrows(e))
        epilogue_any(e);
    else if (e->gelu)
        (e->x ? narrow_slope : narrow_gelu)(e);
    else
        (e->type == DTYPE_BF16 ? narrow_bf16 : narrow_f16)(e);
}

/* All f32: the block at once. Where some type has 16 bits: in pieces of at most a panel's columns, for which
 * there is room on the stack; streams have wider rows. */
void matmul_epilogue_run(const matmul_epilogue *given) {
    matmul_epilogue e = *given;
    bool any_half = dtype_is_half(e.type) || (e.before && dtype_is_half(e.before_type)) ||
                    (e.bias && dtype_is_half(e.bias_type));
    if (!any_half) {
        epilogue_f32(&e);
        if (e.gelu) gelu_block(&e); /* the block is in the first cache */
        return;
    }
    for (int64_t left = e.columns; left > 0; left -= MATMUL_MAX_COLUMNS) {
        e.columns = least(left, MATMUL_MAX_COLUMNS);
        epilogue_mixed(&e);
        e.sum += MATMUL_MAX_COLUMNS;
        e.out = (char *)e.out + MATMUL_MAX_COLUMNS * matmul_bytes(e.type);
        if (e.before) e.before = matmul_element(e.before, MATMUL_MAX_COLUMNS, e.before_type);
        if (e.residual) e.residual = matmul_element(e.residual, MATMUL_MAX_COLUMNS, e.type);
        if (e.x) e.x = matmul_element(e.x, MATMUL_MAX_COLUMNS, e.type);
        if (e.bias) e.bias = matmul_element(e.bias, MATMUL_MAX_COLUMNS, e.bias_type);
    }
    if (given->gelu && !dtype_is_half(given->type))
        gelu_block(given); /* of 16 bits epilogue_mixed has done it */
}
