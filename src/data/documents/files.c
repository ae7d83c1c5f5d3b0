#include "data/documents/files.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/memory.h"
#include "base/units.h"
#include "data/folder.h"

enum { DEPTH = 32 };

/* ---- weights ---- */

/* "nan" and "inf" too: who writes them means a weight, and is told that it is none. */
static bool is_number(const char *text) {
    static const char *const words[] = { "nan", "inf", "infinity" };
    char *end;
    const char *word = text + (*text == '-' || *text == '+');
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcasecmp(word, words[i]) == 0) return true;
    return *text && strspn(text, "+-.0123456789eE") == strlen(text) && (strtod(text, &end), *end == 0);
}

/* "a.txt:0,7": what stands before the colon is there, and the whole is not. */
static status check_word(const char *word, const char *name, const char *colon) {
    char path[4096];
    struct stat about;
    size_t length = colon ? (size_t)(colon - word) : 0;
    if (!length || length >= sizeof path || is_number(colon + 1) || stat(word, &about) == 0) return STATUS_OK;
    memcpy(path, word, length);
    path[length] = 0;
    if (stat(path, &about) != 0) return STATUS_OK;
    return status_set(STATUS_INVALID, "%s %s: there is %s, but '%.40s' behind it is no weight such as 0.7",
                      name, word, path, colon + 1);
}

status document_files_weight(const char *word, const char *name, char *path, uint64_t bytes, double *weight) {
    struct stat about;
    const char *colon = strrchr(word, ':');
    TRY(check_word(word, name, colon));
    if (!colon || colon == word || !is_number(colon + 1) || stat(word, &about) == 0) colon = NULL;
    size_t length = colon ? (size_t)(colon - word) : strlen(word);
    *weight = 1;
    if (!length || length >= bytes)
        return status_set(STATUS_INVALID, "%s: a path has 1 to %llu bytes, not %zu", name,
                          (unsigned long long)bytes - 1, length);
    memcpy(path, word, length);
    path[length] = 0;
    if (!colon) return STATUS_OK;
    *weight = strtod(colon + 1, NULL);
    if (*weight > 0 && isfinite(*weight)) return STATUS_OK;
    return status_set(STATUS_INVALID, "%s: the weight of %s is %.40s; it has to be a number above 0", name,
                      path, colon + 1);
}

/* ---- folders ---- */

static status no_memory(const char *path) {
    return status_set(STATUS_FAILED, "%s: no memory for the names of its files", path);
}

/* Takes `path`, also when it fails. */
static status add_file(document_files *files, char *path, document_format wanted) {
    document_format format = wanted == DOCUMENT_AUTO ? document_format_of(path) : wanted;
    status result = STATUS_OK;
    if (files->count && format != files->format)
        result = status_set(STATUS_INVALID,
                            "%s holds %s but %s holds %s by their names; put files of one kind into "
                            "a folder of their own",
                            files->paths[0], document_format_name(files->format), path,
                            document_format_name(format));
    if (result == STATUS_OK && files->count == files->capacity) {
        uint32_t larger = files->capacity ? files->capacity * 2 : 16;
        char **paths = memory_resize(files->paths, larger, sizeof *paths);
        if (!paths) result = no_memory(path);
        if (paths) {
            files->held_bytes += (larger - files->capacity) * sizeof *paths;
            files->paths = paths, files->capacity = larger;
        }
    }
    if (result != STATUS_OK) {
        memory_free(path);
        return result;
    }
    files->format = format;
    files->held_bytes += strlen(path) + 1;
    files->paths[files->count++] = path;
    return STATUS_OK;
}

/* A folder that is being walked through. */
typedef struct {
    document_files *files;
    document_format wanted;
    int depth;
} walk;

static status add_folder(const walk *w, const char *folder);

/* Takes `path`. What is neither a folder nor a regular file is left out. */
static status add_inside(void *context, char *path) {
    const walk *w = context;
    struct stat about;
    status result = STATUS_OK;
    if (stat(path, &about) != 0)
        result = status_set(STATUS_INVALID, "cannot open the data %s: %s", path, strerror(errno));
    else if (S_ISREG(about.st_mode))
        return add_file(w->files, path, w->wanted);
    else if (S_ISDIR(about.st_mode))
        result = add_folder(w, path);
    memory_free(path);
    return result;
}

static status add_folder(const walk *w, const char *folder) {
    walk inside = *w;
    if (++inside.depth > DEPTH)
        return status_set(STATUS_INVALID, "%s lies more than %d folders deep; is there a link to above?",
                          folder, DEPTH);
    return folder_list(folder, add_inside, &inside);
}

status document_files_open(const char *path, document_format format, document_files *files) {
    *files = (document_files){ 0 };
    char *copy = memory_text(path);
    if (!copy) return no_memory(path);
    status result = add_inside(&(walk){ files, format, 0 }, copy);
    if (result == STATUS_OK && !files->count)
        result = status_set(STATUS_INVALID, "%s holds no file that can be read as data", path);
    if (result != STATUS_OK) document_files_close(files);
    return result;
}

void document_files_close(document_files *files) {
    for (uint32_t i = 0; i < files->count; i++) memory_free(files->paths[i]);
    memory_free(files->paths);
    *files = (document_files){ 0 };
}
