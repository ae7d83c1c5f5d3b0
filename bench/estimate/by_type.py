#!/usr/bin/env python3
"""Every model_type that transformers knows, asked of `snug estimate`: by_type.py SNUG [--fuzz N] [--names a,b]

For each type of transformers' CONFIG_MAPPING the configuration that its class has by itself is written as config.json
and estimated. The answer has to be one of two: an estimate with exit code 0, or exit code 2 and one sentence that says
which recipe records a step. Anything else is a fault and is listed. `--fuzz`: so many damaged copies of each as well:
members missing, of other types, negative, huge, null; there exit codes 0 and 2 are right, with one line of stderr.
A builder that counts other parameters than transformers' own class on the meta device is listed too. Needs torch and
transformers, which are a test's oracle here."""

import argparse
import copy
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import warnings

import torch
import transformers as t
from transformers.models.auto import configuration_auto, modeling_auto

TASKS = {
    "causal": modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    "masked": modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    "seq2seq": modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
    "images": modeling_auto.MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES,
}
RECORDED = "--recipe hf > step.py && python step.py"
OTHERS = ("clip",)  # of these the builder has another part than the class that is found here
SECONDS = 60
WRONG = (None, 0, -1, 1, 3, 2**31, 2**53 + 1, 1e308, 0.5, "", "x", [], [1, "x"], {}, {"rope_type": "y"}, True, False)


def class_of(name):
    for task, names in TASKS.items():
        if name in names:
            of = names[name]
            return task, of if isinstance(of, str) else of[0]
    return "other", None


def configuration_of(name):
    """As config.json has it; None where the class wants something to begin with."""
    try:
        config = configuration_auto.CONFIG_MAPPING[name]()
        said = json.loads(config.to_json_string(use_diff=False))
    except Exception:  # of transformers: classes of several parts, and those that need another package
        return None, None
    said["model_type"] = name
    return config, said


def asked(snug, said, folder):
    path = folder / "config.json"
    path.write_text(json.dumps(said))
    command = [snug, "estimate", str(path), "--batch", "1", "--json", "--quiet"]
    done = subprocess.run([*command, "--context", "16"], capture_output=True, text=True, timeout=SECONDS)
    if "sees images, which have no length" in done.stderr:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    return done


def one_sentence(done):
    return done.returncode == 2 and len(done.stderr.strip().splitlines()) == 1


def parameters_of(config, model_class):
    try:
        with torch.device("meta"):
            return sum(p.numel() for p in getattr(t, model_class)(config).parameters())
    except Exception:
        return None


def damaged(said, chance):
    said = copy.deepcopy(said)
    keys = [k for k in said if k != "model_type"]
    for key in chance.sample(keys, min(len(keys), chance.randint(1, 3))):
        if chance.random() < 0.3:
            del said[key]
        else:
            said[key] = chance.choice(WRONG)
    return said


def main():
    p = argparse.ArgumentParser()
    p.add_argument("snug")
    p.add_argument("--fuzz", type=int, default=0)
    p.add_argument("--names", default="")
    p.add_argument("--seed", type=int, default=1)
    a = p.parse_args()
    warnings.simplefilter("ignore")
    t.logging.set_verbosity_error()
    snug, chance = str(pathlib.Path(a.snug).resolve()), random.Random(a.seed)
    built, recorded, faults = {}, {}, []
    types = a.names.split(",") if a.names else sorted(configuration_auto.CONFIG_MAPPING_NAMES)
    silent = damages = 0
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for i, name in enumerate(types):
            print(f"{i}/{len(types)} {name}", file=sys.stderr)
            config, said = configuration_of(name)
            task, model_class = class_of(name)
            if said is None:
                silent, said = silent + 1, {"model_type": name}
            done = asked(snug, said, folder)
            if done.returncode == 0:
                built.setdefault(task, []).append(name)
                counts = config and model_class and name not in OTHERS
                theirs = parameters_of(config, model_class) if counts else None
                ours = json.loads(done.stdout)["parameters"]
                if theirs and theirs != ours:
                    faults.append(f"{name}: {ours:,} parameters, of transformers' {model_class} {theirs:,}")
            elif one_sentence(done) and RECORDED in done.stderr:
                recorded.setdefault(task, []).append(name)
            else:
                faults.append(f"{name}: exit code {done.returncode}, {done.stderr.strip()[:300]}")
            for _ in range(a.fuzz):
                worse = damaged(said, chance)
                done = asked(snug, worse, folder)
                damages += 1
                if done.returncode != 0 and not one_sentence(done):
                    faults.append(f"{name}, damaged: exit code {done.returncode}, {done.stderr.strip()[:300]}, of "
                                  + json.dumps({k: v for k, v in worse.items() if said.get(k) != v}))
    print("| task | have a builder | say which recipe records them |\n|---|---|---|")
    for task in [*TASKS, "other"]:
        print(f"| {task} | {len(built.get(task, []))} | {len(recorded.get(task, []))} |")
    print(f"\n{len(types)} types, {silent} of them by their name alone; {damages} damaged configurations")
    for task, names in built.items():
        print(f"\n{task}: " + ", ".join(names))
    print("\n" + "\n".join(faults or ["no faults"]))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
