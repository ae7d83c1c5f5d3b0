#include "language/chat_templates.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "io/file.h"
#include "language/members.h"
#include "text/template/template.h"

static const char folder[] = "additional_chat_templates";
static const char *const names[CHAT_TEMPLATES] = { "default", "tool_use" };
enum { PATH_BYTES = 4096 };

/* Takes over the text: a later one of the same name counts. */
static void keep(chat_templates *t, const char *name, char *text, size_t length) {
    for (int i = 0; i < CHAT_TEMPLATES; i++) {
        if (strcmp(name, names[i]) != 0) continue;
        memory_free(t->source[i]);
        t->source[i] = text, t->length[i] = length;
        return;
    }
    memory_free(text);
}

/* ---- files of their own ---- */

static status read_jinja(const char *path, const char *name, chat_templates *t) {
    char *text;
    uint64_t bytes;
    TRY(io_read_file(path, TEMPLATE_SOURCE, &text, &bytes));
    keep(t, name, text, (size_t)bytes);
    return STATUS_OK;
}

/* Templates of other names count as well: where one is there, tokenizer_config.json is not asked. */
static status look_in_folder(const char *path, bool *any) {
    DIR *d = opendir(path);
    *any = false;
    if (!d && (errno == ENOENT || errno == ENOTDIR)) return STATUS_OK;
    if (!d) return status_set(STATUS_INVALID, "cannot read %s: %s", path, strerror(errno));
    for (const struct dirent *e; !*any && (e = readdir(d));) {
        size_t length = strlen(e->d_name);
        *any = length > 6 && strcmp(e->d_name + length - 6, ".jinja") == 0;
    }
    closedir(d);
    return STATUS_OK;
}

static status read_files(const char *directory, chat_templates *t) {
    char path[PATH_BYTES];
    bool any;
    if (snprintf(path, sizeof path, "%s/%s/tool_use.jinja", directory, folder) >= PATH_BYTES)
        return STATUS_OK; /* no file can be there */
    snprintf(path, sizeof path, "%s/chat_template.jinja", directory);
    if (access(path, F_OK) == 0) {
        t->file = "chat_template.jinja";
        TRY(read_jinja(path, names[CHAT_TEMPLATES_DEFAULT], t));
    }
    snprintf(path, sizeof path, "%s/%s", directory, folder);
    TRY(look_in_folder(path, &any));
    if (any) t->file = folder;
    for (int i = 0; any && i < CHAT_TEMPLATES; i++) {
        snprintf(path, sizeof path, "%s/%s/%s.jinja", directory, folder, names[i]);
        if (access(path, F_OK) == 0) TRY(read_jinja(path, names[i], t));
    }
    return STATUS_OK;
}

/* ---- JSON ---- */

static status read_text(json_reader *r, char **text, size_t *length) {
    if (json_reader_peek(r) != '"') return json_reader_wrong(r, "a chat template is a text");
    return members_text(r, TEMPLATE_SOURCE, text, length);
}

typedef struct {
    char name[JSON_READER_STRING];
    bool named;
    char *text;
    size_t length;
} entry;

static status read_entry(void *context, json_reader *r, const char *key) {
    entry *e = context;
    if (strcmp(key, "name") == 0) {
        e->named = true;
        return json_reader_string(r, e->name);
    }
    if (strcmp(key, "template") != 0) return json_reader_skip(r);
    memory_free(e->text);
    e->text = NULL;
    return read_text(r, &e->text, &e->length);
}

static status read_list(json_reader *r, chat_templates *t) {
    TRY(json_reader_expect(r, '['));
    for (bool more = !json_reader_take(r, ']'); more;) {
        entry e = { 0 };
        status result = members_read(r, read_entry, &e);
        if (result == STATUS_OK && (!e.named || !e.text))
            result = json_reader_wrong(r, "a chat template of a list has 'name' and 'template'");
        if (result == STATUS_OK)
            keep(t, e.name, e.text, e.length);
        else
            memory_free(e.text);
        TRY(result);
        TRY(json_reader_another(r, ']', &more));
    }
    return STATUS_OK;
}

static status read_named(void *context, json_reader *r, const char *key) {
    char *text;
    size_t length;
    TRY(read_text(r, &text, &length));
    keep(context, key, text, length);
    return STATUS_OK;
}

typedef struct {
    chat_templates *out;
    const char *file;
} reader;

/* A later chat_template takes the place of an earlier one altogether. */
static status read_member(void *context, json_reader *r, const char *key) {
    const reader *x = context;
    chat_templates *t = x->out;
    bool none;
    if (strcmp(key, "chat_template") != 0) return json_reader_skip(r);
    chat_templates_close(t);
    int first = json_reader_peek(r);
    if (first == 'n') return json_reader_null(r, &none);
    t->file = x->file;
    if (first == '[') return read_list(r, t);
    if (first == '{') return members_read(r, read_named, t);
    return read_named(t, r, names[CHAT_TEMPLATES_DEFAULT]);
}

static status read_json(const char *directory, const char *file, chat_templates *t) {
    bool there;
    reader x = { t, file };
    return t->file ? STATUS_OK : members_of_file(directory, file, read_member, &x, &there);
}

status chat_templates_read(const char *directory, chat_templates *out) {
    *out = (chat_templates){ 0 };
    TRY(read_files(directory, out));
    TRY(read_json(directory, "tokenizer_config.json", out));
    return read_json(directory, "chat_template.json", out);
}

void chat_templates_close(chat_templates *t) {
    for (int i = 0; i < CHAT_TEMPLATES; i++) memory_free(t->source[i]);
    *t = (chat_templates){ 0 };
}
