/* Several ranks write into one folder: is it one for all of them? */
#pragma once

#include "base/status.h"

/* All call it while rank 0 has the folder's lock (train/resume.h). STATUS_INVALID on a rank that finds
 * another folder under this path, or none; nothing is left behind there. With one rank, or without a folder
 * (NULL), there is nothing to look at. */
status one_folder_check(const char *out);
