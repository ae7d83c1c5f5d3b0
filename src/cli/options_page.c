/* The row of the table for pages. */
#include "cli/options.h"

const option options_page[] = {
    { .name = "html",
      .hint = "FILE",
      .kind = OPTION_TEXT,
      .group = GROUP_OUTPUT,
      .commands = COMMAND_PLAN | COMMAND_PROFILE | COMMAND_TRAIN | COMMAND_SNAPSHOT | COMMAND_COMPARE |
                  COMMAND_ESTIMATE | COMMAND_STATUS,
      .offset = offsetof(options, html),
      .help = "write the report as a page to look at: one file, which fetches nothing" },
    { .name = NULL },
};
