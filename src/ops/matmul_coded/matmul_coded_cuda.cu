/* Twin of the packed product with a matrix of codes: the plain product, whose second operand is read from
 * codes. */
#include "ops/matmul/matmul_cuda.h"

extern "C" {
#include "ops/matmul_coded/matmul_coded.h"
#include "ops/nf4.h"
}

/* What of a code belongs to its line or to its depth: a part of its number, and of its scale. */
struct matmul_coded_at {
    int64_t at;
    float scale;
};

/* Codes of 8 bits and, packed in pairs, of 4. */
struct matmul_coded_bytes {
    const int8_t *codes;
    const float *scales;
    int64_t wide; /* numbers of a row as it lies */
    bool along;
    bool by_rows; /* a scale for each row as it lies; else for each column */

    __device__ __forceinline__ matmul_coded_at of_line(int64_t line) const {
        return { along ? line * wide : line, along == by_rows ? scales[line] : 0 };
    }
    __device__ __forceinline__ matmul_coded_at of_depth(int64_t depth) const {
        return { along ? depth : depth * wide, along != by_rows ? scales[depth] : 0 };
    }
    __device__ __forceinline__ float get(const matmul_coded_at &line, const matmul_coded_at &depth) const {
        return (float)codes[line.at + depth.at] * (along == by_rows ? line.scale : depth.scale);
    }
};

struct matmul_coded_pair {
    int64_t at, block;
};

struct matmul_coded_nf4 {
    const uint8_t *codes;
    const float *scales;
    int64_t wide;
    bool along;

    __device__ __forceinline__ matmul_coded_pair of_row(int64_t row) const {
        return { row * wide, row * ((wide + NF4_BLOCK - 1) / NF4_BLOCK) };
    }
    GPU_MEMBER matmul_coded_pair of_column(int64_t column) { return { column, column / NF4_BLOCK }; }
    __device__ __forceinline__ matmul_coded_pair of_line(int64_t line) const {
        return along ? of_row(line) : of_column(line);
    }
    __device__ __forceinline__ matmul_coded_pair of_depth(int64_t depth) const {
        return along ? of_column(depth) : of_row(depth);
    }
    __device__ __forceinline__ float get(const matmul_coded_pair &line,
                                         const matmul_coded_pair &depth) const {
        static const float value[NF4_CODES] = NF4_VALUES;
        int64_t at = line.at + depth.at; /* rows have whole bytes */
        int byte = codes[at / 2];
        return value[at % 2 ? byte >> 4 : byte & 15] * scales[line.block + depth.block];
    }
};

template <class B>
static void product(const matmul_matrix &a, const B &b, const matmul_end &end, const matmul_extent &n) {
    if (n.rows > 0 && n.rows <= MATMUL_FEW && n.columns > 0)
        matmul_few(a, b, end, n);
    else
        matmul_gathered(a, b, end, n);
}

static void run(const op_call *c) {
    const matmul_coded_attributes *t = (const matmul_coded_attributes *)c->attributes;
    const op_arg *x = op_in(c, MATMUL_CODED_X), *codes = op_in(c, MATMUL_CODED_CODES);
    const float *scales = (const float *)op_in(c, MATMUL_CODED_SCALES)->data;
    shape w = matmul_coded_shape(codes->dtype, &codes->shape);
    bool along = t->tb != 0;
    matmul_extent n = { shape_rows(&x->shape), w.dim[along ? 0 : 1], w.dim[along ? 1 : 0] };
    matmul_end end = matmul_end_of(cuda_in(c, MATMUL_CODED_BIAS), cuda_in(c, MATMUL_CODED_RESIDUAL), {},
                                   cuda_out(c, 0), n.columns);
    matmul_matrix a = matmul_matrix_of(x, false);
    matmul_coded_bytes bytes = { (const int8_t *)codes->data, scales, w.dim[1], along, t->rows != 0 };
    matmul_coded_nf4 pairs = { (const uint8_t *)codes->data, scales, w.dim[1], along };
    if (codes->dtype == DTYPE_I8)
        product(a, bytes, end, n);
    else
        product(a, pairs, end, n);
}

CUDA_KERNELS(matmul_coded_cuda, { "matmul_coded_cuda_plain", cuda_accepts, NULL, run });
