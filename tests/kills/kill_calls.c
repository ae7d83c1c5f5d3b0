/* The program, killed between any two calls of the system that change a file: linked with --wrap for each of
 * them, so that every such call comes here first. KILL_CALL=N: SIGKILL comes in place of call N (from 0), and
 * a write stops in the middle. KILL_COUNT=FILE: how many there were is written there at the end.
 *
 * What goes to a terminal, a pipe or an inherited file (descriptors up to 2) is not counted. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static atomic_long calls;
static long last = -1; /* the one that does not happen */

__attribute__((constructor)) static void begin(void) {
    const char *at = getenv("KILL_CALL");
    if (at) last = atol(at);
}

__attribute__((destructor)) static void end(void) {
    const char *path = getenv("KILL_COUNT");
    FILE *file = path ? fopen(path, "w") : NULL;
    if (!file) return;
    fprintf(file, "%ld\n", (long)atomic_load(&calls));
    fclose(file);
}

/* Is this call the last? Then nothing more happens in any thread, but for half a write. */
static bool is_last(void) { return atomic_fetch_add(&calls, 1) == last; }

static void die(void) {
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

static void count(void) {
    if (is_last()) die();
}

#define WRAP(result, call, parameters, arguments)                                                            \
    result __real_##call parameters;                                                                         \
    result __wrap_##call parameters;                                                                         \
    result __wrap_##call parameters {                                                                        \
        count();                                                                                             \
        return __real_##call arguments;                                                                      \
    }

WRAP(int, fsync, (int file), (file))
WRAP(int, fdatasync, (int file), (file))
WRAP(int, ftruncate, (int file, off_t bytes), (file, bytes))
WRAP(int, rename, (const char *from, const char *to), (from, to))
WRAP(int, mkdir, (const char *path, mode_t mode), (path, mode))
WRAP(int, rmdir, (const char *path), (path))
WRAP(int, unlink, (const char *path), (path))
WRAP(int, unlinkat, (int folder, const char *path, int flags), (folder, path, flags))
WRAP(int, posix_fallocate, (int file, off_t from, off_t bytes), (file, from, bytes))

ssize_t __real_write(int file, const void *data, size_t bytes);
ssize_t __wrap_write(int file, const void *data, size_t bytes);
ssize_t __wrap_write(int file, const void *data, size_t bytes) {
    if (file > 2 && is_last()) {
        if (bytes > 1 && __real_write(file, data, bytes / 2) < 0) die();
        die();
    }
    return __real_write(file, data, bytes);
}

ssize_t __real_pwrite(int file, const void *data, size_t bytes, off_t at);
ssize_t __wrap_pwrite(int file, const void *data, size_t bytes, off_t at);
ssize_t __wrap_pwrite(int file, const void *data, size_t bytes, off_t at) {
    count();
    return __real_pwrite(file, data, bytes, at);
}

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
    if (flags & (O_CREAT | O_TRUNC)) count();
    return __real_open(path, flags, mode);
}
