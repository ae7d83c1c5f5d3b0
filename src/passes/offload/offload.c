/* What waits in memory goes away, to a file or to the host's memory: the optimizer's state, which only
 * updates read and write, master weights (offload_masters.c), gradients (offload_gradients.c), and
 * activations, from the last kernel of forward that reads them to the first of backward. The pass only says
 * what is away (tensor.away) and puts copies there and back (ops/move) into the graph; pieces are cut by
 * lower/pieces.h and moved by exec/transfer.c, ahead of those who read them and behind those who write.
 * Gradients come last, when other techniques have decided where updates stand and what micro-batches add to.
 *
 * States of fewer than 4,096 elements stay: together they are some thousandth of the bytes, and each would be
 * a transfer of its own. So do activations below 64 KiB, and what belongs to no block of the model: around
 * the loss backward reads at once what forward has made. Papers: Rajbhandari et al., "ZeRO-Infinity: breaking
 * the GPU memory wall for extreme scale deep learning", arXiv:2104.07857, for disks; Rhu et al., "vDNN:
 * virtualized deep neural networks for scalable, memory-efficient neural network design", arXiv:1602.08124,
 * for activations. */
#include <string.h>

#include "base/memory.h"
#include "ir/op.h"
#include "ir/update.h"
#include "ops/move/move.h"
#include "passes/offload/offload.h"
#include "passes/waiting.h"

enum { OPTIMIZER = 1, MASTER = 2, GRADIENTS = 4, ACTIVATIONS = 8, KINDS = 4 };

static const char *const kinds[KINDS] = { "optimizer", "master", "gradients", "activations" };

/* The text names them in one order, with '+' between them. */
static void set(int what, pass_setting *out) {
    *out = (pass_setting){ .value = { what },
                           .class = PASS_EXACT,
                           .effect = (uint8_t)(what & (ACTIVATIONS | MASTER)),
                           .gradients = (what & GRADIENTS) != 0 };
    for (int k = 0; k < KINDS; k++) {
        if (!(what >> k & 1)) continue;
        if (out->text[0]) strcat(out->text, "+");
        strcat(out->text, kinds[k]);
    }
}

static int kind_of(const char *name, size_t length) {
    for (int k = 0; k < KINDS; k++)
        if (strlen(kinds[k]) == length && strncmp(name, kinds[k], length) == 0) return 1 << k;
    return 0;
}

/* Any of them, with commas or '+' between them. */
static status parse(const char *text, pass_setting *out) {
    int what = 0;
    for (const char *at = text;; at++) {
        size_t length = strcspn(at, ",+");
        int kind = kind_of(at, length);
        if (!kind)
            return status_set(STATUS_INVALID,
                              "--offload: '%s' is neither off nor a list of optimizer, master, gradients and "
                              "activations, such as optimizer,gradients",
                              text);
        what |= kind;
        at += length;
        if (!*at) break;
    }
    set(what, out);
    return STATUS_OK;
}

/* ---- what can move ---- */

/* State number s of node n, where it can be away; 0: it can't. */
static tensor_id large_state(const graph *g, const node *n, uint32_t s) {
    tensor_id t = node_in(g, n, n->op->update->states[s].in);
    if (!t || graph_tensor(g, t)->producer || graph_tensor(g, t)->role != ROLE_STATE) return 0;
    return shape_elements(graph_shape(g, t)) < OFFLOAD_SMALL ? 0 : t;
}

static bool any_state(const graph *g) {
    for (node_id id = 1; id < g->nodes.count; id++)
        for (uint32_t s = 0; s < op_state_count(graph_node(g, id)->op); s++)
            if (large_state(g, graph_node(g, id), s)) return true;
    return false;
}

/* What may go: parts of blocks, of some size. */
static bool takes(const graph *g, tensor_id t, const waiting_time *time) {
    (void)time;
    bool in_block = graph_node(g, graph_tensor(g, t)->producer)->site != SITE_NONE;
    return in_block && graph_tensor_bytes(g, t) >= OFFLOAD_SMALL_BYTES;
}

static uint32_t settings(const graph *g, const pass_context *c, pass_setting *out, uint32_t room,
                         pass_without *without) {
    (void)without;
    uint32_t count = 0;
    if (!c->training || !c->away) return 0;
    static const int offered[] = { OPTIMIZER,
                                   ACTIVATIONS,
                                   OPTIMIZER | ACTIVATIONS,
                                   OPTIMIZER | GRADIENTS,
                                   OPTIMIZER | GRADIENTS | ACTIVATIONS,
                                   OPTIMIZER | MASTER,
                                   OPTIMIZER | MASTER | GRADIENTS | ACTIVATIONS };
    int what = (any_state(g) ? OPTIMIZER : 0) | (waiting_any(g, takes) ? ACTIVATIONS : 0) |
               (offload_any_master(g) ? MASTER : 0) |
               (c->ranks < 2 && offload_any_gradient(g) ? GRADIENTS : 0); /* ranks read them whole */
    for (size_t i = 0; i < sizeof offered / sizeof *offered && count < room; i++)
        if ((offered[i] & what) == offered[i]) set(offered[i], &out[count++]);
    return count;
}

