/* Texts with what is to be told of each, as samples for a head that judges them (models/head.h).
 *
 * The path is a file of records or a folder of such (data/documents/): JSON lines, an array of JSON, CSV or
 * Parquet, with a column of text and one of labels: names of classes, or numbers. All are read once, their
 * texts become ids, cut where they are longer than a sample, and stay in memory: `held_bytes` of the sources.
 * Every tenth record may be held out for validation. Nothing of the files is needed afterwards.
 *
 * A record may have two texts, which are judged together: each becomes ids by itself, and the model's
 * tokenizer says what stands around them. Where they are longer than a sample the longer one is cut, and then
 * both to equal lengths, as by transformers' "longest_first".
 *
 * Fields of a sample of T tokens: its ids, padded at the end (T) i32; its class i32, or its number f32; then
 * `segments` (T) i32, 0 in the text and 1 behind it, or `place` i32, as transformers finds it: the last id
 * that is not the padding's, or 0; then, where they are wanted, `types` (T) i32 of two texts, 0 of padding.
 */
#pragma once

#include "data/source.h"
#include "models/label_names.h"

/* Ids that stand around two texts, and the type of each. */
enum { LABELLED_AROUND = 16 };
typedef struct {
    int32_t id[LABELLED_AROUND], type[LABELLED_AROUND];
    uint32_t count;
} labelled_around;

/* How text becomes ids. */
typedef struct {
    void *context;
    /* Ids of a text, with those that stand around it; good until the next call. NULL: its bytes are they, and
     * no more of a text is kept than there is room for in a sample. */
    status (*encode)(void *context, const char *text, uint64_t bytes, const uint32_t **ids, uint64_t *count);
    /* Bytes that this takes now, and from now on at most: a text that would need more is STATUS_NO_FIT. Both
     * or neither. */
    uint64_t (*held)(const void *context);
    void (*limit)(void *context, uint64_t bytes);
    uint32_t before, behind; /* of the latter: they stay where a text is cut, at its end */
    int32_t padding;
    /* Ids of one of two texts, without any around it; NULL: there are no pairs. */
    status (*encode_one)(void *context, const char *text, uint64_t bytes, const uint32_t **ids,
                         uint64_t *count);
    labelled_around first, between, last; /* before the first text, between them, behind the second */
    int32_t type[2];                      /* of the texts' ids */
} labelled_tokens;

typedef struct {
    const char *path;
    const char *text, *label; /* columns */
    const char *pair;         /* that of a second text; NULL: there is none */
    bool types;               /* samples say which of two texts a token is of */
    uint32_t context;         /* T: more than the ids around a text */
    uint32_t vocabulary;      /* ids are below */
    const label_names *names; /* of the classes; NULL: labels are numbers */
    bool segments;            /* else place */
    uint64_t most;            /* bytes that reading may take, with what encodes; the records are part of it */
} labelled_options;

typedef struct labelled labelled;

/* Reads all records. STATUS_INVALID names the file and the record where a column is missing, a label is no
 * name or number, or a text has no token; STATUS_NO_FIT where reading would take more than `most` bytes. */
status labelled_open(const labelled_options *o, const labelled_tokens *t, labelled **l);
void labelled_close(labelled *l); /* after its sources; NULL is fine */

/* Adds the labels of all records to the names, as they are met. STATUS_NO_FIT where that would take more than
 * `most` bytes. */
status labelled_names(const char *path, const char *column, uint64_t most, label_names *names);

uint64_t labelled_held(const labelled *l); /* bytes that stay */
uint64_t labelled_records(const labelled *l);
uint64_t labelled_cut(const labelled *l);     /* texts that were longer than a sample */
uint64_t labelled_longest(const labelled *l); /* tokens of the longest text, before it was cut */

typedef enum {
    LABELLED_ALL,
    LABELLED_TRAINED, /* all but every tenth, from the tenth on */
    LABELLED_HELD_OUT /* those */
} labelled_part;

/* Samples of some of the records, in their order. The first source of `l` counts its memory as held. */
void labelled_source(labelled *l, labelled_part part, data_source *s);
