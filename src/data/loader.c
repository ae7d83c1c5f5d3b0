#include "data/loader.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "data/order.h"

/* A place in the ring. */
typedef struct {
    uint32_t done;   /* samples that are there */
    uint64_t labels; /* counted in them */
} slot;

typedef struct {
    loader *owner;
    pthread_t thread;
    void *scratch;
} worker;

/* Samples are handed to workers in order, as tickets 0, 1, 2 … counted from first_sample, so when ticket t
 * fails every ticket before it was given out already and will end: batches before the failure are whole. */
struct loader {
    loader_options options;
    uint64_t total; /* tickets there are; UINT64_MAX: no end */
    worker *workers;
    uint32_t started; /* threads */
    slot *slots;
    char *data; /* depth slots: field after field */
    uint64_t slot_bytes, field_offset[DATA_MAX_FIELDS];

    pthread_mutex_t lock;     /* for all that follows and the slots' numbers */
    pthread_cond_t room;      /* a slot was given back, or stop */
    pthread_cond_t ready;     /* a batch is whole, something failed, a caller left, or stop */
    uint64_t ticket;          /* the next to be given out */
    uint64_t taken, released; /* batches given to the caller, and given back by it */
    uint32_t reading;         /* tickets that are being read */
    uint32_t inside;          /* callers in loader_next */
    bool stop;
    status failed;
    uint64_t failed_ticket;
    char sentence[STATUS_SENTENCE];
};

/* Where the parts of the memory lie. */
typedef struct {
    uint64_t workers, slots, scratch, data, bytes; /* offsets; all of it */
    uint64_t scratch_bytes, slot_bytes, field_offset[DATA_MAX_FIELDS];
} layout;

/* Adds `count` parts of `each` bytes, aligned; the offset of the first. False when that overflows. */
static bool lay(layout *at, uint64_t count, uint64_t each, uint64_t *offset) {
    uint64_t bytes, end;
    if (__builtin_mul_overflow(count, each, &bytes) || __builtin_add_overflow(at->bytes, bytes, &end))
        return false;
    if (end > (uint64_t)INT64_MAX - LOADER_ALIGNMENT) return false;
    *offset = at->bytes;
    at->bytes = (end + LOADER_ALIGNMENT - 1) & ~(uint64_t)(LOADER_ALIGNMENT - 1);
    return true;
}

static status loader_layout(const loader_options *o, layout *at) {
    const data_source *s = o->source;
    *at = (layout){ 0 };
    if (o->batch < 1 || o->depth < 1 || o->depth > LOADER_MAX_DEPTH || o->workers > LOADER_MAX_WORKERS)
        return status_set(STATUS_INVALID, "data cannot be loaded in batches of %u, %u ahead, by %u workers",
                          o->batch, o->depth, o->workers);
    if (o->ranks > 1 && (!o->unit || o->batch % o->unit || o->rank >= o->ranks || o->sequential))
        return status_set(STATUS_INVALID, "rank %u of %u can't have batches of %u in units of %u", o->rank,
                          o->ranks, o->batch, o->unit);
    if (s->samples < 1 || s->field_count < 1 || s->field_count > DATA_MAX_FIELDS ||
        s->label_field >= (int32_t)s->field_count)
        return status_set(STATUS_INVALID,
                          "the data has %llu samples of %u fields; it needs one of each at least",
                          (unsigned long long)s->samples, s->field_count);
    uint64_t none, readers = o->workers ? o->workers : 1;
    layout inside = { 0 }, scratch = { 0 }; /* a slot, a scratch */
    bool fits = true;
    for (uint32_t f = 0; f < s->field_count; f++)
        fits = fits && lay(&inside, o->batch, s->field_bytes[f], &at->field_offset[f]);
    fits = fits && lay(&scratch, 1, s->scratch_bytes, &none);
    at->slot_bytes = inside.bytes;
    at->scratch_bytes = scratch.bytes;
    fits = fits && lay(at, 1, sizeof(loader), &none) && lay(at, readers, sizeof(worker), &at->workers) &&
           lay(at, o->depth, sizeof(slot), &at->slots) && lay(at, readers, at->scratch_bytes, &at->scratch) &&
           lay(at, o->depth, at->slot_bytes, &at->data);
    return fits ? STATUS_OK
                : status_set(STATUS_INVALID, "%u batches of %u samples are more than any memory", o->depth,
                             o->batch);
}

