/* The program, in which one call for memory or to a file fails: linked with --wrap for each of them, so that
 * every such call comes here first. FAIL_CALL=N: call N (from 0) fails, as on a machine without memory or
 * with a full or broken disk, and all others work. FAIL_LIST=FILE: at the end the numbers of those calls are
 * written there that came from a place, and by a way, that none before came from; FAIL_DEPTH: how many
 * callers make a way (6).
 *
 * Whatever failed, at the end every block has been freed and every file closed: else the program says which
 * call made what is left, and ends with exit code LEAK_CODE. FAIL_WAY=N: the callers of call N are printed.
 *
 * What goes to a terminal, a pipe or an inherited file (descriptors up to 2) does not fail. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WAYS = 1 << 14, DEEPEST = 32, OURS = 3 /* frames of this file */, BLOCKS = 1 << 16, LEAK_CODE = 99 };

static atomic_long calls;
static long failing = -1, shown = -1;
static const char *list_path;
static int depth = 6;
static atomic_ullong ways[WAYS]; /* a hash table; 0: free */
static atomic_long firsts[WAYS];
static atomic_uint way_count;

__attribute__((constructor)) static void begin(void) {
    const char *at = getenv("FAIL_CALL"), *deep = getenv("FAIL_DEPTH"), *way = getenv("FAIL_WAY");
    if (at) failing = atol(at);
    if (way) shown = atol(way);
    if (deep && atoi(deep) > 0 && atoi(deep) <= DEEPEST - OURS) depth = atoi(deep);
    list_path = getenv("FAIL_LIST");
    if (list_path && !*list_path) list_path = NULL;
}

/* ---- what is not given back ---- */

/* Blocks that are there, by address, and the calls that made them: a hash table without gaps in its runs. */
static struct {
    const void *block;
    long call;
} blocks[BLOCKS];
static long handles[1 << 10]; /* by file: the call that opened it, and 1 more; 0: it is closed */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static unsigned home_of(const void *block) {
    return (unsigned)((uintptr_t)block * 0x9e3779b97f4a7c15ULL >> 40) % BLOCKS;
}

static void note_block(const void *block, long call) {
    if (!block) return;
    pthread_mutex_lock(&lock);
    unsigned at = home_of(block), tried = 0;
    while (blocks[at].block && tried++ < BLOCKS) at = (at + 1) % BLOCKS;
    if (tried >= BLOCKS) abort(); /* the table is to be larger */
    blocks[at].block = block, blocks[at].call = call;
    pthread_mutex_unlock(&lock);
}

static void forget_block(const void *block) {
    if (!block) return;
    pthread_mutex_lock(&lock);
    unsigned at = home_of(block);
    while (blocks[at].block && blocks[at].block != block) at = (at + 1) % BLOCKS;
    for (unsigned next = at; blocks[at].block;) { /* what follows moves up, where it may */
        next = (next + 1) % BLOCKS;
        unsigned home = home_of(blocks[next].block);
        if (blocks[next].block && (next - home) % BLOCKS < (next - at) % BLOCKS) continue;
        blocks[at] = blocks[next];
        if (!blocks[next].block) break;
        at = next;
    }
    pthread_mutex_unlock(&lock);
}

/* Says what is left; false: nothing is. */
static bool any_left(void) {
    long left = 0, first = -1;
    for (unsigned i = 0; i < BLOCKS; i++)
        if (blocks[i].block && ++left && (first < 0 || blocks[i].call < first)) first = blocks[i].call;
    if (left) fprintf(stderr, "%ld blocks are left, the first of call %ld\n", left, first);
    for (unsigned i = 0; i < sizeof handles / sizeof *handles; i++)
        if (handles[i] && ++left) fprintf(stderr, "file %u is open since call %ld\n", i, handles[i] - 1);
    return left != 0;
}

__attribute__((destructor)) static void end(void) {
    FILE *file = list_path ? fopen(list_path, "w") : NULL;
    for (unsigned i = 0; file && i < way_count && i < WAYS; i++) fprintf(file, "%ld\n", (long)firsts[i]);
    if (file) fclose(file);
    if (any_left()) _exit(LEAK_CODE);
}

/* ---- the call that fails ---- */

__attribute__((noinline)) static void note_way(long number) {
    void *frames[DEEPEST];
    int count = backtrace(frames, OURS + depth);
    unsigned long long hash = 14695981039346656037ULL;
    for (int i = OURS; i < count; i++) hash = (hash ^ (uintptr_t)frames[i]) * 1099511628211ULL;
    hash += !hash;
    for (unsigned at = (unsigned)(hash >> 40) % WAYS;; at = (at + 1) % WAYS) {
        unsigned long long none = 0;
        if (atomic_compare_exchange_strong(&ways[at], &none, hash)) {
            unsigned n = way_count++;
            if (n < WAYS / 2) firsts[n] = number;
            return;
        }
        if (none == hash) return;
    }
}

