/* The texts of a run as samples: --data, one or several of them mixed (data/mixed_source.h), what is held out
 * of each, --eval-data, and how documents stand in samples.
 *
 * They are opened first, since whether documents are told apart depends on what they say; then they are
 * packed, and become the setup's sources. */
#pragma once

#include "run/setup.h"

/* Of several data: STATUS_INVALID names one that isn't there, or a weight that has no meaning. Nothing is
 * read, so it can be asked before anything long is done with them. */
status texts_check(const setup_options *o);

/* Opens the data of a model of language. STATUS_INVALID names what can't be read, or is too short. */
status texts_open(setup *s);

/* Settles s->pack, and makes the sources of what was opened. Also of a setup without any. */
status texts_settle(setup *s);

void texts_close(setup *s); /* what was opened and not settled; fine on none */

/* A sample that holds the longest document, where all of the data say how long that is; else `*context` stays
 * as it is. `most`: of the model. */
status texts_context(const setup *s, int64_t most, int64_t *context);

/* What people are told of a part of the data that a run trains on. */
typedef struct {
    const char *name;
    double share;             /* of all samples */
    uint64_t samples, tokens; /* that it has */
    double times;             /* that an epoch goes through them */
} texts_part;

/* 0: nothing of files is trained on that holds texts. */
uint32_t texts_parts(const setup *s);
texts_part texts_part_of(const setup *s, uint32_t part);
