#!/usr/bin/python3
"""Writes tests/golden/*.txt: ten losses, ten gradient norms and all gradients of the first step, as PyTorch has them.

Needs python3-torch and python3-numpy; gpt2-f16.txt needs PyTorch 2.3, as older ones have no autocast to f16 on
CPUs, and is left alone with those. Run it from anywhere; the files are committed, so the tests don't need it.

gpt2-bf16.txt and gpt2-f16.txt are ten steps under autocast, whose products are of 16 bits: losses and norms alone.
state-codes.txt has the values of 8-bit optimizer states and the codes of some numbers, by the definition in
arXiv:2110.02861. Everything else is computed in double precision. Weights and tokens come from a formula (weight and
token below, golden_weight and golden_token in tests/golden/golden.h), so the files hold results only.

A file is text, one record after the other, numbers with nine significant digits:

    golden 1                              the version of this format
    number NAME VALUE                     one fact: the model's sizes, the optimizer's settings
    losses N                              followed by N numbers: the loss of each step, before its update
    norms N                               followed by N numbers: the global norm of each step, before clipping
    gradient NAME RANK DIMENSION...       followed by the values of the first step, row-major, before clipping
    table NAME RANK DIMENSION...          likewise, of other numbers
"""

import pathlib

import numpy
import torch
import torch.nn.functional as F

SIZES = {"layers": 2, "heads": 4, "channels": 32, "context": 24, "vocabulary": 61, "batch": 3}
# The clip is such that some steps are clipped and some are not.
ADAPTER = {"rank": 4, "alpha": 8}
SETTINGS = {"steps": 10, "rate": 1e-3, "beta1": 0.9, "beta2": 0.95, "epsilon": 1e-8, "decay": 0.1, "clip": 1.2}


def mix(x):
    """A bijection of 32 bits that leaves no pattern (a multiply-and-shift finaliser)."""
    x = x & 0xFFFFFFFF
    x = ((x ^ (x >> 16)) * 0x7FEB352D) & 0xFFFFFFFF
    x = ((x ^ (x >> 15)) * 0x846CA68B) & 0xFFFFFFFF
    return x ^ (x >> 16)


def name_hash(name):
    """FNV-1a."""
    h = 2166136261
    for byte in name.encode():
        h = ((h ^ byte) * 16777619) & 0xFFFFFFFF
    return h


def weight(name, shape):
    """In [-0.1, 0.1), from the name and the index; around 1 for the scale of a norm. Rounded to single precision."""
    count = int(numpy.prod(shape))
    index = numpy.arange(count, dtype=numpy.uint64)
    bits = mix(index + numpy.uint64(name_hash(name)))
    value = ((bits >> numpy.uint64(8)).astype(numpy.float64) * 2.0**-24 - 0.5) * 0.2
    if len(shape) == 1 and name.endswith(".weight"):
        value = 1.0 + 0.5 * value
    value = value.astype(numpy.float32).astype(numpy.float64)
    return torch.tensor(value.reshape(shape), requires_grad=True)


def token(step, sample, time, vocabulary):
    """Mostly predictable, so that the loss has something to learn."""
    noise = mix(step * 1000003 + sample * 1009 + time) % 3
    return (5 * time + 11 * sample + 3 * step + noise) % vocabulary


def gpt2_parameters(tied):
    c, shapes = SIZES["channels"], {}
    shapes["transformer.wte.weight"] = (SIZES["vocabulary"], c)
    shapes["transformer.wpe.weight"] = (SIZES["context"], c)
    for layer in range(SIZES["layers"]):
        block = f"transformer.h.{layer}."
        shapes[block + "ln_1.weight"] = shapes[block + "ln_1.bias"] = (c,)
        shapes[block + "attn.c_attn.weight"], shapes[block + "attn.c_attn.bias"] = (c, 3 * c), (3 * c,)
        shapes[block + "attn.c_proj.weight"], shapes[block + "attn.c_proj.bias"] = (c, c), (c,)
        shapes[block + "ln_2.weight"] = shapes[block + "ln_2.bias"] = (c,)
        shapes[block + "mlp.c_fc.weight"], shapes[block + "mlp.c_fc.bias"] = (c, 4 * c), (4 * c,)
        shapes[block + "mlp.c_proj.weight"], shapes[block + "mlp.c_proj.bias"] = (4 * c, c), (c,)
    shapes["transformer.ln_f.weight"] = shapes["transformer.ln_f.bias"] = (c,)
    if not tied:
        shapes["lm_head.weight"] = (SIZES["vocabulary"], c)
    return {name: weight(name, shape) for name, shape in shapes.items()}


