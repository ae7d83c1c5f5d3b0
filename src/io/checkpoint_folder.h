/* The folders checkpoint-N of a run: made whole or not at all, found by looking at what is there.
 *
 * A checkpoint is written into checkpoint-N.partial and renamed when all of it is on the disk; one that goes
 * away is renamed to checkpoint-N.removed first. So whatever has the plain name was once complete, at any
 * instant and after any crash, and there is no file beside them that says which is the latest and could lie.
 * What a killed run left half done has one of the two endings and is cleaned away. All of this expects to be
 * alone in the folder (io/lock.h). */
#pragma once

#include <stdint.h>

#include "base/status.h"

enum { CHECKPOINT_PATH_BYTES = 4096 };

/* The N of all folders checkpoint-N in `out`, largest first; memory_free them. A missing `out` has none. */
status checkpoint_folder_list(const char *out, int64_t **steps, uint32_t *count);

/* "OUT/checkpoint-N" into `path`. */
status checkpoint_folder_name(const char *out, int64_t step, char path[CHECKPOINT_PATH_BYTES]);

/* An empty folder to write checkpoint `step` into; and only its path. */
status checkpoint_folder_partial(const char *out, int64_t step, char path[CHECKPOINT_PATH_BYTES]);
status checkpoint_folder_begin(const char *out, int64_t step, char path[CHECKPOINT_PATH_BYTES]);
/* Gives it its name, durably. A checkpoint of the same step is replaced. */
status checkpoint_folder_commit(const char *out, int64_t step);

/* Removes the oldest of those up to `step`, so that `keep` stay. */
status checkpoint_folder_keep(const char *out, int64_t step, int64_t keep);

/* Removes what is half made or half removed. */
status checkpoint_folder_clean(const char *out);
