#!/usr/bin/env python3
"""Writes step_blocks.json, step_autocast.json, step_nested.json, step_switched.json, step_words.json, step_tied.json,
step_attends.json, step_sees.json, step_masked.json and the latter three under autocast, step_placed.json and
step_normed.json to tests/estimate/recorded/, recorded steps of small models, and prints the peaks of live bytes that
PyTorch's profiler counts of the steps themselves on the CPU, which tests/estimate/test_recorded*.c have. Needs torch
and peft."""

import itertools
import pathlib
import sys

import torch
import torch.utils.checkpoint as checkpointing

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path += [str(ROOT / "bench" / "estimate"), str(ROOT / "recipes")]
import record as recipe  # noqa: E402
import recorded  # noqa: E402
import recorded_shards  # noqa: E402

WIDTH, WORDS, MANY = 32, 50, 3000
saves = []  # operations whose results stay where modules are computed again


def computed_again(module, *args):
    def policy(ctx, op, *args, **kwargs):
        stays = getattr(op, "overloadpacket", op).__name__ in saves
        return checkpointing.CheckpointPolicy.MUST_SAVE if stays else checkpointing.CheckpointPolicy.PREFER_RECOMPUTE
    more = {}
    if saves:
        more["context_fn"] = lambda: checkpointing.create_selective_checkpoint_contexts(policy)
    return checkpointing.checkpoint(module, *args, use_reentrant=False, **more)


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up = torch.nn.LayerNorm(WIDTH), torch.nn.Linear(WIDTH, 4 * WIDTH)
        self.down = torch.nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


class Model(torch.nn.Module):
    def __init__(self, again=False, words=WORDS):
        super().__init__()
        self.table, self.again = torch.nn.Embedding(words, WIDTH), again
        self.blocks = torch.nn.ModuleList(Block() for _ in range(3))
        self.head = torch.nn.Linear(WIDTH, words)

    def before_head(self, ids):
        x = self.table(ids)
        for block in self.blocks:
            x = computed_again(block, x) if self.again else block(x)
        return x

    def forward(self, ids):
        return self.head(self.before_head(ids))


class Words(Model):
    """So many words that logits are the most of a step."""

    def __init__(self, again=False):
        super().__init__(again, MANY)


class Placed(Model):
    """The gradient of its places is that of the blocks' input, where there is one sample."""

    def __init__(self, again=False):
        super().__init__(again)
        self.table.requires_grad_(False)
        self.places, self.norm = torch.nn.Parameter(torch.zeros(1, 64, WIDTH)), torch.nn.LayerNorm(WIDTH)

    def before_head(self, ids):
        x = self.table(ids) + self.places
        for block in self.blocks:
            x = block(x)
        return self.norm(x)


class Tied(Words):
    """With few tokens the two gradients of its one table of words, and their sum, are the most of a step."""

    def __init__(self, again=False):
        super().__init__(again)
        self.head.weight = self.table.weight


class Stage(torch.nn.Module):
    """Its blocks are computed again, and so is itself; the first of them twice, as where weights are shared. Has a
    switch as libraries have it."""

    def __init__(self):
        super().__init__()
        self.blocks, self.again = torch.nn.ModuleList(Block() for _ in range(2)), False

    def forward(self, x):
        for block in (self.blocks[0], self.blocks[1], self.blocks[0]):
            x = computed_again(block, x) if self.again else block(x)
        return torch.relu(x)


class Nested(torch.nn.Module):
    def __init__(self, again=False):
        super().__init__()
        self.table, self.again = torch.nn.Embedding(WORDS, WIDTH), False
        self.stages, self.head = torch.nn.ModuleList(Stage() for _ in range(3)), torch.nn.Linear(WIDTH, WORDS)
        if again:
            self.set_grad_checkpointing()

    def set_grad_checkpointing(self):
        for m in (self, *self.stages):
            m.again = True

    def forward(self, ids):
        x = self.table(ids)
        for stage in self.stages:
            x = computed_again(stage, x) if self.again else stage(x)
        return self.head(x)


class Biased(torch.nn.Module):
    """Its code does otherwise where blocks are computed again: a bias of zeros wants a gradient then, as T5's does."""

    def __init__(self, again=False):
        super().__init__()
        self.table, self.again = torch.nn.Embedding(WORDS, WIDTH), again
        self.blocks = torch.nn.ModuleList(BiasedBlock() for _ in range(3))
        self.head = torch.nn.Linear(WIDTH, WORDS)

    def set_grad_checkpointing(self):
        self.again = True

    def forward(self, ids):
        x = self.table(ids)
        bias = torch.zeros(x.shape)
        bias.requires_grad = self.again
        for block in self.blocks:
            x = computed_again(block, x, bias) if self.again else block(x, bias)
        return self.head(x)


