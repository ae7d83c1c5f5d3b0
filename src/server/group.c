#include "server/group.h"

#include <string.h>

#include "base/philox.h"

enum { STREAM = 0x63686f69 /* of the seeds, apart from those of draws */ };

static uint64_t seed_of(uint64_t seed, uint32_t index) {
    philox_block b = philox_draw(seed, (philox_block){ { index, 0, 0, STREAM } });
    return (uint64_t)b.word[0] << 32 | b.word[1];
}

job *group_last(job *first) {
    while (first->next) first = first->next;
    return first;
}

/* What is a job's own stays; what it asks for is copied. */
void group_add(job *first, job *j) {
    job own = *j, *last = group_last(first);
    *j = *first;
    j->ids = own.ids, j->logprobs = own.logprobs, j->pooled = own.pooled, j->constraint = own.constraint,
    j->out = own.out;
    memcpy(j->ids, first->ids, (size_t)first->count * sizeof *j->ids);
    if (j->sample.biases) j->sample.biases = j->biases;
    for (uint32_t i = 0; i < j->stops.count; i++) j->stop_strings[i] = j->stop_bytes[i];
    j->stops.strings = j->stop_strings;
    if (j->constrained) j->constraint->schema = first->constraint->schema;
    j->first = first, j->next = NULL, j->index = last->index + 1;
    j->sample.seed = seed_of(first->sample.seed, j->index);
    last->next = j;
}

/* ---- comparing ---- */

bool group_compared(const job *first) {
    for (const job *j = first; j; j = j->next)
        if (j->state != JOB_COMPARED) return false;
    return true;
}

static double mean(const job *j) { return j->drawn ? j->likely / (double)j->drawn : 0; }

/* What a text brought: its job stays where it is in the list. */
static void swap(job *a, job *b) {
    job was = *a;
    a->ids = b->ids, a->logprobs = b->logprobs, a->pooled = b->pooled, a->drawn = b->drawn;
    a->told = b->told, a->text_bytes = b->text_bytes, a->end = b->end, a->likely = b->likely;
    b->ids = was.ids, b->logprobs = was.logprobs, b->pooled = was.pooled, b->drawn = was.drawn;
    b->told = was.told, b->text_bytes = was.text_bytes, b->end = was.end, b->likely = was.likely;
}

/* Of equals the earlier one stays before the later one: neighbours are swapped. */
void group_rank(job *first) {
    for (bool any = true; any;) {
        any = false;
        for (job *j = first; j->next; j = j->next)
            if (mean(j) < mean(j->next)) swap(j, j->next), any = true;
    }
}

/* ---- reading ---- */

static bool is_done(const job *j) { return j->state == JOB_OVER && !j->out.count; }

/* Behind one that has nothing now: of a whole answer the next once it is done, else any that has something.
 */
static job *next_to_read(job *first, job *j) {
    if (!first->streams) {
        while (j->next && is_done(j)) j = j->next;
        return j;
    }
    for (job *k = j->next; k; k = k->next)
        if (k->out.count) return k;
    for (job *k = first; k != j; k = k->next)
        if (k->out.count) return k;
    return j;
}

const job *group_reads(const job *first) { return first->reads ? first->reads : first; }

size_t group_read(job *first, char *out, size_t most) {
    job *j = first->reads ? first->reads : first;
    if (!j->out.count) j = next_to_read(first, j);
    first->reads = j;
    return ring_read(&j->out, out, most);
}

bool group_over(const job *first) {
    if (!first->next) return first->state == JOB_OVER;
    for (const job *j = first; j; j = j->next)
        if (!is_done(j)) return false;
    return first->closed;
}

bool group_ends(const job *first) {
    if (!first->next || first->closed) return false;
    for (const job *j = first; j; j = j->next)
        if (j->state != JOB_OVER || (j->next && j->out.count)) return false;
    return true;
}
