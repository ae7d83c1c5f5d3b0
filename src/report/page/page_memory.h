/* A plan's memory as bands: what report pages share. */
#pragma once

#include "report/page/page.h"
#include "report/report.h"

/* The picture of all programs, one after the other: what stays lies below, each storage of the arena is a
 * band. `profile` (NULL: none): times are those of its median step; else they are predicted. `lives` (NULL:
 * none), by program: what was observed lies beside what was planned, and a sentence says how they differ. */
void page_put_memory(page *p, const setup *s, const decision *d, const profile_result *profile,
                     const exec_lives *lives);

/* Who is alive at the peak, largest first. */
void page_put_holders(page *p, const decision *d);
