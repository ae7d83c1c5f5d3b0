#!/usr/bin/env python3
"""Writes tests/golden/timm_names.txt: the names and shapes of the tensors that timm's tiny models have, by which files
are read and written (src/io/timm_files.c).

Needs torch and timm. The file is committed, so the tests don't need it. A line is KIND NAME SHAPE; the kinds and their
configurations are those of tests/io/test_timm_files.c.
"""

import pathlib

import timm

KINDS = {
    "vit": ("vit_tiny_patch16_224", dict(img_size=32, patch_size=8, embed_dim=24, depth=2, num_heads=2)),
    "resnet_basic": ("resnet18", dict(layers=[2, 1, 1, 1])),
    "resnet": ("resnet50", dict(layers=[1, 1, 2, 1])),
    "convnext": ("convnext_tiny", dict(depths=[1, 1, 2, 1], dims=[8, 16, 24, 32])),
}


def main():
    path = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "timm_names.txt"
    with open(path, "w", encoding="ascii") as out:
        for kind, (architecture, arguments) in KINDS.items():
            model = timm.create_model(architecture, num_classes=3, **arguments)
            for name, tensor in model.state_dict().items():
                out.write(f"{kind} {name} {'x'.join(str(n) for n in tensor.shape) or 'scalar'}\n")


if __name__ == "__main__":
    main()
