#!/usr/bin/env python3
"""Does the plugin in Slurm's controller refuse what does not fit, and nothing else?

    bench/admit.py [--build build] [--jobs 200] [--seed 1] [--out bench/results/admit.md] [--show] [--alone]
                   [--plain]

Submits jobs whose truth is known to Slurm's own daemons on this machine, with made-up GPUs. Half of them are runs
that others have seen fit or run out of memory (bench/estimate/points_fits.csv, as far as a script can say them), half
are drawn, with `snug estimate` of the same settings as truth: what does not fit by its likely value does not fit. The
scripts are written in the ways that people write them (admit_scripts.py); with --plain in the fewer ways of the first
figures: variables, arrays, arguments, continued lines, `bash -c`, srun, torchrun. Every job is held, so nothing runs. A
job that fits must not be refused; one that does not is named where the user is told so, refused or warned. With --alone
no daemon is started: the program is asked as the plugin asks it, which is much faster."""

import argparse
import csv
import json
import pathlib
import random
import statistics
import subprocess
import sys
import time

import admit_scripts
from measure import ROOT, commit, processor
from slurm import Slurm, missing

DEVICES = ["t4", "v100-16", "v100-32", "rtx-3090", "rtx-4090", "a10", "l40s", "a100-40", "a100-80", "h100-80"]
MODELS = ["gpt2", "gpt2-large", "gpt2-xl", "pythia-1.4b", "llama-3.2-1b", "llama-3.2-3b", "llama-3-8b", "mistral-7b",
          "qwen2.5-1.5b", "qwen2.5-7b", "llama-2-13b", "gemma-2b"]
HUB = {"llama-3-8b": "meta-llama/Meta-Llama-3-8B", "mistral-7b": "mistralai/Mistral-7B-v0.1",
       "qwen2.5-7b": "Qwen/Qwen2.5-7B", "llama-2-13b": "meta-llama/Llama-2-13b-hf"}


def words_of(line):
    """Options of `snug estimate` as a map; a flag is True."""
    words, found, i = line.split(), {}, 0
    while i < len(words):
        name = words[i][2:]
        if i + 1 < len(words) and not words[i + 1].startswith("--"):
            found[name] = words[i + 1]
            i += 2
        else:
            found[name] = True
            i += 1
    return found


# ---- what a program is told ----

def trainer_options(model, o, plain=False):
    """The words of transformers' Trainer and TRL for options of `snug estimate`."""
    words = ["--model_name_or_path", HUB.get(model, model), "--output_dir", "out"]
    words += ["--per_device_train_batch_size", o.get("micro-batch", o.get("batch", "8"))]
    if o.get("accumulate", "1") != "1":
        words += ["--gradient_accumulation_steps", o["accumulate"]]
    types = o.get("dtype", "autocast")
    if types == "half":
        words += ["--torch_dtype", "bfloat16", "--bf16"]
    elif types == "autocast":
        words += ["--fp16", *([] if "base-bits" in o and o["base-bits"] != "32" else ["--torch_dtype", "float32"])]
    else:
        words += ["--torch_dtype", "float32"]
    if o.get("base-bits") == "16":
        words += ["--torch_dtype", "float16"]
    if "gradient-checkpointing" in o:
        words += ["--gradient_checkpointing", "True"]
    elif "adapter-rank" in o:
        words += ["--gradient_checkpointing", "False"]
    if "reentrant" in o and not plain:
        words += ["--gradient_checkpointing_kwargs", '{"use_reentrant": true}']
    if "adapter-rank" in o:
        words += ["--use_peft", "--lora_r", o["adapter-rank"], "--lora_target_modules",
                  *o.get("adapter-targets", "all-linear").split(",")]
    if o.get("base-bits") == "4":
        words += ["--load_in_4bit"]
    if o.get("attn"):
        words += ["--attn_implementation", {"flash": "sdpa"}.get(o["attn"], o["attn"])]
    if o.get("loss") == "fused":
        words += ["--use_liger_kernel", "True"]
    if o.get("optimizer"):
        words += ["--optim", o["optimizer"]]
    if o.get("optimizer-bits") == "8":
        words += ["--optim", "adamw_bnb_8bit"]
    if o.get("shard") == "fsdp":
        words += ["--fsdp", "full_shard auto_wrap"]
    return words


