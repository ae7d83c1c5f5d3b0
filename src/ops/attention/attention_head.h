/* One head in f32, where operands have 16 bits: its rows are widened into scratch, the tiles work there, and
 * what they make is narrowed. The largest copy is that of one head of one sample for each thread. */
#pragma once

#include "ops/attention/attention_view.h"

bool attention_head_is_narrow(const attention_view *v); /* operands of 16 bits? */

/* Floats of `count` operands with `length` rows. */
uint64_t attention_head_floats(const attention_view *v, int64_t length, int count);

/* Some operands of one head, side by side in scratch. */
enum { ATTENTION_HEAD_SIDES = 4 };
typedef struct {
    const attention_view *view;
    int64_t b, h, length; /* rows of a sample: queries or keys */
    float *next;          /* scratch that is left */
    op_arg wide[ATTENTION_HEAD_SIDES];
    attention_place narrow[ATTENTION_HEAD_SIDES];
    int count;
} attention_head;

/* A place where head h of sample b has the rows of `p`: widened (`read`) or undefined. The head must stay
 * where it is as long as the place is used. */
attention_place attention_head_take(attention_head *k, const attention_place *p, bool read);
/* Narrows number `i` of those that were taken to where it belongs. */
void attention_head_give(const attention_head *k, int i);
