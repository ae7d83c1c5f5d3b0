/* Bulk copies and barriers with one mistake each, for the emulation to find (device/cuda/bulk.h); and
 * products by groups of warps whose operands come so, beside those whose threads copy. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef struct {
    const char *name;
    const char *said; /* before the emulation ends the program; NULL: numbers are wrong */
} bulk_mistake;
extern const bulk_mistake bulk_mistakes[]; /* the first is none; end with name NULL */

/* Runs a product of few lines in a ring of stages with mistake `which`; `crossed`: both operands lie across
 * their depths. Are its numbers right? */
bool bulk_mistake_run(int which, bool crossed);

/* The number of products that the two kernels don't have the same bits of; it prints which. `brought`: in how
 * many the engine brought the operands. */
int bulk_products_differ(int *brought);

/* Does the operation's kernel take the engine for operands at 16 bytes, and threads for others? */
bool bulk_is_taken(void);

/* Are the matrices refused that the engine can't read, and is the largest taken? */
bool bulk_reads_what_it_can(void);
