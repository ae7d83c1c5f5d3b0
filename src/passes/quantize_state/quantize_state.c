/* Optimizer state in fewer bits: codes of 8 bits with a scale for each block of elements, or bf16. Which
 * states these may be says the op of the update (ir/update.h); its kernels hold a block at a time in f32.
 *
 * In "8bit" parameters of fewer than 4,096 elements keep f32, which is the practice of the paper's authors:
 * biases and norms, some thousandth of the bytes; "8bit:all" and "bf16" leave out nothing. Paper: Dettmers et
 * al., "8-bit optimizers via block-wise quantization", arXiv:2110.02861. */
#include <stdio.h>
#include <string.h>

#include "ir/op.h"
#include "ir/rewrite.h"
#include "ir/update.h"
#include "ops/state.h"
#include "passes/pass.h"

enum { SETTING_DTYPE = 0, SETTING_LEAST = 1, SMALL = 4096 };

static status parse(const char *text, pass_setting *out) {
    static const struct {
        const char *text;
        dtype type;
        int64_t least; /* elements */
    } forms[] = { { "8bit", DTYPE_U8, SMALL }, { "8bit:all", DTYPE_U8, 0 }, { "bf16", DTYPE_BF16, 0 } };
    *out = (pass_setting){ .text = "off" };
    if (strcmp(text, "f32") == 0) return STATUS_OK;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        if (strcmp(text, forms[i].text) != 0) continue;
        *out = (pass_setting){ .value = { forms[i].type, forms[i].least }, .class = PASS_LOSSY };
        strcpy(out->text, text);
        return STATUS_OK;
    }
    return status_set(STATUS_INVALID, "--optimizer-state: '%s' is neither f32, 8bit, 8bit:all nor bf16",
                      text);
}

/* The source of state number s of node n, if it has one that is still a float; 0: none. */
static tensor_id wide_state(const graph *g, const node *n, uint32_t s) {
    tensor_id t = node_in(g, n, n->op->update->states[s].in);
    if (!t || graph_tensor(g, t)->producer || !dtype_is_float((dtype)graph_tensor(g, t)->dtype)) return 0;
    return graph_tensor(g, t)->role == ROLE_STATE ? t : 0;
}

static bool any_state(const graph *g) {
    for (node_id id = 1; id < g->nodes.count; id++)
        for (uint32_t s = 0; s < op_state_count(graph_node(g, id)->op); s++)
            if (wide_state(g, graph_node(g, id), s)) return true;
    return false;
}

static uint32_t settings(const graph *g, const pass_context *c, pass_setting *out, uint32_t room,
                         pass_without *without) {
    static const char *const offered[] = { "8bit", "bf16" };
    (void)without;
    uint32_t count = 0;
    if (!c->training || !any_state(g)) return 0;
    for (size_t i = 0; count < room && i < sizeof offered / sizeof *offered; i++)
        if (parse(offered[i], &out[count]) == STATUS_OK) count++;
    return count;
}

static status check(const graph *g, const pass_setting *s, const pass_context *c) {
    if (!c->training || any_state(g)) return STATUS_OK;
    return status_set(
        STATUS_INVALID,
        "--optimizer-state %s: this optimizer keeps nothing that could be narrower (Adafactor keeps "
        "means of rows and columns, SGD without --momentum nothing at all); say --optimizer adamw, or "
        "leave --optimizer-state out",
        s->text);
}

/* The random bits of the step. */
static tensor_id key_source(graph *g) {
    tensor_id key = graph_find(g, "key");
    return key ? key
               : graph_add_source(
                     g, &(graph_source){
                            .name = "key", .shape = SHAPE(4), .dtype = DTYPE_I32, .role = ROLE_INPUT });
}

/* An update with its states in another type; the scales of codes are states of their own. `*key`: the random
 * bits, once something wants them. */
static void rewrite_update(rewrite *r, node_id id, const pass_setting *setting, tensor_id *key) {
    dtype type = (dtype)setting->value[SETTING_DTYPE];
    int64_t least = setting->value[SETTING_LEAST];
    enum { MOST = 16 };
    const node *n = graph_node(r->in, id);
    tensor_id inputs[MOST] = { 0 };
    uint32_t count = n->in_count;
    if (count > MOST) {
        graph_fail(r->out, "%s: an update has at most %d inputs here, not %u", n->op->name, MOST, count);
        return;
    }
    for (uint32_t i = 0; i < count; i++) inputs[i] = node_in(r->in, n, i) ? r->map[node_in(r->in, n, i)] : 0;
    for (uint32_t s = 0; s < op_state_count(n->op); s++) {
        tensor_id state = wide_state(r->in, n, s);
        uint32_t at = n->op->update->states[s].scales;
        if (!state || shape_elements(graph_shape(r->in, state)) < least) continue;
        rewrite_source_type(r, state, type);
        if (type != DTYPE_U8) continue;
        char name[112];
        snprintf(name, sizeof name, "%s.scales", graph_name(r->in, state));
        inputs[at] = graph_add_source(
            r->out, &(graph_source){ .name = name,
                                     .shape = SHAPE(state_scales(shape_elements(graph_shape(r->in, state)))),
                                     .dtype = DTYPE_F32,
                                     .role = ROLE_STATE });
        if (at >= count) count = at + 1;
        if (!n->op->update->states[s].drifts || inputs[n->op->update->rounding_key]) continue;
        if (!*key) *key = key_source(r->out);
        inputs[n->op->update->rounding_key] = *key;
        if (n->op->update->rounding_key >= count) count = n->op->update->rounding_key + 1u;
    }
    rewrite_node_inputs(r, id, inputs, count);
}

static status run(const graph *in, const pass_setting *s, const pass_context *c, graph *out) {
    (void)c;
    rewrite r;
    tensor_id key = 0;
    TRY(rewrite_open(&r, in, out));
    for (node_id id = 1; id < in->nodes.count && !out->failed; id++) {
        if (op_state_count(graph_node(in, id)->op))
            rewrite_update(&r, id, s, &key);
        else
            rewrite_node(&r, id);
    }
    return rewrite_close(&r);
}

const pass pass_quantize_state = { .name = "quantize_state",
                                   .option = "optimizer-state",
                                   .help =
                                       "the optimizer's moments in 8 bits with a scale a block, or in bf16",
                                   .values = "auto, f32, 8bit, 8bit:all (small parameters as well), bf16",
                                   .paper = "arXiv:2110.02861",
                                   .class = PASS_LOSSY,
                                   .stage = PASS_STEP,
                                   .of_state = true,
                                   .training_only = true,
                                   .frees = 1u << ROLE_STATE,
                                   .parse = parse,
                                   .settings = settings,
                                   .check = check,
                                   .run = run };
