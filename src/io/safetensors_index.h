/* The index of a model in shards: {"metadata": {...}, "weight_map": {"tensor": "shard", ...}}. */
#pragma once

#include "base/status.h"

/* Calls `each` for every member of weight_map, in their order; what it returns ends the walk unless it is
 * STATUS_OK. Names are valid during the call. Any number of members takes the same memory. STATUS_INVALID
 * where the file is no index, or names what is no plain file beside it. */
typedef status safetensors_index_each(void *context, const char *tensor, const char *shard);
status safetensors_index_walk(const char *path, safetensors_index_each *each, void *context);
