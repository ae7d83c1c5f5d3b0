#!/usr/bin/env python3
"""Policies of `snug estimate step_plans.json --emit torch`, applied to the model that was recorded: planned.py POLICY
PROMISED [...]. The peak that PyTorch's profiler counts must be within what was promised and at most 2 % below, and
losses those of the same loop without the policy, bit for bit, or to 2e-6 where they are added up in pieces. Needs
torch."""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "bench" / "estimate")]
import record_plan_step as step  # noqa: E402
import recorded_plans as plans  # noqa: E402
import torch  # noqa: E402


class Case:
    lengths = (step.LENGTH,)
    make_batch, loss_of = staticmethod(step.make_batch), staticmethod(step.loss_of)

    def make_model(self):
        return step.Model()


def main():
    torch.set_num_threads(1)
    wrong = 0
    for path, promised in zip(sys.argv[1::2], map(int, sys.argv[2::2])):
        policy = plans.policy_of(pathlib.Path(path).read_text())
        keeping = (name for _, names in getattr(policy, "KEEPING", ()) for name in names)
        for name in {*getattr(policy, "AGAIN", ()), *getattr(policy, "AWAY", ()), *keeping}:
            assert name.split(".")[0] not in ("twice", ""), name  # which runs twice
        losses, peak = plans.run(Case(), policy, True)
        plain, _ = plans.run(Case(), policy, False)
        far = max(float((a - b).abs() / b.abs()) for a, b in zip(losses, plain))
        equal = len(plain) == len(losses) and far <= (2e-6 if hasattr(policy, "HEAD") else 0)
        print(f"{path}: promised {promised}, measured {peak}, losses {'equal' if equal else 'differ'}")
        wrong += not equal or not peak <= promised <= 1.02 * peak
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
