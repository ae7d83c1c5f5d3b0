/* What processes that train together must have in common before anything is planned: the build, the options,
 * and the way that numbers of 16 bits are multiplied. */
#pragma once

#include "cli/cli.h"

/* All ranks call it. STATUS_INVALID on every one, with a sentence that names the first that differs from rank
 * 0. Where processors multiply bf16 in different ways all of them widen it, which is said to `people`; but
 * not with --exact. */
status ranks_alike(const options *o, output *people);
