/* The inside of the fast product, which computes in f32: packed panels, one micro-kernel per instruction set,
 * the loops around.
 *
 * The idea is that of GotoBLAS. The output is cut by its shape into tiles, which are handed out to threads.
 * Within a tile the summed dimension is walked in slices of MATMUL_DEPTH; of each slice the rows of a are
 * copied into panels that a micro-kernel reads in order, then b panel after panel (one stays in the first
 * cache), and each pair of panels gives one block of sums in registers.
 *
 * Invariant: an element is ((before + slice_0) + slice_1 ...) + bias + residual, where slice_i starts from 0
 * and takes its MATMUL_DEPTH products in order, each by one fused multiply-add. Every micro-kernel computes
 * exactly that, so the bits depend neither on the instruction set, nor on the cut, nor on what lies beside
 * the element; what fills up a panel is computed and thrown away.
 *
 * Paper: Goto, van de Geijn, "Anatomy of high-performance matrix multiplication", ACM TOMS 34(3), 2008. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/dtype.h"
#include "base/threads.h"
#include "ops/matmul/matmul.h"

enum {
    MATMUL_DEPTH = THREADS_ROW_TILE,
    MATMUL_MAX_ROWS = 16, /* no micro-kernel on f32 has larger blocks */
    MATMUL_MAX_COLUMNS = 32,
    MATMUL_PAIRS_ROWS = 32,  /* nor one on pairs, whose panels are filled up to a multiple of */
    MATMUL_PAIRS_FILL = 32,  /* so many depths at most */
    MATMUL_STREAM_ROWS = 32, /* up to so many rows, b is read where it lies */
};

/* ---- packing ---- */

/* A matrix as a set of lines (rows of a, columns of b) of some depth (the summed dimension). Numbers of 16
 * bits are widened on their way into a panel: there is never more of them in f32 than a panel. So are the
 * codes of b, which i8 and u8 stand for (ops/matmul_coded); `data` is then where the matrix begins. */
typedef struct {
    int64_t line, lines, depth, depths;
} matmul_part;

/* A matrix that lies nowhere as a whole, such as the windows of an image. `panels` puts a part of it into
 * panels, in f32. `rows` puts a part of at most MATMUL_PAIRS_ROWS lines, of bf16 as it is, into rows: a line
 * to each MATMUL_DEPTH numbers or, where it is across, a depth to each MATMUL_MAX_COLUMNS. */
typedef struct {
    void (*panels)(const void *of, const matmul_part *part, int64_t width, float *packed);
    void (*rows)(const void *of, const matmul_part *part, uint16_t *rows);
} matmul_gather;
enum { MATMUL_GATHERED = 32 * MATMUL_DEPTH }; /* numbers that `rows` has room for */

typedef struct {
    const void *data;
    int64_t stride;              /* between lines, or between depths if `across` */
    bool across;                 /* neighbouring lines are neighbours in memory, else neighbouring depths */
    dtype type;                  /* f32, f16, bf16, i8, u8 */
    const float *scales;         /* of codes */
    bool by_rows;                /* i8: a scale for each row of the matrix as it lies; else for each column */
    const matmul_gather *gather; /* NULL: it lies as above; else `data` is what this is given */
} matmul_operand;

static inline bool matmul_is_coded(const matmul_operand *o) {
    return o->type == DTYPE_I8 || o->type == DTYPE_U8;
}

/* Some lines and depths of a coded operand as numbers in `wide`, which has room for MATMUL_MAX_COLUMNS lines
 * of MATMUL_DEPTH. */
matmul_operand matmul_widen(const matmul_operand *o, const matmul_part *p, float *wide);

/* Of one f32, f16 or bf16: codes have sizes of their own. */
static inline int64_t matmul_bytes(dtype type) { return dtype_is_half(type) ? 2 : 4; }

static inline matmul_operand matmul_operand_at(const matmul_operand *o, int64_t line, int64_t depth) {
    matmul_operand moved = *o;
    int64_t place = o->across ? depth * o->stride + line : line * o->stride + depth;
    moved.data = (const char *)o->data + place * matmul_bytes(o->type);
    return moved;
}

