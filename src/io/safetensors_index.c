#include "io/safetensors_index.h"

#include <string.h>
#include <unistd.h>

#include "base/json_reader.h"
#include "base/utf8.h"
#include "io/file.h"
#include "io/json_file.h"

typedef struct {
    json_reader text;
    char name[JSON_READER_STRING], shard[JSON_READER_STRING];
    safetensors_index_each *each;
    void *context;
} walk;

/* A shard is named by strangers and must lie beside the index. */
static status check_shard(const walk *w) {
    char tensor[UTF8_QUOTE_BYTES], shard[UTF8_QUOTE_BYTES];
    const char *name = w->shard;
    bool plain = *name && !strchr(name, '/') && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
    for (const char *at = name; *at; at++) plain = plain && (unsigned char)*at >= 0x20;
    if (plain) return STATUS_OK;
    return status_set(STATUS_INVALID, "%s: the shard of '%s' is '%s', which is not the plain name of a file",
                      w->text.source.path, utf8_quote(w->name, tensor), utf8_quote(name, shard));
}

static status read_map(walk *w) {
    json_reader *s = &w->text;
    TRY(json_reader_expect(s, '{'));
    if (json_reader_take(s, '}')) return STATUS_OK;
    for (bool more = true; more;) {
        TRY(json_reader_string(s, w->name));
        TRY(json_reader_expect(s, ':'));
        TRY(json_reader_string(s, w->shard));
        TRY(check_shard(w));
        TRY(w->each(w->context, w->name, w->shard));
        TRY(json_reader_another(s, '}', &more));
    }
    return STATUS_OK;
}

static status read_members(walk *w, bool *found) {
    json_reader *s = &w->text;
    for (bool more = true; more;) {
        TRY(json_reader_string(s, w->name));
        TRY(json_reader_expect(s, ':'));
        bool map = strcmp(w->name, "weight_map") == 0;
        if (map && *found) return json_reader_wrong(s, "weight_map is there twice");
        *found = *found || map;
        TRY(map ? read_map(w) : json_reader_skip(s));
        TRY(json_reader_another(s, '}', &more));
    }
    return STATUS_OK;
}

static status walk_file(walk *w) {
    json_reader *s = &w->text;
    bool found = false;
    TRY(json_reader_expect(s, '{'));
    if (!json_reader_take(s, '}')) TRY(read_members(w, &found));
    TRY(json_reader_end(s));
    if (found) return STATUS_OK;
    return status_set(STATUS_INVALID, "%s: 'weight_map' is missing, which says where the tensors are",
                      s->source.path);
}

status safetensors_index_walk(const char *path, safetensors_index_each *each, void *context) {
    walk w = { .each = each, .context = context };
    int file;
    uint64_t bytes;
    TRY(io_open(path, &file, &bytes));
    json_source source = json_file_source(&file, path, "the index", 0, bytes);
    json_reader_begin(&w.text, &source);
    status result = walk_file(&w);
    close(file);
    return result;
}
