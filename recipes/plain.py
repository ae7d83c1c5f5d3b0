

# ---- yours: the model, a batch, the loss and the optimizer ----

def make_model():
    return torch.nn.Sequential(torch.nn.Embedding(1000, 64), torch.nn.Linear(64, 64), torch.nn.Linear(64, 1000))


def make_batch(size, length):
    return {"ids": torch.zeros(size, length, dtype=torch.long), "labels": torch.zeros(size, length, dtype=torch.long)}


def loss_of(model, batch):
    return torch.nn.functional.cross_entropy(model(batch["ids"]).transpose(1, 2), batch["labels"])


def make_optimizer(model):
    return torch.optim.AdamW(model.parameters(), foreach=True)


if __name__ == "__main__":
    record(make_model, make_batch, loss_of, make_optimizer, lengths=(1024, 512), autocast=None)
