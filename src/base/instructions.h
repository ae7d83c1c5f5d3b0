/* Sets of instructions that kernels are written for, by name. A process may pin one: then it uses none that
 * stands behind it, as if the processor had none. Loops that the compiler vectorises (base/vector.h) and
 * products of codes have the same bits with every set, and so has f32; products of bf16 have those of their
 * kind (instructions_kind). */
#pragma once

#include <stdbool.h>

#include "base/confirmed.h"
#include "base/status.h"

typedef enum {
    INSTRUCTIONS_PLAIN,
    INSTRUCTIONS_AVX2, /* with fused multiply-adds */
    INSTRUCTIONS_AVX_VNNI,
    INSTRUCTIONS_AVX512, /* F, BW and VL */
    INSTRUCTIONS_AVX512_VNNI,
    INSTRUCTIONS_AVX512_BF16,
    INSTRUCTIONS_AMX, /* tiles of bf16 and of i8 */
    INSTRUCTION_SETS
} instruction_set;

const char *instructions_name(instruction_set set);

/* Has the processor these, whatever is pinned? For tiles the system is asked once to allow them. */
bool instructions_present(instruction_set set);
/* And may they be used? Where none is pinned, instructions on pairs of bf16 may not where their maker has
 * made them slower than those on f32. */
bool instructions_usable(instruction_set set);

/* How bf16 is multiplied by bf16: "amx", "avx512-bf16" or "widened" to f32. Bits differ between these. */
const char *instructions_kind(void);

#define INSTRUCTIONS_TENSOR "tensor-cores"
#define INSTRUCTIONS_GROUPS "tensor-groups"

/* May a GPU of this capability take what is of this kind, of those on tensor cores? And of those that one
 * capability alone has: by groups of warps on 9.0, in tensor memory on 10.0? What is not asked for by name
 * may be taken where it is confirmed. */
bool instructions_tensor(confirm_kind kind, uint32_t capability);
bool instructions_groups(confirm_kind kind, uint32_t capability);

/* By name; or "auto": all that there are; or INSTRUCTIONS_TENSOR: all, and tensor cores on a GPU; or
 * INSTRUCTIONS_GROUPS: all these, and what one capability alone has; or "widened": those that leave bf16 to
 * f32, as on every processor without any for it. INVALID: no such name, or the processor lacks them. */
status instructions_pin(const char *name);
