

# ---- yours: what the Trainer is given. Only the configuration is read, never the weights ----

from transformers import AutoConfig, AutoModelForCausalLM  # noqa: E402

config = AutoConfig.from_pretrained(sys.argv[1] if len(sys.argv) > 1 else "config.json")
config.use_cache = False


def make_model():  # dtype=torch.bfloat16: weights of 16 bits, without autocast
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    # model.gradient_checkpointing_enable()
    return model


def make_batch(size, length):
    ids = torch.zeros(size, length, dtype=torch.long)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": torch.zeros_like(ids)}


def loss_of(model, batch):
    return model(**batch).loss


def make_optimizer(model):
    return torch.optim.AdamW(model.parameters(), fused=True)  # optim="adamw_torch_fused"


if __name__ == "__main__":
    record(make_model, make_batch, loss_of, make_optimizer, lengths=(1024, 512), autocast=torch.bfloat16)  # bf16=True
