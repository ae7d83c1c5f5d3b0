#include "admit/trainer_rows.h"

#include <string.h>

#include "admit/names.h"

#define AT(member) .offset = offsetof(recipe, member)
#define TEXT_AT(member) .means = WORD, .offset = offsetof(recipe, member), .room = sizeof((recipe *)0)->member

/* ---- names of options ---- */

static const trainer_row of_transformers[] = {
    { "model_name_or_path", MODEL, 0, 0, NULL },
    { "model_name", MODEL, 0, 0, NULL },
    { "model", MODEL, 0, 0, NULL },
    { "model_id", MODEL, 0, 0, NULL },
    { "base_model", MODEL, 0, 0, NULL },
    { "config_name", NEW, 0, 0, NULL },
    { "model_type", HIDES, 0, 0, NULL },
    { "config_overrides", HIDES, 0, 0, NULL },
    { "per_device_train_batch_size", COUNT, AT(batch) },
    { "per_gpu_train_batch_size", COUNT, AT(batch) },
    { "train_batch_size", COUNT, AT(batch) },
    { "micro_batch_size", COUNT, AT(batch) },
    { "batch_size", COUNT, AT(batch) },
    { "gradient_accumulation_steps", COUNT, AT(accumulate) },
    { "block_size", LENGTH, 0, 0, NULL },
    { "max_seq_length", LENGTH, 0, 0, NULL },
    { "max_length", LENGTH, 0, 0, NULL },
    { "max_seq_len", LENGTH, 0, 0, NULL },
    { "model_max_length", LENGTH, 0, 0, NULL },
    { "max_source_length", LENGTH, 0, 0, NULL },
    { "cutoff_len", LENGTH, 0, 0, NULL },
    { "gradient_checkpointing", CHECKPOINT, 0, 0, NULL },
    { "gradient_checkpointing_kwargs", REENTRANT, 0, 0, NULL },
    { "gradient_checkpointing_kwargs.use_reentrant", REENTRANT, 0, 0, "" },
    { "finetuning_type", TUNING, 0, 0, NULL },
    { "lora_rank", COUNT, AT(rank) },
    { "lora_target", TARGETS, 0, 0, NULL },
    { "quantization_bit", BITS, 0, 0, NULL },
    { "stage", STAGE, 0, 0, NULL },
    { "pure_bf16", HALF_TOO, 0, 0, NULL },
    { "enable_liger_kernel", YES, AT(fused_loss) },
    { "bf16", MIXED, 0, 0, NULL },
    { "fp16", MIXED, 0, 0, NULL },
    { "torch_dtype", TYPE, 0, 0, NULL },
    { "dtype", TYPE, 0, 0, NULL },
    { "optim", TEXT_AT(optimizer) },
    { "attn_implementation", TEXT_AT(attention) },
    { "use_liger_kernel", YES, AT(fused_loss) },
    { "torch_compile", YES, AT(compiled) },
    { "packing", PACKED, 0, 0, NULL },
    { "pad_to_max_length", PACKED, 0, 0, NULL },
    { "use_peft", YES, AT(adapters) },
    { "use_lora", YES, AT(adapters) },
    { "lora_r", COUNT, AT(rank) },
    { "lora_target_modules", TEXT_AT(targets) },
    { "load_in_4bit", FOUR_BITS, 0, 0, NULL },
    { "fsdp", SHARDS, 0, 0, NULL },
    { "deepspeed", DEEPSPEED, 0, 0, NULL },
    { "config", CONFIG, 0, 0, NULL },
    { "load_in_8bit", HIDES, 0, 0, NULL },
    { "fsdp_config", HIDES, 0, 0, NULL },
    { "auto_find_batch_size", HIDES, 0, 0, NULL },
    { "optim_args", HIDES, 0, 0, NULL },
    { "optim_target_modules", HIDES, 0, 0, NULL },
    { "use_unsloth", HIDES, 0, 0, NULL },
    { "use_cpu", HIDES, 0, 0, NULL },
    { "no_cuda", HIDES, 0, 0, NULL },
    { "modules_to_save", HIDES, 0, 0, NULL },
    { "lora_modules_to_save", HIDES, 0, 0, NULL },
    { "use_dora", HIDES, 0, 0, NULL },
    { "freeze_layers", HIDES, 0, 0, NULL },
    { "max_train_samples", HIDES, 0, 0, NULL }, /* fewer than a batch, maybe */
    { "line_by_line", HIDES, 0, 0, NULL },      /* texts are no longer joined to one length */
    { "do_train", YES, AT(trains) },
    { NULL },
};

