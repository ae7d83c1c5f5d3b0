/* How full samples are whose documents stay whole, for lengths of several kinds, contexts and blocks; what it
 * takes to open them and to read them in random order; and whether windows of many documents stand early in
 * their block. Prints the tables of bench/results/fill.md.
 *
 *   bench-fill FOLDER     the file of tokens is made there, and removed */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/philox.h"
#include "data/fill.h"
#include "data/order.h"
#include "data/windows.h"
#include "io/safetensors.h"

enum { DOCUMENTS = 60000, SAMPLES = 2000, KINDS = 6, SEED = 11 };

static uint64_t ends[DOCUMENTS], longest, median;

static void require(status result) {
    if (result == STATUS_OK) return;
    fprintf(stderr, "%s\n", status_message());
    exit(1);
}

/* Of this process: other programs don't count. */
static double processor_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double uniform(uint32_t i, uint32_t which) {
    return (philox_draw(SEED, (philox_block){ { i, which, 0, 0 } }).word[0] + 0.5) / 4294967296.0;
}

static double normal(uint32_t i) {
    return sqrt(-2 * log(uniform(i, 0))) * cos(2 * 3.14159265358979 * uniform(i, 1));
}

static double length_of(int kind, uint32_t i) {
    switch (kind) {
    case 0: return exp(5.3 + 0.8 * normal(i)); /* of median 200 */
    case 1: return uniform(i, 2) < 0.5 ? 100 + 20 * normal(i) : 900 + 100 * normal(i);
    case 2: return 300;
    case 3: return 1 + floor(1000 * uniform(i, 0));
    case 4: return 1 + floor(20 * uniform(i, 0));
    default: return exp(4.5 + 1.6 * normal(i)); /* of median 90, with a long tail */
    }
}

static const char *const names[KINDS] = { "log-normal, σ 0.8", "two humps",       "all equal",
                                          "uniform 1 to 1000", "uniform 1 to 20", "log-normal, σ 1.6" };

