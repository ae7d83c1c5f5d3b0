#include "ops/state.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/half.h"
#include "ops/fast.h"
#include "ops/reference.h"

/* ---- the map ---- */

/* Value i of n in the decade up to `end`, or from the largest on and negative. */
#define VALUE(end, n, i) (float)((end) * (0.1 + 0.9 * ((i) + 0.5) / (n)))
#define MINUS(end, n, i) (float)(-(end) * (0.1 + 0.9 * ((n) - (i)-0.5) / (n)))
#define TWO(X, end, n, i) X(end, n, i), X(end, n, (i) + 1)
#define FOUR(X, end, n, i) TWO(X, end, n, i), TWO(X, end, n, (i) + 2)
#define EIGHT(X, end, n, i) FOUR(X, end, n, i), FOUR(X, end, n, (i) + 4)
#define SIXTEEN(X, end, n, i) EIGHT(X, end, n, i), EIGHT(X, end, n, (i) + 8)
#define THIRTY_TWO(X, end, n, i) SIXTEEN(X, end, n, i), SIXTEEN(X, end, n, (i) + 16)
#define SIXTY_FOUR(X, end, n, i) THIRTY_TWO(X, end, n, i), THIRTY_TWO(X, end, n, (i) + 32)

static const float maps[2][STATE_CODES] = {
    { SIXTY_FOUR(MINUS, 1e0, 64, 0), THIRTY_TWO(MINUS, 1e-1, 32, 0), SIXTEEN(MINUS, 1e-2, 16, 0),
      EIGHT(MINUS, 1e-3, 8, 0), FOUR(MINUS, 1e-4, 4, 0), TWO(MINUS, 1e-5, 2, 0), MINUS(1e-6, 1, 0), 0,
      VALUE(1e-6, 1, 0), TWO(VALUE, 1e-5, 2, 0), FOUR(VALUE, 1e-4, 4, 0), EIGHT(VALUE, 1e-3, 8, 0),
      SIXTEEN(VALUE, 1e-2, 16, 0), THIRTY_TWO(VALUE, 1e-1, 32, 0), SIXTY_FOUR(VALUE, 1e0, 64, 0), 1 },
    { 0, TWO(VALUE, 1e-6, 2, 0), FOUR(VALUE, 1e-5, 4, 0), EIGHT(VALUE, 1e-4, 8, 0),
      SIXTEEN(VALUE, 1e-3, 16, 0), THIRTY_TWO(VALUE, 1e-2, 32, 0), SIXTY_FOUR(VALUE, 1e-1, 64, 0),
      SIXTY_FOUR(VALUE, 1e0, 128, 0), SIXTY_FOUR(VALUE, 1e0, 128, 64), 1 },
};

const float *state_map(bool positive) { return maps[positive]; }

/* ---- rules ---- */

status state_infer_weight(const graph *g, const node *n, uint32_t first, uint32_t last, tensor *out) {
    const tensor *w = graph_tensor(g, node_in(g, n, 0)), *d = graph_tensor(g, node_in(g, n, 1));
    char is[SHAPE_TEXT_BYTES], should[SHAPE_TEXT_BYTES];
    if (!shape_equal(&d->shape, &w->shape) || dtype_wide((dtype)d->dtype) != dtype_wide((dtype)w->dtype))
        return status_set(STATUS_INVALID, "'g' is %s %s, its weight is %s %s", dtype_name((dtype)d->dtype),
                          shape_text(&d->shape, is), dtype_name((dtype)w->dtype),
                          shape_text(&w->shape, should));
    for (uint32_t i = first; i <= last; i++) {
        tensor_id t = node_in(g, n, i);
        if (t && shape_elements(graph_shape(g, t)) != 1)
            return status_set(STATUS_INVALID, "'%s' must be one element", n->op->inputs[i].name);
        if (t && dtype_is_half((dtype)graph_tensor(g, t)->dtype))
            return status_set(STATUS_INVALID, "'%s' cannot be %s", n->op->inputs[i].name,
                              dtype_name((dtype)graph_tensor(g, t)->dtype));
    }
    tensor_id key = n->op->update->rounding_key ? node_in(g, n, n->op->update->rounding_key) : 0;
    if (key && shape_elements(graph_shape(g, key)) != 4)
        return status_set(STATUS_INVALID, "the key must have four words");
    out[0] = (tensor){ .shape = w->shape, .dtype = w->dtype };
    return STATUS_OK;
}

