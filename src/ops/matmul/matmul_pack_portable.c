/* Copies lines into panels, 16-bit ones widened on the way. Two directions: lines side by side in memory are
 * copied run by run; lines that run along the depth are turned in squares of 8 x 8. */
#include <string.h>

#include "base/half.h"
#include "ops/matmul/matmul_kernel.h"
#include "ops/vector_math.h"

enum { SQUARE = 8, RUNS = 8, WIDEST = 32 /* panel whose lines are turned */ };
typedef float eight __attribute__((vector_size(32)));
#if defined(__clang__)
#define PICK(x, y, ...) __builtin_shufflevector(x, y, __VA_ARGS__)
#else
typedef int32_t places __attribute__((vector_size(32)));
#define PICK(x, y, ...) __builtin_shuffle(x, y, (places){ __VA_ARGS__ })
#endif

/* n neighbours from place `from` on; n and the type are constants wherever this is inlined. */
VECTOR_INLINE void fetch(const void *data, int64_t from, const int64_t n, const dtype type, float *to) {
    const uint16_t *half = (const uint16_t *)data + from;
    if (type == DTYPE_BF16)
        for (int64_t i = 0; i < n; i++) to[i] = half_from_bf16(half[i]);
    else if (type == DTYPE_F16)
        for (int64_t i = 0; i < n; i++) to[i] = half_from_f16(half[i]);
    else
        memcpy(to, (const float *)data + from, (size_t)n * sizeof(float));
}

typedef uint32_t eight_bits __attribute__((vector_size(32)));
typedef uint16_t eight_halves __attribute__((vector_size(16)));

/* As half_from_f16, eight at once: what holds is a mask of ones. */
VECTOR_INLINE void fetch_f16(const uint16_t *half, eight *to) {
    const eight_bits lowest = (eight_bits){ 0 } + (113u << 23);
    eight_halves halves;
    memcpy(&halves, half, sizeof halves);
    eight_bits x = __builtin_convertvector(halves, eight_bits);
    eight_bits sign = (x & 0x8000u) << 16, size = (x & 0x7fffu) << 13;
    eight_bits small = (eight_bits)((eight)(size + lowest) - (eight)lowest);
    eight_bits quiet = (eight_bits)(size > 0x0f800000u) & 0x400000u;
    eight_bits is_small = (eight_bits)(size < 1u << 23), is_special = (eight_bits)(size >= 0x0f800000u);
    eight_bits wide = (is_special & (0x7f800000u | size | quiet)) | (~is_special & (size + (112u << 23)));
    *to = (eight)((is_small & small) | (~is_small & wide) | sign);
}

/* Eight neighbours from place `from` on. f32 and f16 go straight into a vector: by way of an array gcc 12
 * stores halves of it and waits for them when it reads the whole. For bf16 the array gives the better code.
 */
VECTOR_INLINE void fetch_eight(const void *data, int64_t from, const dtype type, eight *to) {
    float row[SQUARE];
    if (type == DTYPE_F32) {
        memcpy(to, (const float *)data + from, sizeof *to);
    } else if (type == DTYPE_F16) {
        fetch_f16((const uint16_t *)data + from, to);
    } else {
        fetch(data, from, SQUARE, type, row);
        memcpy(to, row, sizeof row);
    }
}

/* ---- lines side by side ---- */

/* Some depths through all panels, then the next ones: what is read lies together. */
VECTOR_INLINE void copy_runs(const matmul_operand *o, int64_t panels, int64_t depth, const int64_t width,
                             const dtype type, float *packed) {
    for (int64_t first = 0; first < depth; first += RUNS) {
        int64_t end = first + RUNS < depth ? first + RUNS : depth;
        for (int64_t panel = 0; panel < panels; panel++)
            for (int64_t p = first; p < end; p++)
                fetch(o->data, p * o->stride + panel * width, width, type,
                      packed + (panel * depth + p) * width);
    }
}

/* The widths of the micro-kernels as constants: each run becomes a few vector moves. */
VECTOR_INLINE void pack_across(const matmul_operand *o, int64_t lines, int64_t depth, int64_t width,
                               const dtype type, float *packed) {
    int64_t whole = lines / width, line = whole * width;
    switch (width) {
    case 32: copy_runs(o, whole, depth, 32, type, packed); break;
    case 16: copy_runs(o, whole, depth, 16, type, packed); break;
    case 14: copy_runs(o, whole, depth, 14, type, packed); break;
    case 6: copy_runs(o, whole, depth, 6, type, packed); break;
    case 4: copy_runs(o, whole, depth, 4, type, packed); break;
    default: line = 0;
    }
    for (packed += line * depth; line < lines; line += width, packed += width * depth)
        for (int64_t p = 0; p < depth; p++)
            for (int64_t i = 0; i < width; i++)
                fetch(o->data, p * o->stride + (line + i < lines ? line + i : lines - 1), 1, type,
                      packed + p * width + i);
}

/* ---- lines along the depth ---- */

