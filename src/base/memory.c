#include "base/memory.h"

#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

static _Thread_local uint64_t refused;

uint64_t memory_refused(void) { return refused; }

/* Every way to memory ends here. */
static void *given(void *block) {
    if (!block) refused++;
    return block;
}

void *memory_new(size_t count, size_t size) { return given(calloc(count ? count : 1, size ? size : 1)); }

void *memory_room(size_t count, size_t size) { return memory_resize(NULL, count, size); }

void *memory_resize(void *block, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) return given(NULL);
    return given(realloc(block, bytes ? bytes : 1));
}

char *memory_text(const char *text) { return given(strdup(text)); }

void memory_free(void *block) { free(block); }

/* ---- address space ---- */

enum { KEPT_BLOCKS = 64, KEPT_USED = 4 << 20 }; /* blocks with more in them go back at once */

static struct {
    pthread_mutex_t lock;
    uint32_t count;
    struct {
        void *block;
        size_t bytes;
    } kept[KEPT_BLOCKS];
} released = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* A kept block of this size; NULL: there is none. */
static void *take_kept(size_t bytes) {
    void *block = NULL;
    pthread_mutex_lock(&released.lock);
    for (uint32_t i = released.count; i-- > 0 && !block;) {
        if (released.kept[i].bytes != bytes) continue;
        block = released.kept[i].block;
        released.kept[i] = released.kept[--released.count];
    }
    pthread_mutex_unlock(&released.lock);
    return block;
}

static bool keep(void *block, size_t bytes) {
    pthread_mutex_lock(&released.lock);
    bool room = released.count < KEPT_BLOCKS;
    if (room) {
        released.kept[released.count].block = block;
        released.kept[released.count++].bytes = bytes;
    }
    pthread_mutex_unlock(&released.lock);
    return room;
}

/* A search holds some dozens of graphs of four arrays each, and as many may be kept for the next. */
enum { SHARES = 256 };

size_t memory_reserve_share(size_t bytes, size_t least) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return bytes;
    size_t share = (size_t)(limit.rlim_cur / SHARES);
    if (share < least) share = least;
    return bytes < share ? bytes : share;
}

static void drop_kept(void) {
    pthread_mutex_lock(&released.lock);
    while (released.count) {
        released.count--;
        munmap(released.kept[released.count].block, released.kept[released.count].bytes);
    }
    pthread_mutex_unlock(&released.lock);
}

static void *map(size_t bytes) {
    void *block =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return block == MAP_FAILED ? NULL : block;
}

void *memory_reserve(size_t bytes) {
    void *block = take_kept(bytes);
    if (!block) block = map(bytes);
    if (block) return block;
    drop_kept(); /* of other sizes, in a process with a limit */
    return map(bytes);
}

void memory_release(void *block, size_t bytes, size_t used) {
    if (!block) return;
    if (used <= KEPT_USED) {
        memset(block, 0, used);
        if (keep(block, bytes)) return;
    }
    munmap(block, bytes);
}

void *memory_shared(int file, size_t bytes) {
    void *block = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    return block == MAP_FAILED ? NULL : block;
}

void memory_unshare(void *block, size_t bytes) {
    if (block) munmap(block, bytes);
}

void memory_trim(void) {
    drop_kept();
    malloc_trim(0);
}
