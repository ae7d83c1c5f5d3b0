/* Attention by a library of the GPU's maker (device/library_attention.h): in 16 bits, over all keys or those
 * up to the query's own place. What else attention does (dropout, windows, segments, lengths) is left to
 * snug's kernels, which make the same masks on every device.
 *
 * It is a forward pass, as passes/library_products is, and does its work in the third stage too: when all
 * other passes have run it changes the nodes of attention_flash that the library has an engine for. Numbers
 * are of 16 bits only where passes/precision makes them so: a stem without any such attention is refused,
 * since it would be the same as the one without this pass. */
#include <stdio.h>
#include <string.h>

#include "device/device.h"
#include "ir/op.h"
#include "ir/rewrite.h"
#include "ops/attention/attention.h"
#include "ops/attention_flash/attention_flash.h"
#include "ops/attention_library/attention_library.h"
#include "passes/pass.h"

enum { SETTING_GRADIENT }; /* values: 1, the gradient as well */
enum { MOST_INPUTS = 16 }; /* of a node: more than there are */

static status parse(const char *text, pass_setting *out) {
    bool forward = strcmp(text, "forward") == 0;
    if (strcmp(text, "on") != 0 && !forward)
        return status_set(STATUS_INVALID, "--library-attention: '%s' is neither auto, on, forward nor off",
                          text);
    *out = (pass_setting){ .class = PASS_REASSOCIATING };
    snprintf(out->text, sizeof out->text, "%s", text);
    out->value[SETTING_GRADIENT] = !forward;
    return STATUS_OK;
}

static status open_library(const device *d) {
    if (d->library) return d->library(d, DEVICE_LIBRARY_ATTENTION);
    return status_set(STATUS_INVALID,
                      "--library-attention: attention of the device %s%s is made by no library; %s", d->name,
                      d->apart ? " that is elsewhere" : "",
                      d->apart ? "what a library takes is known where the GPU is" : "it is for GPUs");
}

static bool is_open(const pass_context *c) {
    return c->device && c->device->library && library_attention_name()[0];
}

static bool is_gradient(const node *n) { return n->op == &op_attention_flash_backward; }

/* May attention_flash make it, in one of its directions? */
static bool is_flash(const node *n) { return n->op == &op_attention_flash || is_gradient(n); }

/* What the library answers of such a node. */
static library_attention_answer answer_to(const graph *g, const node *n, library_attention *p,
                                          library_algorithm *way) {
    library_attention_answer answer = attention_library_of(g, n, is_gradient(n), p);
    return answer == LIBRARY_ATTENTION_MAKES ? library_attention_choose(p, way) : answer;
}

/* Of a model's graph, before numbers have their types and attention its kind: as it would be in 16 bits. */
static library_attention_answer answer_in_16_bits(const graph *g, const node *n) {
    library_attention p;
    library_algorithm way;
    library_attention_answer answer = attention_library_of(g, n, false, &p);
    if (p.type == DTYPE_F32) p.type = DTYPE_BF16;
    return answer == LIBRARY_ATTENTION_MAKES ? library_attention_choose(&p, &way) : answer;
}

typedef int64_t answers[LIBRARY_ATTENTION_ANSWERS];

static void count_forward(const graph *g, answers of) {
    for (node_id id = 1; id < g->nodes.count; id++) {
        const node *n = graph_node(g, id);
        if (n->op == &op_attention || n->op == &op_attention_flash) of[answer_in_16_bits(g, n)]++;
    }
}

static uint32_t settings(const graph *g, const pass_context *c, pass_setting *out, uint32_t room,
                         pass_without *without) {
    answers of = { 0 };
    (void)without;
    if (room < 2 || !is_open(c)) return 0;
    count_forward(g, of);
    if (!of[LIBRARY_ATTENTION_MAKES]) return 0;
    bool both = parse("on", &out[0]) == STATUS_OK && parse("forward", &out[1]) == STATUS_OK;
    return both ? 2 : 0;
}

static status refuse(const answers of) {
    int64_t all = 0;
    for (int i = 0; i < LIBRARY_ATTENTION_ANSWERS; i++) all += of[i];
    if (!all) return status_set(STATUS_INVALID, "--library-attention: this model has no attention");
    return status_set(
        STATUS_INVALID,
        "--library-attention: %s makes none of the model's attention: %lld are not of 16 bits, or keep their "
        "scores, %lld see by dropout, windows, lengths, segments, biases or caps, %lld have heads that don't "
        "begin at multiples of %d bytes, and for %lld it has no engine whose bits are always the same",
        library_attention_name(), (long long)of[LIBRARY_ATTENTION_TYPES],
        (long long)of[LIBRARY_ATTENTION_SIGHTS], (long long)of[LIBRARY_ATTENTION_PLACES], LIBRARY_ALIGNMENT,
        (long long)of[LIBRARY_ATTENTION_NO_WAY]);
}

