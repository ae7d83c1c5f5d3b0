#include "cli/progress.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"

enum { LINE_BYTES = 320, PART_BYTES = 64, LINES_OF_A_RUN = 20, LONGEST_SILENCE = 30 };
static const double LIVE_SECONDS = 0.05; /* no more than twenty live lines a second */

progress progress_of(output *out) { return (progress){ .out = out, .last = -1e9 }; }

/* Adds a part when it is within the room for columns; the parts come in order of importance. */
static void add_part(char line[LINE_BYTES], size_t room, const char *part) {
    size_t used = strlen(line), length = strlen(part);
    if (room > LINE_BYTES - 1) room = LINE_BYTES - 1;
    if (used + (used ? 2 : 0) + length > room) return;
    snprintf(line + used, LINE_BYTES - used, "%s%s", used ? "  " : "", part);
}

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
static void left_part(double seconds, char part[PART_BYTES]) {
    long whole = seconds > 0 && seconds < 1e8 ? (long)(seconds + 0.5) : 0;
    if (whole >= 3600)
        snprintf(part, PART_BYTES, "%ld:%02ld:%02ld left", whole / 3600, whole % 3600 / 60, whole % 60);
    else
        snprintf(part, PART_BYTES, "%ld:%02ld left", whole / 60, whole % 60);
}

static void make_line(const train_progress *s, size_t room, char line[LINE_BYTES]) {
    char part[PART_BYTES], number[REPORT_NUMBER_BYTES];
    line[0] = 0;
    snprintf(part, sizeof part, "step %*lld/%lld",
             snprintf(number, sizeof number, "%lld", (long long)s->steps), (long long)s->step,
             (long long)s->steps);
    add_part(line, room, part);
    snprintf(part, sizeof part, "loss %.4f", s->loss);
    add_part(line, room, part);
    snprintf(part, sizeof part, s->seconds < 10 ? "%.0f ms" : "%.1f s",
             s->seconds < 10 ? s->seconds * 1e3 : s->seconds);
    add_part(line, room, part);
    snprintf(part, sizeof part, "%s tok/s", report_count((uint64_t)(s->tokens_per_second + 0.5), number));
    add_part(line, room, part);
    memory_part(s, part);
    add_part(line, room, part);
    left_part(s->seconds_left, part);
    if (s->step < s->steps) add_part(line, room, part);
    if (!isnan(s->norm)) {
        snprintf(part, sizeof part, "norm %.3f", s->norm);
        add_part(line, room, part);
    }
    snprintf(part, sizeof part, "lr %.2e", s->learning_rate);
    add_part(line, room, part);
}

void progress_step(progress *p, const train_progress *s) {
    double time = clock_seconds();
    bool edge = s->step == 1 || s->step == s->steps;
    char line[LINE_BYTES];
    if (!p->out->file) return;
    if (p->out->terminal) {
        if (!edge && time - p->last < LIVE_SECONDS) return;
        make_line(s, (size_t)output_columns(p->out) - 1, line);
        output_add(p->out, "\r%s\033[K", line);
        p->live = true;
    } else {
        int64_t every = s->steps / LINES_OF_A_RUN > 1 ? s->steps / LINES_OF_A_RUN : 1;
        if (!edge && s->step % every && time - p->last < LONGEST_SILENCE) return;
        make_line(s, LINE_BYTES, line);
        output_add(p->out, "%s\n", line);
    }
    output_flush(p->out);
    p->last = time;
}

void progress_evaluated(progress *p, int64_t step, double loss, int64_t samples) {
    progress_end(p);
    output_add(p->out, "step %lld  validation loss %.4f over %lld samples\n", (long long)step, loss,
               (long long)samples);
    output_flush(p->out);
}

void progress_end(progress *p) {
    if (p->live) output_add(p->out, "\r\033[K");
    p->live = false;
    output_flush(p->out);
}
