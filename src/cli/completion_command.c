/* snug completion: scripts for bash, zsh and fish, from the tables of commands and options. Values are
 * offered where the table lists words; where it says PATH, FILE or DIR, the shell completes paths. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

/* ---- what may be said ---- */

/* The words of "auto, off, cheap, or LEVEL:BLOCKS": capital letters stand for something else. Each comes with
 * `before` in front of it. */
static void add_list(output *out, const char *list, const char *before) {
    for (const char *at = list; at && *at; at += strspn(at, ", ")) {
        size_t length = strcspn(at, ", ");
        bool word = strncmp(at, "or", length) != 0;
        for (size_t i = 0; i < length; i++) word = word && !isupper((unsigned char)at[i]);
        if (word) output_add(out, "%s%.*s", before, (int)length, at);
        at += length;
    }
}

static void add_values(output *out, const option *row, const char *before) {
    if (row->names) add_list(out, row->names(), before);
    if (row->word) output_add(out, "%s%s", before, row->word);
    add_list(out, row->words, before);
}

static bool has_values(const option *row) { return row->word || row->words || row->names; }

typedef enum { PATHS_NONE, PATHS_ANY, PATHS_FOLDERS } paths;

static paths paths_of(const char *hint) {
    if (!hint) return PATHS_NONE;
    if (strcmp(hint, "DIR") == 0 || strcmp(hint, "[DIR]") == 0) return PATHS_FOLDERS;
    bool any = strncmp(hint, "PATH", 4) == 0 || strstr(hint, "FILE") || strstr(hint, "MODEL");
    return any ? PATHS_ANY : PATHS_NONE;
}

/* Rows of one name (of different commands) take the same values. */
static bool seen_before(const option_table *t, uint32_t index) {
    for (uint32_t i = 0; i < index; i++)
        if (strcmp(t->rows[i].name, t->rows[index].name) == 0) return true;
    return false;
}

/* Names of commands take the place of an unnamed subject, as in "snug manual train". */
static void add_subjects(output *out, const cli_command *c, const char *before) {
    if (c->subjects) add_list(out, c->subjects(), before);
    if (strcmp(c->subject, "[COMMAND]") != 0) return;
    for (const cli_command *other = cli_commands; other->name; other++)
        output_add(out, "%s%s", before, other->name);
}

/* ---- bash ---- */

static void add_bash_values(output *out, const option_table *t) {
    static const char *const how[] = {
        [PATHS_ANY] = "compopt -o filenames; COMPREPLY+=($(compgen -f -- \"$current\"))",
        [PATHS_FOLDERS] = "compopt -o filenames; COMPREPLY+=($(compgen -d -- \"$current\"))"
    };
    output_add(out, "    case $previous in\n");
    for (uint32_t i = 0; i < t->count; i++) {
        const option *row = &t->rows[i];
        paths kind = paths_of(row->hint);
        if (row->kind == OPTION_FLAG || seen_before(t, i)) continue;
        output_add(out, "    --%s) ", row->name);
        if (has_values(row)) {
            output_add(out, "COMPREPLY=($(compgen -W \"");
            add_values(out, row, " ");
            output_add(out, "\" -- \"$current\")); ");
        }
        if (kind != PATHS_NONE) output_add(out, "%s; ", how[kind]);
        output_add(out, "return ;;\n");
    }
    output_add(out, "    esac\n");
}

static void add_bash_command(output *out, const option_table *t, const cli_command *c) {
    output_add(out, "    %s)\n        options=\"", c->name);
    for (uint32_t i = 0, any = 0; i < t->count; i++)
        if (t->rows[i].commands & c->command) output_add(out, "%s--%s", any++ ? " " : "", t->rows[i].name);
    output_add(out, "\"\n        words=\"");
    add_subjects(out, c, " ");
    output_add(out, "\"\n");
    paths kind = paths_of(c->subject);
    output_add(out, "        paths=%s ;;\n", kind == PATHS_ANY ? "-f" : kind == PATHS_FOLDERS ? "-d" : "");
}

