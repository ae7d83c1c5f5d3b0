/* A report as a page: one file of HTML that needs nothing else, opens from file://, and answers without
 * scripts and on paper.
 *
 * A page is written from top to bottom: page_begin with the answer in one sentence, then sections of
 * sentences, facts, tables and charts, then page_end. Every chart is an SVG, a table and its numbers as JSON;
 * the script (page.js) adds pointer, keys, zoom and switches, and draws bands on a canvas.
 *
 * All texts are of unknown origin and come as they are: they reach the page as text, never as markup. What is
 * no UTF-8, commands a terminal or turns the direction of writing becomes U+FFFD. The page's own policy
 * forbids it to fetch anything, and to run or to wear anything but what it carries (page.js, page.css), named
 * by hashes.
 *
 * Calls return nothing: what goes wrong is remembered, and page_end says it. Nothing is kept of what is
 * given. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"
#include "io/file.h"

typedef struct {
    io_writer *file; /* NULL: all of it stays in `out`, for tests */
    text out;        /* what is not in the file yet */
    uint32_t charts; /* so far */
    bool section;    /* one is open */
    status result;
} page;

typedef struct {
    const char *title;   /* of the window, and above the answer: "snug plan gpt2" */
    const char *answer;  /* one sentence */
    const char *further; /* a second, smaller; NULL: none */
    bool refused;        /* the answer is no */
} page_head;

void page_begin(page *p, io_writer *file, const page_head *h);
/* Closes the page, and frees `out` where there is a file. STATUS_FAILED for want of memory or of room on the
 * disk; committing or discarding the file is the caller's. */
status page_end(page *p);

