#include "base/counter.h"

#include <pthread.h>

#include "base/memory.h"

struct counter {
    pthread_mutex_t lock;
    pthread_cond_t more;
    uint64_t value;
};

counter *counter_new(void) {
    counter *c = memory_new(1, sizeof *c);
    if (!c) return NULL;
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->more, NULL);
    return c;
}

void counter_free(counter *c) {
    if (!c) return;
    pthread_cond_destroy(&c->more);
    pthread_mutex_destroy(&c->lock);
    memory_free(c);
}

void counter_add(counter *c) {
    pthread_mutex_lock(&c->lock);
    c->value++;
    pthread_cond_broadcast(&c->more);
    pthread_mutex_unlock(&c->lock);
}

void counter_wait(counter *c, uint64_t value) {
    pthread_mutex_lock(&c->lock);
    while (c->value < value) pthread_cond_wait(&c->more, &c->lock);
    pthread_mutex_unlock(&c->lock);
}

uint64_t counter_value(counter *c) {
    pthread_mutex_lock(&c->lock);
    uint64_t value = c->value;
    pthread_mutex_unlock(&c->lock);
    return value;
}
