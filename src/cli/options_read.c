/* Reading of the environment, the configuration file and the command line by the table. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/nearest.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "data/documents/files.h"
#include "estimate/recorded/recording.h"

typedef enum { LAYER_DEFAULTS, LAYER_ENVIRONMENT, LAYER_FILE, LAYER_LINE } layer;

typedef struct {
    const option_table *table;
    command command;
    int count, next; /* of arguments */
    char **arguments;
    layer layer;                /* which is being read */
    layer from[OPTIONS_MOST];   /* by row: the strongest that has said something */
    bool implied[OPTIONS_MOST]; /* by row: by a word of another option, so it may still be said */
    uint32_t line[OPTIONS_MOST];
    options *out;
} reading;

static const option *find(const reading *r, const char *name) {
    for (uint32_t i = 0; i < r->table->count; i++)
        if (r->table->rows[i].commands & r->command && strcmp(r->table->rows[i].name, name) == 0)
            return &r->table->rows[i];
    return NULL;
}

/* Of any command. */
static const option *find_anywhere(const reading *r, const char *name) {
    for (uint32_t i = 0; i < r->table->count; i++)
        if (strcmp(r->table->rows[i].name, name) == 0) return &r->table->rows[i];
    return NULL;
}

/* "optimizer-bits=8" of --optimizer adamw_8bit. What an option itself says counts more, wherever it stands.
 */
static status store_implied(reading *r, const char *name, const char *assignment) {
    char key[OPTION_NAME_BYTES];
    const char *value = strchr(assignment, '=');
    snprintf(key, sizeof key, "%.*s", (int)(value - assignment), assignment);
    const option *row = find(r, key);
    if (!row || r->from[row - r->table->rows] >= r->layer) return STATUS_OK;
    r->from[row - r->table->rows] = r->layer, r->implied[row - r->table->rows] = true;
    return options_store(row, name, value + 1, r->out);
}

/* A list of a stronger layer begins anew; all else is overwritten. */
static status store(reading *r, const option *row, const char *name, const char *value) {
    layer *from = &r->from[row - r->table->rows];
    char word[OPTION_NAME_BYTES];
    const char *implied = options_implied(row, value, word);
    if (implied) TRY(store_implied(r, name, implied));
    r->implied[row - r->table->rows] = false;
    if (row->kind == OPTION_LIST && *from != r->layer)
        *(option_list *)((char *)r->out + row->offset) = (option_list){ .count = 0 };
    *from = r->layer;
    return options_store(row, name, value, r->out);
}

/* ---- the environment ---- */

static const char *key_at(const void *context, uint32_t i) {
    const reading *r = context;
    return r->table->rows[i].name;
}

/* SNUG_MEMROY would otherwise train without any limit. Names that are near to none are someone else's. */
static status check_variable(const reading *r, const char *variable) {
    char name[OPTION_NAME_BYTES], known[OPTION_NAME_BYTES];
    size_t length = strcspn(variable, "=");
    bool empty = !variable[length] || !variable[length + 1];
    if (strncmp(variable, "SNUG_", 5) != 0 || length >= sizeof name || empty) return STATUS_OK;
    snprintf(name, sizeof name, "%.*s", (int)length - 5, variable + 5);
    for (char *c = name; *c; c++) *c = (char)(*c == '_' ? '-' : *c >= 'A' && *c <= 'Z' ? *c - 'A' + 'a' : *c);
    const char *near = find_anywhere(r, name) ? NULL : nearest_word(name, r->table->count, key_at, r);
    if (!near) return STATUS_OK;
    return status_set(STATUS_INVALID,
                      "%.*s is set in the environment, and no option is called so; did you mean %s?",
                      (int)length, variable, options_environment(find_anywhere(r, near), known));
}

static status read_environment(reading *r) {
    r->layer = LAYER_ENVIRONMENT;
    for (char **v = environ; v && *v; v++) TRY(check_variable(r, *v));
    for (uint32_t i = 0; i < r->table->count; i++) {
        const option *row = &r->table->rows[i];
        char name[OPTION_NAME_BYTES];
        const char *value = row->commands & r->command ? getenv(options_environment(row, name)) : NULL;
        if (value && *value) TRY(store(r, row, name, value));
    }
    return STATUS_OK;
}

/* ---- the file ---- */

