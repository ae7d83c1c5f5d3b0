/* Filters and tests: what stands behind `|` and `is`. */
#pragma once

#include "text/template/run.h"

/* 1 + the place of a name, 0: nothing has it. */
uint32_t filter_find(const char *name, uint32_t length);
uint32_t tester_find(const char *name, uint32_t length);

/* `which` as they were found; a->items[0] is what is filtered or tested. */
status filter_apply(run *r, uint32_t which, const arguments *a, value *out);
status tester_apply(run *r, uint32_t which, const arguments *a, bool *out);
/* The same by name, where it is known only when it runs. */
status filter_by_name(run *r, const value *name, const arguments *a, value *out);
status tester_by_name(run *r, const value *name, const arguments *a, bool *out);

typedef status filter_function(run *r, const arguments *a, value *out);

/* Of texts (filter_text.c) and of lists (filter_list.c), found by filter.c. */
typedef struct {
    const char *name;
    filter_function *apply; /* NULL: Jinja has it, and here it is refused */
} filter_row;
extern const filter_row filter_of_texts[], filter_of_lists[]; /* each ends with a NULL name */

/* The item behind a path ("a.b.0") or number; `otherwise` is for what is undefined on the way, if given. */
status filter_reach(run *r, const value *item, const value *path, const value *otherwise, value *out);
/* A text in small letters; all else as it is. */
status filter_ignore_case(run *r, value *v);
status filter_tojson(run *r, const arguments *a, value *out);
