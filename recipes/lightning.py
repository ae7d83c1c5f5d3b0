

# ---- yours: the LightningModule and a batch as its loader makes it. Lightning's own loop is recorded ----

import lightning  # noqa: E402
from mine import Module  # noqa: E402

trainer = None


def make_model():  # Lightning sets all up as for fit, and then trains nothing
    global trainer
    module = Module()
    trainer = lightning.Trainer(accelerator="cpu", devices=1, precision="bf16-mixed", barebones=True, max_steps=1)
    trainer.fit_loop.run = trainer._teardown = lambda: None
    trainer.fit(module, [0])
    return module.train()


def make_batch(size, length):
    return torch.zeros(size, length, dtype=torch.long), torch.zeros(size, length, dtype=torch.long)


def loss_of(model, batch):  # a step as Lightning has it: gradients of the last one stay until forward is done
    trainer.fit_loop.epoch_loop.automatic_optimization.run(trainer.optimizers[0], 0, {"batch": batch, "batch_idx": 0})
    return False


def make_optimizer(model):
    return trainer.optimizers[0]


if __name__ == "__main__":
    record(make_model, make_batch, loss_of, make_optimizer, lengths=(1024, 512), number=1.0)
