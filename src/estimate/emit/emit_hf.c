/* transformers' TrainingArguments and how the model is loaded for them, in Python. */
#include "estimate/emit/emit.h"
#include "io/json.h"

const char *emit_torch_half(const emit_request *q) {
    return q->subject->hardware->no_bf16 ? "torch.float16" : "torch.bfloat16";
}

/* The class that loads it with its head, and what PEFT calls such a task. */
static const struct {
    const char *class, *task;
    bool attends;
} loaders[] = {
    [FAMILY_GPT2] = { "AutoModelForCausalLM", "CAUSAL_LM", true },
    [FAMILY_DECODER] = { "AutoModelForCausalLM", "CAUSAL_LM", true },
    [FAMILY_ENCODER] = { "AutoModelForMaskedLM", NULL, true },
    [FAMILY_MODERNBERT] = { "AutoModelForMaskedLM", NULL, true },
    [FAMILY_T5] = { "AutoModelForSeq2SeqLM", "SEQ_2_SEQ_LM", true },
    [FAMILY_VIT] = { "AutoModelForImageClassification", NULL, true },
    [FAMILY_RESNET] = { "AutoModelForImageClassification", NULL, false },
    [FAMILY_CONVNEXT] = { "AutoModelForImageClassification", NULL, false },
};

void emit_quantization(const emit_request *q, text *out) {
    text_add(out,
             "quantization = BitsAndBytesConfig(\n"
             "    load_in_4bit=True,\n"
             "    bnb_4bit_quant_type=\"nf4\",\n"
             "    bnb_4bit_use_double_quant=%s,\n"
             "    bnb_4bit_compute_dtype=%s,\n"
             ")\n\n",
             q->settings->torch.plain_scales ? "False" : "True", emit_torch_half(q));
}

void emit_adapter(const emit_request *q, const char *task, text *out) {
    const torch_settings *s = &q->settings->torch;
    text_add(out, "adapter = LoraConfig(\n%s", s->magnitudes ? "    use_dora=True,\n" : "");
    text_add(out,
             "    r=%lld,\n"
             "    lora_alpha=%lld,\n"
             "    lora_dropout=%g,\n"
             "    target_modules=",
             (long long)s->adapter_rank, 2 * (long long)s->adapter_rank, s->adapter_dropout);
    if (s->adapter_targets)
        emit_words(out, s->adapter_targets);
    else
        text_add(out, "\"all-linear\"");
    if (task) text_add(out, ",\n    task_type=\"%s\"", task);
    text_add(out, ",\n)\n\n");
}

const char *emit_weights_type(const emit_request *q) {
    const torch_settings *s = &q->settings->torch;
    bool narrow = s->adapter_rank ? s->base_bits != 32 : s->types == TORCH_HALF;
    return narrow ? emit_torch_half(q) : "torch.float32";
}

static void add_model(const emit_request *q, text *out) {
    const torch_settings *s = &q->settings->torch;
    bool coded = s->adapter_rank && s->base_bits == 4;
    int64_t labels = families_token_labels(q->subject->config);
    if (coded) emit_quantization(q, out);
    if (s->adapter_rank) emit_adapter(q, loaders[q->subject->config->family].task, out);
    text_add(out,
             "\ndef load_model():\n"
             "    model = %s.from_pretrained(\n"
             "        MODEL,\n"
             "        dtype=%s,\n",
             labels ? "AutoModelForTokenClassification" : loaders[q->subject->config->family].class,
             emit_weights_type(q));
    if (labels) text_add(out, "        num_labels=%lld,\n", (long long)labels);
    if (loaders[q->subject->config->family].attends)
        text_add(out, "        attn_implementation=\"%s\",\n", torch_attention_word(s->attention));
    text_add(out, "%s    )\n", coded ? "        quantization_config=quantization,\n" : "");
    if (coded) text_add(out, "    model = prepare_model_for_kbit_training(model)\n");
    text_add(out, "    return %s\n\n\n", s->adapter_rank ? "get_peft_model(model, adapter)" : "model");
}

/* FSDP has a way of its own, which is not reentrant. */
void emit_sharding(const torch_settings *s, text *out) {
    if (s->shard == TORCH_FSDP)
        text_add(out,
                 "    fsdp=True,\n"
                 "    fsdp_config={\n"
                 "        \"version\": 2,\n"
                 "        \"reshard_after_forward\": True,\n"
                 "        \"activation_checkpointing\": %s,\n"
                 "        \"cpu_ram_efficient_loading\": True,\n"
                 "        \"state_dict_type\": \"SHARDED_STATE_DICT\",\n"
                 "    },\n",
                 s->checkpointing && !s->reentrant ? "True" : "False");
    if (emit_zero_stage(s->shard))
        text_add(out, "    deepspeed=\"deepspeed.json\",  # snug estimate ... --emit deepspeed\n");
}

static void add_arguments(const emit_request *q, const char *optimizer, text *out) {
    const torch_settings *s = &q->settings->torch;
    bool checkpointing = s->checkpointing && (s->shard != TORCH_FSDP || s->reentrant);
    text_add(out,
             "arguments = TrainingArguments(\n"
             "    output_dir=\"out\",\n"
             "    per_device_train_batch_size=%lld,\n"
             "    gradient_accumulation_steps=%lld,\n"
             "    optim=\"%s\",\n",
             (long long)s->batch, (long long)torch_accumulation(&q->settings->torch), optimizer);
    if (s->optimizer == OPTIMIZER_SGD && s->momentum > 0)
        text_add(out, "    optim_args=\"momentum=%g\",\n", s->momentum);
    if (s->types == TORCH_AUTOCAST) text_add(out, "    %s=True,\n", emit_half(q));
    if (checkpointing)
        text_add(out,
                 "    gradient_checkpointing=True,\n"
                 "    gradient_checkpointing_kwargs={\"use_reentrant\": %s},\n",
                 s->reentrant ? "True" : "False");
    if (s->fused_loss) text_add(out, "    use_liger_kernel=True,\n");
    emit_sharding(s, out);
    text_add(out, ")\n");
}

static status write(const emit_request *q, text *out) {
    const torch_settings *s = &q->settings->torch;
    const char *optimizer;
    TRY(emit_optimizer(q, &optimizer));
    emit_comment(out, q);
    if (s->gpus > 1) text_add(out, "# torchrun --nproc_per_node %lld THIS_FILE\n", (long long)s->gpus);
    text_add(out, "import torch\n");
    if (s->adapter_rank)
        text_add(out, "from peft import LoraConfig, get_peft_model%s\n",
                 s->base_bits == 4 ? ", prepare_model_for_kbit_training" : "");
    text_add(out, "from transformers import %s, %sTrainingArguments\n\nMODEL = ",
             loaders[q->subject->config->family].class,
             s->adapter_rank && s->base_bits == 4 ? "BitsAndBytesConfig, " : "");
    json_add_quoted(out, q->named);
    text_add(out, "  # a path, or a name on the hub\n");
    if (s->context) text_add(out, "CONTEXT = %lld  # tokens of a sample, at most\n", (long long)s->context);
    text_add(out, "\n");
    add_model(q, out);
    add_arguments(q, optimizer, out);
    return STATUS_OK;
}

const emitter emit_hf = { "hf", "hf", write };
