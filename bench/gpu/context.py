#!/usr/bin/env python3
"""What a process of PyTorch holds of a GPU after each step of using it: context.py [--loading LAZY EAGER] [--alone]

Needs a GPU that nobody else uses, torch and nvidia-ml-py. Every way of loading modules has a process of its own, in
which the steps come one after the other; what a step adds therefore leaves out what earlier ones had loaded. --alone
makes every step the first one, in a process of its own, after a tensor. Prints, for each step: bytes that NVML counts
more, those of them that the caching allocator reserved, and what lies beside the allocator in all. Then the libraries
of CUDA that the process has mapped: the size of the file, of its images for GPUs (.nv_fatbin), and when it came.
"""

import argparse
import os
import pathlib
import struct
import subprocess
import sys

import pynvml

MIB = 2**20
state = {}


# ---- the steps ----

def import_torch():
    import torch
    state["torch"] = torch


def cuda_init():
    state["torch"].cuda.init()


def first_tensor():
    torch = state["torch"]
    state["tensor"] = torch.empty(1024, device="cuda")


def first_kernel():
    state["tensor"].fill_(1.0)


def elementwise():
    x = state["tensor"]
    (x * 2 + 1).exp().sum()


def random_numbers():
    state["torch"].randn(1024, device="cuda")


def product(dtype):
    torch = state["torch"]
    a = torch.ones(1024, 1024, device="cuda", dtype=dtype)
    a @ a


def product_f32():
    product(state["torch"].float32)


def product_bf16():
    product(state["torch"].bfloat16)


def product_batched():
    torch = state["torch"]
    a = torch.ones(8, 256, 256, device="cuda", dtype=torch.bfloat16)
    torch.bmm(a, a)


def linear_with_bias():
    torch = state["torch"]
    x = torch.ones(1024, 1024, device="cuda", dtype=torch.bfloat16)
    torch.nn.functional.linear(x, x, x[0])


def attention(backend, dtype):
    torch = state["torch"]
    q = torch.ones(2, 4, 256, 64, device="cuda", dtype=dtype, requires_grad=True)
    with torch.nn.attention.sdpa_kernel(backend):
        y = torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True)
    state["attention"] = y


def attention_backward():
    state["attention"].float().sum().backward()


def attention_flash():
    torch = state["torch"]
    attention(torch.nn.attention.SDPBackend.FLASH_ATTENTION, torch.bfloat16)


def attention_efficient():
    torch = state["torch"]
    attention(torch.nn.attention.SDPBackend.EFFICIENT_ATTENTION, torch.float32)


def attention_cudnn():
    torch = state["torch"]
    attention(torch.nn.attention.SDPBackend.CUDNN_ATTENTION, torch.bfloat16)


def norm_and_loss():
    torch = state["torch"]
    x = torch.ones(256, 1024, device="cuda", requires_grad=True)
    y = torch.nn.functional.gelu(torch.nn.functional.layer_norm(x, (1024,)))
    state["loss"] = torch.nn.functional.cross_entropy(y, torch.zeros(256, dtype=torch.long, device="cuda"))


def backward():
    state["loss"].backward()


def backward_of_products():
    torch = state["torch"]
    x = torch.ones(1024, 1024, device="cuda", requires_grad=True)
    (x @ x).sum().backward()


def optimizer(**how):
    torch = state["torch"]
    weights = [torch.ones(1024, 64, device="cuda", requires_grad=True) for _ in range(4)]
    for weight in weights:
        weight.grad = torch.ones_like(weight)
    torch.optim.AdamW(weights, **how).step()


def optimizer_foreach():
    optimizer(foreach=True)


def optimizer_fused():
    optimizer(fused=True)


def convolution():
    torch = state["torch"]
    x = torch.ones(8, 64, 32, 32, device="cuda", requires_grad=True)
    state["images"] = torch.nn.functional.conv2d(x, torch.ones(64, 64, 3, 3, device="cuda", requires_grad=True))


def convolution_backward():
    state["images"].sum().backward()


def other_stream():
    state["stream"] = state["torch"].cuda.Stream()


def kernel_on_stream():
    with state["torch"].cuda.stream(state["stream"]):
        state["tensor"].fill_(2.0)


def product_on_stream():
    torch = state["torch"]
    with torch.cuda.stream(state["stream"]):
        product(torch.bfloat16)


def product_on_second_stream():
    torch = state["torch"]
    with torch.cuda.stream(torch.cuda.Stream()):
        product(torch.bfloat16)


def copies():
    torch = state["torch"]
    x = torch.ones(1 << 20).pin_memory().to("cuda", non_blocking=True)
    x.sum().item()


def graph():
    torch = state["torch"]
    x = torch.ones(256, 256, device="cuda")
    state["graph"] = torch.cuda.CUDAGraph()
    with torch.cuda.graph(state["graph"]):
        for _ in range(100):
            x = x * 2
    state["graph"].replay()


def process_group():
    torch = state["torch"]
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29561", RANK="0", WORLD_SIZE="1")
    torch.distributed.init_process_group("nccl", device_id=torch.device("cuda", 0))


def all_reduce():
    state["torch"].distributed.all_reduce(state["tensor"])


