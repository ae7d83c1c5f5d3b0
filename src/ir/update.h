/* What the update of an optimizer says of itself (op_def.update), for techniques that keep its state
 * elsewhere or in fewer bits, and for rounding. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* State that may be kept in fewer bits than its weight (ops/state.h): an input, the output that lives in it,
 * and the same for the scales that it has where it is kept as codes. */
typedef struct {
    uint8_t in, out, scales, scales_out;
    bool positive; /* never below 0 */
    bool drifts;   /* changes by less than codes are apart, so they are rounded stochastically */
} op_state;

struct op_update {
    const op_state *states;
    uint8_t state_count;
    uint8_t rounding_key;     /* the input with the random key for results of 16 bits */
    uint16_t rounding_stream; /* offset of the stream (int32_t) for that key in the op's attributes */
};
