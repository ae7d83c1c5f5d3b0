/* The data that are made into tokens: which files, which columns of them, and reading them from any record
 * on. */
#pragma once

#include "base/digest.h"
#include "data/documents/files.h"
#include "data/documents/form.h"

/* What a record is. */
typedef enum {
    SOURCE_TEXT,    /* one text */
    SOURCE_PAIR,    /* a prompt and its completion */
    SOURCE_MESSAGES /* a chat, or the messages of a prompt and of its completion; and its tools where it has
                       some */
} source_kind;

enum { SOURCE_PATHS = 64 };
/* Columns of a chat. ANSWER: the messages of the completion, where CHAT has those of the prompt. */
enum { SOURCE_CHAT, SOURCE_TOOLS, SOURCE_ANSWER };

typedef struct {
    const char *paths[SOURCE_PATHS]; /* files and folders, one after the other */
    uint32_t count;
    document_format format;
    /* "text=body", "prompt=question,completion=answer", "messages=conversations,role=from,content=value",
     * "tools=functions"; NULL: the names are these words themselves. */
    const char *columns;
    bool replace; /* what is no UTF-8 becomes U+FFFD */
} source_options;

typedef struct {
    uint64_t files, records;
    uint64_t bytes;   /* of all strings */
    uint64_t longest; /* record: its strings and what is said of them, as documents_gather lays it out */
    uint64_t tools;   /* records that have some */
    uint64_t values;  /* bytes that JSON of a record takes as values, at most (template_json_most) */
    uint64_t digest;  /* of the files' bytes and how their names have them read, in their order */
} source_counts;

enum { SOURCE_NAME_BYTES = 1024 };

typedef struct {
    source_kind kind;
    const source_options *options;
    document_files *files;         /* one for each path */
    uint32_t file_count;           /* in all of them */
    data_stamp *stamps;            /* of each: its state when its digest was taken */
    char names[SOURCE_NAME_BYTES]; /* the words of `columns`, each ended by a zero */
    const char *role, *content;    /* members of messages */
    bool tools_named;              /* by the options: then there are some */
    const char *members[3];        /* these two, where they were named: then others are passed over */
    document_column columns[DOCUMENT_FORM_COLUMNS];
    uint32_t column_count;
    uint64_t reader_bytes; /* that reading any of the files takes */
    uint64_t held_bytes;   /* beside that, for names */
} sources;

/* Finds the files and their columns; all files are of one kind. Close in any case. The options must stay. */
status sources_open(const source_options *o, sources *s);
void sources_close(sources *s);

/* Where a record is. */
typedef struct {
    uint32_t file;
    document_place in;
} source_place;

const char *sources_path(const sources *s, uint32_t file);
/* Puts "FILE, record 7: " before the recorded sentence; returns `code`. */
status sources_prefix(const sources *s, source_place place, status code);

/* How one of the files is read. */
document_options sources_reading(const sources *s, uint32_t file);

/* Remembers the state that a file is in, and compares with it: STATUS_FAILED where it is another one. */
void sources_remember(const sources *s, uint32_t file);
status sources_check_same(const sources *s, uint32_t file);

/* Passes over each file twice: for its digest, and for its records. `stop` (asked for between pieces) gives
 * STATUS_INTERRUPTED. */
typedef struct {
    bool (*stop)(void *context);
    void (*seen)(void *context, uint64_t bytes); /* so far: of files, and then of their text besides */
    void *context;
} source_watch;
status sources_look(const sources *s, void *room, const source_watch *watch, source_counts *counts);
