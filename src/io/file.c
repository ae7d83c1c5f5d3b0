#define _GNU_SOURCE
#include "io/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/memory.h"

/* Bytes of one system call: bounded, since the kernel caps a call below 2 GiB and a piece is one chance to
 * stop. */
enum { PIECE_BYTES = 16 << 20 };

static status io_failed(const char *what, const char *path) {
    const char *hint = errno == ENOSPC || errno == EDQUOT ? "; free some space or choose another folder" : "";
    return status_set(STATUS_FAILED, "cannot %s %s: %s%s", what, path, strerror(errno), hint);
}

status io_open(const char *path, int *file, uint64_t *bytes) {
    *file = -1;
    /* Without O_NONBLOCK a pipe would wait for its other end. */
    int opened = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (opened < 0) return status_set(STATUS_INVALID, "cannot open %s: %s", path, strerror(errno));
    struct stat about;
    if (fstat(opened, &about) != 0 || !S_ISREG(about.st_mode)) {
        close(opened);
        return status_set(STATUS_INVALID, "%s is %s; a regular file is needed", path,
                          S_ISDIR(about.st_mode) ? "a folder" : "a device, a pipe or a socket");
    }
    *file = opened;
    *bytes = (uint64_t)about.st_size;
    return STATUS_OK;
}

status io_read_at(int file, const char *path, uint64_t offset, void *into, uint64_t bytes) {
    char *to = into;
    uint64_t done = 0;
    while (done < bytes) {
        size_t piece = bytes - done < PIECE_BYTES ? (size_t)(bytes - done) : PIECE_BYTES;
        ssize_t n = pread(file, to + done, piece, (off_t)(offset + done));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0)
            return status_set(STATUS_FAILED, "cannot read %s at byte %llu: %s", path,
                              (unsigned long long)(offset + done), strerror(errno));
        if (n == 0)
            return status_set(STATUS_INVALID, "%s ends at byte %llu, %llu bytes too early", path,
                              (unsigned long long)(offset + done), (unsigned long long)(bytes - done));
        done += (uint64_t)n;
    }
    return STATUS_OK;
}

status io_read_file(const char *path, uint64_t limit, char **data, uint64_t *bytes) {
    int file;
    uint64_t size;
    char *read = NULL;
    TRY(io_open(path, &file, &size));
    status result = STATUS_OK;
    if (size > limit)
        result = status_set(STATUS_INVALID, "%s has %llu bytes; at most %llu are read", path,
                            (unsigned long long)size, (unsigned long long)limit);
    else if (!(read = memory_new((size_t)size + 1, 1)))
        result = status_set(STATUS_FAILED, "%s: no memory for %llu bytes", path, (unsigned long long)size);
    else
        result = io_read_at(file, path, 0, read, size);
    close(file);
    if (result != STATUS_OK) {
        memory_free(read);
        return result;
    }
    *data = read;
    *bytes = size;
    return STATUS_OK;
}

status io_pass_file(const char *path, status (*take)(void *context, const void *piece, uint64_t bytes),
                    void *context, uint64_t *bytes) {
    char piece[32 << 10]; /* on the stack: sums are taken where no memory was planned */
    int file;
    TRY(io_open(path, &file, bytes));
    status result = STATUS_OK;
    for (uint64_t at = 0; at < *bytes && result == STATUS_OK;) {
        uint64_t n = *bytes - at < sizeof piece ? *bytes - at : sizeof piece;
        result = io_read_at(file, path, at, piece, n);
        if (result == STATUS_OK) result = take(context, piece, n);
        at += n;
    }
    close(file);
    return result;
}

static status take_digest(void *context, const void *piece, uint64_t bytes) {
    digest_add(context, piece, bytes);
    return STATUS_OK;
}

static status take_checksum(void *context, const void *piece, uint64_t bytes) {
    checksum_add(context, piece, bytes);
    return STATUS_OK;
}

