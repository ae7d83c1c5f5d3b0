/* Where the time of a step goes, as bars. */
#pragma once

#include "report/page/page.h"
#include "report/report.h"

/* By op and phase: what is predicted beside its bound; with a profile what was measured beside both, and by
 * block. */
void page_put_time(page *p, const setup *s, const decision *d, const profile_result *profile);
