#!/usr/bin/python3
"""What shared beginnings, guesses and expected admission are worth.

    bench/engine.py --models FOLDER,FOLDER [--build build] [--rounds 3] [--out bench/results/engine.md]

Of each model directory. First token: of a prompt of 2,000 tokens (or what the context holds) and 16 others, the first
time, and when the 2,000 were computed for another text. Guesses: a text that goes on from ids that repeat themselves,
with N guessed tokens for each step, in turns with none. Admission: 96 texts of 32 tokens that may have 128 more and
mostly end before 40, at most 16 at once, in 40 blocks; steps are exact, seconds are medians."""

import json
import pathlib

from measure import Page, Worker, median, options


def medians(worker, lines, rounds):
    """By line the medians of each number of its answers; the lines take turns."""
    found = {line: [] for line in lines}
    for _ in range(rounds):
        for line in lines:
            found[line].append(worker.ask(line))
    return {line: [median(column) for column in zip(*answers)] for line, answers in found.items()}


def context_of(folder):
    config = json.loads((pathlib.Path(folder) / "config.json").read_text())
    return config.get("max_position_embeddings") or config["n_positions"]


def add_model(o, page, folder):
    name = pathlib.Path(folder).name
    worker = Worker(name, [f"{o.build}/bench-engine", folder, str(o.threads)])
    same = min(2000, context_of(folder) // 16 * 16 - 32)
    line = f"first {same} 16"
    cold, warm, cached = medians(worker, [line], o.rounds)[line]
    page.row(name, f"first token, {int(cached)} of {same + 16} shared", f"{cold:.2f} s", f"{warm:.2f} s",
             f"{warm / cold:.3f}")
    guesses = [0, 2, 4, 8]
    found = medians(worker, [f"write 96 96 {n}" for n in guesses], o.rounds)
    plain = found["write 96 96 0"][0]
    for n in guesses[1:]:
        seconds, proposed, accepted, steps = found[f"write 96 96 {n}"]
        page.row(name, f"96 tokens, {n} guesses: {int(accepted)} of {int(proposed)} came true, {int(steps)} steps",
                 f"{plain:.2f} s", f"{seconds:.2f} s", f"{seconds / plain:.2f}")
    if o.admission:
        found = medians(worker, ["load 96 40 0", "load 96 40 1"], o.rounds)
        (certain, _, steps, _, _), (expected, _, fewer, back, again) = found.values()
        page.row(name, f"expected admission: {int(fewer)} steps for {int(steps)}, {int(back)} put back, {int(again)} "
                 "tokens read again", f"{certain:.1f} s", f"{expected:.1f} s", f"{expected / certain:.2f}")
    worker.close()


def main():
    o = options(__doc__, "engine", rounds=3, models="", admission=1)
    page = Page("The engine", o.out, f"Medians of {o.rounds} rounds, {o.threads} threads.")
    page.head("model", "what", "without", "with", "ratio")
    for folder in o.models.split(","):
        add_model(o, page, folder)
    page.write()


if __name__ == "__main__":
    main()
