/* Twin of the packed product with a matrix of codes: the plain product, whose second operand is read from
 * codes. */
#include "ops/matmul/matmul_cuda.h"

extern "C" {
#include "ops/matmul_coded/matmul_coded.h"
#include "ops/nf4.h"
}

/* Codes of 8 bits and, packed in pairs, of 4. */
struct matmul_coded_bytes {
    const int8_t *codes;
    const float *scales;
    int64_t wide; /* numbers of a row as it lies */
    bool along;
    bool by_rows; /* a scale for each row as it lies; else for each column */

    __device__ __forceinline__ float get(int64_t line, int64_t depth) const {
        int64_t row = along ? line : depth, column = along ? depth : line;
        return (float)codes[row * wide + column] * scales[by_rows ? row : column];
    }
};

struct matmul_coded_nf4 {
    const uint8_t *codes;
    const float *scales;
    int64_t wide;
    bool along;

    __device__ __forceinline__ float get(int64_t line, int64_t depth) const {
        static const float value[NF4_CODES] = NF4_VALUES;
        int64_t row = along ? line : depth, column = along ? depth : line;
        int byte = codes[(row * wide + column) / 2];
        return value[column % 2 ? byte >> 4 : byte & 15] *
               scales[row * nf4_blocks_of(wide) + column / NF4_BLOCK];
    }
    GPU_MEMBER int64_t nf4_blocks_of(int64_t columns) { return (columns + NF4_BLOCK - 1) / NF4_BLOCK; }
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
