#define _GNU_SOURCE
#include "base/instructions.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/text.h"

static const char *const names[INSTRUCTION_SETS] = {
    [INSTRUCTIONS_PLAIN] = "plain",
    [INSTRUCTIONS_AVX2] = "avx2",
    [INSTRUCTIONS_AVX_VNNI] = "avx-vnni",
    [INSTRUCTIONS_AVX512] = "avx512",
    [INSTRUCTIONS_AVX512_VNNI] = "avx512-vnni",
    [INSTRUCTIONS_AVX512_BF16] = "avx512-bf16",
    [INSTRUCTIONS_AMX] = "amx",
};

enum { WIDENED = INSTRUCTIONS_AVX512_VNNI /* up to here bf16 is */ };

static atomic_int last = INSTRUCTION_SETS - 1; /* that may be used */
static atomic_bool pinned;                     /* else of these what is known to be slow is left out */

/* What GPUs may take: of "auto" what such a GPU has confirmed. */
enum { GPU_PLAIN, GPU_CONFIRMED, GPU_TENSOR, GPU_GROUPS };
static atomic_int on_gpu = GPU_CONFIRMED;

const char *instructions_name(instruction_set set) { return names[set]; }

/* ---- what there is ---- */

#if defined(__x86_64__)
#include <cpuid.h>

typedef struct {
    unsigned a, b, c, d;
} leaf;

static leaf leaf_of(unsigned number, unsigned part) {
    leaf l = { 0 };
    if (!__get_cpuid_count(number, part, &l.a, &l.b, &l.c, &l.d)) l = (leaf){ 0 };
    return l;
}

/* Registers of tiles are large: Linux saves them only for a process that asked. */
static bool has_tiles(void) {
    enum { ASK = 0x1023 /* ARCH_REQ_XCOMP_PERM */, DATA = 18 /* the state of tiles */ };
    unsigned wanted = 1u << 22 | 1u << 24 | 1u << 25; /* bf16, tiles, i8 */
    return (leaf_of(7, 0).d & wanted) == wanted && __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
           syscall(SYS_arch_prctl, ASK, DATA) == 0;
}

static bool has(instruction_set set) {
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512vl");
    switch (set) {
    case INSTRUCTIONS_AVX2: return avx2;
    case INSTRUCTIONS_AVX_VNNI: return avx2 && (leaf_of(7, 1).a & 1u << 4);
    case INSTRUCTIONS_AVX512: return avx512;
    case INSTRUCTIONS_AVX512_VNNI: return avx512 && __builtin_cpu_supports("avx512vnni");
    case INSTRUCTIONS_AVX512_BF16: return avx512 && (leaf_of(7, 1).a & 1u << 5);
    case INSTRUCTIONS_AMX: return has_tiles();
    default: return true;
    }
}
#else
static bool has(instruction_set set) { return set == INSTRUCTIONS_PLAIN; }
#endif

bool instructions_present(instruction_set set) {
    static atomic_int known[INSTRUCTION_SETS]; /* 0: not yet, 1: no, 2: yes */
    if (!atomic_load_explicit(&known[set], memory_order_relaxed))
        atomic_store_explicit(&known[set], has(set) ? 2 : 1, memory_order_relaxed);
    return atomic_load_explicit(&known[set], memory_order_relaxed) == 2;
}

/* ---- are products of bf16 in pairs worth it? ---- */

/* An instruction on pairs does twice as much as one on f32. AMD's processors start as many of them (since Zen
 * 4), Intel's Sapphire Rapids a quarter: it has tiles for this. The maker decides and no clock, since bits
 * depend on it. */
static bool is_slow(instruction_set set) {
#if defined(__x86_64__)
    return set == INSTRUCTIONS_AVX512_BF16 && !__builtin_cpu_is("amd");
#else
    return set == INSTRUCTIONS_AVX512_BF16;
#endif
}

/* ---- what may be used ---- */

bool instructions_usable(instruction_set set) {
    if ((int)set > atomic_load_explicit(&last, memory_order_relaxed) || !instructions_present(set))
        return false;
    return atomic_load_explicit(&pinned, memory_order_relaxed) || !is_slow(set);
}

const char *instructions_kind(void) {
    if (instructions_usable(INSTRUCTIONS_AMX)) return names[INSTRUCTIONS_AMX];
    if (instructions_usable(INSTRUCTIONS_AVX512_BF16)) return names[INSTRUCTIONS_AVX512_BF16];
    return "widened";
}

static bool is_taken(int least, confirm_kind kind, uint32_t capability) {
    int now = atomic_load_explicit(&on_gpu, memory_order_relaxed);
    return now >= least || (now == GPU_CONFIRMED && confirmed_on(kind, capability));
}

bool instructions_tensor(confirm_kind kind, uint32_t capability) {
    return is_taken(GPU_TENSOR, kind, capability);
}

bool instructions_groups(confirm_kind kind, uint32_t capability) {
    return is_taken(GPU_GROUPS, kind, capability);
}

static void list_sets(text *out) {
    for (int set = 0; set < INSTRUCTION_SETS; set++)
        if (instructions_present((instruction_set)set)) text_add(out, ", %s", names[set]);
}

status instructions_pin(const char *name) {
    bool grouped = strcmp(name, INSTRUCTIONS_GROUPS) == 0;
    bool named = grouped || strcmp(name, INSTRUCTIONS_TENSOR) == 0, all = named || strcmp(name, "auto") == 0;
    int found = all ? INSTRUCTION_SETS - 1 : strcmp(name, "widened") == 0 ? WIDENED : -1;
    for (int set = 0; set < INSTRUCTION_SETS; set++)
        if (strcmp(name, names[set]) == 0 && instructions_present((instruction_set)set)) found = set;
    if (found >= 0) {
        atomic_store_explicit(&last, found, memory_order_relaxed);
        atomic_store_explicit(&pinned, !all, memory_order_relaxed);
        atomic_store_explicit(&on_gpu,
                              grouped ? GPU_GROUPS
                              : named ? GPU_TENSOR
                              : all   ? GPU_CONFIRMED
                                      : GPU_PLAIN,
                              memory_order_relaxed);
        return STATUS_OK;
    }
    text there = { 0 };
    list_sets(&there);
    status result = status_set(STATUS_INVALID,
                               "this processor has no instructions '%s'; it has auto, " INSTRUCTIONS_TENSOR
                               ", " INSTRUCTIONS_GROUPS ", widened%s",
                               name, there.data);
    text_close(&there);
    return result;
}
