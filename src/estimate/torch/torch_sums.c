#include "estimate/torch/torch_sums.h"

#include "base/least.h"

static int64_t power_below(int64_t n) {
    int64_t p = 1;
    while (p * 2 <= n) p *= 2;
    return p;
}

/* How a block lies on the matrix. */
typedef struct {
    int64_t vector;        /* columns that a thread adds up side by side */
    int64_t width, height; /* threads along the columns, and along the rows */
} block;

static block block_of(int64_t rows, int64_t columns) {
    enum { VECTOR = 4, THREADS = 512, WARP = 32 };
    int64_t vector = VECTOR;
    while (columns % vector) vector /= 2;
    int64_t most_threads = THREADS / vector, wide = least(power_below(columns / vector), most_threads),
            high = least(power_below(rows), most_threads), width = least(wide, WARP),
            height = least(high, most_threads / width);
    return (block){ vector, least(wide, most_threads / height), height };
}

uint64_t torch_sum_buffer(const torch_settings *s, int64_t rows, int64_t columns) {
    enum { LEAST_EACH = 16, MOST_EACH = 256, NUMBER = 4 }; /* rows for a thread; bytes of a part */
    if (!s->cuda || rows < 1 || columns < 1) return 0;
    block b = block_of(rows, columns);
    bool shared = rows >= least(b.height * LEAST_EACH, MOST_EACH); /* the threads of a block share a column */
    if (!shared) return 0;
    int64_t blocks = divide_up(columns / b.vector, b.width), each = divide_up(rows, b.height),
            running = s->multiprocessors * (s->threads / (b.width * b.height)); /* blocks at once */
    if (each < MOST_EACH || blocks > running) return 0;
    int64_t parts =
        most(least(divide_up(running, blocks), divide_up(each, LEAST_EACH)), divide_up(each, MOST_EACH));
    return parts < 2 ? 0 : (uint64_t)(NUMBER * columns * parts * b.width * b.vector);
}
