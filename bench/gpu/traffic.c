/* What kernels for GPUs ask memory for, as the emulation sees it (device/cuda/emulate_watch.h), on the shapes
 * of whole training steps: bench-gpu-traffic [OP [INSTRUCTIONS]], of all ops for OP "all", with kernels that
 * are asked for as --instructions asks for them. Prints the tables of bench/results/gpu_traffic.md, a line
 * for the first call of each kernel with other types or other operands:
 *
 *   asked      bytes that threads ask for, per byte of operands that the call reads or writes
 *   sectors    bytes of the sectors of 32 that the requests of warps touch, per byte asked for
 *   conflicts  turns of shared memory's banks beyond those that requests need, in 100 of these; -: it is not
 *              used
 *
 * Below a table stand the places with conflicts, where the build has lines (SNUG_DEBUG_INFO=-g1).
 *
 * Operands count once for being read and once for being written; scratch is asked for and no operand. Of
 * calls with much to compute some blocks of each launch are run, evenly spaced, marked by a star. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/instructions.h"
#include "base/philox.h"
#include "base/text.h"
#include "base/threads.h"
#include "base/units.h"
#include "device/cuda/emulate_watch.h"
#include "ops/reference.h"
#include "run/decision.h"

enum { MOST_ARGS = 32, MOST_SEEN = 512, SOME_BLOCKS = 8 };

/* Work of a call beyond which some of its blocks have to do. */
static const double MUCH = 1e8;

static const struct {
    const char *name, *config;
    int64_t batch, context;
    const char *settings[4]; /* of passes: name, setting, ... */
} runs[] = {
    { "gpt2",
      "{\"model_type\": \"gpt2\", \"n_layer\": 1, \"n_head\": 12, \"n_embd\": 768, \"n_positions\": 1024, "
      "\"vocab_size\": 2048}",
      1,
      128,
      { 0 } },
    { "gpt2, mixed-bf16, flash",
      "{\"model_type\": \"gpt2\", \"n_layer\": 1, \"n_head\": 12, \"n_embd\": 768, \"n_positions\": 1024, "
      "\"vocab_size\": 2048, \"resid_pdrop\": 0.1, \"embd_pdrop\": 0.1, \"attn_pdrop\": 0.1}",
      1,
      128,
      { "precision", "mixed-bf16", "attention", "flash" } },
    { "gpt2, fp8-mixed",
      "{\"model_type\": \"gpt2\", \"n_layer\": 1, \"n_head\": 12, \"n_embd\": 768, \"n_positions\": 1024, "
      "\"vocab_size\": 2048}",
      1,
      128,
      { "precision", "fp8-mixed" } },
    { "gpt2, 4,096 wide",
      "{\"model_type\": \"gpt2\", \"n_layer\": 1, \"n_head\": 32, \"n_embd\": 4096, \"n_inner\": 512, "
      "\"n_positions\": 64, \"vocab_size\": 256}",
      1,
      64,
      { "precision", "mixed-bf16" } },
    { "Llama, 4,096 wide",
      "{\"model_type\": \"llama\", \"num_hidden_layers\": 1, \"num_attention_heads\": 32, "
      "\"num_key_value_heads\": 8, \"hidden_size\": 4096, \"intermediate_size\": 512, \"vocab_size\": 256, "
      "\"max_position_embeddings\": 64, \"rms_norm_eps\": 1e-5, \"hidden_act\": \"silu\", "
      "\"tie_word_embeddings\": false}",
      1,
      64,
      { 0 } },
};

static void require(status result) {
    if (result == STATUS_OK) return;
    fprintf(stderr, "%s\n", status_message());
    exit(1);
}

/* ---- a call ---- */

typedef struct {
    op_arg args[MOST_ARGS];
    bool shares[MOST_ARGS]; /* another one's memory */
    op_call call;
} bound;

static void fill(const graph *g, tensor_id t, const op_arg *x, uint32_t seed) {
    op_range range = dtype_is_float(x->dtype) ? (op_range){ 0 } : op_range_of(g, t);
    double high = range.below > 0 ? (double)range.below : 2;
    for (int64_t i = 0, n = shape_elements(&x->shape); i < n; i++) {
        philox_block b = philox_draw(seed, (philox_block){ { (uint32_t)i, (uint32_t)(i >> 32), 0, 0 } });
        double value = (double)b.word[0] * 0x1p-32;
        reference_set(x, i, dtype_is_float(x->dtype) ? 2 * value - 1 : (double)(int64_t)(value * high));
    }
}

