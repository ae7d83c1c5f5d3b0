/* Settings of a training tool in a file of its own: YAML or JSON of any depth, or lines "name = value" of
 * Python, as pairs of a path and a value: "model.lora_rank" and "8". Nothing of the file is run. */
#pragma once

#include <stdint.h>

#include "base/status.h"

enum { SETTINGS_BYTES = 1 << 20, SETTINGS_KEY_BYTES = 256, SETTINGS_VALUE_BYTES = 1024 };

/* Items of lists have the key of their list. */
typedef void settings_each(void *context, const char *key, const char *value);

/* By the name's end: .py, or else YAML, of which JSON is a part. STATUS_INVALID: it can't be read, or is no
 * such file. What was read before that has been handed on. */
status settings_read(const char *path, settings_each *each, void *context);
status settings_read_text(const char *path, const char *all, uint64_t bytes, settings_each *each,
                          void *context);
