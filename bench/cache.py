#!/usr/bin/python3
"""What does rounding keys and values do to a trained model?

    bench/cache.py [--build build] [--steps 600] [--texts 400] [--seeds 1,2,3] [--out bench/results/cache.md]

A GPT-2 and a Llama of bytes (heads of 32 and of 64; the latter's keys are shared by pairs of heads), trained from each
seed. `snug serve` then reads texts that begin at even distances, each as long as the model takes, and tells each
token's logarithm of probability (`echo`, `logprobs`), with each type of `--kv-cache-dtype`. A token's attention reads
the rounded keys and values of all tokens before it and its own."""

import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
import time

from measure import Page, options, plain_environment, text_file

KINDS = "f32", "bf16", "f16", "int8"
LENGTH = 256  # of texts: the models' whole context
LLAMA = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 256, "hidden_size": 256,
         "intermediate_size": 512, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
         "max_position_embeddings": LENGTH, "rms_norm_eps": 1e-5, "tie_word_embeddings": True,
         "torch_dtype": "float32"}


def train(o, data, model, out, seed):
    line = [f"{o.build}/snug", "train", model, "--data", data, "--out", out, "--steps", str(o.steps), "--lr", "3e-3",
            "--batch", "16", "--seed", str(seed), "--save-every", "off", "--threads", str(o.threads), "--quiet"]
    done = subprocess.run(line, capture_output=True, text=True, env=plain_environment())
    if done.returncode:
        sys.exit(f"{' '.join(line)}: {done.stderr}")


def make_llama(folder):
    os.makedirs(folder)
    with open(f"{folder}/config.json", "w") as file:
        json.dump(LLAMA, file)
    return folder


class Server:
    """`snug serve` on a Unix socket of its own; ends with the block."""

    def __init__(self, o, model, kind, folder):
        self.path = f"{folder}/socket"
        self.process = subprocess.Popen(
            [f"{o.build}/snug", "serve", model, "--host", f"unix:{self.path}", "--kv-cache-dtype", kind, "--threads",
             str(o.threads), "--max-model-len", str(LENGTH), "--share-prefixes", "off"],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=plain_environment())

    def __enter__(self):
        while self.process.poll() is None and not os.path.exists(self.path):
            time.sleep(0.02)
        if self.process.poll() is not None:
            sys.exit(self.process.stderr.read().decode())
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        if os.path.exists(self.path):
            os.unlink(self.path)

    def ask(self, body):
        link = http.client.HTTPConnection("localhost", timeout=600)
        link.sock = socket.socket(socket.AF_UNIX)
        link.sock.connect(self.path)
        link.request("POST", "/v1/completions", json.dumps(body))
        answer = link.getresponse()
        said = answer.status, answer.read()
        link.close()
        return said

    def loss(self, ids):
        """Mean over the tokens after the first."""
        body = {"prompt": ids, "max_tokens": 0, "echo": True, "logprobs": 0, "temperature": 0}
        while (said := self.ask(body))[0] == 503:  # it reads its weights
            time.sleep(0.02)
        if said[0] != 200:
            sys.exit(said[1].decode())
        told = json.loads(said[1])["choices"][0]["logprobs"]["token_logprobs"][1:]
        return -sum(told) / len(told)


def losses(o, model, data, folder):
    """Mean loss of all texts by each type."""
    with open(data, "rb") as file:
        text = file.read()
    far = (len(text) - LENGTH) // o.texts
    texts = [list(text[i * far:i * far + LENGTH]) for i in range(o.texts)]
    found = {}
    for kind in KINDS:
        with Server(o, model, kind, folder) as server:
            found[kind] = sum(server.loss(ids) for ids in texts) / len(texts)
    return found


def main():
    o = options(__doc__, "cache", steps=600, texts=400, seeds="1,2,3")
    seeds = [int(word) for word in o.seeds.split(",")]
    page = Page("Rounding keys and values of a trained model", o.out,
                f"{o.steps} steps of 16 at 3e-3, seeds {o.seeds}; {o.texts} texts of {LENGTH} tokens.")
    page.head("model", "cache", "loss", "change", "by seed")
    with tempfile.TemporaryDirectory() as folder:
        data = text_file(folder)
        models = {"char-small": "char-small", "Llama, keys shared": make_llama(f"{folder}/llama")}
        for name, model in models.items():
            found = []
            for seed in seeds:
                out = f"{folder}/{name}-{seed}"
                train(o, data, model, out, seed)
                found.append(losses(o, out, data, folder))
            plain = sum(f["f32"] for f in found)
            for kind in KINDS:
                page.row(name, kind, f"{sum(f[kind] for f in found) / len(found):.4f}",
                         f"{(sum(f[kind] for f in found) / plain - 1) * 100:+.4f} %",
                         ", ".join(f"{(f[kind] / f['f32'] - 1) * 100:+.4f} %" for f in found))
            page.write()


if __name__ == "__main__":
    main()
