/* How long texts may be, and how many at once, where the options leave that to the memory; and how little
 * memory is enough. */
#pragma once

#include "server/serve_sizes.h"
#include "server/server.h"

/* Plans the engine by the options, and says what the server holds. STATUS_NO_FIT names what would fit. */
status fit_plan(server *s, int64_t context, serve_sizes *z);
