

# ---- yours: a loop with accelerate ----

from accelerate import Accelerator  # noqa: E402
from transformers import AutoConfig, AutoModelForCausalLM  # noqa: E402

config = AutoConfig.from_pretrained(sys.argv[1] if len(sys.argv) > 1 else "config.json")
config.use_cache = False
accelerator = Accelerator(mixed_precision="bf16", cpu=True)
wrapped = optimizer = None


def make_model():
    global wrapped, optimizer
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    wrapped, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), fused=True))
    return accelerator.unwrap_model(wrapped)


def make_batch(size, length):
    ids = torch.zeros(size, length, dtype=torch.long)
    return {"input_ids": ids, "labels": torch.zeros_like(ids)}


def loss_of(model, batch):  # forward and backward
    accelerator.backward(wrapped(**batch).loss)
    accelerator.clip_grad_norm_(model.parameters(), 1.0)


def make_optimizer(model):
    return optimizer


if __name__ == "__main__":
    record(make_model, make_batch, loss_of, make_optimizer, lengths=(1024, 512))
