/* Products of training by a library of the GPU's maker (device/library.h). Which of a program's products it
 * makes is settled when all other passes have run: all that the library has an algorithm for, gradients' too.
 * The algorithm stands in the node from then on. Products that end in GELU are cut into the library's product
 * and GELU.
 *
 * It is a forward pass, though it does its work in the third stage: it makes steps faster, and the search
 * takes it that passes of a step do not (search/stem.c). */
#include <stdio.h>
#include <string.h>

#include "device/device.h"
#include "ir/op.h"
#include "ir/rewrite.h"
#include "ops/gelu/gelu.h"
#include "ops/library_matmul/library_matmul.h"
#include "ops/matmul_gelu/matmul_gelu.h"
#include "passes/pass.h"

static status parse(const char *text, pass_setting *out) {
    if (strcmp(text, "on") != 0)
        return status_set(STATUS_INVALID, "--library-products: '%s' is neither auto, on nor off", text);
    *out = (pass_setting){ .text = "on", .class = PASS_REASSOCIATING };
    return STATUS_OK;
}

static status open_library(const device *d) {
    if (d->library) return d->library(d, DEVICE_LIBRARY_PRODUCTS);
    return status_set(STATUS_INVALID,
                      "--library-products: products of the device %s%s are made by no library; %s", d->name,
                      d->apart ? " that is elsewhere" : "",
                      d->apart ? "what a library takes is known where the GPU is" : "it is for GPUs");
}

/* The product of this node; NULL: it is none that a library may make. */
static const matmul_attributes *product_of(const graph *g, const node *n) {
    if (n->op == &op_matmul) return node_attributes(g, n);
    bool gelu = n->op == &op_matmul_gelu || n->op == &op_matmul_gelu_backward;
    return gelu ? &((const matmul_gelu_attributes *)node_attributes(g, n))->product : NULL;
}

enum { INPUTS = MATMUL_ACCUMULATOR + 1 };

/* The product's inputs, through `map` (NULL: as they are). A third one of GELU's gradient is GELU's. */
static void inputs_of(const graph *g, const node *n, const tensor_id *map, tensor_id inputs[INPUTS]) {
    for (uint32_t i = 0; i < INPUTS; i++) {
        bool own = i < n->in_count && (i != MATMUL_GELU_X || n->op != &op_matmul_gelu_backward);
        tensor_id t = own ? node_in(g, n, i) : 0;
        inputs[i] = map && t ? map[t] : t;
    }
}

/* What the library would be asked, and what it answers. */
static library_answer answer_to(const graph *g, const node *n, library_product *p, library_algorithm *way) {
    tensor_id inputs[INPUTS];
    inputs_of(g, n, NULL, inputs);
    library_answer answer = library_matmul_of(g, inputs, node_out(g, n, 0), product_of(g, n), p);
    return answer == LIBRARY_MAKES ? library_choose(p, way) : answer;
}

enum { ANSWERS = 0 }; /* from this value of a setting on: how many products got each answer */

static uint32_t settings(const graph *g, const pass_context *c, pass_setting *out, uint32_t room,
                         pass_without *without) {
    library_product p;
    library_algorithm way;
    (void)without;
    if (!room || !c->device || !c->device->library || !library_name()[0]) return 0;
    if (parse("on", &out[0]) != STATUS_OK) return 0;
    for (node_id id = 1; id < g->nodes.count; id++) {
        const node *n = graph_node(g, id);
        if (product_of(g, n)) out[0].value[ANSWERS + answer_to(g, n, &p, &way)]++;
    }
    return out[0].value[ANSWERS + LIBRARY_MAKES] ? 1 : 0;
}

static status check(const graph *g, const pass_setting *s, const pass_context *c) {
    pass_setting found = { 0 };
    pass_without without = PASS_OPTIONAL;
    (void)s;
    if (!c->device) return STATUS_OK;
    if (!c->device->library || !library_name()[0]) return open_library(c->device);
    if (settings(g, c, &found, 1, &without)) return STATUS_OK;
    const int64_t *of = found.value + ANSWERS;
    return status_set(
        STATUS_INVALID,
        "--library-products: %s makes none of the forward products: of %lld the types are no pair of its, "
        "%lld have lines that don't begin at multiples of %d bytes, and for %lld it has no "
        "algorithm without split sums",
        library_name(), (long long)of[LIBRARY_TYPES], (long long)of[LIBRARY_PLACES], LIBRARY_ALIGNMENT,
        (long long)of[LIBRARY_NO_WAY]);
}

