/* Twins of expert_rows_cpu.c's kernels. What lies at a place is looked up there: which choice (row, j) it
 * belongs to is found out first. A router gives each place to one; whatever else is given, the last one has
 * it, as by the CPU. */
#include "ops/cuda_rows.h"

extern "C" {
#include "ops/expert_rows/expert_rows.h"
}

/* The place of choice i; -1: outside. */
GPU_INLINE int64_t place_of(const int32_t *places, int64_t i, int64_t room) {
    int32_t place = places[i];
    return place >= 0 && place < room ? place : -1;
}

struct expert_nobody {
    int32_t *owner;
    __device__ __forceinline__ void operator()(int64_t place) const { owner[place] = 0; }
};

struct expert_owner {
    const int32_t *places;
    int32_t *owner;
    int64_t room;

    __device__ __forceinline__ void operator()(int64_t i) const {
        int64_t place = place_of(places, i, room);
        if (place >= 0) atomicMax(&owner[place], (int32_t)i + 1);
    }
};

static int64_t room_of(const op_call *c) { return shape_elements(&c->in[1].shape); }
static int64_t chosen_of(const op_call *c) { return c->in[1].shape.dim[1]; }
static const int32_t *places_of(const op_call *c) { return (const int32_t *)c->in[1].data; }

/* The number of the choice that each place belongs to, counted from 1; 0: none. */
static uint64_t owners_scratch(const op_call *c, int) { return (uint64_t)room_of(c) * sizeof(int32_t); }

static const int32_t *owners(const op_call *c) {
    int32_t *owner = (int32_t *)c->scratch;
    cuda_each(room_of(c), expert_nobody{ owner });
    cuda_each(room_of(c), expert_owner{ places_of(c), owner, room_of(c) });
    return owner;
}

/* ---- to the places ---- */

struct expert_rows_to {
    cuda_plain x, y;
    const int32_t *owner;
    int64_t width;
    int32_t chosen;

    __device__ __forceinline__ void operator()(int64_t at) const {
        cuda_cell cell = cuda_split(at, width);
        int32_t i = owner[cell.row];
        y.set(at, i ? x.get((i - 1) / chosen * width + cell.column) : 0);
    }
};

static void run_rows(const op_call *c) {
    expert_rows_to f = { cuda_plain_of(&c->in[0]), cuda_plain_of(&c->out[0]), owners(c),
                         shape_last(&c->in[0].shape), (int32_t)chosen_of(c) };
    cuda_each(shape_elements(&c->out[0].shape), f);
}

/* ---- from the places: in double, which products of floats are exact in ---- */

struct expert_sum_of {
    cuda_span x, weights, y; /* weights.data may be NULL */
    const int32_t *places;
    int64_t width, room;
    int32_t chosen;

    __device__ __forceinline__ void operator()(int64_t at) const {
        cuda_cell cell = cuda_split(at, width);
        double sum = 0;
        for (int64_t i = cell.row * chosen; i < (cell.row + 1) * chosen; i++) {
            int64_t place = place_of(places, i, room);
            double by = weights.data ? (double)weights.get(i) : 1;
            if (place >= 0) sum = fma(by, (double)x.get(place * width + cell.column), sum);
        }
        y.set(at, (float)sum);
    }
};

static void run_sum(const op_call *c) {
    expert_sum_of f = { cuda_in(c, 0),         cuda_in(c, 2), cuda_out(c, 0),       places_of(c),
                        c->in[0].shape.dim[1], room_of(c),    (int32_t)chosen_of(c) };
    cuda_each(shape_elements(&c->out[0].shape), f);
}

/* ---- the gradient of a weighted sum ---- */

struct expert_sum_weights {
    cuda_span x, dy, dweights;
    const int32_t *places;
    int64_t width, room;
    int32_t chosen;

    __device__ __forceinline__ void operator()(int64_t i) const {
        int64_t place = place_of(places, i, room), from = i / chosen * width;
        float dot = place < 0 ? 0 : cuda_row_sum(width, [&](int64_t j) {
            return dy.get(from + j) * x.get(place * width + j);
        });
        if (cuda_lane() == 0) dweights.set(i, dot);
    }
};

struct expert_sum_slopes {
    cuda_span weights, dy, dx;
    const int32_t *owner;
    int64_t width;
    int32_t chosen;

    __device__ __forceinline__ void operator()(int64_t at) const {
        cuda_cell cell = cuda_split(at, width);
        int32_t i = owner[cell.row];
        dx.set(at, i ? weights.get(i - 1) * dy.get((i - 1) / chosen * width + cell.column) : 0);
    }
};

static void run_sum_backward(const op_call *c) {
    int64_t width = c->in[0].shape.dim[1];
    int32_t chosen = (int32_t)chosen_of(c);
    cuda_span x = cuda_in(c, 0), weights = cuda_in(c, 2), dy = cuda_in(c, 3);
    cuda_rows(room_of(c),
              expert_sum_weights{ x, dy, cuda_out(c, 1), places_of(c), width, room_of(c), chosen });
    cuda_each(room_of(c) * width, expert_sum_slopes{ weights, dy, cuda_out(c, 0), owners(c), width, chosen });
}

CUDA_KERNELS(expert_rows_cuda, { "expert_rows_cuda_gather", cuda_accepts, owners_scratch, run_rows });
CUDA_KERNELS(expert_sum_cuda, { "expert_sum_cuda_gather", cuda_accepts, NULL, run_sum });
CUDA_KERNELS(expert_sum_backward_cuda,
             { "expert_sum_backward_cuda_rows", cuda_accepts, owners_scratch, run_sum_backward });
