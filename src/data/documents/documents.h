/* Data as people have them: documents out of a file of text, JSON lines, an array of JSON, CSV or Parquet,
 * packed or not, one after the other and piece by piece, in memory whose size is known before.
 *
 * A document is a record of strings by the names of columns: `text`; `prompt` and `completion`; or
 * `messages`, a list of structs of strings, which in JSON may hold other values beside them (`json`). A
 * string comes in pieces, so it may be larger than the memory. Pieces are UTF-8 and never cut a character.
 *
 *   DOCUMENT_RECORD (DOCUMENT_ITEM? DOCUMENT_STRING+)* DOCUMENT_RECORD_END ... DOCUMENT_END
 *
 * Columns come in the order of the file where it is text (JSON, CSV), in the order asked for where it is
 * Parquet; each asked one comes in each record, or the record is refused, unless it is `optional`.
 *
 * Sentences name the file and the line, or the row group and the row: STATUS_INVALID, or STATUS_FAILED when
 * the device fails or the file was written to. After one nothing more comes. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "data/documents/parquet_cells.h"
#include "data/documents/room.h"
#include "data/formats/format.h"

typedef enum {
    DOCUMENT_AUTO, /* by the name of the file; text for one that says nothing */
    DOCUMENT_TEXT, /* the file is one document */
    DOCUMENT_JSON, /* an object a line, or an array of objects */
    DOCUMENT_CSV,  /* RFC 4180, with a line of names */
    DOCUMENT_PARQUET,
    DOCUMENT_FORMATS
} document_format;

typedef enum {
    DOCUMENT_PACKING_AUTO, /* by the name of the file */
    DOCUMENT_UNPACKED,
    DOCUMENT_GZIP,
    DOCUMENT_ZSTD,
    DOCUMENT_PACKINGS
} document_packing;

enum {
    DOCUMENT_COLUMNS = 16, /* asked for at once */
    DOCUMENT_MEMBERS = 16, /* of the structs of a list */
    DOCUMENT_NAME = 256,   /* bytes of a name, with the zero behind it */
    DOCUMENT_PIECE = 16 << 10,
    DOCUMENT_WINDOW = 8 << 20 /* what RFC 8878 asks every decoder of Zstandard to take */
};

/* A string, or a list of structs of strings. */
typedef struct {
    const char *name;
    bool is_list;
    const char *const
        *members; /* of a list: those that are wanted, ended by NULL; or NULL: all, each a string */
} document_column;

typedef struct {
    const char *path;
    document_format format;
    document_packing packing;
    const document_column *columns; /* of text one string, whatever its name */
    uint32_t column_count;
    uint32_t plain; /* of JSON and Parquet, a bit for each column: a number, true or false is its letters */
    /* Of Parquet, a bit for each column: a whole number to which the file gives the name of a class (as
     * Hugging Face's datasets do) is taken as that name. Of `plain` ones. */
    uint32_t classes;
    /* Of Parquet, a bit for each column that is no list: bytes as they stand, or a struct of such by the name
     * `bytes` and a string `path`, as Hugging Face's datasets write what they took from files. Its strings
     * say by their `member` which of the two they are: a column of strings is paths. What is null of a record
     * is not there, so there may be none, one or both. Bytes come in one piece, if it may be as large. */
    uint32_t bytes;
    /* Of JSON, a bit for each column: what is no string in it comes as the text of its JSON, and says so. Of
     * a list this holds for members of its structs, null too; without it one that is null is not there. */
    uint32_t json;
    uint32_t optional; /* a bit for each column that is no list: a record may lack it or have null */
    uint32_t
        piece_bytes; /* the largest piece and the buffer that it stands in; 0: DOCUMENT_PIECE. At least 64 */
    uint64_t window; /* of Zstandard; 0: DOCUMENT_WINDOW */
    char separator;  /* of CSV; 0: a comma, or a tab where the name ends in .tsv */
    bool replace;    /* what is no UTF-8 becomes U+FFFD; else it is refused */
    /* NULL, or told each name of a column as it is met, and whether a list is in it: of CSV and Parquet when
     * the file is looked at or opened, of JSON in each record. Then no column need be asked for. */
    void (*see)(void *to, const char *name, bool is_list);
    void *to;
} document_options;

/* Where a record begins, for going on there: in the same file, by any number of pieces. */
typedef struct {
    uint64_t record; /* from 0 */
    uint64_t offset; /* of the unpacked bytes; of Parquet the row group */
    uint64_t line;   /* from 1; of Parquet the row in its group, from 0 */
} document_place;

typedef enum {
    DOCUMENT_RECORD,
    DOCUMENT_ITEM, /* of a list */
    DOCUMENT_STRING,
    DOCUMENT_RECORD_END,
    DOCUMENT_END
} document_event;

/* Good until the next call. */
typedef struct {
    document_event event;
    uint32_t column;    /* of the options' */
    uint32_t item;      /* of a list, from 0 */
    const char *member; /* of a list, or of `bytes`: the name in the struct; else NULL */
    const char *bytes;  /* no zero behind them; they may hold zeros */
    uint32_t count;
    bool json; /* of the text of a value that was no string: only its brackets are known to agree */
    bool last; /* the string ends with them */
} document_piece;

typedef struct documents documents;

/* Looks at the file: what of the options it decides, and `*bytes`, all that reading it takes. */
status documents_need(const document_options *o, uint64_t *bytes);

/* `room` has `bytes` bytes, those that documents_need said or more, aligned to 64: the reader lies in it and
 * takes no other memory. Close with documents_close; the options' texts must live as long. */
status documents_open(const document_options *o, void *room, uint64_t bytes, documents **d);
void documents_close(documents *d); /* fine on NULL */

status documents_next(documents *d, document_piece *p);

/* Where the last string stands whose member was "bytes", for reading it again. */
parquet_cell documents_cell(const documents *d);
const data_file *documents_file(const documents *d);

/* Of the record that is being read, or that documents_next begins. */
document_place documents_place(const documents *d);
/* Goes on at a record, whose place this file gave. Of what is packed all before it is unpacked again. */
status documents_seek(documents *d, document_place place);

/* Tells the names of a column's classes, in the order of their numbers, where the file has some; see
 * document_options.classes. */
typedef status document_class(void *context, const char *name, uint64_t bytes);
status documents_classes(const document_options *o, uint32_t column, document_class *each, void *context);

/* "auto", "text", "json", "csv", "parquet"; `name` is the option, for the sentence. */
status document_format_parse(const char *word, const char *name, document_format *format);
const char *document_format_name(document_format format);
document_format document_format_of(const char *path);
document_packing document_packing_of(const char *path);
char document_separator_of(const char *path); /* of CSV */

/* ---- whole records ---- */

typedef struct {
    uint16_t column;
    bool json; /* of a piece */
    uint32_t item;
    const char *member;
    const char *bytes;
    uint64_t count;
} document_string;

typedef struct {
    document_place place;
    const document_string *strings;
    uint32_t count;
    uint32_t items[DOCUMENT_COLUMNS]; /* how many a list has */
} document_record;

/* The next record, all of it in `room` (aligned to 8), where it stays; `*more` is false at the end.
 * STATUS_INVALID for one that is larger. */
status documents_gather(documents *d, void *room, uint64_t bytes, document_record *r, bool *more);
