/* The program snug: finds the command, reads its options, runs it, and says in one sentence what went wrong.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

#ifndef SNUG_VERSION
#define SNUG_VERSION "unknown"
#endif

const cli_command cli_commands[CLI_COMMANDS] = {
    { .command = COMMAND_PLAN,
      .name = "plan",
      .subject = "MODEL",
      .run = cli_plan,
      .brief = "what a run needs, what was chosen and why; 3 if it can't fit",
      .about =
          "Says what training MODEL needs, byte by byte, which techniques meet the budget at the least cost "
          "in\n"
          "time, and what is alive at the peak. Nothing is trained. MODEL is a preset (see 'snug help'), a\n"
          "config.json or a Hugging Face model directory.",
      .examples =
          "  snug plan gpt2 --batch 8 --context 512           what it takes, with no limit set\n"
          "  snug plan gpt2 --batch 8 --memory 2GiB           what makes it fit into 2 GiB, and what that "
          "costs\n"
          "  snug plan gpt2 --batch 8 --memory auto --exact   free memory; results the same bit for bit\n"
          "  snug plan my-model/config.json --json | jq .least_budget_bytes\n" },
    { .command = COMMAND_TRAIN,
      .name = "train",
      .subject = "MODEL",
      .run = cli_train,
      .brief = "plan, then train: --data PATH --out DIR",
      .about = "Plans the run, then trains MODEL on --data and writes it to --out as a Hugging Face "
               "directory. What does\n"
               "not fit is refused before the first step. Ctrl-C finishes the step and saves; a second one "
               "stops at\n"
               "once. Text is read as bytes.",
      .examples = "  snug train char-small --data book.txt --out model --steps 500\n"
                  "  snug train char-small --data book.txt --out model --batch 64 --memory 96MiB\n"
                  "  snug train model --data letters/ --out tuned --lr 1e-4 --eval-every 100   goes on from "
                  "a model\n" },
    { .command = COMMAND_PROFILE,
      .name = "profile",
      .subject = "MODEL",
      .run = cli_profile,
      .brief = "where the time of a training step goes, and what would be its bound",
      .about =
          "Plans as train does, runs a few steps and writes no model. Shows the time by op and by block "
          "beside\n"
          "what was predicted and what the machine can't beat, and memory as planned and measured. Without\n"
          "--data the samples are random numbers.",
      .examples = "  snug profile gpt2 --batch 4 --context 256            where a step's time goes\n"
                  "  snug profile gpt2 --batch 4 --memory 2GiB --steps 3   what techniques cost in it\n"
                  "  snug profile char-small --trace step.json            for ui.perfetto.dev, with memory\n"
                  "  snug profile char-small --json | jq .profile.by_op\n" },
    { .command = COMMAND_GENERATE,
      .name = "generate",
      .subject = "DIR",
      .run = cli_generate,
      .brief = "continue a text with a trained model: --prompt TEXT",
      .about = "Continues --prompt with the model in DIR, which 'snug train' has written or Hugging Face "
               "has. The text\n"
               "goes to stdout as it comes, and nothing else does.",
      .examples = "  snug generate model --prompt 'Permission is hereby granted'\n"
                  "  snug generate model --prompt 'You may' --tokens 400 --temperature 0.5 --seed 7\n"
                  "  snug generate model --prompt 'You may' --temperature 0    the same text every time\n" },
    { .command = COMMAND_DEVICES,
      .name = "devices",
      .subject = "",
      .run = cli_devices,
      .brief = "what is here, what is free, and the rates that predictions use",
      .about = "Says which processor and how much memory there is, and the rates behind every predicted "
               "second. Without\n"
               "--measure they come from a built-in table. Results never depend on rates.",
      .examples = "  snug devices --measure     once for each machine, while nothing else runs\n"
                  "  snug devices --json | jq .free_bytes\n" },
};

const cli_command *cli_find(const char *name) {
    for (int i = 0; i < CLI_COMMANDS; i++)
        if (strcmp(cli_commands[i].name, name) == 0) return &cli_commands[i];
    return NULL;
}

static const cli_command *of(command c) {
    for (int i = 0; i + 1 < CLI_COMMANDS; i++)
        if (cli_commands[i].command == c) return &cli_commands[i];
    return &cli_commands[CLI_COMMANDS - 1];
}

const char *cli_command_name(command c) { return of(c)->name; }
const char *cli_subject_name(command c) { return of(c)->subject; }

static const char *command_at(const void *context, uint32_t i) {
    (void)context;
    static const char *const more[] = { "help", "version" };
    return i < CLI_COMMANDS ? cli_commands[i].name : more[i - CLI_COMMANDS];
}

static status unknown_command(const char *name) {
    const char *near = options_nearest(name, CLI_COMMANDS + 2, command_at, NULL);
    if (near) return status_set(STATUS_INVALID, "unknown command '%s'; did you mean %s?", name, near);
    return status_set(STATUS_INVALID,
                      "unknown command '%s'; there are plan, train, profile, devices, generate and help",
                      name);
}

static status show_help(int count, char **arguments, output *out) {
    if (count == 0) {
        cli_help_all(out);
        return STATUS_OK;
    }
    const cli_command *c = cli_find(arguments[0]);
    if (!c) return unknown_command(arguments[0]);
    if (count > 1)
        return status_set(STATUS_INVALID, "help takes one command, not '%s' as well", arguments[1]);
    cli_help_command(out, c);
    return STATUS_OK;
}

static status run_command(const cli_command *c, int count, char **arguments, cli_streams *streams) {
    static option_table table; /* large for a stack */
    options_table(&table);
    for (int i = 0; i < count; i++) /* help wins over whatever is wrong beside it */
        if (strcmp(arguments[i], "--help") == 0 || strcmp(arguments[i], "-h") == 0) {
            cli_help_command(&streams->result, c);
            return STATUS_OK;
        }
    options o;
    TRY(options_read(&table, c->command, count, arguments, &o));
    if (o.help) {
        cli_help_command(&streams->result, c);
        return STATUS_OK;
    }
    if (!o.subject && *c->subject)
        return status_set(STATUS_INVALID, "%s wants a %s: snug %s %s; 'snug help %s' shows more", c->name,
                          c->subject, c->name, c->subject, c->name);
    if (o.json) streams->people = output_of(stderr);
    if (o.quiet) streams->people.file = NULL;
    return c->run(&o, streams);
}

