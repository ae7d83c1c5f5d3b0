#!/usr/bin/python3
"""How many warps of each kernel does a multiprocessor hold, of each generation of GPUs? Wants nvcc, and no GPU.

    bench/gpu/occupancy.py [--architectures 75,80,86,89,90a,100,120] [--only matmul]
                           [--out bench/results/gpu_occupancy.md]

ptxas says what each kernel takes of registers and shared memory; PTX says how many threads a block has. What one
multiprocessor has of these is from the tables of NVIDIA's CUDA C++ Programming Guide, "Compute Capabilities". Shared
memory that the host asks for when it starts a kernel is in neither, so its kernels are marked, and what they hold is
at most what is told. --keep FILE remembers what was compiled, by the text that it was compiled from."""

import argparse
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from measure import ROOT, commit  # noqa: E402

# Of one multiprocessor: warps, blocks, bytes of shared memory. All have 65,536 registers.
LIMITS = {"70": (64, 32, 96 << 10), "75": (32, 16, 64 << 10), "80": (64, 32, 164 << 10), "86": (48, 16, 100 << 10),
          "89": (48, 24, 100 << 10), "90a": (64, 32, 228 << 10), "100": (64, 32, 228 << 10),
          "100a": (64, 32, 228 << 10), "120": (48, 24, 100 << 10)}
REGISTERS, WARP = 65536, 32
REGISTERS_AT_ONCE, WARPS_AT_ONCE = 256, 4  # in which a warp gets its registers, and a block its warps
broken = []  # kernels that a build would refuse
RESERVED = 1 << 10  # bytes of shared memory that each block takes besides, from 8.0 on


