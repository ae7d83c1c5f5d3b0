#include "base/memo.h"

#include <pthread.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"

enum { CHAINS = 1024 };

/* With the value, and behind it the key. */
typedef struct kept {
    struct kept *next;
    uint32_t hash;
    size_t bytes, key_bytes;
    max_align_t value[];
} kept;

struct memo {
    pthread_mutex_t lock;
    size_t left, kept; /* bytes: that may still be kept, and that are */
    kept *chains[CHAINS];
};

memo *memo_open(size_t most) {
    memo *m = memory_new(1, sizeof *m);
    if (!m) return NULL;
    pthread_mutex_init(&m->lock, NULL);
    m->left = most;
    return m;
}

void memo_close(memo *m) {
    for (size_t i = 0; m && i < CHAINS; i++)
        for (kept *next; m->chains[i]; m->chains[i] = next) {
            next = m->chains[i]->next;
            memory_free(m->chains[i]);
        }
    if (m) pthread_mutex_destroy(&m->lock);
    memory_free(m);
}

size_t memo_bytes(memo *m) {
    pthread_mutex_lock(&m->lock);
    const size_t bytes = m->kept;
    pthread_mutex_unlock(&m->lock);
    return bytes;
}

static void *key_of(const kept *k) { return (char *)k->value + k->bytes; }

static const kept *find(const memo *m, uint32_t hash, const void *key, size_t key_bytes) {
    const kept *k = m->chains[hash % CHAINS];
    while (k && (k->hash != hash || k->key_bytes != key_bytes || memcmp(key_of(k), key, key_bytes) != 0))
        k = k->next;
    return k;
}

const void *memo_find(memo *m, const void *key, size_t key_bytes, size_t *bytes) {
    const uint32_t hash = hash_bytes(key, key_bytes);
    pthread_mutex_lock(&m->lock);
    const kept *k = find(m, hash, key, key_bytes);
    pthread_mutex_unlock(&m->lock);
    if (k) *bytes = k->bytes;
    return k ? k->value : NULL;
}

void memo_keep(memo *m, const void *key, size_t key_bytes, const void *value, size_t bytes) {
    const uint32_t hash = hash_bytes(key, key_bytes);
    const size_t all = sizeof(kept) + bytes + key_bytes;
    pthread_mutex_lock(&m->lock);
    kept *k = all <= m->left && !find(m, hash, key, key_bytes) ? memory_room(1, all) : NULL;
    if (k) {
        *k = (kept){ .next = m->chains[hash % CHAINS], .hash = hash, .bytes = bytes, .key_bytes = key_bytes };
        memcpy(k->value, value, bytes);
        memcpy(key_of(k), key, key_bytes);
        m->chains[hash % CHAINS] = k;
        m->left -= all, m->kept += all;
    }
    pthread_mutex_unlock(&m->lock);
}
