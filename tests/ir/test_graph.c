/* The graph: what graph_add allows, where values live, what verify_graph refuses, copies that change nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "autodiff/autodiff.h"
#include "autodiff/optimizer.h"
#include "base/memory.h"
#include "base/text.h"
#include "ir/op.h"
#include "ir/print.h"
#include "ir/rewrite.h"
#include "ir/verify.h"
#include "models/gpt2.h"
#include "ops/add/add.h"
#include "ops/concat/concat.h"
#include "ops/fill/fill.h"
#include "ops/gelu/gelu.h"
#include "ops/layernorm/layernorm.h"
#include "ops/matmul/matmul.h"
#include "ops/reshape/reshape.h"
#include "ops/slice/slice.h"
#include "ops/sum/sum.h"

static tensor_id source(graph *g, const char *name, role r, shape s) {
    return graph_add_source(g, &(graph_source){ .name = name, .shape = s, .dtype = DTYPE_F32, .role = r });
}

static tensor_id input(graph *g, const char *name, shape s) { return source(g, name, ROLE_INPUT, s); }

static void open_graph(graph *g) { assert_int_equal(graph_open(g), STATUS_OK); }

/* The graph has failed, with a sentence that says `part`; closes it. */
static void failed(graph *g, const char *part) {
    assert_int_equal(graph_status(g), STATUS_INVALID);
    if (!strstr(status_message(), part)) fail_msg("'%s' does not say '%s'", status_message(), part);
    graph_close(g);
}

/* ---- rules ---- */

static void missing_input(void **state) {
    (void)state;
    graph g;
    open_graph(&g);
    tensor_id x = input(&g, "x", SHAPE(2, 3));
    assert_int_equal(graph_add(&g, &op_add, (tensor_id[]){ x, 0 }, 2, NULL), 0);
    failed(&g, "add: input 'b' is missing");
    open_graph(&g);
    x = input(&g, "x", SHAPE(2, 3));
    assert_int_equal(graph_add(&g, &op_add, &x, 1, NULL), 0);
    failed(&g, "add: input 'b' is missing");
}

static void too_many_inputs(void **state) {
    (void)state;
    graph g;
    open_graph(&g);
    tensor_id x = input(&g, "x", SHAPE(2, 3));
    assert_int_equal(graph_add(&g, &op_add, (tensor_id[]){ x, x, x }, 3, NULL), 0);
    failed(&g, "add takes 2 inputs, not 3");
    open_graph(&g);
    tensor_id *many = test_calloc(70000, sizeof *many);
    for (int i = 0; i < 70000; i++) many[i] = input(&g, NULL, SHAPE(1));
    assert_int_equal(concat_apply(&g, many, 70000), 0);
    failed(&g, "concat takes at most 65535 inputs, not 70000");
    test_free(many);
}

static void wrong_types(void **state) {
    (void)state;
    graph g;
    open_graph(&g);
    tensor_id ids = graph_add_source(&g, &(graph_source){ "ids", SHAPE(2, 3), DTYPE_I32, ROLE_INPUT, 0 });
    assert_int_equal(gelu_apply(&g, ids, true), 0);
    failed(&g, "gelu: input 'x' cannot be i32");
    open_graph(&g);
    tensor_id x = input(&g, "x", SHAPE(2, 3)), gamma = input(&g, "gamma", SHAPE(3, 1));
    assert_int_equal(layernorm_apply(&g, x, gamma, 0, 1e-5f), 0);
    failed(&g, "layernorm: input 'gamma' cannot have the shape (3,1)");
    open_graph(&g);
    assert_int_equal(add_apply(&g, input(&g, "x", SHAPE(2, 3)), input(&g, "y", SHAPE(3, 2))), 0);
    failed(&g, "add: f32 (2,3) and f32 (3,2) cannot be added");
}

static void unknown_tensor(void **state) {
    (void)state;
    graph g;
    open_graph(&g);
    assert_int_equal(add_apply(&g, input(&g, "x", SHAPE(2)), 77), 0);
    failed(&g, "add: input 1 does not exist");
}

