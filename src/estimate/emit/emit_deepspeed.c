/* DeepSpeed's configuration: the file that --deepspeed names. */
#include "estimate/emit/emit.h"
#include "io/json.h"

static void put_enabled(json_writer *w, const char *key, bool value) {
    json_begin_object(w, key);
    json_put_bool(w, "enabled", value);
    json_end_object(w);
}

static void put_zero(json_writer *w, int stage) {
    json_begin_object(w, "zero_optimization");
    json_put_integer(w, "stage", stage);
    json_put_bool(w, "overlap_comm", true);
    json_put_bool(w, "contiguous_gradients", true);
    if (stage == 3) json_put_bool(w, "stage3_gather_16bit_weights_on_model_save", true);
    json_end_object(w);
}

static status write(const emit_request *q, text *out) {
    const torch_settings *s = &q->settings->torch;
    int stage = emit_zero_stage(s->shard);
    json_writer w = { .out = out, .lines = true };
    int64_t accumulation = torch_accumulation(&q->settings->torch);
    bool half = s->types != TORCH_F32, bf16 = !q->subject->hardware->no_bf16;
    if (!stage)
        return status_set(STATUS_INVALID,
                          "--emit deepspeed is for --shard zero1, zero2 or zero3 over --gpus N");
    json_begin_object(&w, NULL);
    json_put_integer(&w, "train_batch_size", s->batch * accumulation * s->gpus);
    json_put_integer(&w, "train_micro_batch_size_per_gpu", s->batch);
    json_put_integer(&w, "gradient_accumulation_steps", accumulation);
    json_put_number(&w, "gradient_clipping", 1);
    put_enabled(&w, "bf16", half && bf16);
    put_enabled(&w, "fp16", half && !bf16);
    put_zero(&w, stage);
    if (s->state_bits == 8 || s->optimizer == OPTIMIZER_LION)
        json_put_bool(&w, "zero_allow_untested_optimizer", true);
    json_end_object(&w);
    text_add(out, "\n");
    return STATUS_OK;
}

const emitter emit_deepspeed = { "deepspeed", "hf, pytorch", write };