static status unknown_key(const reading *r, const char *where, const char *key) {
    const char *near = nearest_word(key, r->table->count, key_at, r);
    if (near)
        return status_set(STATUS_INVALID, "%s: there is no option %s; did you mean %s?", where, key, near);
    return status_set(STATUS_INVALID, "%s: there is no option %s; 'snug help %s' shows all", where, key,
                      cli_command_name(r->command));
}

/* A file may serve several commands: what belongs to another is read as well, and then has no effect. */
static status read_entry(reading *r, const yaml_entry *x) {
    static options elsewhere;
    char where[512], name[640];
    const option *row = find(r, x->key);
    bool here = row != NULL;
    snprintf(where, sizeof where, "%.400s:%u", r->out->config, x->line);
    if (!row) row = find_anywhere(r, x->key);
    if (strcmp(x->key, cli_subject_key(r->command)) == 0 && *x->key) {
        if (x->list || x->empty) return status_set(STATUS_INVALID, "%s: %s wants one value", where, x->key);
        r->out->subject = x->values[0];
        return STATUS_OK;
    }
    if (!row && cli_is_subject_key(x->key)) return STATUS_OK;
    if (!row) return unknown_key(r, where, x->key);
    if (row->offset == offsetof(options, config) || row->offset == offsetof(options, help))
        return status_set(STATUS_INVALID, "%s: %s belongs on the command line", where, x->key);
    if (x->empty || !x->count)
        return status_set(STATUS_INVALID, "%s: %s has no value; leave the line out for the default", where,
                          x->key);
    if (x->list && row->kind != OPTION_LIST)
        return status_set(STATUS_INVALID, "%s: %s wants one value, not a list", where, x->key);
    snprintf(name, sizeof name, "%s: %s", where, x->key);
    if (here) r->line[row - r->table->rows] = x->line;
    elsewhere = options_defaults();
    for (uint32_t i = 0; i < x->count; i++)
        TRY(here ? store(r, row, name, x->values[i]) : options_store(row, name, x->values[i], &elsewhere));
    return STATUS_OK;
}

static status read_file(reading *r) {
    r->layer = LAYER_FILE;
    TRY(yaml_open(r->out->config, &r->out->file));
    for (uint32_t i = 0; i < r->out->file.count; i++) TRY(read_entry(r, &r->out->file.entries[i]));
    return STATUS_OK;
}

/* ---- options of the line ---- */

static const char *name_at(const void *context, uint32_t i) {
    const reading *r = context;
    return r->table->rows[i].commands & r->command ? r->table->rows[i].name : NULL;
}

static status unknown(const reading *r, const char *name) {
    const char *of = cli_command_name(r->command);
    if (find_anywhere(r, name))
        return status_set(STATUS_INVALID, "--%s is no option of %s; 'snug help %s' shows what is", name, of,
                          of);
    const option_familiar *known = options_familiar(name);
    const char *ours = known ? known->ours : NULL, *near = nearest_word(name, r->table->count, name_at, r);
    char begin[OPTION_NAME_BYTES];
    snprintf(begin, sizeof begin, "%.*s", ours ? (int)strcspn(ours, " ") : 0, ours ? ours : "");
    if (ours && find(r, begin)) near = ours;
    if (near) return status_set(STATUS_INVALID, "unknown option --%s; did you mean --%s?", name, near);
    return status_set(STATUS_INVALID, "unknown option --%s; 'snug help %s' shows all", name, of);
}

/* What others call so, where it is the same and this command has it. */
static const option *find_familiar(const reading *r, const char *name, const char **value) {
    const option_familiar *known = options_familiar(name);
    if (!known || !known->same) return NULL;
    if (known->value) *value = known->value;
    return find(r, known->ours);
}

/* "no-json" of "json". */
static const option *find_negated(const reading *r, const char *name) {
    const option *row = strncmp(name, "no-", 3) == 0 ? find(r, name + 3) : NULL;
    return row && row->kind == OPTION_FLAG ? row : NULL;
}

