/* Twins of fake_quantize_cpu.c's fast kernel. A lane is looked over before anything of it is written, so y
 * may be x. */
#include "ops/cuda_codes.h"

extern "C" {
#include "ops/fake_quantize/fake_quantize.h"
}

GPU_INLINE float fake_quantize_value(float x, float scale, float inverse) {
    return scale * (float)codes_nearest(x, inverse);
}

struct fake_quantize_row {
    cuda_span x, y;
    int64_t columns;
    __device__ __forceinline__ void operator()(int64_t row) const {
        int64_t first = row * columns;
        float scale = codes_scale(cuda_codes_largest(x, first, columns)), inverse = codes_inverse(scale);
        for (int64_t i = first + cuda_lane(); i < first + columns; i += GPU_WARP)
            y.set(i, fake_quantize_value(x.get(i), scale, inverse));
    }
};

struct fake_quantize_scales {
    cuda_codes_parts parts;
    int64_t count;
    float *scales;
    __device__ __forceinline__ void operator()(int64_t column) const {
        scales[column] = cuda_codes_column(parts, count, column);
    }
};

struct fake_quantize_one {
    cuda_span x, y;
    const float *scales;
    int64_t columns;
    __device__ __forceinline__ void operator()(int64_t i) const {
        float scale = scales[cuda_split(i, columns).column];
        y.set(i, fake_quantize_value(x.get(i), scale, codes_inverse(scale)));
    }
};

static bool by_columns(const op_call *c) {
    return ((const fake_quantize_attributes *)c->attributes)->columns != 0;
}

/* The scales, then the parts they come from. */
static uint64_t scratch(const op_call *c, int) {
    const shape *x = &c->in[0].shape;
    if (!by_columns(c)) return 0;
    return (uint64_t)((1 + cuda_codes_parts_of(shape_rows(x))) * shape_last(x)) * sizeof(float);
}

static void run(const op_call *c) {
    const shape *x = &c->in[0].shape;
    int64_t rows = shape_rows(x), columns = shape_last(x), count = cuda_codes_parts_of(rows);
    if (!by_columns(c)) {
        fake_quantize_row f = { cuda_in(c, 0), cuda_out(c, 0), columns };
        cuda_rows(rows, f);
        return;
    }
    float *scales = (float *)c->scratch;
    cuda_codes_parts parts = { cuda_in(c, 0), (int32_t *)c->scratch + columns, rows, columns };
    fake_quantize_scales of_columns = { parts, count, scales };
    fake_quantize_one f = { cuda_in(c, 0), cuda_out(c, 0), scales, columns };
    cuda_each(count * columns, parts);
    cuda_each(columns, of_columns);
    cuda_each(rows * columns, f);
}

CUDA_KERNELS(fake_quantize_cuda, { "fake_quantize_cuda_lanes", cuda_accepts, scratch, run });
