/* snug manual: pages for man, from the tables of commands and options. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

/* In roff a line must not begin with a period or an apostrophe, a backslash escapes, and a hyphen that is to
 * be copied is written \-. */
static void add_text(output *out, const char *words) {
    if (*words == '.' || *words == '\'') output_add(out, "\\&");
    for (; *words; words++) {
        if (*words == '\\')
            output_add(out, "\\e");
        else if (*words == '-')
            output_add(out, "\\-");
        else if (*words == '\'')
            output_add(out, "\\(aq");
        else
            output_add(out, "%c", *words);
    }
}

static void add_line(output *out, const char *words) {
    add_text(out, words);
    output_add(out, "\n");
}

static void add_title(output *out, const char *name, const char *brief) {
    char title[64];
    snprintf(title, sizeof title, "snug%s%s", *name ? "-" : "", name);
    output_add(out, ".TH \"");
    for (const char *c = title; *c; c++) output_add(out, "%c", *c >= 'a' && *c <= 'z' ? *c - 'a' + 'A' : *c);
    output_add(out, "\" 1 \"\" \"snug %s\" \"snug\"\n.SH NAME\n", SNUG_VERSION);
    add_text(out, title);
    output_add(out, " \\- ");
    add_line(out, brief);
}

static void add_examples(output *out, const cli_command *c) {
    output_add(out, ".SH EXAMPLES\n");
    for (const cli_example *x = c->examples; x < c->examples + CLI_EXAMPLES && x->line; x++) {
        output_add(out, ".TP\n.B ");
        add_line(out, x->line);
        add_line(out, *x->what ? x->what : "");
    }
}

/* ---- a command ---- */

static void add_option(output *out, const option *row, const options *defaults) {
    char buffer[OPTION_NAME_BYTES], name[OPTION_NAME_BYTES + 2];
    const char *value = options_default(row, defaults, buffer);
    snprintf(name, sizeof name, "--%s", row->name);
    output_add(out, ".TP\n\\fB");
    add_text(out, name);
    output_add(out, "\\fR");
    if (row->hint) {
        output_add(out, " \\fI");
        add_text(out, row->hint);
        output_add(out, "\\fR");
    }
    output_add(out, "\n");
    add_text(out, row->help);
    if (row->words) {
        output_add(out, "; values: ");
        add_text(out, row->words);
    }
    output_add(out, ".\n");
    if (row->kind == OPTION_LIST) output_add(out, "May be given several times.\n");
    if (*value) {
        output_add(out, "Default: ");
        add_text(out, value);
        output_add(out, ".\n");
    }
}

static void add_options(output *out, const cli_command *c, const option_table *table) {
    options defaults = options_defaults();
    output_add(out, ".SH OPTIONS\n");
    for (int g = 0; g < GROUP_COUNT; g++) {
        bool any = false;
        for (uint32_t i = 0; i < table->count; i++) {
            const option *row = &table->rows[i];
            if (row->group != (option_group)g || !(row->commands & c->command)) continue;
            if (!any) output_add(out, ".SS \"%s\"\n", options_group_name((option_group)g));
            if (!any && g == GROUP_TECHNIQUES) add_line(out, CLI_TECHNIQUES_NOTE);
            any = true;
            add_option(out, row, &defaults);
        }
    }
}

static void add_notes(output *out, const char *how) {
    output_add(out, ".SH \"HOW OPTIONS ARE GIVEN\"\n");
    add_line(out, how);
    output_add(out, ".SH \"EXIT STATUS\"\n"
                    ".TP\n0\ndone, or it fits\n"
                    ".TP\n1\nfailed after work began: disk full, a loss that is not finite\n"
                    ".TP\n2\nwrong input, wrong usage, or options that contradict each other\n"
                    ".TP\n3\ndoes not fit; the sentence says by how much, and mostly what would help\n"
                    ".TP\n130\ninterrupted; what train had done was saved, unless it was stopped at once\n");
}

static void add_command_page(output *out, const cli_command *c) {
    static option_table table; /* large for a stack, and needed once */
    options_table(&table);
    add_title(out, c->name, c->brief);
    output_add(out, ".SH SYNOPSIS\n.B snug %s\n", c->name);
    if (*c->subject) output_add(out, ".I %s\n", c->subject);
    output_add(out, "[\\fIoptions\\fR]\n.SH DESCRIPTION\n");
    add_line(out, c->about);
    add_options(out, c, &table);
    add_examples(out, c);
    add_notes(out, cli_takes(c, &table, "config") ? CLI_LAYERS_NOTE : CLI_LINE_NOTE);
    output_add(out, ".SH \"SEE ALSO\"\n.BR snug (1)\n");
}

/* ---- all ---- */

static void add_overview(output *out) {
    add_title(out, "", "train neural networks inside the memory you have");
    output_add(out, ".SH SYNOPSIS\n.B snug\n.I command\n[\\fIoptions\\fR]\n.SH DESCRIPTION\n");
    add_line(out, CLI_ABOUT);
    output_add(out, ".SH COMMANDS\n");
    for (const cli_command *c = cli_commands; c->name; c++) {
        output_add(out, ".TP\n.B snug %s %s\n", c->name, c->subject);
        add_text(out, c->brief);
        output_add(out, ":\n.BR snug\\-%s (1)\n", c->name);
    }
    output_add(out, ".TP\n.B snug help COMMAND\noptions of a command, with examples\n.SH MODELS\n");
    add_text(out, families_preset_names());
    output_add(out, ", a config.json, or a Hugging Face model directory.\n");
    add_notes(out, CLI_LAYERS_NOTE);
    output_add(out, ".SH \"SEE ALSO\"\n");
    for (const cli_command *c = cli_commands; c->name; c++)
        output_add(out, ".BR snug\\-%s (1)%s\n", c->name, c[1].name ? "," : "");
}

status cli_manual(const options *o, cli_streams *streams) {
    const cli_command *c = o->subject ? cli_find(o->subject) : NULL;
    if (o->subject && !c) return cli_unknown_command(o->subject);
    if (c)
        add_command_page(&streams->result, c);
    else
        add_overview(&streams->result);
    return STATUS_OK;
}