/* Nothing yet. */
static status run(const graph *in, const pass_setting *s, const pass_context *c, graph *out) {
    rewrite r;
    (void)s, (void)c;
    TRY(rewrite_open(&r, in, out));
    for (node_id id = 1; id < in->nodes.count; id++) rewrite_node(&r, id);
    return rewrite_close(&r);
}

/* A GELU behind the product reads what it wrote, and its gradient multiplies that. */
static tensor_id end_of(rewrite *r, const node *n, tensor_id product) {
    if (n->op == &op_matmul) return product;
    const matmul_gelu_attributes *t = node_attributes(r->in, n);
    gelu_attributes how = { t->tanh };
    if (n->op == &op_matmul_gelu) return graph_add(r->out, &op_gelu, &product, 1, &how);
    tensor_id inputs[] = { r->map[node_in(r->in, n, MATMUL_GELU_X)], product };
    return graph_add(r->out, &op_gelu_backward, inputs, 2, &how);
}

static void give(rewrite *r, node_id id, const library_algorithm *way) {
    const node *n = graph_node(r->in, id);
    tensor_id inputs[INPUTS];
    inputs_of(r->in, n, r->map, inputs);
    library_matmul_attributes t = { .product = *product_of(r->in, n), .chosen = 1, .algorithm = *way };
    r->out->phase = n->phase;
    r->out->site = n->site;
    tensor_id product = graph_add(r->out, &op_library_matmul, inputs, INPUTS, &t);
    rewrite_made(r, id, end_of(r, n, product));
}

static status schedule(const graph *in, const pass_setting *s, const pass_context *c, graph *out) {
    rewrite r;
    (void)s;
    bool open = c->device && c->device->library && library_name()[0];
    TRY(rewrite_open(&r, in, out));
    for (node_id id = 1; id < in->nodes.count; id++) {
        const node *n = graph_node(in, id);
        library_product p;
        library_algorithm way;
        if (open && product_of(in, n) && answer_to(in, n, &p, &way) == LIBRARY_MAKES)
            give(&r, id, &way);
        else
            rewrite_node(&r, id);
    }
    return rewrite_close(&r);
}

/* Of the products as they are planned, gradients' too. Which of them the library makes stands in their nodes.
 */
static const char *remark(const pass_setting *s, const graph *planned) {
    static char text[256];
    int64_t of[LIBRARY_ANSWERS] = { 0 };
    library_product p;
    library_algorithm way;
    (void)s;
    for (node_id id = 1; id < planned->nodes.count; id++) {
        const node *n = graph_node(planned, id);
        if (n->op == &op_library_matmul)
            of[LIBRARY_MAKES]++;
        else if (product_of(planned, n))
            of[answer_to(planned, n, &p, &way)]++;
    }
    if (!(of[LIBRARY_TYPES] + of[LIBRARY_PLACES] + of[LIBRARY_NO_WAY])) return NULL;
    snprintf(
        text, sizeof text,
        "of a micro-batch's products, gradients' too, it makes %lld; declined: %lld by their types, %lld "
        "by where their lines begin, %lld without an algorithm",
        (long long)of[LIBRARY_MAKES], (long long)of[LIBRARY_TYPES], (long long)of[LIBRARY_PLACES],
        (long long)of[LIBRARY_NO_WAY]);
    return text;
}

const pass pass_library_products = { .name = "library_products",
                                     .help = "products by NVIDIA's cuBLASLt, where --allow names it",
                                     .values = "auto, off, on",
                                     .class = PASS_REASSOCIATING,
                                     .stage = PASS_FORWARD,
                                     .training_only = true,
                                     .open = open_library,
                                     .parse = parse,
                                     .settings = settings,
                                     .check = check,
                                     .run = run,
                                     .schedule = schedule,
                                     .remark = remark };
