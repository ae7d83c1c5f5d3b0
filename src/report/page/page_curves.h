/* What a run recorded, as curves. */
#pragma once

#include "report/page/page.h"

/* Loss and validation, gradient norm, learning rate, time of a step, memory, from the metrics in a run's
 * folder. Of a long run each stretch of steps leaves its lowest and its highest value. Nothing where there
 * are no metrics; a line that is damaged leaves a gap. STATUS_INVALID or STATUS_FAILED where they can't be
 * read. */
status page_put_curves(page *p, const char *folder);
