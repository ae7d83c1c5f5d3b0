#!/usr/bin/env python3
"""Measures what training takes of a GPU in PyTorch, and writes points_gpu.csv: measure_gpu.py [--seconds N] [WORD...]

Needs a GPU that nobody else uses, torch, transformers, peft and nvidia-ml-py. Models are made from configurations,
with random weights; those of bench/estimate/models are small, those of published/ are real. Every point has a process
of its own, one after the other, and its settings are the options of `snug estimate` that describe it; what the
estimate has no option for stands in `beside`. --drawn SEED draws models and settings that no rule was made from, into
points_gpu_drawn.csv. Points that the file has are not measured again; with WORDs only those
that hold them all are.

layer      what
live       torch.cuda.max_memory_allocated() of all steps
later      the same without the first step
requested  as live, before the allocator rounds
reserved   torch.cuda.max_memory_reserved()
whole      the most that NVML saw used of the device while the process ran, less what was used before
process    what NVML says of the process at the end, where it knows
"""

import argparse
import contextlib
import csv
import json
import multiprocessing
import os
import pathlib
import random
import threading
import time

os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")  # whoever asks whether there is a GPU starts no CUDA

import peft
import pynvml
import torch
import transformers

HERE = pathlib.Path(__file__).resolve().parent
FILE = HERE / "points_gpu.csv"
FIELDS = ["model", "options", "beside", "layer", "bytes", "source"]
DEVICE, STEPS, PATIENCE = "cuda", 3, 240
MASKED, IMAGES = ("bert", "roberta", "distilbert"), ("vit", "resnet", "convnext")

# What is measured: model, then the options of each point; after a bar what stands in `beside`.
REAL = {
    "gpt2": (
        "--batch 8 --context 1024", [
            "--dtype autocast", "--dtype autocast | CUDA_MODULE_LOADING=EAGER", "--dtype autocast | torch.compile",
            "--dtype autocast | expandable_segments", "--dtype autocast --optimizer-kernels foreach",
            "--dtype autocast --optimizer-kernels single", "--dtype autocast --dropout 0",
            "--dtype autocast --keeps-output", "--dtype autocast --attn eager",
            "--dtype autocast --attn eager --dropout 0", "--dtype half | expandable_segments",
            "--dtype autocast --gradient-checkpointing", "--dtype autocast --gradient-checkpointing --reentrant",
            "--dtype autocast --accumulate 2", "--dtype float32", "--dtype float32 --optimizer-kernels foreach",
            "--dtype float32 --attn eager --optimizer-kernels single", "--dtype half",
            "--dtype half --gradient-checkpointing", "--dtype half --adapter-rank 8",
            "--dtype autocast --base-bits 32 --adapter-rank 8",
            "--dtype float32 --optimizer sgd --momentum 0.9 --optimizer-kernels foreach",
            "--dtype float32 --optimizer sgd --momentum 0 --optimizer-kernels foreach"]),
    "tinyllama-1.1b": (
        "--batch 4 --context 2048", [
            "--dtype autocast", "--dtype half", "--dtype half | CUDA_MODULE_LOADING=EAGER",
            "--dtype half | torch.compile", "--dtype half | expandable_segments",
            "--dtype half --gradient-checkpointing",
            "--dtype autocast --gradient-checkpointing", "--dtype half --adapter-rank 16",
            "--dtype half --adapter-rank 16 --adapter-targets q_proj,v_proj",
            "--dtype half --adapter-rank 16 --gradient-checkpointing",
            "--dtype half --optimizer-kernels foreach", "--dtype half --accumulate 2"]),
    "gpt2-medium": (
        "--batch 8 --context 1024", [
            "--dtype autocast", "--dtype half", "--dtype autocast --gradient-checkpointing",
            "--dtype float32 --optimizer-kernels foreach"]),
    "vit-base": (
        "--batch 64", [
            "--dtype float32", "--dtype autocast", "--dtype half", "--dtype autocast --gradient-checkpointing",
            "--dtype autocast | torch.compile"]),
    "bert-base": (
        "--batch 32 --context 512", [
            "--dtype float32", "--dtype autocast", "--dtype half", "--dtype autocast --gradient-checkpointing",
            "--dtype autocast | CUDA_MODULE_LOADING=EAGER"]),
    "resnet-50": ("--batch 64", ["--dtype float32", "--dtype autocast"]),
    "t5-base": (
        "--batch 8 --context 512", [
            "--dtype autocast", "--dtype float32", "--dtype float32 --attn eager", "--dtype float32 --dropout 0",
            "--dtype half"]),
    "qwen3-0.6b": (
        "--batch 2 --context 2048", [
            "--dtype autocast", "--dtype half --gradient-checkpointing", "--dtype float32",
            "--dtype autocast --gradient-checkpointing"]),
    "llama-3.2-1b": ("--batch 2 --context 4096", ["--dtype half --adapter-rank 16 --gradient-checkpointing"]),
    "models/gpt2-untied.json": (
        "--batch 8 --context 1024 --framework pytorch --dropout 0", [
            "--dtype autocast", "--dtype half", "--dtype float32"]),
}
SMALL = ("gpt2", "llama", "llama-grouped", "qwen3", "phi", "gemma", "gemma2", "gpt_neox", "mixtral", "qwen3_moe",
         "bert", "distilbert", "t5", "t5-gated", "vit", "resnet", "convnext")