status io_sum_file(const char *path, bool early, io_sum *sum) {
    digest d = digest_begin();
    checksum c = checksum_begin();
    *sum = (io_sum){ .early = early };
    status result = early ? io_pass_file(path, take_digest, &d, &sum->bytes)
                          : io_pass_file(path, take_checksum, &c, &sum->bytes);
    sum->sum = early ? digest_value(&d) : checksum_value(&c);
    return result;
}

bool io_sum_equal(const io_sum *a, const io_sum *b) {
    return a->bytes == b->bytes && a->sum == b->sum && a->early == b->early;
}

/* Makes what happened to the names in the folder of `path` durable. */
static status sync_parent(const char *path) {
    const char *slash = strrchr(path, '/');
    char *folder = memory_text(slash ? path : ".");
    if (!folder) return status_set(STATUS_FAILED, "cannot sync the folder of %s: no memory", path);
    if (slash) folder[slash == path ? 1 : slash - path] = '\0';
    status result = STATUS_OK;
    int handle = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    /* Some file systems cannot sync folders and say so; there is nothing more to be done on them. */
    if (handle < 0 || (fsync(handle) != 0 && errno != EINVAL && errno != ENOTSUP))
        result = io_failed("sync the folder", folder);
    if (handle >= 0) close(handle);
    memory_free(folder);
    return result;
}

static void writer_end(io_writer *w) {
    if (w->file >= 0) close(w->file);
    memory_free(w->path);
    memory_free(w->temporary);
    *w = (io_writer){ .file = -1 };
}

/* Takes the temporary name for this writer alone. The lock goes with the file, not with the name: who gets it
 * must look whether the name still means this file, the last owner may have renamed it to the target. */
static status writer_claim(io_writer *w) {
    w->file = open(w->temporary, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0666);
    if (w->file < 0) return io_failed("create", w->temporary);
    struct stat mine, named;
    bool locked = flock(w->file, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
    if (fstat(w->file, &mine) != 0 || !S_ISREG(mine.st_mode))
        return status_set(STATUS_FAILED, "cannot write %s: it is not a regular file", w->temporary);
    if (!locked || lstat(w->temporary, &named) != 0 || mine.st_ino != named.st_ino ||
        mine.st_dev != named.st_dev)
        return status_set(STATUS_FAILED, "cannot write %s: another writer is at it", w->path);
    if (ftruncate(w->file, 0) != 0) return io_failed("empty", w->temporary);
    return STATUS_OK;
}

/* Renaming would put a file in the place of a device, or of a link to one. */
static status check_replaceable(const char *path) {
    struct stat about;
    if (stat(path, &about) != 0 || S_ISREG(about.st_mode)) return STATUS_OK;
    return status_set(STATUS_INVALID, "cannot write %s: %s is no regular file; choose another name", path,
                      path);
}

status io_writer_open(io_writer *w, const char *path) {
    *w = (io_writer){ .file = -1, .sum = checksum_begin() };
    TRY(check_replaceable(path));
    size_t length = strlen(path);
    w->path = memory_text(path);
    w->temporary = memory_new(length + sizeof ".partial", 1);
    status result;
    if (!w->path || !w->temporary) {
        result = status_set(STATUS_FAILED, "cannot write %s: no memory", path);
    } else {
        memcpy(w->temporary, path, length);
        memcpy(w->temporary + length, ".partial", sizeof ".partial");
        result = writer_claim(w);
    }
    if (result != STATUS_OK) writer_end(w);
    return result;
}

status io_writer_add(io_writer *w, const void *data, uint64_t bytes) {
    const char *from = data;
    while (bytes > 0) {
        ssize_t n = write(w->file, from, bytes < PIECE_BYTES ? (size_t)bytes : PIECE_BYTES);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            int reason = errno;
            char what[64];
            snprintf(what, sizeof what, "write past byte %llu of", (unsigned long long)w->written);
            errno = reason;
            return io_failed(what, w->path);
        }
        checksum_add(&w->sum, from, (uint64_t)n);
        from += n;
        bytes -= (uint64_t)n;
        w->written += (uint64_t)n;
    }
    return STATUS_OK;
}