status state_infer(const graph *g, const node *n, const op_state *s, tensor *out) {
    const tensor *w = graph_tensor(g, node_in(g, n, 0)), *x = graph_tensor(g, node_in(g, n, s->in));
    tensor_id scales = node_in(g, n, s->scales);
    char is[SHAPE_TEXT_BYTES], should[SHAPE_TEXT_BYTES];
    const char *name = n->op->inputs[s->in].name;
    if (!shape_equal(&x->shape, &w->shape))
        return status_set(STATUS_INVALID, "'%s' is %s, its weight is %s", name, shape_text(&x->shape, is),
                          shape_text(&w->shape, should));
    if ((x->dtype == DTYPE_F64) != (w->dtype == DTYPE_F64))
        return status_set(STATUS_INVALID, "'%s' is %s, its weight is %s", name, dtype_name((dtype)x->dtype),
                          dtype_name((dtype)w->dtype));
    if ((x->dtype == DTYPE_U8) != (scales != 0))
        return status_set(STATUS_INVALID, "'%s' is %s %s scales", name, dtype_name((dtype)x->dtype),
                          scales ? "with" : "without");
    out[s->out] = (tensor){ .shape = x->shape, .dtype = x->dtype };
    if (!scales) return STATUS_OK;
    if (shape_elements(graph_shape(g, scales)) != state_scales(shape_elements(&x->shape)))
        return status_set(STATUS_INVALID, "'%s' is %s with a scale for every %d elements of %s",
                          n->op->inputs[s->scales].name, shape_text(graph_shape(g, scales), is), STATE_BLOCK,
                          shape_text(&x->shape, should));
    out[s->scales_out] = (tensor){ .shape = *graph_shape(g, scales), .dtype = DTYPE_F32 };
    return STATUS_OK;
}

/* Operations per element, of both ways. */
static double conversion_flops(dtype type) { return type == DTYPE_U8 ? 40 : dtype_is_half(type) ? 8 : 0; }

op_cost state_cost(const graph *g, const node *n, double flops) {
    op_cost cost = op_cost_elementwise(g, n, 0);
    double elements = (double)shape_elements(graph_shape(g, node_in(g, n, 0)));
    cost.flops = flops * n->out_count * elements;
    for (uint32_t i = 0; i < n->op->update->state_count; i++) {
        tensor_id t = node_in(g, n, n->op->update->states[i].in);
        if (t) cost.flops += conversion_flops((dtype)graph_tensor(g, t)->dtype) * elements;
    }
    for (uint32_t i = 0; i < 2; i++)
        cost.flops += conversion_flops((dtype)graph_tensor(g, node_in(g, n, i))->dtype) * elements;
    uint8_t key = n->op->update->rounding_key;
    if (key && node_in(g, n, key)) cost.draws = elements / 2; /* two to a word */
    return cost;
}

/* ---- whom kernels accept ---- */

static bool is_f32(const op_call *c, uint32_t i) { return c->in[i].dtype == DTYPE_F32; }

bool state_is_wide(const op_call *c, const op_state *s, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (op_in(c, s[i].in)->dtype != DTYPE_NONE && !is_f32(c, s[i].in)) return false;
    return is_f32(c, 0) && is_f32(c, 1);
}

bool state_is_narrow(const op_call *c, const op_state *s, uint32_t count) {
    bool f32 = dtype_wide(c->in[0].dtype) == DTYPE_F32 && dtype_wide(c->in[1].dtype) == DTYPE_F32;
    return f32 && !state_is_wide(c, s, count);
}

