/* Twin of adafactor_cpu.c's fast kernel, sweep for sweep. The numbers of the step, and those that a sweep
 * finds out for later ones, stand in the scratch; where there is no step each sweep passes on what was. */
#include "ops/cuda_order.h"
#include "ops/cuda_rows.h"
#include "ops/cuda_tiles.h"

extern "C" {
#include "ops/adafactor/adafactor.h"
#include "ops/fast.h"
}
#include "ops/adafactor/adafactor_math.h"

struct adafactor_numbers {
    adafactor_step step;
    double mean; /* of the rows' means */
    double rate;
    int64_t skipped;
};

/* Everything that sweeps know. Of a vector `rows` are its moments, and it has no columns. */
struct adafactor_sweep {
    const float *w, *g, *rows, *columns;
    float *w_out, *rows_out, *columns_out;
    adafactor_numbers *numbers;
    double *pieces;              /* sums of squares of the update, by piece */
    float *column_factor;        /* (width) sums of squares at first */
    float *row_factor, *row_sum; /* (height) */
    int64_t height, width;
};

struct adafactor_begin {
    adafactor_sweep s;
    adafactor_attributes a;
    const float *lr, *scale;
    const int32_t *t, *ok;

    __device__ __forceinline__ void operator()() const {
        s.numbers->skipped = ok && *ok == 0;
        s.numbers->step = adafactor_step_of(&a, (double)*lr, *t, scale ? (double)*scale : 1);
    }
};

/* From the sums of squares of the pieces. */
struct adafactor_end {
    adafactor_sweep s;

    __device__ __forceinline__ double start(int64_t) const { return 0; }
    __device__ __forceinline__ double term(int64_t i) const { return s.pieces[i]; }
    __device__ __forceinline__ void add(double &to, int64_t, double x) const { to += x; }
    __device__ __forceinline__ void end(int64_t, double sum) const {
        adafactor_step step = s.numbers->step;
        s.numbers->rate = adafactor_rate(&step, sum, (double)(s.height * s.width));
    }
};

/* ---- of a matrix ---- */

/* Squares: the means of rows, and what the columns add up. */
struct adafactor_squares {
    adafactor_sweep s;

    __device__ __forceinline__ void add(int64_t row, int64_t column, float sum[1]) const {
        float d = (float)s.numbers->step.scale * s.g[row * s.width + column];
        sum[0] += d * d;
    }

    __device__ __forceinline__ void operator()(int64_t row) const {
        float scale = (float)s.numbers->step.scale;
        float sum = cuda_row_sum(s.width, [&](int64_t j) {
            float d = scale * s.g[row * s.width + j];
            return d * d;
        });
        if (cuda_lane()) return;
        adafactor_step step = s.numbers->step;
        double mean = (double)sum / (double)s.width + step.eps;
        float next = (float)adafactor_mean(&step, (double)s.rows[row], mean);
        s.rows_out[row] = s.numbers->skipped ? s.rows[row] : next;
    }
};

struct adafactor_columns {
    adafactor_sweep s;

    __device__ __forceinline__ void operator()(int64_t j) const {
        adafactor_step step = s.numbers->step;
        double mean = (double)s.column_factor[j] / (double)s.height + step.eps;
        float next = (float)adafactor_mean(&step, (double)s.columns[j], mean);
        s.columns_out[j] = s.numbers->skipped ? s.columns[j] : next;
        s.column_factor[j] = adafactor_column(next);
    }
};

struct adafactor_mean_of_rows {
    adafactor_sweep s;

    __device__ __forceinline__ double start(int64_t) const { return 0; }
    __device__ __forceinline__ double term(int64_t i) const { return (double)s.rows_out[i]; }
    __device__ __forceinline__ void add(double &to, int64_t, double x) const { to += x; }
    __device__ __forceinline__ void end(int64_t, double sum) const {
        s.numbers->mean = sum / (double)s.height;
    }
};

struct adafactor_measure {
    adafactor_sweep s;

    __device__ __forceinline__ void operator()(int64_t i) const {
        adafactor_step step = s.numbers->step;
        float row = adafactor_row(&step, s.numbers->mean, s.rows_out[i]);
        float sum = cuda_row_sum(s.width, [&](int64_t j) {
            float u = row * s.g[i * s.width + j] * s.column_factor[j];
            return u * u;
        });
        if (cuda_lane() == 0) s.row_factor[i] = row, s.row_sum[i] = sum;
    }
};

/* Rows of a piece. */
struct adafactor_pieces {
    adafactor_sweep s;

    __device__ __forceinline__ double start(int64_t) const { return 0; }
    __device__ __forceinline__ double term(int64_t i) const { return (double)s.row_sum[i]; }
    __device__ __forceinline__ void add(double &to, int64_t, double x) const { to += x; }
    __device__ __forceinline__ void end(int64_t piece, double sum) const { s.pieces[piece] = sum; }
};

struct adafactor_matrix {
    adafactor_sweep s;

    __device__ __forceinline__ void operator()(int64_t at) const {
        cuda_cell cell = cuda_split(at, s.width);
        float weights = (float)s.numbers->step.weights, rate = (float)s.numbers->rate, w = s.w[at];
        float next = adafactor_update(weights, rate, w,
                                      s.row_factor[cell.row] * s.g[at] * s.column_factor[cell.column]);
        s.w_out[at] = s.numbers->skipped ? w : next;
    }
};

