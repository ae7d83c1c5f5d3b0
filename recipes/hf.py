

# ---- yours: what the Trainer is given. Only the configuration is read, never the weights ----

import transformers  # noqa: E402

config = transformers.AutoConfig.from_pretrained(sys.argv[1] if len(sys.argv) > 1 else "config.json")
config.use_cache = False
# The class that the configuration names, as "LlamaForCausalLM". For another task put that task's class here.
Model = getattr(transformers, (config.architectures or [""])[0], None)
reads = getattr(Model, "main_input_name", "input_ids")


def make_model():  # .to(torch.bfloat16): weights of 16 bits, without autocast
    model = Model(config) if Model else transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    # model.gradient_checkpointing_enable()
    return model


def make_batch(size, length):
    ids = torch.zeros(size, length, dtype=torch.long)
    if reads == "pixel_values":
        side, channels = getattr(config, "image_size", 224), getattr(config, "num_channels", 3)
        return {reads: torch.zeros(size, channels, side, side), "labels": ids[:, 0]}
    if reads == "input_features":  # of sound, as Whisper has them
        seen = torch.zeros(size, config.num_mel_bins, 2 * config.max_source_positions)
        return {reads: seen, "labels": ids[:, :config.max_target_positions]}
    labels = ids[:, 0] if "SequenceClassification" in getattr(Model, "__name__", "") else torch.zeros_like(ids)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": labels}


def loss_of(model, batch):
    return model(**batch).loss


def make_optimizer(model):
    return torch.optim.AdamW(model.parameters(), fused=True)  # optim="adamw_torch_fused"


if __name__ == "__main__":
    record(make_model, make_batch, loss_of, make_optimizer, lengths=(1024, 512), autocast=torch.bfloat16)  # bf16=True
