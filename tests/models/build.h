/* Models that are built to be looked at, and configurations given as text. Each fails the test where it
 * can't. */
#pragma once

#include "io/model_config.h"
#include "ir/graph.h"

/* Close `g` with graph_close. */
void build_graph(const model_config *c, const model_run *run, graph *g, model_ports *ports);

/* A published model has exactly the parameters that transformers gives it. */
typedef struct {
    const char *name;
    uint64_t parameters;
} build_published;
void build_expect_parameters(const build_published *p, size_t count);

status build_read_text(const char *json, model_config *c);
