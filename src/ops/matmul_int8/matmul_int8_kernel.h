/* The inside of the product on codes: operands become panels of codes, a micro-kernel of the processor's
 * makes blocks of 32-bit sums of them, and these become floats.
 *
 * A panel holds the codes of some neighbouring lines as words: four codes that follow each other along the
 * sum, [four][line], the form in which processors multiply bytes. They multiply unsigned by signed ones, so
 * a's codes are stored with 128 added; what that adds to a sum is 128 times the sum of b's codes, and sums
 * begin at minus that. Both are exact, and 32-bit sums that wrap around on their way end up right: so all
 * micro-kernels give the same bits. Lines and codes that fill up a panel are 0, what comes of them is thrown
 * away or adds nothing.
 *
 * A fixed number of rows (of a, or of the batch that is summed over) is in panels at a time: a wave. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/threads.h"
#include "ops/matmul_int8/matmul_int8_math.h"

enum {
    MATMUL_INT8_ROWS = 14,    /* lines of a panel of a, */
    MATMUL_INT8_COLUMNS = 32, /* and of b: 28 of 32 vector registers hold a block's sums */
    MATMUL_INT8_FOUR = 4,
    MATMUL_INT8_FILL = 16, /* fours of a panel are filled up to a multiple of so many at most */
    MATMUL_INT8_BLOCK_ROWS = 2 * MATMUL_INT8_ROWS, /* no micro-kernel has larger blocks */
    MATMUL_INT8_TILE_ROWS = 504, /* of y, which the panel of b at hand goes through: whole panels of a */
    MATMUL_INT8_WAVE_TILES = 4,
    MATMUL_INT8_WAVE = 2 * MATMUL_INT8_TILE_ROWS,
};

/* ---- operands ---- */

/* A matrix as lines along a sum. */
typedef struct {
    const void *data;
    int64_t stride;            /* between lines, or between depths if `across` */
    bool across;               /* neighbouring lines are neighbours in memory, else neighbouring depths */
    dtype type;                /* i8, f32, f16, bf16 */
    const float *scales;       /* of i8, one a line; NULL: 1 */
    const float *fixed;        /* of floats, one for all lines; NULL: each has its own */
    const float *fold;         /* of floats, not across: by depth, what they are multiplied by; NULL: 1 */
    const half_random *random; /* across: codes are rounded stochastically; NULL: to the nearest */
    int64_t first;             /* with random: the number of depth 0, */
    int64_t sample_rows;       /* and depths of a sample */
} matmul_int8_operand;

static inline float matmul_int8_scale(const matmul_int8_operand *o, int32_t largest) {
    return matmul_int8_scale_of(o->fixed, largest);
}

typedef struct {
    int64_t width, fours; /* lines of a panel; fours of its depth */
    uint32_t flip;        /* what codes are xored with: 0x80808080 adds 128 to four codes */
    uint32_t *words;      /* [panel][four][width] */
    bool arranged;        /* lines come as tiles want them: [16 fours][line][four], flip is 0 */
    float *scales;        /* by line, or NULL */
    int32_t *starts;      /* by line: -128 * the sum of the codes; or NULL */
} matmul_int8_panels;

/* Codes of floats that run along their lines: lines first .. first + lines - 1, at most a panel, become panel
 * 0 of `to`. `room`: matmul_int8_room(width, depth) bytes. */
void matmul_int8_code_lines(const matmul_int8_operand *o, int64_t first, int64_t lines, int64_t depth,
                            const matmul_int8_panels *to, void *room);
uint64_t matmul_int8_room(int64_t width, int64_t depth);

/* Of floats that lie across: lines first .. first + lines - 1, at most CODES_DRAWN, at depths from .. from +
 * depth - 1 become these lines of `to`, whose line 0 is the operand's; what fills up their panel is zeroed.
 */
typedef struct {
    int64_t first, lines, from, depth;
} matmul_int8_block;
void matmul_int8_code_across(const matmul_int8_operand *o, const matmul_int8_block *at,
                             const matmul_int8_panels *to);