SETTINGS = ("--dtype float32 --optimizer-kernels foreach", "--dtype float32 --attn eager --optimizer-kernels single",
            "--dtype autocast --optimizer-kernels foreach", "--dtype half --attn eager --optimizer-kernels foreach",
            "--dtype float32 --gradient-checkpointing --optimizer-kernels single")
NO_ATTENTION, NO_SDPA = ("resnet", "convnext"), ("gemma2",)  # torch's kernels know no soft caps


def points(device):
    for model, (sizes, ways) in REAL.items():
        for way in ways:
            options, _, beside = way.partition(" | ")
            yield model, f"--device {device} {sizes} {options}", beside
    for name in SMALL:
        sizes = "--batch 4" if name in IMAGES else "--batch 4 --context 256"
        for options in SETTINGS:
            if name in NO_ATTENTION and ("eager" in options or "checkpointing" in options):
                continue
            yield f"models/{name}.json", f"--device {device} {sizes} {options}", ""


# Models that points_gpu.csv has not: the most tokens at once, and the longest text.
DRAWN = {
    "distilgpt2": (16384, 1024), "gpt2-large": (4096, 1024), "pythia-70m": (16384, 2048), "pythia-160m": (16384, 2048),
    "pythia-410m": (8192, 2048), "smollm2-135m": (16384, 2048), "qwen2.5-0.5b": (8192, 2048),
    "qwen3-1.7b": (4096, 2048), "gemma-2b": (4096, 2048), "roberta-base": (16384, 512), "bert-large": (8192, 512),
    "distilbert-base": (16384, 512), "t5-small": (16384, 512), "flan-t5-base": (8192, 512), "vit-large": (64, 0),
    "resnet-34": (128, 0), "resnet-101": (64, 0), "convnext-small": (64, 0)}


def drawn_options(name, draw):
    most, longest = DRAWN[name]
    images, decodes = not longest, not any(w in name for w in ("bert", "t5", "vit", "resnet", "convnext"))
    batch = draw.choice((1, 2, 3, 4, 6, 8, 12, 16, 24, 32))
    said = [f"--batch {batch}"]
    if images:
        said = [f"--batch {min(most, 2 * batch)}"]
    else:
        lengths = [n for n in (64, 128, 200, 256, 384, 500, 512, 768, 1000, 1024, 1536, 2048) if n <= longest]
        said.append(f"--context {draw.choice([n for n in lengths if n * batch <= most])}")
    large = name in ("qwen3-1.7b", "gemma-2b")
    kind = draw.choice(("half", "autocast") if large else ("float32", "autocast", "half"))
    said.append(f"--dtype {kind}")
    attends = "resnet" not in name and "convnext" not in name
    if attends and draw.random() < 0.2:
        said.append("--attn eager")
    if attends and draw.random() < 0.3:
        said.append("--gradient-checkpointing" + (" --reentrant" if draw.random() < 0.3 else ""))
    if draw.random() < 0.5:
        said.append("--optimizer-kernels " + draw.choice(("foreach", "single")))
    if not images and draw.random() < 0.2:
        said.append("--dropout 0")
    if decodes and kind == "half" and draw.random() < 0.3:
        said.append(f"--adapter-rank {draw.choice((4, 8, 32))}")
    return " ".join(said)


def drawn(device, seed):
    draw = random.Random(seed)
    for _ in range(6):
        for name in DRAWN:
            yield name, f"--device {device} {drawn_options(name, draw)}", ""


def read_options(text):
    parser = argparse.ArgumentParser()
    for name in ("--batch", "--context", "--adapter-rank", "--base-bits"):
        parser.add_argument(name, type=int, default=0)
    for name in ("--dropout", "--momentum"):
        parser.add_argument(name, type=float)
    for name, value in (("--device", ""), ("--dtype", "autocast"), ("--attn", "auto"), ("--framework", "hf"),
                        ("--optimizer", "adamw"), ("--optimizer-kernels", "auto"), ("--adapter-targets", "")):
        parser.add_argument(name, default=value)
    for name in ("--gradient-checkpointing", "--reentrant", "--keeps-output"):
        parser.add_argument(name, action="store_true")
    parser.add_argument("--accumulate", type=int, default=1)
    return parser.parse_args(text.split())


