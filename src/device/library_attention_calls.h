/* The part of cuDNN's backend interface that is used, as its header and its documentation describe it (cuDNN
 * API reference, "cudnn_graph library"), in words of our own: descriptors are made, given attributes one by
 * one, and finalized, after which they don't change. A result of 0 is success; a stream is a cudaStream_t.
 * Functions keep their names there, without the prefix.
 *
 * Once: LIBRARY_ATTENTION_CALLS(CALL) lists CALL(name, arguments). */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct library_attention_opaque *library_attention_handle; /* a handle or a descriptor */

/* cudnnBackendDescriptorType_t */
enum {
    DNN_POINTWISE = 0,
    DNN_ENGINE = 2,
    DNN_CONFIGURATION = 3,
    DNN_HEURISTIC = 4,
    DNN_PLAN = 5,
    DNN_KNOB = 7,
    DNN_OF_POINTWISE = 13,
    DNN_GRAPH = 15,
    DNN_PACK = 16,
    DNN_TENSOR = 17,
    DNN_MATMUL = 18,
    DNN_OF_MATMUL = 19,
    DNN_REDUCTION = 21,
    DNN_OF_REDUCTION = 22,
    DNN_OF_RESHAPE = 31
};

/* cudnnBackendAttributeType_t: what the values of an attribute are */
enum {
    DNN_IS_HANDLE = 0,
    DNN_IS_TYPE = 1,
    DNN_IS_BOOLEAN = 2, /* a bool */
    DNN_IS_INT64 = 3,
    DNN_IS_POINTER = 6,
    DNN_IS_MODE_OF_HEURISTIC = 8,
    DNN_IS_KNOB = 9,
    DNN_IS_NUMERICAL_NOTE = 11,
    DNN_IS_MODE_OF_POINTWISE = 14,
    DNN_IS_DESCRIPTOR = 15,
    DNN_IS_REDUCTION = 18
};

/* cudnnBackendAttributeName_t */
enum {
    DNN_POINTWISE_MODE = 0,
    DNN_POINTWISE_PRECISION = 1,
    DNN_POINTWISE_AXIS = 9,
    DNN_HEURISTIC_MODE = 200,
    DNN_HEURISTIC_GRAPH = 201,
    DNN_HEURISTIC_RESULTS = 202,
    DNN_CONFIGURATION_ENGINE = 300,
    DNN_CONFIGURATION_KNOBS = 302,
    DNN_CONFIGURATION_WORKSPACE = 303,
    DNN_PLAN_HANDLE = 400,
    DNN_PLAN_CONFIGURATION = 401,
    DNN_PLAN_WORKSPACE = 402,
    DNN_KNOB_TYPE = 600,
    DNN_KNOB_VALUE = 601,
    DNN_OF_POINTWISE_MODE = 750, /* a pointwise descriptor; y = mode(x, b), or t ? x : b */
    DNN_OF_POINTWISE_X = 751,
    DNN_OF_POINTWISE_B = 752,
    DNN_OF_POINTWISE_Y = 753,
    DNN_OF_POINTWISE_T = 758,
    DNN_GRAPH_HANDLE = 800,
    DNN_GRAPH_OPERATIONS = 801,
    DNN_TENSOR_ALIGNMENT = 900,
    DNN_TENSOR_TYPE = 901,
    DNN_TENSOR_DIMENSIONS = 902,
    DNN_TENSOR_STRIDES = 903,
    DNN_TENSOR_NAME = 906,
    DNN_TENSOR_VIRTUAL = 907,  /* it has no place in memory */
    DNN_TENSOR_BY_VALUE = 908, /* its one number is the host's */
    DNN_PACK_NAMES = 1000,
    DNN_PACK_POINTERS = 1001,
    DNN_PACK_WORKSPACE = 1003,
    DNN_ENGINE_INDEX = 1301,
    DNN_ENGINE_NUMERICAL_NOTES = 1303,
    DNN_MATMUL_PRECISION = 1500,
    DNN_OF_MATMUL_A = 1520,
    DNN_OF_MATMUL_B = 1521,
    DNN_OF_MATMUL_C = 1522,
    DNN_OF_MATMUL_HOW = 1523, /* a matmul descriptor */
    DNN_REDUCTION_OPERATOR = 1600,
    DNN_REDUCTION_PRECISION = 1601,
    DNN_OF_REDUCTION_X = 1610,
    DNN_OF_REDUCTION_Y = 1611,
    DNN_OF_REDUCTION_HOW = 1612, /* a reduction descriptor */
    DNN_OF_RESHAPE_X = 2200,
    DNN_OF_RESHAPE_Y = 2201
};

/* Values of attributes. */
enum {
    DNN_F32 = 0, /* cudnnDataType_t */
    DNN_F16 = 2,
    DNN_I32 = 4,
    DNN_BF16 = 9,
    DNN_BOOLEAN = 11,
    DNN_ADD = 0, /* cudnnPointwiseMode_t */
    DNN_MULTIPLY = 1,
    DNN_DIVIDE = 6,
    DNN_SUBTRACT = 9,
    DNN_EXP = 13,
    DNN_LOG = 15,
    DNN_IS_AT_LEAST = 303,
    DNN_INDEX = 501, /* of the element along the axis */
    DNN_SELECT = 601,
    DNN_REDUCE_ADD = 0, /* cudnnReduceTensorOp_t */
    DNN_REDUCE_MAX = 3,
    DNN_HEURISTIC_A = 3,     /* cudnnBackendHeurMode_t: by a tree of decisions, nothing is timed */
    DNN_NOTE_OTHER_BITS = 4, /* cudnnBackendNumericalNote_t: results differ from run to run */
    DNN_NOTES = 16           /* room for more of them than there are */
};

#define LIBRARY_ATTENTION_CALLS(CALL)                                                                        \
    CALL(Create, (library_attention_handle * handle))                                                        \
    CALL(Destroy, (library_attention_handle handle))                                                         \
    CALL(SetStream, (library_attention_handle handle, void *stream))                                         \
    CALL(BackendCreateDescriptor, (int type, library_attention_handle *descriptor))                          \
    CALL(BackendDestroyDescriptor, (library_attention_handle descriptor))                                    \
    CALL(BackendSetAttribute,                                                                                \
         (library_attention_handle descriptor, int which, int type, int64_t count, const void *values))      \
    CALL(BackendGetAttribute, (library_attention_handle descriptor, int which, int type, int64_t wanted,     \
                               int64_t *count, void *values))                                                \
    CALL(BackendFinalize, (library_attention_handle descriptor))                                             \
    CALL(BackendExecute,                                                                                     \
         (library_attention_handle handle, library_attention_handle plan, library_attention_handle pack))
/* And size_t cudnnGetVersion(void), const char *cudnnGetErrorString(int result). */
