/* libcublasLt.so.13 for tests, upon the emulated GPU: it has cuBLASLt's names, multiplies as it is asked to
 * on the lane of kernels, in an order of its own (from the last depth to the first), and ends the program
 * with a sentence where it was asked otherwise than the library may be asked:
 *
 * - operands or workspace that are not the device's, or don't begin at multiples of 16 bytes;
 * - an algorithm that its heuristic did not name for this product, or less workspace than it said;
 * - layouts that do not go together.
 *
 * Its algorithms write into all of their workspace. Its heuristic names one with split sums first, which is
 * not to be taken. Told by the environment: STANDIN_LT_VERSION, the number it says it has (130100);
 * STANDIN_LT_WORKSPACE, bytes for a product (4096); STANDIN_LT_FAILS=N, the product that it refuses;
 * STANDIN_LT_BARS=N, it has no algorithm for products of so many columns (of ours). */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "device/cuda/emulate_stream.h"
#include "device/library_calls.h"

#define EXPORTED(type) __attribute__((visibility("default"))) type
#define DECLARE(name, arguments) EXPORTED(int) cublasLt##name arguments;
LIBRARY_CALLS(DECLARE)
EXPORTED(size_t) cublasLtGetVersion(void);
EXPORTED(const char *) cublasLtGetStatusString(int result);
EXPORTED(const char) snug_standin[] = "cublaslt";

enum { OK = 0, NOT_SUPPORTED = 15, MAGIC = 0x57, SPLIT = 0x58, REDUCES = 0x59 };

/* Whatever a handle of the interface is. */
struct library_opaque {
    int type; /* of a layout; the rest of one: */
    int64_t rows, columns, lead;
    int turned_a, turned_b, end, bias_type, alignment; /* of a description, and of a preference */
    const void *bias;
    uint64_t workspace;
    uint32_t reductions;
};

static uint64_t multiplied;

static void die(const char *why) {
    fprintf(stderr, "stand-in of cuBLASLt: product %llu: %s\n", (unsigned long long)multiplied, why);
    fflush(stderr);
    abort();
}

static void must(bool holds, const char *why) {
    if (!holds) die(why);
}

static uint64_t told(const char *name, uint64_t otherwise) {
    const char *said = getenv(name);
    return said ? strtoull(said, NULL, 10) : otherwise;
}

static library_handle made(struct library_opaque as) {
    library_handle h = malloc(sizeof *h);
    must(h != NULL, "no memory");
    *h = as;
    return h;
}

size_t cublasLtGetVersion(void) { return told("STANDIN_LT_VERSION", 130100); }

const char *cublasLtGetStatusString(int result) {
    return result == NOT_SUPPORTED ? "the requested functionality is not supported" : "success";
}

int cublasLtCreate(library_handle *handle) {
    *handle = made((struct library_opaque){ 0 });
    return OK;
}

int cublasLtDestroy(library_handle handle) {
    free(handle);
    return OK;
}

/* ---- describing ---- */

int cublasLtMatmulDescCreate(library_handle *desc, int compute, int scale) {
    must(compute == LIBRARY_COMPUTE_F32 && scale == LIBRARY_F32, "sums are not f32");
    *desc = made((struct library_opaque){ .end = LIBRARY_END_PLAIN });
    return OK;
}

int cublasLtMatmulDescSetAttribute(library_handle d, int which, const void *value, size_t bytes) {
    void *to = which == LIBRARY_DESC_TRANSPOSE_A   ? (void *)&d->turned_a
               : which == LIBRARY_DESC_TRANSPOSE_B ? (void *)&d->turned_b
               : which == LIBRARY_DESC_END         ? (void *)&d->end
               : which == LIBRARY_DESC_BIAS        ? (void *)&d->bias
               : which == LIBRARY_DESC_BIAS_TYPE   ? (void *)&d->bias_type
                                                   : NULL;
    must(to && bytes == (which == LIBRARY_DESC_BIAS ? sizeof(void *) : sizeof(int)),
         "no attribute of a product");
    memcpy(to, value, bytes);
    return OK;
}

