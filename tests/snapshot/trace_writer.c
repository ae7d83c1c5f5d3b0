#define _GNU_SOURCE
#include "snapshot/trace_writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/scratch.h"

enum { ADDRESSES = 1 << 12 };

typedef struct {
    uint64_t bytes[ADDRESSES]; /* by place; 0: free */
    uint32_t count;
    uint64_t level;
} heap;

typedef struct {
    const trace_options *o;
    FILE *file;
    uint64_t seed, time; /* nanoseconds */
    heap heaps[16];
    const char *gap;
    bool any;
} writing;

static uint64_t below(writing *w, uint64_t end) { return scratch_random(&w->seed) % end; }

static void begin_event(writing *w) {
    fprintf(w->file, "%s%s%s{%s", w->any ? "," : "", w->gap, *w->gap ? "  " : "", w->gap);
    w->any = true;
}

static void put_time(writing *w, const char *key, uint64_t time) {
    if (w->o->whole)
        fprintf(w->file, "\"%s\": %llu", key, (unsigned long long)(time / 1000));
    else
        fprintf(w->file, "\"%s\": %llu.%03llu", key, (unsigned long long)(time / 1000),
                (unsigned long long)(time % 1000));
}

/* Calls around the moment, the outermost first. */
static void put_calls(writing *w, uint64_t time, uint32_t which) {
    for (uint32_t i = 0; i < w->o->calls; i++) {
        uint64_t around = 1000 * (w->o->calls - i);
        begin_event(w);
        if (i % 2)
            fprintf(w->file,
                    "    \"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"aten::op_%u\", \"pid\": 7, \"tid\": "
                    "7,%s",
                    (which + i) % 97, w->gap);
        else
            fprintf(
                w->file,
                "    \"ph\": \"X\", \"cat\": \"python_function\", \"name\": \"model_%u.py(%u): call_%u\", "
                "\"pid\": 7, \"tid\": 7,%s",
                i, 10 + (which + i) % 89, (which + i) % 89, w->gap);
        put_time(w, "ts", time - around);
        fprintf(w->file, ", ");
        put_time(w, "dur", 2 * around);
        fprintf(
            w->file,
            ",%s    \"args\": {%s      \"External id\": %u, \"Record function id\": 0, \"Concrete Inputs\": "
            "[\"\", \"[%u, 64]\"], "
            "\"Input Dims\": [[%u, 64], []], \"CallFrom\": \"model_%u.py:%u\", \"Ev Idx\": %u%s    }%s  }",
            w->gap, w->gap, which, which % 50, which % 50, i, 100 + which % 7, which, w->gap, w->gap);
    }
}

static void put_memory(writing *w, int device, uint64_t time, uint64_t address, int64_t bytes,
                       uint64_t total) {
    begin_event(w);
    fprintf(w->file,
            "    \"ph\": \"i\", \"cat\": \"cpu_instant_event\", \"s\": \"t\", \"name\": \"[memory]\",%s",
            w->gap);
    fprintf(w->file, "    \"pid\": 7, \"tid\": 7,%s    ", w->gap);
    put_time(w, "ts", time);
    fprintf(w->file,
            ",%s    \"args\": {%s      \"Total Reserved\": %llu, \"Total Allocated\": %llu, \"Bytes\": %lld, "
            "\"Device Id\": %d, "
            "\"Device Type\": %d, \"Addr\": %llu, \"Ev Idx\": 3%s    }%s  }",
            w->gap, w->gap, device ? (unsigned long long)((total + (2 << 20) - 1) >> 21 << 21) : 0ull,
            (unsigned long long)total, (long long)bytes, device ? device - 1 : -1, device ? 1 : 0,
            (unsigned long long)address, w->gap, w->gap);
}

typedef struct {
    int device;
    uint64_t time, address, total;
    int64_t bytes;
} row;

static void advance(writing *w, row *r, uint32_t i, writer_truth *truth) {
    int device = (int)below(w, (uint64_t)w->o->devices);
    heap *h = &w->heaps[device];
    uint32_t most = w->o->most < ADDRESSES / 2 ? w->o->most : ADDRESSES / 2,
             at = (uint32_t)below(w, ADDRESSES);
    bool frees = h->count >= most || (h->count && below(w, 9) < 4);
    while ((h->bytes[at] != 0) != frees) at = (at + 1) % ADDRESSES;
    int64_t bytes = frees ? -(int64_t)h->bytes[at] : (int64_t)(1 + below(w, 1 << 16));
    h->bytes[at] = frees ? 0 : (uint64_t)bytes;
    h->count = h->count + 1 - 2 * frees;
    h->level += (uint64_t)bytes;
    w->time += 1000 * (1 + below(w, 40)) + (w->o->whole ? 0 : below(w, 1000));
    if (w->o->calls) w->time += 2000 * w->o->calls; /* those of the last one have ended */
    *r = (row){ device, w->time, 0x7f0000000000 + 512 * (uint64_t)at, h->level, bytes };
    writer_truth *t = &truth[device];
    t->events++;
    t->end = h->level;
    if (h->level > t->peak) t->peak = h->level, t->peak_at = t->events, t->peak_time = w->time / 1000;
    (void)i;
}

