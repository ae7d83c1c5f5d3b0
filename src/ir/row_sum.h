/* An op that adds to an accumulator one row of the batch after the other (op_def.row_sum). So the additions
 * of several micro-batches can be put off and made in one go, in the same order. */
#pragma once

#include <stdint.h>

struct op_row_sum {
    uint8_t ids, rows, accumulator; /* inputs: where each row belongs, the rows, what they are added to */
};