static status check(const graph *g, const pass_setting *s, const pass_context *c) {
    answers of = { 0 };
    (void)s;
    if (!c->device) return STATUS_OK;
    if (!is_open(c)) return open_library(c->device);
    count_forward(g, of);
    return of[LIBRARY_ATTENTION_MAKES] ? STATUS_OK : refuse(of);
}

/* The graph has its types, and attention its kind: is there something to make? */
static status run(const graph *in, const pass_setting *s, const pass_context *c, graph *out) {
    rewrite r;
    answers of = { 0 };
    library_attention p;
    library_algorithm way;
    (void)s;
    for (node_id id = 1; is_open(c) && id < in->nodes.count; id++) {
        const node *n = graph_node(in, id);
        if (n->op == &op_attention) of[LIBRARY_ATTENTION_TYPES]++;
        if (is_flash(n)) of[answer_to(in, n, &p, &way)]++;
    }
    if (is_open(c) && !of[LIBRARY_ATTENTION_MAKES]) return refuse(of);
    TRY(rewrite_open(&r, in, out));
    for (node_id id = 1; id < in->nodes.count; id++) rewrite_node(&r, id);
    return rewrite_close(&r);
}

static void give(rewrite *r, node_id id, const library_algorithm *way) {
    const node *n = graph_node(r->in, id);
    const attention_attributes *a = node_attributes(r->in, n);
    tensor_id inputs[MOST_INPUTS];
    attention_library_attributes t = { .attention = *a, .chosen = 1, .algorithm = *way };
    for (uint32_t i = 0; i < n->in_count; i++) inputs[i] = r->map[node_in(r->in, n, i)];
    r->out->phase = n->phase;
    r->out->site = n->site;
    const op_def *op = is_gradient(n) ? &op_attention_library_backward : &op_attention_library;
    rewrite_made(r, id, graph_add(r->out, op, inputs, n->in_count, &t));
}

static status schedule(const graph *in, const pass_setting *s, const pass_context *c, graph *out) {
    rewrite r;
    TRY(rewrite_open(&r, in, out));
    for (node_id id = 1; id < in->nodes.count; id++) {
        const node *n = graph_node(in, id);
        library_attention p;
        library_algorithm way;
        bool wanted = is_open(c) && is_flash(n) && (s->value[SETTING_GRADIENT] || !is_gradient(n));
        if (wanted && answer_to(in, n, &p, &way) == LIBRARY_ATTENTION_MAKES)
            give(&r, id, &way);
        else
            rewrite_node(&r, id);
    }
    return rewrite_close(&r);
}

/* Of the attentions as they are planned, gradients' too. Which of them the library makes stands in their
 * nodes. */
static const char *remark(const pass_setting *s, const graph *planned) {
    static char text[256];
    answers of = { 0 };
    library_attention p;
    library_algorithm way;
    int64_t declined = 0;
    for (node_id id = 1; id < planned->nodes.count; id++) {
        const node *n = graph_node(planned, id);
        if (n->op == &op_attention_library || n->op == &op_attention_library_backward)
            of[LIBRARY_ATTENTION_MAKES]++;
        else if (is_flash(n) && (s->value[SETTING_GRADIENT] || !is_gradient(n)))
            of[answer_to(planned, n, &p, &way)]++;
    }
    for (int i = LIBRARY_ATTENTION_TYPES; i < LIBRARY_ATTENTION_ANSWERS; i++) declined += of[i];
    if (!declined) return NULL;
    snprintf(text, sizeof text,
             "of a micro-batch's attention, %s, it makes %lld; declined: %lld by their types, %lld by what "
             "they see, %lld by where their heads begin, %lld without an engine",
             s->value[SETTING_GRADIENT] ? "gradients' too" : "forward",
             (long long)of[LIBRARY_ATTENTION_MAKES], (long long)of[LIBRARY_ATTENTION_TYPES],
             (long long)of[LIBRARY_ATTENTION_SIGHTS], (long long)of[LIBRARY_ATTENTION_PLACES],
             (long long)of[LIBRARY_ATTENTION_NO_WAY]);
    return text;
}

const pass pass_library_attention = { .name = "library_attention",
                                      .help = "attention by NVIDIA's cuDNN, where --allow names it",
                                      .values = "auto, off, on, forward",
                                      .paper = "arXiv:2205.14135",
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