def add_adapters(parameters):
    """Low-rank matrices beside every product, none of them zero; what they stand beside is not trained."""
    for name, w in list(parameters.items()):
        w.requires_grad = False
        if ".c_" not in name or w.dim() < 2:
            continue
        module = name[:-len(".weight")]
        for suffix, shape in ("A", (ADAPTER["rank"], w.shape[0])), ("B", (w.shape[1], ADAPTER["rank"])):
            adapter = f"{module}.lora_{suffix}.weight"
            parameters[adapter] = weight(adapter, shape)
    return parameters


def gpt2_loss(p, tokens, labels):
    (b, t), c, h = tokens.shape, SIZES["channels"], SIZES["heads"]

    def norm(x, name):
        return F.layer_norm(x, (c,), p[name + ".weight"], p[name + ".bias"], 1e-5)

    def linear(x, name):
        if x.dtype == torch.float64:
            y = x @ p[name + ".weight"] + p[name + ".bias"]
        else:  # one operation, which rounds to 16 bits once
            y = F.linear(x, p[name + ".weight"].T, p[name + ".bias"])
        if name + ".lora_A.weight" not in p:
            return y
        low = x @ p[name + ".lora_A.weight"].T @ p[name + ".lora_B.weight"].T
        return y + low * (ADAPTER["alpha"] / ADAPTER["rank"])

    def attention(x, block):
        q, k, v = (y.view(b, t, h, c // h).transpose(1, 2) for y in linear(x, block + "attn.c_attn").split(c, 2))
        score = q @ k.transpose(2, 3) / (c // h) ** 0.5
        later = torch.ones(t, t, dtype=torch.bool).triu(1)
        mixed = score.masked_fill(later, -torch.inf).softmax(3) @ v
        return linear(mixed.transpose(1, 2).reshape(b, t, c), block + "attn.c_proj")

    x = p["transformer.wte.weight"][tokens] + p["transformer.wpe.weight"][:t]
    for layer in range(SIZES["layers"]):
        block = f"transformer.h.{layer}."
        x = x + attention(norm(x, block + "ln_1"), block)
        hidden = F.gelu(linear(norm(x, block + "ln_2"), block + "mlp.c_fc"), approximate="tanh")
        x = x + linear(hidden, block + "mlp.c_proj")
    head = p.get("lm_head.weight", p["transformer.wte.weight"])
    logits = norm(x, "transformer.ln_f") @ head.T
    return F.cross_entropy(logits.reshape(b * t, -1), labels.reshape(-1))


def batch(step):
    rows = [[token(step, sample, time, SIZES["vocabulary"]) for time in range(SIZES["context"] + 1)]
            for sample in range(SIZES["batch"])]
    rows = torch.tensor(rows)
    return rows[:, :-1], rows[:, 1:]


def train(parameters, loss_of, undecayed=()):
    """Of AdamW matrices decay, but those that are named in `undecayed`."""
    s, values = SETTINGS, [p for p in parameters.values() if p.requires_grad]
    decayed = [p for name, p in parameters.items() if p.requires_grad and p.dim() >= 2 and name not in undecayed]
    others = [p for name, p in parameters.items() if p.requires_grad and (p.dim() < 2 or name in undecayed)]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": s["decay"]}, {"params": others, "weight_decay": 0.0}],
        lr=s["rate"], betas=(s["beta1"], s["beta2"]), eps=s["epsilon"])
    losses, norms, gradients = [], [], {}
    for step in range(s["steps"]):
        optimizer.zero_grad()
        loss = loss_of(parameters, *batch(step))
        loss.backward()
        if step == 0:
            gradients = {name: p.grad.clone() for name, p in parameters.items() if p.requires_grad}
        norms.append(torch.nn.utils.clip_grad_norm_(values, s["clip"]).item())
        losses.append(loss.item())
        optimizer.step()
    return losses, norms, gradients


def train_autocast(parameters, kind):
    """Ten steps in single precision under autocast; f16 with the scale of gradients that its exponent asks for."""
    s = SETTINGS
    values = {name: p.detach().float().requires_grad_() for name, p in parameters.items()}
    optimizer = torch.optim.AdamW(
        [{"params": [p for p in values.values() if p.dim() >= 2], "weight_decay": s["decay"]},
         {"params": [p for p in values.values() if p.dim() < 2], "weight_decay": 0.0}],
        lr=s["rate"], betas=(s["beta1"], s["beta2"]), eps=s["epsilon"])
    scale, losses, norms = 65536.0 if kind == torch.float16 else 1.0, [], []
    for step in range(s["steps"]):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=kind):
            loss = gpt2_loss(values, *batch(step))
        (loss * scale).backward()
        for p in values.values():
            p.grad /= scale
        norms.append(torch.nn.utils.clip_grad_norm_(values.values(), s["clip"]).item())
        losses.append(loss.item())
        optimizer.step()
    return losses, norms


def write_autocast(folder):
    facts = {**SIZES, "tied": 1, **SETTINGS}
    torch.set_default_dtype(torch.float32)
    for kind, name in (torch.bfloat16, "gpt2-bf16.txt"), (torch.float16, "gpt2-f16.txt"):
        if kind == torch.float16 and tuple(int(n) for n in torch.__version__.split(".")[:2]) < (2, 3):
            print(f"{name}: left alone, PyTorch {torch.__version__} has no autocast to f16 on CPUs")
            continue
        write(folder / name, facts, *train_autocast(gpt2_parameters(True), kind), {})


def state_values(signed):
    """What 8 bits stand for: a sign where there is one, zeros that count decades down from 1, a one, and a fraction of
    the bits that are left, each the middle of its part of [0.1, 1]. The two patterns without that one are 0 and 1."""
    values = [0.0, 1.0]
    bits = 7 if signed else 8
    for zeros in range(7):
        parts = 2 ** (bits - 1 - zeros)
        for part in range(parts):
            value = 10.0 ** -zeros * (0.1 + 0.9 * (part + 0.5) / parts)
            values += [value, -value] if signed else [value]
    return numpy.sort(numpy.array(values))


def nearest(values, x):
    """The codes of x, whose blocks of 2,048 elements are divided by their largest size, and these sizes."""
    codes, scales = [], []
    for first in range(0, len(x), 2048):
        block = x[first:first + 2048]
        scales.append(numpy.abs(block).max())
        codes += numpy.abs(block[:, None] / scales[-1] - values[None, :]).argmin(1).tolist()
    return codes, scales


def write_state_codes(path):
    x = weight("state", (5000,)).detach().numpy() ** 3 * 1000  # some decades
    x = x.astype(numpy.float32).astype(numpy.float64)
    with open(path, "w", encoding="ascii") as out:
        out.write("golden 1\n")
        for name, signed, data in ("first", True, x), ("second", False, (x * x).astype(numpy.float32)):
            values = state_values(signed)
            codes, scales = nearest(values, data.astype(numpy.float64))
            for what, numbers in ("values", values), ("codes", codes), ("scales", scales):
                out.write(f"table {name}.{what} 1 {len(numbers)}\n" + lines(numbers, 16))
    print(f"{path.name}: {path.stat().st_size} bytes")


def lines(values, each):
    texts = [f"{v:.9g}" for v in values]
    return "".join(" ".join(texts[i:i + each]) + "\n" for i in range(0, len(texts), each))


def write(path, facts, losses, norms, gradients):
    with open(path, "w", encoding="ascii") as out:
        out.write("golden 1\n")
        for name, value in facts.items():
            out.write(f"number {name} {value:.9g}\n")
        out.write(f"losses {len(losses)}\n" + lines(losses, 1))
        out.write(f"norms {len(norms)}\n" + lines(norms, 1))
        for name, g in gradients.items():
            out.write(f"gradient {name} {g.dim()} {' '.join(str(n) for n in g.shape)}\n")
            out.write(lines(g.reshape(-1).tolist(), 8))
    print(f"{path.name}: {path.stat().st_size} bytes, loss {losses[0]:.6f} -> {losses[-1]:.6f}")


def main():
    folder = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden"
    torch.set_default_dtype(torch.float64)
    for tied in (True, False):
        facts = {**SIZES, "tied": int(tied), **SETTINGS}
        name = "gpt2-tied.txt" if tied else "gpt2-untied.txt"
        write(folder / name, facts, *train(gpt2_parameters(tied), gpt2_loss))
    facts = {**SIZES, "tied": 1, **ADAPTER, **SETTINGS}
    write(folder / "gpt2-lora.txt", facts, *train(add_adapters(gpt2_parameters(True)), gpt2_loss))
    write_state_codes(folder / "state-codes.txt")
    write_autocast(folder)


if __name__ == "__main__":
    main()
