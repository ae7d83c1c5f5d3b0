#include "models/model.h"

#include "base/hash.h"
#include "ops/reshape/reshape.h"

tensor_id model_parameter(graph *g, const char *name, shape s, uint16_t more_flags) {
    return graph_add_source(g, &(graph_source){ .name = name,
                                                .shape = s,
                                                .dtype = DTYPE_F32,
                                                .role = ROLE_PARAMETER,
                                                .flags = (uint16_t)(TENSOR_TRAINABLE | more_flags) });
}

tensor_id model_input(graph *g, const char *name, shape s, dtype type) {
    return graph_add_source(g,
                            &(graph_source){ .name = name, .shape = s, .dtype = type, .role = ROLE_INPUT });
}

tensor_id model_result(graph *g, const char *name) {
    return graph_add_source(
        g, &(graph_source){ .name = name, .shape = SHAPE(1), .dtype = DTYPE_F32, .role = ROLE_RESULT });
}

tensor_id model_shown(graph *g, tensor_id logits) {
    return g->failed ? 0 : reshape_apply(g, logits, *graph_shape(g, logits));
}

status model_computes(const model *m) {
    if (!m->untrained) return STATUS_OK;
    return status_set(STATUS_INVALID, "%s (%s) can be planned, and not computed yet: %s", m->name, m->family,
                      m->untrained);
}

status model_continues(const model *m) {
    if (!m->no_text) return model_computes(m);
    return status_set(STATUS_INVALID, "%s (%s) has no next token: %s", m->name, m->family, m->no_text);
}

bool model_may_build(const model *m, graph *g, const model_run *run) {
    if (!model_mode_continues(run->mode) || !m->no_text) return true;
    if (run->mode == MODEL_ROWS && m->reads_whole) return true;
    graph_fail(g, "%s: %s", m->name, m->no_text);
    return false;
}

uint32_t model_stream(const char *parameter) { return hash_name(parameter); }

uint32_t model_token_fields(const model *m, int64_t context, model_field out[MODEL_MAX_FIELDS]) {
    uint32_t count = 2;
    out[0] = (model_field){ .name = "tokens", .of = SHAPE(context), .dtype = DTYPE_I32 };
    out[1] = (model_field){ .name = "labels", .of = SHAPE(context), .dtype = DTYPE_I32 };
    if (!m->packed) return count;
    out[count++] = (model_field){ .name = "segments", .of = SHAPE(context), .dtype = DTYPE_I32 };
    if (m->learned_positions)
        out[count++] = (model_field){ .name = "positions", .of = SHAPE(context), .dtype = DTYPE_I32 };
    return count;
}

tensor_id model_segments(const model *m, graph *g, const model_run *run) {
    if (!m->packed || model_mode_continues(run->mode)) return 0;
    return model_input(g, "segments", SHAPE(run->batch, run->context), DTYPE_I32);
}

tensor_id model_positions(const model *m, graph *g, const model_run *run) {
    if (!m->packed || !m->learned_positions || model_mode_continues(run->mode)) return 0;
    return model_input(g, "positions", SHAPE(run->batch, run->context), DTYPE_I32);
}
