"""One training step of a model of transformers for each line on stdin, answered by its seconds and loss.

    images_torch.py DIRECTORY BATCH CONTEXT [CLIP]

DIRECTORY holds a config.json. CONTEXT 0: it sees images, which are random; else tokens. f32, AdamW over all weights,
no dropout, images and weights with channels last. TORCH_THREADS: threads. TORCH_TUNED=1: the fused AdamW.
TORCH_COMPILE=1: compiled. TORCH_AUTOCAST=1: forward under autocast to bf16."""

import os
import sys
import time

import torch
import transformers

DIRECTORY, BATCH, CONTEXT = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
CLIP = float(sys.argv[4]) if len(sys.argv) > 4 else 1.0


def data(config):
    if CONTEXT:
        tokens = torch.randint(config.vocab_size, (BATCH, CONTEXT))
        return {"input_ids": tokens, "labels": tokens, "use_cache": False}
    size = getattr(config, "image_size", 224)
    height, width = size if isinstance(size, (list, tuple)) else (size, size)
    images = torch.rand(BATCH, config.num_channels, height, width).to(memory_format=torch.channels_last)
    return {"pixel_values": images, "labels": torch.randint(config.num_labels, (BATCH,))}


def main():
    torch.manual_seed(1)
    torch.set_num_threads(int(os.environ.get("TORCH_THREADS", "2")))
    tuned = os.environ.get("TORCH_TUNED") == "1"
    autocast = os.environ.get("TORCH_AUTOCAST") == "1"
    config = transformers.AutoConfig.from_pretrained(DIRECTORY)
    kind = transformers.AutoModelForCausalLM if CONTEXT else transformers.AutoModelForImageClassification
    model = kind.from_config(config, attn_implementation="sdpa" if config.model_type in ("vit", "mixtral") else None)
    model = model.to(torch.float32).train()
    if not CONTEXT:
        model = model.to(memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=tuned)
    run = torch.compile(model) if os.environ.get("TORCH_COMPILE") == "1" else model
    inputs = data(config)
    print("ready", torch.__version__, flush=True)
    for _ in sys.stdin:
        begin = time.monotonic()
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            loss = run(**inputs).loss
        loss.backward()
        if CLIP:
            torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        print(f"{time.monotonic() - begin:.9f} {loss.item():.6f}", flush=True)


main()
