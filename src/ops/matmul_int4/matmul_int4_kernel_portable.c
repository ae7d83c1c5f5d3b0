/* Plain C: the product by its definition, of panels of any width. */
#include "ops/matmul_int4/matmul_int4_kernel.h"

/* `lanes` is a constant where this is inlined for whole panels. */
VECTOR_INLINE void sum_group(const uint8_t *codes, const int8_t *a, int32_t start, const int64_t lanes,
                             int32_t sum[CODES4_PANEL]) {
    for (int64_t l = 0; l < lanes; l++) sum[l] = start;
    for (int w = 0; w < CODES4_WORDS; w++)
        for (int b = 0; b < 4; b++)
            for (int64_t l = 0; l < lanes; l++) {
                int32_t byte = codes[(w * lanes + l) * 4 + b];
                sum[l] += (byte & 15) * a[8 * w + b] + (byte >> 4) * a[8 * w + 4 + b];
            }
}

VECTOR_INLINE void sum_row(const matmul_int4_block *s, int64_t panel, int64_t row, const int64_t lanes) {
    float slice[CODES4_PANEL], *to = s->sum + row * s->stride + panel * lanes;
    const uint8_t *codes = s->codes + panel * s->groups * lanes * CODES4_BYTES;
    for (int64_t g = 0; g < s->groups; g++) {
        int32_t sum[CODES4_PANEL];
        bool begins = g % MATMUL_INT4_SLICE == 0, ends = (g + 1) % MATMUL_INT4_SLICE == 0;
        float scale = s->scales_a[row * s->groups + g];
        const uint16_t *scales = s->scales + (panel * s->groups + g) * lanes;
        sum_group(codes + g * lanes * CODES4_BYTES, s->a + (row * s->groups + g) * CODES4_GROUP,
                  s->starts[row * s->groups + g], lanes, sum);
        for (int64_t l = 0; l < lanes; l++) {
            float more = (float)sum[l] * (scale * half_from_f16(scales[l]));
            slice[l] = (begins ? 0.0f : slice[l]) + more;
        }
        if (!ends && g + 1 < s->groups) continue;
        for (int64_t l = 0; l < lanes; l++) to[l] = (g < MATMUL_INT4_SLICE ? 0.0f : to[l]) + slice[l];
    }
}

VECTOR_CLONES static void sum_panel(const matmul_int4_block *s, int64_t panel) {
    for (int64_t row = 0; row < s->rows; row++) sum_row(s, panel, row, CODES4_PANEL);
}

static void block(const matmul_int4_block *s) {
    for (int64_t panel = 0; panel < s->panels; panel++)
        if (s->lanes == CODES4_PANEL)
            sum_panel(s, panel);
        else
            for (int64_t row = 0; row < s->rows; row++) sum_row(s, panel, row, s->lanes);
}

static bool available(void) { return true; }

const matmul_int4_kernel matmul_int4_kernel_portable = { .name = "portable",
                                                         .available = available,
                                                         .block = block };
