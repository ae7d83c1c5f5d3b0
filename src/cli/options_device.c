/* The rows of the table that are about what computes, and how. */
#include "cli/options.h"

enum {
    RUN = COMMAND_PLAN | COMMAND_TRAIN | COMMAND_COMPARE | COMMAND_PROFILE,
    ALL = RUN | COMMAND_GENERATE,
    PLANNED = RUN | COMMAND_ESTIMATE,
};
#define FOR_SNUG "framework=snug" /* where there is a choice of frameworks */
#define FIELD(member) offsetof(options, member)

_Static_assert(RATES_AUTO == 0 && RATES_BUILT_IN == 1 && RATES_KNOWN == 2, "");

const option options_device[] = {
    { .name = "device",
      .hint = "cpu|cuda[:N]|auto",
      .kind = OPTION_TEXT,
      .group = GROUP_OUTPUT,
      .commands = ALL | COMMAND_QUANTIZE | COMMAND_SERVE | COMMAND_DEVICES,
      .offset = FIELD(run.device),
      .fallback = "auto",
      .help = "what computes, and has the memory that --memory speaks of" },
    { .name = "threads",
      .hint = "N|all",
      .kind = OPTION_INTEGER,
      .group = GROUP_OUTPUT,
      .commands =
          ALL | COMMAND_ESTIMATE | COMMAND_DEVICES | COMMAND_QUANTIZE | COMMAND_TOKENIZE | COMMAND_SERVE,
      .needs = FOR_SNUG,
      .offset = FIELD(run.threads),
      .word = "all",
      .low = 1,
      .high = 1024,
      .help = "threads that compute; results don't depend on them" },
    { .name = "pin-threads",
      .hint = "auto|off",
      .kind = OPTION_CHOICE,
      .group = GROUP_OUTPUT,
      .commands = RUN | COMMAND_GENERATE | COMMAND_DEVICES | COMMAND_QUANTIZE,
      .words = "auto, off",
      .offset = FIELD(pin_threads),
      .help = "keep threads on cores of their own while computing; auto: where they fill all usable cores" },
    { .name = "instructions",
      .hint = "auto|widened|NAME",
      .kind = OPTION_TEXT,
      .group = GROUP_OUTPUT,
      .commands = ALL | COMMAND_DEVICES,
      .offset = FIELD(instructions),
      .fallback = "auto",
      .help =
          "the last set of the processor's instructions to use, as in avx512 or amx ('snug devices' names "
          "them); products of bf16 have the bits of theirs, widened: those of every processor; tensor-cores: "
          "auto, and those of a GPU from capability 8.0 on; tensor-groups: these, and on 9.0 by groups of "
          "warps, on 10.0 in tensor memory; kernels of all have run in emulation alone" },
    { .name = "eager",
      .hint = "auto|yes|no",
      .kind = OPTION_CHOICE,
      .group = GROUP_OUTPUT,
      .commands = ALL | COMMAND_SERVE,
      .words = "auto, yes, no",
      .offset = FIELD(eager),
      .help =
          "yes: a GPU is given each kernel by itself; no: programs are captured once (CUDA graphs) and given "
          "as a whole, which takes some of its memory; auto: yes, until a GPU has confirmed the other" },
    { .name = "rates",
      .hint = "auto|built-in|known",
      .kind = OPTION_CHOICE,
      .group = GROUP_OUTPUT,
      .commands = PLANNED | COMMAND_DEVICES,
      .needs = FOR_SNUG,
      .words = "auto, built-in, known",
      .offset = FIELD(run.rates),
      .help = "what predicted times rest on; auto: measured here, once, in half a second" },
    { 0 },
};
