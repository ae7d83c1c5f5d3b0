#include "models/build.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "io/published.h"

void build_graph(const model_config *c, const model_run *run, graph *g, model_ports *ports) {
    model m;
    families_model(c, "x", &m);
    assert_int_equal(graph_open(g), STATUS_OK);
    m.build(&m, g, run, ports);
    if (graph_status(g) != STATUS_OK) fail_msg("%s", status_message());
}

static uint64_t count_parameters(const graph *g) {
    uint64_t n = 0;
    for (tensor_id t = 1; t < g->tensors.count; t++)
        if (graph_tensor(g, t)->role == ROLE_PARAMETER) n += (uint64_t)shape_elements(graph_shape(g, t));
    return n;
}

void build_expect_parameters(const build_published *p, size_t count) {
    for (size_t i = 0; i < count; i++) {
        model_config c;
        const char *name;
        graph g;
        model_ports ports;
        assert_true(published_find(p[i].name, &c, &name));
        assert_int_equal(families_check(&c), STATUS_OK);
        build_graph(&c, &(model_run){ .mode = MODEL_TRAIN, .batch = 1, .context = 16 }, &g, &ports);
        if (count_parameters(&g) != p[i].parameters)
            fail_msg("%s has %llu parameters", name, (unsigned long long)count_parameters(&g));
        graph_close(&g);
    }
}

status build_read_text(const char *json, model_config *c) {
    char path[] = "/tmp/snug-test-XXXXXX.json";
    int handle = mkstemps(path, 5);
    assert_true(handle >= 0);
    assert_true(dprintf(handle, "%s", json) >= 0);
    assert_int_equal(close(handle), 0);
    status s = model_config_read(path, c, NULL);
    assert_int_equal(unlink(path), 0);
    return s;
}
