/* Copies lanes into panels. Two directions: lanes side by side in memory are copied run by run; lanes that
 * run along the depth are turned in squares of 8 x 8. */
#include <string.h>

#include "ops/matmul/matmul_kernel.h"
#include "ops/vector_math.h"

enum { SQUARE = 8, RUNS = 8 };
typedef float eight __attribute__((vector_size(32)));
#if defined(__clang__)
#define PICK(x, y, ...) __builtin_shufflevector(x, y, __VA_ARGS__)
#else
typedef int32_t places __attribute__((vector_size(32)));
#define PICK(x, y, ...) __builtin_shuffle(x, y, (places){ __VA_ARGS__ })
#endif

/* ---- lanes side by side ---- */

/* Some depths through all panels, then the next ones: what is read lies together. */
VECTOR_INLINE void copy_runs(const matmul_operand *o, int64_t panels, int64_t depth, const int64_t width,
                             float *packed) {
    for (int64_t first = 0; first < depth; first += RUNS) {
        int64_t end = first + RUNS < depth ? first + RUNS : depth;
        for (int64_t panel = 0; panel < panels; panel++)
            for (int64_t p = first; p < end; p++)
                memcpy(packed + (panel * depth + p) * width, o->data + p * o->stride + panel * width,
                       (size_t)width * sizeof(float));
    }
}

/* The widths of the micro-kernels as constants: each run becomes a few vector moves. */
VECTOR_CLONES static void pack_across(const matmul_operand *o, int64_t lanes, int64_t depth, int64_t width,
                                      float *packed) {
    int64_t whole = lanes / width, lane = whole * width;
    switch (width) {
    case 32: copy_runs(o, whole, depth, 32, packed); break;
    case 16: copy_runs(o, whole, depth, 16, packed); break;
    case 14: copy_runs(o, whole, depth, 14, packed); break;
    case 6: copy_runs(o, whole, depth, 6, packed); break;
    case 4: copy_runs(o, whole, depth, 4, packed); break;
    default: lane = 0;
    }
    for (packed += lane * depth; lane < lanes; lane += width, packed += width * depth)
        for (int64_t p = 0; p < depth; p++)
            for (int64_t i = 0; i < width; i++)
                packed[p * width + i] = lane + i < lanes ? o->data[p * o->stride + lane + i] : 0;
}

/* ---- lanes along the depth ---- */

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
VECTOR_INLINE void turn_squares(const matmul_operand *o, const int64_t lanes, int64_t depth,
                                const int64_t width, float *panel) {
    for (int64_t p = 0; p + SQUARE <= depth; p += SQUARE)
#pragma GCC unroll 4
        for (int64_t lane = 0; lane < width; lane += SQUARE) {
            const int64_t count = width - lane < SQUARE ? width - lane : SQUARE;
            eight x[SQUARE];
#pragma GCC unroll 8
            for (int64_t i = 0; i < SQUARE; i++) {
                int64_t from = lane + i < lanes ? lane + i : lanes - 1;
                memcpy(&x[i], o->data + from * o->stride + p, sizeof x[i]);
            }
            turn(x);
#pragma GCC unroll 8
            for (int64_t i = 0; i < SQUARE; i++)
                memcpy(panel + (p + i) * width + lane, &x[i], (size_t)count * sizeof(float));
        }
}

/* With as many lanes as the panel is wide as a constant as well: that is all panels but the last. */
VECTOR_INLINE void turn_panel(const matmul_operand *o, int64_t lanes, int64_t depth, const int64_t width,
                              float *panel) {
    if (lanes == width)
        turn_squares(o, width, depth, width, panel);
    else
        turn_squares(o, lanes, depth, width, panel);
}

VECTOR_CLONES static void pack_along(const matmul_operand *o, int64_t lanes, int64_t depth, int64_t width,
                                     float *panel) {
    int64_t p = depth / SQUARE * SQUARE;
    switch (width) {
    case 32: turn_panel(o, lanes, depth, 32, panel); break;
    case 16: turn_panel(o, lanes, depth, 16, panel); break;
    case 14: turn_panel(o, lanes, depth, 14, panel); break;
    case 6: turn_panel(o, lanes, depth, 6, panel); break;
    case 4: turn_panel(o, lanes, depth, 4, panel); break;
    default: p = 0;
    }
    for (; p < depth; p++)
        for (int64_t i = 0; i < width; i++)
            panel[p * width + i] = o->data[(i < lanes ? i : lanes - 1) * o->stride + p];
}

void matmul_pack_portable(const matmul_operand *o, int64_t lanes, int64_t depth, int64_t width,
                          float *packed) {
    if (o->across) {
        pack_across(o, lanes, depth, width, packed);
        return;
    }
    for (int64_t lane = 0; lane < lanes; lane += width, packed += depth * width) {
        matmul_operand at = matmul_operand_at(o, lane, 0);
        pack_along(&at, lanes - lane < width ? lanes - lane : width, depth, width, packed);
    }
}
