#!/bin/bash
# What an installed tree holds: installs BUILD into a folder, moves that away, and works with it as somebody does
# who never saw this repository. Programs that are not there (pkg-config, man, g++) are left out with a sentence.
#
#   tests/install/test_install.sh BUILD
set -u -o pipefail
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=$(cd "$1" && pwd) || exit 2
scratch=$(mktemp -d) && trap 'rm -rf "$scratch"' EXIT && cd "$scratch" || exit 2
export XDG_CACHE_HOME=$scratch/cache SNUG_RATES=built-in
unset LD_LIBRARY_PATH PKG_CONFIG_PATH CMAKE_PREFIX_PATH DESTDIR
failed=0

fail() {
    echo "FAILED: $1"
    failed=1
}
quietly() { "$@" >log 2>&1 || { cat log; fail "$*"; }; }
there() { command -v "$1" >/dev/null || { echo "$1 is not installed: left out"; return 1; }; }
same() { # WHAT FILE FILE
    diff -u "$2" "$3" || fail "$1"
}
install_into() { quietly cmake -DCMAKE_INSTALL_PREFIX="$1" -P "$build/cmake_install.cmake"; }

# ---- into a home directory, then moved: nothing in it may know where it was ----

install_into "$scratch/home/first"
mkdir -p moved && mv home/first moved/tree
tree=$scratch/moved/tree
lib=$(dirname "$(find "$tree" -name libsnug.a)")
for file in bin/snug include/snug/snug.h share/man/man1/snug.1 share/man/man1/snug-train.1 \
    share/bash-completion/completions/snug share/zsh/site-functions/_snug share/fish/vendor_completions.d/snug.fish \
    share/doc/snug/LICENSE share/doc/snug/examples/classify.c share/doc/snug/docs/formats.md; do
    [ -s "$tree/$file" ] || fail "$file is not installed"
done
grep -rlI -e "$scratch/home" -e "$build" "$tree" --include='*.pc' --include='*.cmake' --include='*.h' &&
    fail "these know a folder of the one who built"

(cd "$tree" && find . ! -type d -printf '%P\n' | sort) >found
sort "$tree/share/snug/installed" >listed
same "the list of what is installed" listed found

quietly "$tree/bin/snug" plan char-small --memory 64MiB
[[ $("$tree/bin/snug" --version) == "snug "[0-9]* ]] || fail "the installed program has no version"
quietly bash -n "$tree/share/bash-completion/completions/snug"
# Every command has its page. The commands are those that the program completes, not those that its pages name.
commands=$("$tree/bin/snug" completion bash | sed -n '/COMP_CWORD" -eq 1/{n;s/.*-W "\(.*\) help --help.*/\1/p}')
[[ $commands == *train*explain-oom* ]] || fail "completion names no commands"
for command in $commands; do
    [ -s "$tree/share/man/man1/snug-$command.1" ] || fail "snug $command has no page"
done
if there man; then
    MANPATH=$tree/share/man man snug-train >page 2>/dev/null && grep -q -e '--recompute' page ||
        fail "man does not find snug-train"
    MANPATH=$tree/share/man man snug-explain-oom >page 2>/dev/null && grep -q -e '--for' page ||
        fail "man does not find snug-explain-oom"
fi

# ---- the public names, and no others ----

grep -v '^ *[*/]' "$source/include/snug/snug.h" | tr '\n' ' ' | grep -oE 'SNUG_API [^;]*;' |
    grep -oE 'snug_[a-z0-9_]+ *\(' | tr -d ' (' | sort -u >public
nm -D --defined-only "$lib/libsnug.so" | awk '$2 == "T" { sub(/@.*/, "", $3); print $3 }' | sort >shared
nm -D --defined-only "$lib/libsnug.so" | awk '$2 != "T" && $2 != "A" { print }' >more
nm -g --defined-only "$lib/libsnug.a" | awk 'NF == 3 { print $3 }' | sort >static
[ -s public ] || fail "no public names were found in snug.h"
same "names that libsnug.so gives away" public shared
same "names that libsnug.a gives away" public static
[ -s more ] && { cat more; fail "libsnug.so gives away what is no function"; }
readelf -d "$lib/libsnug.so" >dynamic
grep -q 'SONAME.*\[libsnug\.so\.[0-9]*\]' dynamic || fail "libsnug.so has no SONAME"

# ---- glibc 2.28 and newer ----

