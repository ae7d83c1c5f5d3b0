/* Maps of matrices for the copy engine (bulk.h), made by the driver, which is asked for its function when the
 * first map is made: a program is not linked with it. */
#include "device/cuda/bulk.h"

#include <cuda.h>

static_assert(sizeof(gpu_bulk_map) == sizeof(CUtensorMap) && alignof(gpu_bulk_map) >= alignof(CUtensorMap),
              "an argument of a kernel is what the driver makes");

typedef decltype(&cuTensorMapEncodeTiled) encoder;

static encoder find_encoder() {
    void *found = NULL;
    cudaDriverEntryPointQueryResult is = cudaDriverEntryPointSymbolNotFound;
    const char *name = "cuTensorMapEncodeTiled";
#if CUDART_VERSION >= 12050
    cudaError_t e = cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &is);
#else
    cudaError_t e = cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &is);
#endif
    if (e != cudaSuccess) cudaGetLastError(); /* it is no error of a launch */
    return e == cudaSuccess && is == cudaDriverEntryPointSuccess ? (encoder)found : NULL;
}

bool cuda_bulk_map(gpu_bulk_map *map, const gpu_bulk_matrix *m) {
    static const encoder encode = find_encoder();
    if (!encode) return false;
    const cuuint64_t size[] = { (cuuint64_t)m->wide, (cuuint64_t)m->high };
    const cuuint64_t stride[] = { (cuuint64_t)m->stride };
    const cuuint32_t tile[] = { GPU_GROUP_ROW / m->bytes, m->tile_high }, each[] = { 1, 1 };
    const CUtensorMapDataType type =
        m->bytes == 1 ? CU_TENSOR_MAP_DATA_TYPE_UINT8 : CU_TENSOR_MAP_DATA_TYPE_UINT16;
    return encode((CUtensorMap *)map, type, 2, (void *)m->data, size, stride, tile, each,
                  CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                  CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}
