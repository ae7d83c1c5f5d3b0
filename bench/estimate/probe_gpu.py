#!/usr/bin/env python3
"""Probes what single ops of PyTorch take of a GPU beside their results, and which attention is chosen:
probe_gpu.py FILE SECONDS [sums|tables|norms|attentions|strides|convolutions|benchmarks...]

Writes lines of JSON. Needs a GPU and torch. Each op runs by itself; `took` is the most that was asked for while it ran
(requested_bytes), less what there was before; `left` what is there afterwards. An op ran once before, so that
workspaces that stay are there.
"""

import gc
import json
import os
import re
import sys
import tempfile
import time
import warnings
from functools import partial

import torch
import torch.nn.functional as F

F32, BF16 = torch.float32, torch.bfloat16
NAMES = {F32: "f32", BF16: "bf16"}


def asked():
    return torch.cuda.memory_stats()["requested_bytes.all.current"]


def took(do, again=True):
    """(The most beside what was there, what is left, the result)."""
    if again:
        do()
    torch.cuda.synchronize()
    before = asked()
    torch.cuda.reset_peak_memory_stats()
    result = do()
    torch.cuda.synchronize()
    return torch.cuda.memory_stats()["requested_bytes.all.peak"] - before, asked() - before, result


def new(*shape, dtype=F32, grad=False):
    return torch.randn(*shape, device="cuda").to(dtype).requires_grad_(grad)


def sum_of(dtype, rows, columns):
    """A bias's gradient: rows summed."""
    x = new(rows, columns, dtype=dtype)
    peak, left, _ = took(lambda: x.sum(0), again=False)
    return {"op": "sum", "type": NAMES[dtype], "rows": rows, "columns": columns, "took": peak, "left": left}


def sums():
    for dtype in (F32, BF16):
        for rows in (256, 512, 1000, 1024, 1025, 2048, 3152, 4096, 8192, 12608, 16384, 32768, 65536, 200704):
            for columns in (2, 48, 64, 96, 250, 256, 384, 768, 1000, 1001, 1024, 2304, 3072, 4096, 30522, 50257):
                if rows * columns < 1 << 30:
                    yield partial(sum_of, dtype, rows, columns)


def table_of(dtype, rows, width, tokens, kind):
    """A table's gradient."""
    if kind == "random":
        ids = torch.randint(0, rows, (tokens,), device="cuda")
    elif kind == "zeros":
        ids = torch.zeros(tokens, dtype=torch.int64, device="cuda")
    else:
        ids = torch.arange(tokens, device="cuda") % rows
    g = new(tokens, width, dtype=dtype)
    peak, left, _ = took(lambda: torch.ops.aten.embedding_dense_backward(g, ids, rows, -1, False))
    return {"op": "embedding_backward", "type": NAMES[dtype], "rows": rows, "width": width, "tokens": tokens,
            "ids": kind, "distinct": int(ids.unique().numel()), "took": peak, "left": left}


def tables():
    for dtype in (F32, BF16):
        for rows, width in ((2, 768), (32, 12), (512, 768), (4096, 256), (30522, 768), (50257, 768), (32000, 2048)):
            for tokens in (1024, 3072, 3073, 4096, 8192, 16384, 262144):
                for kind in ("random", "zeros", "in order"):
                    if tokens * width < 1 << 28:
                        yield partial(table_of, dtype, rows, width, tokens, kind)


def norm_of(dtype, rows, width, kind):
    x, w, b = (new(*shape, dtype=dtype, grad=True) for shape in ((rows, width), (width,), (width,)))
    y = F.layer_norm(x, (width,), w, b) if kind == "layer_norm" else F.rms_norm(x, (width,), w)
    g, wanted = torch.randn_like(y), (x, w, b) if kind == "layer_norm" else (x, w)
    peak, left, _ = took(lambda: torch.autograd.grad(y, wanted, g, retain_graph=True))
    return {"op": f"{kind}_backward", "type": NAMES[dtype], "rows": rows, "width": width, "took": peak, "left": left}


def softmax_of(dtype):
    x = new(8, 12, 512, 512, dtype=dtype, grad=True)
    y = x.softmax(-1)
    g = torch.randn_like(y)
    peak, left, _ = took(lambda: torch.autograd.grad(y, x, g, retain_graph=True))
    return {"op": "softmax_backward", "type": NAMES[dtype], "bytes": y.nbytes, "took": peak, "left": left}