static const trainer_row of_axolotl[] = {
    { "base_model", MODEL, 0, 0, NULL },
    { "micro_batch_size", COUNT, AT(batch) },
    { "gradient_accumulation_steps", COUNT, AT(accumulate) },
    { "sequence_len", LENGTH, 0, 0, NULL },
    { "sample_packing", PACKED, 0, 0, NULL },
    { "adapter", ADAPTER, 0, 0, NULL },
    { "lora_r", COUNT, AT(rank) },
    { "lora_target_modules", TEXT_AT(targets) },
    { "lora_target_linear", YES, AT(all_products) },
    { "load_in_4bit", FOUR_BITS, 0, 0, NULL },
    { "load_in_8bit", HIDES, 0, 0, NULL },
    { "optimizer", TEXT_AT(optimizer) },
    { "bf16", HALF, 0, 0, NULL },
    { "fp16", MIXED, 0, 0, NULL },
    { "gradient_checkpointing", CHECKPOINT, 0, 0, NULL },
    { "gradient_checkpointing_kwargs.use_reentrant", REENTRANT, 0, 0, "" },
    { "torch_compile", YES, AT(compiled) },
    { "liger_fused_linear_cross_entropy", YES, AT(fused_loss) },
    { "deepspeed", DEEPSPEED, 0, 0, NULL },
    { "fsdp", HIDES, 0, 0, NULL },
    { "unfrozen_parameters", HIDES, 0, 0, NULL },
    { "lora_modules_to_save", HIDES, 0, 0, NULL },
    { "plugins", HIDES, 0, 0, NULL },
    { "peft_use_dora", HIDES, 0, 0, NULL },
    { "relora_steps", HIDES, 0, 0, NULL },
    { "sequence_parallel_degree", HIDES, 0, 0, NULL },
    { "context_parallel_size", HIDES, 0, 0, NULL },
    { "layer_offloading", HIDES, 0, 0, NULL },
    { NULL },
};

static const trainer_row of_torchtune[] = {
    { "model._component_", COMPONENT, 0, 0, NULL },
    { "model.lora_rank", COUNT, AT(rank) },
    { "model.lora_attn_modules", TEXT_AT(targets) },
    { "batch_size", COUNT, AT(batch) },
    { "gradient_accumulation_steps", COUNT, AT(accumulate) },
    { "tokenizer.max_seq_len", LENGTH, 0, 0, NULL },
    { "dataset.packed", PACKED, 0, 0, NULL },
    { "dtype", HALF, 0, 0, NULL },
    { "enable_activation_checkpointing", CHECKPOINT, 0, 0, NULL },
    { "enable_activation_offloading", HIDES, 0, 0, NULL },
    { "optimizer._component_", TEXT_AT(optimizer) },
    { "optimizer_in_bwd", HIDES, 0, 0, NULL },
    { "compile", YES, AT(compiled) },
    { "config", CONFIG, 0, 0, NULL },
    { "nproc_per_node", COUNT, AT(processes) },
    { "nnodes", HIDES, 0, 0, NULL },
    { "fsdp_cpu_offload", HIDES, 0, 0, NULL },
    { "tensor_parallel_dim", HIDES, 0, 0, NULL },
    { "device", PLACE, 0, 0, "cuda" },
    { NULL },
};

static const trainer_row of_nanogpt[] = {
    { "init_from", MODEL, 0, 0, NULL },
    { "n_layer", COUNT, AT(layers) },
    { "n_head", COUNT, AT(heads) },
    { "n_embd", COUNT, AT(width) },
    { "batch_size", COUNT, AT(batch) },
    { "block_size", LENGTH, 0, 0, NULL },
    { "dtype", TYPE, 0, 0, NULL },
    { "compile", YES, AT(compiled) },
    { "dropout", PASS, 0, 0, "dropout" },
    { "gradient_accumulation_steps", COUNT, AT(accumulate) },
    { NULL },
};

static const trainer_row of_llmc[] = {
    { "b", COUNT, AT(batch) },       { "t", LENGTH, 0, 0, NULL }, { "e", LLMC_MODEL, 0, 0, NULL },
    { "r", LLMC_LEVEL, 0, 0, NULL }, { "z", HIDES, 0, 0, NULL },  { NULL },
};

