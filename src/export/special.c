#include "export/special.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/json_reader.h"
#include "base/memory.h"
#include "io/file.h"
#include "io/json_file.h"
#include "io/model_config.h"

enum { PATH_BYTES = 4096 };

/* A file that is read from front to back. */
typedef struct {
    const tokenizer *t;
    special_tokens *s;
    char path[PATH_BYTES];
    json_source source;
    json_reader json;
} reading;

/* ---- tokens ---- */

/* A token as a string, as an object that has it as "content", or null. */
static status read_token(reading *r, int64_t *id) {
    char token[JSON_READER_STRING], key[JSON_READER_STRING];
    bool null, more = false;
    *token = 0;
    TRY(json_reader_null(&r->json, &null));
    if (null) return STATUS_OK;
    if (!json_reader_take(&r->json, '{')) {
        TRY(json_reader_string(&r->json, token));
    } else if (!json_reader_take(&r->json, '}')) {
        do {
            TRY(json_reader_string(&r->json, key));
            TRY(json_reader_expect(&r->json, ':'));
            TRY(strcmp(key, "content") == 0 ? json_reader_string(&r->json, token)
                                            : json_reader_skip(&r->json));
            TRY(json_reader_another(&r->json, '}', &more));
        } while (more);
    }
    uint32_t found = tokenizer_id(r->t, token, strlen(token));
    if (found == TOKENIZER_NONE)
        return status_set(STATUS_INVALID, "%s names the token '%.60s', which the tokenizer has not", r->path,
                          token);
    *id = found;
    return STATUS_OK;
}

/* ---- templates ---- */

static status keep_template(reading *r, uint64_t place) {
    uint64_t bytes;
    json_reader_go(&r->json, place);
    TRY(json_reader_text(&r->json, NULL, 0, &bytes));
    if (bytes > SPECIAL_TEMPLATE_BYTES)
        return status_set(STATUS_INVALID, "%s: the chat template has %llu bytes; at most %d are written",
                          r->path, (unsigned long long)bytes, SPECIAL_TEMPLATE_BYTES);
    char *kept = memory_new(bytes + 1, 1);
    if (!kept) return status_set(STATUS_FAILED, "no memory for a chat template");
    memory_free(r->s->template_text);
    r->s->template_text = kept, r->s->template_bytes = bytes;
    json_reader_go(&r->json, place);
    return json_reader_text(&r->json, kept, bytes, &bytes);
}

/* One of several, which have names: that which is called default is used where none is asked for. */
static status read_named_template(reading *r) {
    char key[JSON_READER_STRING], name[JSON_READER_STRING] = "";
    uint64_t place = 0, behind;
    bool more;
    TRY(json_reader_expect(&r->json, '{'));
    do {
        TRY(json_reader_string(&r->json, key));
        TRY(json_reader_expect(&r->json, ':'));
        if (strcmp(key, "template") == 0) place = json_reader_place(&r->json);
        TRY(strcmp(key, "name") == 0 ? json_reader_string(&r->json, name) : json_reader_skip(&r->json));
        TRY(json_reader_another(&r->json, '}', &more));
    } while (more);
    if (strcmp(name, "default") != 0 || !place) return STATUS_OK;
    behind = json_reader_place(&r->json);
    TRY(keep_template(r, place));
    json_reader_go(&r->json, behind);
    return STATUS_OK;
}

static status read_template(reading *r) {
    bool null, more = true;
    TRY(json_reader_null(&r->json, &null));
    if (null) return STATUS_OK;
    if (!json_reader_take(&r->json, '[')) return keep_template(r, json_reader_place(&r->json));
    if (json_reader_take(&r->json, ']')) return STATUS_OK;
    while (more) {
        TRY(read_named_template(r));
        TRY(json_reader_another(&r->json, ']', &more));
    }
    return STATUS_OK;
}

/* ---- files ---- */

