/* What lies in a folder of data: in the order of the names (bytewise), hidden ones left out. */
#pragma once

#include "base/status.h"

/* Called with each path, FOLDER/NAME, which it takes (memory_free), also when it fails. */
typedef status folder_each(void *context, char *path);

/* Ends with the first that fails. STATUS_INVALID where the folder can't be read, STATUS_FAILED without
 * memory for the names. */
status folder_list(const char *folder, folder_each *each, void *context);
