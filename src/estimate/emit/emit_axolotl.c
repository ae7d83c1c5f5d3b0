/* axolotl's configuration, less the data set and the learning rate, which are not for an estimate to say. */
#include "estimate/emit/emit.h"
#include "io/json.h"

static void add_adapter(const torch_settings *s, text *out) {
    bool coded = s->base_bits == 4;
    text_add(out,
             "adapter: %s\n"
             "%s"
             "lora_r: %lld\n"
             "lora_alpha: %lld\n"
             "lora_dropout: %g\n",
             coded ? "qlora" : "lora", coded ? "load_in_4bit: true\n" : "", (long long)s->adapter_rank,
             2 * (long long)s->adapter_rank, s->adapter_dropout);
    if (s->magnitudes) text_add(out, "peft_use_dora: true\n");
    if (coded && s->plain_scales) text_add(out, "bnb_config_kwargs:\n  bnb_4bit_use_double_quant: false\n");
    text_add(out, s->adapter_targets ? "lora_target_modules: " : "lora_target_linear: true");
    if (s->adapter_targets) emit_words(out, s->adapter_targets);
    text_add(out, "\n");
}

/* FSDP has a way of its own to compute blocks again, which is not reentrant. */
static void add_fsdp(const torch_settings *s, text *out) {
    text_add(out,
             "fsdp_version: 2\n"
             "fsdp_config:\n"
             "  auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"
             "  reshard_after_forward: true\n"
             "  activation_checkpointing: %s\n"
             "  cpu_ram_efficient_loading: true\n"
             "  offload_params: false\n"
             "  state_dict_type: SHARDED_STATE_DICT\n",
             s->checkpointing && !s->reentrant ? "true" : "false");
}

static void add_types(const emit_request *q, text *out) {
    bool half = q->settings->torch.types != TORCH_F32, bf16 = !q->subject->hardware->no_bf16;
    text_add(out, "bf16: %s\nfp16: %s\n", half && bf16 ? "true" : "false", half && !bf16 ? "true" : "false");
}

static status write(const emit_request *q, text *out) {
    const torch_settings *s = &q->settings->torch;
    const char *optimizer;
    int stage = emit_zero_stage(s->shard);
    if (q->subject->config->family != FAMILY_DECODER && q->subject->config->family != FAMILY_GPT2)
        return status_set(STATUS_INVALID, "--emit axolotl is for decoders, and %s is %s; take --emit hf",
                          q->subject->model->name, q->subject->model->family);
    TRY(emit_optimizer(q, &optimizer));
    emit_comment(out, q);
    text_add(out, "# datasets and learning_rate are yours to add\nbase_model: ");
    json_add_quoted(out, q->named);
    text_add(out,
             "\nsequence_len: %lld\n"
             "micro_batch_size: %lld\n"
             "gradient_accumulation_steps: %lld\n"
             "optimizer: %s\n"
             "attn_implementation: %s\n",
             (long long)s->context, (long long)s->batch, (long long)torch_accumulation(&q->settings->torch),
             optimizer, torch_attention_word(s->attention));
    add_types(q, out);
    if (s->checkpointing && (s->shard != TORCH_FSDP || s->reentrant))
        text_add(out,
                 "gradient_checkpointing: true\n"
                 "gradient_checkpointing_kwargs:\n"
                 "  use_reentrant: %s\n",
                 s->reentrant ? "true" : "false");
    if (s->fused_loss)
        text_add(out, "plugins:\n"
                      "  - axolotl.integrations.liger.LigerPlugin\n"
                      "liger_fused_linear_cross_entropy: true\n");
    if (s->adapter_rank) add_adapter(s, out);
    if (s->shard == TORCH_FSDP) add_fsdp(s, out);
    if (stage) text_add(out, "deepspeed: deepspeed.json # snug estimate ... --emit deepspeed\n");
    text_add(out, "output_dir: out\n");
    return STATUS_OK;
}

const emitter emit_axolotl = { "axolotl", "hf", write };