void page_section(page *p, const char *title); /* ends the one before */
/* A paragraph of at most 2,000 bytes. */
void page_say(page *p, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Names and values side by side. Note NULL: none. */
typedef struct {
    const char *name, *value, *note;
} page_fact;
void page_facts(page *p, const page_fact *facts, uint32_t count);

/* Charts between these two calls stand side by side where there is room. */
void page_side_by_side(page *p, bool begin);

/* ---- tables ---- */

typedef struct {
    const char *title;
    bool number; /* flush right */
} page_column;
void page_table_begin(page *p, const char *name, const page_column *columns, uint32_t count);
void page_row(page *p, bool marked); /* begins a row; the one before ends */
/* The same of a row that stands for bands: those at the peak of this category (`kind`), and where `from` and
 * `form` are given of these. Pointed at, or reached by keys, it marks them in the page's first chart of
 * bands. */
void page_row_of_bands(page *p, uint8_t kind, const char *from, const char *form);
void page_cell(page *p, const page_column *column, const char *value);
void page_table_end(page *p);

/* ---- charts ---- */

/* What numbers on an axis are. */
typedef enum { PAGE_NUMBER, PAGE_BYTES, PAGE_SECONDS } page_unit;
enum { PAGE_VALUE_BYTES = 40 };
const char *page_value(page_unit unit, double value, char buffer[PAGE_VALUE_BYTES]); /* "-": not finite */
/* "1,234,567 bytes" and "1.2 MiB" in one: "1.2 MiB (1,234,567)". */
const char *page_exact(uint64_t bytes, char buffer[2 * PAGE_VALUE_BYTES]);

/* ---- bands: memory over a step or a recording ---- */

/* A tensor, or a block of an allocator, from its birth to its death. Texts NULL: not known. */
typedef struct {
    const char *name;
    const char *form;     /* "(8,256,768) f32" */
    const char *from;     /* op or frame that made it */
    uint8_t category;     /* index into categories */
    uint8_t phase;        /* of its birth: index into phases */
    int32_t group;        /* its block; -1: outside of blocks */
    uint32_t first, last; /* moments, inclusive */
    uint64_t bytes;
} page_band;

/* What happens at a moment: a kernel, or an event. */
typedef struct {
    const char *what; /* its op */
    int32_t group;
    uint8_t phase;
    uint8_t part; /* index into parts */
} page_moment;

/* What was seen of a band, where it was looked at; bytes 0: nothing. */
typedef struct {
    uint32_t first, last;
    uint64_t bytes;
} page_seen;

/* Of bands that who calls has gathered: from the moment on so many bytes and bands are there more, or less.
 */
typedef struct {
    uint32_t moment; /* up to moment_count, where all ends */
    uint8_t category;
    int32_t group;
    int64_t bytes;
    int32_t count;
} page_change;

typedef struct {
    const char *name;              /* of the chart */
    const char *about;             /* a sentence below it; NULL: none */
    const char *const *categories; /* in the order in which they are stacked; colours go by number */
    uint32_t category_count;       /* at most PAGE_TONES */
    const char *const *phases;
    uint32_t phase_count;
    const char *const *parts; /* programs that follow each other on the axis */
    uint32_t part_count;
    const char *group_word;  /* "block" */
    const char *moment_word; /* "kernel" */
    const page_moment *moments;
    uint32_t moment_count;
    const double *times;   /* moment_count + 1 of them, rising, in seconds from the beginning, where the first
                              moment is drawn from; NULL: no time is known */
    bool by_moment;        /* laid out by moments first, though times are known: most happens in short ones */
    const page_band *base; /* what is there all the time, below the bands; first and last are not looked at */
    uint32_t base_count;
    const page_band *bands;
    uint32_t band_count;
    const page_change *changes;
    uint32_t change_count;
    uint64_t gathered, gathered_most; /* how many bands changes are of, and the largest one's bytes */
    const page_seen *seen;            /* by band; NULL: nothing was observed */
    const bool *observed;             /* by part, with `seen`: it was looked at; NULL: all were */
    /* What is held in all: by moment where held_varies, else one number for all; what of it nobody has is of
     * category `free`. NULL: as much as there is. */
    const uint64_t *held;
    bool held_varies;
    uint8_t free;
    uint64_t budget; /* UINT64_MAX: none */
    uint32_t peak;   /* the moment that is marked */
    uint32_t most;   /* bands that are shown by themselves; smaller ones are gathered, and the page says so */
} page_bands;
enum { PAGE_TONES = 12 };
void page_put_bands(page *p, const page_bands *b);

/* ---- lines: curves over steps ---- */

typedef struct {
    const char *name;
    const double *x, *y; /* x rises; a y that is not finite leaves a gap */
    uint32_t count;
} page_line;

typedef struct {
    const char *name, *about;
    const char *x_word; /* "step" */
    page_unit unit;
    const page_line *lines;
    uint32_t count;
    const char *limit_name; /* a level that is drawn across; NULL: none */
    double limit;
} page_lines;
void page_put_lines(page *p, const page_lines *l);

/* ---- bars ---- */

enum { PAGE_MARKS = 2 };
typedef struct {
    const char *label, *note; /* note NULL: none */
    double value;             /* length of the bar */
    double marks[PAGE_MARKS]; /* beside it; NAN: none */
    const double *pieces;     /* of the value, by piece; NULL: it is of one piece */
} page_bar;

typedef struct {
    const char *name, *about;
    const char *label_word, *note_word; /* heads of columns: "op", "phase" */
    page_unit unit;
    const char *value_name;             /* "measured" */
    const char *mark_names[PAGE_MARKS]; /* "predicted", "bound"; NULL: none */
    const char *const *piece_names;
    uint32_t piece_count;
    const page_bar *bars;
    uint32_t count;
} page_bars;
void page_put_bars(page *p, const page_bars *b);

/* ---- points: a front ---- */

typedef enum { PAGE_POINT, PAGE_POINT_CHOSEN, PAGE_POINT_PLAIN } page_point_kind;
typedef struct {
    double x, y;
    const char *label; /* what it is */
    page_point_kind kind;
} page_point;

typedef struct {
    const char *name, *about;
    page_unit x_unit, y_unit;
    const char *x_word, *y_word;
    const page_point *points; /* those of the front with x rising; a line joins them */
    uint32_t count;
    const char *limit_name; /* a value of x that is drawn across; NULL: none */
    double limit;
} page_points;
void page_put_points(page *p, const page_points *s);
