#include "tokenize/sources.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "io/file.h"

/* ---- columns ---- */

enum { TEXT, PROMPT, COMPLETION, MESSAGES, ROLE, CONTENT, TOOLS, WORDS };
static const char *const words[WORDS] = { "text", "prompt",  "completion", "messages",
                                          "role", "content", "tools" };

static status wrong_columns(const char *said, const char *why) {
    return status_set(STATUS_INVALID,
                      "--columns %s: %s; write as in text=body, prompt=question,completion=answer or "
                      "messages=conversations,role=from,content=value, with tools=functions",
                      said, why);
}

/* "text=body,role=from": each name goes to its word. */
static status read_columns(const char *said, char *names, const char *found[WORDS]) {
    if (strlen(said) >= SOURCE_NAME_BYTES) return wrong_columns(said, "it is too long");
    strcpy(names, said);
    for (char *at = names, *next; at; at = next) {
        int w = 0;
        next = strchr(at, ',');
        if (next) *next++ = 0;
        char *name = strchr(at, '=');
        if (!name || !name[1]) return wrong_columns(said, "it is no list of WORD=NAME");
        *name++ = 0;
        while (w < WORDS && strcmp(at, words[w]) != 0) w++;
        if (w == WORDS)
            return wrong_columns(said,
                                 "a word is none of text, prompt, completion, messages, role, content and "
                                 "tools");
        if (found[w]) return wrong_columns(said, "a word stands twice");
        found[w] = name;
    }
    return STATUS_OK;
}

static bool names_chats(const char *const found[WORDS]) {
    return found[ROLE] || found[CONTENT] || found[TOOLS];
}

static status of_messages(const char *said) {
    return wrong_columns(said, "role, content and tools are of messages");
}

/* Whoever names columns has said what the records are. */
static status check_columns(const char *said, const char *const found[WORDS]) {
    bool pair = found[PROMPT] || found[COMPLETION];
    if ((found[TEXT] != NULL) + pair + (found[MESSAGES] != NULL) > 1)
        return wrong_columns(said, "a record is a text, or a prompt and its completion, or messages");
    if (names_chats(found) && found[TEXT]) return of_messages(said);
    return STATUS_OK;
}

static const char *or_word(const char *const found[WORDS], int w) { return found[w] ? found[w] : words[w]; }

/* A name that was given is looked for, whatever else is there. */
static status find_columns(sources *s, const document_options *o, const char *const found[WORDS],
                           document_column columns[DOCUMENT_FORM_COLUMNS], uint32_t *count) {
    bool pair = found[PROMPT] || found[COMPLETION];
    document_format format = o->format == DOCUMENT_AUTO ? document_format_of(o->path) : o->format;
    *count = 1;
    if (found[TEXT] && format != DOCUMENT_TEXT)
        columns[0] = (document_column){ .name = found[TEXT] };
    else if (found[MESSAGES])
        columns[0] = (document_column){ .name = found[MESSAGES], .is_list = true };
    else if (pair && format != DOCUMENT_TEXT)
        return document_form_pair(
            o, &(document_form_names){ .prompt = found[PROMPT], .completion = found[COMPLETION] }, columns,
            count);
    else if (!pair) {
        return document_form_find(o, &(document_form_names){ 0 }, columns, count);
    }
    if (format != DOCUMENT_TEXT) return STATUS_OK;
    return status_set(STATUS_INVALID, "--columns %s: %s is text, which has no columns", s->options->columns,
                      o->path);
}

static source_kind kind_of(const document_column *columns, uint32_t count) {
    return columns[0].is_list ? SOURCE_MESSAGES : count == 2 ? SOURCE_PAIR : SOURCE_TEXT;
}

static status find_form(sources *s, const document_options *o, const char *const found[WORDS],
                        document_column columns[DOCUMENT_FORM_COLUMNS], uint32_t *count) {
    TRY(find_columns(s, o, found, columns, count));
    if (kind_of(columns, *count) != SOURCE_MESSAGES)
        return names_chats(found) ? of_messages(s->options->columns) : STATUS_OK;
    bool apart = *count == 2; /* a prompt and its completion, of messages each */
    if (found[ROLE] || found[CONTENT]) columns[SOURCE_CHAT].members = columns[1].members = s->members;
    if (apart) columns[SOURCE_ANSWER] = columns[1];
    if (!apart && !found[TOOLS] && strcmp(columns[SOURCE_CHAT].name, words[TOOLS]) == 0) return STATUS_OK;
    columns[SOURCE_TOOLS] = (document_column){ .name = or_word(found, TOOLS) };
    *count = apart ? 3 : 2;
    return STATUS_OK;
}

/* ---- files ---- */

