"""One training step of a GPT-2 in plain PyTorch for each line on stdin, answered by its seconds and loss.

    gpt2_torch.py LAYERS HEADS CHANNELS VOCABULARY BATCH CONTEXT [CLIP]

f32, AdamW over all weights, no dropout, tied embeddings, the whole batch's logits. Attention is the library's fused
one where it has one, else written out. TORCH_THREADS: threads. TORCH_TUNED=1: the fused AdamW where there is one.
TORCH_AUTOCAST=1: forward under autocast to bf16. TORCH_COMPILE=1: compiled. TORCH_DEVICE=cuda: on a GPU, where f32 is
multiplied as f32."""

import os
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

LAYERS, HEADS, CHANNELS, VOCABULARY, BATCH, CONTEXT = (int(word) for word in sys.argv[1:7])
CLIP = float(sys.argv[7]) if len(sys.argv) > 7 else 1.0
DEVICE = os.environ.get("TORCH_DEVICE", "cpu")


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(CHANNELS), nn.LayerNorm(CHANNELS)
        self.attention, self.out = nn.Linear(CHANNELS, 3 * CHANNELS), nn.Linear(CHANNELS, CHANNELS)
        self.up, self.down = nn.Linear(CHANNELS, 4 * CHANNELS), nn.Linear(4 * CHANNELS, CHANNELS)
        if not hasattr(F, "scaled_dot_product_attention"):
            self.register_buffer("later", torch.ones(CONTEXT, CONTEXT, dtype=torch.bool).triu(1))

    def mix(self, x):
        b, t, c = x.shape
        q, k, v = (y.view(b, t, HEADS, c // HEADS).transpose(1, 2) for y in self.attention(x).split(c, 2))
        if hasattr(F, "scaled_dot_product_attention"):
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            score = (q @ k.transpose(2, 3)) * (c // HEADS) ** -0.5
            y = score.masked_fill(self.later[:t, :t], -torch.inf).softmax(3) @ v
        return self.out(y.transpose(1, 2).reshape(b, t, c))

    def forward(self, x):
        x = x + self.mix(self.ln_1(x))
        return x + self.down(F.gelu(self.up(self.ln_2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, CHANNELS), nn.Embedding(max(CONTEXT, 1024), CHANNELS)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(CHANNELS)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, ids, labels):
        x = self.tokens(ids) + self.places.weight[:ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = self.norm(x) @ self.tokens.weight.T
        return F.cross_entropy(logits.view(-1, VOCABULARY), labels.reshape(-1))


def optimizer_of(model):
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    settings = {"lr": 6e-4, "betas": (0.9, 0.95)}
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    if os.environ.get("TORCH_TUNED"):
        try:
            return torch.optim.AdamW(groups, fused=True, **settings)
        except (TypeError, RuntimeError):
            pass
    return torch.optim.AdamW(groups, **settings)


def main():
    torch.set_num_threads(int(os.environ.get("TORCH_THREADS", "2")))
    torch.manual_seed(1)
    model = Gpt2().to(DEVICE)
    optimizer = optimizer_of(model)
    call = torch.compile(model) if os.environ.get("TORCH_COMPILE") else model
    autocast = bool(os.environ.get("TORCH_AUTOCAST"))
    print("ready", torch.__version__, flush=True)
    for _ in sys.stdin:
        ids = torch.randint(VOCABULARY, (BATCH, CONTEXT + 1)).to(DEVICE)
        begin = time.monotonic()
        with torch.autocast(DEVICE, torch.bfloat16, enabled=autocast):
            loss = call(ids[:, :-1], ids[:, 1:])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if CLIP:
            nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        value = loss.item()
        del loss
        print(time.monotonic() - begin, value, flush=True)


if __name__ == "__main__":
    main()
