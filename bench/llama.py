#!/usr/bin/python3
"""Generating and serving beside llama.cpp, at the same widths.

    bench/llama.py --llama BIN --models FOLDER [--build build] [--rounds 3] [--only NAME,...] [--out FILE]

BIN: where llama-bench, llama-batched-bench, llama-server and llama-quantize are. FOLDER: what
bench/peers/llama_models.py has written; GGUF files and quantized folders are made there. Both take turns; ratios are
medians of rounds. A prompt is one text of some 470 tokens; texts that are written begin with some 64 tokens each and
get 32 more, and only the latter count. Servers get as many requests at once as they have places, of 512 ids and 128
more; memory is the most that was resident, as the system counts."""

import concurrent.futures
import http.client
import json
import os
import subprocess
import tempfile
import time

from measure import MIB, Page, median, options, plain_environment, text_file

WIDTHS = {  # name: (folder, GGUF, type of llama.cpp's caches)
    "gpt2 f32": ("gpt2-f32", "gpt2-f32.gguf", "f32"),
    "gpt2 bf16": ("gpt2-bf16", "gpt2-bf16.gguf", "f16"),
    "gpt2 8 bits": ("gpt2-int8-all", "gpt2-q8_0.gguf", "f16"),
    "gpt2 4 bits": ("gpt2-int4-all", "gpt2-q4_0.gguf", "f16"),
    "llama 1B bf16": ("llama-bf16", "llama-bf16.gguf", "f16"),
    "llama 1B 8 bits": ("llama-int8-all", "llama-q8_0.gguf", "f16"),
    "llama 1B 4 bits": ("llama-int4-all", "llama-q4_0.gguf", "f16"),
}
TEXTS, BEGIN, MORE = (1, 8, 32), 64, 32
PLACES, PROMPT, ANSWER = 8, 512, 128


def run(command):
    done = subprocess.run(command, capture_output=True, env=plain_environment())
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stderr.decode(errors='replace')[-400:]}")
    return done.stdout.decode(errors="replace")


def make_models(o):
    snug = f"{o.build}/snug"
    for base, kind in ("gpt2-f32", "f32"), ("gpt2-bf16", "bf16"), ("gpt2-f32", "q8_0"), ("llama-bf16", "bf16"), \
            ("llama-bf16", "q8_0"):
        out = f"{o.models}/{base.split('-')[0]}-{kind}.gguf"
        if not os.path.exists(out):
            run([snug, "export", f"{o.models}/{base}", "--to", "gguf", "--dtype", kind, "--out", out, "--quiet"])
    for base in "gpt2-f32", "llama-bf16":  # embedding and head too, as the peer has them
        name = base.split("-")[0]
        for kind in "int8:all", "int4:all":
            out = f"{o.models}/{name}-{kind.replace(':', '-')}"
            if not os.path.exists(out):
                run([snug, "quantize", f"{o.models}/{base}", "--to", kind, "--out", out, "--quiet"])
        out = f"{o.models}/{name}-q4_0.gguf"
        if not os.path.exists(out):  # 4 bits everywhere, as ours
            run([f"{o.llama}/llama-quantize", "--pure", "--token-embedding-type", "q4_0", f"{o.models}/{base}.gguf",
                 out, "q4_0"])


