#!/bin/bash
# snug serve as the package `openai` sees it, where a Python has that: test_serve_live.sh PROGRAM.
# SNUG_PYTHON names the interpreters to ask, separated by colons; without it python3 is asked.
here=$(cd "$(dirname "$0")" && pwd)
IFS=: read -r -a pythons <<<"${SNUG_PYTHON:-python3}"
for python in "${pythons[@]}"; do
    "$python" -c 'import openai' 2>/dev/null || continue
    exec env PYTHONDONTWRITEBYTECODE=1 "$python" "$here/serve_live.py" "$1"
done
echo "skipped: no Python here has openai; SNUG_PYTHON names interpreters that do"
