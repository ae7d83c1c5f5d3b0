/* The members of the small JSON files beside a model, one by one: such files may be longer than what
 * io/json.h takes (a list of added tokens has been over a megabyte), and little of them is wanted. */
#pragma once

#include "base/json_reader.h"

/* Called behind a key and its colon; takes the value. */
typedef status members_each(void *context, json_reader *r, const char *key);

/* The object that stands next. STATUS_INVALID where none does, with the place. */
status members_read(json_reader *r, members_each *each, void *context);

/* The object that the file `name` of the directory is. `*there` false: there is no such file. */
status members_of_file(const char *directory, const char *name, members_each *each, void *context,
                       bool *there);

/* The text that stands next, of at most `most` bytes, with a zero behind it; memory_free it. */
status members_text(json_reader *r, uint64_t most, char **text, size_t *length);
