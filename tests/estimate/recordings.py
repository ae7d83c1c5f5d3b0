"""Recordings by docs/recording.schema.json, judged by the package jsonschema: recordings.py PROGRAM [stored | fresh].
Exit code 1 where something is wrong.

`stored` are those that tests have. `fresh` are those that the recipe which PROGRAM prints makes; SNUG_PYTHON names
interpreters that may have torch, separated by colons, and where none has, that is said. Without a word both are judged,
the fresh ones where torch is installed."""

import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import jsonschema

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCHEMA = jsonschema.Draft202012Validator(json.loads((ROOT / "docs" / "recording.schema.json").read_text()))


def check(path):
    recording = json.loads(path.read_text())
    for wrong in SCHEMA.iter_errors(recording):
        sys.exit(f"{path.name}: {wrong.message[:200]} at {list(wrong.absolute_path)}")
    return recording


def is_refused(recording, change):
    other = json.loads(json.dumps(recording))
    change(other)
    if SCHEMA.is_valid(other):
        sys.exit("the schema takes what is no recording")


def answer(program, path, *more, bound="likely"):
    command = [program, "estimate", str(path), "--device", "cpu", "--json", *more]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{command}: {done.stderr}")
    return json.loads(done.stdout)["live_bytes"][bound]


def check_fresh(program, folder):
    recipe = subprocess.run([program, "estimate", "--recipe", "plain"], capture_output=True, text=True, check=True)
    (folder / "step.py").write_text(recipe.stdout)
    done = subprocess.run([sys.executable, "step.py"], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"the recipe ends with {done.returncode}: {done.stderr[-500:]}")
    recording = check(folder / "step.json")
    if not all(p["saves"]["at"] and p["visits"]["module"] for p in recording["programs"]):
        sys.exit("a fresh recording does not say what is kept, or which modules ran")
    small, large = answer(program, folder / "step.json", "--batch", "4"), answer(program, folder / "step.json",
                                                                                 "--batch", "8")
    if not small < large:
        sys.exit(f"a batch of 8 takes {large} bytes and one of 4 {small}")
    check_copies(program, folder)


ACROSS = """

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 64)

    def forward(self, x):
        return self.layer(x).transpose(1, 2)


record(Model, lambda size, length: torch.zeros(size, length, 1),
       lambda model, x: torch.nn.functional.cross_entropy(model(x), torch.zeros(*x.shape[:2], dtype=torch.long)),
       lambda model: torch.optim.SGD(model.parameters()), batches=(2, 3), lengths=(128,), device="cpu", %s)
"""


def check_copies(program, folder):
    """What a softmax across its rows copies within itself is counted, in the type of what it reads."""
    path, logits = folder / "step.json", 2 * 128 * 64

    def judge(most, *more, **bound):
        took = answer(program, path, "--batch", "2", *more, **bound) / logits
        if not most < took < most + 0.8:
            sys.exit(f"a loss takes {took:.2f} bytes a logit with {more}, and not {most}")
    for autocast in "None", "torch.bfloat16":
        (folder / "step.py").write_text((ROOT / "recipes" / "record.py").read_text() + ACROSS % f"autocast={autocast}")
        subprocess.run([sys.executable, "step.py"], cwd=folder, capture_output=True, check=True)
        check(path)
        judge(12, "--dtype", "float32")  # in backward: probabilities and two gradients
        judge(14, "--dtype", "autocast")  # logits, the same in f32, their copy, and probabilities
        judge(5.8, "--dtype", "half", bound="low")  # three of 16 bits: nothing is cast


def with_torch():
    """Goes on as an interpreter that has torch, or ends."""
    if importlib.util.find_spec("torch"):
        return
    for python in filter(shutil.which, os.environ.pop("SNUG_PYTHON", "").split(":")):
        if subprocess.run([python, "-c", "import jsonschema, torch"], capture_output=True).returncode == 0:
            os.execvp(python, [python, *sys.argv])
    print("skipped: no Python here has torch and jsonschema; SNUG_PYTHON names interpreters that do")
    sys.exit()


