#!/bin/bash
# The one test command. On Debian or Ubuntu it installs what is missing, builds and runs everything:
#
#   ./test.sh            the rules of the house, the tests, as they are and under the sanitizers
#   ./test.sh --quick    without the sanitizers: all tests as they are
#   ./test.sh --long     with more and larger random cases (SNUG_TEST_LONG=1 for the tests)
#
# Exit 0: all passed. 1: something failed, the summary at the end says what. 2: something could not start.
set -u -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 2

# Which tests run where. Each runs once, but for those whose subject the build changes:
# - as it is alone: what measures the process from outside or by the clock, links it elsewhere, starts it hundreds of
#   times, or takes minutes to do again what shorter tests have the sanitizers see.
# - sanitized alone: what reads, writes, prints or counts, on integers and texts, and meets the same program in both
#   builds: only the edges of memory are of interest, and the sanitizers see those besides.
# - in both: what compares bits and speeds of kernels (another instruction set and -O3 in one, edges of memory in the
#   other), what compares planned with resident memory, and what trains. Of random cases and compared numbers these
#   take fewer under the sanitizers (tests/sanitized.h).
not_sanitized='^test_(cli|memory_from_outside|runs|kills|failures|install|guide|measure|wider|resume|resume_budgets'
not_sanitized+='|solve|precision|same_run|lines|front|recorded_plans|combinations|estimate|(estimate|search)_time'
not_sanitized+='|cluster|sharding|predict|sketch|progress|refusals|mixes|token_runs|lanes_measured|words'
not_sanitized+='|headers|examples|admit_slurm|slow_links|browser|pages_shown'
not_sanitized+='|ranks_(faults|files|groups|random|requeued|slurm|transport))$'
sanitized_alone='^(fuzz_.*|test_(admit|json|safetensors|file|event_file|formats|masking|graph|schedule|comm|journal'
sanitized_alone+='|options|texts|status|emit|readers|gaps|hard_configs|bad_inputs|oom|torch|vllm|llmc'
sanitized_alone+='|llama_cpp|libraries|published|besides|hours|documents|parquet|packed_samples|template|tokenizer'
sanitized_alone+='|tokenize|token_files|export|fill|mixing|tool_chats|learned_tokens|bpe'
sanitized_alone+='|document_cuts|token_details|token_identity|token_there|token_stops|token_writer|going_on'
sanitized_alone+='|wanted_tokens|folders|signals|pattern_scan|own_data|making))$'

sanitize=yes
for option; do
    case $option in
    --quick) sanitize=no ;;
    --long) export SNUG_TEST_LONG=1 ;;
    *)
        sed -n '2,8s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
        case $option in -h | --help) exit 0 ;; *) exit 2 ;; esac
        ;;
    esac
done
tools/install.sh tests || exit 2
# On Debian there is a browser now: a test that finds none fails, and is left out elsewhere.
grep -qsx 'ID=debian' /etc/os-release && export SNUG_TEST_BROWSER=1

cores=$(nproc)
summary=() failed=0

# What failed in CTest's words, and the end of what each such test wrote: whoever sees only the end of a log sees why.
failures_in() { # OUTCOME
    awk '
        function flush(  i) {
            for (i = count > 20 ? count - 20 : 0; i < count; i++) print "          " said[i]
            count = 0
        }
        /^ *[0-9]+\/[0-9]+ Test +#/ { flush(); keeps = /\*\*\*/; if (keeps) print "        " $0; next }
        /^ *Start +[0-9]+:/ || /^[0-9]+% tests passed/ { flush(); keeps = 0 }
        keeps && NF { said[count++] = $0 }
        END { flush() }' "$1"
}

# step NAME COMMAND...: runs it, remembers how it went: CTest's last line, and which tests failed and why.
step() {
    local name=$1 began=$SECONDS word=ok outcome
    shift
    printf '\n== %s\n' "$name"
    outcome=$(mktemp)
    "$@" 2>&1 | tee "$outcome" || { word=FAILED failed=1; }
    summary+=("$(printf '%-7s %-36s %5d s  %s' "$word" "$name" $((SECONDS - began)) \
        "$(grep -a 'tests passed' "$outcome" | tail -n 1)")")
    [ $word = ok ] || summary+=("$(failures_in "$outcome")")
    rm -f "$outcome"
    [ $word = ok ]
}