/* "--name", "--no-name", "--name=value" or "--name value". */
static status read_option(reading *r, const char *argument) {
    char name[OPTION_NAME_BYTES], full[OPTION_NAME_BYTES + 2];
    const char *value = strchr(argument, '=');
    snprintf(name, sizeof name, "%.*s", value ? (int)(value - argument) : (int)strlen(argument), argument);
    const char *meant = NULL;
    const option *row = find(r, name), *negated = row ? NULL : find_negated(r, name);
    if (!row && !negated) row = find_familiar(r, name, &meant);
    if (!row && !negated) return unknown(r, name);
    if (!row) row = negated;
    if (value) value++;
    bool implied = r->implied[row - r->table->rows];
    if (r->from[row - r->table->rows] == LAYER_LINE && !implied && row->kind != OPTION_LIST)
        return status_set(STATUS_INVALID, "--%s is given twice", row->name);
    snprintf(full, sizeof full, "--%s", name);
    if (row->kind == OPTION_FLAG || meant) {
        if (value) return status_set(STATUS_INVALID, "%s takes no value", full);
        return store(r, row, full, meant ? meant : negated ? "no" : "yes");
    }
    if (!value && r->next < r->count && strncmp(r->arguments[r->next], "--", 2) != 0)
        value = r->arguments[r->next++];
    if (!value && row->kind == OPTION_MAYBE) value = "yes";
    if (!value || (!*value && row->group != GROUP_TEXT))
        return status_set(STATUS_INVALID, "%s wants a value: %s %s", full, full,
                          row->words && row->kind == OPTION_CHOICE ? row->words : row->hint);
    return store(r, row, full, value);
}

/* ---- the line ---- */

static status read_word(reading *r, const char *word, const char **subject) {
    const char *name = cli_command_name(r->command), *what = cli_subject_name(r->command);
    if (!*what) return status_set(STATUS_INVALID, "%s takes options only, not '%s'", name, word);
    if (!*word) return status_set(STATUS_INVALID, "%s: the name of the %s is empty", name, what);
    if (cli_command_of(r->command)->many) {
        option_list *files = &r->out->snapshot.files;
        if (files->count == OPTION_LIST_MOST)
            return status_set(STATUS_INVALID, "%s takes %d of %s at most", name, OPTION_LIST_MOST, what);
        files->items[files->count++] = word;
    } else if (*subject)
        return status_set(STATUS_INVALID, "%s takes one %s, and '%s' is given beside '%s'", name, what, word,
                          *subject);
    *subject = word;
    return STATUS_OK;
}

/* Of admit, behind the script: our own options stay ours, and all else is of sbatch's line. From "--" on
 * nothing is ours. True: the word was taken. */
static bool take_other_line(reading *r, const char *argument, bool begun, status *failed) {
    admit_words *a = &r->out->admit;
    bool ends = strcmp(argument, "--") == 0;
    char name[OPTION_NAME_BYTES];
    if (r->command != COMMAND_ADMIT || (!begun && !ends)) return false;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(argument, "="), argument);
    if (!ends && strncmp(name, "--", 2) == 0 && find(r, name + 2)) return false;
    if (!ends && strcmp(argument, "-h") == 0) return false;
    if (ends && !begun) a->whole = true;
    int more = 1 + (ends ? r->count - r->next : 0);
    if (a->line_count + more > OPTIONS_LINE_MOST) {
        *failed = status_set(STATUS_INVALID, "%s takes at most %d words of sbatch's line",
                             cli_command_name(r->command), OPTIONS_LINE_MOST);
        return true;
    }
    if (!ends || begun) a->line[a->line_count++] = argument;
    while (ends && r->next < r->count) a->line[a->line_count++] = r->arguments[r->next++];
    return true;
}

static status read_line(reading *r) {
    bool words_only = false;
    const char *subject = NULL;
    r->layer = LAYER_LINE;
    r->next = 0;
    r->out->admit.line_count = 0;
    status result = STATUS_OK;
    while (r->next < r->count) {
        const char *argument = r->arguments[r->next++];
        if (take_other_line(r, argument, subject != NULL, &result)) {
            TRY(result);
            continue;
        }
        if (words_only || argument[0] != '-' || !argument[1]) {
            TRY(read_word(r, argument, &subject));
        } else if (strcmp(argument, "--") == 0) {
            words_only = true;
        } else if (strcmp(argument, "-h") == 0) {
            r->out->help = true;
        } else if (argument[1] != '-') {
            return status_set(STATUS_INVALID,
                              "unknown option %s; options begin with two hyphens, as in --help", argument);
        } else {
            TRY(read_option(r, argument + 2));
        }
    }
    if (subject) r->out->subject = subject;
    return STATUS_OK;
}

/* ---- data ---- */

/* "a.jsonl:0.7" */
static status read_part(const char *word, setup_part *part, char **own) {
    char path[4096];
    double weight;
    TRY(document_files_weight(word, "--data", path, sizeof path, &weight));
    *part = (setup_part){ .path = word };
    if (strlen(path) == strlen(word)) return STATUS_OK;
    part->weight = weight, part->path = *own = memory_text(path);
    return *own ? STATUS_OK : status_set(STATUS_FAILED, "--data: no memory for the path %s", path);
}

