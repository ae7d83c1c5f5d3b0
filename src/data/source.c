#include "data/source.h"

#include <inttypes.h>
#include <stdio.h>

/* Ids of one field. */
static status check_ids(const data_source *s, uint64_t sample, uint32_t field, const int32_t *ids) {
    const data_range *r = &s->ranges[field];
    for (uint64_t i = 0, n = s->field_bytes[field] / sizeof *ids; i < n; i++) {
        if ((ids[i] >= 0 && ids[i] < r->below) || (r->ignores && ids[i] == DATA_IGNORED_LABEL)) continue;
        char ignored[48] = "";
        if (r->ignores) snprintf(ignored, sizeof ignored, ", or %d: does not count", DATA_IGNORED_LABEL);
        return status_set(STATUS_INVALID,
                          "sample %" PRIu64 " of the data: number %" PRIu64
                          " of '%s' is %d; it must be from 0 "
                          "to %" PRId64 "%s",
                          sample, i, r->name, ids[i], r->below - 1, ignored);
    }
    return STATUS_OK;
}

status data_source_look(const data_source *s, uint64_t sample, void *const fields[], uint64_t *labels) {
    for (uint32_t f = 0; f < s->field_count; f++)
        if (s->ranges[f].below) TRY(check_ids(s, sample, f, fields[f]));
    if (s->label_field < 0) {
        ++*labels;
        return STATUS_OK;
    }
    const int32_t *label = fields[s->label_field];
    for (uint64_t i = 0, n = s->field_bytes[s->label_field] / sizeof *label; i < n; i++)
        *labels += label[i] != DATA_IGNORED_LABEL;
    return STATUS_OK;
}