static status check(const graph *g, const pass_setting *s, const pass_context *c) {
    if (!c->away)
        return status_set(STATUS_INVALID,
                          "--offload %s: where to? name a folder on a disk with --offload-to DIR", s->text);
    if (c->training && s->value[0] & OPTIMIZER && !any_state(g))
        return status_set(
            STATUS_INVALID,
            "--offload %s: this optimizer keeps no state of 4,096 numbers or more; say --optimizer "
            "adamw, or leave --offload out",
            s->text);
    if (c->training && s->value[0] & MASTER && !offload_any_master(g))
        return status_set(
            STATUS_INVALID,
            offload_masters_whole(g)
                ? "--offload %s: this optimizer's updates need whole weights; say --optimizer adamw, "
                  "or leave master out"
                : "--offload %s: there are no master weights, since products read the weights "
                  "themselves; say --precision mixed-bf16 as well, or leave master out",
            s->text);
    if (c->training && s->value[0] & GRADIENTS && c->ranks > 1)
        return status_set(STATUS_INVALID,
                          "--offload %s: gradients of several ranks travel between them from memory to "
                          "memory; leave gradients out",
                          s->text);
    if (c->training && s->value[0] & GRADIENTS && !offload_any_gradient(g))
        return status_set(STATUS_INVALID,
                          "--offload %s: no gradient of this model has 4,096 numbers or more; leave "
                          "gradients out",
                          s->text);
    if (c->training && s->value[0] & ACTIVATIONS && !waiting_any(g, takes))
        return status_set(
            STATUS_INVALID,
            "--offload %s: nothing of 64 KiB or more waits for backward in a block of this model; "
            "leave activations out",
            s->text);
    return STATUS_OK;
}

/* ---- rewriting ---- */

static void move_states(rewrite *r) {
    for (node_id id = 1; id < r->in->nodes.count; id++)
        for (uint32_t k = 0; k < op_state_count(graph_node(r->in, id)->op); k++) {
            tensor_id t = large_state(r->in, graph_node(r->in, id), k);
            if (t) graph_tensor(r->out, r->map[t])->away = true;
        }
}

static tensor_id write_away(rewrite *r, tensor_id t) { return move_apply(r->out, r->map[t], true); }

static tensor_id read_back(rewrite *r, tensor_id t, tensor_id held) {
    (void)t;
    return move_apply(r->out, held, false);
}

static const pass_setting nothing;

static status move_most(const graph *in, const pass_setting *s, graph *out) {
    rewrite r;
    TRY(rewrite_open(&r, in, out));
    waiting_time *times =
        s->value[0] & ACTIVATIONS ? waiting_find(in, takes) : memory_new(in->tensors.count, sizeof *times);
    if (!times) graph_no_memory(out);
    if (s->value[0] & OPTIMIZER) move_states(&r);
    waiting_rewrite(&r, times, &(waiting_way){ write_away, read_back });
    memory_free(times);
    return rewrite_close(&r);
}

/* Masters are weights of every program, all else is of training. */
static status run(const graph *in, const pass_setting *s, const pass_context *c, graph *out) {
    if (!(s->value[0] & MASTER)) return move_most(in, c->training ? s : &nothing, out);
    if (!c->training) return offload_masters(in, out);
    graph between;
    TRY(graph_open(&between));
    status result = move_most(in, s, &between);
    if (result == STATUS_OK) result = offload_masters(&between, out);
    graph_close(&between);
    return result;
}

static status schedule(const graph *in, const pass_setting *s, const pass_context *c, graph *out) {
    return s->value[0] & GRADIENTS && c->training ? offload_gradients(in, out) : move_most(in, &nothing, out);
}

/* Weights of 16 bits stay: only masters go. */
static uint32_t frees_by(const pass_setting *s) {
    return (s->value[0] & MASTER ? 1u << ROLE_PARAMETER : 0) |
           (s->value[0] & OPTIMIZER ? 1u << ROLE_STATE : 0) |
           (s->value[0] & GRADIENTS ? 1u << ROLE_GRADIENT : 0);
}

const pass pass_offload = {
    .name = "offload",
    .help = "state, master weights, gradients, activations away: in a file in --offload-to",
    .values = "auto, off, optimizer, master, gradients, activations, or a list",
    .paper = "arXiv:2104.07857",
    .class = PASS_EXACT,
    .stage = PASS_STEP,
    .of_state = true,
    .frees = 1u << ROLE_PARAMETER | 1u << ROLE_STATE | 1u << ROLE_GRADIENT,
    .frees_by = frees_by,
    .parse = parse,
    .settings = settings,
    .check = check,
    .run = run,
    .schedule = schedule
};