status loader_bytes(const loader_options *options, uint64_t *bytes) {
    layout at;
    TRY(loader_layout(options, &at));
    *bytes = at.bytes;
    return STATUS_OK;
}

/* Samples of batch b. */
static uint32_t batch_samples(const loader *l, uint64_t b) {
    uint64_t before = b * l->options.batch;
    if (before >= l->total) return 0;
    return l->total - before < l->options.batch ? (uint32_t)(l->total - before) : l->options.batch;
}

static slot *batch_slot(loader *l, uint64_t b) { return &l->slots[b % l->options.depth]; }

static char *batch_field(const loader *l, uint64_t b, uint32_t field) {
    return l->data + b % l->options.depth * l->slot_bytes + l->field_offset[field];
}

/* The sample's number within the run. */
static uint64_t number_of(const loader_options *o, uint64_t ticket) {
    if (o->ranks < 2) return o->first_sample + ticket;
    uint64_t batch = ticket / o->batch, place = ticket % o->batch, unit = place / o->unit;
    return o->first_sample + batch * o->batch * o->ranks + (unit * o->ranks + o->rank) * o->unit +
           place % o->unit;
}

/* Reads one sample to its place. Without the lock. */
static status read_ticket(const loader *l, uint64_t ticket, void *scratch, uint64_t *labels) {
    const loader_options *o = &l->options;
    const data_source *s = o->source;
    uint64_t k = number_of(o, ticket), place = ticket % o->batch;
    bool as_it_comes = o->sequential || s->ordered;
    uint64_t sample = as_it_comes ? k : data_order_sample(o->seed, s->samples, k);
    void *fields[DATA_MAX_FIELDS] = { 0 };
    for (uint32_t f = 0; f < s->field_count; f++)
        fields[f] = batch_field(l, ticket / o->batch, f) + place * s->field_bytes[f];
    TRY(s->read(s, sample, scratch, fields));
    data_masking_apply(&o->masking, k, fields[0], fields[1]);
    return data_source_look(s, sample, fields, labels);
}

/* Takes a ticket, reads it and books it. Called and left with the lock, which is free meanwhile. */
static void serve_ticket(loader *l, void *scratch) {
    uint64_t ticket = l->ticket++, labels = 0;
    l->reading++;
    pthread_mutex_unlock(&l->lock);
    status result = read_ticket(l, ticket, scratch, &labels);
    pthread_mutex_lock(&l->lock);
    l->reading--;
    uint64_t b = ticket / l->options.batch;
    slot *place = batch_slot(l, b);
    place->labels += labels;
    if (result == STATUS_OK) {
        place->done++;
    } else if (l->failed == STATUS_OK || ticket < l->failed_ticket) {
        /* The earliest failure is the one to tell, whichever came first in time. */
        l->failed = result;
        l->failed_ticket = ticket;
        strncpy(l->sentence, status_message(), sizeof l->sentence - 1);
    }
    if (place->done == batch_samples(l, b) || l->failed != STATUS_OK) pthread_cond_broadcast(&l->ready);
}

/* Is there a ticket whose slot is free? After a failure no more are given out. */
static bool has_ticket(const loader *l) {
    return l->failed == STATUS_OK && l->ticket < l->total &&
           l->ticket / l->options.batch < l->released + l->options.depth;
}