static uint64_t bytes_of(const op_arg *x) {
    return (uint64_t)shape_elements(&x->shape) * dtype_bytes(x->dtype);
}

/* Zeros, aligned as plans align. */
static void *room(uint64_t bytes) {
    uint64_t size = units_align(bytes + 1, 256);
    void *data = aligned_alloc(256, size);
    if (!data) abort();
    return memset(data, 0, size);
}

static void bind(bound *b, const program *p, const lower_step *s, const device *d) {
    const graph *g = &p->graph;
    const node *n = graph_node(g, s->node);
    *b = (bound){ 0 };
    if (n->in_count + n->out_count > MOST_ARGS) abort();
    lower_call(g, n, d, b->args, &b->call);
    for (uint32_t i = 0; i < n->in_count; i++) {
        if (!node_in(g, n, i)) continue;
        b->args[i].data = room(bytes_of(&b->args[i]));
        fill(g, node_in(g, n, i), &b->args[i], i + 1);
    }
    for (uint32_t o = 0; o < n->out_count; o++) {
        op_arg *y = &b->args[n->in_count + o];
        for (uint32_t a = 0; a < n->op->alias_count; a++)
            if (n->op->aliases[a].out == o && n->op->aliases[a].must)
                y->data = op_in(&b->call, n->op->aliases[a].in)->data;
        b->shares[n->in_count + o] = y->data != NULL;
        if (!y->data) y->data = room(bytes_of(y));
    }
    b->call.scratch_bytes = s->scratch_bytes;
    b->call.scratch = room(s->scratch_bytes);
}

static void unbind(bound *b) {
    for (int i = 0; i < MOST_ARGS; i++)
        if (!b->shares[i]) free(b->args[i].data);
    free(b->call.scratch);
}

/* ---- the table ---- */

static void name_shape(const op_arg *x, char *out, size_t bytes) {
    size_t at = 0;
    for (uint32_t d = 0; d < x->shape.rank && at < bytes; d++)
        at += (size_t)snprintf(out + at, bytes - at, "%s%lld", d ? "×" : "", (long long)x->shape.dim[d]);
    if (at < bytes) snprintf(out + at, bytes - at, " %s", dtype_name(x->dtype));
}

static bool is_new(const program *p, const lower_step *s) {
    static struct {
        const op_kernel *kernel;
        uint64_t operands;
    } seen[MOST_SEEN];
    static int count;
    const graph *g = &p->graph;
    const node *n = graph_node(g, s->node);
    uint64_t operands = 0;
    for (uint32_t i = 0; i < n->in_count; i++)
        operands = operands * 16 + (node_in(g, n, i) ? graph_tensor(g, node_in(g, n, i))->dtype + 1u : 0);
    const shape *first = &graph_tensor(g, node_out(g, n, 0))->shape;
    operands = operands * 8192 + (uint64_t)first->dim[first->rank ? first->rank - 1 : 0] / 4096;
    for (int i = 0; i < count; i++)
        if (seen[i].kernel == s->kernel && seen[i].operands == operands) return false;
    if (count == MOST_SEEN) abort();
    seen[count].kernel = s->kernel, seen[count++].operands = operands;
    return true;
}

/* Where its shared memory has conflicts. */
static void add_conflicts(text *out, const char *kernel) {
    emulate_conflicts c;
    for (unsigned n = 0; emulate_watch_conflicts(n, &c); n++)
        text_add(out, "| %s | %s | %llu | %llu |\n", kernel, c.where, (unsigned long long)c.turns,
                 (unsigned long long)c.conflicts);
}

static const char *conflicts_text(const emulate_traffic *t, char few[32]) {
    double turns = (double)(t->turns[0] + t->turns[1]);
    snprintf(few, 32, "-");
    if (turns > 0) snprintf(few, 32, "%.3g", 100 * (double)(t->conflicts[0] + t->conflicts[1]) / turns);
    return few;
}

