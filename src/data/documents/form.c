#include "data/documents/form.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/memory.h"
#include "base/utf8.h"

enum { TEXT, PROMPT, COMPLETION, MESSAGES, KNOWN };
enum { LISTED = 300, SMALL_PIECE = 4096 };

/* What is there: which of the known names, and all of them for a sentence. */
typedef struct {
    const char *known[KNOWN];
    bool there[KNOWN], is_list[KNOWN];
    char listed[LISTED];
    uint32_t used;
    uint64_t unlisted;
} columns_seen;

static void see(void *to, const char *name, bool is_list) {
    columns_seen *c = to;
    char shown[UTF8_QUOTE_BYTES];
    for (int k = 0; k < KNOWN; k++)
        if (strcmp(c->known[k], name) == 0) c->there[k] = true, c->is_list[k] = is_list;
    utf8_quote(name, shown);
    uint32_t bytes = (uint32_t)strlen(shown) + 2;
    if (c->unlisted || bytes >= LISTED - c->used) {
        c->unlisted++;
        return;
    }
    c->used += (uint32_t)snprintf(c->listed + c->used, LISTED - c->used, "%s%s", c->used ? ", " : "", shown);
}

static void forget(columns_seen *c) {
    memset(c->there, 0, sizeof c->there);
    c->used = 0, c->unlisted = 0;
    c->listed[0] = 0;
}

/* Opens the file and reads the first record, which tells the names where opening did not. */
static status look(const document_options *o, columns_seen *c) {
    uint64_t bytes;
    documents *d = NULL;
    document_piece p = { 0 };
    TRY(documents_need(o, &bytes));
    char *block = memory_room(bytes + ROOM_ALIGNMENT, 1);
    if (!block) return status_set(STATUS_FAILED, "%s: no memory to look at it", o->path);
    forget(c);
    char *room = block + (ROOM_ALIGNMENT - (uintptr_t)block % ROOM_ALIGNMENT) % ROOM_ALIGNMENT;
    status result = documents_open(o, room, bytes, &d);
    while (result == STATUS_OK && p.event != DOCUMENT_RECORD_END && p.event != DOCUMENT_END)
        result = documents_next(d, &p);
    documents_close(d);
    memory_free(block);
    return result;
}

static status refuse(const document_options *o, const columns_seen *c, const char *why) {
    char more[48] = "";
    if (c->unlisted) snprintf(more, sizeof more, " and %" PRIu64 " more", c->unlisted);
    return status_set(STATUS_INVALID,
                      "%s holds %s; its columns are %s%s: say which are wanted, with --columns", o->path, why,
                      c->used ? c->listed : "none", more);
}

static columns_seen called(const document_form_names *names) {
    return (columns_seen){ .known = { names->text ? names->text : "text",
                                      names->prompt ? names->prompt : "prompt",
                                      names->completion ? names->completion : "completion",
                                      names->messages ? names->messages : "messages" } };
}

static status find_names(const document_options *o, columns_seen *c) {
    document_options looking = *o;
    struct stat about;
    if (stat(o->path, &about) == 0 && S_ISREG(about.st_mode) && about.st_size == 0)
        return status_set(STATUS_INVALID, "%s is empty; put records into it, or leave it out", o->path);
    looking.column_count = 0, looking.piece_bytes = SMALL_PIECE;
    looking.see = see, looking.to = c;
    return look(&looking, c);
}

static status set_pair(const document_options *o, const columns_seen *c, document_column columns[],
                       uint32_t *count) {
    columns[0] = (document_column){ .name = c->known[PROMPT], .is_list = c->is_list[PROMPT] };
    columns[1] = (document_column){ .name = c->known[COMPLETION], .is_list = c->is_list[COMPLETION] };
    *count = 2;
    if (columns[0].is_list == columns[1].is_list || !c->there[PROMPT] || !c->there[COMPLETION])
        return STATUS_OK;
    const document_column *list = &columns[columns[1].is_list], *text = &columns[columns[0].is_list];
    char shown[UTF8_QUOTE_BYTES], other[UTF8_QUOTE_BYTES];
    return status_set(STATUS_INVALID,
                      "%s: %s is a list and %s is none; both are texts, or both lists of messages", o->path,
                      utf8_quote(list->name, shown), utf8_quote(text->name, other));
}

status document_form_pair(const document_options *o, const document_form_names *names,
                          document_column columns[DOCUMENT_FORM_COLUMNS], uint32_t *count) {
    columns_seen c = called(names);
    TRY(find_names(o, &c));
    return set_pair(o, &c, columns, count);
}

status document_form_find(const document_options *o, const document_form_names *names,
                          document_column columns[DOCUMENT_FORM_COLUMNS], uint32_t *count) {
    columns_seen c = called(names);
    document_format format = o->format == DOCUMENT_AUTO ? document_format_of(o->path) : o->format;
    columns[0] = (document_column){ .name = c.known[TEXT] };
    *count = 1;
    if (format == DOCUMENT_TEXT) return STATUS_OK;
    TRY(find_names(o, &c));
    bool pair = c.there[PROMPT] && c.there[COMPLETION];
    if (c.there[TEXT] + pair + c.there[MESSAGES] > 1)
        return refuse(o, &c, "more than one of a text, a prompt with its completion, and messages");
    if (c.there[TEXT]) return STATUS_OK;
    if (c.there[MESSAGES]) columns[0] = (document_column){ .name = c.known[MESSAGES], .is_list = true };
    if (pair) return set_pair(o, &c, columns, count);
    if (c.there[MESSAGES]) return STATUS_OK;
    return refuse(o, &c, "neither a text, nor a prompt and its completion, nor messages");
}