/* Rows become columns: pairs, then pairs of pairs, then halves. */
VECTOR_INLINE void turn(eight x[SQUARE]) {
    eight t[SQUARE];
    for (int i = 0; i < SQUARE; i += 2) {
        t[i] = PICK(x[i], x[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        t[i + 1] = PICK(x[i], x[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
    for (int i = 0; i < SQUARE; i += 4)
        for (int k = 0; k < 2; k++) {
            x[i + 2 * k] = PICK(t[i + k], t[i + k + 2], 0, 1, 8, 9, 4, 5, 12, 13);
            x[i + 2 * k + 1] = PICK(t[i + k], t[i + k + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        }
    for (int i = 0; i < 4; i++) {
        eight low = x[i], high = x[i + 4];
        x[i] = PICK(low, high, 0, 1, 2, 3, 8, 9, 10, 11);
        x[i + 4] = PICK(low, high, 4, 5, 6, 7, 12, 13, 14, 15);
    }
}

/* One square after the other across the panel, so that its rows are written in order. */
VECTOR_INLINE void turn_squares(const void *const *at, int64_t depth, const int64_t width, const dtype type,
                                float *panel) {
    for (int64_t p = 0; p + SQUARE <= depth; p += SQUARE)
#pragma GCC unroll 4
        for (int64_t line = 0; line < width; line += SQUARE) {
            const int64_t count = width - line < SQUARE ? width - line : SQUARE;
            eight x[SQUARE];
#pragma GCC unroll 8
            for (int64_t i = 0; i < SQUARE; i++) fetch_eight(at[line + i], p, type, &x[i]);
            turn(x);
#pragma GCC unroll 8
            for (int64_t i = 0; i < SQUARE; i++)
                memcpy(panel + (p + i) * width + line, &x[i], (size_t)count * sizeof(float));
        }
}

/* The last line stands for those that a panel has more than there are. */
VECTOR_INLINE void turn_rows(const void *const *row, int64_t lines, int64_t depth, int64_t width,
                             const dtype type, float *panel) {
    const void *at[WIDEST];
    for (int64_t i = 0; i < WIDEST; i++) at[i] = row[i < lines ? i : lines - 1];
    int64_t p = depth / SQUARE * SQUARE;
    switch (width) {
    case 32: turn_squares(at, depth, 32, type, panel); break;
    case 16: turn_squares(at, depth, 16, type, panel); break;
    case 14: turn_squares(at, depth, 14, type, panel); break;
    case 6: turn_squares(at, depth, 6, type, panel); break;
    case 4: turn_squares(at, depth, 4, type, panel); break;
    default: p = 0;
    }
    for (; p < depth; p++)
        for (int64_t i = 0; i < width; i++) fetch(at[i], p, 1, type, panel + p * width + i);
}

VECTOR_INLINE void pack_panel(const matmul_operand *o, int64_t lines, int64_t depth, int64_t width,
                              const dtype type, float *panel) {
    const void *row[WIDEST];
    for (int64_t i = 0; i < lines; i++) row[i] = matmul_operand_at(o, i, 0).data;
    turn_rows(row, lines, depth, width, type, panel);
}

VECTOR_INLINE void pack_along(const matmul_operand *o, int64_t lines, int64_t depth, int64_t width,
                              const dtype type, float *packed) {
    for (int64_t line = 0; line < lines; line += width, packed += depth * width) {
        matmul_operand at = matmul_operand_at(o, line, 0);
        pack_panel(&at, lines - line < width ? lines - line : width, depth, width, type, packed);
    }
}

/* ---- the types as constants ---- */

#define PACK(name, type)                                                                                     \
    VECTOR_CLONES static void name(const matmul_operand *o, int64_t lines, int64_t depth, int64_t width,     \
                                   float *packed) {                                                          \
        if (o->across)                                                                                       \
            pack_across(o, lines, depth, width, type, packed);                                               \
        else                                                                                                 \
            pack_along(o, lines, depth, width, type, packed);                                                \
    }
PACK(pack_f32, DTYPE_F32)
PACK(pack_f16, DTYPE_F16)
PACK(pack_bf16, DTYPE_BF16)

void matmul_pack_portable(const matmul_operand *o, int64_t lines, int64_t depth, int64_t width,
                          void *packed) {
    switch (o->type) {
    case DTYPE_F16: pack_f16(o, lines, depth, width, packed); break;
    case DTYPE_BF16: pack_bf16(o, lines, depth, width, packed); break;
    default: pack_f32(o, lines, depth, width, packed);
    }
}

#define PACK_ROWS(name, type)                                                                                \
    VECTOR_CLONES static void name(const void *const *row, int64_t lines, int64_t depth, int64_t width,      \
                                   float *panel) {                                                           \
        turn_rows(row, lines, depth, width, type, panel);                                                    \
    }
PACK_ROWS(rows_f32, DTYPE_F32)
PACK_ROWS(rows_f16, DTYPE_F16)
PACK_ROWS(rows_bf16, DTYPE_BF16)

void matmul_pack_apart_portable(const void *const *row, int64_t lines, int64_t depth, int64_t width,
                                dtype type, float *panel) {
    switch (type) {
    case DTYPE_F16: rows_f16(row, lines, depth, width, panel); break;
    case DTYPE_BF16: rows_bf16(row, lines, depth, width, panel); break;
    default: rows_f32(row, lines, depth, width, panel);
    }
}
