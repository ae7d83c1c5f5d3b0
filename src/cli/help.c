/* Help pages, from the tables of commands and options. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

enum { WIDTH = 100, COLUMN = 28 };

/* `words` wrapped, every line beginning at COLUMN; the first begins at column `at`. */
static void add_wrapped(output *out, int at, const char *words) {
    if (at >= COLUMN) {
        output_add(out, "\n");
        at = 0;
    }
    output_add(out, "%*s", COLUMN - at, "");
    at = COLUMN;
    while (*words) {
        int length = (int)strcspn(words, " ");
        if (at > COLUMN && at + 1 + length > WIDTH) {
            output_add(out, "\n%*s", COLUMN, "");
            at = COLUMN;
        } else if (at > COLUMN) {
            output_add(out, " ");
            at++;
        }
        output_add(out, "%.*s", length, words);
        at += length;
        words += length;
        while (*words == ' ') words++;
    }
    output_add(out, "\n");
}

static void add_option(output *out, const option *row, const options *defaults) {
    char left[2 * OPTION_NAME_BYTES], right[512], buffer[OPTION_NAME_BYTES];
    int at = snprintf(left, sizeof left, "  --%s%s%s", row->name, row->hint ? " " : "",
                      row->hint ? row->hint : "");
    const char *value = options_default(row, defaults, buffer);
    snprintf(right, sizeof right, "%s%s%s%s%s%s", row->help, row->words ? ": " : "",
             row->words ? row->words : "", *value ? " [" : "", value, *value ? "]" : "");
    output_add(out, "%s", left);
    add_wrapped(out, at, right);
}

void cli_help_command(output *out, const cli_command *c) {
    static option_table table; /* large for a stack, and needed once */
    options defaults = options_defaults();
    options_table(&table);
    output_add(out, "usage: snug %s%s%s [options]\n\n%s\n", c->name, *c->subject ? " " : "", c->subject,
               c->about);
    for (int g = 0; g < GROUP_COUNT; g++) {
        bool any = false;
        for (uint32_t i = 0; i < table.count; i++) {
            const option *row = &table.rows[i];
            if (row->group != (option_group)g || !(row->commands & c->command)) continue;
            if (!any) output_add(out, "\n%s\n", options_group_name((option_group)g));
            any = true;
            add_option(out, row, &defaults);
        }
        if (any && g == GROUP_TECHNIQUES)
            output_add(
                out,
                "  Left at auto, the planner takes what meets the budget at the least cost in time; off or a "
                "setting\n  is kept as you say.\n");
    }
    output_add(out, "\nExamples\n%s", c->examples);
    output_add(
        out,
        "\nOptions are written --name value or --name=value. Each can be set in the environment as well, as\n"
        "in SNUG_MEMORY=2GiB; the command line wins.\n"
        "Exit codes: 0 done or fits, 1 failed on the way, 2 wrong input or usage, 3 does not fit, 130 "
        "interrupted.\n");
}

void cli_help_all(output *out) {
    output_add(
        out,
        "snug trains neural networks inside the memory you have. You give it a model, data and a number of\n"
        "bytes; it tells you before it begins what the run needs and which memory-saving techniques make it\n"
        "fit at the least cost in time. Then it runs exactly that plan.\n\nCommands\n");
    for (int i = 0; i < CLI_COMMANDS; i++) {
        const cli_command *c = &cli_commands[i];
        char left[64];
        snprintf(left, sizeof left, "  snug %s %s", c->name, c->subject);
        output_add(out, "%-28s%s\n", left, c->brief);
    }
    output_add(out, "%-28s%s\n%-28s%s\n", "  snug help COMMAND", "its options, with examples",
               "  snug --version", "which snug this is");
    output_add(out,
               "\nModels\n"
               "  %s,\n"
               "  a config.json, or a Hugging Face model directory with GPT-2's architecture\n",
               gpt2_preset_names());
    output_add(out, "\nBegin with\n"
                    "  snug plan gpt2 --batch 8                         what does it need?\n"
                    "  snug plan gpt2 --batch 8 --memory 3GiB           and in 3 GiB?\n"
                    "  snug train char-small --data TEXT --out DIR --memory 96MiB\n"
                    "  snug generate DIR --prompt 'Once upon a time'\n");
}
