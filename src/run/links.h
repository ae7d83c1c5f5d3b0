/* What is known of how fast ranks send each other something (base/links.h): measured by `snug devices
 * --measure` under a launcher, or built in. A file beside those of rates, for each kind of processor. */
#pragma once

#include "device/device.h"

/* Those that were measured take the place of what is built in. `why` (of DEVICE_SOURCE_BYTES; may be NULL)
 * receives what is wrong with the file, or "". */
void links_known(links *l, char *why);

/* Replaces the file. A link that no two ranks were on stays as it was. */
status links_store(const links *measured);

/* Puts into `r` how fast so many ranks, `of_host` on each host, reach each other: what was measured, unless
 * built-in rates are asked for. Those that compute, `threads` of them, lose what moving takes. */
void links_join(device_rates *r, bool built_in, int64_t ranks, int64_t of_host, int threads);