/* Of a GPU some is there before, of which the file frees a part. */
static void fill_before(writing *w, writer_truth *truth) {
    for (int d = 0; d < w->o->devices; d++) {
        truth[d] = (writer_truth){ 0 };
        for (uint32_t i = 0; d > 0 && i < 8; i++) {
            heap *h = &w->heaps[d];
            h->bytes[i] = 512 * (1 + below(w, 100));
            h->level += h->bytes[i], h->count++;
        }
        truth[d].before = truth[d].peak = truth[d].end = w->heaps[d].level;
    }
}

void trace_write(const char *path, const trace_options *o, writer_truth *truth) {
    writing *w = calloc(1, sizeof *w);
    row *rows = calloc(o->events + 1, sizeof *rows);
    *w = (writing){ .o = o,
                    .file = fopen(path, "w"),
                    .seed = o->seed,
                    .time = 1800000000000000,
                    .gap = o->narrow ? "" : "\n" };
    fill_before(w, truth);
    if (!o->list) fprintf(w->file, "{\"schemaVersion\": 1, \"deviceProperties\": [], \"traceEvents\": ");
    fprintf(w->file, "[");
    for (uint32_t i = 0; i < o->events; i++) advance(w, &rows[i], i, truth);
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < o->events; i++) {
            if (pass == o->behind)
                put_calls(w, rows[i].time, i);
            else
                put_memory(w, rows[i].device, rows[i].time, rows[i].address, rows[i].bytes, rows[i].total);
        }
    fprintf(w->file, o->list ? "]\n" : "], \"traceName\": \"a \\\"name\\\"\"}\n");
    fclose(w->file);
    free(rows);
    free(w);
}

/* ---- timelines ---- */

static void add_row(FILE *file, const char *before, const uint64_t *values, int count, bool negative) {
    fprintf(file, "%s[", before);
    for (int i = 0; i < count; i++)
        fprintf(file, "%s%s%llu", i ? ", " : "", negative && i == 2 ? "-" : "",
                (unsigned long long)values[i]);
    fprintf(file, "]");
}

static void tell(timeline_truth *t, const uint64_t sizes[8], uint64_t time) {
    uint64_t sum = 0;
    for (int i = 0; i < 8; i++) sum += sizes[i];
    t->end = sum;
    if (sum <= t->peak) return;
    t->peak = sum, t->peak_time = time;
    memcpy(t->by_category, sizes, sizeof t->by_category);
}

/* Sizes are of one row, so that what is freed is among what is there. */
static void write_raw(FILE *file, const timeline_options *o, timeline_truth *truth) {
    uint64_t seed = o->seed, counts[8][16] = { { 0 } }, sizes[8] = { 0 }, time = 1800000000000000000;
    fprintf(file, "[");
    for (uint32_t i = 0; i < o->rows; i++) {
        uint64_t category = scratch_random(&seed) % 8, size = scratch_random(&seed) % 16,
                 bytes = 100 * (size + 1);
        bool frees = counts[category][size] && scratch_random(&seed) % 9 < 4;
        counts[category][size] = counts[category][size] + 1 - 2 * frees;
        sizes[category] += frees ? -bytes : bytes;
        time += scratch_random(&seed) % 90000;
        add_row(file, i ? ", " : "", (uint64_t[]){ time, frees ? 4 : 2, bytes, category }, 4, frees);
        tell(truth, sizes, time / 1000);
    }
    fprintf(file, "]\n");
}

static void write_sizes(FILE *file, const timeline_options *o, timeline_truth *truth) {
    uint64_t seed = o->seed, values[9] = { 0 }, time = 1800000000000000;
    fprintf(file, "[[");
    for (uint32_t i = 0; i < o->rows; i++)
        fprintf(file, "%s%llu", i ? ", " : "", (unsigned long long)(time + 70 * i));
    fprintf(file, "], [");
    for (uint32_t i = 0; i < o->rows; i++) {
        uint64_t *size = &values[1 + scratch_random(&seed) % 8], by = scratch_random(&seed) % 5000;
        *size = *size && scratch_random(&seed) % 9 < 4 ? *size - by % (*size + 1) : *size + by;
        add_row(file, i ? ", " : "", values, 9, false);
        tell(truth, values + 1, time + 70 * i);
    }
    fprintf(file, "]]\n");
}

void timeline_write(const char *path, const timeline_options *o, timeline_truth *truth) {
    FILE *file = fopen(path, "w");
    *truth = (timeline_truth){ 0 };
    (o->raw ? write_raw : write_sizes)(file, o, truth);
    fclose(file);
}