static int by_size(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void make(int kind, const char *path) {
    static uint64_t lengths[DOCUMENTS];
    uint64_t at = 0;
    for (uint32_t i = 0; i < DOCUMENTS; i++) {
        double length = length_of(kind, i);
        lengths[i] = length < 1 ? 1 : length > 16384 ? 16384 : (uint64_t)length;
        ends[i] = at += lengths[i];
    }
    qsort(lengths, DOCUMENTS, sizeof *lengths, by_size);
    median = lengths[DOCUMENTS / 2], longest = lengths[DOCUMENTS - 1];
    uint16_t *tokens = memory_new(at, sizeof *tokens);
    if (!tokens) exit(1);
    safetensors_item items[] = {
        { .name = "ends", .dtype = "U64", .shape = SHAPE(DOCUMENTS), .data = ends, .bytes = sizeof ends },
        { .name = "tokens", .dtype = "U16", .shape = SHAPE((int64_t)at), .data = tokens, .bytes = at * 2 },
    };
    require(safetensors_write(path, items, 2));
    memory_free(tokens);
}

static double next_fit_padding(uint32_t context) {
    uint64_t room = 0, count = 0;
    for (uint32_t i = 0; i < DOCUMENTS; i++) {
        uint64_t length = ends[i] - (i ? ends[i - 1] : 0), fresh = (length + context - 1) / context;
        if (length > room) count += fresh, room = fresh * context;
        room -= length;
    }
    return 1 - (double)ends[DOCUMENTS - 1] / ((double)count * context);
}

/* Microseconds of the processor for a sample of a random order. */
static double read_some(const windows *w, const corpus *c, void *scratch) {
    uint32_t context = w->options.context;
    int32_t *to = memory_new(3 * (size_t)context, sizeof *to);
    void *pieces = memory_new(1, c->format->scratch_bytes);
    double begun = processor_seconds();
    for (uint64_t i = 0; i < SAMPLES; i++) {
        data_window at = { .tokens = to,
                           .labels = to + context,
                           .segments = to + 2 * (size_t)context,
                           .context = context,
                           .vocabulary = 65536,
                           .scratch = pieces,
                           .scratch_bytes = c->format->scratch_bytes };
        require(windows_read(w, c, data_order_sample(SEED, w->windows, i), scratch, &at));
    }
    double took = processor_seconds() - begun;
    memory_free(to), memory_free(pieces);
    return 1e6 * took / SAMPLES;
}

static void measure_one(const corpus *c, uint32_t context, uint32_t block) {
    windows w;
    windows_options o = { .context = context, .block = block, .end = DOCUMENTS };
    double begun = processor_seconds();
    require(windows_open(c, &o, &w));
    double opened = processor_seconds() - begun;
    void *scratch = memory_new(1, windows_scratch_bytes(block));
    double each = read_some(&w, c, scratch);
    printf(" %.1f %% (%.0f ms, %.0f µs) |", 100 * (1 - (double)w.tokens / ((double)w.windows * context)),
           1e3 * opened, each);
    memory_free(scratch);
    windows_close(&w);
}

static void measure(int kind, const char *path) {
    static const uint32_t blocks[] = { 256, 1024, 4096 };
    corpus *c;
    make(kind, path);
    require(corpus_open(path, DATA_KIND_TOKENS, &c));
    uint64_t contexts[] = { longest, 2 * median, longest / 2 };
    static const char *const said[] = { "longest", "2 × median", "half of the longest" };
    for (int k = 0; k < 3; k++) {
        uint32_t context = (uint32_t)contexts[k];
        printf("| %s | %s: %u | %.1f %% |", names[kind], said[k], context, 100 * next_fit_padding(context));
        for (int b = 0; b < 3; b++) measure_one(c, context, blocks[b]);
        printf("\n");
    }
    corpus_close(c);
}

/* How much the number of documents in a window has to do with its place in its block, where windows are
 * ordered by a piece of each. */
typedef struct {
    double n, x, y, xx, yy, xy;
} correlation;

static void add(correlation *r, double x, double y) {
    r->n++, r->x += x, r->y += y, r->xx += x * x, r->yy += y * y, r->xy += x * y;
}

static double value(const correlation *r) {
    double spread = (r->n * r->xx - r->x * r->x) * (r->n * r->yy - r->y * r->y);
    return spread > 0 ? (r->n * r->xy - r->x * r->y) / sqrt(spread) : 0;
}

static void show_waves(int kind) {
    enum { BLOCK = 1024, ROUNDS = 50 };
    static uint32_t lengths[BLOCK], memory[BLOCK * 4];
    fill f = fill_lists(memory, BLOCK);
    correlation by_longest = { 0 }, by_first = { 0 };
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint32_t most = 1;
        for (uint32_t i = 0; i < BLOCK; i++) {
            double length = length_of(kind, round * BLOCK + i);
            lengths[i] = length < 1 ? 1 : (uint32_t)length;
            if (lengths[i] > most) most = lengths[i];
        }
        fill_windows(&f, lengths, BLOCK, most);
        for (uint32_t i = 0; i < BLOCK; i++) {
            uint32_t pieces = 0;
            for (uint32_t p = f.opens[i]; p != FILL_NONE; p = f.next[p]) pieces++;
            if (pieces) add(&by_longest, i, pieces), add(&by_first, f.opens[i], pieces);
        }
    }
    printf("| %s | %.3f | %.3f |\n", names[kind], value(&by_first), value(&by_longest));
}

int main(int count, char **words) {
    char path[4096];
    if (count != 2) return fprintf(stderr, "bench-fill FOLDER\n"), 2;
    snprintf(path, sizeof path, "%s/bench-fill.safetensors", words[1]);
    printf("| lengths | context | next fit | blocks of 256 | 1,024 | 4,096 |\n|---|---|---|---|---|---|\n");
    for (int kind = 0; kind < KINDS; kind++) measure(kind, path);
    unlink(path);
    printf("\n| lengths | by the first document | by the longest |\n|---|---|---|\n");
    for (int kind = 0; kind < KINDS; kind++) show_waves(kind);
    return 0;
}
