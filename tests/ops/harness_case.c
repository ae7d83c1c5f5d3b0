#include "harness_case.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include "ops/scale/scale.h"

enum { MAX_LINES = 12 };

void harness_fail(harness_place *p, const char *format, ...) {
    if (p->failures++ >= MAX_LINES) return;
    char sentence[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    fprintf(stderr, "%s, case '%s', %s: %s\n", p->op->name, p->one->name, p->kernel, sentence);
}

static tensor_id add_source(harness_case *h, const op_case *one, uint32_t i, dtype floats) {
    char name[16];
    snprintf(name, sizeof name, "input%u", i);
    dtype type = one->in[i].dtype;
    if (type == DTYPE_F32) type = floats;
    bool trainable = dtype_is_float(type);
    return graph_add_source(&h->g, &(graph_source){ .name = name,
                                                    .shape = one->in[i].shape,
                                                    .dtype = type,
                                                    .role = trainable ? ROLE_PARAMETER : ROLE_INPUT,
                                                    .flags = trainable ? TENSOR_TRAINABLE : 0 });
}

static bool build(harness_case *h, const harness_place *p, dtype floats) {
    *h = (harness_case){ 0 };
    if (graph_open(&h->g) != STATUS_OK) return false;
    for (uint32_t i = 0; i < OP_CASE_INPUTS; i++)
        if (p->one->in[i].dtype) {
            h->source[i] = add_source(h, p->one, i, floats);
            h->in_count = i + 1;
        }
    tensor_id in[OP_CASE_INPUTS];
    for (uint32_t i = 0; i < h->in_count; i++) {
        in[i] = h->source[i];
        /* the parts of a gather are born in it, so they need a node that makes them */
        if (p->op->traits & OP_GATHER) in[i] = scale_apply(&h->g, in[i], 0, 1);
    }
    tensor_id out = graph_add(&h->g, p->op, in, h->in_count, p->one->attributes);
    if (out) h->node = graph_tensor(&h->g, out)->producer;
    return out != 0;
}

bool harness_case_open(harness_case *h, harness_place *p, dtype floats) {
    if (build(h, p, floats)) return true;
    harness_fail(p, "refused: %s", status_message());
    harness_case_close(h);
    return false;
}

bool harness_case_try(harness_case *h, const harness_place *p, dtype floats) {
    if (build(h, p, floats)) return true;
    harness_case_close(h);
    return false;
}

void harness_case_close(harness_case *h) { graph_close(&h->g); }

void harness_case_fill(const op_case *one, uint32_t i, const op_arg *x) {
    harness_fill(x, one->in[i].low, one->in[i].high, 0x5eed0000u + i);
}
