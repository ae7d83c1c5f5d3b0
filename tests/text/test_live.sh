#!/bin/bash
# Compares tokenizers of all kinds with the tokenizers library where a Python has it: test_live.sh BENCH-TOKENIZER.
# SNUG_PYTHON names the interpreters to ask, separated by colons; without it python3 is asked.
tools=$(cd "$(dirname "$0")/../../tools" && pwd)
IFS=: read -r -a pythons <<<"${SNUG_PYTHON:-python3}"
for python in "${pythons[@]}"; do
    "$python" -c 'import tokenizers; assert tokenizers.__version__.startswith("0.23.")' 2>/dev/null || continue
    exec env PYTHONDONTWRITEBYTECODE=1 "$python" "$tools/tokenizer_compare.py" "$1" --texts 100 --seed 5
done
echo "skipped: no Python here has tokenizers 0.23; SNUG_PYTHON names interpreters that do"
