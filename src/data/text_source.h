/* Text and token files as samples for a language model.
 *
 * The path is a file, or a folder whose regular files are read one after the other in the order of their
 * names (bytewise; hidden, empty and further folders are left out). Its tokens are numbered through. Sample i
 * of a context of T covers the tokens i·T … i·T+T: field 0 has the first T of them, field 1 (labels) the last
 * T, as i32. What does not fill a window at the end is left out.
 *
 * Files are read with pread, never mapped. */
#pragma once

#include "data/source.h"

/* How tokens stand in the file. AUTO goes by the name: .bin and .u16 are u16, .u32 is u32 (little-endian, no
 * header, as nanoGPT writes them), anything else is text, read as bytes. */
typedef enum { DATA_KIND_AUTO, DATA_KIND_BYTES, DATA_KIND_U16, DATA_KIND_U32 } data_kind;

/* "auto", "bytes", "u16", "u32"; `name` is the option, for the sentence. */
status data_kind_parse(const char *word, const char *name, data_kind *kind);
const char *data_kind_name(data_kind kind);

/* The last tenth of the tokens validates, unless there is a file of its own for that. */
typedef enum { DATA_PART_ALL, DATA_PART_TRAIN, DATA_PART_VALIDATION } data_part;

typedef struct {
    const char *path;
    data_kind kind;
    data_part part;
    uint32_t context;    /* T */
    uint32_t vocabulary; /* ids must be below; checked when they are read */
} text_source_options;

/* STATUS_INVALID with a sentence when the path is missing, unreadable, empty or shorter than T+1 tokens, or
 * when a length is no multiple of the token. Reading fails with STATUS_INVALID on an id outside of the
 * vocabulary, naming file and position. End with data_source_close. */
status text_source_open(const text_source_options *options, data_source *s);

uint64_t text_source_tokens(const data_source *s); /* in the part that was asked for */
data_kind text_source_kind(const data_source *s);  /* never AUTO */
