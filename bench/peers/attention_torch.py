"""Causal attention of heads of 64, forward and backward, in PyTorch: attention_torch.py fused | plain |
fused-bf16.

A line "batch context heads threads" is answered by the seconds of both passes, after one untimed call."""

import sys
import time

import torch
import torch.nn.functional as F


def plain(q, k, v):
    t = q.shape[2]
    later = torch.ones(t, t, dtype=torch.bool).triu(1)
    return ((q @ k.transpose(2, 3)) * 0.125).masked_fill(later, -torch.inf).softmax(3) @ v


def fused(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def once(attend, packed, dy, heads):
    b, t, c = dy.shape
    begin = time.monotonic()
    q, k, v = (x.view(b, t, heads, 64).transpose(1, 2) for x in packed.split(c, 2))
    y = attend(q, k, v).transpose(1, 2).reshape(b, t, c)
    y.backward(dy)
    seconds = time.monotonic() - begin
    packed.grad = None
    return seconds


def main():
    attend = {"fused": fused, "plain": plain, "fused-bf16": fused}[sys.argv[1]]
    dtype = torch.bfloat16 if sys.argv[1] == "fused-bf16" else torch.float32
    if attend is fused and not hasattr(F, "scaled_dot_product_attention"):
        sys.exit("this PyTorch has no fused attention")
    print("ready", torch.__version__, flush=True)
    for line in sys.stdin:
        batch, context, heads, threads = (int(word) for word in line.split())
        torch.set_num_threads(threads)
        torch.manual_seed(1)
        packed = torch.rand(batch, context, 3 * heads * 64, dtype=dtype).requires_grad_()
        dy = torch.rand(batch, context, heads * 64, dtype=dtype)
        once(attend, packed, dy, heads)
        print(once(attend, packed, dy, heads), flush=True)


if __name__ == "__main__":
    main()
