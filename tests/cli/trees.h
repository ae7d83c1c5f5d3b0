/* Folders and what is in them, for tests that look at thousands: no program is started for it. */
#pragma once

#include <stdbool.h>

/* Removes a file or a folder with all that is in it; one that is not there is no matter. */
void tree_remove(const char *path);

/* Whether two files have the same bytes, or two folders hold the same files with the same bytes, but for
 * those whose names fit one of the `except` (patterns of the shell, ended by NULL). If not, `different` (of
 * `size` bytes) says where. */
bool tree_same(const char *one, const char *other, const char *const *except, char *different, unsigned size);