status io_writer_commit(io_writer *w) {
    status result = STATUS_OK;
    if (fsync(w->file) != 0)
        result = io_failed("sync", w->temporary);
    else if (rename(w->temporary, w->path) != 0)
        result = io_failed("replace", w->path);
    if (result != STATUS_OK) {
        io_writer_discard(w);
        return result;
    }
    result = sync_parent(w->path);
    writer_end(w);
    return result;
}

void io_writer_discard(io_writer *w) {
    if (!w->temporary) return;
    unlink(w->temporary); /* while the lock is held */
    writer_end(w);
}

status io_check_target(const char *folder, const char *name) {
    int handle = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct stat about;
    bool there = handle >= 0 && fstatat(handle, name, &about, AT_SYMLINK_NOFOLLOW) == 0;
    if (handle >= 0) close(handle);
    if (!there || S_ISREG(about.st_mode) || S_ISLNK(about.st_mode)) return STATUS_OK;
    return status_set(STATUS_INVALID,
                      "cannot write %s/%s: %s has that name; move it away or choose another folder", folder,
                      name, S_ISDIR(about.st_mode) ? "a folder" : "something that is no file");
}

status io_check_file(const char *path) {
    TRY(check_replaceable(path));
    char *folder = memory_text(path);
    if (!folder) return status_set(STATUS_FAILED, "cannot look at %s: no memory", path);
    char *slash = strrchr(folder, '/');
    if (slash) slash[1] = '\0'; /* with the slash, so that a file is no folder */
    status result = STATUS_OK;
    if (access(slash ? folder : ".", W_OK | X_OK) != 0)
        result = status_set(STATUS_INVALID, "cannot write %s: %s: %s; choose another place", path,
                            slash ? folder : "this folder", strerror(errno));
    memory_free(folder);
    return result;
}

status io_write_file(const char *path, const void *data, size_t bytes) {
    io_writer w;
    TRY(io_writer_open(&w, path));
    status result = io_writer_add(&w, data, bytes);
    if (result == STATUS_OK) return io_writer_commit(&w);
    io_writer_discard(&w);
    return result;
}

static status make_one(const char *path) {
    if (mkdir(path, 0777) == 0) return sync_parent(path);
    int reason = errno;
    struct stat about;
    if (stat(path, &about) == 0) {
        if (S_ISDIR(about.st_mode)) return STATUS_OK;
        return status_set(STATUS_INVALID,
                          "cannot make the folder %s: a file has that name; choose another name or remove it",
                          path);
    }
    errno = reason;
    if (reason == ENOSPC || reason == EDQUOT || reason == EIO) return io_failed("make the folder", path);
    return status_set(STATUS_INVALID, "cannot make the folder %s: %s; choose another place", path,
                      reason == EEXIST ? "it is a link that leads nowhere" : strerror(reason));
}

