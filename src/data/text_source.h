/* Text and token files as samples for a language model.
 *
 * The path is a file, or a folder whose regular files are read one after the other in the order of their
 * names (bytewise; hidden, empty and further folders are left out). Its tokens are numbered through. Sample i
 * of a context of T covers the tokens i·T … i·T+T: field 0 has the first T of them, field 1 (labels) the last
 * T, as i32. What does not fill a window at the end is left out.
 *
 * Where documents are told apart field 2 has the number of each token's document in its sample, and field 3,
 * where it is asked for, its place there: what stands of a document in a sample is one of its own. A document
 * is a file of text, or a record of JSON lines; files of ids don't say where theirs end.
 *
 * Files are read with pread, never mapped. */
#pragma once

#include <stdbool.h>

#include "data/formats/format.h"
#include "data/source.h"

typedef struct {
    const char *path;
    data_kind kind;
    bool gaps;           /* for models that fill them: where a file says which tokens are not to be hidden,
                            labels are in place (source.h) and say so */
    bool hold_out;       /* the last tenth of the tokens is left for text_source_held_out */
    uint32_t context;    /* T */
    uint32_t vocabulary; /* ids must be below; checked when they are read */
} text_source_options;

/* How documents stand in samples, once they are told apart. */
typedef enum {
    TEXT_SOURCE_RUNNING, /* one behind the other, cut where a sample ends */
    TEXT_SOURCE_WHOLE,   /* whole where a sample holds them (data/windows.h), and padding behind them */
    TEXT_SOURCE_ALONE,   /* one a sample */
    TEXT_SOURCE_ANSWERS  /* one a sample, a text and the answer to it (data/answers.h) */
} text_source_way;

typedef struct {
    bool positions;         /* field 3 too */
    int32_t first_position; /* of each document */
    text_source_way way;
    int32_t padding; /* the id that stands for nothing */
    int32_t start;   /* of answers: the id that each begins behind */
} text_source_packing;
/* Tells documents apart from now on: fields are added, or are those of answers. Of a source and of what was
 * held out of it each by itself. STATUS_INVALID where they are to stay whole and the data don't say how long
 * they are, or, for answers, what of them is learned. What is held out are the documents that begin in the
 * last tenth of the tokens. */
status text_source_pack(data_source *s, const text_source_packing *p);

/* STATUS_INVALID with a sentence when the path is missing, unreadable, damaged, empty or shorter than T+1
 * tokens; files that say how long documents are may be shorter, and text_source_enough looks at them.
 * Reading, and before that data_source_check, fails with STATUS_INVALID on an id outside of the vocabulary,
 * naming file and position. End with data_source_close. */
status text_source_open(const text_source_options *options, data_source *s);

/* May data of that path say how long its longest document is? That is looked up without reading them. */
status text_source_may_say_longest(const char *path, data_kind kind, bool *may);

/* Has it the tokens for a sample, now that it is known how documents stand in it? */
status text_source_enough(const data_source *s);

/* The tokens that `training` was opened without. They may be too few for a sample: then it has none. The two
 * share their files, and are closed in any order, by one thread. */
status text_source_held_out(const data_source *training, data_source *s);

uint64_t text_source_tokens(const data_source *s);
uint64_t text_source_documents(const data_source *s); /* of all its files; 0: they don't say */
double text_source_padding(const data_source *s);     /* the part of all samples' places that is empty */
uint64_t text_source_longest(const data_source *s);   /* document, in tokens; 0: nobody knows */
bool text_source_learns_some(const data_source *s);   /* not all of its tokens are labels */
bool text_source_says_ends(const data_source *s);     /* and so how long each document is */
data_kind text_source_kind(const data_source *s);     /* never AUTO */
bool text_source_is_text(const data_source *s);       /* its tokens are bytes of text, and not ids */
const char *text_source_path(const data_source *s);   /* of its first file */
