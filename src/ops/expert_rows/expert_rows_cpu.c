#include "ops/expert_rows/expert_rows.h"
#include "ops/fast.h"
#include "ops/reference.h"

/* The place of (row, j); -1: outside. */
static int64_t place_of(const op_arg *places, int64_t i, int64_t room) {
    int32_t place = ((const int32_t *)places->data)[i];
    return place >= 0 && place < room ? place : -1;
}

static void clear(const op_arg *y) {
    for (int64_t i = 0, n = shape_elements(&y->shape); i < n; i++) reference_set(y, i, 0);
}

static void expert_rows_reference(const op_call *c) {
    const op_arg *x = op_in(c, 0), *places = op_in(c, 1);
    int64_t width = shape_last(&x->shape), rows = shape_rows(&x->shape), k = places->shape.dim[1];
    clear(&c->out[0]);
    for (int64_t i = 0; i < rows * k; i++) {
        int64_t place = place_of(places, i, rows * k);
        for (int64_t w = 0; place >= 0 && w < width; w++)
            reference_set(&c->out[0], place * width + w, reference_get(x, i / k * width + w));
    }
}

static void expert_sum_reference(const op_call *c) {
    const op_arg *x = op_in(c, 0), *places = op_in(c, 1), *weights = op_in(c, 2);
    int64_t width = x->shape.dim[1], rows = places->shape.dim[0], k = places->shape.dim[1];
    for (int64_t r = 0; r < rows; r++)
        for (int64_t w = 0; w < width; w++) {
            double sum = 0;
            for (int64_t j = 0; j < k; j++) {
                int64_t place = place_of(places, r * k + j, rows * k);
                double by = weights->data ? reference_get(weights, r * k + j) : 1;
                if (place >= 0) sum += by * reference_get(x, place * width + w);
            }
            reference_set(&c->out[0], r * width + w, sum);
        }
}

static void expert_sum_backward_reference(const op_call *c) {
    const op_arg *x = op_in(c, 0), *places = op_in(c, 1), *weights = op_in(c, 2), *dy = op_in(c, 3);
    int64_t width = x->shape.dim[1], rows = places->shape.dim[0], k = places->shape.dim[1];
    clear(&c->out[0]);
    for (int64_t i = 0; i < rows * k; i++) {
        int64_t place = place_of(places, i, rows * k);
        double dot = 0, by = reference_get(weights, i);
        for (int64_t w = 0; place >= 0 && w < width; w++) {
            double d = reference_get(dy, i / k * width + w);
            dot += d * reference_get(x, place * width + w);
            reference_set(&c->out[0], place * width + w, by * d);
        }
        reference_set(&c->out[1], i, dot);
    }
}

/* ---- the gradient in f32: inner products have the order of all row sums (ops/vector_math.h) ---- */

VECTOR_CLONES static void add_products(const float *x, const float *y, int64_t n, float *lane) {
    for (int64_t j = 0; j < n; j++) lane[j] += x[j] * y[j];
}

static float inner(const op_arg *x, int64_t x_at, const op_arg *y, int64_t y_at, int64_t width) {
    float lane[VECTOR_LANES], x_room[VECTOR_LANES], y_room[VECTOR_LANES];
    vector_lanes_clear(lane);
    for (int64_t i = 0; i < width; i += VECTOR_LANES) {
        int64_t n = width - i < VECTOR_LANES ? width - i : VECTOR_LANES;
        add_products(fast_floats(x, x_at + i, n, x_room), fast_floats(y, y_at + i, n, y_room), n, lane);
    }
    return vector_lanes_sum(lane);
}

static void weight_slopes(const op_call *c, int64_t first, int64_t last) {
    const op_arg *x = op_in(c, 0), *places = op_in(c, 1), *dy = op_in(c, 3);
    int64_t width = x->shape.dim[1], room = shape_elements(&places->shape), k = places->shape.dim[1];
    for (int64_t i = first; i < last; i++) {
        int64_t place = place_of(places, i, room);
        float dot = place < 0 ? 0 : inner(dy, i / k * width, x, place * width, width);
        fast_floats_store(&c->out[1], i, 1, &dot);
    }
}

/* Threads share the columns, so where two rows have one place the last one has it. */
enum { COLUMNS = 128 };

static void slope_columns(const op_call *c, int64_t first, int64_t last) {
    const op_arg *places = op_in(c, 1), *weights = op_in(c, 2), *dy = op_in(c, 3), *dx = &c->out[0];
    int64_t width = dx->shape.dim[1], room = shape_elements(&places->shape), k = places->shape.dim[1];
    float row[COLUMNS], dx_row[COLUMNS] = { 0 };
    for (int64_t i = 0; i < room; i++) fast_floats_store(dx, i * width + first, last - first, dx_row);
    for (int64_t i = 0; i < room; i++) {
        int64_t place = place_of(places, i, room);
        if (place < 0) continue;
        const float *d = fast_floats(dy, i / k * width + first, last - first, row);
        float by = (float)reference_get(weights, i);
        for (int64_t j = 0; j < last - first; j++) dx_row[j] = by * d[j];
        fast_floats_store(dx, place * width + first, last - first, dx_row);
    }
}

static void expert_sum_backward_columns(const op_call *c) {
    int64_t room = shape_elements(&op_in(c, 1)->shape), width = c->out[0].shape.dim[1];
    fast_for(c, room, fast_rows(width), weight_slopes);
    fast_for(c, width, COLUMNS, slope_columns);
}

const op_kernel expert_rows_cpu[] = { { "expert_rows_reference", NULL, NULL, expert_rows_reference }, { 0 } };
const op_kernel expert_sum_cpu[] = { { "expert_sum_reference", NULL, NULL, expert_sum_reference }, { 0 } };
const op_kernel expert_sum_backward_cpu[] = {
    { "expert_sum_backward_cpu_columns", fast_accepts_halves, NULL, expert_sum_backward_columns },
    { "expert_sum_backward_reference", NULL, NULL, expert_sum_backward_reference },
    { 0 }
};
