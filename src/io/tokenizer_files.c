#include "io/tokenizer_files.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "io/file.h"

enum { PATH_BYTES = 4096, PIECE_BYTES = 32 << 10 };

/* The first are enough to make tokens of text, alone or with the one beside them. */
static const struct {
    const char *name, *beside;
    bool makes_tokens;
} known[] = { { "tokenizer.json", NULL, true },
              { "tokenizer.model", NULL, true },
              { "spiece.model", NULL, true },
              { "sentencepiece.bpe.model", NULL, true },
              { "tekken.json", NULL, true },
              { "vocab.json", "merges.txt", true },
              { "vocab.txt", NULL, true },
              { "merges.txt", NULL, false },
              { "tokenizer_config.json", NULL, false },
              { "special_tokens_map.json", NULL, false },
              { "added_tokens.json", NULL, false },
              { "chat_template.json", NULL, false },
              { "chat_template.jinja", NULL, false },
              { "generation_config.json", NULL, false } };
enum { KNOWN = sizeof known / sizeof *known };

/* "DIR/name" for a directory or a file in it; false where that is too long for any file. */
static bool beside(const char *model, const char *name, char path[PATH_BYTES]) {
    struct stat about;
    const char *slash = strrchr(model, '/');
    bool folder = stat(model, &about) == 0 && S_ISDIR(about.st_mode);
    int length = folder ? (int)strlen(model) : slash ? (int)(slash - model) : 1;
    return snprintf(path, PATH_BYTES, "%.*s/%s", length, folder || slash ? model : ".", name) < PATH_BYTES;
}

static bool is_there(const char *model, const char *name, char path[PATH_BYTES], uint64_t *bytes) {
    struct stat about;
    if (!beside(model, name, path) || stat(path, &about) != 0 || !S_ISREG(about.st_mode)) return false;
    *bytes = (uint64_t)about.st_size;
    return true;
}

const char *tokenizer_files_find(const char *model) {
    char path[PATH_BYTES];
    uint64_t bytes;
    for (int i = 0; i < KNOWN && known[i].makes_tokens; i++)
        if (is_there(model, known[i].name, path, &bytes) &&
            (!known[i].beside || is_there(model, known[i].beside, path, &bytes)))
            return known[i].name;
    return NULL;
}

status tokenizer_files_refuse(const char *model, const char *what) {
    const char *name = tokenizer_files_find(model);
    if (!name) return STATUS_OK;
    return status_set(
        STATUS_INVALID,
        "%s is text, and %s has a tokenizer (%s): read as bytes the text would be other tokens than the "
        "model knows; make tokens of it with %s, or say --data-kind bytes where bytes are meant",
        what, model, name,
        strcmp(name, "tokenizer.json") == 0
            ? "snug tokenize"
            : "the library that it belongs to (a .npy, --data-kind u16 or u32)");
}

/* ---- templates in a folder of their own ---- */

static const char MORE[] = "additional_chat_templates";

typedef status template_visit(void *context, const char *name, const char *path);

static status visit_templates(const char *model, template_visit *visit, void *context) {
    char folder[PATH_BYTES], name[PATH_BYTES], path[PATH_BYTES];
    uint64_t bytes;
    status result = STATUS_OK;
    DIR *open = beside(model, MORE, folder) ? opendir(folder) : NULL;
    if (!open) return STATUS_OK;
    for (struct dirent *e; result == STATUS_OK && (e = readdir(open));) {
        bool wanted = e->d_name[0] != '.' && text_ends_with(e->d_name, ".jinja");
        if (!wanted || snprintf(name, sizeof name, "%s/%s", MORE, e->d_name) >= (int)sizeof name) continue;
        if (is_there(model, name, path, &bytes)) result = visit(context, name, path);
    }
    closedir(open);
    return result;
}

static status add_bytes(void *all, const char *name, const char *path) {
    struct stat about;
    (void)name;
    if (stat(path, &about) == 0) *(uint64_t *)all += (uint64_t)about.st_size;
    return STATUS_OK;
}

