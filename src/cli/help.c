/* Help pages, from the tables of commands and options, as wide as the terminal lets them be. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "io/published.h"

enum { WIDEST = 100, NARROW = 64, COLUMN = 28, INDENT = 6 };

typedef struct {
    output *out;
    int width, column; /* texts of options begin at `column` */
} page;

static page page_of(output *out) {
    int columns = output_columns(out);
    return (page){ .out = out,
                   .width = columns < WIDEST ? columns : WIDEST,
                   .column = columns < NARROW ? INDENT : COLUMN };
}

/* `words` wrapped, lines beginning at `column`; what stands before them ends at column `at`. */
static void add_wrapped(const page *p, int at, int column, const char *words) {
    if (at > column) {
        output_add(p->out, "\n");
        at = 0;
    }
    output_add(p->out, "%*s", column - at, "");
    at = column;
    while (*words) {
        int length = (int)strcspn(words, " ");
        if (at > column && at + 1 + length > p->width) {
            output_add(p->out, "\n%*s", column, "");
            at = column;
        } else if (at > column) {
            output_add(p->out, " ");
            at++;
        }
        output_add(p->out, "%.*s", length, words);
        at += length;
        words += length;
        while (*words == ' ') words++;
    }
    output_add(p->out, "\n");
}

static void add_paragraph(const page *p, const char *words) {
    output_add(p->out, "\n");
    add_wrapped(p, 0, 0, words);
}

/* ---- a command ---- */

static void add_option(const page *p, const option *row, const options *defaults) {
    char left[2 * OPTION_NAME_BYTES], right[512], buffer[OPTION_NAME_BYTES];
    int at = snprintf(left, sizeof left, "  --%s%s%s", row->name, row->hint ? " " : "",
                      row->hint ? row->hint : "");
    const char *value = options_default(row, defaults, buffer);
    snprintf(right, sizeof right, "%s%s%s%s%s%s", row->help, row->words ? "; values: " : "",
             row->words ? row->words : "", *value ? " [" : "", value, *value ? "]" : "");
    output_add(p->out, "%s ", left);
    add_wrapped(p, at + 1, p->column, right);
}

static void add_group(const page *p, const cli_command *c, const option_table *table, option_group g) {
    options defaults = options_defaults();
    bool any = false;
    for (uint32_t i = 0; i < table->count; i++) {
        const option *row = &table->rows[i];
        if (row->group != g || !(row->commands & c->command)) continue;
        if (!any) output_add(p->out, "\n%s\n", options_group_name(g));
        any = true;
        add_option(p, row, &defaults);
    }
    if (any && g == GROUP_TECHNIQUES) {
        output_add(p->out, "  ");
        add_wrapped(p, 2, 2, CLI_TECHNIQUES_NOTE);
    }
}

/* What an example shows stands beside it, or below where that is too wide. */
static void add_examples(const page *p, const cli_command *c) {
    size_t longest = 0;
    bool beside = true;
    for (const cli_example *x = c->examples; x < c->examples + CLI_EXAMPLES && x->line; x++)
        if (strlen(x->line) > longest) longest = strlen(x->line);
    for (const cli_example *x = c->examples; x < c->examples + CLI_EXAMPLES && x->line; x++)
        beside = beside && (int)(2 + longest + 3 + strlen(x->what)) <= p->width;
    output_add(p->out, "\nExamples\n");
    for (const cli_example *x = c->examples; x < c->examples + CLI_EXAMPLES && x->line; x++) {
        if (!*x->what)
            output_add(p->out, "  %s\n", x->line);
        else if (beside)
            output_add(p->out, "  %-*s   %s\n", (int)longest, x->line, x->what);
        else {
            output_add(p->out, "  %s\n", x->line);
            add_wrapped(p, 0, INDENT, x->what);
        }
    }
}

void cli_help_command(output *out, const cli_command *c) {
    static option_table table; /* large for a stack, and needed once */
    page p = page_of(out);
    options_table(&table);
    output_add(out, "usage: snug %s%s%s [options]\n", c->name, *c->subject ? " " : "", c->subject);
    add_paragraph(&p, c->about);
    for (int g = 0; g < GROUP_COUNT; g++) add_group(&p, c, &table, (option_group)g);
    add_examples(&p, c);
    add_paragraph(&p, cli_takes(c, &table, "config") ? CLI_LAYERS_NOTE : CLI_LINE_NOTE);
    add_paragraph(&p, CLI_EXITS_NOTE);
}

/* ---- all ---- */

static void add_command(const page *p, const char *left, const char *what) {
    output_add(p->out, "  %s ", left);
    add_wrapped(p, (int)strlen(left) + 3, p->column, what);
}

/* Names that stand for sizes. */
static void add_published(const page *p) {
    text t = { 0 };
    text_add(
        &t, "to plan and estimate, mixtures of experts, T5, ViT, CLIP, ResNet and ConvNeXt as well; and by a "
            "name or a size (7B) alone");
    for (const published_model *m = published_models; m->name; m++)
        text_add(&t, "%s%s", m == published_models ? ": " : ", ", m->name);
    output_add(p->out, "  ");
    add_wrapped(p, 2, 2, t.failed ? "" : t.data);
    text_close(&t);
}

void cli_help_all(output *out) {
    static const cli_example begin[] = {
        { "snug plan gpt2 --batch 8", "what does it need?" },
        { "snug plan gpt2 --batch 8 --memory 3GiB", "and in 3 GiB?" },
        { "snug train char-small --data TEXT --out DIR --memory 96MiB", NULL },
        { "snug generate DIR --prompt 'Once upon a time'", NULL },
    };
    page p = page_of(out);
    add_wrapped(&p, 0, 0, CLI_ABOUT);
    output_add(out, "\nCommands\n");
    for (const cli_command *c = cli_commands; c->name; c++) {
        char left[64];
        snprintf(left, sizeof left, "snug %s %s", c->name, c->subject);
        add_command(&p, left, c->brief);
    }
    add_command(&p, "snug help COMMAND", "its options, with examples");
    add_command(&p, "snug --version", "which snug this is");
    output_add(out, "\nModels\n  ");
    add_wrapped(&p, 2, 2, families_preset_names());
    output_add(out, "  ");
    add_wrapped(&p, 2, 2,
                "a config.json, or a Hugging Face model directory: GPT-2, Llama, Mistral, Qwen 2 and 3, Phi, "
                "Gemma, GPT-NeoX, BERT, RoBERTa, DistilBERT");
    add_published(&p);
    output_add(out, "\nBegin with\n");
    for (size_t i = 0; i < sizeof begin / sizeof *begin; i++)
        output_add(out, begin[i].what && p.width > NARROW ? "  %-45s %s\n" : "  %s\n", begin[i].line,
                   begin[i].what);
}
