/* The program: which commands there are, and what each does. Exit codes are status values. */
#pragma once

#include "cli/options.h"
#include "cli/output.h"

/* Where a command writes: the result on stdout, what people read there too, or on stderr beside JSON. */
typedef struct {
    output result, people;
} cli_streams;

typedef struct {
    command command;
    const char *name;
    const char *subject; /* "MODEL" or "DIR"; "": none is taken */
    const char *brief;   /* one line */
    const char *about;   /* what --help says first */
    const char *examples;
    status (*run)(const options *o, cli_streams *streams);
} cli_command;

extern const cli_command cli_commands[];
enum { CLI_COMMANDS = 5 };
const cli_command *cli_find(const char *name); /* NULL: no such command */
const char *cli_command_name(command c);
const char *cli_subject_name(command c);

status cli_plan(const options *o, cli_streams *streams);
status cli_train(const options *o, cli_streams *streams);
status cli_profile(const options *o, cli_streams *streams);
status cli_devices(const options *o, cli_streams *streams);
status cli_generate(const options *o, cli_streams *streams);

/* What plan and train begin with: setup and decision, with a word to people when that takes a while.
 * `*decided`: the decision is filled, also where it does not fit. Close both in any case. */
status cli_decide(const options *o, cli_streams *streams, setup *s, decision *d, bool *decided);

void cli_help_all(output *out);
void cli_help_command(output *out, const cli_command *c);
