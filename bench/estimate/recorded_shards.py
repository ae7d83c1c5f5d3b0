#!/usr/bin/env python3
"""Recorded steps of one of two devices, beside the steps themselves: recorded_shards.py SNUG [--classes NAME,...]
[--settings NAME;...] [--json FILE]

Each model's step is recorded on fake tensors as one device has it; `snug estimate step.json --gpus 2 --shard ...`
answers, and two processes over gloo run it with DistributedDataParallel or fully_shard, whose first one PyTorch's
profiler watches. Live bytes at the peak. Needs torch and transformers; a test's oracle only."""

import argparse
import contextlib
import io
import json
import pathlib
import subprocess
import sys
import tempfile

import torch
import torch.distributed
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import recorded  # noqa: E402
import recorded_plans as plans  # noqa: E402
from recorded import recipe  # noqa: E402

EACH = 4  # samples of a device
NARROW = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
# said: to snug; recorded: autocast, as the step is recorded; policy: of fully_shard, None: DDP; half: the model has 16
# bits; again: modules are computed again; accumulate: micro-batches of a step.
SETTINGS = {
    "DDP": dict(said="--shard ddp"),
    "FSDP": dict(said="--shard fsdp", policy=MixedPrecisionPolicy()),
    "FSDP, again": dict(said="--shard fsdp --gradient-checkpointing", policy=MixedPrecisionPolicy(), again=True),
    "FSDP, 16 bits": dict(said="--shard fsdp --dtype autocast", policy=NARROW, narrow=True),
    "FSDP, 16 bits, again": dict(said="--shard fsdp --dtype autocast --gradient-checkpointing", policy=NARROW,
                                 narrow=True, again=True),
    "FSDP, 16 bits, twice": dict(said="--shard fsdp --dtype autocast", policy=NARROW, narrow=True, accumulate=2),
    "FSDP, 16 bits from autocast": dict(said="--shard fsdp", recorded=torch.bfloat16, policy=NARROW),
    "FSDP, model of 16 bits": dict(said="--shard fsdp --dtype half", policy=MixedPrecisionPolicy(), narrow=True,
                                   half=True),
}


def worker(rank, folder, case, setting):
    plans.join(rank, folder)
    torch.manual_seed(1)
    model = case.make_model().train()
    if setting.get("half"):
        model = model.bfloat16()
    if setting.get("again"):
        recorded.compute_again(model)
    if "policy" in setting:
        for m in recorded.repeated(model):
            fully_shard(m, mp_policy=setting["policy"])
        fully_shard(model, mp_policy=setting["policy"])
    else:
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)

    def step():
        for _ in range(setting.get("accumulate", 1)):
            batch = case.make_batch(EACH, case.lengths[0])
            if setting.get("half"):
                batch = {k: t.bfloat16() if t.is_floating_point() else t for k, t in batch.items()}
            case.loss_of(model, batch).backward()
            del batch
        optimizer.step()
        optimizer.zero_grad()
    torch.manual_seed(2 + rank)
    with torch.backends.mkldnn.flags(enabled=not setting.get("narrow", False)):
        step()
        step()  # DDP lays out its buckets anew behind the first
        peak = plans.there(model, optimizer) + recorded.largest_of(step)
    if not rank:
        (folder / "peak.json").write_text(json.dumps(peak))
    torch.distributed.destroy_process_group()


def measure(case, setting):
    """Bytes of the first of two devices, each with EACH samples."""
    with tempfile.TemporaryDirectory() as folder:
        plans.apart(worker, (pathlib.Path(folder), case, setting), 2)
        return json.loads((pathlib.Path(folder) / "peak.json").read_text())


def record(_, folder, name, which):
    case = plans.ALL[name]()
    with contextlib.redirect_stderr(io.StringIO()):
        recipe.record(case.make_model, case.make_batch, case.loss_of,
                      lambda m: torch.optim.AdamW(m.parameters(), foreach=True), batches=(2, EACH),
                      lengths=case.lengths[:1], device="cpu", out=str(folder / "step.json"),
                      autocast=SETTINGS[which].get("recorded"))


def compare(snug, name, which, folder):
    plans.apart(record, (folder, name, which))
    times = SETTINGS[which].get("accumulate", 1)
    command = [snug, "estimate", str(folder / "step.json"), "--device", "cpu", "--json", "--gpus", "2", "--batch",
               str(2 * EACH * times), "--accumulate", str(times), *SETTINGS[which]["said"].split()]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    told = json.loads(done.stdout)
    return told["live_bytes"]["likely"], measure(plans.ALL[name](), SETTINGS[which]), told["peak_in"]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("snug")
    p.add_argument("--classes", default="GPT2LMHeadModel,LlamaForCausalLM,BertForMaskedLM,Qwen3ForCausalLM,"
                                        "Mixer (one's own),GPT2LMHeadModel of many words,"
                                        "LlamaForCausalLM of many words,Mixer of many words (one's own)")
    p.add_argument("--settings", default="")
    p.add_argument("--json")
    a = p.parse_args()
    torch.set_num_threads(1)
    rows, failed = [], 0
    print(f"torch {torch.__version__}\n\n| model | setting | told | counted | | peak in |\n|---|---|---|---|---|---|")
    for name in a.classes.split(","):
        for which in [s for s in a.settings.split(";") if s] or SETTINGS:
            with tempfile.TemporaryDirectory() as folder:
                try:
                    told, was, peak_in = compare(a.snug, name, which, pathlib.Path(folder))
                except Exception as e:
                    failed += 1
                    print(f"| {name} | {which} | none: {(str(e).splitlines() or [type(e).__name__])[0][:90]} |",
                          flush=True)
                    continue
            off = 100 * (told / was - 1)
            print(f"| {name} | {which} | {told:,} | {was:,} | {off:+.2f} % | {peak_in} |", flush=True)
            rows.append(dict(name=name, setting=which, told=told, measured=was))
    near = [abs(r["told"] / r["measured"] - 1) for r in rows]
    print(f"\n{len(rows)} points, {sum(x <= 0.01 for x in near)} within 1 %, {sum(x <= 0.02 for x in near)} within "
          f"2 %; {failed} without an answer")
    if a.json:
        pathlib.Path(a.json).write_text(json.dumps(rows))
    return 0 if rows and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
