

# ---- yours: a network of timm that tells classes of pictures. Only its configuration is read, never the weights ----

import timm  # noqa: E402

with open(sys.argv[1] if len(sys.argv) > 1 else "config.json", encoding="utf-8") as file:
    said = json.load(file)
channels, *sides = said.get("pretrained_cfg", {}).get("input_size", (3, 224, 224))


def make_model():
    model = timm.create_model(said["architecture"], num_classes=said.get("num_classes", 1000),
                              **said.get("model_args", {}))
    # model.set_grad_checkpointing()
    return model


def make_batch(size, length):
    return {"pictures": torch.zeros(size, channels, *sides), "labels": torch.zeros(size, dtype=torch.long)}


def loss_of(model, batch):
    return torch.nn.functional.cross_entropy(model(batch["pictures"]), batch["labels"])


def make_optimizer(model):
    return torch.optim.AdamW(model.parameters(), foreach=True)


if __name__ == "__main__":
    record(make_model, make_batch, loss_of, make_optimizer, lengths=(1,), autocast=torch.bfloat16)
