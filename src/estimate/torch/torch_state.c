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

static double numbers_of(const torch_weight *w) { return w->rows * (w->columns > 0 ? w->columns : 1); }

static bool is_projected(const torch_settings *s, const torch_weight *w) {
    return s->matrices != TORCH_WHOLE_STATES && w->in_block && w->columns > 1 && w->rows > 1;
}

/* A rank as large as the shorter side projects nothing. */
static double projected(const torch_settings *s, const torch_weight *w) {
    double numbers = numbers_of(w), rank = (double)s->state_rank;
    double longer = w->rows > w->columns ? w->rows : w->columns, shorter = numbers / longer;
    if (s->matrices == TORCH_MUON) return numbers * w->width;
    if (rank > shorter) rank = shorter;
    double moments = rank * longer;
    return 2 * moments * number_width(s, moments, w->width) +
           (s->matrices == TORCH_GALORE ? rank * shorter * w->width : 0);
}

double torch_state_of(const torch_settings *s, const torch_weight *w) {
    double numbers = numbers_of(w);
    if (is_projected(s, w)) return projected(s, w);
    if (s->optimizer == OPTIMIZER_ADAFACTOR) return 4 * (w->columns > 0 ? w->rows + w->columns : w->rows);
    bool apart = s->masters && s->shard != TORCH_FSDP && !s->adapter_rank; /* DeepSpeed's masters */
    return numbers * number_width(s, numbers, w->width) * torch_moments(s) + (apart ? 4 * numbers : 0);
}

/* Muon: the update, and in 16 bits what is made orthogonal, its successor and two squares of its shorter side
 * (torch.optim.Muon). Others: the root and the quotient of two moments. */
double torch_update_of(const torch_settings *s, const torch_weight *w) {
    double numbers = numbers_of(w), longer = w->rows > w->columns ? w->rows : w->columns;
    double shorter = longer > 0 ? numbers / longer : 0;
    if (s->matrices == TORCH_MUON && is_projected(s, w))
        return numbers * w->width + 2 * 2 * numbers + 2 * 2 * shorter * shorter;
    if (s->state_bits < 32 || s->optimizer == OPTIMIZER_SGD || s->update == TORCH_FUSED) return 0;
    return numbers * w->width * (s->update == TORCH_FOREACH && s->optimizer == OPTIMIZER_ADAMW ? 1 : 2);
}
