#include "cli/progress.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "base/clock.h"
#include "base/mailbox.h"
#include "base/memory.h"

enum { PART_BYTES = 64, SAID_BYTES = 256, LINES_OF_A_RUN = 20, LONGEST_SILENCE = 30 };
static const double LINGER_SECONDS = 0.05; /* no more than twenty live lines a second */

typedef struct {
    bool said;
    union {
        train_progress step;
        char text[SAID_BYTES];
    };
} line_item;

struct progress {
    output *out;
    mailbox *queue;
    double last; /* of the run's thread: when a plain line was handed over */
    bool live;   /* of the writing thread: a live line stands on the terminal, unfinished */
    int width;   /* of `out` for other texts: a step is one line, however long */
};
_Static_assert(PROGRESS_QUEUE * sizeof(line_item) + MAILBOX_STACK_BYTES + 1024 <= PROGRESS_BYTES, "");

/* ---- the line of a step ---- */

/* "mem 70/82/96 MiB": in use, planned, budget. */
static void memory_part(const train_progress *s, char part[PART_BYTES]) {
    bool large = s->planned_bytes >= (uint64_t)100 << 30;
    double unit = large ? 0x1p30 : 0x1p20;
    int used = snprintf(part, PART_BYTES, "mem %.0f/%.0f", (double)s->resident_bytes / unit,
                        (double)s->planned_bytes / unit);
    if (s->budget_bytes != UINT64_MAX)
        used += snprintf(part + used, PART_BYTES - (size_t)used, "/%.0f", (double)s->budget_bytes / unit);
    snprintf(part + used, PART_BYTES - (size_t)used, large ? " GiB" : " MiB");
}

/* "1:05 left", "2:10:00 left" */
static void left_part(const train_progress *s, char part[PART_BYTES]) {
    double seconds = s->seconds_left;
    long whole = seconds > 0 && seconds < 1e8 ? (long)(seconds + 0.5) : 0;
    if (s->step == s->steps || isnan(seconds))
        part[0] = 0;
    else if (whole >= 3600)
        snprintf(part, PART_BYTES, "%ld:%02ld:%02ld left", whole / 3600, whole % 3600 / 60, whole % 60);
    else
        snprintf(part, PART_BYTES, "%ld:%02ld left", whole / 60, whole % 60);
}

/* As they stand in the line, and in which order they give way to a narrow terminal. */
enum { STEP, LOSS, NORM, SCALE, RATE, TIME, TOKENS, PEAK, MEMORY, LEFT, PARTS };
static const int by_importance[PARTS] = { STEP, LOSS, LEFT, MEMORY, TIME, TOKENS, NORM, RATE, SCALE, PEAK };

static void make_parts(const train_progress *s, char parts[PARTS][PART_BYTES]) {
    char number[REPORT_NUMBER_BYTES];
    snprintf(parts[STEP], PART_BYTES, "step %*lld/%lld",
             snprintf(number, sizeof number, "%lld", (long long)s->steps), (long long)s->step,
             (long long)s->steps);
    snprintf(parts[LOSS], PART_BYTES, "loss %.4f", s->loss);
    if (!isnan(s->norm)) snprintf(parts[NORM], PART_BYTES, "norm %.3f", s->norm);
    if (s->loss_scale > 0) snprintf(parts[SCALE], PART_BYTES, "scale %g", s->loss_scale);
    snprintf(parts[RATE], PART_BYTES, "lr %.2e", s->learning_rate);
    if (s->seconds < 10)
        snprintf(parts[TIME], PART_BYTES, "%.0f ms", s->seconds * 1e3);
    else
        snprintf(parts[TIME], PART_BYTES, "%.1f s", s->seconds);
    snprintf(parts[TOKENS], PART_BYTES, "%s %s/s", report_rate(s->tokens_per_second, number),
             s->images ? "images" : "tok");
    if (s->peak_share > 0 && s->peak_share < 1e4)
        snprintf(parts[PEAK], PART_BYTES, "%.0f%% of peak", 100 * s->peak_share);
    memory_part(s, parts[MEMORY]);
    left_part(s, parts[LEFT]);
}

