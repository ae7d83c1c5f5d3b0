

# ---- yours: a model with PEFT's adapters. Only the configuration is read, never the weights ----

import peft  # noqa: E402
from transformers import AutoConfig, AutoModelForCausalLM  # noqa: E402

config = AutoConfig.from_pretrained(sys.argv[1] if len(sys.argv) > 1 else "config.json")
config.use_cache = False
adapters = peft.LoraConfig(r=16, lora_alpha=32, lora_dropout=0.05, target_modules="all-linear", task_type="CAUSAL_LM")


def make_model():
    return peft.get_peft_model(AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16), adapters)


def make_batch(size, length):
    ids = torch.zeros(size, length, dtype=torch.long)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": torch.zeros_like(ids)}


def loss_of(model, batch):
    return model(**batch).loss


def make_optimizer(model):
    return torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], foreach=True)


if __name__ == "__main__":
    record(make_model, make_batch, loss_of, make_optimizer, lengths=(1024, 512), autocast=None)