/* Of one alone the weight says nothing. */
static status read_parts(options *o) {
    uint32_t count = o->sources.count;
    for (uint32_t i = 0; i < count; i++) TRY(read_part(o->sources.items[i], &o->parts[i], &o->paths[i]));
    if (count) o->run.data = o->parts[0].path;
    if (count > 1) o->run.parts = o->parts, o->run.part_count = count;
    return STATUS_OK;
}

/* ---- together ---- */

/* Is `word` one of "adamw|lion"? */
static bool listed(const char *list, const char *word) {
    size_t length = strlen(word);
    for (const char *at = list; at; at = strchr(at, '|')) {
        at += *at == '|';
        if (strncmp(at, word, length) == 0 && (at[length] == '|' || !at[length])) return true;
    }
    return false;
}

/* "optimizer=adamw|lion" of --beta1. A value of the environment is a habit, not a word on this run: it is
 * left out of account where it does not apply. */
static status check_needs(const reading *r, uint32_t i) {
    const option *row = &r->table->rows[i];
    if (!row->needs || r->from[i] < LAYER_FILE) return STATUS_OK;
    if (row->of_steps && r->out->subject && recording_is(r->out->subject)) return STATUS_OK;
    char other[OPTION_NAME_BYTES], word[OPTION_NAME_BYTES], wanted[OPTION_NAME_BYTES], where[512] = "";
    const char *list = strchr(row->needs, '=') + 1;
    snprintf(other, sizeof other, "%.*s", (int)(list - row->needs - 1), row->needs);
    const option *choice = find(r, other);
    if (!choice || listed(list, options_choice(choice, r->out, word))) return STATUS_OK;
    if (r->from[i] == LAYER_FILE) snprintf(where, sizeof where, "%.400s:%u: ", r->out->config, r->line[i]);
    bool of_another = strcmp(other, "framework") == 0 && !listed(list, "hf") && !listed(list, "pytorch");
    if (of_another && r->out->subject && recording_is(r->out->subject))
        return status_set(STATUS_INVALID,
                          "%s--%s is for --framework %s, and a recorded step is PyTorch's; leave --%s out",
                          where, row->name, list, row->name);
    snprintf(wanted, sizeof wanted, "%.*s", (int)strcspn(list, "|"), list); /* the nearest that works */
    return status_set(STATUS_INVALID,
                      "%s--%s is for --%s %s, and here it is %s; say --%s %s, or leave --%s out", where,
                      row->name, other, list, word, other, wanted, row->name);
}

static bool is_said(const reading *r, const char *name) {
    const option *row = find(r, name);
    return row && r->from[row - r->table->rows] >= LAYER_FILE;
}

/* Of words on this run, as for `needs`: a habit is no such word. */
static const char *said_of_documents(const reading *r) {
    static const char *const names[] = { "learn", "columns", "replace" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const option *row = find(r, names[i]);
        bool taken_back = row && row->kind == OPTION_FLAG && !r->out->replace;
        if (!taken_back && is_said(r, names[i])) return names[i];
    }
    return NULL;
}

/* The line is read twice: first for the name of the file and for mistakes, of which those are told first. */
static status read_layers(reading *r) {
    options first = options_defaults(), *out = r->out;
    r->out = &first;
    TRY(read_line(r));
    memset(r->from, 0, sizeof r->from);
    memset(r->implied, 0, sizeof r->implied);
    r->out = out;
    TRY(read_environment(r));
    if (first.config) out->config = first.config;
    if (out->config && !first.help) TRY(read_file(r));
    TRY(read_line(r));
    for (uint32_t i = 0; i < r->table->count; i++) TRY(check_needs(r, i));
    out->of_documents = said_of_documents(r);
    out->estimate.says_base = is_said(r, "base-bits");
    return STATUS_OK;
}

status options_read(const option_table *t, command c, int count, char **arguments, options *o) {
    reading r = { .table = t, .command = c, .count = count, .arguments = arguments, .out = o };
    *o = options_defaults();
    TRY(read_layers(&r));
    o->run.model = o->subject;
    return c == COMMAND_TOKENIZE ? STATUS_OK : read_parts(o); /* it takes them as they are */
}

void options_close(options *o) {
    yaml_close(&o->file);
    for (size_t i = 0; i < OPTION_LIST_MOST; i++) memory_free(o->paths[i]);
}
