/* Names that people bring from other tools. */
#include <string.h>

#include "cli/options.h"

static const option_familiar names[] = {
    /* the same by another name */
    { "learning-rate", "lr", NULL, true },
    { "batch-size", "batch", NULL, true },
    { "train-batch-size", "batch", NULL, true },
    { "micro-batch-size", "micro-batch", NULL, true },
    { "max-steps", "steps", NULL, true },
    { "num-train-epochs", "epochs", NULL, true },
    { "num-epochs", "epochs", NULL, true },
    { "warmup-steps", "warmup", NULL, true },
    { "max-grad-norm", "clip", NULL, true },
    { "grad-clip", "clip", NULL, true },
    { "adam-beta1", "beta1", NULL, true },
    { "adam-beta2", "beta2", NULL, true },
    { "output-dir", "out", NULL, true },
    { "out-dir", "out", NULL, true },
    { "save-steps", "save-every", NULL, true },
    { "eval-steps", "eval-every", NULL, true },
    { "save-total-limit", "keep", NULL, true },
    { "early-stopping-patience", "patience", NULL, true },
    { "train-file", "data", NULL, true },
    { "validation-file", "eval-data", NULL, true },
    { "dataloader-num-workers", "workers", NULL, true },
    { "max-new-tokens", "tokens", NULL, true },
    { "n-predict", "tokens", NULL, true },
    { "seq-len", "context", NULL, true },
    { "seq-length", "context", NULL, true },
    { "sequence-length", "context", NULL, true },
    { "max-seq-length", "context", NULL, true },
    { "max-length", "context", NULL, true },
    { "block-size", "context", NULL, true },
    { "max-model-len", "context", NULL, true },
    { "kv-cache-free-gpu-memory-fraction", "free-gpu-memory-fraction", NULL, true },
    { "cuda-graph-max-bs-decode", "cuda-graph-max-bs", NULL, true },
    { "context-length", "context", NULL, true },
    { "max-seq-len", "context", NULL, true },
    { "max-completion-length", "completion", NULL, true },
    { "num-generations", "generations", NULL, true },
    { "num-iterations", "iterations", NULL, true },
    { "bf16", "precision", "mixed-bf16", true },
    { "fp16", "precision", "mixed-f16", true },

    /* what is near, and not the same: by their words nothing is decided */
    { "per-device-train-batch-size", "batch", NULL, false },
    { "gradient-accumulation-steps", "accumulate", NULL, false },
    { "gradient-checkpointing", "recompute block", NULL, false },
    { "checkpointing", "gradient-checkpointing", NULL, false },
    { "activation-checkpointing", "gradient-checkpointing", NULL, false },
    { "lr-scheduler-type", "schedule", NULL, false },
    { "lora-r", "lora rank=8", NULL, false },
    { "target-modules", "adapter-targets", NULL, false },
    { "load-in-4bit", "base-bits 4", NULL, false },
    { "load-in-8bit", "base-bits 8", NULL, false },
    { "strategy", "shard", NULL, false },
    { "fsdp", "shard fsdp", NULL, false },
    { "zero", "shard zero3", NULL, false },
    { "deepspeed", "shard zero3", NULL, false },
    { "num-gpus", "gpus", NULL, false },
    { "tensor-parallel-size", "gpus", NULL, false },
    { "tp-size", "gpus", NULL, false },
    { "tp", "tensor-model-parallel-size", NULL, false },
    { "pp", "pipeline-model-parallel-size", NULL, false },
    { "cp", "context-parallel-size", NULL, false },
    { "ep", "expert-model-parallel-size", NULL, false },
    { "optim", "optimizer", NULL, false },
    { "attn-implementation", "attn", NULL, false },
    { "use-vllm", "rollouts vllm", NULL, false },
    { "vllm-enable-sleep-mode", "rollouts vllm-sleep", NULL, false },
    { "vllm-mode", "rollouts", NULL, false },
};

const option_familiar *options_familiar(const char *name) {
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i].theirs, name) == 0) return &names[i];
    return NULL;
}