def write_prompts(o, folder):
    with open(text_file(folder), errors="ignore") as file:
        words = file.read().split()
    names = {}
    for count, long in [(1, PROMPT)] + [(texts, BEGIN) for texts in TEXTS]:
        name = names[count, long] = f"{folder}/{count}-{long}"
        with open(name, "w") as file:
            for i in range(count):  # some three quarters of a token are a word here
                file.write(" ".join(words[i * 40:i * 40 + long * 7 // 10]) + "\n")
    return names


# ---- generating ----

def ours(o, folder, prompts, tokens):
    return json.loads(run([f"{o.build}/snug", "generate", f"{o.models}/{folder}", "--prompt-file", prompts, "--tokens",
                           str(tokens), "--temperature", "0", "--threads", str(o.threads), "--json", "--quiet"]))


def ours_texts(o, folder, prompts, texts):
    """Of texts that are written, without reading what they begin with: steps read some texts' beginnings beside what
    others write, so the time of two runs is compared, one of which writes a token of each text."""
    short, long = (ours(o, folder, prompts, tokens) for tokens in (1, 1 + MORE))
    seconds = [said["seconds_prompt"] + said["seconds_new"] for said in (short, long)]
    return texts * MORE / (seconds[1] - seconds[0])


def theirs_prompt(o, file, tokens):
    answer = json.loads(run([f"{o.llama}/llama-bench", "-m", f"{o.models}/{file}", "-t", str(o.threads), "-p",
                             str(tokens), "-n", "0", "-r", "1", "-o", "json"]))
    return answer[0]["avg_ts"]


def theirs_texts(o, file, texts, kind):
    lines = run([f"{o.llama}/llama-batched-bench", "-m", f"{o.models}/{file}", "-t", str(o.threads), "-c",
                 str(texts * 128), "-npp", str(BEGIN), "-ntg", str(MORE), "-npl", str(texts), "-ctk", kind, "-ctv",
                 kind, "--output-format", "jsonl"])
    return json.loads(lines.strip().splitlines()[-1])["speed_tg"]


def generate_rows(o, page, name, prompts):
    folder, file, kind = WIDTHS[name]
    pairs = {"prompt": []} | {texts: [] for texts in TEXTS}
    for _ in range(o.rounds):
        mine = ours(o, folder, prompts[1, PROMPT], 1)
        pairs["prompt"].append((mine["prompt_tokens"] / mine["seconds_prompt"],
                                theirs_prompt(o, file, mine["prompt_tokens"])))
        for texts in TEXTS:
            pairs[texts].append((ours_texts(o, folder, prompts[texts, BEGIN], texts),
                                 theirs_texts(o, file, texts, kind)))
    for what, found in pairs.items():
        page.row(name, what if what == "prompt" else f"{what} written", f"{median(a for a, _ in found):.1f}",
                 f"{median(b for _, b in found):.1f}", f"{median(a / b for a, b in found):.2f}")


# ---- serving ----

def post(port, body):
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    link.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    answer = link.getresponse()
    text = answer.read()
    if answer.status != 200:
        raise SystemExit(f"{answer.status}: {text[:300]}")
    link.close()


def wait_for(port, process, path):
    for _ in range(2400):
        if process.poll() is not None:
            raise SystemExit("a server ended")
        try:
            link = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            link.request("GET", path)
            if link.getresponse().status == 200:
                return
        except OSError:
            pass
        time.sleep(0.05)
    raise SystemExit("a server does not answer")


def serve(command, port, path):
    """Tokens a second of all requests together, and the most bytes that were resident."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=plain_environment())
    try:
        wait_for(port, process, path)
        bodies = [{"prompt": [(17 * i + 131 * k) % 40000 + 300 for k in range(PROMPT)], "max_tokens": ANSWER,
                   "temperature": 0} for i in range(PLACES)]
        began = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(PLACES) as clients:
            list(clients.map(lambda body: post(port, body), bodies))
        seconds = time.monotonic() - began
        with open(f"/proc/{process.pid}/status") as file:
            peak = next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))
        return PLACES * ANSWER / seconds, peak
    finally:
        process.kill()
        process.wait()


def serve_rows(o, page, name, port=18080):
    folder, file, kind = WIDTHS[name]
    length = PROMPT + ANSWER
    mine = [f"{o.build}/snug", "serve", f"{o.models}/{folder}", "--port", str(port), "--max-num-seqs", str(PLACES),
            "--max-model-len", str(length), "--threads", str(o.threads)]
    if kind == "f16" and "bf16" not in folder:  # codes: of the peer's width, not the f32 that their products give
        mine += ["--kv-cache-dtype", kind]
    other = [f"{o.llama}/llama-server", "-m", f"{o.models}/{file}", "--port", str(port), "-np", str(PLACES), "-c",
             str(PLACES * length), "-ctk", kind, "-ctv", kind, "-t", str(o.threads), "-fit", "off"]
    found = [(serve(mine, port, "/ready"), serve(other, port, "/health")) for _ in range(o.rounds)]
    page.row(name, f"{PLACES} served", f"{median(a[0] for a, _ in found):.1f}", f"{median(b[0] for _, b in found):.1f}",
             f"{median(a[0] / b[0] for a, b in found):.2f}")
    most = [max(both[i][1] for both in found) for i in range(2)]
    page.row(name, "MiB of these", f"{most[0] / MIB:.0f}", f"{most[1] / MIB:.0f}", f"{most[0] / most[1]:.2f}")


def main():
    o = options(__doc__, "llama", rounds=3, llama="", models="", only="")
    make_models(o)
    page = Page("Beside llama.cpp", o.out, f"Tokens a second; medians of {o.rounds} rounds.")
    page.head("model", "what", "snug", "llama.cpp", "ratio")
    with tempfile.TemporaryDirectory() as folder:
        prompts = write_prompts(o, folder)
        for name in o.only.split(",") if o.only else WIDTHS:
            generate_rows(o, page, name, prompts)
            serve_rows(o, page, name)
            page.write()


if __name__ == "__main__":
    main()