class BiasedBlock(Block):
    def forward(self, x, bias):
        return super().forward(x + bias)


class AttendingBlock(torch.nn.Module):
    """With dropout a CPU's attention is several calls, which are in f32; and what the last layer reads is turned, so
    its bias is a call of its own."""

    def __init__(self):
        super().__init__()
        self.norm, self.given = torch.nn.LayerNorm(WIDTH), torch.nn.Linear(WIDTH, 3 * WIDTH)
        self.out, self.along = torch.nn.Linear(WIDTH, WIDTH), torch.nn.Linear(64, 64)

    def forward(self, x):
        parts = (y.unflatten(2, (4, -1)).transpose(1, 2) for y in self.given(self.norm(x)).split(WIDTH, dim=2))
        y = torch.nn.functional.scaled_dot_product_attention(*parts, is_causal=True, dropout_p=0.1)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x * torch.sigmoid(self.along(x.transpose(1, 2)).transpose(1, 2))


class Attending(Model):
    def __init__(self, again=False):
        super().__init__(again)
        self.blocks = torch.nn.ModuleList(AttendingBlock() for _ in range(2))


class MaskedBlock(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.given, self.out = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)

    def forward(self, x, mask):
        parts = (y.unflatten(2, (4, -1)).transpose(1, 2) for y in self.given(x).split(WIDTH, dim=2))
        y = torch.nn.functional.scaled_dot_product_attention(*parts, attn_mask=mask, dropout_p=0.1)
        return x + self.out(y.transpose(1, 2).flatten(2))


class Masked(Model):
    """Its attention adds what is trained to the scores, as T5's."""

    def __init__(self, again=False):
        super().__init__(again)
        self.blocks, self.mask = torch.nn.ModuleList(MaskedBlock() for _ in range(2)), torch.nn.Embedding(64, 256)

    def before_head(self, ids):
        x, mask = self.table(ids), self.mask(ids[0]).view(1, 4, 64, 64)
        for block in self.blocks:
            x = block(x, mask)
        return x


class Seeing(torch.nn.Module):
    """What a CPU's library has within its calls is much of a step: of convolutions, a norm of batches and attention,
    and of a sum of two types where the rest has 16 bits."""

    def __init__(self, again=False):
        super().__init__()
        self.first, self.second = torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.Conv2d(8, 8, 5, padding=2, groups=8)
        self.norm, self.place = torch.nn.BatchNorm2d(8), torch.nn.Parameter(torch.zeros(8, 16, 16))
        self.head = torch.nn.Linear(8, 10)

    def forward(self, x):
        x = self.norm(self.second(self.first(x) + self.place)).flatten(2).mT.unsqueeze(1).contiguous()
        x = torch.nn.functional.scaled_dot_product_attention(x, x, x).squeeze(1)
        return self.head(x).flatten(0, 1)


class Rms(torch.nn.Module):
    """A norm of several calls, in f32 whatever it is given: as Llama's, or as T5's, which reads in f32 once alone."""

    def __init__(self, once=False):
        super().__init__()
        self.weight, self.once = torch.nn.Parameter(torch.ones(WIDTH)), once

    def forward(self, x):
        if self.once:
            mean = x.to(torch.float32).pow(2).mean(-1, keepdim=True)
            return self.weight * (x * torch.rsqrt(mean + 1e-6)).to(x.dtype)
        wide = x.float()
        return self.weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


class NormedBlock(torch.nn.Module):
    def __init__(self, once):
        super().__init__()
        self.norm, self.inner = Rms(once), torch.nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x):
        return x + self.inner(self.norm(x))


class Normed(torch.nn.Module):
    """Norms' gradients are the most of a step; its loss is computed within it."""

    def __init__(self, dtype=torch.float32):
        super().__init__()
        self.table, self.head = torch.nn.Embedding(WORDS, WIDTH), torch.nn.Linear(WIDTH, 8, bias=False)
        self.blocks = torch.nn.ModuleList(NormedBlock(once) for once in (True, False))
        self.to(dtype)

    def forward(self, ids, labels):
        x = self.table(ids)
        for block in self.blocks:
            x = block(x)
        return torch.nn.functional.cross_entropy(self.head(x).flatten(0, 1).float(), labels.flatten())