int cublasLtMatrixLayoutCreate(library_handle *layout, int type, uint64_t rows, uint64_t columns,
                               int64_t lead) {
    must(lead >= (int64_t)rows, "columns overlap");
    *layout =
        made((struct library_opaque){ type, (int64_t)rows, (int64_t)columns, lead, 0, 0, 0, 0, 0, 0, 0, 0 });
    return OK;
}

int cublasLtMatmulPreferenceCreate(library_handle *preference) {
    *preference = made((struct library_opaque){ .alignment = 256, .reductions = 7 });
    return OK;
}

int cublasLtMatmulPreferenceSetAttribute(library_handle p, int which, const void *value, size_t bytes) {
    bool wide = which == LIBRARY_PREFERS_WORKSPACE;
    must(bytes == (wide ? 8 : 4), "no attribute of a preference");
    if (wide) memcpy(&p->workspace, value, bytes);
    if (which == LIBRARY_PREFERS_REDUCTIONS) memcpy(&p->reductions, value, bytes);
    if (which >= LIBRARY_PREFERS_ALIGNMENT) memcpy(&p->alignment, value, bytes);
    return OK;
}

int cublasLtMatmulPreferenceDestroy(library_handle preference) { return cublasLtDestroy(preference); }

/* ---- choosing ---- */

static void check_sizes(const struct library_opaque *d, const struct library_opaque *a,
                        const struct library_opaque *b, const struct library_opaque *y) {
    int64_t m = d->turned_a ? a->columns : a->rows, k = d->turned_a ? a->rows : a->columns;
    int64_t depth = d->turned_b ? b->columns : b->rows, n = d->turned_b ? b->rows : b->columns;
    must(k == depth && y->rows == m && y->columns == n, "these matrices can't be multiplied");
    must(a->type == b->type, "factors of two types");
}

/* Of the product that it is for, so that another's is noticed. */
static library_way way_of(const struct library_opaque *d, const struct library_opaque *a,
                          const struct library_opaque *b, const struct library_opaque *y, uint64_t kind) {
    return (library_way){ { kind, (uint64_t)y->rows, (uint64_t)y->columns, (uint64_t)a->rows,
                            (uint64_t)(d->turned_a * 2 + d->turned_b), (uint64_t)(a->type * 100 + y->type),
                            (uint64_t)d->end, (uint64_t)b->rows } };
}

int cublasLtMatmulAlgoGetHeuristic(library_handle handle, library_handle desc, library_handle a,
                                   library_handle b, library_handle c, library_handle d,
                                   library_handle preference, int wanted, library_found *found, int *count) {
    uint64_t workspace = told("STANDIN_LT_WORKSPACE", 4096);
    (void)handle, (void)c;
    check_sizes(desc, a, b, d);
    must(wanted >= 3 && preference->alignment == 16, "a preference that is none of ours");
    *count = 0;
    if (told("STANDIN_LT_BARS", 0) == (uint64_t)d->rows || workspace > preference->workspace)
        return NOT_SUPPORTED;
    found[0] = (library_found){ .way = way_of(desc, a, b, d, SPLIT), .workspace_bytes = 0 };
    found[1] = (library_found){ .way = way_of(desc, a, b, d, REDUCES), .workspace_bytes = 0 };
    found[2] = (library_found){ .way = way_of(desc, a, b, d, MAGIC), .workspace_bytes = workspace };
    *count = 3;
    return OK;
}

int cublasLtMatmulAlgoConfigGetAttribute(const library_way *way, int which, void *value, size_t bytes,
                                         size_t *written) {
    int32_t splits = way->words[0] == SPLIT ? 4 : 1;
    uint32_t reduces = way->words[0] == REDUCES;
    must(bytes == 4, "no attribute of an algorithm");
    memcpy(value, which == LIBRARY_WAY_SPLITS ? (void *)&splits : (void *)&reduces, 4);
    *written = 4;
    return OK;
}

