/* Several sources as one, of which each gives a share of the samples.
 *
 * Without weights all samples are numbered through, as those of one source would be. With weights parts take
 * turns (data/mixture.h), and an epoch is as long as the part that lasts longest: so each part is seen whole
 * at least once an epoch, and one that ends before begins again, shuffled anew.
 *
 * The order is the source's own (`ordered`): sample k stands at place k of the run, in whatever epoch that
 * is. One that validates is not shuffled: it has what stands first in each part, or without weights what is
 * evenly spread over all of them, as many as there may be.
 *
 * Whoever reads a sample knows nothing of its part, so labels are in place in all parts where they are in
 * one. */
#pragma once

#include "data/mixture.h"
#include "data/source.h"

typedef struct {
    /* 1 to MIXTURE_PARTS, each with samples, all with the same fields. Where one has `in_place`, each reads
     * as its own says, which is set here. */
    const data_source *parts;
    uint32_t count;
    const double *weights; /* NULL: by their sizes */
    bool shuffles;         /* else there is one pass, of `most` samples at most */
    uint64_t seed, most;   /* of a shuffled one; of one that is not */
} mixed_options;

/* The parts are the mix's from now on, closed with it; not when this fails. STATUS_INVALID where the fields
 * differ, or for a weight as mixture_open says it, of which `*part` is the number. */
status mixed_source_open(const mixed_options *o, data_source *s, uint32_t *part);

/* Of data_source_part number `part`: which part of all samples it gives, and of how many places of an order
 * that is (a period, or all samples). Of a source that is no mix it is all of one. */
typedef struct {
    uint64_t places, of;
} mixed_share;
mixed_share mixed_source_share(const data_source *s, uint32_t part);
bool mixed_source_weighted(const data_source *s); /* and not by sizes */