static void optional_inputs(void **state) {
    (void)state;
    graph g;
    open_graph(&g);
    tensor_id x = input(&g, "x", SHAPE(2, 3)), w = input(&g, "w", SHAPE(3, 4));
    matmul_attributes plain = { 0 };
    tensor_id all = graph_add(&g, &op_matmul, (tensor_id[]){ x, w, 0, 0, 0 }, 5, &plain);
    tensor_id few = graph_add(&g, &op_matmul, (tensor_id[]){ x, w }, 2, &plain);
    assert_true(all && few);
    const node *n = graph_node(&g, graph_tensor(&g, few)->producer);
    assert_int_equal(n->in_count, 2);
    assert_int_equal(node_in(&g, n, MATMUL_ACCUMULATOR), 0); /* left out reads as absent */
    assert_true(shape_equal(graph_shape(&g, all), graph_shape(&g, few)));
    assert_int_equal(verify_graph(&g), STATUS_OK);
    graph_close(&g);
}

static void impossible_shapes(void **state) {
    (void)state;
    graph g;
    open_graph(&g);
    assert_int_equal(input(&g, "x", SHAPE(3, 0)), 0);
    failed(&g, "tensor 'x' has the impossible shape (3,0)");
    open_graph(&g);
    assert_int_equal(input(&g, "huge", SHAPE(1 << 20, 1 << 20, 1 << 20)), 0);
    failed(&g, "impossible shape (1048576,1048576,1048576)");
    open_graph(&g);
    tensor_id tall = input(&g, "a", SHAPE(1ll << 30, 1)), wide = input(&g, "b", SHAPE(1, 1ll << 30));
    assert_int_equal(matmul_apply(&g, &(matmul_inputs){ .a = tall, .b = wide }), 0);
    failed(&g, "matmul: its result would have the impossible shape (1073741824,1073741824)");
}

/* The first failure stays, and nothing happens after it. */
static void failure_sticks(void **state) {
    (void)state;
    graph g;
    open_graph(&g);
    tensor_id x = input(&g, "x", SHAPE(2, 3)), y = gelu_apply(&g, x, true);
    graph_fail(&g, "the first of %d", 3);
    uint32_t tensors = g.tensors.count, nodes = g.nodes.count;
    assert_int_equal(gelu_apply(&g, y, true), 0);
    assert_int_equal(input(&g, "z", SHAPE(2)), 0);
    assert_int_equal(graph_fail(&g, "the second"), 0);
    assert_int_equal(graph_add(&g, &op_add, NULL, 0, NULL), 0);
    assert_int_equal(g.tensors.count, tensors);
    assert_int_equal(g.nodes.count, nodes);
    assert_int_equal(verify_graph(&g), STATUS_INVALID);
    failed(&g, "the first of 3");
}

/* ---- where values live ---- */

/* Each kind of item counts; the node that goes beyond is the last, and the next graph has the room that is
 * set by then. */
static void a_graph_has_room(void **state) {
    (void)state;
    static const graph_room rooms[] = { { .bytes = 1000, .tensor = 10 },
                                        { .bytes = 1000, .node = 10 },
                                        { .bytes = 1000, .edge = 10 },
                                        { .bytes = 1000 } /* attributes alone, 8 bytes each */ };
    for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++) {
        graph g;
        graph_limit(&rooms[i]);
        assert_int_equal(graph_limit_now().bytes, 1000);
        open_graph(&g);
        graph_limit(&(graph_room){ 0 });
        tensor_id x = input(&g, "x", SHAPE(2, 3));
        while (!graph_status(&g)) x = slice_apply(&g, x, 0, 2);
        assert_int_equal(graph_status(&g), STATUS_NO_FIT);
        graph_size size = graph_size_of(&g);
        assert_in_range(graph_size_bytes(&size, &rooms[i]), 1001, 1100);
        graph_close(&g);
        open_graph(&g);
        assert_int_equal(g.room.bytes, 0);
        graph_close(&g);
    }
}

