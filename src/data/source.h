/* Where samples come from: text, token files, or a callback of the user's.
 *
 * A source is a numbered set of samples of one size. A sample has fields (for text: tokens and labels), each
 * a fixed number of bytes. Reading a sample is a function of its number alone, so any worker can read any
 * sample at any time and a resumed run reads what the first one would have read. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

enum { DATA_MAX_FIELDS = 8, DATA_NO_LABELS = -1, DATA_IGNORED_LABEL = -100 };

/* What the numbers of an i32 field may be: they pick one of so many. */
typedef struct {
    const char *name; /* the field's */
    int64_t below;    /* from 0 to below this; 0: anything */
    bool ignores;     /* or DATA_IGNORED_LABEL */
} data_range;

typedef struct data_source data_source;
struct data_source {
    uint64_t samples;
    uint32_t field_count;
    int32_t
        label_field; /* the field of i32 labels, of which those not ignored are counted; or DATA_NO_LABELS */
    bool in_place;   /* labels are the tokens themselves, ignored where nothing may be hidden (masking.h) */
    uint64_t field_bytes[DATA_MAX_FIELDS]; /* of one sample */
    data_range ranges[DATA_MAX_FIELDS];    /* of fields whose numbers `read` has not looked at */
    uint64_t scratch_bytes;                /* that one read needs beside the fields */

    /* Writes the fields of sample `sample` (< samples) to fields[0 .. field_count-1]. `scratch` has
     * scratch_bytes, aligned to 64, zeroed before the first read of a source; between reads nobody writes to
     * it, so a read may find there what the one before it has left. What is read does not depend on that.
     * Called by several threads at once, which have small stacks. */
    status (*read)(const data_source *s, uint64_t sample, void *scratch, void *const fields[]);
    /* Looks through all samples for what `read` would refuse, so that it shows before a run begins rather
     * than in the middle of it; may be NULL. */
    status (*check)(const data_source *s);
    void (*close)(data_source *s); /* may be NULL */
    uint64_t held_bytes;           /* memory that the source holds for itself, to be planned for */
    void *state;

    /* It has an order of its own: sample k is what stands at place k of a run, for any k, and `samples` is
     * how many places an epoch has. Else whoever reads decides on the order of the samples. */
    bool ordered;
    const data_source *parts; /* that it is made of, its own (data/mixed_source.h) */
    uint32_t part_count;      /* 0: it is one */
};

/* What a source is made of; of one that is whole it is itself. */
static inline uint32_t data_source_parts(const data_source *s) { return s->part_count ? s->part_count : 1; }
static inline const data_source *data_source_part(const data_source *s, uint32_t i) {
    return s->part_count ? &s->parts[i] : s;
}

/* Looks at every number of a sample that was read (and masked): STATUS_INVALID names the first that is out of
 * its field's range. Adds the labels that count; without a label field, the sample. */
status data_source_look(const data_source *s, uint64_t sample, void *const fields[], uint64_t *labels);

static inline status data_source_check(const data_source *s) { return s->check ? s->check(s) : STATUS_OK; }

static inline void data_source_close(data_source *s) { /* fine on a zeroed or closed source */
    if (s->close) s->close(s);
    *s = (data_source){ 0 };
}
