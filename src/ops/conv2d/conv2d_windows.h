/* Windows of images as the rows of a matrix that is never written down: what lies in a window is gathered on
 * its way into the panels of a product (ops/matmul/matmul_kernel.h). A row is a place; its depth runs over
 * taps (what a window sees of a place's surroundings), each with some neighbouring numbers. */
#pragma once

#include "ops/conv2d/conv2d_math.h"
#include "ops/matmul/matmul_kernel.h"

typedef struct {
    const matmul_kernel *kernel;
    const void *data; /* images (B,height,width,all) that windows look at: x or dy */
    dtype type;
    int64_t height, width, all;
    int64_t first, numbers; /* of all: those of the group */
    int64_t rows, columns;  /* windows of an image */
    int64_t step;           /* between windows */
    int64_t top, left;      /* of the first window's first tap */
    int64_t tap_rows, tap_columns;
    int64_t direction; /* 1: taps go on down and to the right; -1: up and to the left */
} conv2d_windows;

/* Rows as lines of an operand, and as its depth: `of` is a conv2d_windows. */
extern const matmul_gather conv2d_windows_lines, conv2d_windows_across;

/* The windows of y into x. */
conv2d_windows conv2d_windows_of_y(const conv2d_sizes *n, const op_arg *x);

/* The windows of x into dy. Of the kernel's taps a place of x sees those that are a whole number of steps
 * from it, the same ones all places that lie whole steps apart: there are stride x stride such kinds of
 * places. */
typedef struct {
    conv2d_sizes n;
    conv2d_windows see;
    int64_t down, right; /* of the first place in x */
    int64_t u, v;        /* the first tap in the kernel; the others follow in steps of the stride */
} conv2d_phase;

conv2d_phase conv2d_phase_of(const conv2d_sizes *n, const op_arg *dy, int64_t down, int64_t right);
/* For matmul_apart: `of` is a conv2d_phase. */
int64_t conv2d_phase_place(const void *of, int64_t row, int64_t *rows);
int64_t conv2d_phase_depths(const void *of, int64_t depth);