/* ---- of a vector ---- */

struct adafactor_moments {
    adafactor_sweep s;

    __device__ __forceinline__ double start(int64_t) const { return 0; }
    __device__ __forceinline__ double term(int64_t i) const {
        adafactor_step step = s.numbers->step;
        float d = (float)step.scale * s.g[i], square = d * d;
        float next = s.numbers->skipped ? s.rows[i] : adafactor_moment(&step, s.rows[i], square);
        s.rows_out[i] = next;
        return (double)square / (double)next;
    }
    __device__ __forceinline__ void add(double &to, int64_t, double x) const { to += x; }
    __device__ __forceinline__ void end(int64_t piece, double sum) const { s.pieces[piece] = sum; }
};

struct adafactor_vector {
    adafactor_sweep s;

    __device__ __forceinline__ void operator()(int64_t i) const {
        float weights = (float)s.numbers->step.weights, w = s.w[i];
        float rate = (float)(s.numbers->rate * s.numbers->step.scale);
        float next = adafactor_update(weights, rate, w, s.g[i] / sqrtf(s.rows_out[i]));
        s.w_out[i] = s.numbers->skipped ? w : next;
    }
};

/* ---- a call ---- */

static bool is_matrix(const op_call *c) { return c->out_count > 2; }

/* Rows that the CPU's threads take at a time; elements of a vector. */
static int64_t piece_of(const op_call *c) {
    return is_matrix(c) ? fast_rows(shape_last(&c->in[0].shape)) : (int64_t)FAST_PIECE;
}

static int64_t parts_of(const op_call *c) {
    return shape_elements(&c->in[0].shape) / (is_matrix(c) ? shape_last(&c->in[0].shape) : 1);
}

static uint64_t tiles_bytes(const op_call *c) {
    int64_t width = shape_last(&c->in[0].shape);
    uint64_t bytes = is_matrix(c) ? cuda_tiles_scratch(shape_elements(&c->in[0].shape) / width, width, 1) : 0;
    return (bytes + 63) / 64 * 64;
}

/* Tiles, numbers, pieces, and of a matrix a number for each column and two for each row. */
static uint64_t scratch(const op_call *c, int) {
    int64_t width = shape_last(&c->in[0].shape), pieces = cuda_pieces(parts_of(c), piece_of(c));
    uint64_t bytes = tiles_bytes(c) + sizeof(adafactor_numbers) + (uint64_t)pieces * sizeof(double);
    return bytes + (is_matrix(c) ? (uint64_t)(width + 2 * parts_of(c)) * sizeof(float) : 0);
}

static adafactor_sweep sweep_of(const op_call *c) {
    adafactor_sweep s = {};
    s.w = (const float *)c->in[0].data, s.g = (const float *)c->in[1].data;
    s.rows = (const float *)c->in[2].data, s.columns = (const float *)op_in(c, 3)->data;
    s.w_out = (float *)c->out[0].data, s.rows_out = (float *)c->out[1].data;
    s.columns_out = is_matrix(c) ? (float *)c->out[2].data : NULL;
    s.width = shape_last(&c->in[0].shape), s.height = shape_elements(&c->in[0].shape) / s.width;
    s.numbers = (adafactor_numbers *)((char *)c->scratch + tiles_bytes(c));
    s.pieces = (double *)(s.numbers + 1);
    s.column_factor = (float *)(s.pieces + cuda_pieces(parts_of(c), piece_of(c)));
    s.row_factor = s.column_factor + s.width, s.row_sum = s.row_factor + s.height;
    return s;
}

static void run_matrix(const op_call *c, const adafactor_sweep &s) {
    cuda_tiles_sum to[] = { { NULL, s.column_factor } };
    cuda_tiles(c, adafactor_squares{ s }, s.height, s.width, to);
    cuda_rows(s.height, adafactor_squares{ s });
    cuda_each(s.width, adafactor_columns{ s });
    cuda_in_order(s.height, s.height, adafactor_mean_of_rows{ s });
    cuda_rows(s.height, adafactor_measure{ s });
    cuda_in_order(s.height, piece_of(c), adafactor_pieces{ s });
}

static void run(const op_call *c) {
    adafactor_sweep s = sweep_of(c);
    int64_t n = s.height * s.width, pieces = cuda_pieces(parts_of(c), piece_of(c));
    adafactor_begin begin = { s,
                              *(const adafactor_attributes *)c->attributes,
                              (const float *)c->in[4].data,
                              (const float *)op_in(c, 6)->data,
                              (const int32_t *)c->in[5].data,
                              (const int32_t *)op_in(c, 7)->data };
    cuda_once(begin);
    if (is_matrix(c))
        run_matrix(c, s);
    else
        cuda_in_order(n, piece_of(c), adafactor_moments{ s });
    cuda_in_order(pieces, pieces, adafactor_end{ s });
    if (is_matrix(c))
        cuda_each(n, adafactor_matrix{ s });
    else
        cuda_each(n, adafactor_vector{ s });
}

CUDA_KERNELS(adafactor_cuda, { "adafactor_cuda_sweeps", fast_accepts, scratch, run });
