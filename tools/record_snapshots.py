#!/usr/bin/env python3
"""Records PyTorch's memory snapshots of small training runs on a GPU, and beside each what is known of its tensors:
record_snapshots.py [FOLDER] [CASE...]

Needs a GPU, torch, transformers, accelerate and peft. FOLDER (bench/snapshots) gets CASE.pickle.gz, which is what
torch.cuda.memory._dump_snapshot writes, and CASE.json, the truth to hold a reader against:

key            what
case, torch, device, settings
max_allocated_bytes, max_reserved_bytes   torch's own, at the moment of the snapshot
moments        at each: what, time_us (the clock of the snapshot's events), allocated_bytes, reserved_bytes, and
               tensors: role, name, address, bytes of the storage, in the order of the addresses
error          what was said when memory ran out

Roles are weight, buffer, gradient, state (of the optimizer), input, output, saved (what autograd keeps and is none of
the others). A storage is named once, by the first role that it has. Frames name files from their package on: nothing
tells of the machine but its GPU.
"""

import contextlib
import gzip
import json
import multiprocessing
import os
import pathlib
import pickle
import re
import sys
import tempfile
import time

os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")  # whoever asks whether there is a GPU starts no CUDA

import peft
import torch
import transformers

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "bench" / "snapshots"
MOST_EVENTS, BATCH, CONTEXT = 20000, 4, 64
GPT2 = dict(n_embd=64, n_layer=2, n_head=4, n_positions=CONTEXT, vocab_size=512, bos_token_id=None, eos_token_id=None)
LLAMA = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=4, intermediate_size=176,
             vocab_size=512, max_position_embeddings=CONTEXT, pad_token_id=None, bos_token_id=None, eos_token_id=None)


def make(kind="gpt2", **more):
    config = transformers.GPT2Config(**GPT2, **more) if kind == "gpt2" else transformers.LlamaConfig(**LLAMA, **more)
    config.use_cache = False
    return transformers.AutoModelForCausalLM.from_config(config)


def make_batch(batch=BATCH):
    ids = torch.randint(0, 512, (batch, CONTEXT), device="cuda")
    return {"input_ids": ids, "labels": ids.clone()}


# ---- the truth ----

class Truth:
    def __init__(self, case, settings):
        self.said = {"case": case, "torch": torch.__version__, "device": torch.cuda.get_device_name(),
                     "settings": settings, "moments": []}
        self.model = self.optimizer = self.batch = self.output = None
        self.saved = {}

    def known(self):
        """(role, name, tensor)"""
        model = self.model
        for name, p in model.named_parameters() if model else ():
            yield "weight", name, p
        for name, b in model.named_buffers() if model else ():
            yield "buffer", name, b
        for name, p in model.named_parameters() if model else ():
            yield "gradient", name, p.grad
        names = {p: name for name, p in model.named_parameters()} if model else {}
        for p, state in self.optimizer.state.items() if self.optimizer else ():
            for key, t in state.items():
                yield "state", f"{names.get(p, '')}.{key}", t
        for name, t in (self.batch or {}).items():
            yield "input", name, t
        for name, t in (self.output or {}).items():
            yield "output", name, t

    def at(self, what):
        found = {}
        for role, name, t in self.known():
            t = getattr(t, "_local_tensor", t)
            if torch.is_tensor(t) and t.is_cuda and t.untyped_storage().nbytes():
                storage = t.untyped_storage()
                found.setdefault(storage.data_ptr(), (role, name, storage.data_ptr(), storage.nbytes()))
        held = {b["address"] for s in torch.cuda.memory_snapshot() for b in s["blocks"]
                if b["state"] == "active_allocated"}
        for address, bytes_ in self.saved.items():
            if address in held:  # FSDP lets go of what it gathered, whoever saved it
                found.setdefault(address, ("saved", "", address, bytes_))
        self.said["moments"].append({
            "what": what, "time_us": time.time_ns() // 1000, "allocated_bytes": torch.cuda.memory_allocated(),
            "reserved_bytes": torch.cuda.memory_reserved(), "tensors": [found[a] for a in sorted(found)]})

    def pack(self, t):
        local = getattr(t, "_local_tensor", t)
        if local.is_cuda:
            self.saved[local.untyped_storage().data_ptr()] = local.untyped_storage().nbytes()
        return t

    def watched(self):
        """Within it what autograd saves is noted; it must be forgotten when backward begins."""
        self.saved = {}
        return torch.autograd.graph.saved_tensors_hooks(self.pack, lambda t: t)


# ---- snapshots ----

