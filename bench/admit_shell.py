#!/usr/bin/env python3
"""Does `snug admit` read a script as bash runs it?

    bench/admit_shell.py [--build build] [--scripts 2000] [--seed 1]

Draws scripts that end without an error of what sets variables and what leaves a shell (loops, branches, functions,
local, shift, set, pipes, brackets, eval, children, arrays, defaults), runs each in bash with a program that only notes
its own words, and asks
`snug admit` of the same. A run that it is sure of, with nothing unseen, must be one that bash came to. Exit code 1
where one is not: such a script could be refused though it fits."""

import argparse
import contextlib
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile

from measure import ROOT

NAMES = ["A", "B", "C"]
TRAIN = "python run_clm.py --do_train --model_name_or_path gpt2 --block_size 64 --per_device_train_batch_size {}"


def number(draw):
    return str(draw.choice([1, 2, 3, 4, 6, 8, 12, 16, 24, 32]))


def value(draw):
    name = draw.choice(NAMES)
    return draw.choice([
        lambda: number(draw), lambda: number(draw), lambda: f"${name}", lambda: f'"${name}"',
        lambda: f"${{{name}:-{number(draw)}}}",
        lambda: f"${{{name}-{number(draw)}}}", lambda: f"$(({draw.choice(NAMES)} + {number(draw)}))",
        lambda: f"$(echo {number(draw)})",
        lambda: f"${{L[{draw.randrange(3)}]}}", lambda: f"${{L[{name} % 3]}}", lambda: "${#L[@]}", lambda: "$1",
        lambda: f"${{1:-{number(draw)}}}", lambda: f"${{Z:-${{{name}:-{number(draw)}}}}}",
        lambda: f"${{{name}:+{number(draw)}}}",
        lambda: "$#", lambda: f"$({draw.choice(['true', 'false'])} && echo {number(draw)} || echo {number(draw)})"])()


def train(draw, front=None):
    fronts = ["", "", "", "srun ", "time ", "nice -n 5 ", f"{draw.choice(NAMES)}=7 ", "env X=1 "]
    front = front if front is not None else draw.choice(fronts)
    return front + TRAIN.format(value(draw))


def condition(draw):
    return draw.choice(["true", "false", f"[ ${draw.choice(NAMES)} = {number(draw)} ]", "[ -d / ]", "[ -n \"$1\" ]",
                        f"(( {draw.choice(NAMES)} > 4 ))", f"! {train(draw)}", train(draw)])


def block(draw, depth, many=None):
    lines = [line(draw, depth) for _ in range(many or draw.randrange(1, 4))]
    return "\n".join(lines)


def words(draw):
    return draw.choice(["1 2 3", "{1..3}", "$(seq 2 4)", '"${L[@]}"', "${L[@]}",
                        f"{number(draw)} ${draw.choice(NAMES)}", '"$@"', "",
                        "$@", "$NONE"])


def body(draw, depth):
    """Of a function, which calls none: neither would end."""
    return "\n".join("true" if one[:2] in ("f", "g", "f ", "g ") else one for one in block(draw, depth).split("\n"))


def line(draw, depth):
    if depth <= 0 or draw.random() < 0.45:
        return draw.choice([
            train, train, lambda d: f"{d.choice(NAMES)}={value(d)}", lambda d: f"{d.choice(NAMES)}={value(d)}",
            lambda d: f"export {d.choice(NAMES)}={value(d)}", lambda d: f"L=({number(d)} {number(d)} {value(d)})",
            lambda d: f"L+=({number(d)})", lambda d: f"L[{d.randrange(3)}]={number(d)}", lambda d: "shift",
            lambda d: f"set -- {number(d)} {number(d)}", lambda d: f"unset {d.choice(NAMES)}",
            lambda d: f"read {d.choice(NAMES)} <<< {number(d)}", lambda d: f"printf -v {d.choice(NAMES)} {number(d)}",
            lambda d: f"((" + d.choice(NAMES) + f" = {number(d)}))", lambda d: f"let {d.choice(NAMES)}={number(d)}",
            lambda d: f"local {d.choice(NAMES)}={number(d)} 2>/dev/null",
            lambda d: f"{d.choice(NAMES)}={number(d)} | cat",
            lambda d: f"{d.choice(NAMES)}={number(d)} &",
            lambda d: d.choice(["break", "continue", "return"]) + " 2>/dev/null",
            lambda d: "exit" if d.random() < 0.3 else "true", lambda d: f"eval \"{d.choice(NAMES)}={number(d)}\"",
            lambda d: f"eval '{train(d)}'", lambda d: f"bash -c '{train(d)}' x {number(d)}",
            lambda d: f'bash -c "{train(d)}"', lambda d: f"{d.choice(['f', 'g'])} {value(d)} {value(d)}",
            lambda d: f"{d.choice(['f', 'g'])}",
            lambda d: f"CMD=\"{train(d, '')}\"\n" + d.choice(["$CMD", 'eval "$CMD"', 'bash -c "$CMD"']),
            lambda d: f"declare {d.choice(NAMES)}={number(d)}", lambda d: f"{train(d)} & wait",
            lambda d: f"{train(d)} | cat"])(draw)
    d, inner = draw, lambda: block(draw, depth - 1)
    return draw.choice([
        lambda: f"for {d.choice(NAMES)} in {words(d)}; do\n{inner()}\ndone"
        + d.choice(["", "", " | cat", " &\nwait", " > /dev/null"]),
        lambda: f"for {d.choice(NAMES)} in {words(d)}\ndo {inner()}\ndone",
        lambda: f"if {condition(d)}; then\n{inner()}\nfi",
        lambda: f"if {condition(d)}; then\n{inner()}\nelif {condition(d)}; then\n{inner()}\nelse\n{inner()}\nfi",
        lambda: f"case ${d.choice(NAMES)} in\n{number(d)}) {train(d)} ;;\n*) {d.choice(NAMES)}={number(d)} ;;\nesac",
        lambda: f"{{\n{inner()}\n}}" + d.choice(["", " | cat", " &\nwait"]), lambda: f"(\n{inner()}\n)",
        lambda: f"echo x | {{\n{inner()}\n}}", lambda: f"{condition(d)} && {train(d)}",
        lambda: f"{condition(d)} || {train(d)}",
        lambda: f"{condition(d)} && {{ {inner()}\n}}",
        lambda: f"i=0; while [ $i -lt 2 ]; do i=$((i + 1))\n{inner()}\ndone",
        lambda: f"{d.choice(['f', 'g'])}() {{\n{body(d, depth - 1)}\n}}",
        lambda: f"function {d.choice(['f', 'g'])} {{\n{body(d, depth - 1)}\n}}",
        lambda: f"echo {number(d)} | while read {d.choice(NAMES)}; do\n{inner()}\ndone",
        lambda: f"cat <<END > out\nx ${d.choice(NAMES)} $(echo done)\nEND"])()


