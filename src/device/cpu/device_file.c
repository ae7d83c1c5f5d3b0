/* Files of the CPU's own machine: direct transfers, and names that are taken away at once. */
#define _GNU_SOURCE
#include "device/device_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/units.h"
#include "device/device.h"

/* ---- the folder ---- */

static status refuse(const char *folder, const char *why) {
    return status_set(STATUS_INVALID,
                      "cannot move anything to %s: %s; name a folder on a disk that can be written to",
                      folder, why);
}

static bool lies_in_memory(const struct statfs *about) {
    static const unsigned long in_memory[] = { 0x01021994 /* tmpfs */, 0x858458f6 /* ramfs */,
                                               0x958458f6 /* hugetlbfs */ };
    for (size_t i = 0; i < sizeof in_memory / sizeof *in_memory; i++)
        if ((unsigned long)about->f_type == in_memory[i]) return true;
    return false;
}

static status check_room(const char *folder, uint64_t bytes) {
    struct statvfs room;
    if (statvfs(folder, &room) != 0) return refuse(folder, strerror(errno));
    uint64_t left = (uint64_t)room.f_bavail * room.f_frsize;
    char is[UNITS_TEXT_BYTES], need[UNITS_TEXT_BYTES];
    if (bytes <= left) return STATUS_OK;
    return status_set(STATUS_NO_FIT,
                      "the disk of %s has %s left, and the run puts %s there; free some space or "
                      "name another folder",
                      folder, units_bytes_text(left, is), units_bytes_text(bytes, need));
}

status device_file_check(const char *folder, uint64_t bytes) {
    struct stat about;
    struct statfs kind;
    if (strcmp(folder, "host") == 0)
        return refuse(folder, "the device is the host's own processor, and its memory the same");
    if (stat(folder, &about) != 0 || statfs(folder, &kind) != 0) return refuse(folder, strerror(errno));
    if (!S_ISDIR(about.st_mode)) return refuse(folder, "it is no folder");
    if (lies_in_memory(&kind)) return refuse(folder, "it lies in memory, so that nothing would be saved");
    if (access(folder, W_OK | X_OK) != 0) return refuse(folder, strerror(errno));
    return check_room(folder, bytes);
}

/* ---- the file ---- */

/* Where files without a name can't be made, one with a name loses it at once. */
static int open_nameless(const char *folder, int flags) {
    int handle = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC | flags, 0600);
    if (handle >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT)) return handle;
    char path[4096];
    if (snprintf(path, sizeof path, "%s/.snug-%d.moved-out", folder, (int)getpid()) >= (int)sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    handle = open(path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC | flags, 0600);
    if (handle >= 0) unlink(path);
    return handle;
}

status device_file_open(device_file *f, const char *folder, uint64_t bytes) {
    *f = (device_file){ .handle = -1, .bytes = bytes };
    int handle = open_nameless(folder, O_DIRECT);
    if (handle < 0 && errno == EINVAL) handle = open_nameless(folder, 0);
    if (handle < 0) return refuse(folder, strerror(errno));
    int error = posix_fallocate(handle, 0, (off_t)bytes);
    if (error) {
        close(handle);
        char need[UNITS_TEXT_BYTES];
        return status_set(error == ENOSPC || error == EDQUOT ? STATUS_NO_FIT : STATUS_INVALID,
                          "cannot take %s in %s: %s; free some space or name another folder",
                          units_bytes_text(bytes, need), folder, strerror(error));
    }
    f->handle = handle;
    return STATUS_OK;
}

void device_file_close(device_file *f) {
    if (f->handle >= 0) close(f->handle);
    f->handle = -1;
}

uint64_t device_file_size(const device_file *f) {
    struct stat about;
    return fstat(f->handle, &about) == 0 ? (uint64_t)about.st_size : 0;
}

static status broken(const char *what, ssize_t done) {
    return status_set(STATUS_FAILED, "what was moved out of memory cannot be %s: %s", what,
                      done < 0 ? strerror(errno) : "it has become shorter");
}

status device_file_read(const device_file *f, uint64_t at, void *into, uint64_t bytes) {
    while (bytes) {
        ssize_t done = pread(f->handle, into, bytes, (off_t)at);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return broken("read", done);
        into = (char *)into + done, at += (uint64_t)done, bytes -= (uint64_t)done;
    }
    return STATUS_OK;
}

status device_file_write(const device_file *f, uint64_t at, const void *from, uint64_t bytes) {
    while (bytes) {
        ssize_t done = pwrite(f->handle, from, bytes, (off_t)at);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return broken("written", done);
        from = (const char *)from + done, at += (uint64_t)done, bytes -= (uint64_t)done;
    }
    return STATUS_OK;
}

/* ---- its speed ---- */

enum { PIECE = 2 << 20, PIECES = 128 };

static status measure_file(const device_file *f, void *data, device_file_rates *rates) {
    for (int way = 0; way < 3; way++) { /* the first write finds out where the blocks lie */
        double began = clock_seconds();
        for (uint64_t i = 0; i < PIECES; i++)
            TRY(way < 2 ? device_file_write(f, i * PIECE, data, PIECE)
                        : device_file_read(f, i * PIECE, data, PIECE));
        if (way == 1 && fdatasync(f->handle) != 0) return broken("written", -1);
        double rate = (double)PIECE * PIECES / (clock_seconds() - began);
        if (way == 2)
            rates->read = rate;
        else
            rates->written = rate;
    }
    return STATUS_OK;
}

status device_file_measure(const char *folder, device_file_rates *rates) {
    device_file f;
    device_pool memory;
    TRY(device_file_check(folder, (uint64_t)PIECE * PIECES));
    TRY(device_pool_open(&memory, PIECE));
    status result = device_file_open(&f, folder, (uint64_t)PIECE * PIECES);
    if (result == STATUS_OK) result = measure_file(&f, memory.data, rates);
    device_file_close(&f);
    device_pool_close(&memory);
    return result;
}
