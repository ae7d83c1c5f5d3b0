/* A script for TRL's GRPOTrainer, less the prompts and the reward, which are not for an estimate to say. */
#include "estimate/emit/emit.h"
#include "estimate/torch/torch_grpo.h"
#include "io/json.h"

static void add_head(const emit_request *q, text *out) {
    const torch_settings *s = &q->settings->torch;
    bool coded = s->adapter_rank && s->base_bits == 4;
    emit_comment(out, q);
    if (s->gpus > 1)
        text_add(out, "# accelerate launch --num_processes %lld THIS_FILE\n", (long long)s->gpus);
    text_add(out, "import torch\nfrom datasets import load_dataset\n");
    if (s->adapter_rank) text_add(out, "from peft import LoraConfig\n");
    if (coded) text_add(out, "from transformers import BitsAndBytesConfig\n");
    text_add(out, "from trl import GRPOConfig, GRPOTrainer\n\nMODEL = ");
    json_add_quoted(out, q->named);
    text_add(out,
             "  # a path, or a name on the hub\n"
             "PROMPT = %lld  # tokens of a prompt, at most: longer ones are yours to leave out\n\n",
             (long long)(s->context - s->grpo.completion));
    if (coded) emit_quantization(q, out);
    if (s->adapter_rank) emit_adapter(q, "CAUSAL_LM", out);
}

static void add_model(const emit_request *q, text *out) {
    const torch_settings *s = &q->settings->torch;
    text_add(out,
             "    model_init_kwargs={\n"
             "        \"dtype\": %s,\n"
             "        \"attn_implementation\": \"%s\",\n",
             emit_weights_type(q), torch_attention_word(s->attention));
    if (s->adapter_rank && s->base_bits == 4)
        text_add(out, "        \"quantization_config\": quantization,\n");
    text_add(out, "    },\n");
}

static void add_rollouts(const emit_request *q, text *out) {
    const torch_grpo *g = &q->settings->torch.grpo;
    text_add(out,
             "    max_completion_length=%lld,\n"
             "    num_generations=%lld,\n"
             "    num_iterations=%lld,\n"
             "    steps_per_generation=%lld,\n"
             "    beta=%g,\n",
             (long long)g->completion, (long long)g->generations, (long long)g->iterations,
             (long long)torch_grpo_passes(&q->settings->torch), g->beta);
    if (g->rollouts == TORCH_GENERATES) return;
    text_add(out, "    use_vllm=True,\n    vllm_mode=\"%s\",\n",
             g->rollouts == TORCH_ELSEWHERE ? "server" : "colocate");
    if (g->rollouts == TORCH_ELSEWHERE) return;
    text_add(out,
             "    vllm_gpu_memory_utilization=%g,\n"
             "    vllm_enable_sleep_mode=%s,\n"
             "    vllm_max_model_length=%lld,\n",
             g->share, g->rollouts == TORCH_SLEEPS ? "True" : "False", (long long)q->settings->torch.context);
}

/* GRPOConfig turns bf16 and checkpointing on by itself, so both are always said. */
static void add_arguments(const emit_request *q, const char *optimizer, text *out) {
    const torch_settings *s = &q->settings->torch;
    bool bf16 = !q->subject->hardware->no_bf16, casts = s->types == TORCH_AUTOCAST;
    bool checkpointing = s->checkpointing && (s->shard != TORCH_FSDP || s->reentrant);
    text_add(out,
             "arguments = GRPOConfig(\n"
             "    output_dir=\"out\",\n"
             "    per_device_train_batch_size=%lld,\n"
             "    gradient_accumulation_steps=%lld,\n"
             "    optim=\"%s\",\n",
             (long long)s->batch, (long long)torch_accumulation(s), optimizer);
    if (s->optimizer == OPTIMIZER_SGD && s->momentum > 0)
        text_add(out, "    optim_args=\"momentum=%g\",\n", s->momentum);
    text_add(out, "    bf16=%s,\n    fp16=%s,\n    gradient_checkpointing=%s,\n",
             casts && bf16 ? "True" : "False", casts && !bf16 ? "True" : "False",
             checkpointing ? "True" : "False");
    if (checkpointing)
        text_add(out, "    gradient_checkpointing_kwargs={\"use_reentrant\": %s},\n",
                 s->reentrant ? "True" : "False");
    add_rollouts(q, out);
    add_model(q, out);
    emit_sharding(s, out);
    text_add(out, ")\n");
}

static void add_trainer(const emit_request *q, text *out) {
    text_add(out,
             "\n\n"
             "def reward(completions, **kwargs):  # yours: a number for each\n"
             "    return [0.0 for _ in completions]\n"
             "\n\n"
             "if __name__ == \"__main__\":\n"
             "    trainer = GRPOTrainer(\n"
             "        model=MODEL,\n"
             "        reward_funcs=reward,\n"
             "        args=arguments,\n"
             "        train_dataset=load_dataset(\"json\", data_files=\"prompts.jsonl\", split=\"train\"),\n"
             "%s"
             "    )\n"
             "    trainer.train()\n",
             q->settings->torch.adapter_rank ? "        peft_config=adapter,\n" : "");
}

static status write(const emit_request *q, text *out) {
    const char *optimizer;
    if (!q->settings->torch.grpo.asked)
        return status_set(STATUS_INVALID,
                          "--emit trl writes a script for --trainer grpo; say that as well, or "
                          "take --emit hf");
    TRY(emit_optimizer(q, &optimizer));
    add_head(q, out);
    add_arguments(q, optimizer, out);
    add_trainer(q, out);
    return STATUS_OK;
}

const emitter emit_trl = { "trl", "hf", write };
