/* Whether there is room for a run before it begins: on the disk that it writes to and in the machine's
 * memory, so that neither a full disk nor a control group ends it at step 4,000. */
#pragma once

#include "train/resume.h"

/* The most bytes that the run adds to options.out at any time: checkpoints (while one is written, one more
 * than stay), the model, that of the best validation, and its history. 0 where it writes nothing. */
status room_disk_bytes(const setup *s, const decision *d, const resume *from, uint64_t *bytes);

/* STATUS_NO_FIT, with a sentence that says how much there is and how much it takes. */
status room_check(const setup *s, const decision *d, const resume *from);
