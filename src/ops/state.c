#include "ops/state.h"

#include <math.h>
#include <string.h>

#include "base/half.h"
#include "ops/fast.h"
#include "ops/reference.h"
#include "ops/state_math.h"
#include "ops/state_vectors.h"

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

/* Operations per element, of both ways: by the vectors of ops/state_vectors.h, as their times go. The rate of
 * what has 16 bits knows of widening and rounding already. */
static double conversion_flops(dtype type) { return type == DTYPE_U8 ? 9 : dtype_is_half(type) ? 1 : 0; }

/* Is what has this type rounded stochastically, where there is a key? */
static bool is_drawn(dtype type, bool drifts) { return type == DTYPE_BF16 || (type == DTYPE_U8 && drifts); }

op_cost state_cost(const graph *g, const node *n, double flops) {
    const op_update *u = n->op->update;
    op_cost cost = op_cost_elementwise(g, n, 0);
    double elements = (double)shape_elements(graph_shape(g, node_in(g, n, 0)));
    dtype weight = (dtype)graph_tensor(g, node_in(g, n, 0))->dtype;
    double each = flops * (1 + u->state_count), drawn = is_drawn(weight, false);
    for (uint32_t i = 0; i < 2; i++)
        each += conversion_flops((dtype)graph_tensor(g, node_in(g, n, i))->dtype);
    for (uint32_t i = 0; i < u->state_count; i++) {
        tensor_id t = node_in(g, n, u->states[i].in);
        if (!t) continue;
        dtype type = (dtype)graph_tensor(g, t)->dtype;
        each += conversion_flops(type), drawn += is_drawn(type, u->states[i].drifts);
    }
    cost.flops = each * elements;
    if (u->rounding_key && node_in(g, n, u->rounding_key)) cost.draws = drawn * elements / 2; /* two a word */
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

VECTOR_CLONES static void decode_signed(const uint8_t *restrict codes, float scale, int64_t n,
                                        float *restrict x) {
    for (int64_t i = 0; i < n; i++) x[i] = scale * state_decoded(codes[i], false);
}

VECTOR_CLONES static void decode_positive(const uint8_t *restrict codes, float scale, int64_t n,
                                          float *restrict x) {
    for (int64_t i = 0; i < n; i++) x[i] = scale * state_decoded(codes[i], true);
}

/* Of n codes the first so many go by vectors. */
static int64_t by_vectors(int64_t n) { return state_vectors_usable() ? n - n % STATE_VECTOR : 0; }

static void decode(bool positive, const uint8_t *codes, float scale, int64_t n, float *x) {
    int64_t done = by_vectors(n);
    if (done) state_vectors_decode(positive, codes, scale, done, x);
    (positive ? decode_positive : decode_signed)(codes + done, scale, n - done, x + done);
}

static void load(const op_call *c, const op_state *s, int64_t first, int64_t n, float *x) {
    const op_arg *from = &c->in[s->in];
    if (from->dtype == DTYPE_U8)
        decode(s->positive, (const uint8_t *)from->data + first,
               ((const float *)c->in[s->scales].data)[first / STATE_BLOCK], n, x);
    else if (dtype_is_half(from->dtype))
        half_widen(from->dtype, (const uint16_t *)from->data + first, n, x);
    else
        memcpy(x, (const float *)from->data + first, (size_t)n * sizeof *x);
}

VECTOR_CLONES static float largest_of(const float *x, int64_t n) {
    float lane[VECTOR_STEP] = { 0 }, largest = 0;
    int64_t whole = n - n % VECTOR_STEP;
    for (int64_t i = 0; i < whole; i += VECTOR_STEP)
        for (int j = 0; j < VECTOR_STEP; j++) {
            float size = fabsf(x[i + j]);
            lane[j] = size > lane[j] ? size : lane[j];
        }
    for (int j = 0; j < VECTOR_STEP; j++) largest = lane[j] > largest ? lane[j] : largest;
    for (int64_t i = whole; i < n; i++) largest = fabsf(x[i]) > largest ? fabsf(x[i]) : largest;
    return largest;
}

/* The nearest values; `inverse`: of the block's scale. */
VECTOR_CLONES static void encode_signed(const float *x, float inverse, int64_t n, uint8_t *codes) {
    for (int64_t i = 0; i < n; i++) codes[i] = state_coded_signed(x[i], inverse);
}

VECTOR_CLONES static void encode_positive(const float *x, float inverse, int64_t n, uint8_t *codes) {
    for (int64_t i = 0; i < n; i++) codes[i] = state_coded_positive(x[i], inverse);
}

static void encode(bool positive, const float *x, float inverse, int64_t n, uint8_t *codes) {
    int64_t done = by_vectors(n);
    if (done) state_vectors_encode(positive, x, inverse, done, codes);
    (positive ? encode_positive : encode_signed)(x + done, inverse, n - done, codes + done);
}

bool state_rounding(const op_call *c, const op_def *op, uint32_t which, half_random *r) {
    const op_arg *key = op_in(c, op->update->rounding_key);
    int32_t stream;
    if (!op->update->rounding_key || !key->data) return false;
    memcpy(&stream, (const char *)c->attributes + op->update->rounding_stream, sizeof stream);
    *r = (half_random){ .stream = (uint32_t)stream + which };
    memcpy(&r->key, key->data, sizeof r->key);
    return true;
}

VECTOR_CLONES static void draw_codes(const bool positive, const float *x, float inverse, const uint16_t *bits,
                                     int64_t n, uint8_t *codes) {
    for (int64_t i = 0; i < n; i++) codes[i] = state_drawn(x[i] * inverse, codes[i], bits[i], positive);
}

void state_store_codes(const op_call *c, const op_def *op, uint32_t which, int64_t first, int64_t n,
                       const float *x) {
    const op_state *s = &op->update->states[which - 1];
    float scale = state_scale(largest_of(x, n)), inverse = state_inverse(scale);
    uint8_t *codes = (uint8_t *)c->out[s->out].data + first;
    uint16_t bits[STATE_BLOCK];
    half_random r;
    ((float *)c->out[s->scales_out].data)[first / STATE_BLOCK] = scale;
    encode(s->positive, x, inverse, n, codes);
    if (!s->drifts || !state_rounding(c, op, which, &r)) return;
    half_draw(&r, c->first + first, n, bits);
    draw_codes(s->positive, x, inverse, bits, n, codes);
}

void state_store_half(const op_call *c, const op_def *op, uint32_t which, int64_t first, int64_t n,
                      const float *x) {
    const op_arg *to = &c->out[which ? op->update->states[which - 1].out : 0];
    uint16_t *y = (uint16_t *)to->data + first;
    half_random r;
    if (to->dtype == DTYPE_BF16 && state_rounding(c, op, which, &r))
        half_narrow_stochastic(&r, c->first + first, x, n, y);
    else
        half_narrow(to->dtype, x, n, y);
}

/* ---- an update of blocks ---- */

typedef struct {
    const op_call *call;
    const op_def *op;
    state_sweep *sweep;
    int64_t block;
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
    if (narrow) state_store_half(c, b->op, 0, first, n, weight);
    for (uint32_t s = 0; s < b->op->update->state_count; s++) {
        const op_state *at = &b->op->update->states[s];
        if (!op_in(c, at->in)->data) continue;
        if (c->out[at->out].dtype == DTYPE_U8)
            state_store_codes(c, b->op, s + 1, first, n, states[s]);
        else if (dtype_is_half(c->out[at->out].dtype))
            state_store_half(c, b->op, s + 1, first, n, states[s]);
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
    for (int64_t i = first; i < last; i += b->block)
        run_block(b, i, last - i < b->block ? last - i : b->block);
}

/* Without codes nothing asks for whole blocks: fewer elements at a time stay in the first cache. */
static int64_t block_of(const op_call *c, const op_def *op) {
    enum { WITHOUT_CODES = 1024 };
    for (uint32_t s = 0; s < op->update->state_count; s++)
        if (op_in(c, op->update->states[s].in)->dtype == DTYPE_U8) return STATE_BLOCK;
    return WITHOUT_CODES;
}

void state_run_blocks(const op_call *c, const op_def *op, state_sweep *sweep) {
    blocks b = { c, op, sweep, block_of(c, op) };
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
    if (to->dtype == DTYPE_BF16 && state_rounding(c, op, which, &r))
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
    if (scale < (double)STATE_SMALLEST_SCALE) scale = 0;
    for (int64_t i = 0; i < n && to->dtype != DTYPE_U8; i++) set_rounded(c, op, which, first + i, x[i]);
    if (to->dtype != DTYPE_U8) return;
    reference_set(&c->out[s->scales_out], first / STATE_BLOCK, scale);
    half_random r;
    bool drawn = s->drifts && state_rounding(c, op, which, &r);
    for (int64_t i = 0; i < n; i++) {
        double part = scale > 0 ? x[i] / scale : 0;
        int code = nearest_code(maps[s->positive], part);
        uint16_t bits = 0;
        if (drawn) half_draw(&r, c->first + first + i, 1, &bits);
        if (drawn) code = state_drawn((float)part, (uint8_t)code, bits, s->positive);
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
