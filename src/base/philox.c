#include "base/philox.h"

#include <math.h>

void philox_normal(uint64_t seed, uint32_t stream, int64_t n, float mean, float deviation, float *out) {
    for (int64_t i = 0; i < n; i += 2) {
        philox_block b =
            philox_draw(seed, (philox_block){ { (uint32_t)(i / 2), (uint32_t)((uint64_t)(i / 2) >> 32),
                                                0x6e6f726du, stream } });
        double radius = sqrt(-2.0 * log((double)philox_uniform(b.word[0])));
        double angle = 6.283185307179586 * (double)philox_uniform(b.word[1]);
        out[i] = mean + deviation * (float)(radius * cos(angle));
        if (i + 1 < n) out[i + 1] = mean + deviation * (float)(radius * sin(angle));
    }
}
