/* Attention over a cache in blocks: bench-paged.
 *
 * A line "type rows texts context heads kv_heads size threads" is answered by "seconds bytes": of a call
 * whose rows are the last ones of so many texts of `context` positions, rows / texts of each, and of keys and
 * values that these texts have. Each call finds its texts in other blocks than the calls before it, so small
 * ones come from memory too. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/threads.h"
#include "bench.h"
#include "ops/attention_paged/attention_paged.h"

enum { LEAST_BYTES = 256 << 20, TIMES = 5, PARTS = 4 };

typedef struct {
    char type[8];
    long long rows, texts, context;
    int heads, kv_heads, size, threads;
    int64_t columns, blocks, next; /* next: the block that the next call's texts begin at */
    int32_t *table, *text, *position;
    bench_op op;
} paged;

static dtype type_of(const char *name) {
    return strcmp(name, "i8") == 0     ? DTYPE_I8
           : strcmp(name, "bf16") == 0 ? DTYPE_BF16
           : strcmp(name, "f16") == 0  ? DTYPE_F16
                                       : DTYPE_F32;
}

static uint64_t bytes_of(const paged *p) {
    uint64_t of_position = (uint64_t)p->size * dtype_bytes(type_of(p->type));
    if (type_of(p->type) == DTYPE_I8) of_position += sizeof(float);
    return 2 * (uint64_t)p->texts * (uint64_t)p->context * (uint64_t)p->kv_heads * of_position;
}

static void place(paged *p) {
    for (int64_t i = 0; i < p->texts * p->columns; i++) p->table[i] = (int32_t)((p->next + i) % p->blocks);
    p->next = (p->next + p->texts * p->columns) % p->blocks;
}

static void open_op(paged *p) {
    attention_paged_attributes a = { .heads = p->heads, .kv_heads = p->kv_heads, .size = p->size };
    dtype type = type_of(p->type);
    p->columns = (p->context + CACHE_BLOCK - 1) / CACHE_BLOCK;
    int64_t block = 2 * (int64_t)CACHE_BLOCK * p->kv_heads * p->size * dtype_bytes(type);
    p->blocks = LEAST_BYTES / block;
    if (p->blocks < 2 * p->texts * p->columns) p->blocks = 2 * p->texts * p->columns;
    p->table = bench_memory((uint64_t)(p->texts * p->columns) * sizeof *p->table);
    p->text = bench_memory((uint64_t)p->rows * sizeof *p->text);
    p->position = bench_memory((uint64_t)p->rows * sizeof *p->position);
    for (int64_t i = 0; i < p->rows; i++) {
        int64_t each = p->rows / p->texts;
        p->text[i] = (int32_t)(i / each), p->position[i] = (int32_t)(p->context - each + i % each);
    }
    bench_input in[BENCH_INPUTS] = {
        { SHAPE(1, p->rows, (int64_t)p->heads * p->size), DTYPE_F32, NULL },
        { SHAPE(p->blocks, p->kv_heads, p->size, CACHE_BLOCK), type, NULL },
        { SHAPE(p->blocks, p->kv_heads, CACHE_BLOCK, p->size), type, NULL },
        { SHAPE(p->texts, p->columns), DTYPE_I32, p->table },
        { SHAPE(p->rows), DTYPE_I32, p->text },
        { SHAPE(p->rows), DTYPE_I32, p->position },
    };
    if (type == DTYPE_I8)
        for (int i = 6; i < 8; i++)
            in[i] = (bench_input){ SHAPE(p->blocks, p->kv_heads, CACHE_BLOCK), DTYPE_F32, NULL };
    bench_op_open(&p->op, &op_attention_paged, in, &a, false);
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void answer(const char *line) {
    static paged p;
    memset(&p, 0, sizeof p);
    if (sscanf(line, "%7s %lld %lld %lld %d %d %d %d", p.type, &p.rows, &p.texts, &p.context, &p.heads,
               &p.kv_heads, &p.size, &p.threads) != 8) {
        puts("0 0");
        return;
    }
    threads_set(p.threads);
    open_op(&p);
    double seconds[TIMES * PARTS + 1];
    for (int i = 0; i < TIMES * PARTS + 1; i++) place(&p), seconds[i] = bench_op_run(&p.op);
    qsort(seconds + 1, TIMES * PARTS, sizeof *seconds, by_size);
    printf("%.9f %llu\n", seconds[TIMES], (unsigned long long)bytes_of(&p));
    bench_op_close(&p.op);
    bench_release(p.table, (uint64_t)(p.texts * p.columns) * sizeof *p.table);
    bench_release(p.text, (uint64_t)p.rows * sizeof *p.text);
    bench_release(p.position, (uint64_t)p.rows * sizeof *p.position);
}

int main(void) {
    bench_serve(answer, "paged");
    return 0;
}
