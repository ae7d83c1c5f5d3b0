#!/usr/bin/python3
"""How many warps of each kernel does a multiprocessor hold, of each generation of GPUs? Wants nvcc, and no GPU.

    bench/gpu/occupancy.py [--architectures 75,80,86,89,90a,100,120] [--only matmul]
                           [--out bench/results/gpu_occupancy.md]
    bench/gpu/occupancy.py --tiles [--architectures 90a,100a] [--only 'matmul/.*(group|tmem)'] [--out FILE]

ptxas says what each kernel takes of registers and shared memory; PTX says how many threads a block has. What one
multiprocessor has of these is from the tables of NVIDIA's CUDA C++ Programming Guide, "Compute Capabilities". Shared
memory that the host asks for when it starts a kernel is in neither, so its kernels are marked, and what they hold is
at most what is told. --keep FILE remembers what was compiled, by the text that it was compiled from.

--tiles has a row for each tile of products by groups of warps (90a) and in tensor memory (100a), with registers, stack,
spills and the shared memory that the host gives: that is asked of the tile's own header, by g++."""

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
EMPTY_KERNEL = 16  # registers of one whose body is left out of this generation's code
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
    """[name, registers, bytes of shared memory, threads, is more shared memory given, bytes of stack, of spills]."""
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
        stack = [int(n) for n in spilled.groups()] if spilled else [0, 0]
        if any(stack):
            print(f"{source}, {architecture}: {name} has a stack or spills", file=sys.stderr)
            broken.append(name)
        found.append([name, registers, int(shared.group(1)) if shared else 0, *blocks[name], *stack])
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
            name, registers, shared, threads, given = kernel[:5]
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


# What says how much shared memory the host gives such a kernel, by the names of its template's arguments.
GIVEN = {"matmul_tmem_kernel": "tmem_ring<{1}, tmem_way<{2}>::BULK>::SHARED",
         "matmul_group_bulk_kernel": "group_ring<{1}>::SHARED", "matmul_group_kernel": "{1}::SHARED"}
WAYS = {"matmul_tmem_kernel": 2, "matmul_group_kernel": 2}  # the argument that says how operands come
WAY_NAMES = {"group_bulk": "copy engine", "tensor_reads": "registers", "matmul_fp8_widens": "registers, widened",
             "tensor_copies": "cp.async"}


def arguments_of(text):
    """Of a template, whose list begins the text."""
    found, depth, start = [], 0, 1
    for i, c in enumerate(text):
        depth += (c == "<") - (c == ">")
        if (c == "," and depth == 1) or depth == 0:
            found.append(re.sub(r"\(\w+\)", "", text[start:i]).strip())
            start = i + 1
        if depth == 0:
            return found
    return found


def tile_of(kernel):
    """(kernel, tile, way), and what says how much shared memory it is given; None: it has no such tile."""
    plain = subprocess.run(["c++filt"], input=kernel, capture_output=True, text=True).stdout
    match = re.search(r"(matmul_\w+_kernel)(<.*)", plain)
    if not match or match.group(1) not in GIVEN:
        return None
    name, of = match.group(1), arguments_of(match.group(2))
    way = of[WAYS[name]] if name in WAYS else "group_bulk"
    return (name, of[1], WAY_NAMES.get(way, way)), GIVEN[name].format(*of)


def values_of(expressions):
    """What these constants of the headers are."""
    told = "".join(f'    printf("%d\\n", (int)({e}));\n' for e in expressions)
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(f"{folder}/told.cc")
        source.write_text('#include <stdio.h>\n#include "ops/matmul/matmul_tmem_cuda.h"\n'
                          '#include "ops/matmul_fp8/matmul_fp8_tensor_cuda.h"\n'
                          f"int main() {{\n{told}}}\n")
        run(["g++", "-std=gnu++17", "-O1", "-w", "-DSNUG_CUDA", "-DSNUG_CUDA_EMULATED", "-I", str(ROOT / "include"),
             "-I", str(ROOT / "src"), str(source), "-Wl,--unresolved-symbols=ignore-all", "-o", f"{folder}/told"])
        return [int(x) for x in run([f"{folder}/told"]).split()]


