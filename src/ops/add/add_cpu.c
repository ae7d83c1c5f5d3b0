#include "ops/add/add.h"
#include "ops/reference.h"
#include "ops/widened.h"

static void add_reference(const op_call *c) {
    for (int64_t i = 0, n = shape_elements(&c->out[0].shape); i < n; i++)
        reference_set(&c->out[0], i, reference_get(op_in(c, 0), i) + reference_get(op_in(c, 1), i));
}

enum { AHEAD = 512 }; /* elements: two operands at once are more than the processor sees coming */

/* Numbers of a, b and y in turn; of each type as it is. */
typedef struct {
    const char *a, *b;
    char *y;
} arrays;

VECTOR_INLINE void add_range(const arrays *x, int64_t n, const dtype a, const dtype b, const dtype y) {
    int64_t i = 0;
    for (; i + VECTOR_STEP <= n; i += VECTOR_STEP) {
        for (int j = 0; j < VECTOR_STEP; j += 4 * VECTOR_LINE / (int)fast_bytes(a))
            fast_fetch(x->a, i + j + AHEAD, a);
        for (int j = 0; j < VECTOR_STEP; j += 4 * VECTOR_LINE / (int)fast_bytes(b))
            fast_fetch(x->b, i + j + AHEAD, b);
#pragma GCC ivdep
        for (int j = 0; j < VECTOR_STEP; j++)
            fast_put(x->y, i + j, fast_get(x->a, i + j, a) + fast_get(x->b, i + j, b), y);
    }
#pragma GCC ivdep
    for (; i < n; i++) fast_put(x->y, i, fast_get(x->a, i, a) + fast_get(x->b, i, b), y);
}

VECTOR_INLINE void add_past(const arrays *x, int64_t n, const dtype a, const dtype b, const dtype y) {
    union {
        float wide[FAST_PART];
        uint16_t half[FAST_PART];
    } part;
    for (int64_t i = 0; i < n; i += FAST_PART) {
        int64_t count = n - i < FAST_PART ? n - i : FAST_PART;
        arrays here = { x->a + i * fast_bytes(a), x->b + i * fast_bytes(b), (char *)&part };
        void *to = x->y + i * fast_bytes(y);
        add_range(&here, count, a, b, y);
        if (y == DTYPE_F32)
            fast_store_past(to, part.wide, count);
        else
            fast_store_past_halves(to, part.half, count);
    }
    fast_stored_past();
}

VECTOR_INLINE void add_typed(const op_call *c, int64_t first, int64_t last, const dtype a, const dtype b,
                             const dtype y) {
    arrays x = { (const char *)c->in[0].data + first * fast_bytes(a),
                 (const char *)c->in[1].data + first * fast_bytes(b),
                 (char *)c->out[0].data + first * fast_bytes(y) };
    if (fast_past_caches(c))
        add_past(&x, last - first, a, b, y);
    else
        add_range(&x, last - first, a, b, y);
}

#define ADD(name, a, b, y)                                                                                   \
    VECTOR_CLONES static void name(const op_call *c, int64_t first, int64_t last) {                          \
        add_typed(c, first, last, a, b, y);                                                                  \
    }
ADD(add_f32, DTYPE_F32, DTYPE_F32, DTYPE_F32)
ADD(add_bf16, DTYPE_BF16, DTYPE_BF16, DTYPE_BF16)
ADD(add_bf16_to_f32, DTYPE_F32, DTYPE_BF16, DTYPE_F32)

/* The sum has the type of a. What is not here goes by way of f32. */
static const struct {
    dtype a, b;
    fast_body body;
} ways[] = { { DTYPE_F32, DTYPE_F32, add_f32 },
             { DTYPE_BF16, DTYPE_BF16, add_bf16 },
             { DTYPE_F32, DTYPE_BF16, add_bf16_to_f32 } };
enum { WAYS = sizeof ways / sizeof *ways };

static int way_of(const op_call *c) {
    int w = 0;
    while (w < WAYS && (ways[w].a != c->in[0].dtype || ways[w].b != c->in[1].dtype)) w++;
    return c->out[0].dtype == c->in[0].dtype ? w : WAYS;
}

static bool accepts(const op_call *c) { return way_of(c) < WAYS; }
static void add_fast(const op_call *c) { fast_for_elements(c, ways[way_of(c)].body); }
static void add_widened(const op_call *c) { widened_elements(c, add_f32); }

const op_kernel add_cpu[] = { { "add_cpu_vector", accepts, NULL, add_fast },
                              { "add_cpu_widened", widened_accepts, widened_elements_scratch, add_widened },
                              { "add_reference", NULL, NULL, add_reference },
                              { 0 } };