/* The first `lines` lines as panels of `width` lines each, at most MATMUL_MAX_COLUMNS, [panel][depth][width];
 * the last one is filled up with whatever: what comes of it is thrown away. */
typedef void matmul_pack(const matmul_operand *o, int64_t lines, int64_t depth, int64_t width, void *packed);
matmul_pack matmul_pack_portable, matmul_pack_avx512;

/* The same for lines that lie apart: `depth` numbers from each address into one panel, which has `width`
 * lines and may go on behind them. */
typedef void matmul_pack_apart(const void *const *row, int64_t lines, int64_t depth, int64_t width,
                               dtype type, float *panel);
matmul_pack_apart matmul_pack_apart_portable, matmul_pack_apart_avx512;

/* Of bf16, which stays what it is: two neighbouring depths are a word, panels are [panel][pair][width], an
 * odd depth has a zero beside it. _filled: pairs of zeros follow up to a multiple of MATMUL_PAIRS_FILL
 * depths. _rows: for so many depths at a time [line][pair], width being MATMUL_PAIRS_ROWS: what a register of
 * tiles takes. */
matmul_pack matmul_pack_pairs, matmul_pack_pairs_filled, matmul_pack_rows;
matmul_pack matmul_pack_pairs_avx512, matmul_pack_pairs_filled_avx512, matmul_pack_rows_avx512;

/* ---- micro-kernels ---- */

/* Memory that is wanted soon and lies in runs too short for a processor to notice: MATMUL_DEPTH /
 * MATMUL_ASK_EVERY times two cache lines of 64 bytes, each time `stride` bytes further. A micro-kernel asks
 * for it between its products, where that costs nothing; what lies outside of the operands is asked for in
 * vain. */
typedef struct {
    const char *at;
    int64_t stride; /* in bytes */
} matmul_prefetch;

enum {
    MATMUL_ASK_Y,
    MATMUL_ASK_A,
    MATMUL_ASK_B,
    MATMUL_ASKS,
    MATMUL_ASK_EVERY = 16, /* depths */
    MATMUL_PREFETCH_TIMES = MATMUL_DEPTH / MATMUL_ASK_EVERY,
};

static inline void matmul_ask_once(matmul_prefetch *ask) {
    for (int i = 0; i < MATMUL_ASKS; i++) {
        __builtin_prefetch(ask[i].at, 0, 2);
        __builtin_prefetch(ask[i].at + 64, 0, 2);
        ask[i].at += ask[i].stride;
    }
}

/* Few rows of sums by b as it lies: columns line .. line + columns - 1 of it, a multiple of
 * MATMUL_MAX_COLUMNS, over a whole depth. A row is ((0 + slice_0) + slice_1 ...). */
typedef struct {
    int64_t rows; /* one of matmul_stream_width */
    int64_t columns, depth, line;
    bool sequential;         /* b is a range of memory that is read from end to end */
    bool begun, unfinished;  /* of a part of a slice: `work` has the sums so far; they are to stay there */
    const void *a;           /* as pack_few has it: [depth][rows], or [pair][rows] of words */
    const matmul_operand *b; /* not gathered; `data` is where the matrix begins */
    const void *after;       /* of b, and likely to be read next; NULL: nothing */
    float *sum, *work;       /* (rows, columns), aligned to 64; work: of the kernel's own */
} matmul_strip;

typedef struct {
    const char *name;
    dtype type;              /* of the numbers in panels: f32, or bf16 in pairs */
    int64_t fill;            /* depths in panels are a multiple of so many */
    int64_t rows, columns;   /* of its block; panels of a are so many rows wide, those of b columns */
    bool (*available)(void); /* on this processor */

    /* sum[i][j] = sum over the depth of a[p][i] * b[p][j], for 0 <= i < `rows`, which is at most the block's;
     * sum has rows of `columns` floats and begins, as b does, at an address aligned to 64. `ask` is used up.
     */
    void (*block)(int64_t depth, int64_t rows, const void *a, const void *b, float *sum,
                  matmul_prefetch ask[MATMUL_ASKS]);

    /* The same for few rows with b as it lies: each element comes from memory once, and is widened in
     * registers. streams: of b's types those for which there is such a way; NULL: none. */
    bool (*streams)(dtype b);
    void (*stream)(const matmul_strip *s);
    matmul_pack *pack_few; /* of a, width being the strip's rows */

    matmul_pack *pack_a, *pack_b;
    matmul_pack_apart *pack_apart; /* NULL: there is no such way */
    void (*begin)(void),
        (*end)(void); /* around the blocks that a thread makes in a row; NULL: nothing to do */
} matmul_kernel;

