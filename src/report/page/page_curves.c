#include "report/page/page_curves.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "io/checkpoint_folder.h"
#include "io/json.h"

enum { BLOCK_BYTES = 8192, STRETCHES = 1000 };

typedef enum { LOSS, VALIDATION, NORM, RATE, SCALE, SECONDS, MEMORY, CURVES } curve_name;
static const char *const keys[CURVES] = { "loss",       "eval_loss", "grad_norm",   "lr",
                                          "loss_scale", "seconds",   "memory_bytes" };

/* The lowest and the highest value of each stretch, in the order of their steps. */
typedef struct {
    double *x, *y;
    uint32_t count;
    int64_t stretch; /* that the last ones are of */
    bool pair;       /* there are two of it */
} curve;

typedef struct {
    curve curves[CURVES];
    uint32_t room;
    uint64_t lines;
    int64_t steps; /* in a stretch */
    double planned;
} history;

/* ---- reading ---- */

/* Hands each line to `take`. One that is longer than a block is none of ours. */
static status each_line(const char *path, history *h,
                        void (*take)(history *h, const char *line, size_t length)) {
    char block[BLOCK_BYTES];
    int file;
    uint64_t bytes;
    TRY(io_open(path, &file, &bytes));
    status result = STATUS_OK;
    for (uint64_t at = 0; at < bytes && result == STATUS_OK;) {
        uint64_t n = bytes - at < sizeof block ? bytes - at : sizeof block, used = 0;
        if ((result = io_read_at(file, path, at, block, n)) != STATUS_OK) break;
        for (const char *end; (end = memchr(block + used, '\n', (size_t)(n - used)));) {
            take(h, block + used, (size_t)(end - block) - (size_t)used);
            used = (uint64_t)(end - block) + 1;
        }
        at += used ? used : n;
    }
    close(file);
    return result;
}

static void count_line(history *h, const char *line, size_t length) {
    (void)line, (void)length;
    h->lines++;
}

static void put_pair(curve *c, double x, double y) {
    c->x[c->count] = x;
    c->y[c->count++] = y;
}

static void add_value(history *h, curve *c, int64_t step, double y) {
    int64_t stretch = step / h->steps;
    if (!isfinite(y) || c->count + 2 > h->room) return;
    if (!c->count || stretch != c->stretch) {
        put_pair(c, (double)step, y);
        c->stretch = stretch, c->pair = false;
        return;
    }
    double *last = &c->y[c->count - 1];
    if (!c->pair) {
        put_pair(c, (double)step, y);
        c->pair = true;
        return;
    }
    /* Of three the one in the middle goes. */
    double a = last[-1], b = last[0], low = fmin(a, b), high = fmax(a, b);
    if (y >= low && y <= high) return;
    bool drops_first = y > high ? a == low ? false : true : a == high ? false : true;
    if (drops_first) c->y[c->count - 2] = b, c->x[c->count - 2] = c->x[c->count - 1];
    c->y[c->count - 1] = y, c->x[c->count - 1] = (double)step;
}

static void take_line(history *h, const char *line, size_t length) {
    json_document d;
    int64_t step = 0;
    if (json_parse("metrics.jsonl", line, length, &d) != STATUS_OK) return;
    if (json_as_object(d.root) == STATUS_OK) {
        status got = json_optional_integer(d.root, "step", 1, INT64_MAX / 2, &step);
        for (int k = 0; got == STATUS_OK && step && k < CURVES; k++) {
            double y = NAN;
            if (json_optional_number(d.root, keys[k], -1e300, 1e300, &y) == STATUS_OK)
                add_value(h, &h->curves[k], step, y);
        }
        /* A damaged one leaves the curve without its limit. */
        STATUS_IGNORED(json_optional_number(d.root, "planned_bytes", 0, 1e300, &h->planned));
    }
    json_close(&d);
}

static void close_history(history *h) {
    for (int k = 0; k < CURVES; k++) {
        memory_free(h->curves[k].x);
        memory_free(h->curves[k].y);
    }
}

static status read_history(history *h, const char *path) {
    TRY(each_line(path, h, count_line));
    h->steps = (int64_t)(h->lines / STRETCHES) + 1;
    h->room = (uint32_t)(2 * (h->lines / (uint64_t)h->steps + 3));
    for (int k = 0; k < CURVES; k++) {
        h->curves[k].x = memory_new(h->room, sizeof(double));
        h->curves[k].y = memory_new(h->room, sizeof(double));
        if (!h->curves[k].x || !h->curves[k].y) return status_set(STATUS_FAILED, "no memory for the page");
    }
    return each_line(path, h, take_line);
}

/* ---- drawing ---- */

static page_line line_of(const history *h, curve_name k, const char *name) {
    return (page_line){ name, h->curves[k].x, h->curves[k].y, h->curves[k].count };
}

static void put_one(page *p, const history *h, curve_name k, const char *name, page_unit unit) {
    page_line line = line_of(h, k, name);
    bool limited = k == MEMORY && h->planned > 0;
    char limit[2 * PAGE_VALUE_BYTES], few[PAGE_VALUE_BYTES];
    if (!line.count) return;
    snprintf(limit, sizeof limit, "planned %s", page_value(PAGE_BYTES, h->planned, few));
    page_put_lines(p, &(page_lines){ .name = name,
                                     .x_word = "step",
                                     .unit = unit,
                                     .lines = &line,
                                     .count = 1,
                                     .limit_name = limited ? limit : NULL,
                                     .limit = h->planned });
}

static void put_loss(page *p, const history *h) {
    page_line lines[2];
    uint32_t n = 0;
    if (h->curves[LOSS].count) lines[n++] = line_of(h, LOSS, "loss");
    if (h->curves[VALIDATION].count) lines[n++] = line_of(h, VALIDATION, "validation");
    page_put_lines(p, &(page_lines){ .name = n > 1 ? "Loss and validation" : "Loss",
                                     .x_word = "step",
                                     .unit = PAGE_NUMBER,
                                     .lines = lines,
                                     .count = n });
}

status page_put_curves(page *p, const char *folder) {
    char path[CHECKPOINT_PATH_BYTES];
    history h = { 0 };
    if (snprintf(path, sizeof path, "%s/metrics.jsonl", folder) >= (int)sizeof path ||
        access(path, F_OK) != 0)
        return STATUS_OK;
    status result = read_history(&h, path);
    if (result == STATUS_OK) {
        page_side_by_side(p, true);
        put_loss(p, &h);
        put_one(p, &h, NORM, "Gradient norm", PAGE_NUMBER);
        put_one(p, &h, RATE, "Learning rate", PAGE_NUMBER);
        put_one(p, &h, SCALE, "Loss scale", PAGE_NUMBER);
        put_one(p, &h, SECONDS, "Time of a step", PAGE_SECONDS);
        put_one(p, &h, MEMORY, "Memory of the process", PAGE_BYTES);
        page_side_by_side(p, false);
        if (h.steps > 1)
            page_say(p, "Of each %lld steps the lowest and the highest value are shown.", (long long)h.steps);
    }
    close_history(&h);
    return result;
}
