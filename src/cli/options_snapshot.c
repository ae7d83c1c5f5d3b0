/* The rows of the table that are snapshot's. */
#include "cli/options.h"

#define FIELD(member) offsetof(options, member)

const option options_snapshot[] = {
    { .name = "at",
      .hint = "N|peak",
      .kind = OPTION_INTEGER,
      .group = GROUP_OUTPUT,
      .commands = COMMAND_SNAPSHOT,
      .offset = FIELD(snapshot.at),
      .word = "peak",
      .meaning = -1,
      .low = 0,
      .high = 4294967295.0,
      .help = "look at the moment after event number N, in place of the peak; 0: before the first" },
    { .name = "each",
      .kind = OPTION_FLAG,
      .group = GROUP_OUTPUT,
      .commands = COMMAND_SNAPSHOT,
      .offset = FIELD(snapshot.each),
      .help = "every allocation of a FILE that is in use then, largest first: where it is and what" },
    { .name = "memory",
      .hint = "SIZE",
      .kind = OPTION_BYTES,
      .group = GROUP_OUTPUT,
      .commands = COMMAND_SNAPSHOT,
      .offset = FIELD(snapshot.memory),
      .help =
          "what the device has, as in 80GiB: says when it is full where memory grows from step to step, and "
          "with --for what fits" },
    { .name = "anonymous",
      .kind = OPTION_FLAG,
      .group = GROUP_OUTPUT,
      .commands = COMMAND_SNAPSHOT,
      .offset = FIELD(snapshot.anonymous),
      .help = "no paths and no names but those of libraries: numbers in their place" },
    { .name = "recipe",
      .hint = "LOOP",
      .kind = OPTION_CHOICE,
      .group = GROUP_OUTPUT,
      .commands = COMMAND_SNAPSHOT,
      .offset = FIELD(snapshot.recipe),
      .words = "none, plain, hf, lightning, torchtitan",
      .help = "without a FILE: the lines that record such a training loop well" },
    { .name = NULL },
};
