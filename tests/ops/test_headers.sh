#!/bin/bash
# Headers that kernels read are C++ as well as C: the kernels of other devices are compiled by C++ compilers.
#
#   tests/ops/test_headers.sh
#
# Each header of src/base, src/ir and src/ops is compiled by itself, as kernels include it: after the system's
# headers and as C. Where nvcc is found it compiles all of them at once. Exit 1 when one of them is refused.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
if ! command -v g++ >/dev/null; then
    echo "skipped: there is no g++"
    exit 0
fi

# Left out are pieces of C files of the CPU, included between definitions, its intrinsics, and what is C++ only.
headers() { find src/base src/ir src/ops -name '*.h' ! -name 'attention_*_kernel.h' ! -name 'matmul_avx512.h' \
    ! -name 'matmul_kernel_tiles.h' ! -name 'matmul_int8_tiles.h' ! -name 'attention_pairs_tiles.h' \
    ! -name '*_stream_loops.h' \
    ! -name 'matmul_int8_stream_256.h' ! -name 'matmul_int4_256.h' ! -name '*cuda*.h' | sort; }
around() { # FILE...
    printf '#include <%s>\n' math.h stdlib.h string.h
    echo 'extern "C" {'
    printf '#include "%s"\n' "${@#src/}"
    echo '}'
}
compile() { around "$@" | g++ -std=gnu++17 -Wall -Wextra -Werror -fsyntax-only -Isrc -x c++ -; }
export -f around compile

folder=$(mktemp -d) && trap 'rm -rf "$folder"' EXIT
printf '%s\n' '#pragma once' 'static inline int *same(void *x) { return x; }' >"$folder/not.h"
if compile "$folder/not.h" 2>/dev/null; then
    echo "what is not C++ was taken for it"
    exit 1
fi
headers | xargs -P "$(nproc)" -I{} bash -c 'compile {} >&2 || { echo "not C++: {}"; exit 1; }' || exit 1

command -v nvcc >/dev/null || exit 0
mapfile -t all < <(headers)
around "${all[@]}" >"$folder/all.cu"
nvcc -std=c++17 -Werror all-warnings -Isrc -ptx -o "$folder/all.ptx" "$folder/all.cu"