/* ---- blocks, fast ---- */

_Static_assert(FAST_PIECE % STATE_BLOCK == 0, "threads take whole blocks");

/* What a place among the map's values that are not negative stands for, as the map says it and without
 * looking there: vectors read eight times as fast as they look up. Value i of n, which is a power of two, in
 * the decade from 10^-t is 10^-t (0.1 + 0.9 (i + 1/2) / n) = (2n + 18i + 9) / (2n 10^t), and here both are
 * whole numbers that an f32 holds, so the quotient is rounded once. */
VECTOR_INLINE float value_at(int32_t place, bool positive) {
    int32_t number = place + positive; /* n + i, as the decades before have n values together, or one less */
    uint32_t power = half_bits((float)number) & 0x7f800000u;
    int32_t t = 7 + 127 + positive - (int32_t)(power >> 23);
    float n = half_float(power);
    float ten = (t & 1 ? 10.0f : 1.0f) * (t & 2 ? 100.0f : 1.0f) * (t & 4 ? 10000.0f : 1.0f);
    float value = (18 * (float)number - 16 * n + 9) / (2 * n * ten);
    value = t > 0 ? value : 1;
    return place > 0 ? value : 0;
}

VECTOR_CLONES static void decode_signed(const uint8_t *restrict codes, float scale, int64_t n,
                                        float *restrict x) {
    enum { ZERO = STATE_CODES / 2 - 1 };
    for (int64_t i = 0; i < n; i++) {
        int32_t place = codes[i] - ZERO;
        float size = value_at(place < 0 ? -place : place, false);
        x[i] = scale * (place < 0 ? -size : size);
    }
}

VECTOR_CLONES static void decode_positive(const uint8_t *restrict codes, float scale, int64_t n,
                                          float *restrict x) {
    for (int64_t i = 0; i < n; i++) x[i] = scale * value_at(codes[i], true);
}

static void load(const op_call *c, const op_state *s, int64_t first, int64_t n, float *x) {
    const op_arg *from = &c->in[s->in];
    if (from->dtype == DTYPE_U8)
        (s->positive ? decode_positive
                     : decode_signed)((const uint8_t *)from->data + first,
                                      ((const float *)c->in[s->scales].data)[first / STATE_BLOCK], n, x);
    else if (dtype_is_half(from->dtype))
        half_widen(from->dtype, (const uint16_t *)from->data + first, n, x);
    else
        memcpy(x, (const float *)from->data + first, (size_t)n * sizeof *x);
}

VECTOR_CLONES static float largest_of(const float *x, int64_t n) {
    float lane[VECTOR_LANES] = { 0 }, largest = 0;
    int64_t whole = n - n % VECTOR_LANES;
    for (int64_t i = 0; i < whole; i += VECTOR_LANES)
        for (int j = 0; j < VECTOR_LANES; j++) {
            float size = fabsf(x[i + j]);
            lane[j] = size > lane[j] ? size : lane[j];
        }
    for (int j = 0; j < VECTOR_LANES; j++) largest = lane[j] > largest ? lane[j] : largest;
    for (int64_t i = whole; i < n; i++) largest = fabsf(x[i]) > largest ? fabsf(x[i]) : largest;
    return largest;
}

/* Decade d of the map has FEWEST << d values, from 10^(d-7) to 10^(d-6). */
enum { DECADES = 7 };

/* By decade, for the map with a sign (FEWEST 1) and the one without (2): where it ends, halfway between its
 * last value and the next decade's first; its number of values; how many there are per unit. */
#define BORDER(end, n)                                                                                       \
    (float)((end) * (0.5 * (0.1 + 0.9 * ((n)-0.5) / (n)) + 5 * (0.1 + 0.9 * 0.5 / (2.0 * (n)))))
