#!/bin/bash
# What snug writes, in other people's programs: test_export_live.sh SNUG runs tests/cli/export_live.py where a Python
# has the libraries. SNUG_PYTHON names the interpreters to ask, separated by colons; without it python3 is asked.
here=$(cd "$(dirname "$0")" && pwd)
IFS=: read -r -a pythons <<<"${SNUG_PYTHON:-python3}"
for python in "${pythons[@]}"; do
    "$python" -c 'import torch, transformers, tokenizers, peft' 2>/dev/null || continue
    exec env PYTHONDONTWRITEBYTECODE=1 HF_HUB_OFFLINE=1 "$python" "$here/export_live.py" "$1"
done
echo "skipped: no Python here has torch, transformers, tokenizers and peft; SNUG_PYTHON names interpreters that do"