def norms():
    for dtype in (F32, BF16):
        for rows, width in ((1024, 256), (8192, 768), (8192, 2048), (16384, 1024), (200704, 96), (65536, 64)):
            yield partial(norm_of, dtype, rows, width, "layer_norm")
            yield partial(norm_of, dtype, rows, width, "rms_norm")
        yield partial(softmax_of, dtype)


# ---- attention ----

KINDS = {0: "math", 1: "flash", 2: "efficient", 3: "cudnn", -1: "error"}


def why_not(p):
    """What torch says against each kernel: C++ writes it to the standard error."""
    said = {}
    for name in ("flash", "efficient", "cudnn"):
        sys.stderr.flush()
        kept = os.dup(2)
        with tempfile.TemporaryFile() as heard:
            os.dup2(heard.fileno(), 2)
            try:
                can = getattr(torch.backends.cuda, f"can_use_{name}_attention")(p, True)
            finally:
                os.dup2(kept, 2)
                os.close(kept)
            heard.seek(0)
            text = heard.read().decode(errors="replace")
        reasons = re.findall(r"Warning: (.*?)(?: \(function|\n|$)", text)
        said[name] = "" if can else " / ".join(r[:160] for r in reasons)[:400] or "no reason given"
    return said


def attention_of(dtype, heads, shared, size, mask, dropout, causal, cudnn, queries=512):
    torch.backends.cuda.enable_cudnn_sdp(cudnn)
    batch = 4
    q = new(batch, queries, heads, size, dtype=dtype).transpose(1, 2).requires_grad_()
    k = new(batch, 512, shared, size, dtype=dtype).transpose(1, 2).requires_grad_()
    v = new(batch, 512, shared, size, dtype=dtype).transpose(1, 2).requires_grad_()
    masks = {"none": lambda: None, "bool": lambda: torch.ones(batch, 1, queries, 512, device="cuda").bool().tril(),
             "float": lambda: new(batch, 1, queries, 512, dtype=dtype), "bias": lambda: new(
                 1, heads, queries, 512, dtype=dtype), "bias with gradient": lambda: new(
                     1, heads, queries, 512, dtype=dtype, grad=True),
             "bias, heads last": lambda: new(queries, 512, heads, dtype=dtype).permute(2, 0, 1)[None],
             "bias with gradient, heads last": lambda: new(queries, 512, heads, dtype=dtype).permute(2, 0, 1)[
                 None].requires_grad_()}
    m = masks[mask]()
    grouped = heads != shared
    choice = torch._fused_sdp_choice(q, k, v, attn_mask=m, dropout_p=dropout, is_causal=causal, enable_gqa=grouped)
    p = torch.backends.cuda.SDPAParams(q, k, v, m, dropout, causal, grouped)

    def do():
        return F.scaled_dot_product_attention(q, k, v, attn_mask=m, dropout_p=dropout, is_causal=causal,
                                              enable_gqa=grouped)
    peak, left, y = took(do)
    g = torch.randn_like(y)
    wanted = [x for x in (q, k, v, m) if x is not None and x.requires_grad]
    back, grads, _ = took(lambda: torch.autograd.grad(y, wanted, g, retain_graph=True))
    return {"op": "attention", "type": NAMES[dtype], "heads": heads, "shared": shared, "size": size, "mask": mask,
            "dropout": dropout, "causal": causal, "cudnn allowed": cudnn, "queries": queries, "chosen": KINDS[choice],
            "q_bytes": q.nbytes, "k_bytes": k.nbytes, "scores": batch * heads * queries * 512, "took": peak,
            "left": left, "backward_took": back, "gradients": grads, "strides": list(y.stride()),
            "why": why_not(p) if cudnn else {}}


def attentions():
    for cudnn in (True, False):
        for dtype in (F32, BF16):
            for heads, shared, size in ((8, 8, 64), (8, 2, 64), (8, 8, 32), (8, 8, 80), (8, 8, 128), (8, 2, 128),
                                        (8, 8, 256), (8, 1, 256), (8, 8, 20)):
                for mask in ("none", "bool", "float", "bias", "bias with gradient"):
                    for dropout, causal in ((0.0, mask == "none"), (0.1, False)):
                        if not dropout or mask in ("none", "float"):
                            yield partial(attention_of, dtype, heads, shared, size, mask, dropout, causal, cudnn)
    for queries in (1, 197):
        yield partial(attention_of, BF16, 8, 8, 64, "none", 0.0, False, True, queries)


def strides():
    """T5 makes its bias with heads as the last dimension and permutes it."""
    for dtype in (F32, BF16):
        for mask in ("bias", "bias, heads last", "bias with gradient", "bias with gradient, heads last"):
            yield partial(attention_of, dtype, 8, 8, 64, mask, 0.1, False, True)