static void aliases(void **state) {
    (void)state;
    graph g;
    open_graph(&g);
    tensor_id w = source(&g, "w", ROLE_GRADIENT, SHAPE(4, 3)), x = input(&g, "x", SHAPE(5, 4));
    tensor_id dy = input(&g, "dy", SHAPE(5, 3));
    matmul_inputs in = { .a = x, .b = dy, .ta = true, .accumulator = w };
    tensor_id sum = matmul_apply(&g, &in);
    assert_int_equal(graph_tensor(&g, sum)->base, w);
    assert_int_equal(graph_tensor(&g, sum)->role, ROLE_GRADIENT); /* the memory it lives in is persistent */
    assert_int_equal(graph_storage(&g, fill_apply(&g, sum, 0), NULL), w);
    in.accumulator = 0;
    tensor_id alone = matmul_apply(&g, &in); /* claims nothing when the accumulator is absent */
    assert_int_equal(graph_tensor(&g, alone)->base, 0);
    assert_int_equal(graph_tensor(&g, alone)->role, ROLE_ACTIVATION);
    tensor_id y = gelu_apply(&g, alone, true); /* may alias: up to the plan */
    assert_int_equal(graph_tensor(&g, y)->base, 0);
    graph_close(&g);
}

static void views_and_offsets(void **state) {
    (void)state;
    graph g;
    int64_t offset = -1;
    open_graph(&g);
    tensor_id x = input(&g, "x", SHAPE(6, 4)), rows = slice_apply(&g, x, 2, 3);
    tensor_id flat = reshape_apply(&g, rows, SHAPE(12)), end = slice_apply(&g, flat, 10, 2);
    assert_int_equal(graph_storage(&g, end, &offset), x);
    assert_int_equal(offset, (2 * 4 + 10) * 4);
    assert_int_equal(graph_storage(&g, x, &offset), x);
    assert_int_equal(offset, 0);
    assert_int_equal(slice_apply(&g, flat, 11, 2), 0);
    failed(&g, "slice: 2 indexes from 11 on are not in a dimension of 12");
}

static void parts_of_a_gather(void **state) {
    (void)state;
    graph g;
    int64_t offset;
    open_graph(&g);
    tensor_id x = input(&g, "x", SHAPE(2, 3));
    tensor_id parts[3];
    for (int i = 0; i < 3; i++) parts[i] = gelu_apply(&g, x, true);
    tensor_id late = reshape_apply(&g, parts[2], SHAPE(2, 3)); /* a part may be a view of all that there is */
    tensor_id whole = concat_apply(&g, (tensor_id[]){ parts[0], parts[1], late }, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(graph_storage(&g, parts[i], &offset), whole);
        assert_int_equal(offset, i * 2 * 3 * 4);
        assert_int_equal(graph_storage(&g, parts[i], NULL), whole);
    }
    assert_int_equal(graph_storage(&g, late, NULL), whole); /* made before its owner was a part */
    assert_int_equal(concat_apply(&g, (tensor_id[]){ parts[1], gelu_apply(&g, x, true) }, 2), 0);
    failed(&g, "concat: part 0 is a part of something else already");
    open_graph(&g);
    x = gelu_apply(&g, input(&g, "x", SHAPE(2, 3)), true);
    assert_int_equal(concat_apply(&g, (tensor_id[]){ x, x }, 2), 0); /* has one place only */
    failed(&g, "part 1 is a part of something else already");
    open_graph(&g);
    x = input(&g, "x", SHAPE(2, 3)); /* comes from outside: cannot be born in place */
    assert_int_equal(concat_apply(&g, &x, 1), 0);
    failed(&g, "part 0 is a part of something else already");
}

/* ---- verify ---- */

static void refused(graph *g, const char *part) {
    assert_int_equal(graph_status(g), STATUS_OK);
    assert_int_equal(verify_graph(g), STATUS_FAILED);
    if (!strstr(status_message(), part)) fail_msg("'%s' does not say '%s'", status_message(), part);
    graph_close(g);
}

static void reading_after_a_write(void **state) {
    (void)state;
    graph g;
    open_graph(&g);
    tensor_id w = source(&g, "w", ROLE_PARAMETER, SHAPE(4, 3)), cleared = fill_apply(&g, w, 0);
    gelu_apply(&g, cleared, true);
    assert_int_equal(verify_graph(&g), STATUS_OK);
    gelu_apply(&g, w, true);
    refused(&g, "node 3 (gelu) reads tensor 1 ('w') after node 1 wrote over it");
}

static void reading_an_old_version(void **state) {
    (void)state;
    graph g;
    open_graph(&g);
    tensor_id w = source(&g, "w", ROLE_PARAMETER, SHAPE(4, 3)), one = fill_apply(&g, w, 1);
    fill_apply(&g, one, 2);
    gelu_apply(&g, one, true);
    refused(&g, "node 3 (gelu) reads tensor 2 ('') after node 2 wrote over it");
}

