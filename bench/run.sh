#!/bin/bash
# Runs every measurement that this machine can, writes bench/results/*.md, and says what was left out.
#
#   bench/run.sh                   builds into build/ and measures; an hour on two cores, on an idle machine
#   bench/run.sh --quick           without the longest ones (gpt2 at 4 x 1024, the table of memory)
#
# Peers are used where they are found, from Debian: libopenblas0-pthread, libopenblas0-openmp, libdnnl2,
# python3-torch. A current PyTorch is named by TORCH_CURRENT=/path/to/its/python. BUILD=DIR: another build.
set -u -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2

cases=gpt2-4x256,char-gpt-12x256,gpt2-4x64,gpt2-4x1024
quick=
for option; do
    case $option in
    --quick) quick=yes cases=gpt2-4x256,char-gpt-12x256,gpt2-4x64 ;;
    *)
        sed -n '2,8s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
        case $option in -h | --help) exit 0 ;; *) exit 2 ;; esac
        ;;
    esac
done

build=${BUILD:-build} failed=() left=()
if [ -z "${BUILD:-}" ]; then
    mkdir -p build
    { cmake -S . -B build -DSNUG_TESTS=OFF && cmake --build build -j "$(nproc)"; } >build/bench.log 2>&1 ||
        { tail -n 30 build/bench.log; exit 1; }
fi

measure() { # SCRIPT OPTION...
    local script=$1
    shift
    printf '\n== %s\n' "$script"
    "bench/$script" --build "$build" "$@" || failed+=("$script")
}

torch=(--torch-current "${TORCH_CURRENT:-}")
[ -n "${TORCH_CURRENT:-}" ] || left+=("a current PyTorch: name its Python in TORCH_CURRENT")
python3 -c 'import torch' 2>/dev/null || left+=("PyTorch: no python3-torch")
for library in openblas-pthread openblas-openmp; do
    [ -e "/usr/lib/$(uname -m)-linux-gnu/$library/libopenblas.so.0" ] || left+=("OpenBLAS: no lib${library/blas/blas0}")
done
ldconfig -p | grep -q 'libdnnl\.so' || left+=("oneDNN: no libdnnl")

measure matmul.py
measure step.py "${torch[@]}" --only "$cases"
measure attention.py "${torch[@]}"
measure matmul_16bit.py
measure matmul_8bit.py
measure stream.py
measure workers.py
python=${PICTURES_PYTHON:-python3}
if "$python" -c 'import pyarrow, PIL' 2>/dev/null; then
    measure pictures.py --python "$python"
else
    left+=("pictures in Parquet: no pyarrow or Pillow; name a Python that has them in PICTURES_PYTHON")
fi
measure generate.py
measure scaling.py
measure prediction.py
if mpirun --version >/dev/null 2>&1; then measure ranks.py; else left+=("several processes: no mpirun"); fi
measure search.py
if [ -n "$quick" ]; then
    left+=("gpt2 at 4 x 1024 and the table of memory: --quick")
else
    text=$(mktemp)
    cat /usr/share/common-licenses/* docs/*.md >"$text" 2>/dev/null
    printf '\n== memory.py\n'
    bench/memory.py --snug "$build/snug" --data "$text" || failed+=(memory.py)
    printf '\n== offload.py\n'
    bench/offload.py --build "$build" --offload-to "$build" || failed+=(offload.py)
    rm -f "$text"
fi

printf '\n== left out\n'
[ ${#left[@]} -gt 0 ] && printf '%s\n' "${left[@]}" || echo nothing
[ ${#failed[@]} -eq 0 ] && exit 0
printf '\n== failed\n'
printf '%s\n' "${failed[@]}"
exit 1
