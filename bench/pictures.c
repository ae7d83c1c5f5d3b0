/* How many pictures the loader makes of files and of Parquet: batches of 32, drawn as in training, no model.
 *
 *     bench-pictures DATA SIDE WORKERS PICTURES
 *
 * Each line is answered with the seconds of as many pictures as said, more than that by at most a batch, and
 * those of the processors. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/units.h"
#include "bench.h"
#include "data/images/pictures.h"
#include "data/loader.h"

enum { BATCH = 32 };

static loader *reading;
static uint64_t wanted;

static void must(status result) {
    if (result == STATUS_OK) return;
    fprintf(stderr, "%s\n", status_message());
    exit(1);
}

static double processor_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void answer(const char *line) {
    double began = bench_seconds(), used = processor_seconds();
    uint64_t made = 0;
    (void)line;
    while (made < wanted) {
        loader_batch batch;
        must(loader_next(reading, &batch));
        made += batch.samples;
        loader_done(reading);
    }
    double part = (double)wanted / (double)made;
    printf("%.6f %.6f\n", (bench_seconds() - began) * part, (processor_seconds() - used) * part);
}

int main(int argc, char **argv) {
    if (argc != 5) return 2;
    label_names names = { 0 };
    uint32_t side = (uint32_t)atoi(argv[2]);
    uint64_t bytes;
    pictures *p;
    data_source s;
    must(pictures_names(argv[1], "label", UINT64_MAX, &names));
    must(pictures_open(&(picture_options){ .path = argv[1],
                                           .image = "image",
                                           .label = "label",
                                           .prepare = prepare_defaults(side, side, 3),
                                           .names = &names,
                                           .most = UINT64_MAX },
                       &p));
    pictures_source(p, PICTURES_DRAWN, &s);
    loader_options o = { .source = &s, .batch = BATCH, .depth = 2, .workers = (uint32_t)atoi(argv[3]) };
    wanted = (uint64_t)atoll(argv[4]);
    must(loader_bytes(&o, &bytes));
    void *memory = bench_memory(units_align(bytes, LOADER_ALIGNMENT));
    must(loader_open(&o, memory, &reading));
    char ready[64];
    snprintf(ready, sizeof ready, "%llu %llu", (unsigned long long)pictures_held(p),
             (unsigned long long)s.scratch_bytes);
    bench_serve(answer, ready);
    loader_close(reading);
    pictures_close(p);
    label_names_close(&names);
    return 0;
}
