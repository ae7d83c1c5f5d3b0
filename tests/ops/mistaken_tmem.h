/* Products in tensor memory with one mistake each, for the emulation to find (device/cuda/mma_tmem.h); and
 * what descriptors and forms are, bit by bit. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef struct {
    const char *name;
    const char *said; /* before the emulation ends the program; NULL: numbers are wrong */
} tmem_mistake;
extern const tmem_mistake tmem_mistakes[]; /* the first is none; end with name NULL */

/* Runs a product of 128 x 64, of three slices of 64 depths, with mistake `which`; `crossed`: both operands
 * lie across their depths. Are its numbers right? */
bool tmem_mistake_run(int which, bool crossed);

/* The form of a product of f16 or bf16. */
uint32_t tmem_form_of_floats(bool e5m2); /* by e4m3, 64 columns */
uint32_t tmem_form(bool bf16, bool a_crossed, bool b_crossed, bool wide /* 256 columns, or 64 */);
/* The descriptor of an operand, less where it begins. */
uint64_t tmem_descriptor(unsigned leading, unsigned stride);

/* The number of products whose bits depend on who brings their operands; it prints which. `brought`: in how
 * many the engine did. */
int tmem_products_differ(int *brought);