class Pictures:
    lengths = (1,)

    def __init__(self, dtype=torch.float32):
        self.dtype, self.make_model = dtype, lambda: Seeing().to(dtype)

    def make_batch(self, size, length):
        x, labels = torch.zeros(size, 3, 16, 16, dtype=self.dtype), torch.zeros(256 * size, dtype=torch.long)
        return {"x": x, "labels": labels}

    def loss_of(self, model, batch):
        return torch.nn.functional.cross_entropy(model(batch["x"]), batch["labels"])


class Case:
    lengths = (64, 32)

    def __init__(self, again=False, length=64, model=Model):
        self.make_model, self.lengths = lambda: model(again), (length,)

    def make_batch(self, size, length):
        ids = torch.zeros(size, length, dtype=torch.long)
        return {"ids": ids, "labels": torch.zeros_like(ids)}

    def loss_of(self, model, batch):
        return torch.nn.functional.cross_entropy(model(batch["ids"]).flatten(0, 1), batch["labels"].flatten())


class Within(Case):
    """Where the model computes its loss."""

    def __init__(self, dtype=torch.float32):
        self.make_model = lambda: Normed(dtype)

    def loss_of(self, model, batch):
        return model(batch["ids"], batch["labels"])


class Pieces(Case):
    """Head and loss in pieces of rows, each computed again in backward."""

    def __init__(self, pieces, again=False, length=64, model=Words):
        super().__init__(again, length, model)
        self.pieces = pieces

    def loss_of(self, model, batch):
        def loss_of_piece(rows, labels):
            return torch.nn.functional.cross_entropy(model.head(rows), labels, reduction="sum")

        rows, labels = model.before_head(batch["ids"]).flatten(0, 1), batch["labels"].flatten()
        pieces = zip(rows.chunk(self.pieces), labels.chunk(self.pieces))
        total = sum(checkpointing.checkpoint(loss_of_piece, *piece, use_reentrant=False, preserve_rng_state=False)
                    for piece in pieces)
        return total / (labels != -100).sum()


def print_shards():
    """One of two devices."""
    for name, model in ("step_blocks.json", Model), ("step_words.json", Words), ("step_tied.json", Tied):
        for which, setting in recorded_shards.SETTINGS.items():
            if not setting.get("recorded") and not setting.get("again"):
                case = Case(length=8 if model is Tied else 64, model=model)
                print(name, which, recorded_shards.measure(case, setting))


def write_tied():
    case = Case(model=Tied)
    recipe.record(case.make_model, case.make_batch, case.loss_of,
                  lambda m: torch.optim.AdamW(m.parameters(), foreach=True), batches=(2, 3), lengths=(8, 6),
                  device="cpu", out=str(ROOT / "tests" / "estimate" / "recorded" / "step_tied.json"))
    for size, length, again in ((2, 8, False), (5, 8, False), (2, 6, False), (7, 4, False)):
        print("step_tied.json", size, length, again, recorded.measure(Case(again, length, Tied), size, None))


def write_attending():
    """In f32 and under autocast; without oneDNN, whose products of 16 bits copy what they read within themselves."""
    for name, autocast in ("step_attends.json", None), ("step_attends_autocast.json", torch.bfloat16):
        with torch.backends.mkldnn.flags(enabled=False):
            case = Case(model=Attending)
            recipe.record(case.make_model, case.make_batch, case.loss_of,
                          lambda m: torch.optim.AdamW(m.parameters(), foreach=True), batches=(2, 3), lengths=(64,),
                          autocast=autocast, device="cpu", out=str(ROOT / "tests" / "estimate" / "recorded" / name))
            for size, again in (2, False), (5, False), (2, True), (5, True):
                print(name, size, again, recorded.measure(Case(again, model=Attending), size, autocast))


def write_seeing():
    for name, dtype, autocast in (("step_sees.json", torch.float32, None),
                                  ("step_sees_autocast.json", torch.float32, torch.bfloat16),
                                  ("", torch.bfloat16, None)):
        case = Pictures(dtype)
        if name:
            recipe.record(case.make_model, case.make_batch, case.loss_of,
                          lambda m: torch.optim.AdamW(m.parameters(), foreach=True), batches=(2, 3), lengths=(1,),
                          autocast=autocast, device="cpu", out=str(ROOT / "tests" / "estimate" / "recorded" / name))
        for size in (2, 5):
            print(name or "step_sees.json of 16 bits", size, recorded.measure(case, size, autocast))