static status read_key(reading *r, const char *key) {
    special_tokens *s = r->s;
    if (strcmp(key, "bos_token") == 0) return read_token(r, &s->begin);
    if (strcmp(key, "eos_token") == 0) return read_token(r, &s->end[0]);
    if (strcmp(key, "unk_token") == 0) return read_token(r, &s->unknown);
    if (strcmp(key, "pad_token") == 0) return read_token(r, &s->pad);
    if (strcmp(key, "chat_template") == 0) return read_template(r);
    return json_reader_skip(&r->json);
}

static status read_object(reading *r) {
    char key[JSON_READER_STRING];
    bool more = true;
    json_reader_begin(&r->json, &r->source);
    TRY(json_reader_expect(&r->json, '{'));
    if (json_reader_take(&r->json, '}')) return STATUS_OK;
    while (more) {
        TRY(json_reader_string(&r->json, key));
        TRY(json_reader_expect(&r->json, ':'));
        TRY(read_key(r, key));
        TRY(json_reader_another(&r->json, '}', &more));
    }
    return json_reader_end(&r->json);
}

/* The file's path, and whether it is there. */
static bool is_there(reading *r, const char *directory, const char *name) {
    int length = snprintf(r->path, sizeof r->path, "%s/%s", directory, name);
    return length < (int)sizeof r->path && access(r->path, F_OK) == 0;
}

static status read_file(reading *r, const char *directory, const char *name) {
    int file;
    uint64_t bytes;
    if (!is_there(r, directory, name)) return STATUS_OK;
    TRY(io_open(r->path, &file, &bytes));
    r->source = json_file_source(&file, r->path, "the file", 0, bytes);
    status result = read_object(r);
    close(file);
    return result;
}

static status read_plain_template(reading *r, const char *directory) {
    if (!is_there(r, directory, "chat_template.jinja")) return STATUS_OK;
    memory_free(r->s->template_text);
    r->s->template_text = NULL;
    return io_read_file(r->path, SPECIAL_TEMPLATE_BYTES, &r->s->template_text, &r->s->template_bytes);
}

/* What the configurations say of tokens that end a text, behind that which the tokenizer names. */
static status add_ends(const char *directory, const model_config *c, special_tokens *s, text *notes) {
    families_tokens said = c->tokens;
    TRY(model_config_ends(directory, c, &said));
    if (s->begin == SPECIAL_NONE && said.has_begin) s->begin = said.begin;
    if (s->begin == SPECIAL_NONE && c->tokens.has_begin) s->begin = c->tokens.begin;
    int count = s->end[0] != SPECIAL_NONE;
    for (uint32_t i = 0; i < said.ends; i++) {
        bool known = false;
        for (int k = 0; k < count; k++) known = known || s->end[k] == said.end[i];
        if (known) continue;
        if (count == SPECIAL_ENDS) {
            text_add(notes, "of the tokens that end a text the file names %d; others do not end one there\n",
                     SPECIAL_ENDS);
            break;
        }
        s->end[count++] = said.end[i];
    }
    return STATUS_OK;
}

static status read_all(reading *r, const char *directory, const model_config *c, text *notes) {
    TRY(read_file(r, directory, "chat_template.json"));
    TRY(read_file(r, directory, "tokenizer_config.json"));
    TRY(read_plain_template(r, directory));
    return add_ends(directory, c, r->s, notes);
}

status special_read(const char *directory, const model_config *c, const tokenizer *t, special_tokens *s,
                    text *notes) {
    *s = (special_tokens){ .begin = SPECIAL_NONE, .unknown = SPECIAL_NONE, .pad = SPECIAL_NONE };
    for (int i = 0; i < SPECIAL_ENDS; i++) s->end[i] = SPECIAL_NONE;
    reading *r = memory_new(1, sizeof *r);
    if (!r) return status_set(STATUS_FAILED, "no memory to read %s", directory);
    r->t = t, r->s = s;
    status result = read_all(r, directory, c, notes);
    memory_free(r);
    return result;
}

void special_close(special_tokens *s) {
    memory_free(s->template_text);
    s->template_text = NULL;
}