def script(draw):
    head = "".join(f"{name}={number(draw)}\n" for name in NAMES)
    head += f"L=({number(draw)} {number(draw)} {number(draw)})\n"
    return "#!/bin/bash\n#SBATCH --gres=gpu:a100_80:1\n" + head + block(draw, 3, draw.randrange(2, 7)) + "\n"


STUB = """#!/bin/bash
case "$*" in *run_clm.py*) ;; *) exit 0 ;; esac
while [ $# -gt 0 ]; do [ "$1" = --per_device_train_batch_size ] && echo "$2" >> "$NOTES"; shift; done
"""


def ran(folder, text, arguments):
    notes = folder / "notes"
    notes.write_text("")
    (folder / "job.sh").write_text(text)
    path = {"PATH": f"{folder}/bin:/usr/bin:/bin", "NOTES": str(notes)}
    shell = subprocess.Popen(["bash", "job.sh", *arguments], cwd=folder, env=path, stdin=subprocess.DEVNULL,
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        shell.wait(timeout=20)
        return set(notes.read_text().split())
    except subprocess.TimeoutExpired:
        return None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)  # and whatever it has started
        shell.wait()


def asked(snug, text, arguments):
    """Batches of the runs that it is sure of."""
    line = [snug, "admit", "--json", "--quiet", "--script-only", "--", "-", *arguments]
    got = subprocess.run(line, input=text, capture_output=True, text=True, cwd="/",
                         env={"PATH": "/usr/bin:/bin", "SNUG_RATES": "built-in"})
    if got.returncode not in (0, 3):
        sys.exit(f"the program ends with {got.returncode}: {got.stderr}\n{text}")
    answer = json.loads(got.stdout)
    sure = [run for run in answer["runs"] if not run["unseen"] and not answer["unseen"]]
    return {run["line"].split("--batch ")[1].split()[0] for run in sure}, len(answer["runs"])


def main():
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("--build", default=str(ROOT / "build"))
    reader.add_argument("--scripts", type=int, default=2000)
    reader.add_argument("--seed", type=int, default=1)
    o = reader.parse_args()
    draw, wrong, surely, all_runs = random.Random(o.seed), 0, 0, 0
    snug = str(pathlib.Path(o.build).resolve() / "snug")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "bin").mkdir()
        for tool, text in (("python", STUB), ("srun", '#!/bin/bash\n"$@"\n')):
            (folder / "bin" / tool).write_text(text)
            os.chmod(folder / "bin" / tool, 0o755)
        for _ in range(o.scripts):
            text, arguments = script(draw), [number(draw) for _ in range(draw.randrange(3))]
            sure, runs = asked(snug, text, arguments)
            came = ran(folder, text, arguments)
            surely, all_runs = surely + len(sure), all_runs + runs
            if came is not None and sure - came:
                wrong += 1
                print(f"sure of {sorted(sure - came)}, and bash came to {sorted(came)}, {arguments}:\n{text}",
                      file=sys.stderr)
    print(f"{o.scripts} scripts, {all_runs} runs, {surely} of them sure, "
          f"{wrong} scripts read otherwise than bash runs them")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
