/* Kinds of operations, whose results a module that is computed again may keep all the same: PyTorch's
 * selective checkpointing (torch.utils.checkpoint.create_selective_checkpoint_contexts), where a policy says
 * of each operation whether its results stay.
 *
 * A kind is an operation by its name without an overload ("gelu", "native_layer_norm"), or several that are
 * one to whoever chooses, since devices and shapes decide between them: mm is also addmm, bmm also baddbmm,
 * attention and convolution are whatever kernel a device has for them. */
#pragma once

#include "estimate/recorded/recording.h"

enum { RECORDED_MOST_KINDS = 64, RECORDED_KIND_BYTES = 64 };

/* A set of them has bit k for kind k + 1. */
typedef struct {
    char name[RECORDED_MOST_KINDS][RECORDED_KIND_BYTES];
    uint32_t count;
    bool more;         /* there are further ones, which are of no kind; none of them draws */
    uint64_t draws[2]; /* those that draw random numbers, or may: on a CPU, on a GPU */
} recorded_kinds;

static inline uint64_t recorded_kind_bit(uint32_t kind) { return kind ? UINT64_C(1) << (kind - 1) : 0; }

/* Of all calls of forward that make something. */
void recorded_kinds_find(const recording *r, recorded_kinds *k);

/* By call, from 1: its kind, from 1; 0: of none, or not of forward. NULL: no memory. The caller frees it. */
uint8_t *recorded_kinds_of(const recorded_kinds *k, const recording_program *p);

/* Words with commas, as "mm,attention", to a set. STATUS_INVALID: the recording has no such kind. */
status recorded_kinds_read(const recorded_kinds *k, const char *words, uint64_t *set);

/* Operations of a kind, as ATen names them, the last one NULL; NULL: its name is the only one. */
const char *const *recorded_kind_operations(const char *kind);

/* Does that call draw random numbers? A GPU's fused attention may. */
bool recorded_draws(const recording_program *p, uint32_t call, bool cuda);
