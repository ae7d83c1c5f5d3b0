/* Panels of bf16 in pairs, in plain C: what the vectors' ways are compared with. */
#include <string.h>

#include "ops/matmul/matmul_kernel.h"

enum { FILL = MATMUL_PAIRS_FILL };

/* Depths p and p + 1 of a line; of lines that a panel has more than there are, of the last one. */
static uint32_t pair_of(const matmul_operand *o, int64_t lines, int64_t line, int64_t depth, int64_t p) {
    const uint16_t *data = o->data;
    int64_t along = o->across ? o->stride : 1,
            first = (line < lines ? line : lines - 1) * (o->across ? 1 : o->stride);
    uint32_t low = p < depth ? data[first + p * along] : 0,
             high = p + 1 < depth ? data[first + (p + 1) * along] : 0;
    return low | high << 16;
}

static void pack_to(const matmul_operand *o, int64_t lines, int64_t depth, int64_t width, int64_t filled,
                    uint32_t *to) {
    for (int64_t line = 0; line < lines; line += width)
        for (int64_t p = 0; p < filled; p += 2)
            for (int64_t i = 0; i < width; i++) *to++ = pair_of(o, lines, line + i, depth, p);
}

void matmul_pack_pairs(const matmul_operand *o, int64_t lines, int64_t depth, int64_t width, void *packed) {
    pack_to(o, lines, depth, width, (depth + 1) / 2 * 2, packed);
}

void matmul_pack_pairs_filled(const matmul_operand *o, int64_t lines, int64_t depth, int64_t width,
                              void *packed) {
    pack_to(o, lines, depth, width, (depth + FILL - 1) / FILL * FILL, packed);
}

void matmul_pack_rows(const matmul_operand *o, int64_t lines, int64_t depth, int64_t width, void *packed) {
    uint32_t *to = packed;
    for (int64_t line = 0; line < lines; line += width)
        for (int64_t first = 0; first < depth; first += FILL)
            for (int64_t i = 0; i < width; i++)
                for (int64_t p = first; p < first + FILL; p += 2)
                    *to++ = pair_of(o, lines, line + i, depth, p);
}