def warps_held(architecture, registers, threads, shared):
    """Warps of one multiprocessor that blocks of such a kernel fill."""
    most_warps, most_blocks, most_shared = LIMITS[architecture]
    warps = -(-threads // WARP)
    each = -(-registers * WARP // REGISTERS_AT_ONCE) * REGISTERS_AT_ONCE
    by_registers = REGISTERS // each // WARPS_AT_ONCE * WARPS_AT_ONCE // warps
    taken = shared + (RESERVED if int(architecture.rstrip("a")) >= 80 else 0)
    blocks = min(by_registers, most_warps // warps, most_blocks, most_shared // taken if taken else most_blocks)
    return blocks * warps


def run(command):
    got = subprocess.run(command, capture_output=True, text=True)
    if got.returncode:
        sys.exit(f"{' '.join(command)}:\n{got.stderr}")
    return got.stdout + got.stderr


def blocks_of(ptx):
    """Threads of a block, and whether the host gives shared memory, by kernel."""
    found = {}
    for part in ptx.split(".entry ")[1:]:
        name = re.match(r"[\w$]+", part).group()
        threads = re.search(r"\.(?:max|req)ntid (\d+)", part[:part.index("{")])
        found[name] = (int(threads.group(1)) if threads else 1024, "gpu_shared_bytes" in part)
    return found


def kernels_of(options, source, architecture):
    """[name, registers, bytes of shared memory, threads, is more shared memory given]."""
    with tempfile.TemporaryDirectory() as folder:
        ptx = f"{folder}/kernels.ptx"
        run([options.nvcc, "-ptx", f"-arch=compute_{architecture}", "-std=c++17", "-O2", "-fmad=false", "-DSNUG_CUDA",
             "-DSNUG_CUDA_DEVICE", "-DSNUG_CUDA_GROUPS", "-DSNUG_CUDA_TMEM", "-I", str(ROOT / "include"), "-I",
             str(ROOT / "src"), str(source), "-o", ptx])
        told = run([str(pathlib.Path(options.nvcc).parent / "ptxas"), f"-arch=sm_{architecture}", "-v", ptx, "-o",
                    f"{folder}/kernels.cubin"])
        blocks = blocks_of(pathlib.Path(ptx).read_text())
    found = []
    for name, said in re.findall(r"Compiling entry function '([\w$]+)'[^\n]*\n((?:(?!.*Compiling).*\n)*)", told):
        registers = int(re.search(r"Used (\d+) registers", said).group(1))
        shared = re.search(r"(\d+) bytes smem", said)
        spilled = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill", said)
        if spilled and (int(spilled.group(1)) or int(spilled.group(2))):
            print(f"{source}, {architecture}: {name} has a stack or spills", file=sys.stderr)
            broken.append(name)
        found.append([name, registers, int(shared.group(1)) if shared else 0, *blocks[name]])
    return found


def text_of(source, seen=None):
    """The source with all that it includes of this tree."""
    seen = set() if seen is None else seen
    if source in seen or not source.exists():
        return ""
    seen.add(source)
    text = source.read_text()
    return text + "".join(text_of(ROOT / "src" / name, seen) for name in re.findall(r'#include "([^"]+)"', text))


def plain_names(kernels):
    names = subprocess.run(["c++filt"], input="\n".join(k[0] for k in kernels), capture_output=True, text=True)
    return [re.sub(r"^void |\(.*$|\(anonymous namespace\)::|<.*$", "", x) for x in names.stdout.splitlines()]


def rows_of(found, architectures):
    """One row for the kernels of a name in a file: registers and warps of all architectures, from least to most."""
    rows = {}
    for architecture in architectures:
        for kernel, plain in zip(found[architecture], plain_names(found[architecture])):
            row = rows.setdefault(plain, {"kernels": set(), "threads": set(), "given": False, "of": {}})
            name, registers, shared, threads, given = kernel
            row["kernels"].add(name), row["threads"].add(threads)
            row["given"] |= given
            held = warps_held(architecture, registers, threads, shared)
            row["of"].setdefault(architecture, []).append((registers, held))
    return rows


def span(numbers):
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low}-{high}"


def cell(row, architecture):
    told = row["of"].get(architecture)
    return f"{span([r for r, _ in told])}: {span([w for _, w in told])}" if told else ""


def main():
    o = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    o.add_argument("--architectures", default="75,80,86,89,90a,100,120")
    o.add_argument("--nvcc", default="/usr/local/cuda/bin/nvcc")
    o.add_argument("--only", default="")
    o.add_argument("--keep", default="")
    o.add_argument("--out", default=str(ROOT / "bench/results/gpu_occupancy.md"))
    o = o.parse_args()
    architectures = o.architectures.split(",")
    kept = json.loads(pathlib.Path(o.keep).read_text()) if o.keep and os.path.exists(o.keep) else {}
    lines, total = [], 0
    for source in sorted((ROOT / "src/ops").rglob("*.cu")):
        if not re.search(o.only, str(source)):
            continue
        found, digest = {}, hashlib.sha256(text_of(source).encode()).hexdigest()[:16]
        for architecture in architectures:
            key = f"{source.relative_to(ROOT)} {architecture} {digest}"
            if key not in kept:
                kept[key] = kernels_of(o, source, architecture)
                if o.keep:
                    pathlib.Path(o.keep).write_text(json.dumps(kept))
            found[architecture] = kept[key]
        print(source.name, file=sys.stderr, flush=True)
        for plain, row in sorted(rows_of(found, architectures).items()):
            total += len(row["kernels"])
            name = f"{source.stem}: {plain}" + (" *" if row["given"] else "")
            lines.append([name, str(len(row["kernels"])), span(row["threads"]),
                          *(cell(row, a) for a in architectures)])
    if broken:
        sys.exit(f"{len(broken)} kernels have a stack or spill, so no build has them")
    heads = ["kernel", "of it", "threads", *(f"{a.rstrip('a')[:-1]}.{a.rstrip('a')[-1]}" for a in architectures)]
    text = "\n".join(f"| {' | '.join(line)} |" for line in [heads, ["---"] * len(heads), *lines])
    version = re.search(r"release ([\d.]+)", run([o.nvcc, "--version"])).group(1)
    pathlib.Path(o.out).write_text(
        "# What a multiprocessor holds of each kernel\n\n"
        f"`bench/gpu/occupancy.py`, commit {commit()}, nvcc {version}: {total} kernels, of which each generation has "
        "its own code. None spills, none has a stack.\n\nA cell says registers of a thread, and warps that a "
        "multiprocessor holds by registers, by threads and by the kernel's own shared memory, of at most "
        + ", ".join(f"{LIMITS[a][0]} ({h})" for a, h in zip(architectures, heads[3:]))
        + ". From the least to the most, where a name stands for several kernels. `*`: the host gives shared memory as "
        "well, so that there are at most as many.\n\n" + text + "\n")


main()