# ---- models ----

def read_config(name):
    file = HERE / name if name.endswith(".json") else HERE.parent.parent / "published" / f"{name}.json"
    said = json.loads(file.read_text(encoding="utf-8"))
    said.pop("parameters", None)
    if said["model_type"] == "t5":
        said.setdefault("decoder_start_token_id", 0)
    return transformers.AutoConfig.for_model(**said)


def make(name, o):
    """On the CPU, in f32."""
    config = read_config(name)
    if o.framework == "pytorch":
        import measure_ways
        return measure_ways.Plain(config.n_embd, config.n_layer, config.n_head, config.n_positions, config.vocab_size)
    for key in [k for k in config.to_dict() if k.endswith(("pdrop", "dropout", "dropout_prob", "dropout_rate"))]:
        if o.dropout is not None:
            setattr(config, key, o.dropout)
    config.use_cache = False
    kind = transformers.AutoModelForCausalLM
    if config.model_type in MASKED:
        kind = transformers.AutoModelForMaskedLM
    if config.model_type == "t5":
        kind = transformers.AutoModelForSeq2SeqLM
    if config.model_type in IMAGES:
        kind = transformers.AutoModelForImageClassification
    eager = o.attn == "eager" or config.model_type in (*NO_ATTENTION, *NO_SDPA)
    return kind.from_config(config, attn_implementation="eager" if eager else "sdpa")


def prepare(model, o):
    """Casts, moves and wraps it, in the order in which people do."""
    model = model.to(torch.bfloat16 if o.dtype == "half" else torch.float32).to(DEVICE)
    model.train()
    if o.gradient_checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": o.reentrant})
    if o.adapter_rank:
        if o.gradient_checkpointing:
            model.enable_input_require_grads()
        targets = o.adapter_targets.split(",") if o.adapter_targets else "all-linear"
        model = peft.get_peft_model(model, peft.LoraConfig(r=o.adapter_rank, target_modules=targets,
                                                           task_type="CAUSAL_LM"))
    return model


def make_optimizer(model, o):
    weights = [p for p in model.parameters() if p.requires_grad]
    kernels = o.optimizer_kernels if o.optimizer_kernels != "auto" else "fused" if o.framework == "hf" else "foreach"
    how = dict(fused=True) if kernels == "fused" else dict(foreach=kernels == "foreach")
    if o.optimizer == "sgd":
        return torch.optim.SGD(weights, lr=0.01, momentum=o.momentum or 0, **how)
    return torch.optim.AdamW(weights, lr=1e-4, **how)


def make_batch(config, o):
    if config is not None and config.model_type in IMAGES:
        side = getattr(config, "image_size", 224)
        side = side[0] if isinstance(side, (list, tuple)) else side
        pixels = torch.rand(o.batch, 3, side, side, device=DEVICE)
        return {"pixel_values": pixels.to(torch.bfloat16) if o.dtype == "half" else pixels,
                "labels": torch.randint(0, config.num_labels, (o.batch,), device=DEVICE)}
    ids = torch.randint(0, config.vocab_size if config else 4096, (o.batch, o.context), device=DEVICE)
    return {"input_ids": ids, "labels": ids.clone()}


def step(model, optimizer, batch, o):
    kept = None
    for _ in range(o.accumulate):
        with torch.autocast(DEVICE, torch.bfloat16, enabled=o.dtype == "autocast"):
            output = model(**batch)
        loss = output if torch.is_tensor(output) else output.loss
        kept = output if o.keeps_output else None
        del output
        loss.backward()
    optimizer.step()
    del loss, kept
    optimizer.zero_grad(set_to_none=True)


# ---- one point ----

class Watch:
    """NVML's count of the whole device."""

    def __init__(self, idle):
        pynvml.nvmlInit()
        self.handle = pynvml.nvmlDeviceGetHandleByIndex(0)
        for _ in range(100):  # an earlier process may still be on its way out
            if idle is None or self.used() <= idle:
                break
            time.sleep(0.05)
        self.before = self.most = self.used()
        self.running = True
        self.thread = threading.Thread(target=self.look, daemon=True)
        self.thread.start()

    def used(self):
        return pynvml.nvmlDeviceGetMemoryInfo(self.handle, version=pynvml.nvmlMemory_v2).used

    def look(self):
        while self.running:
            self.most = max(self.most, self.used())
            time.sleep(0.003)

    def stop(self):
        self.running = False
        self.thread.join()
        self.most = max(self.most, self.used())

    def process(self):
        own = [p.usedGpuMemory for p in pynvml.nvmlDeviceGetComputeRunningProcesses(self.handle)
               if p.pid == os.getpid()]
        return own[0] if own else None