static void measure(const program *p, const lower_step *s, const device *d, text *conflicts) {
    const node *n = graph_node(&p->graph, s->node);
    op_cost cost = n->op->cost(&p->graph, n);
    bool some = cost.flops > MUCH;
    bound b;
    bind(&b, p, s, d);
    emulate_watch_options o = { .traffic = true, .most_blocks = some ? SOME_BLOCKS : 0 };
    emulate_watch_begin(&o);
    for (uint32_t i = 0; i < n->in_count + (uint32_t)n->out_count; i++)
        emulate_watch_memory(b.args[i].data, bytes_of(&b.args[i]), EMULATE_WATCH_FILLED);
    emulate_watch_memory(b.call.scratch, b.call.scratch_bytes, EMULATE_WATCH_SCRATCH);
    s->kernel->run(&b.call);
    emulate_traffic t;
    if (emulate_watch_end(&t)) fprintf(stderr, "%s: %s\n", s->kernel->name, emulate_watch_said());
    char first[96], few[32];
    add_conflicts(conflicts, s->kernel->name);
    name_shape(&b.args[n->in_count], first, sizeof first);
    double operands = (double)(t.operands[0] + t.operands[1]), asked = (double)(t.asked[0] + t.asked[1]);
    printf("| %s%s | %s | %llu | %.2f | %.2f | %.2f | %s |\n", s->kernel->name, some ? " *" : "", first,
           (unsigned long long)(t.operands[0] + t.operands[1]), operands > 0 ? asked / operands : 0,
           asked > 0 ? 32 * (double)(t.sectors[0] + t.sectors[1]) / asked : 0,
           operands > 0 ? 32 * (double)(t.sectors[0] + t.sectors[1]) / operands : 0, conflicts_text(&t, few));
    fflush(stdout);
    unbind(&b);
}

static void run_step(size_t r, const char *only) {
    FILE *f = fopen("config.json", "w");
    if (!f || fputs(runs[r].config, f) < 0 || fclose(f) != 0) abort();
    setup_options o = setup_defaults();
    o.model = "config.json", o.device = "emulated", o.rates = RATES_BUILT_IN;
    o.batch = o.micro_batch = runs[r].batch, o.context = runs[r].context;
    for (int i = 0; pass_table[i]; i++) {
        o.passes[i] = "off";
        for (int k = 0; k < 4 && runs[r].settings[k]; k += 2)
            if (strcmp(pass_table[i]->name, runs[r].settings[k]) == 0) o.passes[i] = runs[r].settings[k + 1];
        if (strcmp(pass_table[i]->name, "fuse") == 0) o.passes[i] = NULL;
    }
    setup s;
    decision d = { 0 };
    require(setup_open(&o, NULL, &s));
    require(decision_make(&s, &d));
    printf("\n## %s: batch %lld, context %lld\n\n", runs[r].name, (long long)o.batch, (long long)o.context);
    printf("| kernel | first result | bytes of operands | asked | sectors | both | conflicts "
           "|\n|---|---|---|---|---|---|---|\n");
    text conflicts = { 0 };
    for (uint32_t k = 0; k < d.plan.program_count; k++) {
        const program *p = &d.plan.programs[k].program;
        for (uint32_t i = 0; i < p->count; i++)
            if (!p->steps[i].by_host && is_new(p, &p->steps[i]) &&
                (!only || strcmp(only, graph_node(&p->graph, p->steps[i].node)->op->name) == 0))
                measure(p, &p->steps[i], d.plan.device, &conflicts);
    }
    if (conflicts.length)
        printf("\n| kernel | where | turns | conflicts |\n|---|---|---|---|\n%s", conflicts.data);
    text_close(&conflicts);
    decision_close(&d);
    setup_close(&s);
}

int main(int argc, char **argv) {
    char folder[] = "/tmp/snug-traffic-XXXXXX";
    if (!mkdtemp(folder) || chdir(folder) != 0) return perror(folder), 1;
    threads_set(1);
    if (argc > 2) require(instructions_pin(argv[2]));
    const char *only = argc > 1 && strcmp(argv[1], "all") != 0 ? argv[1] : NULL;
    for (size_t r = 0; r < sizeof runs / sizeof *runs; r++) run_step(r, only);
    remove("config.json");
    return chdir("/") != 0 || rmdir(folder) != 0;
}
