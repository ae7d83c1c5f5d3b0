/* A pattern as a graph of steps: see pattern_scan.h. */
#pragma once

#include "text/tokenizer/pattern_scan.h"
#include "text/tokenizer/unicode.h"

enum {
    SCAN_STEPS = 256,
    SCAN_CLASSES = 64, /* bits of a word */
    SCAN_PAGE = 256,   /* characters */
    SCAN_POINTS = 0x110000,
    SCAN_PAGES = SCAN_POINTS / SCAN_PAGE,
};

typedef enum {
    STEP_END,    /* the pattern matches */
    STEP_SET,    /* `least` to `most` characters of the set, as many as may be, then `next` */
    STEP_AHEAD,  /* the next character is of the set; `at_end`: or there is none */
    STEP_CHOICE, /* `next`, or else `other` */
} step_kind;

typedef struct {
    uint8_t kind;
    bool at_end;
    bool settled;         /* SET: nothing that was taken needs to be given back. CHOICE: where `next` may
                             begin, `other` does not match */
    uint16_t next, other; /* steps before this one in the list */
    uint32_t least, most;
    uint64_t set;
    /* Of this step and all behind it: what character may be next where it matches. `always`: it matches
     * wherever it stands; `empty`: it may match nothing. */
    uint64_t first;
    bool always, empty;
} scan_step;

struct pattern_scan {
    uint16_t pages[SCAN_PAGES]; /* places in `classes`, in pages */
    uint16_t root;
    uint16_t entries[SCAN_CLASSES]; /* where a match with a first character of the class goes on from the
                                       root: past choices and sets that it decides */
    const uint8_t *classes;
    const scan_step *steps;
};

static inline unsigned scan_class(const pattern_scan *s, const char *at, size_t *length) {
    uint32_t c = unicode_read(at, length);
    return s->classes[(size_t)s->pages[c / SCAN_PAGE] * SCAN_PAGE + c % SCAN_PAGE];
}
