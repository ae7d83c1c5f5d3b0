/* Names of classes, by their ids: those that a config.json lists, or those that are met in data. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef struct label_entry label_entry;
typedef struct {
    const char **name; /* by id */
    label_entry *list; /* in the order of their bytes */
    uint32_t count, room;
    bool any_number;     /* a name is a number */
    bool ordered;        /* the data gives ids itself: the order in which the names were added */
    uint64_t held_bytes; /* all that it holds */
} label_names;

enum { LABEL_NAMES_MOST = 1 << 20, LABEL_NAMES_BYTES = 255 /* of a name */ };

/* Adds a name (a copy) unless it is there already; `*id` (may be NULL) is its number, one after the other.
 * STATUS_INVALID for a name that is empty, too long, or holds a zero, and for one too many. */
status label_names_add(label_names *n, const char *name, uint64_t bytes, uint32_t *id);

/* Gives ids anew, unless they are `ordered`: by their values where all names are numbers, else by their
 * bytes. */
void label_names_sort(label_names *n);

/* The id of a name; -1: there is none. Where no name is a number a number from 0 on is the id itself. */
int64_t label_names_find(const label_names *n, const char *name, uint64_t bytes);

/* A whole number, or any other that is finite. */
bool label_names_number(const char *word, uint64_t bytes, double *value);

void label_names_close(label_names *n); /* fine on a zeroed one */