static void add_bash(output *out, const option_table *t) {
    output_add(out, "# Completion of snug for bash; 'snug completion bash' writes it.\n"
                    "_snug() {\n"
                    "    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}\n"
                    "    local options= words= paths=\n"
                    "    COMPREPLY=()\n"
                    "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
                    "        COMPREPLY=($(compgen -W \"");
    for (const cli_command *c = cli_commands; c->name; c++) output_add(out, "%s ", c->name);
    output_add(out, "help --help --version\" -- \"$current\"))\n"
                    "        return\n"
                    "    fi\n"
                    "    # bash cuts --name=value at the sign\n"
                    "    if [ \"$current\" = = ]; then\n"
                    "        current=\n"
                    "    elif [ \"$previous\" = = ]; then\n"
                    "        previous=${COMP_WORDS[COMP_CWORD - 2]}\n"
                    "    fi\n");
    add_bash_values(out, t);
    output_add(out, "    case ${COMP_WORDS[1]} in\n");
    for (const cli_command *c = cli_commands; c->name; c++) add_bash_command(out, t, c);
    output_add(out, "    help)\n        words=\"");
    for (const cli_command *c = cli_commands; c->name; c++) output_add(out, " %s", c->name);
    output_add(out, "\" ;;\n    esac\n"
                    "    if [ \"${current#-}\" != \"$current\" ]; then\n"
                    "        COMPREPLY=($(compgen -W \"$options\" -- \"$current\"))\n"
                    "        return\n"
                    "    fi\n"
                    "    COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
                    "    if [ -n \"$paths\" ]; then\n"
                    "        compopt -o filenames\n"
                    "        COMPREPLY+=($(compgen $paths -- \"$current\"))\n"
                    "    fi\n"
                    "}\n"
                    "complete -F _snug snug\n");
}

/* ---- zsh ---- */

/* Inside single quotes, for _arguments and _describe, where brackets and colons mean something. */
static void add_zsh_text(output *out, const char *words) {
    for (; *words; words++)
        output_add(out, *words == '\'' ? "'\\''" : strchr("[]:\\", *words) ? "\\%c" : "%c", *words);
}

static void add_zsh_action(output *out, const option *row) {
    static const char *const how[] = {
        [PATHS_NONE] = " ", [PATHS_ANY] = "_files", [PATHS_FOLDERS] = "_files -/"
    };
    paths kind = paths_of(row->hint);
    if (kind == PATHS_NONE && has_values(row)) {
        output_add(out, "(");
        add_values(out, row, " ");
        output_add(out, ")");
    } else if (has_values(row)) {
        output_add(out, "{compadd --");
        add_values(out, row, " ");
        output_add(out, "; %s}", how[kind]);
    } else {
        output_add(out, "%s", how[kind]);
    }
}

static void add_zsh_command(output *out, const option_table *t, const cli_command *c) {
    output_add(out, "    %s)\n        _arguments \\\n", c->name);
    for (uint32_t i = 0; i < t->count; i++) {
        const option *row = &t->rows[i];
        if (!(row->commands & c->command)) continue;
        output_add(out, "            '%s--%s%s[", row->kind == OPTION_LIST ? "*" : "", row->name,
                   row->kind == OPTION_FLAG ? "" : "=");
        add_zsh_text(out, row->help);
        output_add(out, "]");
        if (row->kind != OPTION_FLAG) {
            output_add(out, row->kind == OPTION_MAYBE ? "::" : ":");
            add_zsh_text(out, row->hint);
            output_add(out, ":");
            add_zsh_action(out, row);
        }
        output_add(out, "' \\\n");
    }
    if (*c->subject) {
        output_add(out, "            '1:");
        add_zsh_text(out, c->subject);
        output_add(out, ":_snug_%s' \\\n", c->name);
    }
    output_add(out, "            && return 0 ;;\n");
}

static void add_zsh_subject(output *out, const cli_command *c) {
    if (!*c->subject) return;
    output_add(out, "_snug_%s() {\n    local -a words_here=(", c->name);
    add_subjects(out, c, " ");
    output_add(out, " )\n    (( $#words_here )) && compadd -a words_here\n");
    paths kind = paths_of(c->subject);
    if (kind != PATHS_NONE) output_add(out, "    _files%s\n", kind == PATHS_FOLDERS ? " -/" : "");
    output_add(out, "}\n");
}