SWITCHED = """

class Block(torch.nn.Linear):
    def forward(self, x, bias):
        return super().forward(x + bias).relu()


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks, self.again = torch.nn.ModuleList(Block(512, 512) for _ in range(3)), False

    def set_grad_checkpointing(self):
        self.again = True

    def forward(self, x):
        bias = torch.zeros(x.shape)
        bias.requires_grad = self.again  # as T5's
        for block in self.blocks:
            x = torch.utils.checkpoint.checkpoint(block, x, bias, use_reentrant=False) if self.again else block(x, bias)
        return x.sum()


record(Model, lambda size, length: torch.zeros(size, length, 512), lambda model, x: model(x),
       lambda model: torch.optim.SGD(model.parameters()), batches=(2, 3), lengths=(4,), device="cpu")
"""


def check_switched(program, folder):
    """A model whose code does otherwise where modules are computed again: that step is recorded beside the other. It
    is wide, so the peak is where gradients are most, and not where a CPU keeps states of random numbers (5 KB each)."""
    (folder / "step.py").write_text((ROOT / "recipes" / "record.py").read_text() + SWITCHED)
    subprocess.run([sys.executable, "step.py"], cwd=folder, capture_output=True, check=True)
    recording = check(folder / "step.json")
    if recording["again"] != [2, 3, 4] or [p.get("switched", 0) for p in recording["programs"]] != [0, 1]:
        sys.exit(f"of a model with a switch there is {recording['again']}, and not a program with it and one without")
    both = answer(program, folder / "step.json", "--batch", "2", "--gradient-checkpointing")
    recording["programs"].pop()
    (folder / "less.json").write_text(json.dumps(recording))
    if not answer(program, folder / "less.json", "--batch", "2", "--gradient-checkpointing") < both:
        sys.exit("the gradient that the switch alone makes is not counted")


HANDED = """

class Norm(torch.nn.Module):
    def __init__(self, once):
        super().__init__()
        self.weight, self.once = torch.nn.Parameter(torch.ones(64)), once

    def forward(self, x):
        if self.once:
            return self.weight * (x * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6))
        wide = x.float()
        return self.weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6))


class Given(Norm):
    def of(self, wide):
        return wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)

    def forward(self, x):
        return self.weight * self.of(x.float())


class Model(torch.nn.Sequential):
    def __init__(self):
        super().__init__(torch.nn.Linear(64, 64), Norm(True), torch.nn.Linear(64, 64), Norm(False),
                         torch.nn.Linear(64, 64), Given(False), torch.nn.Linear(64, 9))


record(Model, lambda size, length: torch.zeros(size, length, 64),
       lambda model, x: torch.nn.functional.cross_entropy(model(x).flatten(0, 1), x[..., 0].flatten().long()),
       lambda model: torch.optim.SGD(model.parameters()), batches=(2, 3), lengths=(4,), device="cpu")
"""


def check_handed(folder):
    """What code has in f32 for one call alone; what fake tensors cast by themselves is none of it."""
    (folder / "step.py").write_text((ROOT / "recipes" / "record.py").read_text() + HANDED)
    subprocess.run([sys.executable, "step.py"], cwd=folder, capture_output=True, check=True)
    for p in check(folder / "step.json")["programs"]:
        calls, at, read = p["calls"], 0, []
        for reads, makes in zip(calls["reads"], calls["makes"]):
            read.append(calls["operands"][at:at + reads])
            at += reads + makes
        names = [p["strings"][n] for n in calls["name"]]
        one = names.index("pow.Tensor_Scalar")
        other = names.index("pow.Tensor_Scalar", one + 1)
        given = names.index("pow.Tensor_Scalar", other + 1)
        if p["widened"] != [*read[one], *read[other], *read[given]] or p["widened_for"] != [*read[one], one + 1]:
            sys.exit(f"of norms that read {read[one]} once, {read[other]} and {read[given]} twice in f32 there is "
                     f"{p['widened']} and {p['widened_for']}")


CALLED = """

class Block(torch.nn.Linear):
    def forward(self, x):
        return super().forward(x).relu()


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList(torch.nn.Sequential(Block(64, 64), Block(64, 64)) for _ in range(3))

    def forward(self, x):
        for block in self.blocks:
            x = block%s(x)
        return x.sum()


record(Model, lambda size, length: torch.zeros(size, length, 64), lambda model, x: model(x),
       lambda model: torch.optim.SGD(model.parameters()), batches=(2, 3), lengths=(4,), device="cpu")
"""