#define SLOPE(end, n) (float)((n) / (0.9 * (end)))
#define EACH(X, f)                                                                                           \
    {                                                                                                        \
        X(1e-6, (f)), X(1e-5, (f)*2), X(1e-4, (f)*4), X(1e-3, (f)*8), X(1e-2, (f)*16), X(1e-1, (f)*32),      \
            X(1e0, (f)*64)                                                                                   \
    }
static const float borders[2][DECADES] = { EACH(BORDER, 1), EACH(BORDER, 2) };
static const float slopes[2][DECADES] = { EACH(SLOPE, 1), EACH(SLOPE, 2) };

/* Where 0 <= x <= 1 stands among the map's values that are not negative, counted from 0: in its decade, and
 * there at its place. Both are computed, as looking through the map takes much longer. */
VECTOR_INLINE int32_t place_of(float x, bool positive) {
    float fewest = positive ? 2 : 1, count = fewest * 64, slope = slopes[positive][DECADES - 1];
    for (int d = DECADES - 2; d >= 0; d--) {
        bool below = x < borders[positive][d];
        count = below ? fewest * (float)(1 << d) : count;
        slope = below ? slopes[positive][d] : slope;
    }
    float place = x * slope - count * (1.0f / 9);
    place = place > 0 ? place : 0; /* NaN ends here */
    place = place < count - 1 ? place : count - 1;
    return (int32_t)place + (int32_t)(count - fewest) + 1;
}

/* The nearest values; `inverse`: of the block's scale. */
VECTOR_CLONES static void encode_signed(const float *x, float inverse, int64_t n, uint8_t *codes) {
    enum { ZERO = 127, LAST = 127 }; /* the code of 0; the place before that of 1 */
    const float small = 0.5f * maps[0][ZERO + 1], large = 0.5f * maps[0][ZERO + LAST] + 0.5f;
    for (int64_t i = 0; i < n; i++) {
        float size = fabsf(x[i]) * inverse;
        int32_t place = place_of(size, false);
        place = size > small ? place : 0;
        int32_t above = size > large ? LAST + 1 : place;
        codes[i] = (uint8_t)(x[i] < 0 ? ZERO - place : ZERO + above);
    }
}

VECTOR_CLONES static void encode_positive(const float *x, float inverse, int64_t n, uint8_t *codes) {
    enum { LAST = STATE_CODES - 2 };
    const float large = 0.5f * maps[1][LAST] + 0.5f;
    for (int64_t i = 0; i < n; i++) {
        float size = x[i] * inverse;
        int32_t place = place_of(size, true);
        place = size > large ? LAST + 1 : place;
        codes[i] = (uint8_t)(x[i] > 0 ? place : 0);
    }
}

/* Smaller blocks are taken for zeros: the inverse of their scale may be no number. */
static const float smallest_scale = FLT_MIN;

/* Where the random bits of this call come from, for its weight (0) and its states; false: it has none. */
static bool rounding_of(const op_call *c, const op_def *op, uint32_t which, half_random *r) {
    const op_arg *key = op_in(c, op->update->rounding_key);
    int32_t stream;
    if (!op->update->rounding_key || !key->data) return false;
    memcpy(&stream, (const char *)c->attributes + op->update->rounding_stream, sizeof stream);
    *r = (half_random){ .stream = (uint32_t)stream + which };
    memcpy(&r->key, key->data, sizeof r->key);
    return true;
}

/* The lower or the upper neighbour of x among the map's values, the upper one with the probability that makes
 * the mean right; `nearest` is the code of one of them. */
VECTOR_INLINE uint8_t drawn_code(const float *map, float x, uint8_t nearest, uint16_t bits) {
    int32_t lower = map[nearest] > x ? nearest - 1 : nearest;
    lower = lower > 0 ? lower : 0;
    lower = lower < STATE_CODES - 2 ? lower : STATE_CODES - 2;
    float part = (x - map[lower]) / (map[lower + 1] - map[lower]);
    return (uint8_t)(lower + ((float)bits * 0x1p-16f < part));
}