static void *work(void *argument) {
    worker *self = argument;
    loader *l = self->owner;
    pthread_mutex_lock(&l->lock);
    while (!l->stop) {
        if (has_ticket(l))
            serve_ticket(l, self->scratch);
        else
            pthread_cond_wait(&l->room, &l->lock);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

/* Starts one thread with a small stack. The C library cuts thread-local storage from it, so where that is
 * large the stack must be larger to be accepted at all. */
static int start_one(worker *w, size_t stack_bytes) {
    pthread_attr_t attributes;
    int error = pthread_attr_init(&attributes);
    if (error) return error;
    error = EINVAL;
    for (; error == EINVAL && stack_bytes <= (size_t)8 << 20; stack_bytes *= 2) {
        error = pthread_attr_setstacksize(&attributes, stack_bytes);
        if (!error) error = pthread_create(&w->thread, &attributes, work, w);
    }
    pthread_attr_destroy(&attributes);
    return error;
}

/* Signals are for the program's own threads: workers start with all of them blocked. */
static status start_workers(loader *l) {
    size_t stack_bytes = l->options.stack_bytes ? l->options.stack_bytes : LOADER_STACK_BYTES;
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int error = 0;
    while (l->started < l->options.workers && error == 0) {
        error = start_one(&l->workers[l->started], stack_bytes);
        if (error == 0) l->started++;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (error == 0) return STATUS_OK;
    return status_set(STATUS_FAILED, "cannot start data worker %u of %u: %s; use fewer workers",
                      l->started + 1, l->options.workers, strerror(error));
}

status loader_open(const loader_options *options, void *memory, loader **out) {
    layout at;
    *out = NULL;
    TRY(loader_layout(options, &at));
    assert((uintptr_t)memory % LOADER_ALIGNMENT == 0);
    char *base = memory;
    loader *l = memory;
    memset(memory, 0, at.data);
    l->options = *options;
    l->total = UINT64_MAX - options->first_sample;
    if (options->sequential)
        l->total = options->first_sample < options->source->samples
                       ? options->source->samples - options->first_sample
                       : 0;
    l->workers = (worker *)(base + at.workers);
    l->slots = (slot *)(base + at.slots);
    l->data = base + at.data;
    l->slot_bytes = at.slot_bytes;
    memcpy(l->field_offset, at.field_offset, sizeof l->field_offset);
    for (uint32_t i = 0; i < options->workers || i == 0; i++)
        l->workers[i] = (worker){ .owner = l, .scratch = base + at.scratch + i * at.scratch_bytes };
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->room, NULL);
    pthread_cond_init(&l->ready, NULL);
    status result = start_workers(l);
    if (result != STATUS_OK) {
        loader_close(l);
        return result;
    }
    *out = l;
    return STATUS_OK;
}

/* Has the caller something to be told about batch `taken`? */
static bool is_due(const loader *l, uint32_t samples) {
    if (l->stop || l->slots[l->taken % l->options.depth].done == samples) return true;
    return l->failed != STATUS_OK && l->failed_ticket / l->options.batch <= l->taken && l->reading == 0;
}

status loader_next(loader *l, loader_batch *batch) {
    *batch = (loader_batch){ 0 };
    pthread_mutex_lock(&l->lock);
    l->inside++;
    status result = STATUS_OK;
    uint32_t samples = batch_samples(l, l->taken);
    if (l->taken - l->released == l->options.depth) {
        result = status_set(STATUS_INVALID, "all %u batches of the loader are in use", l->options.depth);
    } else if (samples > 0) {
        while (!is_due(l, samples)) {
            if (l->options.workers == 0)
                serve_ticket(l, l->workers[0].scratch);
            else
                pthread_cond_wait(&l->ready, &l->lock);
        }
        if (l->stop)
            result = status_set(STATUS_INTERRUPTED, "the loader of the data was closed");
        else if (batch_slot(l, l->taken)->done != samples)
            result = status_set(l->failed, "%s", l->sentence);
    }
    if (result == STATUS_OK && samples > 0) {
        uint64_t b = l->taken++;
        batch->samples = samples;
        batch->first_sample = number_of(&l->options, b * l->options.batch);
        batch->counted_labels = batch_slot(l, b)->labels;
        for (uint32_t f = 0; f < l->options.source->field_count; f++) batch->fields[f] = batch_field(l, b, f);
    }
    l->inside--;
    if (l->stop) pthread_cond_broadcast(&l->ready);
    pthread_mutex_unlock(&l->lock);
    return result;
}

void loader_done(loader *l) {
    pthread_mutex_lock(&l->lock);
    assert(l->released < l->taken);
    *batch_slot(l, l->released) = (slot){ 0 };
    l->released++;
    pthread_cond_broadcast(&l->room);
    pthread_mutex_unlock(&l->lock);
}

void loader_close(loader *l) {
    if (!l) return;
    pthread_mutex_lock(&l->lock);
    l->stop = true;
    pthread_cond_broadcast(&l->room);
    pthread_cond_broadcast(&l->ready);
    while (l->inside > 0) pthread_cond_wait(&l->ready, &l->lock);
    pthread_mutex_unlock(&l->lock);
    for (uint32_t i = 0; i < l->started; i++) pthread_join(l->workers[i].thread, NULL);
    pthread_cond_destroy(&l->ready);
    pthread_cond_destroy(&l->room);
    pthread_mutex_destroy(&l->lock);
}