static status run(int count, char **arguments, cli_streams *streams) {
    if (count < 2) {
        output errors = output_of(stderr);
        cli_help_all(&errors);
        return status_set(STATUS_INVALID, "no command given; see above");
    }
    const char *name = arguments[1];
    if (strcmp(name, "--version") == 0 || strcmp(name, "version") == 0) {
        output_add(&streams->result, "snug %s\n", SNUG_VERSION);
        return STATUS_OK;
    }
    if (strcmp(name, "help") == 0 || strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        return show_help(count - 2, arguments + 2, &streams->result);
    const cli_command *c = cli_find(name);
    if (c) return run_command(c, count - 2, arguments + 2, streams);
    if (name[0] == '-')
        return status_set(STATUS_INVALID, "a command comes before options such as %s; try 'snug help'", name);
    return unknown_command(name);
}

int main(int count, char **arguments) {
    signal(SIGPIPE, SIG_IGN); /* a reader that leaves shows as a failed write */
    signal(SIGXFSZ, SIG_IGN); /* and so does a limit of file sizes */
    cli_streams streams = { .result = output_of(stdout), .people = output_of(stdout) };
    status result = run(count, arguments, &streams);
    if (result != STATUS_OK) {
        output_flush(&streams.people);
        fprintf(stderr, "snug: %s\n", status_message());
    }
    output *const last[] = { &streams.result, &streams.people };
    for (int i = 0; i < 2; i++) {
        status written = output_check(last[i]);
        if (written == STATUS_OK || result != STATUS_OK) continue;
        fprintf(stderr, "snug: %s\n", status_message());
        result = written;
    }
    return (int)result;
}
