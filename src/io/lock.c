#define _GNU_SOURCE
#include "io/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"

/* Who says to be the owner, "process 4711 on node3"; the file may be empty for an instant. */
static status in_use(const char *path, int file) {
    char said[128] = "", host[96] = "", number[24] = "";
    ssize_t n = pread(file, said, sizeof said - 1, 0);
    if (n > 0 && sscanf(said, "%23[0-9] %95[!-~]", number, host) == 2)
        return status_set(STATUS_INVALID,
                          "%s is held by process %s on %s: another run writes to this folder; wait for it or "
                          "choose another --out",
                          path, number, host);
    return status_set(STATUS_INVALID,
                      "%s is held by another run, which writes to this folder; wait for it or choose another "
                      "--out",
                      path);
}

/* The lock goes with the file, not with its name: an owner that ends removes the name first, and whoever
 * opened it before holds a lock that nobody else will see. */
static bool is_named(int file, const char *path) {
    struct stat mine, named;
    return fstat(file, &mine) == 0 && lstat(path, &named) == 0 && mine.st_ino == named.st_ino &&
           mine.st_dev == named.st_dev;
}

static status claim(lock *l, const char *path, bool *again) {
    *again = false;
    l->file = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0666);
    if (l->file < 0) return status_set(STATUS_INVALID, "cannot make %s: %s", path, strerror(errno));
    /* A file system without locks leaves the folder unguarded rather than unusable. */
    if (flock(l->file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return in_use(path, l->file);
    *again = !is_named(l->file, path);
    return STATUS_OK;
}

status lock_open(const char *path, lock *l) {
    *l = (lock){ .file = -1, .path = memory_text(path) };
    if (!l->path) return status_set(STATUS_FAILED, "%s: no memory", path);
    bool again;
    status result;
    do {
        if (l->file >= 0) close(l->file);
        result = claim(l, path, &again);
    } while (result == STATUS_OK && again);
    if (result != STATUS_OK) {
        if (l->file >= 0) close(l->file);
        memory_free(l->path);
        *l = (lock){ .file = -1 };
        return result;
    }
    char host[96] = "?", said[128];
    gethostname(host, sizeof host - 1);
    int length = snprintf(said, sizeof said, "%ld %s\n", (long)getpid(), host);
    if (ftruncate(l->file, 0) != 0 || pwrite(l->file, said, (size_t)length, 0) != length)
        errno = 0; /* a full disk: the lock holds all the same, only its words are missing */
    return STATUS_OK;
}

void lock_close(lock *l) {
    if (!l->path) return;
    unlink(l->path); /* while it is held */
    close(l->file);
    memory_free(l->path);
    *l = (lock){ .file = -1 };
}

/* A process of this machine that is gone holds nothing: then the lock, which a run may want at this instant,
 * is not touched. */
static bool is_gone(const char *number, const char *host) {
    char here[96] = "?";
    gethostname(here, sizeof here - 1);
    return strcmp(host, here) == 0 && kill((pid_t)atol(number), 0) != 0 && errno == ESRCH;
}

bool lock_is_held(const char *path, char *who, size_t bytes) {
    char said[128] = "", host[96] = "", number[24] = "";
    snprintf(who, bytes, "%s", "");
    int file = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) return false;
    ssize_t n = pread(file, said, sizeof said - 1, 0);
    bool named = n > 0 && sscanf(said, "%23[0-9] %95[!-~]", number, host) == 2;
    bool held =
        !(named && is_gone(number, host)) && flock(file, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    close(file);
    if (held && named) snprintf(who, bytes, "process %s on %s", number, host);
    return held;
}
