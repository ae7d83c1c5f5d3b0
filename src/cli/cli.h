/* The program: which commands there are, and what each does. Exit codes are status values. */
#pragma once

#include "cli/options.h"
#include "cli/output.h"
#include "train/resume.h"

/* Where a command writes: the result on stdout, what people read there too, or on stderr beside JSON. */
typedef struct {
    output result, people;
} cli_streams;

typedef struct {
    const char *line, *what; /* "snug plan gpt2", and what it shows */
} cli_example;

enum { CLI_EXAMPLES = 8 };

/* Like the table of options, the table of commands is all that help, manual pages and completion know. */
typedef struct {
    command command;
    const char *name;
    const char *subject;           /* "MODEL" or "DIR"; in brackets: may be left out; "": none is taken */
    bool many;                     /* several of it may be given */
    const char *(*subjects)(void); /* words that may stand there: "bash, zsh"; NULL: a path, or none */
    const char *brief;             /* one line */
    const char *about;             /* what --help says first: one paragraph, without line ends */
    cli_example examples[CLI_EXAMPLES];
    status (*run)(const options *o, cli_streams *streams);
} cli_command;

extern const cli_command cli_commands[];       /* ends with one without a name */
const cli_command *cli_find(const char *name); /* NULL: no such command */
const cli_command *cli_command_of(command c);
const char *cli_command_name(command c);
bool cli_takes(const cli_command *c, const option_table *t, const char *name);
const char *cli_subject_name(command c);

/* The key that stands for the subject in a configuration file: "model" of MODEL; "": there is none. */
const char *cli_subject_key(command c);
const char *cli_model_names(void);        /* presets and published models: "gpt2, ..., llama-3-8b, ..." */
bool cli_is_subject_key(const char *key); /* of any command */

status cli_unknown_command(const char *name); /* STATUS_INVALID, with what may have been meant */

/* STATUS_INVALID where a model is no directory: of commands that want its files. */
status cli_check_directory(const char *path);

status cli_plan(const options *o, cli_streams *streams);
status cli_train(const options *o, cli_streams *streams);
/* train --eval-only. `so_far`: how this rank has come here. */
status cli_evaluate(const options *o, cli_streams *streams, io_writer *html, status so_far);
status cli_profile(const options *o, cli_streams *streams);
status cli_tokenize(const options *o, cli_streams *streams);
status cli_quantize(const options *o, cli_streams *streams);
status cli_export(const options *o, cli_streams *streams);
status cli_merge(const options *o, cli_streams *streams);
status cli_compare(const options *o, cli_streams *streams);
status cli_explain(const options *o, cli_streams *streams);
status cli_snapshot(const options *o, cli_streams *streams);

/* The first changes of settings that save something of a run of `model` in PyTorch, cheapest first, in the
 * words of those who use it. */
typedef struct {
    char text[FRAMEWORK_CHANGE_BYTES];
    uint64_t bytes; /* of the device */
} cli_saving;
typedef struct {
    uint64_t live, device; /* what such a run is estimated to take, of tensors and of the device */
    cli_saving *savings;
    uint32_t room, count;
} cli_savings;
status cli_estimate_savings(const options *o, const char *model, cli_savings *out);

/* The same of a run that was measured: each part of it changes by the factor that it changes by in the
 * estimate. */
typedef enum {
    CLI_WEIGHTS,
    CLI_GRADIENTS,
    CLI_OPTIMIZER,
    CLI_ACTIVATIONS,
    CLI_TEMPORARIES,
    CLI_INPUTS,
    CLI_PARTS
} cli_part;
enum { CLI_CHANGES = 16 };
typedef struct {
    char text[FRAMEWORK_CHANGE_BYTES]; /* as options of estimate */
    uint64_t saves;
    bool alters; /* what is trained */
} cli_change;
typedef struct {
    const char *framework; /* NULL: nothing was asked */
    uint64_t live, memory; /* that such a run is estimated to take; of the device that is named, or 0 */
    cli_change all[CLI_CHANGES];
    uint32_t count;
} cli_changes;
status cli_estimate_changes(const options *o, const char *model, const uint64_t measured[CLI_PARTS],
                            cli_changes *out);

status cli_estimate(const options *o, cli_streams *streams);
status cli_admit(const options *o, cli_streams *streams);
status cli_status(const options *o, cli_streams *streams);
status cli_devices(const options *o, cli_streams *streams);
status cli_generate(const options *o, cli_streams *streams);
status cli_serve(const options *o, cli_streams *streams);
/* What 'estimate --framework snug --serve' answers: the plan by which --requests texts of --context are
 * written at once, and whether --memory holds it. Of the folder that is named, or of `c` (NULL: the folder).
 */
status cli_serve_estimate(const options *o, const model_config *c, const char *name, cli_streams *streams);
status cli_completion(const options *o, cli_streams *streams);
status cli_manual(const options *o, cli_streams *streams);

/* The setup of a command that computes. STATUS_INVALID, before anything is planned, where the model can only
 * be planned, its weights are not in its files, or the data can't be read as they are. Close it in any case.
 */
status cli_setup(const options *o, setup *s);

/* The decision on an open setup, with a word to people when that takes a while. `from` (NULL: nothing is
 * resumed) gets the checkpoint that a run goes on from. `*decided`: the decision is filled, also where it
 * does not fit. Of several ranks the first one decides, and the others hear of it (cli/ranks.h). Close all in
 * any case. */
status cli_decide(cli_streams *streams, setup *s, resume *from, decision *d, bool *decided);

void cli_help_all(output *out);
void cli_help_command(output *out, const cli_command *c);

/* Said in the help as in the manual. */
#define CLI_ABOUT                                                                                            \
    "snug trains neural networks inside the memory you have. You give it a model, data and a number of "     \
    "bytes; it tells you before it begins what the run needs and which memory-saving techniques make it "    \
    "fit at the least cost in time. Then it runs exactly that plan."
#define CLI_TECHNIQUES_NOTE                                                                                  \
    "Left at auto, the planner takes what meets the budget at the least cost in time; off or a setting is "  \
    "kept as you say."
#define CLI_LINE_NOTE "Options are written --name value or --name=value; --no-name takes a switch back."
#define CLI_LAYERS_NOTE /* of commands that take --config */                                                 \
    CLI_LINE_NOTE                                                                                            \
    " Each can also stand in a YAML file (--config FILE, with lines like memory: 2GiB) and in "              \
    "the environment (as in SNUG_MEMORY=2GiB). The command line wins over the file, the file "               \
    "over the environment."
#define CLI_EXITS_NOTE                                                                                       \
    "Exit codes: 0 done or fits, 1 failed on the way, 2 wrong input or usage, 3 does not fit, 130 "          \
    "interrupted."
