#include "ops/ordered_product.h"

#include "base/threads.h"
#include "ops/vector_math.h"

/* What a thread works in. */
typedef struct {
    float a[ORDERED_SLICE], b[ORDERED_SLICE * ORDERED_COLUMNS], sum[ORDERED_ROWS * ORDERED_COLUMNS];
} room;

uint64_t ordered_product_scratch(const op_call *c, int threads) {
    (void)c;
    return (uint64_t)threads * sizeof(room);
}

VECTOR_INLINE void add_slice(const float *a, const float *b, int64_t depths, float *sum, const int n) {
    float slice[ORDERED_COLUMNS];
    for (int j = 0; j < n; j++) slice[j] = 0;
    for (int64_t d = 0; d < depths; d++)
        for (int j = 0; j < n; j++) slice[j] = vector_fused(a[d], b[d * ORDERED_COLUMNS + j], slice[j]);
    for (int j = 0; j < n; j++) sum[j] += slice[j];
}

VECTOR_CLONES static void add_row(const float *a, const float *b, int64_t depths, float *sum, int n) {
    if (n == ORDERED_COLUMNS)
        add_slice(a, b, depths, sum, ORDERED_COLUMNS);
    else
        add_slice(a, b, depths, sum, n);
}

/* Rows at->row .. last-1 of the columns. */
static void run_block(const ordered_product *p, room *r, ordered_block at, int64_t last, int64_t depth) {
    int64_t first = at.row, n = at.columns;
    for (; at.row < last; at.row++) {
        float *sum = r->sum + (at.row - first) * ORDERED_COLUMNS;
        for (int64_t j = 0; j < n; j++) sum[j] = 0;
        if (p->begin) p->begin(p->of, &at, sum);
    }
    for (; at.depth < depth; at.depth += ORDERED_SLICE) {
        at.depths = depth - at.depth < ORDERED_SLICE ? depth - at.depth : ORDERED_SLICE;
        p->b(p->of, &at, r->b);
        for (at.row = first; at.row < last; at.row++) {
            p->a(p->of, &at, r->a);
            add_row(r->a, r->b, at.depths, r->sum + (at.row - first) * ORDERED_COLUMNS, (int)n);
        }
    }
    for (at.row = first; at.row < last; at.row++)
        p->end(p->of, &at, r->sum + (at.row - first) * ORDERED_COLUMNS);
}

static int64_t pieces(int64_t n, int64_t each) { return (n + each - 1) / each; }

static void run_piece(void *context, int64_t piece, int thread) {
    const ordered_product *p = context;
    int64_t down = pieces(p->n.rows, ORDERED_ROWS), across = pieces(p->n.columns, ORDERED_COLUMNS);
    ordered_block at = { .group = piece / across / down,
                         .row = piece / across % down * ORDERED_ROWS,
                         .column = piece % across * ORDERED_COLUMNS };
    ordered_extent n = p->n;
    if (p->extent) p->extent(p->of, at.group, &n);
    if (at.row >= n.rows) return;
    at.columns = n.columns - at.column < ORDERED_COLUMNS ? n.columns - at.column : ORDERED_COLUMNS;
    int64_t last = at.row + ORDERED_ROWS < n.rows ? at.row + ORDERED_ROWS : n.rows;
    run_block(p, (room *)p->call->scratch + thread, at, last, n.depth);
}

void ordered_product_run(const ordered_product *p) {
    ordered_product own = *p;
    threads_for(p->groups * pieces(p->n.rows, ORDERED_ROWS) * pieces(p->n.columns, ORDERED_COLUMNS),
                run_piece, &own);
}