def tile_rows(source, found, architecture):
    rows = {}
    for kernel in found:
        tile = tile_of(kernel[0])
        if tile and kernel[1] > EMPTY_KERNEL:
            rows.setdefault(tile, []).append(kernel)
    order, lines = sorted(rows), []
    for ((name, tile, way), expression), shared in zip(order, values_of([e for _, e in order])):
        kernels = rows[(name, tile, way), expression]
        threads = {k[3] for k in kernels}
        held = [warps_held(architecture, k[1], k[3], shared) * WARP // k[3] for k in kernels]
        lines.append([f"{source.stem}: {name}", tile, way, str(len(kernels)), span(threads),
                      span([k[1] for k in kernels]), f"{max(k[5] for k in kernels)}, {max(k[6] for k in kernels)}",
                      f"{shared:,}", span(held)])
    return lines


def main():
    o = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    o.add_argument("--architectures", default="")
    o.add_argument("--tiles", action="store_true")
    o.add_argument("--nvcc", default="/usr/local/cuda/bin/nvcc")
    o.add_argument("--only", default="")
    o.add_argument("--keep", default="")
    o.add_argument("--out", default="")
    o = o.parse_args()
    o.out = o.out or str(ROOT / f"bench/results/gpu_occupancy{'_tiles' if o.tiles else ''}.md")
    o.only = o.only or (r"matmul\w*/.*(group|tmem)_cuda" if o.tiles else "")
    architectures = (o.architectures or ("90a,100a" if o.tiles else "75,80,86,89,90a,100,120")).split(",")
    kept = json.loads(pathlib.Path(o.keep).read_text()) if o.keep and os.path.exists(o.keep) else {}
    sources = [s for s in sorted((ROOT / "src/ops").rglob("*.cu")) if re.search(o.only, str(s))]
    (write_tiles if o.tiles else write_kernels)(o, architectures, sources, kept)


def kernels_kept(o, source, architecture, kept):
    digest = hashlib.sha256(text_of(source).encode()).hexdigest()[:16]
    key = f"{source.relative_to(ROOT)} {architecture} {digest}"
    if key not in kept:
        kept[key] = kernels_of(o, source, architecture)
        if o.keep:
            pathlib.Path(o.keep).write_text(json.dumps(kept))
    print(source.name, architecture, file=sys.stderr, flush=True)
    return kept[key]


def table(lines):
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def nvcc_version(o):
    return re.search(r"release ([\d.]+)", run([o.nvcc, "--version"])).group(1)


def write_tiles(o, architectures, sources, kept):
    heads = ["kernel", "tile", "operands come by", "of it", "threads", "registers", "stack, spills",
             "shared memory given", "blocks held"]
    parts = []
    for architecture in architectures:
        lines = []
        for source in sources:
            if ("tmem" in source.stem) == (architecture == "100a"):
                lines += tile_rows(source, kernels_kept(o, source, architecture, kept), architecture)
        parts.append(f"## {architecture}\n\n" + table([heads, ["---"] * len(heads), *lines]) + "\n")
    if broken:
        sys.exit(f"{len(broken)} kernels have a stack or spill, so no build has them")
    pathlib.Path(o.out).write_text(
        "# What a multiprocessor holds of each tile of products\n\n"
        f"`bench/gpu/occupancy.py --tiles`, commit {commit()}, nvcc {nvcc_version(o)}. Registers of a thread when the "
        "block begins, bytes of stack and of spills, bytes of shared memory that the host gives a block, and blocks "
        "that a multiprocessor holds by all of these. From the least to the most, where a row stands for several "
        "kernels. None was timed.\n\n" + "\n".join(parts))


def write_kernels(o, architectures, sources, kept):
    lines, total = [], 0
    for source in sources:
        found = {a: kernels_kept(o, source, a, kept) for a in architectures}
        for plain, row in sorted(rows_of(found, architectures).items()):
            total += len(row["kernels"])
            name = f"{source.stem}: {plain}" + (" *" if row["given"] else "")
            lines.append([name, str(len(row["kernels"])), span(row["threads"]),
                          *(cell(row, a) for a in architectures)])
    if broken:
        sys.exit(f"{len(broken)} kernels have a stack or spill, so no build has them")
    heads = ["kernel", "of it", "threads", *(f"{a.rstrip('a')[:-1]}.{a.rstrip('a')[-1]}" for a in architectures)]
    pathlib.Path(o.out).write_text(
        "# What a multiprocessor holds of each kernel\n\n"
        f"`bench/gpu/occupancy.py`, commit {commit()}, nvcc {nvcc_version(o)}: {total} kernels, of which each "
        "generation has its own code. None spills, none has a stack.\n\nA cell says registers of a thread, and warps "
        "that a multiprocessor holds by registers, by threads and by the kernel's own shared memory, of at most "
        + ", ".join(f"{LIMITS[a][0]} ({h})" for a, h in zip(architectures, heads[3:]))
        + ". From the least to the most, where a name stands for several kernels. `*`: the host gives shared memory as "
        "well, so that there are at most as many.\n\n" + table([heads, ["---"] * len(heads), *lines]) + "\n")


main()