uint64_t tokenizer_files_bytes(const char *model) {
    char path[PATH_BYTES];
    uint64_t all = 0, bytes;
    for (int i = 0; i < KNOWN; i++)
        if (is_there(model, known[i].name, path, &bytes)) all += bytes;
    return visit_templates(model, add_bytes, &all) == STATUS_OK ? all : 0;
}

static status copy_parts(const spliced_file *from, io_writer *w) {
    char piece[PIECE_BYTES];
    for (uint64_t at = 0, n, all = spliced_file_bytes(from); at < all; at += n) {
        n = all - at < sizeof piece ? all - at : sizeof piece;
        TRY(spliced_file_read(from, at, piece, n));
        TRY(io_writer_add(w, piece, n));
    }
    return STATUS_OK;
}

static status copy_one(const char *from, const char *to, const file_splice *splice) {
    spliced_file file;
    io_writer w;
    if (io_is_same(from, to)) return STATUS_OK;
    TRY(spliced_file_open(from, splice, &file));
    status result = io_writer_open(&w, to);
    if (result == STATUS_OK) {
        result = copy_parts(&file, &w);
        if (result == STATUS_OK)
            result = io_writer_commit(&w);
        else
            io_writer_discard(&w);
    }
    spliced_file_close(&file);
    return result;
}

static status copy_template(void *directory, const char *name, const char *path) {
    char to[PATH_BYTES];
    if (snprintf(to, sizeof to, "%s/%s", (const char *)directory, MORE) < (int)sizeof to)
        TRY(io_make_folder(to));
    if (snprintf(to, sizeof to, "%s/%s", (const char *)directory, name) >= (int)sizeof to)
        return status_set(STATUS_INVALID, "the path '%.60s...' is too long", (const char *)directory);
    return copy_one(path, to, NULL);
}

status tokenizer_files_copy_changed(const char *model, const char *directory,
                                    const tokenizer_files_change *changes, uint32_t count) {
    char from[PATH_BYTES], to[PATH_BYTES];
    uint64_t bytes;
    for (int i = 0; i < KNOWN; i++) {
        const file_splice *splice = NULL;
        for (uint32_t c = 0; c < count; c++)
            if (strcmp(changes[c].name, known[i].name) == 0) splice = &changes[c].splice;
        if (!is_there(model, known[i].name, from, &bytes)) continue;
        if (snprintf(to, sizeof to, "%s/%s", directory, known[i].name) >= (int)sizeof to)
            return status_set(STATUS_INVALID, "the path '%.60s...' is too long", directory);
        TRY(copy_one(from, to, splice));
    }
    return visit_templates(model, copy_template, (void *)(uintptr_t)directory);
}

status tokenizer_files_copy(const char *model, const char *directory) {
    return tokenizer_files_copy_changed(model, directory, NULL, 0);
}

static status remove_template(void *model, const char *name, const char *path) {
    char own[PATH_BYTES];
    uint64_t bytes;
    if (model && is_there(model, name, own, &bytes) && io_is_same(path, own)) return STATUS_OK;
    if (unlink(path) == 0 || errno == ENOENT) return STATUS_OK;
    return status_set(STATUS_INVALID, "cannot remove %s: %s", path, strerror(errno));
}

status tokenizer_files_remove(const char *directory, const char *model) {
    char path[PATH_BYTES], own[PATH_BYTES];
    uint64_t bytes;
    for (int i = 0; i < KNOWN; i++) {
        if (!is_there(directory, known[i].name, path, &bytes)) continue;
        if (model && is_there(model, known[i].name, own, &bytes) && io_is_same(path, own)) continue;
        if (unlink(path) != 0 && errno != ENOENT)
            return status_set(STATUS_INVALID, "cannot remove %s: %s", path, strerror(errno));
    }
    TRY(visit_templates(directory, remove_template, (void *)(uintptr_t)model));
    if (beside(directory, MORE, path)) rmdir(path); /* it stays where something else lies in it */
    return STATUS_OK;
}
