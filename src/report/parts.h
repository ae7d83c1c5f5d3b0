/* What the reports share: colours, measured bytes by category, and who is alive at the peak. */
#pragma once

#include "report/report.h"

/* Escape sequences, or "" where the style has no colours. */
typedef struct {
    const char *bold, *dim, *good, *bad, *end;
} parts_colours;
parts_colours parts_colours_of(const report_style *style);

const char *parts_phase_name(phase p);
const char *parts_site_text(int32_t site,
                            char buffer[REPORT_NUMBER_BYTES]); /* "block 3"; "outside of blocks" */

/* Measured bytes in the shape of the predicted ones: categories sum up to the process's peak. */
typedef struct {
    uint64_t peak_bytes, arena_bytes, live_bytes, persistent_bytes, pool_bytes;
    uint64_t by_category[CATEGORY_COUNT];
    uint64_t pools[POOL_COUNT]; /* of a file and of the host's memory: what is held there */
    device_parts beside;        /* of a device apart: what the process holds there beside its pool, */
    uint64_t moved_bytes;       /* and by how much that has changed since the run began */
} parts_measured;
parts_measured parts_measured_of(const decision *d, const train_result *r);

/* What is to be said of a choice. Of its setting of pass number i, in one line: what people may expect of it
 * and do not get; NULL: nothing. Of a technique that --allow names and that was not taken, why. Of a GPU what
 * it has never confirmed (run/unconfirmed.h); "": nothing. */
enum { PARTS_SAID_BYTES = 512 }; /* UNCONFIRMED_BYTES at least */
const char *parts_remark(const decision *d, int i);
const char *parts_declined(const search_decline *x, char said[PARTS_SAID_BYTES]);
const char *parts_unconfirmed(const decision *d, char said[PARTS_SAID_BYTES]);

/* Numbers in the weights of the model as its builder makes it, however the plan stores them; and how many
 * numbers are trained: these, or those of the adapters beside them. 0 where it can't be built. */
typedef struct {
    uint64_t all, trained;
} parts_parameters;
parts_parameters parts_parameters_of(const setup *s, const decision *d);

/* Tensors alive at the peak that are alike: of one op, shape and category. Persistent ones are gathered by
 * category, and `name` is the largest of them. */
typedef struct {
    uint32_t count;
    uint64_t bytes; /* of all of them */
    category category;
    bool persistent;
    const char *from; /* op; NULL: none made it */
    char name[96];    /* "" where it has none */
    shape shape;
    dtype dtype;
    uint64_t largest;
} parts_holder;

/* Largest first, at most `room`; `*count` is how many there are, those left out as well, of which `rest` (may
 * be NULL) gets the bytes. */
status parts_holders(const plan *p, parts_holder *out, uint32_t room, uint32_t *count, uint64_t *rest);

/* Bytes of the arena alive at each step of a program; `alive` has room for all its steps. */
void parts_alive(const plan_program *pp, uint64_t *alive);