/* Writing through a view changes the value that it is a view of, and the other views of the same bytes. */
static void reading_around_a_view(void **state) {
    (void)state;
    graph g;
    open_graph(&g);
    tensor_id w = source(&g, "w", ROLE_STATE, SHAPE(4, 3)), rows = slice_apply(&g, w, 1, 2);
    tensor_id other = slice_apply(&g, w, 3, 1), same = slice_apply(&g, w, 2, 2);
    fill_apply(&g, rows, 0);
    gelu_apply(&g, other, true); /* other rows: still what they were */
    assert_int_equal(verify_graph(&g), STATUS_OK);
    gelu_apply(&g, same, true); /* row 2 is in both */
    refused(&g, "node 6 (gelu) reads tensor 4 ('') after node 4 wrote over it");
    open_graph(&g);
    w = source(&g, "w", ROLE_STATE, SHAPE(4, 3));
    fill_apply(&g, slice_apply(&g, w, 1, 2), 0);
    gelu_apply(&g, w, true);
    refused(&g, "node 3 (gelu) reads tensor 1 ('w') after node 2 wrote over it");
    open_graph(&g);
    w = source(&g, "w", ROLE_STATE, SHAPE(4, 3)), rows = slice_apply(&g, w, 1, 2);
    fill_apply(&g, w, 0);
    gelu_apply(&g, rows, true);
    refused(&g, "node 3 (gelu) reads tensor 2 ('') after node 2 wrote over it");
}

static void reading_around_parts(void **state) {
    (void)state;
    graph g;
    open_graph(&g);
    tensor_id x = input(&g, "x", SHAPE(2, 3)), a = gelu_apply(&g, x, true), b = gelu_apply(&g, x, true);
    a = fill_apply(&g, a, 1); /* before the parts come together: part of its making */
    tensor_id whole = concat_apply(&g, (tensor_id[]){ a, b }, 2);
    gelu_apply(&g, whole, true);
    fill_apply(&g, b, 0);
    gelu_apply(&g, a, true); /* the other part */
    assert_int_equal(verify_graph(&g), STATUS_OK);
    gelu_apply(&g, whole, true);
    refused(&g, "node 8 (gelu) reads tensor 5 ('') after node 6 wrote over it");
}

static void reading_while_writing(void **state) {
    (void)state;
    graph g;
    open_graph(&g);
    tensor_id x = gelu_apply(&g, input(&g, "x", SHAPE(3, 3)), true), y = input(&g, "y", SHAPE(3, 3));
    matmul_apply(&g, &(matmul_inputs){ .a = x, .b = y, .accumulator = x });
    refused(&g, "node 2 (matmul) reads tensor 2 ('') while it writes over it");
}

static void kept_values(void **state) {
    (void)state;
    graph g;
    open_graph(&g);
    tensor_id x = gelu_apply(&g, input(&g, "x", SHAPE(3, 3)), true);
    graph_keep(&g, x, "result");
    tensor_id y = fill_apply(&g, x, 0);
    refused(&g, "tensor 2 ('result') is kept for the host, but node 2 writes over it");
    open_graph(&g);
    x = gelu_apply(&g, input(&g, "x", SHAPE(3, 3)), true), y = fill_apply(&g, x, 0);
    graph_keep(&g, y, "result");
    assert_int_equal(verify_graph(&g), STATUS_OK);
    graph_close(&g);
}

static void names(void **state) {
    (void)state;
    graph g;
    open_graph(&g);
    input(&g, NULL, SHAPE(2)); /* an input needs none */
    source(&g, "w", ROLE_PARAMETER, SHAPE(2));
    source(&g, "v", ROLE_PARAMETER, SHAPE(2));
    assert_int_equal(verify_graph(&g), STATUS_OK);
    source(&g, "w", ROLE_STATE, SHAPE(2));
    refused(&g, "tensors 2 and 4 are both called 'w'");
    open_graph(&g);
    source(&g, NULL, ROLE_PARAMETER, SHAPE(2));
    refused(&g, "persistent tensor 1 has no name");
    open_graph(&g);
    source(&g, "", ROLE_STATE, SHAPE(2));
    refused(&g, "persistent tensor 1 has no name");
}

