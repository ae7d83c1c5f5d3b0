#include "harness_memory.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/philox.h"
#include "base/threads.h"
#include "ops/reference.h"

/* ---- guarded blocks ---- */

enum { WALL = 64, WALL_BYTE = 0xA5 };

typedef struct {
    void *raw;
    uint64_t bytes;
} block_head; /* sits before the wall before the block */

static block_head head_of(const void *block) {
    block_head head;
    memcpy(&head, (const char *)block - WALL - sizeof head, sizeof head);
    return head;
}

void *harness_block_new(uint64_t bytes, uint32_t shift) {
    char *raw = memory_new(bytes + shift + 4 * WALL, 1);
    if (!raw) return NULL;
    uintptr_t place = ((uintptr_t)raw + 2 * WALL + 63) & ~(uintptr_t)63;
    char *block = raw + (place - (uintptr_t)raw) + shift;
    block_head head = { raw, bytes };
    memcpy(block - WALL - sizeof head, &head, sizeof head);
    memset(block - WALL, WALL_BYTE, WALL);
    memset(block + bytes, WALL_BYTE, WALL);
    memset(block, HARNESS_POISON, bytes);
    return block;
}

bool harness_block_intact(const void *block) {
    const unsigned char *before = (const unsigned char *)block - WALL;
    const unsigned char *after = (const unsigned char *)block + head_of(block).bytes;
    for (int i = 0; i < WALL; i++)
        if (before[i] != WALL_BYTE || after[i] != WALL_BYTE) return false;
    return true;
}

void harness_block_free(void *block) {
    if (block) memory_free(head_of(block).raw);
}

uint64_t harness_block_bytes(const void *block) { return head_of(block).bytes; }

void harness_fill(const op_arg *x, double low, double high, uint64_t seed) {
    for (int64_t i = 0, n = shape_elements(&x->shape); i < n; i++) {
        philox_block b = philox_draw(seed, (philox_block){ { (uint32_t)i, (uint32_t)(i >> 32), 0, 0 } });
        double value = low + (high - low) * ((double)b.word[0] * 0x1p-32);
        reference_set(x, i, dtype_is_float(x->dtype) ? (double)(float)value : floor(value));
    }
}

/* ---- running ---- */

const op_kernel *harness_reference(const op_def *op) {
    const op_kernel *last = NULL;
    for (const op_kernel *k = op->cpu; k && k->name; k++) last = k;
    return last;
}

const harness_watch *harness_watching;

bool harness_run_kernel(const op_kernel *k, op_call *c) {
    uint64_t bytes = k->scratch ? k->scratch(c, threads_count()) : 0;
    void *scratch = harness_block_new(bytes, 0);
    if (!scratch) return false;
    c->scratch = bytes ? scratch : NULL;
    c->scratch_bytes = bytes;
    if (harness_watching) harness_watching->before(c);
    k->run(c);
    if (harness_watching) harness_watching->after(c);
    bool intact = harness_block_intact(scratch);
    harness_block_free(scratch);
    return intact;
}

bool harness_memory_open(harness_memory *m, const graph *g) {
    *m = (harness_memory){ .g = g, .data = memory_new(g->tensors.count, sizeof(void *)) };
    if (!m->data) return false;
    for (tensor_id t = 1; t < g->tensors.count; t++)
        if (!graph_tensor(g, t)->base && !(m->data[t] = harness_block_new(graph_tensor_bytes(g, t), 0)))
            return false;
    for (tensor_id t = 1; t < g->tensors.count; t++) {
        int64_t offset = 0;
        tensor_id owner = graph_storage(g, t, &offset);
        m->data[t] = (char *)m->data[owner] + offset;
    }
    return true;
}

void harness_memory_close(harness_memory *m) {
    for (tensor_id t = 1; m->data && t < m->g->tensors.count; t++)
        if (!graph_tensor(m->g, t)->base) harness_block_free(m->data[t]);
    memory_free(m->data);
    *m = (harness_memory){ 0 };
}

op_arg harness_memory_arg(const harness_memory *m, tensor_id t) {
    if (!t) return (op_arg){ 0 };
    const tensor *x = graph_tensor(m->g, t);
    return (op_arg){ .data = m->data[t], .shape = x->shape, .dtype = (dtype)x->dtype };
}

enum { MAX_SIDES = 64 };

static bool run_node(const harness_memory *m, const node *n) {
    const op_kernel *k = harness_reference(n->op);
    if (!k || n->op->traits & (OP_VIEW | OP_GATHER)) return true;
    op_arg in[MAX_SIDES], out[MAX_SIDES];
    if (n->in_count > MAX_SIDES || n->out_count > MAX_SIDES) return false;
    for (uint32_t i = 0; i < n->in_count; i++) in[i] = harness_memory_arg(m, node_in(m->g, n, i));
    for (uint32_t i = 0; i < n->out_count; i++) out[i] = harness_memory_arg(m, node_out(m->g, n, i));
    op_call c = { .in = in,
                  .out = out,
                  .in_count = n->in_count,
                  .out_count = n->out_count,
                  .attributes = node_attributes(m->g, n) };
    return harness_run_kernel(k, &c);
}

bool harness_memory_run(const harness_memory *m, node_id first, node_id last) {
    for (node_id id = first; id < last; id++)
        if (!run_node(m, graph_node(m->g, id))) return false;
    for (tensor_id t = 1; t < m->g->tensors.count; t++)
        if (!graph_tensor(m->g, t)->base && !harness_block_intact(m->data[t])) return false;
    return true;
}