# A newer glibc gives new versions to old functions: exp, log and pow have lost their wrappers (2.29), stat and
# its kin have become functions (2.33), threads have moved into libc (2.32, 2.34). All of these an older glibc has
# under its own versions, so building there works. Any other name is a function that 2.28 does not have: such a
# one may be used behind a test in CMake only.
had='exp|log|pow|exp2|log2|(exp|log|pow|exp2|log2)f|f?stat|lstat|fstatat|mknod|fcntl|pthread_[a-z_]+|sem_[a-z]+|'
had+='__libc_start_main|dl(open|sym|close|error|addr)|shm_open|shm_unlink|sigmask'
for file in "$lib/libsnug.so" "$tree/bin/snug"; do
    objdump -T "$file" | grep '\*UND\*' | sed -n 's/.*[( ]GLIBC_2\.\([0-9]*\)[0-9.]*)* \(.*\)/\1 \2/p' |
        awk -v had="^($had)\$" '$1 > 28 && $2 !~ had { print $2 " is new in glibc 2." $1 }' >newer
    [ -s newer ] && { cat newer; fail "${file##*/} needs more than glibc 2.28"; }
    [ "$(objdump -T "$file" | grep -c 'GLIBC_2\.')" -gt 0 ] || fail "no glibc symbols were found in ${file##*/}"
done

# ---- a status can't be dropped: compilers warn, in C as it is compiled here, in strict C and in C++ ----

echo '#include <snug/snug.h>
void drop(snug_run *r); void drop(snug_run *r) { snug_train(r, NULL, NULL); }' >drop.c
echo '#include "base/status.h"
void drop(void); void drop(void) { status_set(STATUS_FAILED, "x"); }' >drop_inside.c
warns() { # COMPILER OPTION...
    "$@" -Wall -Wextra -I"$tree/include" -I"$source/src" -fsyntax-only 2>warned || fail "$* does not compile"
    [ "$(grep -c 'warning:' warned)" = 1 ] && grep -q 'unused-result' warned ||
        { cat warned; fail "$* does not warn of a status that is dropped, and of nothing else"; }
}
for compiler in gcc clang; do
    there $compiler || continue
    # gcc has known since 11, clang since 9
    [ $compiler = gcc ] && [ "$(gcc -dumpversion | cut -d. -f1)" -lt 11 ] && continue
    warns $compiler -std=gnu17 drop.c
    warns $compiler -std=c11 -pedantic drop.c
    warns $compiler -std=gnu17 drop_inside.c
done
if there g++; then warns g++ -std=c++17 -x c++ drop.c; fi

# ---- the examples, against what is installed ----

cp -r "$tree/share/doc/snug/examples" . && cd examples || exit 1
texts=$tree/share/doc/snug/docs
compiler=$(sed -n 's/^CMAKE_C_COMPILER:[A-Z]*=//p' "$build/CMakeCache.txt")
if there pkg-config; then
    export PKG_CONFIG_PATH=$lib/pkgconfig
    quietly "$compiler" classify.c -o with-pkg-config $(pkg-config --cflags --libs snug)
    quietly ./with-pkg-config 64 "$texts" # it has noted where the library is
    quietly "$compiler" classify.c -o static $(pkg-config --cflags snug) "$lib/libsnug.a" \
        $(sed -n 's/^Libs\.private: //p' "$lib/pkgconfig/snug.pc")
    readelf -d static >dynamic && grep -q libsnug dynamic && fail "the static example wants libsnug.so"
fi
for static in OFF ON; do
    quietly cmake -S . -B "build-$static" -DCMAKE_PREFIX_PATH="$tree" -DSNUG_STATIC=$static \
        -DCMAKE_C_COMPILER="$compiler"
    quietly cmake --build "build-$static"
done
quietly ./build-ON/classify 64 "$texts"
quietly ./build-OFF/regress 64
quietly ldd build-OFF/classify
grep -q "libsnug.so.0 => $lib" log || fail "the example built by CMake does not find the library"
there g++ && { echo '#include <snug/snug.h>' >c++.cc && quietly g++ -fsyntax-only -I"$tree/include" c++.cc; }
cd ..

# ---- and away again ----

(cd "$tree" && xargs rm <share/snug/installed) || fail "the list does not uninstall"
[ -z "$(find "$tree" ! -type d)" ] || fail "something stays after uninstalling by the list"
install_into "$scratch/second"
quietly cmake --build "$build" --target uninstall
[ -z "$(find second ! -type d)" ] || fail "something stays after the target uninstall"
[ -z "$(find second -type d -name snug)" ] || fail "empty folders of snug stay after the target uninstall"

[ $failed -eq 0 ] && echo "all is there"
exit $failed
