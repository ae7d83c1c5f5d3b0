#!/bin/bash
# The one test command. On Debian or Ubuntu it installs what is missing, builds and runs everything:
#
#   ./test.sh            the tests, the rules of the house, the tests again under the sanitizers
#   ./test.sh --quick    without the sanitizers
#   ./test.sh --long     with more and larger random cases (SNUG_LONG=1 for the tests)
#
# Exit 0: all passed. 1: something failed, the summary at the end says what. 2: something could not start.
set -u -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 2

# Tests that measure the process from outside or by the clock, or link it elsewhere: not with sanitizers in it.
not_sanitized='^test_(memory_from_outside|install|guide)'

sanitize=yes
for option; do
    case $option in
    --quick) sanitize=no ;;
    --long) export SNUG_LONG=1 ;;
    *)
        sed -n '2,8s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
        case $option in -h | --help) exit 0 ;; *) exit 2 ;; esac
        ;;
    esac
done
tools/install.sh tests || exit 2

cores=$(nproc)
jobs=$(((cores + 1) / 2)) # the tests have threads of their own
summary=() failed=0

# step NAME COMMAND...: runs it, remembers how it went. The last line that CTest writes on the outcome is kept.
step() {
    local name=$1 began=$SECONDS word=ok outcome
    shift
    printf '\n== %s\n' "$name"
    outcome=$(mktemp)
    "$@" 2>&1 | tee "$outcome" || { word=FAILED failed=1; }
    summary+=("$(printf '%-7s %-36s %5d s  %s' "$word" "$name" $((SECONDS - began)) \
        "$(grep -a 'tests passed' "$outcome" | tail -n 1)")")
    rm -f "$outcome"
    [ $word = ok ]
}

build() { # FOLDER OPTION...
    local folder=$1
    shift
    mkdir -p "$folder"
    cmake -S . -B "$folder" -DCMAKE_BUILD_TYPE=RelWithDebInfo -DSNUG_WERROR=ON "$@" >"$folder/configure.log" 2>&1 ||
        { cat "$folder/configure.log"; return 1; }
    cmake --build "$folder" -j "$cores" | sed '/^\[.*\] Built target/d'
}

run_tests() { # FOLDER OPTION...
    local folder=$1
    shift
    (cd "$folder" && ctest --output-on-failure --no-tests=error -j "$jobs" --timeout 1500 "$@")
}

# The search for leaks traces the process, which some containers forbid.
leaks_can_be_found() {
    local probe status
    probe=$(mktemp -d)
    echo 'int main(void) { return 0; }' >"$probe/main.c"
    cc -fsanitize=address "$probe/main.c" -o "$probe/main" && ASAN_OPTIONS=detect_leaks=1 "$probe/main"
    status=$?
    rm -r "$probe"
    return $status
}

sanitized_tests() {
    local leaks=1
    leaks_can_be_found >/dev/null 2>&1 || { leaks=0; echo "leaks can't be searched for here"; }
    local asan=detect_leaks=$leaks:allocator_may_return_null=1:detect_stack_use_after_return=1
    SNUG_CASES=${SNUG_CASES:-200} ASAN_OPTIONS=$asan \
        UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 run_tests build-asan -E "$not_sanitized"
}

# clang takes other things for mistakes, and turns the same source into the same bits.
build_with_clang() {
    command -v clang >/dev/null || { echo "clang is not installed: left out"; return 0; }
    build build-clang -DCMAKE_C_COMPILER=clang -DSNUG_TESTS=OFF -DSNUG_BENCH=OFF || return
    local run losses=()
    run=$(mktemp -d)
    cat README.md docs/*.md >"$run/text"
    for folder in build-test build-clang; do
        "$folder/snug" train char-small --data "$run/text" --out "$run/$folder" --steps 3 --batch 4 --micro-batch 4 \
            --quiet --json >"$run/said" || return
        losses+=("$(grep '"losses"' "$run/said")")
    done
    rm -r "$run"
    printf '%s\n' "${losses[@]}"
    [ -n "${losses[0]}" ] && [ "${losses[0]}" = "${losses[1]}" ] || { echo "gcc and clang disagree"; return 1; }
}

step 'rules' tools/lint
step 'rules: do they find anything?' tools/lint --self-test
step 'build' build build-test && step 'tests' run_tests build-test
if [ $sanitize = yes ]; then
    step 'build with clang, the same bits' build_with_clang
    # Sanitizers mislead gcc's warnings; the first build has heeded them.
    step 'build, sanitized' build build-asan -DSNUG_SANITIZE=ON -DSNUG_WERROR=OFF -DCMAKE_C_FLAGS=-w &&
        step 'tests, sanitized' sanitized_tests
fi

printf '\n== summary\n'
printf '%s\n' "${summary[@]}"
[ $failed -eq 0 ] && echo "all passed" || echo "something failed"
exit $failed
