#include "estimate/torch/torch_check.h"

#include <stdio.h>

/* Whole micro-batches add up to a step there, and there is no smaller one at the end. */
status torch_check_cut(const torch_settings *s) {
    int64_t gpus = s->gpus > 1 ? s->gpus : 1, once = s->batch * gpus;
    if (s->step % once == 0) return STATUS_OK;
    char among[48] = "";
    if (gpus > 1) snprintf(among, sizeof among, " on each of %lld devices", (long long)gpus);
    return status_set(
        STATUS_INVALID,
        "--batch %lld is no whole number of micro-batches of %lld%s, and a step would have %lld "
        "samples; say --batch %lld, or another --micro-batch",
        (long long)s->step, (long long)s->batch, among, (long long)(once * torch_accumulation(s)),
        (long long)(once * torch_accumulation(s)));
}

/* Whose options keep what with the host. */
static status check_host(const torch_settings *s) {
    bool zero = s->shard == TORCH_ZERO1 || s->shard == TORCH_ZERO2 || s->shard == TORCH_ZERO3;
    if (s->host_keeps == TORCH_KEEPS_STATE && !zero)
        return status_set(STATUS_INVALID,
                          "--host-keeps optimizer is DeepSpeed's; say --shard zero1, zero2 or zero3 as well");
    if (s->host_keeps == TORCH_KEEPS_ALL && s->shard != TORCH_ZERO3 && s->shard != TORCH_FSDP)
        return status_set(STATUS_INVALID,
                          "--host-keeps all is of shared weights; say --shard zero3 or fsdp as well");
    if (s->host_keeps && s->state_bits < 32)
        return status_set(STATUS_INVALID,
                          "--host-keeps updates on the host, where nobody has states of fewer bits");
    return STATUS_OK;
}

status torch_check_bits(const torch_settings *s) {
    if (s->state_bits != 4 && s->state_bits != 8 && s->state_bits != 32)
        return status_set(STATUS_INVALID, "--optimizer-bits %lld: states have 32 bits, 8 or 4",
                          (long long)s->state_bits);
    if (s->base_bits != 4 && s->base_bits != 16 && s->base_bits != 32)
        return status_set(STATUS_INVALID, "--base-bits %lld: frozen weights have 32 bits, 16 or 4",
                          (long long)s->base_bits);
    if (s->adapter_targets && !s->adapter_rank)
        return status_set(STATUS_INVALID, "--adapter-targets is for adapters; say --adapter-rank 16 as well");
    if (s->magnitudes && !s->adapter_rank)
        return status_set(STATUS_INVALID, "--use-dora is for adapters; say --adapter-rank 16 as well");
    if (s->magnitudes && s->older)
        return status_set(STATUS_INVALID,
                          "--use-dora has no rule for --libraries 2023: PEFT had its first form "
                          "of it in 2024");
    if (s->base_bits == 4 && !s->adapter_rank)
        return status_set(STATUS_INVALID,
                          "--base-bits 4 is for weights that are not trained; say --adapter-rank 16 as well");
    return STATUS_OK;
}

status torch_check_shares(const torch_settings *s) {
    if (s->shard != TORCH_ALONE && s->gpus < 2 && !s->host_keeps)
        return status_set(STATUS_INVALID, "--shard shares among several devices; say --gpus N");
    if (s->gpus > 1 && s->shard == TORCH_ALONE)
        return status_set(STATUS_INVALID, "--gpus %lld: say --shard ddp, zero1, zero2, zero3 or fsdp",
                          (long long)s->gpus);
    return check_host(s);
}