static void add_zsh(output *out, const option_table *t) {
    output_add(out, "#compdef snug\n# Completion of snug for zsh; 'snug completion zsh' writes it.\n");
    for (const cli_command *c = cli_commands; c->name; c++) add_zsh_subject(out, c);
    output_add(out, "_snug() {\n    local -a commands=(\n");
    for (const cli_command *c = cli_commands; c->name; c++) {
        output_add(out, "        '%s:", c->name);
        add_zsh_text(out, c->brief);
        output_add(out, "'\n");
    }
    output_add(out, "        'help:options of a command, with examples'\n    )\n"
                    "    if (( CURRENT == 2 )); then\n"
                    "        _describe command commands\n"
                    "        return\n"
                    "    fi\n"
                    "    local command=$words[2]\n"
                    "    shift words\n"
                    "    (( CURRENT-- ))\n"
                    "    case $command in\n");
    for (const cli_command *c = cli_commands; c->name; c++) add_zsh_command(out, t, c);
    output_add(out,
               "    help) (( CURRENT == 2 )) && _describe command commands ;;\n"
               "    esac\n}\n"
               "# Read by the completion system it is the function's first call; by 'source' it is not.\n"
               "if [ \"$funcstack[1]\" = _snug ]; then _snug \"$@\"; else compdef _snug snug; fi\n");
}

/* ---- fish ---- */

static void add_fish_text(output *out, const char *words) {
    output_add(out, "'");
    for (; *words; words++) output_add(out, strchr("'\\", *words) ? "\\%c" : "%c", *words);
    output_add(out, "'");
}

static void add_fish_option(output *out, const option *row) {
    paths kind = paths_of(row->hint);
    output_add(out, "complete -c snug -n '__fish_seen_subcommand_from");
    for (const cli_command *c = cli_commands; c->name; c++)
        if (row->commands & c->command) output_add(out, " %s", c->name);
    output_add(out, "' -l %s", row->name);
    if (row->kind != OPTION_FLAG && row->kind != OPTION_MAYBE)
        output_add(out, kind == PATHS_ANY ? " -r -F" : " -x");
    if (kind == PATHS_FOLDERS) output_add(out, " -a '(__fish_complete_directories)'");
    if (kind != PATHS_FOLDERS && has_values(row)) {
        output_add(out, " -a '");
        add_values(out, row, " ");
        output_add(out, "'");
    }
    output_add(out, " -d ");
    add_fish_text(out, row->help);
    output_add(out, "\n");
}

static void add_fish_subject(output *out, const cli_command *c) {
    paths kind = paths_of(c->subject);
    if (!*c->subject) return;
    output_add(out, "complete -c snug -n '__fish_seen_subcommand_from %s' -a '", c->name);
    add_subjects(out, c, " ");
    if (kind == PATHS_FOLDERS) output_add(out, " (__fish_complete_directories)");
    output_add(out, "'%s\n", kind == PATHS_ANY ? " -F" : "");
}

static void add_fish(output *out, const option_table *t) {
    output_add(out,
               "# Completion of snug for fish; 'snug completion fish' writes it.\ncomplete -c snug -f\n");
    for (const cli_command *c = cli_commands; c->name; c++) {
        output_add(out, "complete -c snug -n __fish_use_subcommand -a %s -d ", c->name);
        add_fish_text(out, c->brief);
        output_add(out, "\n");
        add_fish_subject(out, c);
    }
    output_add(out, "complete -c snug -n __fish_use_subcommand -a help -d 'options of a command'\n"
                    "complete -c snug -n __fish_use_subcommand -l version\n"
                    "complete -c snug -n '__fish_seen_subcommand_from help' -a '");
    for (const cli_command *c = cli_commands; c->name; c++) output_add(out, " %s", c->name);
    output_add(out, "'\n");
    for (uint32_t i = 0; i < t->count; i++) add_fish_option(out, &t->rows[i]);
}

/* ---- the command ---- */

status cli_completion(const options *o, cli_streams *streams) {
    static option_table table;
    options_table(&table);
    static const struct {
        const char *name;
        void (*add)(output *out, const option_table *t);
    } shells[] = { { "bash", add_bash }, { "zsh", add_zsh }, { "fish", add_fish } };
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++)
        if (strcmp(shells[i].name, o->subject) == 0) {
            shells[i].add(&streams->result, &table);
            return STATUS_OK;
        }
    return status_set(STATUS_INVALID, "completion: '%s' is none of bash, zsh, fish", o->subject);
}
