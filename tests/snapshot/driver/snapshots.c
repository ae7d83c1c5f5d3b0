/* Snapshots of any size, and what reading one takes: snug-snapshots write FILE EVENTS FRAMES, the same of
 * traces and timelines, or read FILE, which says the time of the processor and the memory resident at most.
 * bench/results/snapshot.md has figures. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "snapshot/snapshot.h"
#include "snapshot/trace_writer.h"

static int write_one(const char *path, const char *events, const char *frames) {
    writer_options o = { .seed = 9,
                         .events = (uint32_t)atoll(events),
                         .frames = (uint32_t)atoi(frames),
                         .stacks = 5000,
                         .most = 4000,
                         .protocol = 4,
                         .devices = 1,
                         .more_keys = true };
    writer_truth truth;
    writer_write(path, &o, &truth);
    printf("peak %llu bytes at event %u of %u\n", (unsigned long long)truth.peak, truth.peak_at,
           truth.events);
    return 0;
}

static int write_trace(const char *path, const char *events, const char *calls) {
    trace_options o = { .seed = 9,
                        .events = (uint32_t)atoll(events),
                        .calls = (uint32_t)atoi(calls),
                        .most = 2000,
                        .devices = 1 };
    writer_truth truth[16];
    trace_write(path, &o, truth);
    printf("peak %llu bytes at event %u of %u\n", (unsigned long long)truth[0].peak, truth[0].peak_at,
           truth[0].events);
    return 0;
}

static int write_timeline(const char *path, const char *rows, bool raw) {
    timeline_options o = { .seed = 9, .rows = (uint32_t)atoll(rows), .raw = raw };
    timeline_truth truth;
    timeline_write(path, &o, &truth);
    printf("peak %llu bytes\n", (unsigned long long)truth.peak);
    return 0;
}

static int read_one(const char *path) {
    snapshot s;
    struct rusage u;
    if (snapshot_open(path, &s) != STATUS_OK) {
        fprintf(stderr, "%s\n", status_message());
        return 2;
    }
    getrusage(RUSAGE_SELF, &u);
    double seconds = (double)u.ru_utime.tv_sec + (double)u.ru_stime.tv_sec +
                     1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
    printf("%.1f MB in %.2f s of the processor, %.0f MB/s, %.1f MiB resident\n", 1e-6 * (double)s.bytes,
           seconds, 1e-6 * (double)s.bytes / seconds, (double)u.ru_maxrss / 1024);
    snapshot_close(&s);
    return 0;
}

int main(int count, char **arguments) {
    if (count == 5 && strcmp(arguments[1], "write") == 0)
        return write_one(arguments[2], arguments[3], arguments[4]);
    if (count == 5 && strcmp(arguments[1], "trace") == 0)
        return write_trace(arguments[2], arguments[3], arguments[4]);
    if (count == 4 && (strcmp(arguments[1], "timeline") == 0 || strcmp(arguments[1], "raw") == 0))
        return write_timeline(arguments[2], arguments[3], arguments[1][0] == 'r');
    if (count == 3 && strcmp(arguments[1], "read") == 0) return read_one(arguments[2]);
    fprintf(stderr,
            "snug-snapshots write FILE EVENTS FRAMES | trace FILE EVENTS CALLS | timeline FILE ROWS | "
            "raw FILE ROWS | read FILE\n");
    return 2;
}