VECTOR_CLONES static void draw_codes(const float *map, const float *x, float inverse, const uint16_t *bits,
                                     int64_t n, uint8_t *codes) {
    for (int64_t i = 0; i < n; i++) codes[i] = drawn_code(map, x[i] * inverse, codes[i], bits[i]);
}

static void store_codes(const op_call *c, const op_def *op, uint32_t which, int64_t first, int64_t n,
                        const float *x) {
    const op_state *s = &op->update->states[which - 1];
    float largest = largest_of(x, n), scale = largest >= smallest_scale ? largest : 0;
    float inverse = scale > 0 ? 1 / scale : 0;
    uint8_t *codes = (uint8_t *)c->out[s->out].data + first;
    uint16_t bits[STATE_BLOCK];
    half_random r;
    ((float *)c->out[s->scales_out].data)[first / STATE_BLOCK] = scale;
    if (s->positive)
        encode_positive(x, inverse, n, codes);
    else
        encode_signed(x, inverse, n, codes);
    if (!s->drifts || !rounding_of(c, op, which, &r)) return;
    half_draw(&r, c->first + first, n, bits);
    draw_codes(maps[s->positive], x, inverse, bits, n, codes);
}

static void store_half(const op_call *c, const op_def *op, uint32_t which, int64_t first, int64_t n,
                       const float *x) {
    const op_arg *to = &c->out[which ? op->update->states[which - 1].out : 0];
    uint16_t *y = (uint16_t *)to->data + first;
    half_random r;
    if (to->dtype == DTYPE_BF16 && rounding_of(c, op, which, &r))
        half_narrow_stochastic(&r, c->first + first, x, n, y);
    else
        half_narrow(to->dtype, x, n, y);
}

/* ---- an update of blocks ---- */

typedef struct {
    const op_call *call;
    const op_def *op;
    state_sweep *sweep;
} blocks;

enum { MOST_INPUTS = 12 };

/* A block of weight or gradient: where it lies or, where that is narrow, wide in `own`. */
static void *wide_block(const op_arg *x, int64_t first, int64_t n, float *own) {
    if (!dtype_is_half(x->dtype)) return (float *)x->data + first;
    half_widen(x->dtype, (const uint16_t *)x->data + first, n, own);
    return own;
}

static void run_block(const blocks *b, int64_t first, int64_t n) {
    const op_call *c = b->call;
    op_arg in[MOST_INPUTS], out[1 + 2 * STATE_MOST];
    op_call wide = *c;
    float weight[STATE_BLOCK], gradient[STATE_BLOCK], states[STATE_MOST][STATE_BLOCK];
    bool narrow = dtype_is_half(c->out[0].dtype);
    memcpy(in, c->in, c->in_count * sizeof *in);
    memcpy(out, c->out, c->out_count * sizeof *out);
    wide.in = in, wide.out = out;
    in[0].data = wide_block(&c->in[0], first, n, weight);
    in[1].data = wide_block(&c->in[1], first, n, gradient);
    out[0].data = narrow ? weight : (float *)c->out[0].data + first;
    for (uint32_t s = 0; s < b->op->update->state_count; s++) {
        const op_state *at = &b->op->update->states[s];
        if (!op_in(c, at->in)->data) continue;
        load(c, at, first, n, states[s]);
        in[at->in].data = out[at->out].data = states[s];
    }
    b->sweep(&wide, 0, n);
    if (narrow) store_half(c, b->op, 0, first, n, weight);
    for (uint32_t s = 0; s < b->op->update->state_count; s++) {
        const op_state *at = &b->op->update->states[s];
        if (!op_in(c, at->in)->data) continue;
        if (c->out[at->out].dtype == DTYPE_U8)
            store_codes(c, b->op, s + 1, first, n, states[s]);
        else if (dtype_is_half(c->out[at->out].dtype))
            store_half(c, b->op, s + 1, first, n, states[s]);
        else
            memcpy((float *)c->out[at->out].data + first, states[s], (size_t)n * sizeof(float));
    }
}

