#!/usr/bin/env python3
"""Floats of 8 bits as PyTorch rounds and multiplies them, for tests/ops/test_fp8.c.

    tools/goldens_fp8.py | clang-format > tests/ops/fp8_goldens.h

Codes of three million numbers and the numbers of all codes are each one weighted sum; products of a small layer and
their gradients, with the tiles of ops/fp8.h, are some elements of each. Needs torch (2.15 wrote what is committed).
"""
import numpy as np
import torch

ROWS, DEPTH, COLUMNS, TILE = 40, 300, 150, 128
FORMS = {"E4M3": (torch.float8_e4m3fn, 448.0), "E5M2": (torch.float8_e5m2, 57344.0)}
LOW_BITS = (0x000, 0x001, 0xfff)  # of the f32 that are rounded; those above take all values


def weighted(values):
    places = np.arange(values.size, dtype=np.uint64)
    with np.errstate(over="ignore"):
        weights = places * np.uint64(0x9E3779B97F4A7C15) | np.uint64(1)
        return int(((values.astype(np.uint64) + np.uint64(1)) * weights).sum(dtype=np.uint64))


def codes_of(x, form):
    kind, most = FORMS[form]
    codes = torch.clamp(x, -most, most).to(kind).view(torch.uint8)  # NaN stays NaN
    return torch.where(torch.isnan(x), torch.full_like(codes, 0x7F), codes).numpy()


def all_numbers():
    high = np.arange(1 << 20, dtype=np.uint32) << np.uint32(12)
    return torch.from_numpy(np.concatenate([high | np.uint32(low) for low in LOW_BITS]).view(np.float32))


def numbers_of(form):
    x = torch.arange(256, dtype=torch.uint8).view(FORMS[form][0]).float().numpy()
    return np.where(np.isnan(x), np.uint32(0x7FC00000), x.view(np.uint32))


def rounded(x, form, rows):
    """By blocks of rows x TILE, with the least power of 2 for which none of their numbers saturates."""
    kind, most = FORMS[form]
    y = torch.empty_like(x)
    for i in range(0, x.shape[0], rows):
        for k in range(0, x.shape[1], TILE):
            block = x[i:i + rows, k:k + TILE]
            scale = 2.0 ** torch.ceil(torch.log2(block.abs().max().double() / most))
            y[i:i + rows, k:k + TILE] = ((block.double() / scale).float().to(kind).double() * scale).float()
    return y


def drawn(rows, columns, of):
    i = np.arange(rows * columns, dtype=np.int64)
    x = ((i * 7919 + of) % 2003 - 1001).astype(np.float32) * np.float32(2.0 ** -10)
    grown = x * np.exp2(((i // columns * 5 + i % columns // 40 * 3) % 7 - 3).astype(np.float32))
    return torch.from_numpy(grown.reshape(rows, columns))


def show(name, x):
    flat = x.double().reshape(-1)
    places = [n * 7907 % flat.numel() for n in range(8)]
    numbers = ", ".join(f"{v:.9g}" for v in [flat.abs().sum().item(), *(flat[p].item() for p in places)])
    print(f"static const double golden_{name}[] = {{ {numbers} }};")


def main():
    print("/* Written by tools/goldens_fp8.py. */")
    print("#pragma once\n\n#include <stdint.h>\n")
    for what, of in (("codes", lambda form: codes_of(all_numbers(), form)), ("numbers", numbers_of)):
        sums = ", ".join(f"0x{weighted(of(form)):016x}u" for form in FORMS)
        print(f"static const uint64_t golden_{what}[] = {{ {sums} }}; /* e4m3, e5m2 */")
    x, w, dy = drawn(ROWS, DEPTH, 1), drawn(DEPTH, COLUMNS, 2), drawn(ROWS, COLUMNS, 3)
    x8, w8, dy8 = rounded(x, "E4M3", 1), rounded(w, "E4M3", TILE), rounded(dy, "E5M2", 1)
    show("y", x8.double() @ w8.double())
    show("dx", dy8.double() @ w8.double().T)
    show("dw", x8.double().T @ dy8.double())


if __name__ == "__main__":
    main()
