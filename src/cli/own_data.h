/* What a command writes is not to become its data when it is called again. */
#pragma once

#include <stdbool.h>

#include "base/status.h"

/* STATUS_INVALID where `file`, which is written below --out, is `data` itself or lies in that folder so that
 * reading it reads the file too: right in it, or, `deep`, in a folder of it. Hidden files and folders are not
 * read. Neither needs to be there. */
status own_data_check(const char *file, const char *data, bool deep);