static document_options reading(const sources *s, const char *path, document_format format) {
    bool chats = s->column_count && s->kind == SOURCE_MESSAGES;
    return (document_options){ .path = path,
                               .format = format,
                               .columns = s->columns,
                               .column_count = s->column_count,
                               .json = chats ? 1 << SOURCE_CHAT | 1 << SOURCE_TOOLS | 1 << SOURCE_ANSWER : 0,
                               .optional = chats ? 1 << SOURCE_TOOLS : 0,
                               .replace = s->options->replace };
}

static const document_files *files_of(const sources *s, uint32_t *file) {
    const document_files *f = s->files;
    for (; *file >= f->count; f++) *file -= f->count;
    return f;
}

const char *sources_path(const sources *s, uint32_t file) {
    const document_files *f = files_of(s, &file);
    return f->paths[file];
}

status sources_prefix(const sources *s, source_place place, status code) {
    return status_prefix(code, "%s, record %" PRIu64, sources_path(s, place.file), place.in.record + 1);
}

document_options sources_reading(const sources *s, uint32_t file) {
    const document_files *f = files_of(s, &file);
    return reading(s, f->paths[file], f->format);
}

/* The first file of each path says what its records are. */
static status take_form(sources *s, uint32_t path, const char *const found[WORDS]) {
    document_column columns[DOCUMENT_FORM_COLUMNS];
    uint32_t count;
    document_options o = reading(s, s->files[path].paths[0], s->files[path].format);
    TRY(find_form(s, &o, found, columns, &count));
    source_kind kind = kind_of(columns, count);
    if (path == 0) {
        memcpy(s->columns, columns, sizeof columns);
        s->column_count = count, s->kind = kind;
    }
    if (kind == s->kind && strcmp(columns[0].name, s->columns[0].name) == 0) return STATUS_OK;
    return status_set(
        STATUS_INVALID,
        "%s and %s hold records of different kinds or names (%s, %s); make tokens of each apart, "
        "or name the columns with --columns",
        s->files[0].paths[0], s->files[path].paths[0], s->columns[0].name, columns[0].name);
}

static status find_files(sources *s, const char *const found[WORDS]) {
    for (uint32_t p = 0; p < s->options->count; p++) {
        TRY(document_files_open(s->options->paths[p], s->options->format, &s->files[p]));
        s->file_count += s->files[p].count;
        s->held_bytes += s->files[p].held_bytes + sizeof *s->files;
        TRY(take_form(s, p, found));
    }
    return STATUS_OK;
}

static bool stamp_of(const char *path, data_stamp *stamp) {
    uint64_t bytes;
    int file;
    if (io_open(path, &file, &bytes) != STATUS_OK) return false;
    bool good = format_stamp(file, stamp);
    close(file);
    return good;
}

/* Of one that can't be opened nothing is remembered: whoever reads it says why. */
void sources_remember(const sources *s, uint32_t file) {
    if (!stamp_of(sources_path(s, file), &s->stamps[file])) s->stamps[file] = (data_stamp){ 0 };
}

status sources_check_same(const sources *s, uint32_t file) {
    const data_stamp *then = &s->stamps[file];
    data_stamp now;
    if (stamp_of(sources_path(s, file), &now) && format_stamp_equal(&now, then)) return STATUS_OK;
    return status_set(STATUS_FAILED,
                      "%s has changed since it was first read (it had %" PRIu64
                      " bytes then); call the command again when nobody writes to it",
                      sources_path(s, file), then->bytes);
}

static status plan_reading(sources *s) {
    s->stamps = memory_new(s->file_count, sizeof *s->stamps);
    if (!s->stamps) return status_set(STATUS_FAILED, "no memory for the states of the data's files");
    s->held_bytes += s->file_count * sizeof *s->stamps;
    for (uint32_t f = 0; f < s->file_count; f++) {
        document_options o = sources_reading(s, f);
        uint64_t bytes;
        TRY(documents_need(&o, &bytes));
        if (bytes > s->reader_bytes) s->reader_bytes = bytes;
    }
    return STATUS_OK;
}

status sources_open(const source_options *o, sources *s) {
    const char *found[WORDS] = { NULL };
    *s = (sources){ .options = o };
    if (o->columns) TRY(read_columns(o->columns, s->names, found));
    if (o->columns) TRY(check_columns(o->columns, found));
    s->tools_named = found[TOOLS] != NULL;
    s->members[0] = s->role = or_word(found, ROLE), s->members[1] = s->content = or_word(found, CONTENT);
    s->files = memory_new(o->count, sizeof *s->files);
    if (!s->files) return status_set(STATUS_FAILED, "no memory for the names of the data's files");
    TRY(find_files(s, found));
    return plan_reading(s);
}

void sources_close(sources *s) {
    for (uint32_t p = 0; s->files && p < s->options->count; p++) document_files_close(&s->files[p]);
    memory_free(s->files);
    memory_free(s->stamps);
    s->files = NULL, s->stamps = NULL;
}