static void run_piece(void *context, int64_t piece, int thread) {
    const blocks *b = context;
    (void)thread;
    int64_t all = shape_elements(&b->call->out[0].shape), first = piece * FAST_PIECE,
            last = first + FAST_PIECE;
    if (last > all) last = all;
    for (int64_t i = first; i < last; i += STATE_BLOCK)
        run_block(b, i, last - i < STATE_BLOCK ? last - i : STATE_BLOCK);
}

void state_run_blocks(const op_call *c, const op_def *op, state_sweep *sweep) {
    blocks b = { c, op, sweep };
    threads_for((shape_elements(&c->out[0].shape) + FAST_PIECE - 1) / FAST_PIECE, run_piece, &b);
}

/* ---- blocks, plainly ---- */

void state_load_reference(const op_call *c, const op_state *s, int64_t first, int64_t n, double *x) {
    const op_arg *from = &c->in[s->in];
    bool coded = from->dtype == DTYPE_U8;
    double scale = coded ? reference_get(&c->in[s->scales], first / STATE_BLOCK) : 1;
    for (int64_t i = 0; i < n; i++) {
        double value = reference_get(from, first + i);
        x[i] = coded ? scale * (double)maps[s->positive][(int)value] : value;
    }
}

static int nearest_code(const float *map, double x) {
    int best = 0;
    for (int k = 1; k < STATE_CODES; k++)
        if (fabs((double)map[k] - x) < fabs((double)map[best] - x)) best = k;
    return best;
}

/* Element i of the weight (0) or a state, of a float. */
static void set_rounded(const op_call *c, const op_def *op, uint32_t which, int64_t i, double value) {
    const op_arg *to = &c->out[which ? op->update->states[which - 1].out : 0];
    half_random r;
    float x = (float)value;
    if (to->dtype == DTYPE_BF16 && rounding_of(c, op, which, &r))
        half_narrow_stochastic(&r, c->first + i, &x, 1, (uint16_t *)to->data + i);
    else
        reference_set(to, i, value);
}

void state_set_weight(const op_call *c, const op_def *op, int64_t i, double w) {
    set_rounded(c, op, 0, i, w);
}

void state_store_reference(const op_call *c, const op_def *op, const op_state *s, int64_t first, int64_t n,
                           const double *x) {
    const op_arg *to = &c->out[s->out];
    double scale = 0;
    uint32_t which = (uint32_t)(s - op->update->states) + 1;
    for (int64_t i = 0; i < n; i++) scale = fmax(scale, fabs(x[i]));
    if (scale < (double)smallest_scale) scale = 0;
    for (int64_t i = 0; i < n && to->dtype != DTYPE_U8; i++) set_rounded(c, op, which, first + i, x[i]);
    if (to->dtype != DTYPE_U8) return;
    reference_set(&c->out[s->scales_out], first / STATE_BLOCK, scale);
    half_random r;
    bool drawn = s->drifts && rounding_of(c, op, which, &r);
    for (int64_t i = 0; i < n; i++) {
        double part = scale > 0 ? x[i] / scale : 0;
        int code = nearest_code(maps[s->positive], part);
        uint16_t bits = 0;
        if (drawn) half_draw(&r, c->first + first + i, 1, &bits);
        if (drawn) code = drawn_code(maps[s->positive], (float)part, (uint8_t)code, bits);
        reference_set(to, first + i, s->positive && code == 0 && x[i] > 0 ? 1 : code);
    }
}

void state_keep(const op_call *c, const op_def *op) {
    for (uint32_t a = 0; a < op->alias_count; a++) {
        const op_alias *alias = &op->aliases[a];
        const op_arg *from = op_in(c, alias->in);
        if (!from->data || alias->out >= c->out_count || c->out[alias->out].data == from->data) continue;
        memcpy(c->out[alias->out].data, from->data,
               (size_t)shape_elements(&from->shape) * dtype_bytes(from->dtype));
    }
}