void progress_line(const train_progress *s, int columns, bool colour, char line[PROGRESS_LINE_BYTES]) {
    char parts[PARTS][PART_BYTES] = { 0 };
    bool shown[PARTS] = { false };
    size_t room = columns > 0 ? (size_t)columns : 0, used = 0;
    if (room > PROGRESS_LINE_BYTES - 16) room = PROGRESS_LINE_BYTES - 16;
    make_parts(s, parts);
    for (int i = 0; i < PARTS; i++) {
        size_t length = strlen(parts[by_importance[i]]) + (used ? 2 : 0);
        shown[by_importance[i]] = parts[by_importance[i]][0] && used + length <= room;
        if (shown[by_importance[i]]) used += length;
    }
    line[0] = 0;
    for (int i = 0; i < PARTS; i++) {
        if (!shown[i]) continue;
        bool bold = colour && i == LOSS;
        size_t at = strlen(line);
        snprintf(line + at, PROGRESS_LINE_BYTES - at, "%s%s%s%s", at ? "  " : "", bold ? "\033[1m" : "",
                 parts[i], bold ? "\033[0m" : "");
    }
}

/* ---- writing, on the thread of the queue ---- */

static void clear(progress *p) {
    if (p->live) output_add(p->out, "\r\033[K");
    p->live = false;
}

static void handle(void *context, const void *what, bool more) {
    progress *p = context;
    const line_item *item = what;
    char line[PROGRESS_LINE_BYTES];
    if (item->said) {
        clear(p);
        output_add(p->out, "%s\n", item->text);
    } else if (!p->out->terminal) {
        progress_line(&item->step, PROGRESS_LINE_BYTES, false, line);
        output_add(p->out, "%s\n", line);
    } else if (!more) { /* the last column stays empty: some terminals would wrap */
        progress_line(&item->step, output_columns(p->out) - 1, p->out->colour, line);
        output_add(p->out, "\r%s\033[K", line);
        p->live = true;
    }
    if (!more) output_flush(p->out);
}

/* ---- the run's thread ---- */

status progress_open(output *out, progress **p) {
    *p = NULL;
    if (!out->file) return STATUS_OK;
    *p = memory_new(1, sizeof **p);
    if (!*p) return status_set(STATUS_FAILED, "no memory for the progress of a run");
    **p = (progress){ .out = out, .last = -1e9, .width = out->width };
    output_flush(out);
    out->width = 0;
    status result = mailbox_open(&(mailbox_options){ .item_bytes = sizeof(line_item),
                                                     .room = PROGRESS_QUEUE,
                                                     .linger_seconds = LINGER_SECONDS,
                                                     .handle = handle,
                                                     .context = *p },
                                 &(*p)->queue);
    if (result == STATUS_OK) return STATUS_OK;
    out->width = (*p)->width;
    memory_free(*p);
    *p = NULL;
    return result;
}

void progress_step(progress *p, const train_progress *s) {
    if (!p) return;
    if (!p->out->terminal) {
        double time = clock_seconds();
        int64_t every = s->steps / LINES_OF_A_RUN > 1 ? s->steps / LINES_OF_A_RUN : 1;
        bool edge = s->step == 1 || s->step == s->steps;
        if (!edge && s->step % every && time - p->last < LONGEST_SILENCE) return;
        p->last = time;
    }
    line_item item = { .step = *s };
    mailbox_put(p->queue, &item, false);
}

void progress_say(progress *p, const char *format, ...) {
    va_list arguments;
    line_item item = { .said = true };
    if (!p) return;
    va_start(arguments, format);
    vsnprintf(item.text, sizeof item.text, format, arguments);
    va_end(arguments);
    mailbox_put(p->queue, &item, false);
}

void progress_close(progress *p) {
    if (!p) return;
    mailbox_close(p->queue);
    clear(p);
    output_flush(p->out);
    p->out->width = p->width;
    memory_free(p);
}