/* graph_add cannot make it, so an edge is bent by hand. */
static void order(void **state) {
    (void)state;
    graph g;
    open_graph(&g);
    tensor_id y = gelu_apply(&g, input(&g, "x", SHAPE(2)), true), z = gelu_apply(&g, y, true);
    graph_edges(&g)[graph_node(&g, 1)->in] = z;
    refused(&g, "node 1 (gelu) reads tensor 3 before it exists");
}

/* ---- print and rewrite ---- */

static char *printed(const graph *g) {
    text t = { 0 };
    print_graph(g, &t);
    assert_false(t.failed);
    return t.data;
}

static void print(void **state) {
    (void)state;
    graph g;
    open_graph(&g);
    tensor_id w = graph_add_source(
        &g, &(graph_source){ "w", SHAPE(4, 3), DTYPE_F32, ROLE_PARAMETER, TENSOR_TRAINABLE | TENSOR_DECAY });
    tensor_id x = input(&g, "x", SHAPE(2, 4));
    g.site = 2;
    tensor_id y = matmul_apply(&g, &(matmul_inputs){ .a = x, .b = w, .ta = false });
    g.phase = PHASE_BACKWARD, g.site = SITE_NONE;
    layernorm_apply(&g, y, input(&g, "gamma", SHAPE(3)), 0, 1e-5f);
    tensor_id row = slice_apply(&g, y, 1, 1);
    graph_keep(&g, row, "row");
    char *lines = printed(&g);
    char expected[] =
        "%1 = parameter 'w' (4,3) f32 trainable decay\n"
        "%2 = input 'x' (2,4) f32\n"
        "%4 = input 'gamma' (3) f32\n"
        "%3 = matmul(%2 'x', %1 'w', -, -, -) #________ (2,3) f32 forward block 2\n"
        "%5 (2,3) f32, %6 (2) f32, %7 (2) f32 = layernorm(%3, %4 'gamma', -) #________ backward\n"
        "%8 = slice(%3) #________ (1,3) f32 in %3 +12 keep 'row' backward\n";
    for (char *digest = lines; (digest = strchr(digest, '#')); digest++) memset(digest + 1, '_', 8);
    assert_string_equal(lines, expected);
    memory_free(lines);
    graph_close(&g);
}

static void copy(const graph *in, graph *out) {
    rewrite r;
    open_graph(out);
    assert_int_equal(rewrite_open(&r, in, out), STATUS_OK);
    for (node_id n = 1; n < in->nodes.count; n++) rewrite_node(&r, n);
    assert_int_equal(rewrite_close(&r), STATUS_OK);
    assert_int_equal(verify_graph(out), STATUS_OK);
}

/* Sources come first in a copy, so the copy of a copy has the very numbers of the first. */
static void copies_are_equal(void **state) {
    (void)state;
    gpt2_config c = gpt2_default();
    c.layers = 2, c.heads = 2, c.channels = 8, c.context = 4, c.vocabulary = 11, c.inner = 32;
    c.dropout_attention = c.dropout_residual = 0.1;
    model m;
    model_ports ports;
    graph g, once, twice;
    tensor_id gradient[512];
    gpt2_model(&c, "small", &m);
    open_graph(&g);
    m.build(&m, &g, &(model_run){ .mode = MODEL_TRAIN, .batch = 2, .context = 4 }, &ports);
    uint32_t tensors = g.tensors.count;
    assert_int_equal(autodiff_run(&g, &(autodiff_seed){ .of = ports.loss }, 1, NULL, gradient), STATUS_OK);
    optimizer_options o = { .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1, .clip = 1 };
    assert_int_equal(optimizer_append(&g, &o, 0, gradient, tensors), STATUS_OK);
    tensor_id whole = concat_apply(
        &g, (tensor_id[]){ gelu_apply(&g, ports.logits, true), gelu_apply(&g, ports.logits, false) }, 2);
    graph_keep(&g, whole, "both");
    copy(&g, &once);
    copy(&once, &twice);
    assert_int_equal(g.nodes.count, once.nodes.count);
    char *a = printed(&g), *b = printed(&once), *d = printed(&twice);
    assert_string_equal(b, d);
    assert_int_equal(strlen(a) > 10000, 1);
    for (node_id id = 1; id < g.nodes.count; id++) {
        const node *x = graph_node(&g, id), *y = graph_node(&once, id);
        assert_true(x->op == y->op && x->phase == y->phase && x->site == y->site);
        assert_memory_equal(node_attributes(&g, x), node_attributes(&once, y), x->op->attribute_bytes);
        for (uint32_t i = 0; i < x->out_count; i++) {
            const tensor *p = graph_tensor(&g, node_out(&g, x, i)),
                         *q = graph_tensor(&once, node_out(&once, y, i));
            int64_t here, there;
            tensor_id from = graph_storage(&g, node_out(&g, x, i), &here);
            tensor_id to = graph_storage(&once, node_out(&once, y, i), &there);
            assert_true(p->flags == q->flags && p->role == q->role && p->dtype == q->dtype && here == there);
            assert_string_equal(graph_name(&g, from), graph_name(&once, to));
            assert_int_equal(graph_tensor(&g, from)->producer, graph_tensor(&once, to)->producer);
        }
    }
    memory_free(a), memory_free(b), memory_free(d);
    graph_close(&g), graph_close(&once), graph_close(&twice);
}

