/* Reading of the environment and the command line by the table. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/options.h"

typedef struct {
    const option_table *table;
    command command;
    int count, next; /* of arguments */
    char **arguments;
    bool given[OPTIONS_MOST];
    options *out;
} reading;

static status read_environment(reading *r) {
    for (uint32_t i = 0; i < r->table->count; i++) {
        const option *row = &r->table->rows[i];
        char name[OPTION_NAME_BYTES];
        const char *value = row->commands & r->command ? getenv(options_environment(row, name)) : NULL;
        if (value && *value) TRY(options_store(row, name, value, r->out));
    }
    return STATUS_OK;
}

/* ---- options ---- */

static const char *name_at(const void *context, uint32_t i) {
    const reading *r = context;
    return r->table->rows[i].commands & r->command ? r->table->rows[i].name : NULL;
}

static status unknown(const reading *r, const char *name) {
    const char *of = cli_command_name(r->command);
    for (uint32_t i = 0; i < r->table->count; i++)
        if (strcmp(r->table->rows[i].name, name) == 0)
            return status_set(STATUS_INVALID, "--%s is no option of %s; 'snug help %s' shows what is", name,
                              of, of);
    const char *near = options_nearest(name, r->table->count, name_at, r);
    if (near) return status_set(STATUS_INVALID, "unknown option --%s; did you mean --%s?", name, near);
    return status_set(STATUS_INVALID, "unknown option --%s; 'snug help %s' shows all", name, of);
}

static const option *find(const reading *r, const char *name) {
    for (uint32_t i = 0; i < r->table->count; i++)
        if (r->table->rows[i].commands & r->command && strcmp(r->table->rows[i].name, name) == 0)
            return &r->table->rows[i];
    return NULL;
}

/* "--name", "--name=value" or "--name value". */
static status read_option(reading *r, const char *argument) {
    char name[OPTION_NAME_BYTES], full[OPTION_NAME_BYTES + 2];
    const char *value = strchr(argument, '=');
    snprintf(name, sizeof name, "%.*s", value ? (int)(value - argument) : (int)strlen(argument), argument);
    const option *row = find(r, name);
    if (!row) return unknown(r, name);
    if (value) value++;
    bool *given = &r->given[row - r->table->rows];
    if (*given) return status_set(STATUS_INVALID, "--%s is given twice", name);
    *given = true;
    snprintf(full, sizeof full, "--%s", name);
    if (row->kind == OPTION_FLAG) {
        if (value) return status_set(STATUS_INVALID, "%s takes no value", full);
        return options_store(row, full, "1", r->out);
    }
    if (!value && r->next < r->count && strncmp(r->arguments[r->next], "--", 2) != 0)
        value = r->arguments[r->next++];
    if (!value || (!*value && row->offset != offsetof(options, prompt)))
        return status_set(STATUS_INVALID, "%s wants a value: %s %s", full, full,
                          row->words && row->kind == OPTION_CHOICE ? row->words : row->hint);
    return options_store(row, full, value, r->out);
}

/* ---- the line ---- */

static status read_word(reading *r, const char *word) {
    const char *name = cli_command_name(r->command);
    if (!*cli_subject_name(r->command))
        return status_set(STATUS_INVALID, "%s takes options only, not '%s'", name, word);
    if (!*word)
        return status_set(STATUS_INVALID, "%s: the name of the %s is empty", name,
                          cli_subject_name(r->command));
    if (r->out->subject)
        return status_set(STATUS_INVALID, "%s takes one %s, and '%s' is given beside '%s'", name,
                          cli_subject_name(r->command), word, r->out->subject);
    r->out->subject = word;
    return STATUS_OK;
}

status options_read(const option_table *t, command c, int count, char **arguments, options *o) {
    reading r = { .table = t, .command = c, .count = count, .arguments = arguments, .out = o };
    *o = options_defaults();
    bool words_only = false;
    TRY(read_environment(&r));
    while (r.next < count) {
        const char *argument = arguments[r.next++];
        if (words_only || argument[0] != '-' || !argument[1]) {
            TRY(read_word(&r, argument));
        } else if (strcmp(argument, "--") == 0) {
            words_only = true;
        } else if (strcmp(argument, "-h") == 0) {
            o->help = true;
        } else if (argument[1] != '-') {
            return status_set(STATUS_INVALID,
                              "unknown option %s; options begin with two hyphens, as in --help", argument);
        } else {
            TRY(read_option(&r, argument + 2));
        }
    }
    o->run.model = o->subject;
    return STATUS_OK;
}
