/* The files of a tokenizer in a model directory. Only a tokenizer.json can be read, by text/tokenizer:
 * whoever would take text for tokens without must know that there is one, and what is made of a model keeps
 * them. */
#pragma once

#include <stdint.h>

#include "base/status.h"
#include "io/spliced_file.h"

/* One of the files, with other bytes at one place. */
typedef struct {
    const char *name; /* "tokenizer.json" */
    file_splice splice;
} tokenizer_files_change;

/* Of the directory, or of that which holds the config.json `model`: the file that says how text becomes
 * tokens, "tokenizer.json"; NULL: there is none, so that text is bytes. */
const char *tokenizer_files_find(const char *model);

/* STATUS_INVALID where there is a tokenizer: `what` ("the prompt", a file of text) is text and would be read
 * as bytes, which stand for other tokens in it. */
status tokenizer_files_refuse(const char *model, const char *what);

/* Copies what the Hugging Face libraries find beside a model that is no weight and no config.json: tokenizer,
 * templates, special tokens, defaults of generating. Through a small buffer on the stack; each file is
 * replaced whole or not at all. What `model` has none of, or is in `directory` already, is left alone. */
status tokenizer_files_copy(const char *model, const char *directory);
/* The same with changes to some of the files. */
status tokenizer_files_copy_changed(const char *model, const char *directory,
                                    const tokenizer_files_change *changes, uint32_t count);
/* How many bytes that writes, without changes. */
uint64_t tokenizer_files_bytes(const char *model);

/* Removes such files from `directory`, except those that are `model`'s own (may be NULL). */
status tokenizer_files_remove(const char *directory, const char *model);