def compiled():
    torch = state["torch"]
    f = torch.compile(lambda x: torch.nn.functional.gelu(x @ x).sum())
    x = torch.ones(256, 256, device="cuda", requires_grad=True)
    f(x).backward()


BASE = (import_torch, cuda_init, first_tensor, first_kernel)
STEPS = (elementwise, random_numbers, product_f32, product_bf16, product_batched, linear_with_bias, attention_flash,
         attention_backward, attention_efficient, attention_backward, attention_cudnn, norm_and_loss, backward,
         backward_of_products, optimizer_foreach, optimizer_fused, convolution, convolution_backward, copies,
         other_stream, kernel_on_stream, product_on_stream, product_on_second_stream, graph, process_group, all_reduce,
         compiled)
FOLLOWS = {attention_backward: attention_flash, backward: norm_and_loss, convolution_backward: convolution,
           all_reduce: process_group, kernel_on_stream: other_stream, product_on_stream: other_stream}


# ---- what is held ----

def used():
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    return pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2).used


def reserved():
    torch = state.get("torch")
    return torch.cuda.memory_reserved() if torch and torch.cuda.is_initialized() else 0


def settle():
    torch = state.get("torch")
    if torch and torch.cuda.is_initialized() and "tensor" in state:
        torch.cuda.synchronize()


def table(steps):
    first = used()
    before, before_reserved = first, 0
    came = {}
    print("| step | more, MiB | of it reserved, MiB | beside the allocator in all, MiB |\n|---|---|---|---|")
    for step in steps:
        name = step.__name__.replace("_", " ")
        try:
            step()
        except Exception as e:
            print(f"| {name}: {type(e).__name__} {str(e)[:60]!r} | | | |".replace("\n", " "), flush=True)
            continue
        settle()
        now, now_reserved = used(), reserved()
        print(f"| {name} | {(now - before) / MIB:.1f} | {(now_reserved - before_reserved) / MIB:.1f} "
              f"| {(now - first - now_reserved) / MIB:.1f} |", flush=True)
        before, before_reserved = now, now_reserved
        for path in libraries():
            came.setdefault(path, name)
    return came


# ---- libraries ----

def libraries():
    """Mapped files that are CUDA's or have images for GPUs, largest first."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        paths = {line.split(maxsplit=5)[5].strip() for line in maps if ".so" in line and "/" in line}
    return sorted((p for p in paths if os.path.exists(p) and os.path.getsize(p) > MIB), key=os.path.getsize)[::-1]


def images(path):
    """Bytes of the sections of an ELF file that hold code for GPUs."""
    with open(path, "rb") as file:
        head = file.read(64)
        if head[:5] != b"\x7fELF\x02":
            return 0
        at, = struct.unpack_from("<Q", head, 40)
        size, count, names = struct.unpack_from("<HHH", head, 58)
        file.seek(at)
        table_ = [struct.unpack("<IIQQQQIIQQ", file.read(size)[:64]) for _ in range(count)]
        if not table_:
            return 0
        file.seek(table_[names][4])
        strings = file.read(table_[names][5])
    return sum(s[5] for s in table_ if strings[s[0]:strings.index(b"\0", s[0])].startswith(b".nv_fatbin"))


def print_libraries(came):
    print("\n| library | file, MiB | images for GPUs, MiB | came with |\n|---|---|---|---|")
    for path, step in sorted(came.items(), key=lambda item: -os.path.getsize(item[0])):
        name, gpu = pathlib.Path(path).name, images(path)
        if gpu or "cu" in name or "nccl" in name or "nvidia" in name:
            print(f"| {name} | {os.path.getsize(path) / MIB:.1f} | {gpu / MIB:.1f} | {step} |")


# ---- processes ----

def alone(step):
    before = [FOLLOWS[step]] if step in FOLLOWS else []
    for s in (*BASE, *before):
        s()
    settle()
    held, held_reserved = used(), reserved()
    step()
    settle()
    more = reserved() - held_reserved
    print(f"| {step.__name__.replace('_', ' ')} | {(used() - held) / MIB:.1f} | {more / MIB:.1f} "
          f"| {(used() - held - more) / MIB:.1f} |", flush=True)


def in_process(loading, *arguments):
    environment = {**os.environ, "CUDA_MODULE_LOADING": loading}
    subprocess.run([sys.executable, __file__, "--here", *arguments], env=environment, check=False)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--loading", nargs="*", default=["LAZY", "EAGER"])
    parser.add_argument("--alone", action="store_true")
    parser.add_argument("--here", nargs="?", const="all", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.here:
        pynvml.nvmlInit()
        if args.here == "all":
            print_libraries(table((*BASE, *STEPS)))
        else:
            alone(next(s for s in STEPS if s.__name__ == args.here))
        if state["torch"].distributed.is_initialized():
            state["torch"].distributed.destroy_process_group()
        return
    for loading in args.loading:
        print(f"\nCUDA_MODULE_LOADING={loading}\n", flush=True)
        if args.alone:
            print("| step after a first tensor | more, MiB | of it reserved, MiB | beside the allocator, MiB |")
            print("|---|---|---|---|", flush=True)
        for step in dict.fromkeys(STEPS) if args.alone else ["all"]:
            in_process(loading, "all" if step == "all" else step.__name__)


if __name__ == "__main__":
    main()
