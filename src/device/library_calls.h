/* The part of cuBLASLt's interface that is used, as its documentation describes it (cuBLAS Library, "Using
 * the cuBLASLt API"), in words of our own. A result of 0 is success; a stream is a cudaStream_t. Functions
 * keep their names there, without the prefix.
 *
 * Once: LIBRARY_CALLS(CALL) lists CALL(name, arguments). */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct library_opaque *library_handle; /* a handle, a description, a layout or a preference */

typedef struct {
    uint64_t words[8];
} library_way; /* cublasLtMatmulAlgo_t */

/* cublasLtMatmulHeuristicResult_t. `state` 0: the rest is valid. */
typedef struct {
    library_way way;
    size_t workspace_bytes;
    int state;
    float waves;
    int reserved[4];
} library_found;

enum {
    LIBRARY_F32 = 0, /* cudaDataType */
    LIBRARY_F16 = 2,
    LIBRARY_BF16 = 14,
    LIBRARY_COMPUTE_F32 = 68, /* cublasComputeType_t */
    LIBRARY_TRANSPOSED = 1,   /* cublasOperation_t */
    LIBRARY_END_PLAIN = 1,    /* cublasLtEpilogue_t */
    LIBRARY_END_BIAS = 4,
    LIBRARY_DESC_TRANSPOSE_A = 3, /* cublasLtMatmulDescAttributes_t */
    LIBRARY_DESC_TRANSPOSE_B = 4,
    LIBRARY_DESC_END = 7,
    LIBRARY_DESC_BIAS = 8,
    LIBRARY_DESC_BIAS_TYPE = 26,
    LIBRARY_PREFERS_WORKSPACE = 1, /* cublasLtMatmulPreferenceAttributes_t */
    LIBRARY_PREFERS_REDUCTIONS = 3,
    LIBRARY_PREFERS_ALIGNMENT = 5, /* of A; those of B, C and D follow */
    LIBRARY_WAY_SPLITS = 2,        /* cublasLtMatmulAlgoConfigAttributes_t */
    LIBRARY_WAY_REDUCES = 3
};

#define LIBRARY_CALLS(CALL)                                                                                  \
    CALL(Create, (library_handle * handle))                                                                  \
    CALL(Destroy, (library_handle handle))                                                                   \
    CALL(MatmulDescCreate, (library_handle * desc, int compute, int scale))                                  \
    CALL(MatmulDescSetAttribute, (library_handle desc, int which, const void *value, size_t bytes))          \
    CALL(MatrixLayoutCreate,                                                                                 \
         (library_handle * layout, int type, uint64_t rows, uint64_t columns, int64_t lead))                 \
    CALL(MatmulPreferenceCreate, (library_handle * preference))                                              \
    CALL(MatmulPreferenceSetAttribute, (library_handle p, int which, const void *value, size_t bytes))       \
    CALL(MatmulPreferenceDestroy, (library_handle preference))                                               \
    CALL(MatmulAlgoGetHeuristic,                                                                             \
         (library_handle handle, library_handle desc, library_handle a, library_handle b, library_handle c,  \
          library_handle d, library_handle preference, int wanted, library_found *found, int *count))        \
    CALL(MatmulAlgoConfigGetAttribute,                                                                       \
         (const library_way *way, int which, void *value, size_t bytes, size_t *written))                    \
    CALL(Matmul, (library_handle handle, library_handle desc, const void *alpha, const void *a,              \
                  library_handle a_layout, const void *b, library_handle b_layout, const void *beta,         \
                  const void *c, library_handle c_layout, void *d, library_handle d_layout,                  \
                  const library_way *way, void *workspace, size_t workspace_bytes, void *stream))
/* And size_t cublasLtGetVersion(void), const char *cublasLtGetStatusString(int result). */
