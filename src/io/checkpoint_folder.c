#include "io/checkpoint_folder.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "io/file.h"

static const char PREFIX[] = "checkpoint-", PARTIAL[] = ".partial", REMOVED[] = ".removed";

/* "checkpoint-12" gives 12 and what follows the number; false for other names, also with leading zeros. */
static bool read_name(const char *name, int64_t *step, const char **ending) {
    if (strncmp(name, PREFIX, sizeof PREFIX - 1) != 0) return false;
    const char *digits = name + sizeof PREFIX - 1;
    size_t count = strspn(digits, "0123456789");
    if (count < 1 || count > 18 || (digits[0] == '0' && count > 1)) return false;
    *step = strtoll(digits, NULL, 10);
    *ending = digits + count;
    return true;
}

static status name_of(const char *out, int64_t step, const char *ending, char path[CHECKPOINT_PATH_BYTES]) {
    int length = snprintf(path, CHECKPOINT_PATH_BYTES, "%s/%s%" PRId64 "%s", out, PREFIX, step, ending);
    if (length >= CHECKPOINT_PATH_BYTES - 32)
        return status_set(STATUS_INVALID, "%.60s... is too long for the name of a folder", out);
    return STATUS_OK;
}

status checkpoint_folder_name(const char *out, int64_t step, char path[CHECKPOINT_PATH_BYTES]) {
    return name_of(out, step, "", path);
}

/* ---- looking ---- */

static int larger_first(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x < y) - (x > y);
}

/* Those whose name ends in `ending`. */
static status list(const char *out, const char *ending, int64_t **steps, uint32_t *count) {
    *steps = NULL;
    *count = 0;
    uint32_t room = 0;
    DIR *folder = opendir(out);
    if (!folder) {
        if (errno == ENOENT) return STATUS_OK;
        return status_set(STATUS_INVALID, "cannot read the folder %s: %s", out, strerror(errno));
    }
    status result = STATUS_OK;
    for (struct dirent *item; result == STATUS_OK && (item = readdir(folder));) {
        int64_t step;
        const char *rest;
        if (!read_name(item->d_name, &step, &rest) || strcmp(rest, ending) != 0) continue;
        if (*count == room) {
            room = room ? 2 * room : 8;
            int64_t *more = memory_resize(*steps, room, sizeof **steps);
            if (!more) {
                result = status_set(STATUS_FAILED, "no memory to list %s", out);
                break;
            }
            *steps = more;
        }
        (*steps)[(*count)++] = step;
    }
    closedir(folder);
    if (*count) qsort(*steps, *count, sizeof **steps, larger_first);
    if (result != STATUS_OK) {
        memory_free(*steps);
        *steps = NULL;
        *count = 0;
    }
    return result;
}

status checkpoint_folder_list(const char *out, int64_t **steps, uint32_t *count) {
    return list(out, "", steps, count);
}

/* ---- making and removing ---- */

status checkpoint_folder_partial(const char *out, int64_t step, char path[CHECKPOINT_PATH_BYTES]) {
    return name_of(out, step, PARTIAL, path);
}

status checkpoint_folder_begin(const char *out, int64_t step, char path[CHECKPOINT_PATH_BYTES]) {
    TRY(name_of(out, step, PARTIAL, path));
    TRY(io_remove_folder(path));
    return io_make_folder(path);
}

static status remove_one(const char *out, int64_t step) {
    char path[CHECKPOINT_PATH_BYTES], doomed[CHECKPOINT_PATH_BYTES];
    TRY(name_of(out, step, "", path));
    TRY(name_of(out, step, REMOVED, doomed));
    TRY(io_remove_folder(doomed));
    TRY(io_rename(path, doomed));
    return io_remove_folder(doomed);
}

status checkpoint_folder_commit(const char *out, int64_t step) {
    char path[CHECKPOINT_PATH_BYTES], made[CHECKPOINT_PATH_BYTES];
    TRY(name_of(out, step, "", path));
    TRY(name_of(out, step, PARTIAL, made));
    if (access(path, F_OK) == 0) TRY(remove_one(out, step));
    return io_rename(made, path);
}

status checkpoint_folder_keep(const char *out, int64_t step, int64_t keep) {
    int64_t *steps;
    uint32_t count;
    TRY(checkpoint_folder_list(out, &steps, &count));
    status result = STATUS_OK;
    for (uint32_t i = 0; i < count && result == STATUS_OK; i++)
        if (steps[i] <= step && keep-- <= 0) result = remove_one(out, steps[i]);
    memory_free(steps);
    return result;
}

status checkpoint_folder_clean(const char *out) {
    static const char *const endings[] = { PARTIAL, REMOVED };
    status result = STATUS_OK;
    for (int e = 0; e < 2 && result == STATUS_OK; e++) {
        int64_t *steps;
        uint32_t count;
        TRY(list(out, endings[e], &steps, &count));
        for (uint32_t i = 0; i < count && result == STATUS_OK; i++) {
            char path[CHECKPOINT_PATH_BYTES];
            result = name_of(out, steps[i], endings[e], path);
            if (result == STATUS_OK) result = io_remove_folder(path);
        }
        memory_free(steps);
    }
    return result;
}
