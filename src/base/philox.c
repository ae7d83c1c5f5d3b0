#include "base/philox.h"

#include <math.h>

void philox_normal(const philox_normal_list *list, int64_t first, int64_t n, float *out) {
    for (int64_t i = 0; i < n; i += 2) {
        uint64_t pair = (uint64_t)(first + i) / 2;
        philox_block b = philox_draw(list->seed, (philox_block){ { (uint32_t)pair, (uint32_t)(pair >> 32),
                                                                   0x6e6f726du, list->stream } });
        double radius = sqrt(-2.0 * log((double)philox_uniform(b.word[0])));
        double angle = 6.283185307179586 * (double)philox_uniform(b.word[1]);
        out[i] = list->mean + list->deviation * (float)(radius * cos(angle));
        if (i + 1 < n) out[i + 1] = list->mean + list->deviation * (float)(radius * sin(angle));
    }
}
