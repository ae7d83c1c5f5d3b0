/* How fast what moves between ranks is: between those of a host, who share its memory, and between hosts. A
 * movement takes `seconds`, and more for its bytes: its ranks share one way. In that time the thread that
 * moves has a processor now and then, and those that compute don't have it. */
#pragma once

#include <stdint.h>

typedef struct {
    double seconds, rate;      /* of a movement; bytes a second of all ranks of a host together */
    double busy, busy_seconds; /* a rank's processor: of a movement; of each byte that it gets */
} link_rates;

enum { LINK_WITHIN, LINK_BETWEEN, LINK_COUNT };
typedef struct links {
    int64_t ranks, of_host;    /* that take part; of the host that has most of them. 0: one */
    link_rates of[LINK_COUNT]; /* rate 0: it is not known, as no two ranks are on it */
} links;
