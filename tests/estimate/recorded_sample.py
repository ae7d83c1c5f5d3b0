"""The sample of docs/recording.md, run as it stands there: recorded_sample.py PROGRAM [--write].

Its blocks are mine.py, what is put in at the end of step.py, and what the plan then prints, which is compared with what
it prints now; --write puts that in its place. Goes on as an interpreter that has torch (SNUG_PYTHON names some,
separated by colons); where none has, that is said."""

import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs" / "recording.md"
FENCE = re.compile(r"^```\w*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
PLAN = "snug estimate step.json --gpu rtx-4090 --batch 64"


def with_torch():
    if importlib.util.find_spec("torch"):
        return
    for python in filter(shutil.which, os.environ.pop("SNUG_PYTHON", "").split(":")):
        if subprocess.run([python, "-c", "import torch"], capture_output=True).returncode == 0:
            os.execvp(python, [python, *sys.argv])
    print("skipped: no Python here has torch; SNUG_PYTHON names interpreters that do")
    sys.exit()


def block(text, begins):
    """The one block that begins so."""
    found = [m for m in FENCE.finditer(text) if m[1].startswith(begins)]
    if len(found) != 1:
        sys.exit(f"{DOCS.name} has {len(found)} blocks that begin with {begins!r}")
    return found[0]


def run(program, command, folder, status=0):
    done = subprocess.run([program, *command.split()[1:]], cwd=folder, capture_output=True, text=True)
    if done.returncode != status:
        sys.exit(f"{command} ends with {done.returncode}: {done.stderr[-500:]}")
    return done


def printed(program, text, folder):
    """What the plan prints, from its budget to its seconds."""
    recipe = run(program, "snug estimate --recipe plain", folder).stdout
    mark = "# ---- yours"
    (folder / "mine.py").write_text(block(text, "# mine.py")[1])
    (folder / "step.py").write_text(recipe[:recipe.index(mark)] + block(text, "# step.py")[1])
    subprocess.run([sys.executable, "step.py"], cwd=folder, capture_output=True, check=True)
    refused = run(program, PLAN, folder, status=3)
    asked = re.search(r"# (\d+) GiB: does not fit", text)
    if not asked or f"{asked[1]}." not in refused.stdout + refused.stderr:
        sys.exit(f"without a plan it takes other than the {asked and asked[1]} GiB that {DOCS.name} says")
    policy = run(program, PLAN + " --memory 8GiB --emit torch", folder)
    if "MICRO_BATCH = " not in policy.stdout:
        sys.exit("the policy has no MICRO_BATCH")
    said = run(program, PLAN + " --memory 8GiB", folder)
    return re.search(r"^Within .*?\n  a step takes.*?\n", said.stdout + said.stderr, re.DOTALL | re.MULTILINE)[0]


def main():
    with_torch()
    program, text = os.path.abspath(sys.argv[1]), DOCS.read_text()
    shown = block(text, "Within ")
    with tempfile.TemporaryDirectory() as folder:
        now = printed(program, text, pathlib.Path(folder))
    if sys.argv[2:] == ["--write"]:
        DOCS.write_text(text[:shown.start(1)] + now + text[shown.end(1):])
    elif shown[1] != now:
        sys.exit(f"{DOCS.name} shows\n{shown[1]}and snug prints\n{now}; where that is right run this with --write")


if __name__ == "__main__":
    main()
