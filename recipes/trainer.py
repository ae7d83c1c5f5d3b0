

# ---- yours: what transformers' Trainer is given. Its own training_step is recorded, with clipping ----

from transformers import AutoConfig, AutoModelForCausalLM, Trainer, TrainingArguments  # noqa: E402

config = AutoConfig.from_pretrained(sys.argv[1] if len(sys.argv) > 1 else "config.json")
config.use_cache = False
args = TrainingArguments(output_dir="step-trainer", bf16=True, optim="adamw_torch_fused", use_cpu=True, report_to=[])
trainer = None


def make_model():
    global trainer
    trainer = Trainer(model=AutoModelForCausalLM.from_config(config, dtype=torch.float32), args=args)
    trainer.current_gradient_accumulation_steps = args.gradient_accumulation_steps
    trainer.create_optimizer()
    trainer.model_wrapped, trainer.optimizer = trainer.accelerator.prepare(trainer.model, trainer.optimizer)
    return trainer.model


def make_batch(size, length):
    ids = torch.zeros(size, length, dtype=torch.long)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": torch.zeros_like(ids)}


def loss_of(model, batch):  # forward and backward, as the Trainer has them
    trainer.training_step(trainer.model_wrapped, dict(batch))
    trainer.accelerator.clip_grad_norm_(model.parameters(), args.max_grad_norm)


def make_optimizer(model):
    return trainer.optimizer


if __name__ == "__main__":
    record(make_model, make_batch, loss_of, make_optimizer, lengths=(1024, 512), number=1.0)
