#!/bin/bash
# Compares what model directories say of chats with transformers where a Python has it: test_live.sh
# SNUG-DIRECTORY-CHATS. SNUG_PYTHON names the interpreters to ask, separated by colons; without it python3 is asked.
tools=$(cd "$(dirname "$0")/../../tools" && pwd)
IFS=: read -r -a pythons <<<"${SNUG_PYTHON:-python3}"
for python in "${pythons[@]}"; do
    "$python" -c 'import jinja2, transformers; assert transformers.__version__.startswith("5.17.")' 2>/dev/null ||
        continue
    exec env PYTHONDONTWRITEBYTECODE=1 "$python" "$tools/compare_chats.py" "$1" --directories 25 --seed 3
done
echo "skipped: no Python here has transformers 5.17 and jinja2; SNUG_PYTHON names interpreters that do"
