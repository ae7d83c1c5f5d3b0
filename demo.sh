#!/bin/bash
# A small run from beginning to end, in about two minutes on two cores: builds snug, plans a model into a budget
# that the plain way of training breaks several times over, trains it, and continues a text with it.
#
#   ./demo.sh              on licence texts, which every Debian has
#   ./demo.sh FILE         on a text of your own, 64 KiB or more
#
# On Debian or Ubuntu it installs what the build needs. Ctrl-C stops training and keeps what was learned.
# The model is written to demo-run/, which each run begins anew. Exit codes are those of snug.
set -u -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 2

model=char-small budget=40MiB batch=16 steps=600
run=demo-run
text=$run/text

case ${1:-} in
-h | --help)
    sed -n '2,9s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
    exit 0
    ;;
esac
if [ $# -gt 1 ] || { [ $# -eq 1 ] && [ ! -r "$1" ]; }; then
    echo "demo.sh takes one readable text file: ./demo.sh [FILE]" >&2
    exit 2
fi

bold='' plain=''
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then bold=$'\e[1m' plain=$'\e[0m'; fi
chapter() { printf '\n%s== %s%s\n\n' "$bold" "$1" "$plain"; }
show() { # what is run, as one would type it
    printf '$ '
    printf '%q ' "$@" | sed 's| $||; s|^build/snug|snug|'
    printf '\n\n'
}

# Licence texts; where there are none, Perl's manual or what packages say of their rights.
make_text() {
    local folder
    for folder in /usr/share/common-licenses /usr/share/perl/*/pod /usr/share/doc; do
        [ -d "$folder" ] || continue
        find "$folder" -maxdepth 2 -type f \( -path '*/common-licenses/*' -o -name '*.pod' -o -name copyright \) \
            -size +1k 2>/dev/null | LC_ALL=C sort | head -n 200 | xargs -r -d '\n' cat 2>/dev/null >"$text"
        [ "$(wc -c <"$text")" -ge 65536 ] && return
    done
    echo "no English text of 64 KiB found here; name one: ./demo.sh FILE" >&2
    return 2
}

chapter "Building"
tools/install.sh || exit 2
mkdir -p build || exit 2
{ cmake -S . -B build -DCMAKE_BUILD_TYPE=RelWithDebInfo -DSNUG_TESTS=OFF &&
    cmake --build build -j "$(nproc)"; } >build/demo.log 2>&1 || { tail -n 30 build/demo.log; exit 1; }
build/snug --version || exit 1

rm -rf "$run" && mkdir -p "$run" || exit 1
if [ $# -eq 1 ]; then cat -- "$1" >"$text" || exit 2; else make_text || exit 2; fi

chapter "The plan: a batch of $batch samples in $budget"
options=("$model" --data "$text" --batch "$batch" --memory "$budget" --steps "$steps" --lr 3e-3 --eval-every 100)
show build/snug plan "${options[@]}"
build/snug plan "${options[@]}" || exit

chapter "Training"
show build/snug train "${options[@]}" --out "$run"
# Ctrl-C reaches snug, which saves; this script waits for it.
trap : INT
build/snug train "${options[@]}" --out "$run"
result=$?
trap - INT
[ $result -eq 0 ] || [ $result -eq 130 ] || exit $result

chapter "Continuing a text"
prompt='You may copy and distribute'
show build/snug generate "$run" --prompt "$prompt" --tokens 200 --temperature 0.6
build/snug generate "$run" --prompt "$prompt" --tokens 200 --temperature 0.6 || exit
exit $result
