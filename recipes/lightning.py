

# ---- yours: the LightningModule and a batch as its loader makes it ----

from mine import Module  # noqa: E402


def make_model():
    return Module()


def make_batch(size, length):
    return torch.zeros(size, length, dtype=torch.long), torch.zeros(size, length, dtype=torch.long)


def loss_of(model, batch):
    out = model.training_step(batch, 0)
    return out["loss"] if isinstance(out, dict) else out


def make_optimizer(model):
    made = model.configure_optimizers()
    made = made["optimizer"] if isinstance(made, dict) else made
    return (made[0] if isinstance(made[0], torch.optim.Optimizer) else made[0][0]) if isinstance(made, (list, tuple)) \
        else made


if __name__ == "__main__":  # precision="bf16-mixed" is autocast=torch.bfloat16
    record(make_model, make_batch, loss_of, make_optimizer, lengths=(1024, 512), autocast=torch.bfloat16)
