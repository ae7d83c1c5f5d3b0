/* The rows of the table that are about processes which train together. */
#include "cli/options.h"

#define FIELD(member) offsetof(options, member)

const option options_ranks[] = {
    { .name = "unit",
      .hint = "N|off",
      .kind = OPTION_INTEGER,
      .group = GROUP_MEMORY,
      .commands = COMMAND_PLAN | COMMAND_TRAIN | COMMAND_COMPARE | COMMAND_PROFILE | COMMAND_ESTIMATE,
      .needs = "framework=snug",
      .offset = FIELD(run.unit),
      .word = "off",
      .low = 1,
      .high = 1 << 20,
      .help = "samples whose sums stay together, of which the batch is a whole number; micro-batches divide "
              "them" },
    { .name = "ranks",
      .hint = "N[xPER_HOST]",
      .kind = OPTION_RANKS,
      .group = GROUP_MEMORY,
      .commands = COMMAND_PLAN | COMMAND_COMPARE | COMMAND_ESTIMATE,
      .needs = "framework=snug",
      .offset = FIELD(run.ranks),
      .low = 1,
      .high = 1 << 16,
      .help =
          "plan for so many processes that train together, with nobody there: so many on each host, or all "
          "on one; --unit says what each has" },
    { .name = "transport-memory",
      .hint = "SIZE",
      .kind = OPTION_BYTES,
      .group = GROUP_MEMORY,
      .commands = COMMAND_PLAN | COMMAND_TRAIN | COMMAND_COMPARE | COMMAND_PROFILE,
      .offset = FIELD(run.transport_memory),
      .fallback = "1GiB, 16MiB more a rank",
      .help = "of several processes on GPUs: what NCCL may take of each GPU's memory" },
    { .name = "rank-timeout",
      .hint = "SECONDS",
      .kind = OPTION_INTEGER,
      .group = GROUP_MEMORY,
      .commands = COMMAND_TRAIN | COMMAND_PROFILE,
      .offset = FIELD(run.rank_timeout),
      .low = 1,
      .high = 1 << 20,
      .help = "of several processes: whoever waits longer for another names it and ends the run" },
    { 0 },
};
