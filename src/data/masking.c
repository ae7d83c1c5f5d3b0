#include "data/masking.h"

#include "base/philox.h"
#include "data/source.h"

enum { MASKING_STREAM = 0x6d61736b };

/* Is a uniform word among the first `share` in 100? */
static bool among(uint32_t word, uint64_t share) { return word < (share << 32) / 100; }

void data_masking_apply(const data_masking *m, uint64_t number, int32_t *tokens, int32_t *labels) {
    if (!m->on) return;
    for (uint32_t i = 0; i < m->context; i++) {
        philox_block b = philox_draw(
            m->seed, (philox_block){ { i, (uint32_t)number, (uint32_t)(number >> 32), MASKING_STREAM } });
        bool chosen = among(b.word[0], 15) && !(m->skips_ignored && labels[i] == DATA_IGNORED_LABEL);
        labels[i] = chosen ? tokens[i] : DATA_IGNORED_LABEL;
        if (!chosen || among(b.word[1], 10)) continue;
        bool any = among(b.word[1], 20);
        tokens[i] = any ? (int32_t)((uint64_t)b.word[2] * m->vocabulary >> 32) : m->mask;
    }
}