static _Thread_local long this_call; /* the number of the thread's last */

/* Is this the call that fails? */
__attribute__((noinline)) static bool fails(int error) {
    long number = this_call = atomic_fetch_add(&calls, 1);
    if (list_path) note_way(number);
    if (number == shown) {
        void *frames[DEEPEST];
        backtrace_symbols_fd(frames, backtrace(frames, DEEPEST), 2);
    }
    if (number == failing) errno = error;
    return number == failing;
}

#define WRAP(result, call, parameters, arguments, error, failure)                                            \
    result __real_##call parameters;                                                                         \
    result __wrap_##call parameters;                                                                         \
    result __wrap_##call parameters {                                                                        \
        if (fails(error)) return failure;                                                                    \
        return __real_##call arguments;                                                                      \
    }
#define WRAP_FILE(result, call, parameters, arguments, error)                                                \
    result __real_##call parameters;                                                                         \
    result __wrap_##call parameters;                                                                         \
    result __wrap_##call parameters {                                                                        \
        if (file > 2 && fails(error)) return -1;                                                             \
        return __real_##call arguments;                                                                      \
    }

#define WRAP_BLOCK(result, call, parameters, arguments, before)                                              \
    result __real_##call parameters;                                                                         \
    result __wrap_##call parameters;                                                                         \
    result __wrap_##call parameters {                                                                        \
        if (fails(ENOMEM)) return NULL;                                                                      \
        long made_by = this_call;                                                                            \
        forget_block(before);                                                                                \
        result block_made = __real_##call arguments;                                                         \
        note_block(block_made, made_by);                                                                     \
        return block_made;                                                                                   \
    }

WRAP_BLOCK(void *, malloc, (size_t bytes), (bytes), NULL) /* what the compiler makes of realloc of nothing */
WRAP_BLOCK(void *, calloc, (size_t count, size_t size), (count, size), NULL)
WRAP_BLOCK(void *, realloc, (void *block, size_t bytes), (block, bytes), block)
WRAP_BLOCK(void *, aligned_alloc, (size_t align, size_t bytes), (align, bytes), NULL)
WRAP_BLOCK(char *, strdup, (const char *text), (text), NULL)

void __real_free(void *block);
void __wrap_free(void *block);
void __wrap_free(void *block) {
    forget_block(block);
    __real_free(block);
}

static void note_file(int file, long call) {
    if (file >= 0 && file < (int)(sizeof handles / sizeof *handles)) handles[file] = call + 1;
}

int __real_close(int file);
int __wrap_close(int file);
int __wrap_close(int file) {
    note_file(file, -1);
    return __real_close(file);
}

int __real_closedir(DIR *folder);
int __wrap_closedir(DIR *folder);
int __wrap_closedir(DIR *folder) {
    note_file(dirfd(folder), -1);
    return __real_closedir(folder);
}

WRAP(void *, mmap, (void *at, size_t bytes, int may, int flags, int file, off_t from),
     (at, bytes, may, flags, file, from), ENOMEM, MAP_FAILED)

WRAP_FILE(ssize_t, read, (int file, void *into, size_t bytes), (file, into, bytes), EIO)
WRAP_FILE(ssize_t, pread, (int file, void *into, size_t bytes, off_t at), (file, into, bytes, at), EIO)
WRAP_FILE(ssize_t, write, (int file, const void *data, size_t bytes), (file, data, bytes), ENOSPC)
WRAP_FILE(ssize_t, pwrite, (int file, const void *data, size_t bytes, off_t at), (file, data, bytes, at),
          ENOSPC)
WRAP_FILE(int, fsync, (int file), (file), EIO)
WRAP_FILE(int, fdatasync, (int file), (file), EIO)
WRAP_FILE(int, ftruncate, (int file, off_t bytes), (file, bytes), EIO)
WRAP_FILE(int, fstat, (int file, struct stat *into), (file, into), EIO)
WRAP_FILE(off_t, lseek, (int file, off_t at, int whence), (file, at, whence), EIO)
WRAP(int, posix_fallocate, (int file, off_t from, off_t bytes), (file, from, bytes), ENOSPC, ENOSPC)
WRAP(int, rename, (const char *from, const char *to), (from, to), EIO, -1)
WRAP(int, mkdir, (const char *path, mode_t mode), (path, mode), ENOSPC, -1)
WRAP(int, rmdir, (const char *path), (path), EIO, -1)
WRAP(int, unlink, (const char *path), (path), EIO, -1)
WRAP(int, unlinkat, (int folder, const char *path, int flags), (folder, path, flags), EIO, -1)

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...) {
    mode_t mode = 0;
    if (flags & (O_CREAT | O_TMPFILE)) {
        va_list list;
        va_start(list, flags);
        mode = va_arg(list, mode_t);
        va_end(list);
    }
    if (fails(EMFILE)) return -1;
    long opened_by = this_call;
    int file = __real_open(path, flags, mode);
    note_file(file, opened_by);
    return file;
}