def command(draw, model, o, plain=False):
    """A program with its options, and whether it is known by its name."""
    if o.get("framework") == "vllm":
        words = ["vllm", "serve", HUB.get(model, model), "--max-model-len", o["context"]]
        for name in ("gpu-memory-utilization", "max-num-seqs", "max-num-batched-tokens"):
            words += [f"--{name}", o[name]] if name in o else []
        words += ["--enforce-eager"] if "enforce-eager" in o else []
        return words + (["--tensor-parallel-size", o["gpus"]] if "gpus" in o else [])
    if o.get("framework") == "llm.c":
        depth = {"gpt2": "d12", "gpt2-large": "d36", "gpt2-xl": "d48"}[model]
        return ["./train_gpt2cu", "-e", depth, "-b", o["batch"], "-t", o["context"], "-i", "data.bin"]
    options = trainer_options(model, o, plain)
    own = draw.random() < 0.15
    if "adapter-rank" in o:
        program = ["trl", "sft"] if draw.random() < 0.5 else ["python", "sft.py"]
        options += ["--packing", "True", "--max_length", o["context"], "--dataset_name", "text"]
    elif own:
        program = ["python", "train.py"]
        options += ["--max_seq_length", o["context"]]
    elif model.startswith("bert"):  # NVIDIA's program of its time, with apex, is no example of transformers
        program = ["python", "run_squad.py"]
        options += ["--max_seq_length", o["context"]]
    else:
        program = ["python", "run_clm.py"]
        options += ["--block_size", o["context"], "--dataset_name", "text", "--do_train"]
    gpus = int(o.get("gpus", "1"))
    if gpus > 1:
        if program[0] == "trl":
            program = ["python", "sft.py"]
        program = ["torchrun", "--standalone", f"--nproc_per_node={gpus}", program[1]]
    return program + options


# ---- how a script says it ----

def quoted(word):
    return f'"{word}"' if " " in word else word


def plain_script(draw, words, device, gpus, asked_on_line):
    """The script, sbatch's options, the script's arguments, and the way's name."""
    kind = device.replace("-", "_")
    gres = draw.choice([f"--gres=gpu:{kind}:{gpus}", f"--gpus-per-node={kind}:{gpus}", f"--gpus={kind}:{gpus}"])
    lines = ["#!/bin/bash", "#SBATCH --job-name=test", "#SBATCH --time=01:00:00 # an hour"]
    lines += [] if asked_on_line else [f"#SBATCH {gres}"]
    lines += ["", "module load cuda", "source venv/bin/activate"]
    way, arguments = draw.randrange(7), []
    said = [quoted(word) for word in words]
    at = next((i for i, word in enumerate(words) if word in ("--per_device_train_batch_size", "-b")), None)
    if way == 1:
        lines += [f'MODEL="{words[i + 1]}"' for i, word in enumerate(words) if word == "--model_name_or_path"]
        said = ["$MODEL" if i and words[i - 1] == "--model_name_or_path" else word for i, word in enumerate(said)]
    elif way == 2 and at is not None:
        arguments, said[at + 1] = [words[at + 1]], "$1"
    elif way == 3 and len(said) > 6:
        lines += ["ARGS=(", *[f"  {word}" for word in said[3:]], ")"]
        said = [*said[:3], '"${ARGS[@]}"']
    elif way == 4 and at is not None:
        lines += [f"export SIZE={words[at + 1]}"]
        said[at + 1] = "${SIZE:-1}"
    line = " \\\n    ".join(said) if draw.random() < 0.5 else " ".join(said)
    if way == 5 and "'" not in line and "torchrun" not in line:
        line = f"bash -c '{line}'"
    elif draw.random() < 0.5 and "torchrun" not in line:
        line = f"srun {line}"
    lines += ["echo begins", line, "echo ends"]
    return "\n".join(lines) + "\n", [gres] if asked_on_line else [], arguments, f"plain {way}"


# ---- jobs ----