/* ---- multiplying ---- */

typedef struct {
    struct library_opaque desc, a, b, y;
    const void *at_a, *at_b, *at_c;
    void *at_y, *workspace;
    uint64_t workspace_bytes;
    float alpha, beta;
} product;

static float get(const void *from, int type, int64_t i) {
    if (type == LIBRARY_F32) return ((const float *)from)[i];
    uint16_t bits = ((const uint16_t *)from)[i];
    return type == LIBRARY_BF16 ? half_from_bf16(bits) : half_from_f16(bits);
}

static void put(void *to, int type, int64_t i, float x) {
    if (type == LIBRARY_F32)
        ((float *)to)[i] = x;
    else
        ((uint16_t *)to)[i] = type == LIBRARY_BF16 ? half_to_bf16(x) : half_to_f16(x);
}

static bool multiply(void *context) {
    const product *p = context;
    const struct library_opaque *d = &p->desc, *a = &p->a, *b = &p->b, *y = &p->y;
    int64_t depth = d->turned_a ? a->rows : a->columns;
    memset(p->workspace, 0xaa, p->workspace_bytes);
    for (int64_t n = 0; n < y->columns; n++)
        for (int64_t m = 0; m < y->rows; m++) {
            float sum = 0;
            for (int64_t k = depth; k-- > 0;)
                sum += get(p->at_a, a->type, d->turned_a ? m * a->lead + k : k * a->lead + m) *
                       get(p->at_b, b->type, d->turned_b ? k * b->lead + n : n * b->lead + k);
            sum *= p->alpha;
            if (p->beta != 0) sum += p->beta * get(p->at_c, y->type, n * y->lead + m);
            if (d->end == LIBRARY_END_BIAS) sum += get(d->bias, d->bias_type, m);
            put(p->at_y, y->type, n * y->lead + m, sum);
        }
    return true;
}

static void check_place(const emulated_stream *s, const void *at, const struct library_opaque *of) {
    uint64_t bytes = (uint64_t)(of->lead * of->columns) * (of->type == LIBRARY_F32 ? 4 : 2);
    must(s->is_in_pool(at, bytes), "an operand is not the device's");
    must((uintptr_t)at % 16 == 0 && of->lead * (of->type == LIBRARY_F32 ? 4 : 2) % 16 == 0,
         "an operand does not lie at a multiple of 16 bytes");
}

int cublasLtMatmul(library_handle handle, library_handle desc, const void *alpha, const void *a,
                   library_handle a_layout, const void *b, library_handle b_layout, const void *beta,
                   const void *c, library_handle c_layout, void *d, library_handle d_layout,
                   const library_way *way, void *workspace, size_t workspace_bytes, void *stream) {
    emulated_stream *s = stream;
    product p = { *desc,
                  *a_layout,
                  *b_layout,
                  *d_layout,
                  a,
                  b,
                  c,
                  d,
                  workspace,
                  workspace_bytes,
                  *(const float *)alpha,
                  *(const float *)beta };
    library_way expected = way_of(desc, a_layout, b_layout, d_layout, MAGIC);
    (void)handle, (void)c_layout;
    if (++multiplied == told("STANDIN_LT_FAILS", 0)) return NOT_SUPPORTED;
    check_sizes(desc, a_layout, b_layout, d_layout);
    must(memcmp(way, &expected, sizeof expected) == 0, "this algorithm was not named for this product");
    must(workspace_bytes == told("STANDIN_LT_WORKSPACE", 4096),
         "this is not the workspace that was asked for");
    must(!workspace_bytes || s->is_in_pool(workspace, workspace_bytes), "the workspace is not the device's");
    check_place(s, a, a_layout), check_place(s, b, b_layout), check_place(s, d, d_layout);
    if (p.beta != 0) check_place(s, c, d_layout);
    s->give(s, multiply, &p, sizeof p);
    return OK;
}
