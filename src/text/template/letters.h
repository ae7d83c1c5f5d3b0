/* What Python's str says of letters: classes and cases, as of Unicode 14 (tools/letters.py makes the tables).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef struct {
    uint32_t first, last, stride;
    int32_t delta;
} letters_run;

typedef struct {
    uint32_t point, to[3];
} letters_special;

#define LETTERS_TABLE(name)                                                                                  \
    extern const letters_run letters_##name[];                                                               \
    extern const uint32_t letters_##name##_count
LETTERS_TABLE(to_upper);
LETTERS_TABLE(to_lower);
LETTERS_TABLE(to_title);
LETTERS_TABLE(alpha);
LETTERS_TABLE(decimal);
LETTERS_TABLE(digit);
LETTERS_TABLE(numeric);
LETTERS_TABLE(lower);
LETTERS_TABLE(upper);
LETTERS_TABLE(hidden);
LETTERS_TABLE(title);
LETTERS_TABLE(ignorable);
LETTERS_TABLE(unnamed); /* letters that names can't have, and those that they can't begin with */
LETTERS_TABLE(unnamed_first);
#define LETTERS_SPECIAL(name)                                                                                \
    extern const letters_special letters_##name[];                                                           \
    extern const uint32_t letters_##name##_count
LETTERS_SPECIAL(to_upper_special);
LETTERS_SPECIAL(to_lower_special);
LETTERS_SPECIAL(to_title_special);

typedef enum { LETTERS_UPPER, LETTERS_LOWER, LETTERS_TITLE } letters_case;

/* LETTERS_IS(alpha, point) */
bool letters_in(const letters_run *runs, uint32_t count, uint32_t point);
#define LETTERS_IS(name, point) letters_in(letters_##name, letters_##name##_count, (uint32_t)(point))

static inline bool letters_cased(uint32_t p) {
    return LETTERS_IS(lower, p) || LETTERS_IS(upper, p) || LETTERS_IS(title, p);
}

/* The letter in that case: 1 to 3 letters into `to`. */
uint32_t letters_change(letters_case c, uint32_t point, uint32_t to[3]);
