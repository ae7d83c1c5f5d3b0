#define _GNU_SOURCE
#include "cli/own_data.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "io/file.h"

/* The path from the root, without links as far as it is there. */
static bool resolve(const char *path, char to[PATH_MAX]) {
    char there[PATH_MAX];
    size_t length = strlen(path);
    if (length >= sizeof there) return false;
    memcpy(there, path, length + 1);
    while (!realpath(*there ? there : ".", to)) {
        if (errno != ENOENT || !length) return false;
        while (length && there[length - 1] == '/') length--;
        while (length && there[length - 1] != '/') length--;
        there[length] = 0;
    }
    size_t used = strcmp(to, "/") == 0 ? 0 : strlen(to);
    int more = snprintf(to + used, PATH_MAX - used, "/%s", path + length);
    return more >= 0 && (size_t)more < PATH_MAX - used;
}

/* What follows the folder in the path of a file below it; NULL: it lies elsewhere. */
static const char *inside(const char *folder, const char *file) {
    size_t length = strlen(folder);
    while (length && folder[length - 1] == '/') length--;
    if (strncmp(folder, file, length) != 0 || file[length] != '/') return NULL;
    return file + length + strspn(file + length, "/");
}

status own_data_check(const char *file, const char *data, bool deep) {
    char of_file[PATH_MAX], of_data[PATH_MAX];
    struct stat about;
    if (io_is_same(file, data))
        return status_set(STATUS_INVALID,
                          "--out: %s is one of the data, and would be overwritten; name another place", file);
    if (stat(data, &about) != 0 || !S_ISDIR(about.st_mode)) return STATUS_OK;
    if (!resolve(file, of_file) || !resolve(data, of_data)) return STATUS_OK; /* whoever opens it says why */
    const char *rest = inside(of_data, of_file);
    if (!rest || *rest == '.' || strstr(rest, "/.") || (!deep && strchr(rest, '/'))) return STATUS_OK;
    return status_set(STATUS_INVALID,
                      "--out: %s would lie in the folder %s, whose files are data: the next start would read "
                      "it too; name a place outside of that folder",
                      file, data);
}
