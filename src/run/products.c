#include "run/products.h"

#include <stdio.h>
#include <string.h>

#include "base/digest.h"
#include "base/instructions.h"
#include "device/library_attention.h"
#include "ir/graph.h"
#include "ops/matmul/matmul_kernel.h"

/* As library_name and library_attention_name begin. */
static const char *const libraries[] = { "cuBLASLt ", "cuDNN " };
#define TENSOR INSTRUCTIONS_TENSOR "-"

static const char *tensor_kind(uint32_t capability) {
    static const struct {
        uint32_t capability;
        const char *kind;
    } known[] = { { 80, TENSOR "8.0" },   { 86, TENSOR "8.6" },   { 87, TENSOR "8.7" },
                  { 89, TENSOR "8.9" },   { 90, TENSOR "9.0" },   { 100, TENSOR "10.0" },
                  { 103, TENSOR "10.3" }, { 110, TENSOR "11.0" }, { 120, TENSOR "12.0" },
                  { 121, TENSOR "12.1" } };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].capability == capability) return known[i].kind;
    return INSTRUCTIONS_TENSOR;
}

typedef struct {
    bool halves, pairs, tensor; /* products of 16 bits, of bf16 among them, on tensor cores among them, */
    bool groups;                /* and there by what one capability alone has */
    bool library, attends;      /* of any type, by a library, and those of attention; */
    digest ways;                /* what they are, and their algorithms */
} found;

static bool is_half(dtype type) { return type == DTYPE_BF16 || type == DTYPE_F16; }

static void look(const program *p, found *f) {
    const graph *g = &p->graph;
    for (uint32_t s = 0; s < p->count; s++) {
        const node *n = graph_node(g, p->steps[s].node);
        op_cost cost = lower_cost(g, &p->steps[s]);
        if (cost.by_library) {
            *(work_is_products(cost.kind) ? &f->library : &f->attends) = true;
            digest_add(&f->ways, node_attributes(g, n), n->op->attribute_bytes);
            digest_add(&f->ways, graph_shape(g, node_out(g, n, 0)), sizeof(shape));
            continue;
        }
        for (const op_kernel *k = n->op->tensor; k && k->name; k++)
            if (k == p->steps[s].kernel) f->tensor = true, f->groups |= k[1].name != NULL;
        if (n->op->traits & OP_WIDENED_PAIRS) f->halves = f->pairs = true;
        bool parts = n->op->traits & OP_PAIRS; /* of its first input */
        if (!n->op->pairs && !parts) continue;
        dtype a = graph_tensor(g, node_in(g, n, 0))->dtype;
        dtype b = parts ? a : (dtype)graph_tensor(g, node_in(g, n, 1))->dtype;
        f->halves |= a == b && is_half(a), f->pairs |= matmul_in_pairs(a, b);
    }
}

static const char *own_kind(const found *f, const device *on) {
    bool is_gpu = on && on->kind != DEVICE_CPU;
    if (f->groups) return on->capability == 100 ? INSTRUCTIONS_GROUPS "-10.0" : INSTRUCTIONS_GROUPS "-9.0";
    if (f->tensor) return tensor_kind(on->capability);
    if (!f->halves) return "";
    return is_gpu || !f->pairs ? PRODUCTS_WIDENED : instructions_kind();
}

const char *products_kind(const decision *d, char kind[PRODUCTS_KIND_BYTES]) {
    char digits[DIGEST_TEXT_BYTES];
    found f = { .ways = digest_begin() };
    for (uint32_t i = 0; i < d->plan.program_count; i++) look(&d->plan.programs[i].program, &f);
    const char *own = own_kind(&f, d->plan.device);
    if (f.library || f.attends)
        snprintf(kind, PRODUCTS_KIND_BYTES, "%s%s%s %s%s%s", f.library ? library_name() : "",
                 f.library && f.attends ? " and " : "", f.attends ? library_attention_name() : "",
                 digest_text_of(digest_value(&f.ways), digits), own[0] ? " and " : "", own);
    else
        snprintf(kind, PRODUCTS_KIND_BYTES, "%s", own);
    return kind;
}

bool products_by_library(const char *kind) {
    bool by = false;
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++)
        by |= strncmp(kind, libraries[i], strlen(libraries[i])) == 0;
    return by;
}

const char *products_way(const char *kind, char way[PRODUCTS_WAY_BYTES]) {
    bool groups = strncmp(kind, INSTRUCTIONS_GROUPS "-", strlen(INSTRUCTIONS_GROUPS "-")) == 0;
    if (products_by_library(kind))
        snprintf(way, PRODUCTS_WAY_BYTES, "that version of the library, on such a GPU and with that plan");
    else if (strcmp(kind, PRODUCTS_WIDENED) == 0)
        snprintf(way, PRODUCTS_WAY_BYTES, "--instructions %s", kind);
    else if (groups || strncmp(kind, TENSOR, strlen(TENSOR)) == 0)
        snprintf(way, PRODUCTS_WAY_BYTES, "--instructions %s, on a GPU of capability %s",
                 groups ? INSTRUCTIONS_GROUPS : INSTRUCTIONS_TENSOR, strrchr(kind, '-') + 1);
    else
        snprintf(way, PRODUCTS_WAY_BYTES, "--instructions %s, where the processor has these", kind);
    return way;
}