# ---- convolutions ----

# From, to, kernel, stride, side of the image that comes in, groups: ResNet-50's, ConvNeXt's, ViT's, VGG's, a U-Net's.
SHAPES = ((3, 64, 7, 2, 224, 1), (64, 64, 1, 1, 56, 1), (64, 64, 3, 1, 56, 1), (64, 256, 1, 1, 56, 1),
          (256, 64, 1, 1, 56, 1), (256, 128, 1, 1, 56, 1), (128, 128, 3, 2, 56, 1), (256, 512, 1, 2, 56, 1),
          (128, 512, 1, 1, 28, 1), (512, 128, 1, 1, 28, 1), (128, 128, 3, 1, 28, 1), (256, 256, 3, 2, 28, 1),
          (512, 1024, 1, 2, 28, 1), (256, 1024, 1, 1, 14, 1), (256, 256, 3, 1, 14, 1), (512, 512, 3, 2, 14, 1),
          (1024, 2048, 1, 2, 14, 1), (512, 2048, 1, 1, 7, 1), (512, 512, 3, 1, 7, 1), (3, 96, 4, 4, 224, 1),
          (96, 96, 7, 1, 56, 96), (384, 384, 7, 1, 14, 384), (96, 192, 2, 2, 56, 1), (3, 768, 16, 16, 224, 1),
          (3, 64, 3, 1, 224, 1), (64, 128, 3, 1, 112, 1), (320, 320, 3, 1, 64, 1), (640, 640, 3, 1, 32, 1),
          (1280, 1280, 3, 1, 16, 1))


def convolution(shape, batch, dtype, benchmark, last):
    torch.backends.cudnn.benchmark = benchmark
    c, out, kernel, stride, side, of = shape
    layout = torch.channels_last if last else torch.contiguous_format
    x = new(batch, c, side, side, dtype=dtype).contiguous(memory_format=layout).requires_grad_(c != 3)
    w = new(out, c // of, kernel, kernel, dtype=dtype).contiguous(memory_format=layout).requires_grad_()
    pad = kernel // 2 if stride < 3 and kernel > 2 else 0
    start = time.monotonic()
    first, _, _ = took(lambda: F.conv2d(x, w, None, stride, pad, 1, of), again=False)
    peak, left, y = took(lambda: F.conv2d(x, w, None, stride, pad, 1, of), again=False)
    g = torch.randn_like(y)
    said = {"op": "convolution", "type": NAMES[dtype], "batch": batch, "shape": shape, "benchmark": benchmark,
            "channels_last": last, "x": x.nbytes, "w": w.nbytes, "y": y.nbytes, "first": first, "took": peak,
            "left": left}
    for name, mask in (("x", [True, False, False]), ("w", [False, True, False]), ("both", [True, True, False])):
        if c == 3 and name != "w":
            continue

        def back():
            return torch.ops.aten.convolution_backward(g, x, w, None, [stride] * 2, [pad] * 2, [1, 1], False, [0, 0],
                                                       of, mask)
        said[f"first_{name}"], _, _ = took(back, again=False)
        said[f"took_{name}"], said[f"left_{name}"], _ = took(back, again=False)
    return {**said, "seconds": time.monotonic() - start}


def convolutions():
    for batch in (64, 8, 256):
        for dtype in (F32, BF16):
            for last in (False, True):
                for shape in SHAPES:
                    if batch * shape[0] * shape[4] ** 2 < 1 << 29:
                        yield partial(convolution, shape, batch, dtype, False, last)


def benchmarks():
    for dtype in (F32, BF16):
        for shape in SHAPES:
            yield partial(convolution, shape, 64, dtype, True, False)


PROBES = {f.__name__: f for f in (sums, tables, norms, attentions, strides, convolutions, benchmarks)}


def main():
    start, most = time.monotonic(), float(sys.argv[2])
    warnings.filterwarnings("ignore")
    with open(sys.argv[1], "w", encoding="ascii") as out:
        for what in sys.argv[3:] or PROBES:
            for do in PROBES[what]():
                if time.monotonic() - start > most:
                    print("no time for the rest of", what)
                    break
                try:
                    out.write(json.dumps(do()) + "\n")
                except RuntimeError as e:
                    print(do.args, type(e).__name__, str(e)[:200], flush=True)
            gc.collect()
            torch.cuda.empty_cache()
            print(f"{what}: {time.monotonic() - start:.1f} s", flush=True)


if __name__ == "__main__":
    main()