def write_masked():
    """With and without PEFT's adapters, in f32 and under autocast; as of write_attending, without oneDNN."""
    with torch.backends.mkldnn.flags(enabled=False):
        case = Case(model=Masked)
        for name, autocast in ("step_masked.json", None), ("step_masked_autocast.json", torch.bfloat16):
            recipe.record(case.make_model, case.make_batch, case.loss_of,
                          lambda m: torch.optim.AdamW(m.parameters(), foreach=True), batches=(2, 3), lengths=(64,),
                          autocast=autocast, device="cpu", out=str(ROOT / "tests" / "estimate" / "recorded" / name))
        for size, autocast in itertools.product((2, 5), (None, torch.bfloat16)):
            print("step_masked.json", size, autocast, recorded.measure(Case(model=Masked), size, autocast))
            adapted = Adapted(0.0, Masked, ["given", "out"])
            print("step_masked.json, adapters", size, autocast, recorded.measure(adapted, size, autocast))
            for dropout in 0.0, 0.1:
                print("step_blocks.json, adapters", dropout, size, autocast,
                      recorded.measure(Adapted(dropout), size, autocast))


def write_placed():
    """Recorded of one sample, for one sample."""
    case = Case(model=Placed)
    recipe.record(case.make_model, case.make_batch, case.loss_of,
                  lambda m: torch.optim.AdamW(m.parameters(), foreach=True), batches=(1,), lengths=(64,),
                  device="cpu", out=str(ROOT / "tests" / "estimate" / "recorded" / "step_placed.json"))
    print("step_placed.json", 1, recorded.measure(case, 1, None))
    print("step_placed.json, adapters", 1, recorded.measure(Adapted(0.0, Placed), 1, None))


def write_normed():
    case = Within()
    recipe.record(case.make_model, case.make_batch, case.loss_of,
                  lambda m: torch.optim.AdamW(m.parameters(), foreach=True), batches=(2, 3), lengths=(64,),
                  device="cpu", out=str(ROOT / "tests" / "estimate" / "recorded" / "step_normed.json"))
    with torch.backends.mkldnn.flags(enabled=False):
        for size in (2, 5):
            print("step_normed.json", size, recorded.measure(case, size, None))
            print("step_normed.json of 16 bits", size, recorded.measure(Within(torch.bfloat16), size, None))


class Adapted(Case):
    """PEFT's adapters of rank 4 in the blocks."""

    def __init__(self, dropout, model=Model, targets=("up", "down")):
        super().__init__()
        import peft
        config = peft.LoraConfig(r=4, target_modules=list(targets), lora_dropout=dropout)
        self.make_model = lambda: peft.get_peft_model(model(), config)


def write(model, name, autocast=None):
    case = Case(model=model)
    recipe.record(case.make_model, case.make_batch, case.loss_of,
                  lambda m: torch.optim.AdamW(m.parameters(), foreach=True), batches=(2, 3), lengths=(64, 32),
                  autocast=autocast, device="cpu", out=str(ROOT / "tests" / "estimate" / "recorded" / name))
    if autocast:
        return
    for size, length, again in ((2, 64, False), (5, 64, False), (2, 48, False), (7, 96, False),
                                (2, 64, True), (6, 80, True)):
        print(name, size, length, again, recorded.measure(Case(again, length, model), size, None))
    products, norm = ["mm", "addmm"], ["native_layer_norm"]
    for operations in products, ["gelu"], norm, [*products, *norm, "gelu", "add"]:
        for size, length in ((2, 64), (6, 80)):
            saves[:] = operations
            print(name, size, length, operations, recorded.measure(Case(True, length, model), size, None))
            saves.clear()


if __name__ == "__main__":
    torch.set_num_threads(1)
    print_shards()  # first: processes are forked before any backward
    write(Model, "step_blocks.json")
    write(Model, "step_autocast.json", torch.bfloat16)
    write(Nested, "step_nested.json")
    write(Biased, "step_switched.json")
    write(Words, "step_words.json")
    write_tied()
    write_attending()
    write_masked()
    write_placed()
    write_normed()
    write_seeing()
    for size, dropout in (2, 0.0), (5, 0.0), (2, 0.1), (5, 0.1):
        print("step_blocks.json with adapters", size, dropout, recorded.measure(Adapted(dropout), size, None))
    for size, pieces in (2, 2), (2, 3), (2, 128), (5, 4), (5, 7):
        print("step_words.json in pieces", size, pieces, recorded.measure(Pieces(pieces), size, None))
    with torch.backends.mkldnn.flags(enabled=False):
        for size, pieces in (2, 2), (5, 4):
            counted = recorded.measure(Pieces(pieces), size, torch.bfloat16)
            print("step_words.json in pieces, autocast", size, pieces, counted)
    for size, pieces in (2, 1), (2, 2), (5, 4):
        case = Pieces(pieces, length=8, model=Tied)
        print("step_tied.json in pieces", size, pieces, recorded.measure(case, size, None))
