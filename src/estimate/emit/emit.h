/* A configuration that an estimate has found to fit, in the words of the tool that is to run it: exact names
 * and values, and no settings that do not exist. One file for each tool; docs/emit.md says where its names
 * are from. */
#pragma once

#include "estimate/framework.h"

typedef struct {
    const framework_subject *subject;
    const framework *framework;
    const char *named;                  /* of the model: as the tool is to load it */
    const framework_settings *settings; /* that fit */
    const framework_result *result;
    const char *changed; /* options beyond what was asked; "": none */
    bool alters;         /* these make another training of it */
    const char *tight;   /* how little room there is, and what would leave some; "": there is enough */
} emit_request;

typedef struct {
    const char *name;
    const char *frameworks; /* whose settings it can say: "hf, pytorch" */
    /* STATUS_INVALID with a sentence: the tool has no such setting. */
    status (*write)(const emit_request *q, text *out);
} emitter;

/* In the order of EMIT_NAMES behind "none". */
typedef enum {
    EMIT_NONE,
    EMIT_HF,
    EMIT_TORCH,
    EMIT_DEEPSPEED,
    EMIT_ACCELERATE,
    EMIT_AXOLOTL,
    EMIT_VLLM,
    EMIT_LLAMA_CPP,
    EMIT_SGLANG,
    EMIT_TRTLLM,
    EMIT_TRL,
    EMIT_JSON,
    EMITS,
    EMIT_SLURM = EMITS /* no tool's configuration, but a script: cli/estimate/slurm.h */
} emit_name;
#define EMIT_NAMES                                                                                           \
    "none, hf, torch, deepspeed, accelerate, axolotl, vllm, llama.cpp, sglang, tensorrt-llm, trl, "          \
    "json"

extern const emitter emit_hf, emit_torch, emit_deepspeed, emit_accelerate, emit_axolotl, emit_vllm,
    emit_llama_cpp, emit_sglang, emit_trtllm, emit_trl, emit_json;

/* STATUS_INVALID where the tool does not go with the framework. */
status emit_check(emit_name n, const framework *f);
status emit_write(emit_name n, const emit_request *q, text *out);

/* The commands alone, for scripts that have a head of their own; `name`: of the model, or its path. */
void emit_vllm_command(const emit_request *q, const char *name, text *out);
void emit_sglang_command(const emit_request *q, const char *name, text *out);
void emit_trtllm_command(const emit_request *q, const char *name, text *out);
void emit_llama_cpp_command(const emit_request *q, text *out);

/* ---- what several tools share ---- */

/* What it is and what it takes, as lines of comment. */
void emit_comment(text *out, const emit_request *q);
/* "bf16" or "fp16": what 16 bits are on that device. */
const char *emit_half(const emit_request *q);
/* "torch.bfloat16" or "torch.float16", as Python has it; and the type that weights are loaded in. */
const char *emit_torch_half(const emit_request *q);
const char *emit_weights_type(const emit_request *q);
/* BitsAndBytesConfig of 4 bits, and PEFT's LoraConfig, as `quantization` and `adapter`. `task`: NULL: none.
 */
void emit_quantization(const emit_request *q, text *out);
void emit_adapter(const emit_request *q, const char *task, text *out);
/* Keywords of TrainingArguments: FSDP, or DeepSpeed's file. */
void emit_sharding(const torch_settings *s, text *out);
/* transformers' name of the optimizer. */
status emit_optimizer(const emit_request *q, const char **name);
/* ["a", "b"] of "a,b", which Python and YAML read alike. */
void emit_words(text *out, const char *list);
int emit_zero_stage(torch_shard s); /* 0: it is none of DeepSpeed's */
