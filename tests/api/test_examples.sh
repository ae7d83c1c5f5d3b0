#!/bin/bash
# Each example runs within a small budget and says what it should have learned; one that can't fit says so. What the
# guide shows of them is in them.
#
#   tests/api/test_examples.sh BUILD
set -u -o pipefail
build=$(cd "$1" && pwd) || exit 2
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
scratch=$(mktemp -d) && trap 'rm -rf "$scratch"' EXIT && cd "$scratch" || exit 2
export XDG_CACHE_HOME=$scratch/cache SNUG_RATES=built-in
failed=0

# EXAMPLE LEAST MOST EXPRESSION: a number of what it prints is between the two.
says() {
    "$build/example-$1" 64 >log 2>&1 || { cat log; echo "FAILED: $1"; failed=1; return; }
    local is
    is=$(sed -nE "s/$4/\1/p" log | tail -1)
    awk -v is="${is:-none}" -v low="$2" -v high="$3" 'BEGIN { exit !(is + 0 == is && is >= low && is <= high) }' ||
        { tail -3 log; echo "FAILED: $1 says '$is', which is not from $2 to $3"; failed=1; }
}
says regress 0 0.3 '.*are off by ([0-9.]+) m$'
says images 850 1024 '^([0-9]+) of 1024 unseen drawings told right$'
says sort 90 100 '^([0-9]+) of 100 unseen lines sorted$'

for example in "$build"/example-*; do
    [ -x "$example" ] || continue
    case $example in *classify) continue ;; esac # its files are the system's: tests/install runs it
    "$example" 1 >log 2>&1
    rc=$?
    [ $rc = 3 ] && grep -q 'least budget' log || { tail -3 log; echo "FAILED: $example ends with $rc"; failed=1; }
done

while read -r line; do
    grep -qF -- "$line" "$source"/examples/*.c "$source/tests/api/test_networks.c" && continue
    echo "FAILED: docs/guide/own-networks.md shows a line that no example has: $line"
    failed=1
done < <(sed -n '/^```c$/,/^```$/{/^```/d;p}' "$source/docs/guide/own-networks.md")
for example in "$source"/examples/*.c; do
    [ "$(wc -l <"$example")" -lt 100 ] && continue
    case $example in *classify.c) continue ;; esac
    echo "FAILED: $example has 100 lines or more"
    failed=1
done
exit $failed