static const trainer_row of_vllm[] = {
    { "model", MODEL, 0, 0, NULL },
    { "tensor_parallel_size", COUNT, AT(processes) },
    { "tp", COUNT, AT(processes) },
    { "max_model_len", PASS, 0, 0, "context" },
    { "gpu_memory_utilization", PASS, 0, 0, "gpu-memory-utilization" },
    { "quantization", PASS, 0, 0, "quantization" },
    { "q", PASS, 0, 0, "quantization" },
    { "kv_cache_dtype", PASS, 0, 0, "kv-cache-dtype" },
    { "max_num_batched_tokens", PASS, 0, 0, "max-num-batched-tokens" },
    { "max_num_seqs", PASS, 0, 0, "max-num-seqs" },
    { "enforce_eager", PASS_YES, 0, 0, "enforce-eager" },
    { "dtype", TYPE, 0, 0, NULL },
    { "pipeline_parallel_size", HIDES, 0, 0, NULL },
    { "data_parallel_size", HIDES, 0, 0, NULL },
    { "cpu_offload_gb", HIDES, 0, 0, NULL },
    { "enable_lora", HIDES, 0, 0, NULL },
    { "speculative_config", HIDES, 0, 0, NULL },
    { "hf_overrides", HIDES, 0, 0, NULL },
    { "load_format", HIDES, 0, 0, NULL },
    { "enable_expert_parallel", HIDES, 0, 0, NULL },
    { NULL },
};

static const trainer_row of_sglang[] = {
    { "model_path", MODEL, 0, 0, NULL },
    { "model", MODEL, 0, 0, NULL },
    { "tensor_parallel_size", COUNT, AT(processes) },
    { "tp_size", COUNT, AT(processes) },
    { "tp", COUNT, AT(processes) },
    { "context_length", PASS, 0, 0, "context" },
    { "mem_fraction_static", PASS, 0, 0, "mem-fraction-static" },
    { "chunked_prefill_size", PASS, 0, 0, "chunked-prefill-size" },
    { "max_running_requests", PASS, 0, 0, "max-running-requests" },
    { "cuda_graph_max_bs", PASS, 0, 0, "cuda-graph-max-bs" },
    { "disable_cuda_graph", PASS_YES, 0, 0, "disable-cuda-graph" },
    { "page_size", PASS, 0, 0, "page-size" },
    { "quantization", PASS, 0, 0, "quantization" },
    { "kv_cache_dtype", PASS, 0, 0, "kv-cache-dtype" },
    { "dtype", TYPE, 0, 0, NULL },
    { "device", PLACE, 0, 0, "cuda" },
    { "max_total_tokens", HIDES, 0, 0, NULL },
    { "pipeline_parallel_size", HIDES, 0, 0, NULL },
    { "pp_size", HIDES, 0, 0, NULL },
    { "data_parallel_size", HIDES, 0, 0, NULL },
    { "dp_size", HIDES, 0, 0, NULL },
    { "dp", HIDES, 0, 0, NULL },
    { "ep_size", HIDES, 0, 0, NULL },
    { "ep", HIDES, 0, 0, NULL },
    { "nnodes", HIDES, 0, 0, NULL },
    { "cpu_offload_gb", HIDES, 0, 0, NULL },
    { "load_format", HIDES, 0, 0, NULL },
    { "json_model_override_args", HIDES, 0, 0, NULL },
    { "config", HIDES, 0, 0, NULL },
    { NULL },
};

/* A file of its own says what the line does not; its other engine has memory of another kind. */
static const trainer_row of_trtllm[] = {
    { "tp_size", COUNT, AT(processes) },
    { "max_seq_len", PASS, 0, 0, "context" },
    { "max_batch_size", PASS, 0, 0, "max-batch-size" },
    { "max_num_tokens", PASS, 0, 0, "max-num-tokens" },
    { "kv_cache_free_gpu_memory_fraction", PASS, 0, 0, "free-gpu-memory-fraction" },
    { "free_gpu_memory_fraction", PASS, 0, 0, "free-gpu-memory-fraction" },
    { "kv_cache_dtype", PASS, 0, 0, "kv-cache-dtype" },
    { "backend", PLACE, 0, 0, "pytorch" },
    { "pp_size", HIDES, 0, 0, NULL },
    { "ep_size", HIDES, 0, 0, NULL },
    { "cp_size", HIDES, 0, 0, NULL },
    { "max_beam_width", HIDES, 0, 0, NULL },
    { "extra_llm_api_options", HIDES, 0, 0, NULL },
    { "config", HIDES, 0, 0, NULL },
    { NULL },
};