/* Stored codes of lines first .. first + lines - 1, at most a panel, become panel 0. */
void matmul_int8_copy_codes(const matmul_int8_operand *o, int64_t first, int64_t lines, int64_t depth,
                            const matmul_int8_panels *to);

/* ---- micro-kernels ---- */

enum { MATMUL_INT8_STREAM_ROWS = 32 }; /* up to so many, stored codes are read where they lie */

/* Few rows by stored codes as they lie. a: [row][stride_a], up to a multiple of 64 filled with zeros; sum:
 * (rows, columns), aligned to 64. But for the portable way columns are a multiple of 64. */
typedef struct {
    int64_t rows, columns, depth;
    const int8_t *b; /* where the first column begins */
    int64_t stride;  /* of b, as it lies */
    bool across;
    int64_t ahead, ahead_lines; /* what is asked for lies so many depths, or lines, further on */
    const int8_t *a;
    int64_t stride_a;
    const int32_t *sums_of_a; /* of its codes, by row */
    int32_t *sum;
} matmul_int8_strip;
void matmul_int8_stream_amx(const matmul_int8_strip *s);
void matmul_int8_stream_vnni(const matmul_int8_strip *s);
void matmul_int8_stream_avx_vnni(const matmul_int8_strip *s);
void matmul_int8_stream_avx2(const matmul_int8_strip *s);
void matmul_int8_stream_portable(const matmul_int8_strip *s);

typedef struct {
    const char *name;
    bool (*available)(void); /* on this processor */

    /* sum[i][j] = start[j] + sum over the fours of a[i] * b[j], for i < rows, as far as `panels` panels of a
     * go, one behind the other; all begin at addresses aligned to 64 but a, which is aligned to 8. */
    void (*block)(int64_t fours, int64_t rows, const uint32_t *a, const uint32_t *b, const int32_t *start,
                  int32_t *sum);

    void (*stream)(const matmul_int8_strip *s);

    int64_t panels; /* of a in a block: 1 or 2 */
    int64_t fill;   /* fours of a panel are a multiple of so many; what is added there is 0 in b */
    void (*arrange)(int64_t fours, uint32_t *b); /* a panel of b that is made, for `block`, where it does not
                                                  * come `arranged`; NULL: stays as it is */
    void (*begin)(void),
        (*end)(void); /* around the blocks that a thread makes in a row; NULL: nothing to do */
} matmul_int8_kernel;

/* Those of this architecture and the portable one; best first, ends with NULL. */
extern const matmul_int8_kernel *const matmul_int8_kernels[];
extern const matmul_int8_kernel matmul_int8_kernel_amx, matmul_int8_kernel_amx_twin; /* the twin: for tests */
extern const matmul_int8_kernel matmul_int8_kernel_vnni, matmul_int8_kernel_avx_vnni, matmul_int8_kernel_avx2,
    matmul_int8_kernel_portable;

/* The best one that this processor has. */
const matmul_int8_kernel *matmul_int8_kernel_chosen(void);
/* For tests: use this one from now on; NULL: the best again. */
void matmul_int8_kernel_choose(const matmul_int8_kernel *kernel);

/* ---- the product ---- */

typedef struct {
    int64_t rows, columns, depth,
        tile; /* tile: depths that have scales of their own; depth: all share them */
    matmul_int8_operand a, b;
    const void *bias, *residual, *accumulator; /* or NULL */
    void *y;
    dtype type, bias_type; /* type: of y, residual and accumulator */
} matmul_int8_problem;

/* The same of at most MATMUL_INT8_STREAM_ROWS rows with stored codes that have scales. */
uint64_t matmul_int8_stream_scratch(const matmul_int8_problem *p, int threads);
void matmul_int8_stream_run(const matmul_int8_problem *p, void *scratch);

/* By the shape and the types; data pointers are not looked at. */
uint64_t matmul_int8_packed_scratch(const matmul_int8_problem *p, int threads);
void matmul_int8_packed_run(const matmul_int8_problem *p, void *scratch);
