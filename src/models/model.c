#include "models/model.h"

tensor_id model_parameter(graph *g, const char *name, shape s, uint8_t more_flags) {
    return graph_add_source(g, &(graph_source){ .name = name,
                                                .shape = s,
                                                .dtype = DTYPE_F32,
                                                .role = ROLE_PARAMETER,
                                                .flags = (uint8_t)(TENSOR_TRAINABLE | more_flags) });
}

tensor_id model_input(graph *g, const char *name, shape s, dtype type) {
    return graph_add_source(g,
                            &(graph_source){ .name = name, .shape = s, .dtype = type, .role = ROLE_INPUT });
}

tensor_id model_result(graph *g, const char *name) {
    return graph_add_source(
        g, &(graph_source){ .name = name, .shape = SHAPE(1), .dtype = DTYPE_F32, .role = ROLE_RESULT });
}