/* A copy of a node is what adding it would be: with inputs like the original's, and with others. */
static void copies_are_additions(void **state) {
    (void)state;
    const shape shapes[] = { SHAPE(2, 4), SHAPE(5, 4), SHAPE(2, 3, 4) };
    graph from;
    open_graph(&from);
    tensor_id w = source(&from, "w", ROLE_PARAMETER, SHAPE(4, 3)), x = input(&from, "x", shapes[0]);
    matmul_apply(&from, &(matmul_inputs){ .a = x, .b = w });
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        graph copy, added;
        open_graph(&copy);
        open_graph(&added);
        tensor_id in[] = { source(&copy, "w", ROLE_PARAMETER, SHAPE(4, 3)), input(&copy, "x", shapes[i]) };
        source(&added, "w", ROLE_PARAMETER, SHAPE(4, 3)), input(&added, "x", shapes[i]);
        const node *n = graph_node(&from, 1);
        tensor_id swapped[] = { in[1], in[0], 0, 0, 0 };
        tensor_id y = graph_add_copy(&copy, swapped, n->in_count, &from, n);
        assert_int_equal(y, graph_add(&added, n->op, swapped, n->in_count, node_attributes(&from, n)));
        char *one = printed(&copy), *other = printed(&added);
        assert_string_equal(one, other);
        memory_free(one);
        memory_free(other);
        graph_close(&copy);
        graph_close(&added);
    }
    graph g;
    open_graph(&g);
    source(&g, "w", ROLE_PARAMETER, SHAPE(4, 3)), x = input(&g, "x", SHAPE(2, 5));
    graph_add_copy(&g, (tensor_id[]){ x, w, 0, 0, 0 }, 5, &from, graph_node(&from, 1));
    failed(&g, "cannot be multiplied");
    graph_close(&from);
}

static void finding(void **state) {
    (void)state;
    graph g;
    open_graph(&g);
    tensor_id w = source(&g, "w", ROLE_PARAMETER, SHAPE(2)), y = gelu_apply(&g, w, true);
    graph_keep(&g, y, "y");
    assert_int_equal(graph_find(&g, "w"), w);
    assert_int_equal(graph_find(&g, "v"), 0);
    assert_string_equal(graph_name(&g, w), "w");
    assert_int_equal(graph_tensor_bytes(&g, y), 8);
    graph_close(&g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(missing_input),
        cmocka_unit_test(too_many_inputs),
        cmocka_unit_test(wrong_types),
        cmocka_unit_test(unknown_tensor),
        cmocka_unit_test(optional_inputs),
        cmocka_unit_test(impossible_shapes),
        cmocka_unit_test(failure_sticks),
        cmocka_unit_test(a_graph_has_room),
        cmocka_unit_test(aliases),
        cmocka_unit_test(views_and_offsets),
        cmocka_unit_test(parts_of_a_gather),
        cmocka_unit_test(reading_after_a_write),
        cmocka_unit_test(reading_an_old_version),
        cmocka_unit_test(reading_around_a_view),
        cmocka_unit_test(reading_around_parts),
        cmocka_unit_test(reading_while_writing),
        cmocka_unit_test(kept_values),
        cmocka_unit_test(names),
        cmocka_unit_test(order),
        cmocka_unit_test(print),
        cmocka_unit_test(copies_are_equal),
        cmocka_unit_test(copies_are_additions),
        cmocka_unit_test(finding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
