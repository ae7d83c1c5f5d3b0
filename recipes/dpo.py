

# ---- yours: what TRL's DPOTrainer is given. Its training_step is recorded, with clipping; a batch counts pairs ----

import trl.trainer.dpo_trainer  # noqa: E402
from datasets import Dataset  # noqa: E402
from tokenizers import Tokenizer, models  # noqa: E402
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast  # noqa: E402

config = AutoConfig.from_pretrained(sys.argv[1] if len(sys.argv) > 1 else "config.json")
config.use_cache = False
args = trl.DPOConfig(output_dir="step-dpo", bf16=True, gradient_checkpointing=False, use_cpu=True, report_to=[],
                     precompute_ref_log_probs=False)
adapters = None  # peft.LoraConfig(r=16, task_type="CAUSAL_LM"): then the reference is the model without them
trainer = None
words = Tokenizer(models.WordLevel({"</s>": 0}, "</s>"))  # stands for the model's own: tokens are made beforehand
trl.trainer.dpo_trainer.hash_module = lambda m: ""  # of weights, which are not there


class Trainer(trl.DPOTrainer):  # nothing is made beforehand of texts
    def _prepare_dataset(self, dataset, *_):
        return dataset

    def _precompute_ref_logps(self, dataset, *_):
        return dataset


def make_network():
    return AutoModelForCausalLM.from_config(config, dtype=torch.float32)


def make_model():
    global trainer
    beside = None if adapters or args.precompute_ref_log_probs else make_network()
    trainer = Trainer(make_network(), beside, args, train_dataset=Dataset.from_dict({"prompt_ids": [[0]]}),
                      processing_class=PreTrainedTokenizerFast(tokenizer_object=words, eos_token="</s>",
                                                               pad_token="</s>"),
                      data_collator=lambda rows: rows, peft_config=adapters)
    trainer.current_gradient_accumulation_steps = args.gradient_accumulation_steps
    trainer.create_optimizer()
    trainer.model_wrapped, trainer.optimizer = trainer.accelerator.prepare(trainer.model, trainer.optimizer)
    return trainer.model


def held(model):  # weights that are there and not trained
    return trainer.ref_model


def make_batch(size, length):  # rows that were chosen, then those that were rejected; prompts are a quarter of them
    ids = torch.zeros(2 * size, length, dtype=torch.long)
    answers = torch.ones_like(ids)
    answers[:, :length // 4] = 0
    batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "completion_mask": answers}
    if args.precompute_ref_log_probs:
        batch |= {"ref_chosen_logps": torch.zeros(size), "ref_rejected_logps": torch.zeros(size)}
    return batch


def loss_of(model, batch):  # forward, the reference's too, and backward
    trainer.training_step(trainer.model_wrapped, dict(batch))
    trainer.accelerator.clip_grad_norm_(model.parameters(), args.max_grad_norm)


def make_optimizer(model):
    return trainer.optimizer


if __name__ == "__main__":
    record(make_model, make_batch, loss_of, make_optimizer, lengths=(1024, 512), number=1.0, held=held)