def published(draw):
    """Runs that others have seen, as (model, options, fits)."""
    known = {"framework", "libraries", "optimizer-kernels", "gradient-checkpointing", "reentrant", "micro-batch",
             "batch", "accumulate",
             "device", "dtype", "base-bits", "adapter-rank", "adapter-targets", "adapter-dropout",
             "context", "gpus", "shard", "loss", "base-scales", "attn", "optimizer", "gpu-memory-utilization",
             "max-num-seqs", "max-num-batched-tokens", "enforce-eager", "labels"}
    with open(ROOT / "bench/estimate/points_fits.csv", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            o = words_of(row["options"])
            said = set(o) <= known and not row["model"].endswith(".json") and o["device"] in DEVICES
            shared = int(o.get("gpus", "1")) <= 8 and o.get("shard", "none") in ("none", "ddp", "fsdp")
            way = row["framework"].split("+")[0] in ("hf", "vllm") and "context" in o
            if said and shared and way and not row["model"].startswith(("t5", "flan", "vit", "resnet")):
                yield row["model"], o, row["ran"] == "yes"


def drawn(draw, snug):
    """Settings that are drawn, and what `snug estimate` says of them."""
    while True:
        model, device = draw.choice(MODELS), draw.choice(DEVICES)
        o = {"framework": "hf", "device": device, "context": str(draw.choice([256, 512, 1024])),
             "batch": str(2 ** draw.randrange(7)), "dtype": draw.choice(["float32", "autocast", "half"])}
        kind = draw.random()
        if kind < 0.15:
            o = {"framework": "vllm", "device": device, "context": str(draw.choice([1024, 2048]))}
            if model.startswith(("gpt2", "pythia")) and device == "t4":
                continue
        elif kind < 0.25:
            model = draw.choice(["gpt2", "gpt2-large", "gpt2-xl"])
            o.update(framework="llm.c", dtype="half")
        elif kind < 0.5:
            o.update({"adapter-rank": "16", "adapter-targets": "q_proj,v_proj"})
            if model.startswith(("gpt2", "pythia")):
                continue
        if o["framework"] == "hf" and draw.random() < 0.4:
            o["gradient-checkpointing"] = True
        if o["framework"] == "hf" and draw.random() < 0.3 and "adapter-rank" not in o:
            o.update(gpus=str(draw.choice([2, 4, 8])), shard=draw.choice(["ddp", "fsdp"]))
        line = [snug, "estimate", model, "--json", "--quiet"]
        for name, value in o.items():
            line += [f"--{name}"] if value is True else [f"--{name}", value]
        got = subprocess.run(line, capture_output=True, text=True)
        if got.returncode in (0, 3) and got.stdout:
            answer = json.loads(got.stdout)
            share = answer["device_bytes"]["likely"] / answer["reported_bytes"]
            if share < 30:  # nobody asks for a hundred times what there is
                yield model, o, answer["fits"]


def gather(draw, snug, count):
    """Half published, with the failures first; half drawn, as many of each kind as come."""
    seen = list(published(draw))
    draw.shuffle(seen)
    failed = [job for job in seen if not job[2]][:count // 4]
    ran = [job for job in seen if job[2]][:count // 2 - len(failed)]
    jobs = [("published", *job) for job in failed + ran]
    source = drawn(draw, snug)
    jobs += [("drawn", *next(source)) for _ in range(count - len(jobs))]
    draw.shuffle(jobs)
    return jobs


class Alone:
    """The program as the plugin calls it, without a controller."""

    def __init__(self, program):
        self.program = program

    def submit(self, arguments, script):
        began = time.monotonic()
        line = [self.program, "admit", "--script-only", "--", *arguments[:-1], "-", *arguments[-1]]
        got = subprocess.run(line, input=script, capture_output=True, text=True, cwd="/",
                             env={"PATH": "/usr/bin:/bin", "SNUG_RATES": "built-in", "LC_ALL": "C.UTF-8"})
        if got.returncode not in (0, 3):
            sys.exit(f"the program ends with {got.returncode}: {got.stderr}\n{script}")
        return got.returncode, got.stdout + got.stderr, time.monotonic() - began

    def close(self):
        pass


def judge(slurm, draw, job, show, plain):
    where, model, o, fits = job
    words = command(draw, model, o, plain)
    write = plain_script if plain else admit_scripts.script
    text, line, arguments, way = write(draw, words, o["device"], int(o.get("gpus", "1")), draw.random() < 0.3)
    code, said, seconds = slurm.submit([*line, arguments], text)
    flat = " ".join(said.replace("sbatch: error:", " ").replace("sbatch:", " ").split())
    named = "does not fit" in flat
    if code and not named:
        sys.exit(f"sbatch refuses this for another reason: {said}\n{text}")
    row = {"where": where, "fits": fits, "refused": code != 0, "named": named, "seconds": seconds, "way": way}
    if show and (named if fits else not named):
        print(f"{way}, {where} {'fits' if fits else 'does not fit'}, {'refused' if code else 'admitted'}: {model} {o}\n"
              f"{said}\n{text}", file=sys.stderr)
    return row


def table(rows):
    lines = ["| jobs | fit | of these refused | of these warned of | do not fit | of these refused | "
             "of these warned of | named |", "|---|---|---|---|---|---|---|---|"]
    for where in ("published", "drawn", None):
        of = [row for row in rows if where in (None, row["where"])]
        fit, not_fit = [r for r in of if r["fits"]], [r for r in of if not r["fits"]]
        warned = [sum(r["named"] and not r["refused"] for r in some) for some in (fit, not_fit)]
        named = sum(r["named"] for r in not_fit)
        share = f"{named} ({100 * named / max(1, len(not_fit)):.0f} %)"
        refused = [sum(r["refused"] for r in some) for some in (fit, not_fit)]
        lines.append(f"| {where or 'all'} | {len(fit)} | {refused[0]} | {warned[0]} | {len(not_fit)} | {refused[1]} | "
                     f"{warned[1]} | {share} |")
    return lines


def main():
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("--build", default=str(ROOT / "build"))
    reader.add_argument("--jobs", type=int, default=200)
    reader.add_argument("--seed", type=int, default=1)
    reader.add_argument("--out")
    reader.add_argument("--alone", action="store_true", help="without Slurm's daemons")
    reader.add_argument("--plain", action="store_true", help="only the ways of the first figures")
    reader.add_argument("--show", action="store_true", help="print jobs whose answer is not the truth")
    o = reader.parse_args()
    if missing() and not o.alone:
        sys.exit(f"skipped: {missing()}")
    draw = random.Random(o.seed)
    build = pathlib.Path(o.build).resolve()
    jobs = gather(draw, f"{build}/snug", o.jobs)
    kinds = [name.replace("-", "_") for name in DEVICES]
    slurm = Alone(f"{build}/snug") if o.alone else Slurm(build, kinds, "policy: refuse\nseconds: 8\n")
    try:
        plain = [slurm.submit([[]], "#!/bin/bash\ntrue\n")[2] for _ in range(10)]
        rows = [judge(slurm, draw, job, o.show, o.plain) for job in jobs]
    finally:
        slurm.close()
    seconds = sorted(row["seconds"] for row in rows)
    page = ["# Jobs at the door of a cluster", "",
            f"`bench/admit.py --jobs {o.jobs} --seed {o.seed}`, commit {commit()}, {processor()}.", "",
            "A job is refused by the plugin with `policy: refuse`. It is warned of where it is admitted and its user",
            "is told that it likely does not fit. \"Named\" is either.", "", *table(rows), "",
            f"`sbatch` took {statistics.median(seconds):.2f} s at the median and {seconds[-1]:.2f} s at most, and of",
            f"jobs without GPUs, of which the plugin asks nothing, {statistics.median(plain):.2f} s.", ""]
    print("\n".join(page))
    if o.out:
        pathlib.Path(o.out).write_text("\n".join(page), encoding="utf-8")
    wrong = [row for row in rows if row["fits"] and row["refused"]]
    missed = [row for row in rows if not row["fits"] and not row["named"]]
    return 1 if wrong or len(missed) * 10 > sum(not row["fits"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