bool io_is_same(const char *path, const char *other) {
    struct stat x, y;
    return stat(path, &x) == 0 && stat(other, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

status io_make_folder(const char *path) {
    if (!*path) return status_set(STATUS_INVALID, "cannot make a folder without a name");
    if (strlen(path) >= PATH_MAX) /* before some of those above it are made */
        return status_set(STATUS_INVALID, "cannot make the folder %s: the name is too long", path);
    char *part = memory_text(path);
    if (!part) return status_set(STATUS_FAILED, "cannot make the folder %s: no memory", path);
    size_t length = strlen(part);
    while (length > 1 && part[length - 1] == '/') part[--length] = '\0';
    status result = STATUS_OK;
    for (char *slash = strchr(part + 1, '/'); slash && result == STATUS_OK; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        result = make_one(part);
        *slash = '/';
    }
    if (result == STATUS_OK) result = make_one(part);
    memory_free(part);
    return result;
}

status io_check_folder(const char *path) {
    char *part = memory_text(*path ? path : ".");
    if (!part) return status_set(STATUS_FAILED, "cannot look at %s: no memory", path);
    struct stat about;
    while (stat(part, &about) != 0 && errno == ENOENT) { /* on to what is above it */
        char *slash = strrchr(part, '/');
        if (slash) slash[slash == part] = '\0';
        if (!slash) strcpy(part, ".");
    }
    status result = STATUS_OK;
    if (stat(part, &about) != 0)
        result = status_set(STATUS_INVALID, "cannot write to %s: %s: %s", path, part, strerror(errno));
    else if (!S_ISDIR(about.st_mode))
        result = status_set(STATUS_INVALID, "cannot write to %s: %s is no folder", path, part);
    else if (access(part, W_OK | X_OK) != 0)
        result = status_set(STATUS_INVALID, "cannot write to %s: %s: %s", path, part, strerror(errno));
    memory_free(part);
    return result;
}

status io_rename(const char *from, const char *to) {
    if (rename(from, to) != 0)
        return status_set(STATUS_FAILED, "cannot rename %s to %s: %s", from, to, strerror(errno));
    return sync_parent(to);
}

/* One walk over the names in an open folder: refuses folders inside, or removes the files. */
static status folder_walk(DIR *folder, const char *path, bool removes) {
    rewinddir(folder);
    for (struct dirent *item; (item = readdir(folder));) {
        if (strcmp(item->d_name, ".") == 0 || strcmp(item->d_name, "..") == 0) continue;
        struct stat about;
        if (fstatat(dirfd(folder), item->d_name, &about, AT_SYMLINK_NOFOLLOW) != 0)
            return io_failed("read", path);
        if (S_ISDIR(about.st_mode))
            return status_set(STATUS_FAILED, "%s is not removed: it has a folder inside (%s)", path,
                              item->d_name);
        if (removes && unlinkat(dirfd(folder), item->d_name, 0) != 0)
            return io_failed("remove files in", path);
    }
    return STATUS_OK;
}

status io_remove_folder(const char *path) {
    int handle = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (handle < 0) return errno == ENOENT ? STATUS_OK : io_failed("remove the folder", path);
    DIR *folder = fdopendir(handle);
    if (!folder) {
        close(handle);
        return io_failed("remove the folder", path);
    }
    status result = folder_walk(folder, path, false);
    if (result == STATUS_OK) result = folder_walk(folder, path, true);
    closedir(folder);
    if (result == STATUS_OK && rmdir(path) != 0) result = io_failed("remove the folder", path);
    return result;
}

/* Where the last line that ends in a newline ends. */
static status whole_lines(int file, const char *path, uint64_t bytes, uint64_t *end) {
    char block[4096];
    while (bytes > 0) {
        uint64_t n = bytes < sizeof block ? bytes : sizeof block;
        TRY(io_read_at(file, path, bytes - n, block, n));
        const char *last = memrchr(block, '\n', (size_t)n);
        if (last) {
            *end = bytes - n + (uint64_t)(last - block) + 1;
            return STATUS_OK;
        }
        bytes -= n;
    }
    *end = 0;
    return STATUS_OK;
}

status io_append_open(const char *path, int *file) {
    *file = -1;
    int opened = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666);
    if (opened < 0) return io_failed("open", path);
    struct stat about;
    status result = STATUS_OK;
    uint64_t end = 0;
    if (fstat(opened, &about) != 0 || !S_ISREG(about.st_mode))
        result = status_set(STATUS_FAILED, "cannot write %s: it is not a regular file", path);
    else
        result = whole_lines(opened, path, (uint64_t)about.st_size, &end);
    if (result == STATUS_OK && end != (uint64_t)about.st_size && ftruncate(opened, (off_t)end) != 0)
        result = io_failed("cut the torn last line of", path);
    if (result != STATUS_OK) {
        close(opened);
        return result;
    }
    *file = opened;
    return STATUS_OK;
}

/* Writes all of it at the end of the file. */
static bool append(int file, const char *from, size_t bytes) {
    while (bytes > 0) {
        ssize_t n = write(file, from, bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return false;
        from += n;
        bytes -= (size_t)n;
    }
    return true;
}

status io_append_line(int file, const char *path, const char *line) {
    off_t start = lseek(file, 0, SEEK_END);
    if (append(file, line, strlen(line)) && append(file, "\n", 1)) return STATUS_OK;
    status result = io_failed("add a line to", path);
    if (start >= 0 && ftruncate(file, start) != 0) return status_prefix(result, "a line is torn as well");
    return result;
}
