/* Packing of products' operands: each number of a panel is the one of its line and depth, bit for bit, and
 * nothing beside the operand is read (which the address sanitizer sees). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "ops/matmul/matmul_kernel.h"

enum { HALVES = 1 << 16 };

static uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* Every number of 16 bits comes by, again and again. */
static uint16_t half_at(int64_t i) { return (uint16_t)(i * 40503 % HALVES); }

static float number_at(dtype type, int64_t i) {
    if (type == DTYPE_F16) return half_from_f16(half_at(i));
    if (type == DTYPE_BF16) return half_from_bf16(half_at(i));
    return (float)i;
}

/* As large as it needs to be: a read behind it is outside of its block. */
static void *make_operand(dtype type, int64_t count) {
    void *data = malloc((size_t)(count * matmul_bytes(type)));
    assert_non_null(data);
    for (int64_t i = 0; i < count; i++)
        if (type == DTYPE_F32)
            ((float *)data)[i] = (float)i;
        else
            ((uint16_t *)data)[i] = half_at(i);
    return data;
}

typedef struct {
    dtype type;
    bool across;
    int64_t lines, depth, width, gap; /* gap: between the runs that are not packed */
} operand_form;

static void check(matmul_pack *pack, const operand_form *s) {
    int64_t runs = s->across ? s->depth : s->lines, run = s->across ? s->lines : s->depth;
    int64_t stride = run + s->gap, panels = (s->lines + s->width - 1) / s->width;
    matmul_operand o = { .data = make_operand(s->type, (runs - 1) * stride + run),
                         .stride = stride,
                         .across = s->across,
                         .type = s->type };
    float *packed = malloc((size_t)(panels * s->width * s->depth) * sizeof *packed);
    assert_non_null(packed);
    pack(&o, s->lines, s->depth, s->width, packed);
    for (int64_t line = 0; line < s->lines; line++)
        for (int64_t p = 0; p < s->depth; p++) {
            float got = packed[(line / s->width * s->depth + p) * s->width + line % s->width];
            int64_t place = s->across ? p * stride + line : line * stride + p;
            if (bits_of(got) != bits_of(number_at(s->type, place)))
                fail_msg("%s %s, %lld lines of %lld in panels of %lld: line %lld, depth %lld is %a, not %a",
                         dtype_name(s->type), s->across ? "across" : "along", (long long)s->lines,
                         (long long)s->depth, (long long)s->width, (long long)line, (long long)p, (double)got,
                         (double)number_at(s->type, place));
        }
    free(packed);
    free((void *)(uintptr_t)o.data);
}

static void check_all(matmul_pack *pack, dtype type, bool across, int64_t width) {
    const int64_t lines[] = { 1, width - 1, width, width + 1, 2 * width + 3 }, depths[] = { 1, 7, 8, 9, 64 };
    for (size_t l = 0; l < sizeof lines / sizeof *lines; l++)
        for (size_t d = 0; d < sizeof depths / sizeof *depths; d++)
            for (int64_t gap = 0; gap < 6; gap += 5)
                check(pack, &(operand_form){ type, across, lines[l], depths[d], width, gap });
}

static void numbers_stay_what_they_are(void **state) {
    (void)state;
    static const dtype types[] = { DTYPE_F32, DTYPE_F16, DTYPE_BF16 };
    static const int64_t widths[] = { 32, 16, 14, 6, 5, 4 };
    for (const matmul_kernel *const *k = matmul_kernels; *k; k++)
        for (size_t t = 0; t < 3 && (*k)->available(); t++)
            for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
                check_all((*k)->pack_a, types[t], false, widths[w]);
                check_all((*k)->pack_a, types[t], true, widths[w]);
            }
}

/* Along the depth 16-bit numbers are widened eight at once, in another way than one by one. */
static void all_halves_are_widened(void **state) {
    (void)state;
    for (const matmul_kernel *const *k = matmul_kernels; *k; k++) {
        if (!(*k)->available()) continue;
        check((*k)->pack_a, &(operand_form){ DTYPE_F16, false, 16, HALVES / 16, 16, 0 });
        check((*k)->pack_a, &(operand_form){ DTYPE_BF16, false, 16, HALVES / 16, 16, 0 });
    }
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(numbers_stay_what_they_are),
                                        cmocka_unit_test(all_halves_are_widened) };
    return cmocka_run_group_tests_name("matmul pack", tests, NULL, NULL);
}
