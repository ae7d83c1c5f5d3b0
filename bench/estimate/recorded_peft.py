#!/usr/bin/env python3
"""Compares recorded steps with what PEFT's own comparison of methods measured on a GPU:
recorded_peft.py RESULTS [--snug PATH] [--length N] [--only NAMES] [--out FILE]

RESULTS is the folder method_comparison/MetaMathQA/results of a clone of https://github.com/huggingface/peft: a file
for each method, with its configuration and the most that PyTorch's allocator reserved on an L40S while Llama 3.2 3B
was trained by it for 5,000 steps of 4 samples of at most 768 tokens. Each method is recorded here as that script
trains (method_comparison/MetaMathQA/run.py): weights of bf16, adapters of f32, AdamW, gradients clipped, the model's
output held until the next step's. How long the longest batch is isn't said; all methods see the same batches, so one
length serves them all. 688 is that which one of them, lora-rank32, says with its figure, which is no test then.
No weights and no GPU are needed. Needs torch, transformers and peft. Prints a line for each, and a table for
bench/results/recorded_peft.md with --out."""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path += [str(HERE.parent.parent / "recipes")]
import record as recipe  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
import peft  # noqa: E402

BATCH, LONGEST_BATCH = 4, 688
PATIENCE, TRIES = 600, 3  # seconds of recording
BASE = {"hidden_size": 3072, "intermediate_size": 8192, "num_hidden_layers": 28, "num_attention_heads": 24,
        "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 128256, "max_position_embeddings": 131072,
        "rms_norm_eps": 1e-5, "tie_word_embeddings": True,
        "rope_parameters": {"rope_type": "default", "rope_theta": 5e5}}


def config_of(said):
    """As PeftConfig.from_pretrained makes it, without what this version does not know and is not set."""
    kind = peft.PEFT_TYPE_TO_CONFIG_MAPPING[peft.PeftType(said["peft_type"])]
    known = kind.__dataclass_fields__
    return kind(**{k: v for k, v in said.items() if k in known and k != "peft_type"})


def record(result, length, out):
    run = result["run_info"]
    kept = {}

    def make_model():
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**BASE)).to(torch.bfloat16)
        if run["peft_config"]:
            model = peft.get_peft_model(model, config_of(run["peft_config"]),
                                        autocast_adapter_dtype=run["train_config"]["autocast_adapter_dtype"])
        model.train()
        return model

    def make_batch(size, length):
        ids = torch.zeros(size, length, dtype=torch.long)
        return {"input_ids": ids, "labels": ids.clone(), "attention_mask": torch.ones_like(ids)}

    def loss_of(model, batch):
        kept["output"] = model(**batch)
        return kept["output"].loss

    def make_optimizer(model):
        said = run["train_config"]
        optimizer = getattr(torch.optim, said["optimizer_type"])(model.parameters(), **said["optimizer_kwargs"])

        def clip(*_):
            torch.nn.utils.clip_grad_norm_(model.parameters(), said["grad_norm_clip"])
        optimizer.register_step_pre_hook(clip)
        return optimizer

    recipe.record(make_model, make_batch, loss_of, make_optimizer, batches=(BATCH,), lengths=(length,), out=out)


def estimate(snug, step, length):
    line = [snug, "estimate", step, "--json", "--quiet", "--batch", str(BATCH), "--context", str(length),
            "--device", "l40s"]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 3):
        raise ValueError(done.stderr.strip())
    return json.loads(done.stdout)["reserved_bytes"]


def record_apart(path, length, step):
    """In a process of its own: where torch itself crashes, which it does now and then, that one ends alone."""
    line = [sys.executable, __file__, str(path), "--length", str(length), "--record", step]
    for left in reversed(range(TRIES)):
        try:
            done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            raise ValueError(f"recording takes more than {PATIENCE} s") from None
        if not done.returncode:
            return
        if done.returncode > 0 or not left:
            raise ValueError((done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1])


def compare(snug, path, length):
    result = json.loads(path.read_text())
    with tempfile.TemporaryDirectory() as folder:
        step = str(pathlib.Path(folder) / "step.json")
        record_apart(path, length, step)
        return estimate(snug, step, length), result["train_info"]["accelerator_memory_max"]


def table(rows, failed):
    ratios = [said["likely"] / real for _, said, real in rows]
    errors = sorted(abs(r - 1) for r in ratios)
    inside = sum(said["low"] <= real <= said["high"] for _, said, real in rows)
    yield (f"{len(rows)} methods; estimate / measured: {min(ratios):.3f} / {statistics.median(ratios):.3f} / "
           f"{max(ratios):.3f} (least, median, most); error {100 * statistics.median(errors):.1f} % at the median, "
           f"{100 * errors[int(0.9 * len(errors))]:.1f} % at the 90th percentile; {inside} lie within the interval.")
    yield ""
    yield "| method | reserved, GiB | estimate | estimate / measured | interval | within |"
    yield "|---|---|---|---|---|---|"
    for name, said, real in rows:
        low, likely, high = (said[k] / 2**30 for k in ("low", "likely", "high"))
        within = "yes" if said["low"] <= real <= said["high"] else "no"
        yield (f"| {name} | {real / 2**30:.2f} | {likely:.2f} | {said['likely'] / real:.3f} | {low:.2f} to {high:.2f} "
               f"| {within} |")
    for name, why in failed:
        yield f"| {name} | | not recorded: {why} | | | |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=pathlib.Path)
    parser.add_argument("--snug", default=str(HERE.parent.parent / "build" / "snug"))
    parser.add_argument("--length", type=int, default=LONGEST_BATCH, help="of the longest batch")
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--record", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.record:
        record(json.loads(given.results.read_text()), given.length, given.record)
        return
    rows, failed, text = [], [], ""
    for path in sorted(given.results.glob("*.json")):
        name = path.stem.replace("--llama-3.2-3B", "")
        if given.only and name not in given.only:
            continue
        try:
            said, real = compare(given.snug, path, given.length)
            rows.append((name, said, real))
            print(f"{name}: {said['likely'] / real:.3f}", flush=True)
        except Exception as e:  # a method that this version of peft does not have, or that fake tensors can't be in
            failed.append((name, str(e)[:120]))
            print(f"{name}: {e}", file=sys.stderr, flush=True)
        text = "\n".join(table(rows, failed)) + "\n" if rows else ""
        if given.out:  # what there is so far: all of it takes an hour
            given.out.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