static const trainer_row of_litgpt[] = {
    { "train.micro_batch_size", COUNT, AT(batch) },
    { "train.max_seq_length", LENGTH, 0, 0, NULL },
    { "precision", PRECISION, 0, 0, NULL },
    { "lora_r", COUNT, AT(rank) },
    { "devices", COUNT, AT(processes) },
    { "quantize", FOUR_BITS, 0, 0, NULL },
    { "config", HIDES, 0, 0, NULL },
    { "optimizer", HIDES, 0, 0, NULL },
    { NULL },
};

/* Those that say a size, and none that names a file. */
static const trainer_row of_snug[] = {
    { "ranks", COUNT, AT(processes) },        { "memory", PASS, 0, 0, "memory" },
    { "batch", PASS, 0, 0, "batch" },         { "micro_batch", PASS, 0, 0, "micro-batch" },
    { "context", PASS, 0, 0, "context" },     { "accumulate", PASS, 0, 0, "accumulate" },
    { "dtype", PASS, 0, 0, "dtype" },         { "optimizer", PASS, 0, 0, "optimizer" },
    { "dropout", PASS, 0, 0, "dropout" },     { "adapter_rank", PASS, 0, 0, "adapter-rank" },
    { "base_bits", PASS, 0, 0, "base-bits" }, { NULL },
};

const trainer_row *trainer_rows(const trainer *t) {
    static const trainer_row *const of[] = {
        [TRANSFORMERS] = of_transformers,
        [AXOLOTL] = of_axolotl,
        [TORCHTUNE] = of_torchtune,
        [NANOGPT] = of_nanogpt,
        [LLMC] = of_llmc,
        [VLLM] = of_vllm,
        [SGLANG] = of_sglang,
        [TRTLLM] = of_trtllm,
        [LITGPT] = of_litgpt,
        [SNUG] = of_snug,
    };
    return of[t->family];
}

/* ---- programs ---- */

static const char *const clm[] = { "run_clm.py", "run_clm_no_trainer.py", "run_mlm.py",
                                   "run_mlm_no_trainer.py", NULL };
static const char *const judges[] = { "run_glue.py", "run_qa.py",   "run_classification.py",
                                      "run_swag.py", "run_xnli.py", NULL };
static const char *const other_examples[] = { "run_seq2seq_qa.py", "run_summarization.py",
                                              "run_translation.py", "run_image_classification.py", NULL };
static const char *const trl[] = { "trl", NULL };
static const char *const sft[] = { "sft.py", "run_sft.py", NULL };
static const char *const factory[] = { "llamafactory-cli", "lmf", NULL };
static const char *const tune[] = { "tune", NULL };
static const char *const axolotl[] = { "axolotl", NULL };
static const char *const axolotl_module[] = { "axolotl.cli.train", NULL };
static const char *const llmc[] = { "train_gpt2cu", NULL };
static const char *const llmc_f32[] = { "train_gpt2fp32cu", NULL };
static const char *const vllm[] = { "vllm", NULL };
static const char *const vllm_module[] = { "vllm.entrypoints.openai.api_server", NULL };
static const char *const sglang[] = { "sglang", NULL };
static const char *const sglang_module[] = { "sglang.launch_server", NULL };
static const char *const trtllm[] = { "trtllm-serve", NULL };
static const char *const litgpt[] = { "litgpt", NULL };
static const char *const snug[] = { "snug", NULL };
static const char *const nobody[] = { NULL };

