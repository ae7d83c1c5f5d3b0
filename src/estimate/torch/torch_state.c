#include "estimate/torch/torch_state.h"

int torch_moments(const torch_settings *s) {
    if (s->optimizer == OPTIMIZER_ADAMW) return 2;
    if (s->optimizer == OPTIMIZER_LION) return 1;
    return s->optimizer == OPTIMIZER_SGD && s->momentum > 0 ? 1 : 0;
}

/* Weights of fewer numbers keep states of 32 bits (bitsandbytes, torchao). */
static const double least_coded = 4096;

/* A number of a state: as the weight has it, or a code with a scale of f32 for each block: 8 bits in blocks
 * of 256, 4 bits in blocks of 128 (torchao's _optim). */
static double number_width(const torch_settings *s, double numbers, double width) {
    if (s->state_bits >= 32) return width;
    if (numbers < least_coded) return 4;
    return s->state_bits == 4 ? 0.5 + 4.0 / 128 : 1 + 4.0 / 256;
}

double torch_state_of(const torch_settings *s, double rows, double columns, double width) {
    double numbers = rows * (columns > 0 ? columns : 1);
    if (s->optimizer == OPTIMIZER_ADAFACTOR) return 4 * (columns > 0 ? rows + columns : rows);
    bool apart = s->masters && s->shard != TORCH_FSDP && !s->adapter_rank; /* DeepSpeed's masters */
    return numbers * number_width(s, numbers, width) * torch_moments(s) + (apart ? 4 * numbers : 0);
}
