#!/usr/bin/python3
"""How long is a training step of models of images and of a mixture of experts, and in how much memory?

    bench/images.py --torch-current PYTHON [--build build] [--only resnet-50,...] [--rounds 3] [--bits 16] [--out ...]

f32 or, with --bits 16, mixed-bf16 beside bf16 autocast; AdamW, clipping at 1, no dropout, random images of 224 x 224.
PyTorch runs the models of transformers with channels last, default, tuned (an allocator that keeps what was freed, the
widest vectors, the fused AdamW) and, with --compile 1, tuned and compiled. snug runs without a budget and, with
--budget, in at most so many MiB. All take turns, step by step; memory is the process's peak, from outside. One step
each warms up. With --processor-time 1 a step's time is what its threads had of the processors, which on a shared
machine and with --threads 1 says more than the clock."""

import json
import os
import pathlib
import tempfile

from measure import MIB, ROOT, Page, Worker, median, options, torch_environment, torch_version, turns

MIXTURE = {"model_type": "mixtral", "architectures": ["MixtralForCausalLM"], "vocab_size": 8192, "hidden_size": 256,
           "intermediate_size": 512, "num_hidden_layers": 6, "num_attention_heads": 8, "num_key_value_heads": 8,
           "max_position_embeddings": 512, "num_local_experts": 8, "num_experts_per_tok": 2, "rms_norm_eps": 1e-5,
           "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": False, "output_router_logits": False}
RESNET = {"model_type": "resnet", "num_channels": 3, "embedding_size": 64, "hidden_sizes": [256, 512, 1024, 2048],
          "depths": [3, 4, 6, 3], "layer_type": "bottleneck", "hidden_act": "relu", "downsample_in_first_stage": False}
VIT = {"model_type": "vit", "image_size": 224, "num_channels": 3, "num_hidden_layers": 12, "num_attention_heads": 12,
       "hidden_size": 768, "intermediate_size": 3072, "patch_size": 16, "hidden_act": "gelu", "layer_norm_eps": 1e-12,
       "attention_probs_dropout_prob": 0, "hidden_dropout_prob": 0, "qkv_bias": True}
CONVNEXT = {"model_type": "convnext", "num_channels": 3, "patch_size": 4, "hidden_sizes": [96, 192, 384, 768],
            "depths": [3, 3, 9, 3], "layer_norm_eps": 1e-12, "layer_scale_init_value": 1e-6, "hidden_act": "gelu",
            "image_size": 224, "drop_path_rate": 0}
# what transformers and snug get, context
CASES = {"resnet-50": (RESNET, 0), "vit-base": (VIT, 0), "convnext-tiny": (CONVNEXT, 0), "mixture": (MIXTURE, 128)}
LABELS = {str(i): f"class {i}" for i in range(1000)}


def write_config(folder, case):
    config = dict(CASES[case][0])
    if not CASES[case][1]:
        config |= {"id2label": LABELS, "label2id": {name: int(i) for i, name in LABELS.items()}}
        config["architectures"] = [{"resnet": "ResNet", "vit": "ViT", "convnext": "ConvNext"}[config["model_type"]] +
                                   "ForImageClassification"]
    path = pathlib.Path(folder) / case
    path.mkdir()
    (path / "config.json").write_text(json.dumps(config))
    return path


def peers(o, path, context):
    version = torch_version(o.torch_current)
    kinds = ("default", "tuned", *(("compiled",) if o.compile else ())) if version else ()
    for kind in kinds:
        environment = torch_environment("tuned" if kind == "compiled" else kind, o.threads)
        if kind == "compiled":
            environment["TORCH_COMPILE"] = "1"
        if o.bits == 16:
            environment["TORCH_AUTOCAST"] = "1"
        yield Worker(f"PyTorch {version}, {kind}", [o.torch_current, ROOT / "bench/peers/images_torch.py", path,
                                                    o.batch, context], environment)


def snug(o, name, model, context, budget):
    return Worker(name, [f"{o.build}/bench-step", model, o.batch, context, budget, 1, o.threads, "-",
                         *(["precision=mixed-bf16"] if o.bits == 16 else [])])


def processor_seconds(worker):
    with open(f"/proc/{worker.process.pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def processor_turns(workers, rounds):
    seconds = {w.name: [] for w in workers}
    for number in range(rounds + 1):
        for w in workers if number % 2 == 0 else workers[::-1]:
            if w.process:
                before = processor_seconds(w)
                if w.ask() and number:
                    seconds[w.name].append(processor_seconds(w) - before)
    return seconds


def measure(o, case, folder):
    """Name -> (seconds of each round, peak bytes); predicted seconds of ours."""
    context = CASES[case][1]
    path = write_config(folder, case)
    workers = [*peers(o, path, context), snug(o, "snug, no budget", path, context, 0)]
    if o.budget:
        workers.append(snug(o, f"snug, at most {o.budget} MiB", path, context, o.budget * MIB))
    for w in workers:
        if w.ready is None:
            print(f"{w.name}: {w.why}")
    predicted = {w.name: float(w.ready[0]) for w in workers if w.ready and w.name.startswith("snug")}
    seconds = processor_turns(workers, o.rounds) if o.processor_time else turns(workers, o.rounds)
    for w in workers:
        w.close()
    return {w.name: (seconds[w.name], w.peak) for w in workers if seconds[w.name]}, predicted


def report(o, page, case, folder):
    result, predicted = measure(o, case, folder)
    context = CASES[case][1]
    page.say(f"\n## {case}, batch {o.batch}{f' x {context}' if context else ''}\n")
    page.head("who", "step, ms", "least, ms", "most, ms", "peak, MiB", "predicted, ms", "time / PyTorch's fastest",
              "memory / PyTorch's least")
    theirs = [r for name, r in result.items() if name.startswith("PyTorch")]
    fastest = min((median(s) for s, _ in theirs), default=0)
    least = min((peak for _, peak in theirs), default=0)
    for name, (seconds, peak) in result.items():
        page.row(name, f"{median(seconds) * 1e3:,.0f}", f"{min(seconds) * 1e3:,.0f}", f"{max(seconds) * 1e3:,.0f}",
                 f"{peak / MIB:,.0f}", f"{predicted[name] * 1e3:,.0f}" if name in predicted else "",
                 f"{median(seconds) / fastest:.2f}" if fastest else "-", f"{peak / least:.2f}" if least else "-")


def main():
    o = options(__doc__, "images", rounds=3, batch=8, budget=0, bits=32, compile=0, processor_time=0,
                only=",".join(CASES))
    types = "mixed-bf16 and bf16 autocast" if o.bits == 16 else "f32"
    page = Page("Models of images, and a mixture of experts", o.out,
                f"{types}, {o.threads} threads; medians of {o.rounds} steps after one" +
                (", in processor time." if o.processor_time else "."))
    if not torch_version(o.torch_current):
        page.say("Not measured here: PyTorch, which was not found.")
    for case in o.only.split(","):
        with tempfile.TemporaryDirectory() as folder:
            report(o, page, case, folder)
            page.write()


if __name__ == "__main__":
    main()
