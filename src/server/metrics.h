/* What a server counts for whoever watches it, in Prometheus' text format. The server's lock guards it. */
#pragma once

#include "server/pages.h"
#include "server/serve.h"

/* How a request ended. */
typedef enum {
    OUTCOME_STOP,    /* the text by its own token or a stop string */
    OUTCOME_LENGTH,  /* with max_tokens */
    OUTCOME_LEFT,    /* the client went, or took nothing for too long */
    OUTCOME_REFUSED, /* what it asked for */
    OUTCOME_FULL,    /* for the queue or the pages were full */
    OUTCOME_CLOSED,  /* while the server was loading or closing */
    OUTCOME_FAILED,  /* within the server */
    OUTCOMES
} outcome;

enum { METRICS_BUCKETS = 13 };
extern const double metrics_bounds[METRICS_BUCKETS]; /* seconds: a bucket counts what is at most its bound */

typedef struct {
    uint64_t counts[METRICS_BUCKETS + 1]; /* the last one: beyond all bounds */
    double sum;
} histogram;

typedef struct {
    uint64_t requests[OUTCOMES];
    histogram first, between; /* seconds to the first token of a text, and from each to the next */
} metrics;

void metrics_add(histogram *h, double seconds);

/* The rest of what is told: how things stand just then. */
typedef struct {
    engine_stats engine;
    uint64_t queue, connections, refused_connections;
    int64_t pages, pages_left;
    uint64_t resident_bytes, resident_peak_bytes;
    const serve_plan *plan;
} metrics_now;

/* Into a paper, by way of a line that has room for a family of them. False: there are too few pages. */
bool metrics_write(const metrics *m, const metrics_now *now, text *line, paper *out, pages *p);
