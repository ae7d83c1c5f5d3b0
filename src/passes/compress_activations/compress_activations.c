/* What forward makes for backward waits as codes of 8 bits with a scale for each 256 elements of a row, and
 * is widened again right before backward reads it (ops/compress). Forward itself reads what it has always
 * read, so the loss of a step is that of its weights; gradients are those of slightly other activations.
 *
 * An op's further results are left alone: means, deviations and logarithms of sums, one number a row, which
 * stand in exponents and divisors. So is what has fewer than 4,096 elements, and what waits around the loss
 * alone. It comes after recomputation, so what that keeps is what is coded here.
 * Papers: Chen et al., "ActNN: reducing training memory footprint via 2-bit activation compressed training",
 * arXiv:2104.14129; Liu et al., "GACT: activation compressed training for generic network architectures",
 * arXiv:2206.11357. */
#include <string.h>

#include "base/memory.h"
#include "ir/op.h"
#include "ops/compress/compress.h"
#include "passes/pass.h"
#include "passes/waiting.h"

enum { SMALL = 4096 };

static status parse(const char *text, pass_setting *out) {
    *out = (pass_setting){ .text = "8bit", .class = PASS_LOSSY };
    if (strcmp(text, out->text) == 0) return STATUS_OK;
    return status_set(STATUS_INVALID, "--compress-activations: '%s' is neither auto, off nor 8bit", text);
}

/* Is t made by a block, or does one run while it waits? Else it waits around the loss alone, for a few
 * kernels, and how many those are is the choice of other techniques. */
static bool waits_for_blocks(const graph *g, tensor_id t, const waiting_time *time) {
    bool any = graph_node(g, graph_tensor(g, t)->producer)->site != SITE_NONE;
    for (node_id id = time->last + 1; id < time->next && !any; id++)
        any = graph_node(g, id)->site != SITE_NONE;
    return any;
}

static bool saves(const graph *g, tensor_id t) {
    const shape *s = graph_shape(g, t);
    int64_t coded = shape_elements(s) + compress_blocks(s) * (int64_t)sizeof(float);
    return shape_elements(s) >= SMALL && (uint64_t)coded < graph_tensor_bytes(g, t);
}

static bool takes(const graph *g, tensor_id t, const waiting_time *time) {
    const tensor *x = graph_tensor(g, t);
    bool first = node_out(g, graph_node(g, x->producer), 0) == t;
    bool is_float = x->dtype == DTYPE_F32 || dtype_is_half((dtype)x->dtype);
    return first && is_float && saves(g, t) && waits_for_blocks(g, t, time);
}

static uint32_t settings(const graph *g, const pass_context *c, pass_setting *out, uint32_t room,
                         pass_without *without) {
    (void)without;
    return c->training && room && waiting_any(g, takes) && parse("8bit", out) == STATUS_OK;
}

static status check(const graph *g, const pass_setting *s, const pass_context *c) {
    if (!c->training || waiting_any(g, takes)) return STATUS_OK;
    return status_set(
        STATUS_INVALID,
        "--compress-activations %s: nothing of 4,096 numbers or more waits for backward in this "
        "model; leave it out",
        s->text);
}

static tensor_id narrow(rewrite *r, tensor_id t) { return compress_apply(r->out, r->map[t]); }

static tensor_id widen(rewrite *r, tensor_id t, tensor_id held) {
    return compress_widen(r->out, held, (dtype)graph_tensor(r->in, t)->dtype);
}

static status run(const graph *in, const pass_setting *s, const pass_context *c, graph *out) {
    (void)s, (void)c;
    rewrite r;
    TRY(rewrite_open(&r, in, out));
    waiting_time *times = waiting_find(in, takes);
    if (!times) graph_no_memory(out);
    if (times) waiting_rewrite(&r, times, &(waiting_way){ narrow, widen });
    memory_free(times);
    return rewrite_close(&r);
}

const pass pass_compress_activations = { .name = "compress_activations",
                                         .help = "what forward keeps for backward, in 8 bits",
                                         .values = "auto, off, 8bit",
                                         .paper = "arXiv:2104.14129",
                                         .class = PASS_LOSSY,
                                         .stage = PASS_STEP,
                                         .training_only = true,
                                         .follows = true,
                                         .parse = parse,
                                         .settings = settings,
                                         .check = check,
                                         .run = run };
