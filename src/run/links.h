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

/* What a cluster's file says of its nodes. Rates each way, of a device to others of its node, and of a node
 * to others; of the rest `seconds` alone. 0: it does not say. */
typedef struct links_said {
    const char *name; /* of the cluster */
    link_rates of[LINK_COUNT];
} links_said;

/* Behind links_join they take the place of what is there, of links that any two ranks are on. If one did, the
 * name is added to where the rates come from. Ranks on processors (not `apart`) share their host's memory,
 * and take nothing of the link within it. */
void links_say(device_rates *r, const links_said *said, bool apart);
