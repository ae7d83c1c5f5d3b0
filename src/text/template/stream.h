/* Going through values: lists, dicts, texts, ranges, and what the filters map, select and their kin make,
 * which do their work item by item and are gone through once, as Python's generators are. */
#pragma once

#include "text/template/run.h"

typedef enum {
    STREAM_ITEMS,   /* of a value that has a length */
    STREAM_REVERSE, /* the same from its end */
    STREAM_MAP,     /* a filter of each item */
    STREAM_SELECT,  /* the items for which a test holds; `negated`: does not */
    STREAM_PAIRS,   /* of a dict: |items */
    STREAM_UNIQUE,
    STREAM_LATER, /* what is made of its arguments when it is first asked, and may fail only then */
    STREAM_FOR    /* for ... if: the items for which an expression is true */
} stream_kind;

/* Makes what a STREAM_LATER goes through. */
typedef status stream_maker(run *r, const arguments *a, value *out);

struct stream {
    stream_kind kind;
    value of; /* STREAM_ITEMS and its kin */
    int64_t at;
    stream *from;
    bool negated, by_attribute, ended, sensitive;
    value attribute, otherwise; /* `map` by attribute and its default; `unique`; undefined with NULL: none */
    const char *name;           /* of the filter or test; NULL: none, the item itself */
    uint32_t length;
    arguments more; /* of the filter or test, or for `make` */
    stream_maker *make;
    value_list *seen; /* unique */
    uint32_t seen_room;
    uint32_t node; /* of the NODE_FOR */
    frame *frame;  /* its own, and around it what the condition sees */
};

/* STATUS_INVALID for what can't be gone through. A stream is its own. */
status stream_open(run *r, const value *v, stream **out);
status stream_next(run *r, stream *s, value *item, bool *more);
/* All that is left, as a list. */
status stream_list(run *r, const value *v, value *out);
/* A STREAM_LATER as a value. */
status stream_later(run *r, stream_maker *make, const arguments *a, value *out);
status stream_value(run *r, const stream *s, value *out); /* a stream as a value */
