#!/bin/bash
# Chats with tools as data beside transformers and tokenizers, where a Python has them: test_tools_live.sh BUILD.
# SNUG_PYTHON names the interpreters to ask, separated by colons; without it python3 is asked.
tools=$(cd "$(dirname "$0")/../../tools" && pwd)
IFS=: read -r -a pythons <<<"${SNUG_PYTHON:-python3}"
for python in "${pythons[@]}"; do
    "$python" -c 'import jinja2, tokenizers, safetensors, pyarrow, transformers
assert transformers.__version__.startswith("5.17.")' 2>/dev/null || continue
    exec env PYTHONDONTWRITEBYTECODE=1 HF_HUB_OFFLINE=1 "$python" "$tools/compare_tools.py" "$1" --chats 60 --seed 3
done
echo "skipped: no Python here has transformers 5.17, tokenizers, safetensors and pyarrow; SNUG_PYTHON names" \
    "interpreters that do"
