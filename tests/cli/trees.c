#define _GNU_SOURCE
#include "cli/trees.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <string.h>

#include "io/scratch.h"

void tree_remove(const char *path) {
    if (nftw(path, scratch_remove_one, 16, FTW_DEPTH | FTW_PHYS) != 0 && errno != ENOENT)
        fail_msg("%s can't be removed: %s", path, strerror(errno));
}

static bool is_left_out(const char *name, const char *const *except) {
    for (; *except; except++)
        if (fnmatch(*except, name, 0) == 0) return true;
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static bool same_bytes(const char *one, const char *other) {
    static char a[1 << 16], b[1 << 16];
    FILE *first = fopen(one, "rb"), *second = fopen(other, "rb");
    bool same = first && second;
    for (size_t count = 1; same && count > 0;) {
        count = fread(a, 1, sizeof a, first);
        same = fread(b, 1, sizeof b, second) == count && memcmp(a, b, count) == 0;
    }
    if (first) fclose(first);
    if (second) fclose(second);
    return same;
}

/* All that is in `one` is in `other` as well; the bytes of files are compared where `bytes` says so. */
static bool is_held(const char *one, const char *other, const char *const *except, bool bytes,
                    char *different, unsigned size) {
    char from[PATH_MAX], to[PATH_MAX];
    struct stat a, b;
    bool same = true;
    DIR *folder = opendir(one);
    if (!folder) snprintf(different, size, "%s: %s", one, strerror(errno));
    if (!folder) return false;
    for (struct dirent *e; same && (e = readdir(folder));) {
        if (is_left_out(e->d_name, except)) continue;
        snprintf(from, sizeof from, "%s/%s", one, e->d_name);
        snprintf(to, sizeof to, "%s/%s", other, e->d_name);
        bool there =
            lstat(from, &a) == 0 && lstat(to, &b) == 0 && (a.st_mode & S_IFMT) == (b.st_mode & S_IFMT);
        if (there && S_ISDIR(a.st_mode)) {
            same = is_held(from, to, except, bytes, different, size);
            continue;
        }
        same = there && (!bytes || same_bytes(from, to));
        if (!same) snprintf(different, size, "%s is not %s", from, to);
    }
    closedir(folder);
    return same;
}

bool tree_same(const char *one, const char *other, const char *const *except, char *different,
               unsigned size) {
    struct stat about;
    snprintf(different, size, "%s is not %s", one, other);
    if (lstat(one, &about) == 0 && S_ISREG(about.st_mode)) return same_bytes(one, other);
    return is_held(one, other, except, true, different, size) &&
           is_held(other, one, except, false, different, size);
}