/* Those of this architecture and the portable one; best first, ends with NULL. */
extern const matmul_kernel *const matmul_kernels[];
extern const matmul_kernel matmul_kernel_avx512, matmul_kernel_avx2, matmul_kernel_portable;

/* Of bf16 by bf16, multiplied as it is, in the order of an instruction that adds products in pairs
 * (ops/native.h): the bits are those of the instruction. Best first, ends with NULL; there may be none. */
extern const matmul_kernel *const matmul_kernels_pairs[];
extern const matmul_kernel matmul_kernel_amx, matmul_kernel_avx512_bf16;
/* In plain C with the same bits, for tests. */
extern const matmul_kernel matmul_kernel_amx_twin, matmul_kernel_avx512_bf16_twin;

static inline bool matmul_in_pairs(dtype a, dtype b) { return a == DTYPE_BF16 && b == DTYPE_BF16; }

/* The best one on f32 that this processor has and may use; on pairs: NULL where there is none. */
const matmul_kernel *matmul_kernel_chosen(void);
const matmul_kernel *matmul_kernel_chosen_pairs(void);
/* For tests: use this one from now on for the numbers that it is for; NULL: the best ones again. */
void matmul_kernel_choose(const matmul_kernel *kernel);

/* ---- the product ---- */

typedef enum { MATMUL_NO_GELU, MATMUL_GELU_TANH, MATMUL_GELU_ERF } matmul_gelu_form;

/* A product whose rows of y don't lie one after the other, and whose depth is a part of a longer one: what is
 * missing of it is 0. It has neither residual nor accumulator. */
typedef struct {
    const void *of;
    /* The place in y of a row, and how many rows (this one too) lie `stride` apart from there. */
    int64_t (*place)(const void *of, int64_t row, int64_t *rows);
    /* How many depths from this one on belong to its slice of the longer depth. */
    int64_t (*depths)(const void *of, int64_t depth);
} matmul_apart;

typedef struct {
    int64_t rows, columns, depth;
    matmul_operand a, b;       /* lines: rows of y, columns of y */
    const void *bias;          /* (columns), or NULL */
    const void *residual;      /* as y, may be y, or NULL */
    const void *accumulator;   /* as y, may be y, or NULL */
    matmul_gelu_form gelu;     /* of every element at last: y = gelu(y) or, with x, y *= gelu'(x) */
    const void *x;             /* as y, apart from it, or NULL */
    void *y;                   /* (rows, columns) */
    int64_t stride;            /* between rows of y and what is as y; 0: columns */
    const matmul_apart *apart; /* or NULL */
    dtype type, bias_type;     /* f32, f16 or bf16; type: of y, residual, accumulator and x */
} matmul_problem;

/* Of a call whose first two inputs are a and b, and whose first output is y; the rest is absent. */
matmul_problem matmul_problem_of(const op_call *c, const matmul_attributes *t);

/* Bytes of scratch for at most so many threads, by the shape (data pointers are not looked at): at most 2 MiB
 * for each. The tiling depends on the number of threads, and the bits of the result do not. */
uint64_t matmul_packed_scratch(const matmul_problem *p, bool residual, int threads);

/* The same, for any problem with no more rows and depth. */
uint64_t matmul_packed_scratch_most(const matmul_problem *p, int threads);

/* Bytes that are copied into panels and added up between slices: all of b for each tile of rows, all of a for
 * each tile of columns, y at every slice of the depth. As two threads cut it. */
double matmul_packed_moved(const matmul_problem *p);

/* `scratch` is aligned to 64 and has that many bytes for at least threads_count() threads. */
void matmul_packed_run(const matmul_problem *p, void *scratch);
