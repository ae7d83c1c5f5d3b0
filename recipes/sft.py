

# ---- yours: what TRL's SFTTrainer is given. Its own training_step is recorded, with clipping ----

from datasets import Dataset  # noqa: E402
from tokenizers import Tokenizer, models  # noqa: E402
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast  # noqa: E402
from trl import SFTConfig, SFTTrainer  # noqa: E402

config = AutoConfig.from_pretrained(sys.argv[1] if len(sys.argv) > 1 else "config.json")
config.use_cache = False
args = SFTConfig(output_dir="step-sft", bf16=True, gradient_checkpointing=False, use_cpu=True, report_to=[],
                 dataset_kwargs={"skip_prepare_dataset": True})
trainer = None
words = Tokenizer(models.WordLevel({"</s>": 0}, "</s>"))  # stands for the model's own: tokens are made beforehand


def make_model():
    global trainer
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    trainer = SFTTrainer(model, args, train_dataset=Dataset.from_dict({"input_ids": [[0, 0]]}),
                         processing_class=PreTrainedTokenizerFast(tokenizer_object=words, eos_token="</s>",
                                                                  pad_token="</s>"),
                         data_collator=lambda rows: rows)
    trainer.current_gradient_accumulation_steps = args.gradient_accumulation_steps
    trainer.create_optimizer()
    trainer.model_wrapped, trainer.optimizer = trainer.accelerator.prepare(trainer.model, trainer.optimizer)
    return trainer.model


def make_batch(size, length):
    ids = torch.zeros(size, length, dtype=torch.long)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": torch.zeros_like(ids)}


def loss_of(model, batch):  # forward and backward
    trainer.training_step(trainer.model_wrapped, dict(batch))
    trainer.accelerator.clip_grad_norm_(model.parameters(), args.max_grad_norm)


def make_optimizer(model):
    return trainer.optimizer


if __name__ == "__main__":
    record(make_model, make_batch, loss_of, make_optimizer, lengths=(1024, 512), number=1.0)