def check_called(folder):
    """A module runs where its forward is called by itself too, and is left as it was."""
    recorder, recordings = (ROOT / "recipes" / "record.py").read_text(), []
    for called in "", ".forward":
        (folder / "step.py").write_text(recorder + CALLED % called)
        subprocess.run([sys.executable, "step.py"], cwd=folder, capture_output=True, check=True)
        recordings.append(check(folder / "step.json"))
    if recordings[0] != recordings[1] or recordings[1]["entered"] != [1, 0] + [1] * 9:
        sys.exit("a module whose forward is called by itself is recorded otherwise than one that is called")


LOOKING = """
import math


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(16, 16)
        %s

    def forward(self, x):
        %s
        return x.sum()


record(Model, lambda size, length: torch.ones(size, length, 16), lambda model, x: model(x),
       lambda model: torch.optim.SGD(model.parameters()), batches=(2, 3), lengths=(4,), device="cpu", number=%s)
"""
# Code that looks at data: as its network is made, as it runs; what the recorder says of it, or why it ends.
LOOKS = [("", "x = self.layer(x); x = x[x > 0]", "masks select everything in module ''"),
         ("", "x = self.layer(x); x = x[(x > 0).to(torch.uint8)]", "masks select everything in module ''"),
         ("", "x = self.layer(x); x = torch.masked_select(x, x[:1] > 0)", "masks select everything in module ''"),
         ("", "x = self.layer(x); x = x[torch.nonzero(x[:, 0, 0]).flatten() % len(x)]", "masks select everything"),
         ("", "x = self.layer(x) if x.sum() > 0.5 else x * 2", "!looks at a number that only data tell"),
         ("", "x = self.layer(x) if x.sum() > 0.5 else x * 2", "gt() is True in module ''", 1.0),
         ("", "x = self.layer(x) if torch.rand([]) < 0.5 else self.layer(x) * 2", "lt() is False in module ''", 1.0),
         ("", "x = self.layer(x) * math.log(x.sum().item())", "a number is 1.0 in module ''", 1.0),
         ("self.sizes = torch.unique(torch.tensor([3, 1, 3])).tolist()", "x = self.layer(x) * len(self.sizes)", ""),
         ("", "x = self.layer(x); x = x * torch.unique(x).numel()", "!_unique2.default makes depends on data"),
         ("", "x = self.layer(x); x = torch.unique(x, dim=0)", "!unique_dim.default makes depends on data")]


def check_looks(folder):
    """What code sees of data that are not there is assumed, and said, or refused in a sentence."""
    recorder = (ROOT / "recipes" / "record.py").read_text()
    for made, runs, says, *number in LOOKS:
        (folder / "step.py").write_text(recorder + LOOKING % (made or "pass", runs, *(number or [None])))
        done = subprocess.run([sys.executable, "step.py"], cwd=folder, capture_output=True, text=True)
        heard = done.stdout + done.stderr
        if says.startswith("!"):
            if done.returncode != 1 or says[1:] not in heard or "Traceback" in heard or "fake=False" not in heard:
                sys.exit(f"of '{runs}' the recorder says: {heard[-400:]}")
        elif done.returncode or says not in heard:
            sys.exit(f"of '{runs}' the recorder says: {heard[-400:]}")


def main():
    part = sys.argv[2] if len(sys.argv) > 2 else ""
    if part == "fresh":
        with_torch()
    stored = sorted((ROOT / "tests" / "estimate" / "recorded").glob("*.json"))
    for path in stored:
        recording = check(path)
    is_refused(recording, lambda r: r.pop("modules"))
    is_refused(recording, lambda r: r.update(snug_step=2))
    is_refused(recording, lambda r: r["programs"][0]["calls"].update(phase=[3]))
    is_refused(recording, lambda r: r["programs"][0]["saves"].pop("until"))
    is_refused(recording, lambda r: r["programs"][0].update(switched=2))
    if part == "stored":
        return print(f"{len(stored)} stored recordings")
    if importlib.util.find_spec("torch"):
        with tempfile.TemporaryDirectory() as folder:
            check_fresh(sys.argv[1], pathlib.Path(folder))
            check_switched(sys.argv[1], pathlib.Path(folder))
            check_called(pathlib.Path(folder))
            check_handed(pathlib.Path(folder))
            check_looks(pathlib.Path(folder))
    print(f"{len(stored)} stored recordings" + (" and a fresh one" if importlib.util.find_spec("torch") else ""))


if __name__ == "__main__":
    main()
