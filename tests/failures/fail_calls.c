/* The program, in which one call for memory or to a file fails: linked with --wrap for each of them, so that
 * every such call comes here first. FAIL_CALL=N: call N (from 0) fails, as on a machine without memory or
 * with a full or broken disk, and all others work. FAIL_LIST=FILE: at the end the numbers of those calls are
 * written there that came from a place, and by a way, that none before came from; FAIL_DEPTH: how many
 * callers make a way (6).
 *
 * What goes to a terminal, a pipe or an inherited file (descriptors up to 2) does not fail. */
#define _GNU_SOURCE
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
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

enum { WAYS = 1 << 14, DEEPEST = 32, OURS = 3 /* frames of this file */ };

static atomic_long calls;
static long failing = -1;
static const char *list_path;
static int depth = 6;
static atomic_ullong ways[WAYS]; /* a hash table; 0: free */
static atomic_long firsts[WAYS];
static atomic_uint way_count;

__attribute__((constructor)) static void begin(void) {
    const char *at = getenv("FAIL_CALL"), *deep = getenv("FAIL_DEPTH");
    if (at) failing = atol(at);
    if (deep && atoi(deep) > 0 && atoi(deep) <= DEEPEST - OURS) depth = atoi(deep);
    list_path = getenv("FAIL_LIST");
    if (list_path && !*list_path) list_path = NULL;
}

__attribute__((destructor)) static void end(void) {
    FILE *file = list_path ? fopen(list_path, "w") : NULL;
    if (!file) return;
    for (unsigned i = 0; i < way_count && i < WAYS; i++) fprintf(file, "%ld\n", (long)firsts[i]);
    fclose(file);
}

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

/* Is this the call that fails? Then it says which way it came, on stderr, where FAIL_WAY is set. */
__attribute__((noinline)) static bool fails(int error) {
    long number = atomic_fetch_add(&calls, 1);
    if (list_path) note_way(number);
    if (number != failing) return false;
    if (getenv("FAIL_WAY")) {
        void *frames[DEEPEST];
        backtrace_symbols_fd(frames, backtrace(frames, DEEPEST), 2);
    }
    errno = error;
    return true;
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

WRAP(void *, calloc, (size_t count, size_t size), (count, size), ENOMEM, NULL)
WRAP(void *, realloc, (void *block, size_t bytes), (block, bytes), ENOMEM, NULL)
WRAP(void *, aligned_alloc, (size_t align, size_t bytes), (align, bytes), ENOMEM, NULL)
WRAP(char *, strdup, (const char *text), (text), ENOMEM, NULL)
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
    return __real_open(path, flags, mode);
}
