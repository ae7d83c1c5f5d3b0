/* accelerate's configuration: the file that accelerate launch --config_file names. */
#include "estimate/emit/emit.h"

static void add_fsdp(const torch_settings *s, text *out) {
    text_add(out,
             "fsdp_config:\n"
             "  fsdp_version: 2\n"
             "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"
             "  fsdp_reshard_after_forward: true\n"
             "  fsdp_activation_checkpointing: %s\n"
             "  fsdp_cpu_ram_efficient_loading: true\n"
             "  fsdp_offload_params: false\n"
             "  fsdp_state_dict_type: SHARDED_STATE_DICT\n",
             s->checkpointing ? "true" : "false");
}

static void add_deepspeed(const emit_request *q, text *out) {
    const torch_settings *s = &q->settings->torch;
    int stage = emit_zero_stage(s->shard);
    text_add(out,
             "deepspeed_config:\n"
             "  zero_stage: %d\n"
             "  gradient_accumulation_steps: %lld\n"
             "  gradient_clipping: 1.0\n"
             "  offload_optimizer_device: none\n"
             "  offload_param_device: none\n"
             "  zero3_init_flag: %s\n",
             stage, (long long)torch_accumulation(&q->settings->torch), stage == 3 ? "true" : "false");
}

static const char *distributed(const torch_settings *s) {
    if (s->shard == TORCH_FSDP) return "FSDP";
    if (emit_zero_stage(s->shard)) return "DEEPSPEED";
    return s->shard == TORCH_DDP ? "MULTI_GPU" : "'NO'";
}

static status write(const emit_request *q, text *out) {
    const torch_settings *s = &q->settings->torch;
    emit_comment(out, q);
    text_add(out, "# per device %lld samples at once, %lld times before each step\n", (long long)s->batch,
             (long long)torch_accumulation(&q->settings->torch));
    if (s->gpus > 8) text_add(out, "# over several machines: num_machines, and on each its machine_rank\n");
    text_add(out,
             "compute_environment: LOCAL_MACHINE\n"
             "distributed_type: %s\n",
             distributed(s));
    if (s->shard == TORCH_FSDP) add_fsdp(s, out);
    if (emit_zero_stage(s->shard)) add_deepspeed(q, out);
    text_add(out,
             "mixed_precision: %s\n"
             "num_machines: 1\n"
             "num_processes: %lld\n"
             "machine_rank: 0\n"
             "main_training_function: main\n"
             "rdzv_backend: static\n"
             "same_network: true\n"
             "use_cpu: %s\n"
             "debug: false\n",
             s->types == TORCH_AUTOCAST ? emit_half(q) : "'no'", (long long)s->gpus,
             s->cuda ? "false" : "true");
    return STATUS_OK;
}

const emitter emit_accelerate = { "accelerate", "hf, pytorch", write };