build() { # FOLDER OPTION...
    local folder=$1
    shift
    mkdir -p "$folder"
    # gold links each of the many programs in half the time; the tests' programs that take over calls need one that
    # knows --wrap, as it does.
    local linker=()
    command -v ld.gold >/dev/null && linker=(-DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=gold)
    # Without debug information, which would be four fifths of each program: lines are for the sanitizers alone, which
    # ask for them themselves.
    cmake -S . -B "$folder" -DCMAKE_BUILD_TYPE=RelWithDebInfo -DSNUG_WERROR=ON -DSNUG_DEBUG_INFO=-g0 "${linker[@]}" \
        "$@" >"$folder/configure.log" 2>&1 ||
        { cat "$folder/configure.log"; return 1; }
    cmake --build "$folder" -j "$cores" --target "${target:-all}" | sed '/^\[.*\] Built target/d'
}

# One test more than there are cores: those of several ranks wait for each other, which leaves a seventh idle.
run_tests() { # FOLDER OPTION...
    local folder=$1
    shift
    (cd "$folder" && ctest --output-on-failure --no-tests=error -j $((cores + 1)) --timeout 900 "$@")
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
    SNUG_TEST_CASES=${SNUG_TEST_CASES:-50} ASAN_OPTIONS=$asan \
        UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 run_tests build-asan -E "$not_sanitized"
}

# Two threads that touch one thing without order: only what has threads meet is built and run. The sanitizer wants
# memory where it is usual, which some kernels' random places are not, and some containers forbid to ask for.
meetings() {
    local usual=()
    setarch -R true 2>/dev/null && usual=(setarch -R)
    target=meetings build build-tsan -DSNUG_SANITIZE=thread -DSNUG_WERROR=OFF -DSNUG_BENCH=OFF -DCMAKE_C_FLAGS=-w &&
        (cd build-tsan && TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1 \
            "${usual[@]}" ctest -L meetings --output-on-failure --no-tests=error -j "$cores" --timeout 300)
}

# clang takes other things for mistakes, and turns the same source into the same bits.
build_with_clang() {
    command -v clang >/dev/null || { echo "clang is not installed: left out"; return 0; }
    target=snug-cli build build-clang -DCMAKE_C_COMPILER=clang -DSNUG_TESTS=OFF \
        -DSNUG_BENCH=OFF || return
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

# The emulation says nothing of registers: kernels that are near the limit are compiled for 9.0, which has most of them.
kernels_for_gpus() {
    local nvcc
    nvcc=$(command -v nvcc || command -v /usr/local/cuda/bin/nvcc) ||
        { echo "nvcc is not installed: left out"; return 0; }
    target=tensor-kernels build build-gpu -DSNUG_CUDA=ON -DSNUG_CUDA_ARCHITECTURES=90-real \
        -DCMAKE_CUDA_COMPILER="$nvcc" -DSNUG_TESTS=OFF -DSNUG_BENCH=OFF
}

# Looked at without the emulated GPU, which is not for installing: in clang's build where there is one.
installed_tree() {
    local folder=build-plain
    [ -e build-clang/CMakeCache.txt ] && folder=build-clang
    build $folder -DSNUG_TESTS=OFF -DSNUG_BENCH=OFF && tests/install/test_install.sh $folder
}

step 'rules' tools/lint
step 'rules: do they find anything?' tools/lint --self-test
step 'planted mutations: does the tool plant them?' tools/mutate --self-test
step 'mistakes of GPUs: has each its place?' tools/plant-gpu --self-test
leave_out=()
[ $sanitize = yes ] && leave_out=(-E "$sanitized_alone")
# The emulated GPU is among the tests as they are; what its kernels are compiled for is this machine.
step 'build' build build-test -DSNUG_CUDA=EMULATED && step 'tests' run_tests build-test "${leave_out[@]}"
if [ $sanitize = yes ]; then
    step 'build with clang, the same bits' build_with_clang
    step 'what is installed' installed_tree
    step 'kernels for GPUs' kernels_for_gpus
    # Sanitizers mislead gcc's warnings; the first build has heeded them.
    step 'build, sanitized' build build-asan -DSNUG_SANITIZE=ON -DSNUG_WERROR=OFF -DSNUG_BENCH=OFF \
        -DCMAKE_C_FLAGS=-w &&
        step 'tests, sanitized' sanitized_tests
    step 'threads that meet, for data races' meetings
else
    step 'what is installed' installed_tree
fi

printf '\n== summary\n'
printf '%s\n' "${summary[@]}"
[ $failed -eq 0 ] && echo "all passed" || echo "something failed"
exit $failed
