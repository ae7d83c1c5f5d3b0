/* What fast kernels of elementwise ops share: whom they accept, and how flat arrays are cut for threads.
 * Elements are independent there, so the cut never shows in the result. */
#pragma once

#include <string.h>

#include "base/half.h"
#include "base/threads.h"
#include "ir/op.h"
#include "ops/vector_math.h"

/* All floats are f32. */
static inline bool fast_accepts(const op_call *c) {
    for (uint32_t i = 0; i < c->in_count; i++)
        if (dtype_is_float(c->in[i].dtype) && c->in[i].dtype != DTYPE_F32) return false;
    for (uint32_t o = 0; o < c->out_count; o++)
        if (dtype_is_float(c->out[o].dtype) && c->out[o].dtype != DTYPE_F32) return false;
    return true;
}

/* All floats are f32, f16 or bf16. */
static inline bool fast_accepts_halves(const op_call *c) {
    for (uint32_t i = 0; i < c->in_count; i++)
        if (c->in[i].dtype == DTYPE_F64) return false;
    for (uint32_t o = 0; o < c->out_count; o++)
        if (c->out[o].dtype == DTYPE_F64) return false;
    return true;
}

/* n floats from the first one on: where they are, or, of 16 bits, widened into `room`. */
static inline const float *fast_floats(const op_arg *x, int64_t first, int64_t n, float *room) {
    if (!dtype_is_half(x->dtype)) return (const float *)x->data + first;
    half_widen(x->dtype, (const uint16_t *)x->data + first, n, room);
    return room;
}

/* n floats to where they are stored. */
static inline void fast_floats_store(const op_arg *y, int64_t first, int64_t n, const float *from) {
    if (dtype_is_half(y->dtype))
        half_narrow(y->dtype, from, n, (uint16_t *)y->data + first);
    else
        memcpy((float *)y->data + first, from, (size_t)n * sizeof *from);
}

/* Element i of an array of f32 or of 16 bits, in f32. Kernels that are inlined with the type as a constant
 * read and write vectors of it: the bits are those of half_widen, of the f32 kernel and of half_narrow. */
VECTOR_INLINE float fast_get(const void *x, int64_t i, const dtype type) {
    if (type == DTYPE_BF16) return half_from_bf16(((const uint16_t *)x)[i]);
    if (type == DTYPE_F16) return half_from_f16(((const uint16_t *)x)[i]);
    return ((const float *)x)[i];
}

VECTOR_INLINE void fast_put(void *y, int64_t i, float value, const dtype type) {
    if (type == DTYPE_BF16)
        ((uint16_t *)y)[i] = half_to_bf16(value);
    else if (type == DTYPE_F16)
        ((uint16_t *)y)[i] = half_to_f16(value);
    else
        ((float *)y)[i] = value;
}

VECTOR_INLINE int64_t fast_bytes(const dtype type) { return type == DTYPE_F32 ? 4 : 2; }

VECTOR_INLINE const void *fast_at(const void *x, int64_t i, const dtype type) {
    return (const char *)x + i * fast_bytes(type);
}

/* Asks for memory that is wanted soon (ops/vector_math.h). */
VECTOR_INLINE void fast_fetch(const void *x, int64_t i, const dtype type) {
    __builtin_prefetch(fast_at(x, i, type));
}

/* A body of elements or rows, inlined with the types of what it reads and writes as constants. */
#define FAST_TYPED(name, body, from, to)                                                                     \
    VECTOR_CLONES static void name(const op_call *c, int64_t first, int64_t last) {                          \
        body(c, first, last, from, to);                                                                      \
    }

/* Is all that has a type f32 but for input 0, and output 0, which are these? */
static inline bool fast_is_of(const op_call *c, dtype from, dtype to) {
    for (uint32_t i = 1; i < c->in_count; i++)
        if (dtype_is_float(c->in[i].dtype) && c->in[i].dtype != DTYPE_F32) return false;
    for (uint32_t o = 1; o < c->out_count; o++)
        if (dtype_is_float(c->out[o].dtype) && c->out[o].dtype != DTYPE_F32) return false;
    return c->in[0].dtype == from && c->out[0].dtype == to;
}

/* Are all floats of this type? */
static inline bool fast_is_all(const op_call *c, dtype type) {
    for (uint32_t i = 0; i < c->in_count; i++)
        if (dtype_is_float(c->in[i].dtype) && c->in[i].dtype != type) return false;
    for (uint32_t o = 0; o < c->out_count; o++)
        if (dtype_is_float(c->out[o].dtype) && c->out[o].dtype != type) return false;
    return true;
}

/* One element of an optional (1) input. */
static inline float fast_number(const op_arg *x, float absent) {
    return x->data ? *(const float *)x->data : absent;
}

/* Elements per piece: three operands of it stay in a second-level cache. */
enum { FAST_PIECE = 16384 };

/* Rows of `width` elements per piece. */
static inline int64_t fast_rows(int64_t width) { return width < FAST_PIECE ? FAST_PIECE / width : 1; }

/* ---- results that no cache keeps ---- */

/* Larger ones than this don't stay in most last-level caches until somebody reads them. Written as usual,
 * their memory would first be read, a third of all traffic for nothing. */
enum { FAST_CACHED = 32 << 20 };

static inline bool fast_is_past_caches(const op_call *c, const op_arg *y) {
    for (uint32_t i = 0; i < c->in_count; i++)
        if (c->in[i].data == y->data) return false; /* read anyway */
    return shape_elements(&y->shape) * (int64_t)dtype_bytes(y->dtype) > FAST_CACHED;
}
static inline bool fast_past_caches(const op_call *c) { return fast_is_past_caches(c, &c->out[0]); }

/* Kernels compute so many elements into a buffer in the first cache, and copy that: */
enum { FAST_PART = 512 };

/* Writes n numbers past the caches where the machine can. */
void fast_store_past(float *to, const float *from, int64_t n);
void fast_store_past_halves(uint16_t *to, const uint16_t *from, int64_t n);
/* After the last of a piece, before another thread is told of it. */
void fast_stored_past(void);

/* ---- pieces ---- */

/* Calls body(c, first, last) on all threads for pieces that cover elements 0 .. n-1. */
typedef void (*fast_body)(const op_call *c, int64_t first, int64_t last);

typedef struct {
    const op_call *call;
    fast_body body;
    int64_t n, piece;
} fast_work;

static inline void fast_piece(void *context, int64_t tile, int thread) {
    (void)thread;
    const fast_work *w = (const fast_work *)context;
    int64_t first = tile * w->piece, last = first + w->piece < w->n ? first + w->piece : w->n;
    w->body(w->call, first, last);
}

static inline void fast_for(const op_call *c, int64_t n, int64_t piece, fast_body body) {
    fast_work work = { c, body, n, piece };
    threads_for((n + piece - 1) / piece, fast_piece, &work);
}

static inline void fast_for_elements(const op_call *c, fast_body body) {
    fast_for(c, shape_elements(&c->out[0].shape), FAST_PIECE, body);
}
