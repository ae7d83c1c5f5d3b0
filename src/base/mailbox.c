#define _GNU_SOURCE
#include "base/mailbox.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"

/* Items lie in a ring; `first` is the oldest. The thread handles one outside of the lock, where it lies: its
 * place counts as taken until it is done. */
struct mailbox {
    mailbox_options options;
    pthread_t thread;
    pthread_mutex_t lock;  /* for all that follows */
    pthread_cond_t filled; /* something came, is urgent, or is to end */
    pthread_cond_t freed;  /* an item was handled */
    uint32_t first, count;
    bool urgent, closing;
    _Alignas(max_align_t) char items[];
};

static void *item_at(mailbox *m, uint32_t place) {
    return m->items + (size_t)(place % m->options.room) * m->options.item_bytes;
}

/* The clock that condition variables wait by. */
static struct timespec moment_after(double seconds) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    int64_t nanoseconds = t.tv_nsec + (int64_t)(seconds * 1e9);
    t.tv_sec += nanoseconds / 1000000000;
    t.tv_nsec = nanoseconds % 1000000000;
    return t;
}

static void gather(mailbox *m) {
    struct timespec until = moment_after(m->options.linger_seconds);
    while (!m->urgent && !m->closing)
        if (pthread_cond_timedwait(&m->filled, &m->lock, &until) == ETIMEDOUT) break;
}

static void handle_all(mailbox *m) {
    while (m->count) {
        const void *item = item_at(m, m->first);
        bool more = m->count > 1;
        pthread_mutex_unlock(&m->lock);
        m->options.handle(m->options.context, item, more);
        pthread_mutex_lock(&m->lock);
        m->first = (m->first + 1) % m->options.room;
        m->count--;
        pthread_cond_broadcast(&m->freed);
    }
    m->urgent = false;
}

static void *work(void *argument) {
    mailbox *m = argument;
    pthread_mutex_lock(&m->lock);
    while (m->count || !m->closing) {
        if (!m->count)
            pthread_cond_wait(&m->filled, &m->lock);
        else if (gather(m), m->count)
            handle_all(m);
    }
    pthread_mutex_unlock(&m->lock);
    return NULL;
}

/* Where thread-local storage is large the stack must be larger to be accepted at all. */
static int start(mailbox *m) {
    pthread_attr_t attributes;
    sigset_t all, before;
    int error = pthread_attr_init(&attributes);
    if (error) return error;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = EINVAL;
    size_t least = m->options.stack_bytes ? m->options.stack_bytes : MAILBOX_STACK_BYTES;
    for (size_t bytes = least; error == EINVAL && bytes <= (size_t)8 << 20; bytes *= 2) {
        error = pthread_attr_setstacksize(&attributes, bytes);
        if (!error) error = pthread_create(&m->thread, &attributes, work, m);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return error;
}

status mailbox_open(const mailbox_options *o, mailbox **out) {
    mailbox *m = *out = memory_new(1, sizeof *m + (size_t)o->room * o->item_bytes);
    if (!m) return status_set(STATUS_FAILED, "no memory for a queue of %u items", o->room);
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    m->options = *o;
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->filled, &clock);
    pthread_cond_init(&m->freed, NULL);
    pthread_condattr_destroy(&clock);
    int error = start(m);
    if (!error) return STATUS_OK;
    memory_free(m);
    *out = NULL;
    return status_set(STATUS_FAILED, "cannot start a thread: %s", strerror(error));
}

bool mailbox_put(mailbox *m, const void *item, bool wait) {
    pthread_mutex_lock(&m->lock);
    while (wait && m->count == m->options.room) pthread_cond_wait(&m->freed, &m->lock);
    bool room = m->count < m->options.room;
    if (room) {
        memcpy(item_at(m, m->first + m->count), item, m->options.item_bytes);
        m->count++;
        bool half = 2 * m->count >= m->options.room && !m->urgent;
        if (half) m->urgent = true;
        if (half || m->count == 1) pthread_cond_signal(&m->filled);
    }
    pthread_mutex_unlock(&m->lock);
    return room;
}

void mailbox_drain(mailbox *m) {
    pthread_mutex_lock(&m->lock);
    m->urgent = m->count > 0;
    pthread_cond_signal(&m->filled);
    while (m->count) pthread_cond_wait(&m->freed, &m->lock);
    pthread_mutex_unlock(&m->lock);
}

void mailbox_close(mailbox *m) {
    if (!m) return;
    pthread_mutex_lock(&m->lock);
    m->closing = true;
    pthread_cond_signal(&m->filled);
    pthread_mutex_unlock(&m->lock);
    pthread_join(m->thread, NULL);
    pthread_cond_destroy(&m->freed);
    pthread_cond_destroy(&m->filled);
    pthread_mutex_destroy(&m->lock);
    memory_free(m);
}