def peaks():
    return torch.cuda.max_memory_allocated(), torch.cuda.memory_stats()["requested_bytes.all.peak"]


def run(model, o, beside):
    if "expandable_segments" in beside:
        torch.cuda.memory._set_allocator_settings("expandable_segments:True")
    config = getattr(model, "config", None)
    model = prepare(model, o)
    optimizer, batch = make_optimizer(model, o), make_batch(config, o)
    if "torch.compile" in beside:
        model = torch.compile(model)
    own = o.framework == "pytorch"  # its module makes positions where new tensors go
    with torch.device(DEVICE) if own else contextlib.nullcontext():
        step(model, optimizer, batch, o)
        first = peaks()
        torch.cuda.reset_peak_memory_stats()
        for _ in range(STEPS - 1):
            step(model, optimizer, batch, o)
    torch.cuda.synchronize()
    return first


def measured(model, o, beside, idle):
    if "CUDA_MODULE_LOADING" in beside:
        os.environ["CUDA_MODULE_LOADING"] = "EAGER"
    torch.manual_seed(1)
    watch = Watch(idle)
    first = run(model, o, beside)
    watch.stop()
    later = peaks()
    layers = {"live": max(first[0], later[0]), "later": later[0], "requested": max(first[1], later[1]),
              "reserved": torch.cuda.max_memory_reserved(), "whole": watch.most - watch.before,
              "process": watch.process()}
    driver = pynvml.nvmlSystemGetDriverVersion()
    source = (f"measure_gpu.py, torch {torch.__version__}, transformers {transformers.__version__}, driver {driver}, "
              f"{torch.cuda.get_device_name()}")
    return {"layers": {k: v for k, v in layers.items() if v}, "before": watch.before, "source": source}


def child(pipe, *what):
    try:
        pipe.send(measured(*what))
    except Exception as e:
        pipe.send({"error": f"{type(e).__name__}: {str(e)[:300]}"})


def in_process(*what):
    """Forked before CUDA is there: what was imported and the model's weights need not be made again."""
    fork = multiprocessing.get_context("fork")
    here, there = fork.Pipe(duplex=False)
    process = fork.Process(target=child, args=(there, *what))
    process.start()
    there.close()
    try:
        said = here.recv() if here.poll(PATIENCE) else {"error": f"nothing within {PATIENCE} s"}
    except EOFError:
        said = {"error": "the process ended"}
    process.join(20)
    if process.is_alive():
        process.kill()
        process.join()
    return said


def known(file):
    if not file.exists():
        return set()
    with open(file, encoding="ascii", newline="") as rows:
        return {(row["model"], row["options"], row["beside"]) for row in csv.DictReader(rows)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("words", nargs="*")
    parser.add_argument("--device", default="h100-80", help="the file of devices/ that describes it")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no point later than that")
    parser.add_argument("--drawn", type=int, help="a seed: models and settings are drawn by it")
    args = parser.parse_args()
    file = FILE if args.drawn is None else HERE / "points_gpu_drawn.csv"
    wanted = points(args.device) if args.drawn is None else drawn(args.device, args.drawn)
    torch.set_num_threads(1)  # threads do not survive a fork
    start, there, idle, made, model = time.monotonic(), known(file), None, None, None
    with open(file, "a", newline="", encoding="ascii") as out:
        rows = csv.DictWriter(out, FIELDS, lineterminator="\n")
        if not there:
            rows.writeheader()
        for name, options, beside in wanted:
            point = f"{name} {options} {beside}".strip()
            if (name, options, beside) in there or not all(w in point for w in args.words):
                continue
            if time.monotonic() - start > args.seconds:
                print("no time for", point, flush=True)
                continue
            o = read_options(options)
            if made != (name, o.attn, o.dropout):
                model, made = make(name, o), (name, o.attn, o.dropout)
            said = in_process(model, o, beside, idle)
            print(f"{time.monotonic() - start:6.1f} s  {point}: {said.get('layers', said)}", flush=True)
            if "error" in said:
                continue
            idle = said["before"] if idle is None else min(idle, said["before"])
            for layer, bytes_ in said["layers"].items():
                rows.writerow({"model": name, "options": options, "beside": beside, "layer": layer, "bytes": bytes_,
                               "source": said["source"]})
            out.flush()


if __name__ == "__main__":
    main()