def without_machine(path):
    """From the package on; of other files the last name."""
    for mark in ("/site-packages/", "/dist-packages/"):
        if mark in path:
            return path.split(mark)[-1]
    library = re.search(r"/lib/(python3[.]\d+/.*)", path)
    if library:
        return library.group(1)
    if "torchinductor" in path:
        return "torchinductor/" + path.rsplit("/", 1)[-1]
    return path.rsplit("/", 1)[-1] if path.startswith("/") else path


def shorten(value, seen):
    """Frames are dicts that many stacks share; each is changed once."""
    if isinstance(value, (list, tuple)):
        for item in value:
            if isinstance(item, (list, tuple, dict)):
                shorten(item, seen)
    elif isinstance(value, dict) and id(value) not in seen:
        seen.add(id(value))
        if isinstance(value.get("filename"), str):
            value["filename"] = without_machine(value["filename"])
        else:
            shorten(list(value.values()), seen)


def snapshot():
    taken = torch.cuda.memory._snapshot()
    shorten(taken, set())
    return taken


def write(folder, truth, taken):
    name = truth.said["case"]
    truth.said.setdefault("max_allocated_bytes", torch.cuda.max_memory_allocated())
    truth.said.setdefault("max_reserved_bytes", torch.cuda.max_memory_reserved())
    with gzip.GzipFile(folder / f"{name}.pickle.gz", "wb", compresslevel=9, mtime=0) as out:
        pickle.dump(taken, out)
    text = json.dumps(truth.said, separators=(",", ":")).replace('{"what"', '\n{"what"')
    (folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")


# ---- what is trained ----

def loop(truth, model, autocast=False, steps=3, saved=True, optimizer=None):
    """The snapshot is taken in the last step, between forward and backward."""
    weights = [p for p in model.parameters() if p.requires_grad]
    truth.model, truth.batch = model, make_batch()
    truth.optimizer = optimizer = optimizer or torch.optim.AdamW(weights, foreach=True)
    truth.at("before the first step")
    for i in range(steps):
        last = i == steps - 1
        with truth.watched() if saved and last else contextlib.nullcontext():
            with torch.autocast("cuda", torch.bfloat16, enabled=autocast):
                output = model(**truth.batch)
        truth.output = {"loss": output.loss, "logits": output.logits}
        truth.at(f"step {i + 1}, after forward")
        if last:
            return snapshot()
        loss, truth.output, output = output.loss, None, None
        loss.backward()
        truth.at(f"step {i + 1}, after backward")
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        del loss
        truth.at(f"step {i + 1}, after the update")


def plain(truth):
    return loop(truth, make().cuda())


def autocast(truth):
    return loop(truth, make("llama").cuda(), autocast=True)


def checkpointing(truth):
    model = make("llama").cuda()
    model.train()
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return loop(truth, model)


def lora(truth):
    model = make("llama").to(torch.bfloat16).cuda()
    config = peft.LoraConfig(r=8, target_modules="all-linear", task_type="CAUSAL_LM")
    return loop(truth, peft.get_peft_model(model, config))


def compiled(truth):
    model = make(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0).cuda()
    model.compile()
    return loop(truth, model, saved=False)


def sharded(truth):
    from torch.distributed.fsdp import fully_shard
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29571", RANK="0", WORLD_SIZE="1")
    torch.distributed.init_process_group("nccl", device_id=torch.device("cuda", 0))
    model = make("llama").cuda()
    for block in model.model.layers:
        fully_shard(block)
    fully_shard(model)
    return loop(truth, model)


def expandable(truth):
    torch.cuda.memory._set_allocator_settings("expandable_segments:True")
    return loop(truth, make().cuda())


def streams(truth):
    """Copies in and products run on streams of their own, as loaders and overlapping collectives do."""
    weight = torch.randn(512, 512, device="cuda", requires_grad=True)
    truth.model = torch.nn.ParameterDict({"weight": weight})
    truth.optimizer = torch.optim.SGD([weight], lr=0.1, momentum=0.9, foreach=True)
    copies, side = torch.cuda.Stream(), torch.cuda.Stream()
    for i in range(3):
        with torch.cuda.stream(copies):
            x = torch.randn(256, 512).pin_memory().to("cuda", non_blocking=True)
        torch.cuda.current_stream().wait_stream(copies)
        x.record_stream(torch.cuda.current_stream())
        truth.batch = {"x": x}
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            beside = (x @ weight.detach()).relu()
        with truth.watched():
            y = (x @ weight).relu()
        torch.cuda.current_stream().wait_stream(side)
        beside.record_stream(torch.cuda.current_stream())
        loss = (y - beside * 0.5).square().mean()
        truth.output = {"y": y, "beside": beside}
        truth.at(f"step {i + 1}, after forward")
        if i == 2:
            return snapshot()
        truth.saved, truth.output = {}, None
        loss.backward()
        del x, y, beside, loss
        truth.optimizer.step()
        truth.optimizer.zero_grad(set_to_none=True)
        truth.at(f"step {i + 1}, after the update")


def out_of_memory(truth):
    """The batch is doubled until it fails. The snapshot is the one at the failure."""
    _, total = torch.cuda.mem_get_info()
    truth.said["settings"]["limit_bytes"] = limit = 192 << 20
    torch.cuda.set_per_process_memory_fraction(limit / total)
    model = make(attn_implementation="eager").cuda()
    truth.model, truth.optimizer = model, torch.optim.AdamW(model.parameters(), foreach=True)
    taken, batch = [], BATCH

    def failed(*_):
        truth.at("at the failure")
        taken.append(snapshot())

    torch._C._cuda_attach_out_of_memory_observer(failed)
    try:
        while True:
            truth.batch = make_batch(batch)
            model(**truth.batch).loss.backward()
            truth.optimizer.step()
            truth.at(f"batch {batch}, after the update")
            truth.optimizer.zero_grad(set_to_none=True)
            batch *= 2
    except torch.OutOfMemoryError as e:
        truth.said["error"], truth.said["settings"]["failed_batch"] = str(e), batch
    return taken[-1] if taken else snapshot()


class Moments(transformers.TrainerCallback):
    def __init__(self, truth):
        self.truth, self.taken = truth, None

    def on_pre_optimizer_step(self, args, state, control, model=None, optimizer=None, **_):
        self.truth.model, self.truth.optimizer = model, getattr(optimizer, "optimizer", optimizer)
        self.truth.at(f"step {state.global_step + 1}, before the update")
        if state.global_step + 1 == args.max_steps:
            self.taken = snapshot()

    def on_optimizer_step(self, args, state, control, **_):
        self.truth.at(f"step {state.global_step + 1}, after the update")


def trainer(truth):
    ids = torch.randint(0, 512, (64, CONTEXT))
    samples = [{"input_ids": row, "labels": row} for row in ids]
    moments = Moments(truth)
    with tempfile.TemporaryDirectory() as folder:
        args = transformers.TrainingArguments(
            folder, per_device_train_batch_size=BATCH, gradient_accumulation_steps=2, max_steps=3, bf16=True,
            report_to=[], save_strategy="no", logging_strategy="no", disable_tqdm=True, gradient_checkpointing=False)
        transformers.Trainer(make(), args, train_dataset=samples, callbacks=[moments]).train()
    return moments.taken


CASES = {
    "plain": (plain, {"model": "gpt2", "optimizer": "adamw, foreach"}),
    "autocast": (autocast, {"model": "llama", "optimizer": "adamw, foreach", "autocast": "bf16"}),
    "trainer": (trainer, {"model": "gpt2", "optimizer": "the Trainer's", "autocast": "bf16", "accumulate": 2}),
    "lora": (lora, {"model": "llama", "weights": "bf16", "adapter_rank": 8, "optimizer": "adamw, foreach"}),
    "compile": (compiled, {"model": "gpt2", "optimizer": "adamw, foreach"}),
    "fsdp": (sharded, {"model": "llama", "ranks": 1, "optimizer": "adamw, foreach"}),
    "checkpointing": (checkpointing, {"model": "llama", "optimizer": "adamw, foreach"}),
    "oom": (out_of_memory, {"model": "gpt2", "attention": "eager", "optimizer": "adamw, foreach"}),
    "expandable": (expandable, {"model": "gpt2", "optimizer": "adamw, foreach"}),
    "streams": (streams, {"optimizer": "sgd, foreach"}),
}


def record(folder, name):
    case, settings = CASES[name]
    torch.manual_seed(1)
    torch.cuda.init()
    torch.cuda.memory._record_memory_history(max_entries=MOST_EVENTS, stacks="python", context="all")
    truth = Truth(name, {"batch": BATCH, "context": CONTEXT, **settings})
    write(folder, truth, case(truth))
    print(name, (folder / f"{name}.pickle.gz").stat().st_size, "bytes,", len(truth.said["moments"]), "moments",
          flush=True)


def main():
    names = [word for word in sys.argv[1:] if word in CASES]
    folder = pathlib.Path(next((word for word in sys.argv[1:] if word not in CASES), FOLDER))
    folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)  # threads do not survive a fork
    failed = 0
    for name in names or CASES:
        process = multiprocessing.get_context("fork").Process(target=record, args=(folder, name))
        process.start()
        process.join(180)
        if process.is_alive():
            process.kill()
        failed += process.exitcode != 0
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