static const trainer trainers[] = {
    { .names = clm,
      .trains_if_told = true,
      .title = "transformers' example for language models",
      .framework = "hf",
      .family = TRANSFORMERS,
      .fixed = true,
      .decides_checkpoints = true,
      .batch = 8 },
    { .names = judges,
      .trains_if_told = true,
      .title = "transformers' example of judging texts",
      .framework = "hf",
      .family = TRANSFORMERS,
      .decides_checkpoints = true,
      .judges = true,
      .batch = 8 },
    { .names = other_examples,
      .trains_if_told = true,
      .title = "transformers' example",
      .framework = "hf",
      .family = TRANSFORMERS,
      .decides_checkpoints = true,
      .batch = 8 },
    { .names = trl,
      .first = "sft",
      .title = "TRL's supervised fine-tuning",
      .framework = "hf",
      .family = TRANSFORMERS,
      .checkpoints = true,
      .batch = 8 },
    { .names = sft,
      .title = "TRL's supervised fine-tuning",
      .framework = "hf",
      .family = TRANSFORMERS,
      .checkpoints = true,
      .batch = 8 },
    { .names = factory,
      .first = "train",
      .title = "LLaMA-Factory",
      .framework = "hf",
      .family = TRANSFORMERS,
      .checkpoints = true,
      .takes_words = true,
      .batch = 8 },
    { .names = tune,
      .first = "run",
      .title = "torchtune",
      .framework = "pytorch",
      .family = TORCHTUNE,
      .assignments = true,
      .decides_checkpoints = true,
      .takes_words = true },
    { .names = axolotl,
      .first = "train",
      .title = "axolotl",
      .framework = "hf",
      .family = AXOLOTL,
      .decides_checkpoints = true,
      .takes_words = true },
    { .names = axolotl_module,
      .title = "axolotl",
      .framework = "hf",
      .family = AXOLOTL,
      .decides_checkpoints = true,
      .takes_words = true },
    { .names = llmc,
      .title = "llm.c",
      .framework = "llm.c",
      .family = LLMC,
      .one_hyphen = true,
      .fixed = true,
      .half = true,
      .decides_checkpoints = true,
      .batch = 4 },
    { .names = llmc_f32,
      .title = "llm.c",
      .framework = "llm.c",
      .family = LLMC,
      .one_hyphen = true,
      .fixed = true,
      .decides_checkpoints = true,
      .batch = 4 },
    { .names = vllm,
      .first = "serve",
      .title = "vLLM",
      .framework = "vllm",
      .family = VLLM,
      .takes_words = true },
    { .names = vllm_module, .title = "vLLM", .framework = "vllm", .family = VLLM },
    { .names = sglang, .first = "serve", .title = "SGLang", .framework = "sglang", .family = SGLANG },
    { .names = sglang_module, .title = "SGLang", .framework = "sglang", .family = SGLANG },
    { .names = trtllm,
      .first = "serve",
      .title = "TensorRT-LLM",
      .framework = "tensorrt-llm",
      .family = TRTLLM,
      .takes_words = true },
    { .names = trtllm,
      .title = "TensorRT-LLM",
      .framework = "tensorrt-llm",
      .family = TRTLLM,
      .takes_words = true },
    { .names = litgpt,
      .first = "finetune_lora",
      .title = "litgpt",
      .framework = "litgpt",
      .family = LITGPT,
      .takes_words = true },
    { .names = litgpt,
      .first = "finetune_full",
      .title = "litgpt",
      .framework = "litgpt",
      .family = LITGPT,
      .takes_words = true },
    { .names = snug,
      .first = "train",
      .title = "snug",
      .framework = "snug",
      .family = SNUG,
      .takes_words = true },
};
enum { TRAINERS = sizeof trainers / sizeof *trainers };

/* Somebody's own program, by its options: a run of transformers' Trainer, or nanoGPT's train.py. */
static const trainer own = { .names = nobody,
                             .title = "a program of somebody's own, taken for one with transformers' Trainer",
                             .framework = "hf",
                             .family = TRANSFORMERS,
                             .own = true };
static const trainer nanogpt = { .names = nobody,
                                 .title = "a program of somebody's own, taken for nanoGPT",
                                 .framework = "pytorch",
                                 .family = NANOGPT,
                                 .takes_words = true,
                                 .own = true,
                                 .fixed = true,
                                 .decides_checkpoints = true,
                                 .batch = 12 };

static const char *last_part(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool is_nanogpt(const trainer_words *w) {
    for (uint32_t i = 1; i < w->count; i++)
        if (text_begins_with(w->words[i], "--n_layer=") || text_begins_with(w->words[i], "--block_size=") ||
            (w->words[i][0] != '-' && text_ends_with(w->words[i], ".py")))
            return true;
    return false;
}

const trainer *trainer_find(const trainer_words *w, uint32_t *skip) {
    const char *name = w->count ? last_part(w->words[0]) : "";
    for (size_t i = 0; i < TRAINERS; i++)
        for (const char *const *n = trainers[i].names; *n; n++) {
            const char *first = trainers[i].first;
            if (strcmp(name, *n) != 0) continue;
            if (first && (w->count < 2 || strcmp(w->words[1], first) != 0)) continue;
            *skip = first ? 2 : 1;
            return &trainers[i];
        }
    *skip = 1;
    if (!text_ends_with(name, ".py")) return NULL;
    return is_nanogpt(w) ? &nanogpt : &own;
}
