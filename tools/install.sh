#!/bin/bash
# Installs what is missing on Debian and its kin, for demo.sh and test.sh.
#
#   tools/install.sh                 what the build needs
#   tools/install.sh tests           and what the tests need
#   tools/install.sh time curl       and these packages
#
# Needs root or a sudo that asks nothing; otherwise it prints the one command to run. Exit 0: everything is
# there. 2: something is missing. Nothing is installed and nothing is asked for when all is there.
set -u

missing=()
want() { # PACKAGE TEST...: the package is missing when the test fails
    local package=$1
    shift
    "$@" >/dev/null 2>&1 || missing+=("$package")
}
compiles() { echo "#include <$1>" | cc -E - 2>/dev/null; }
installed() { dpkg-query -W -f '${Status}' "$1" | grep -q '^install ok installed'; }

want gcc command -v cc
want libc6-dev compiles stdio.h
want make command -v make
want cmake command -v cmake
want pkg-config command -v pkg-config
want libjson-c-dev pkg-config --exists "json-c >= 0.15"
want libxxhash-dev compiles xxhash.h
want libyaml-dev pkg-config --exists yaml-0.1
want libpcre2-dev pkg-config --exists "libpcre2-8 >= 10.32"
want libutf8proc-dev pkg-config --exists libutf8proc
want zlib1g-dev pkg-config --exists zlib
want libzstd-dev pkg-config --exists libzstd
want libsnappy-dev pkg-config --exists snappy
want libjpeg62-turbo-dev pkg-config --exists libjpeg
want libpng-dev pkg-config --exists libpng
want libmicrohttpd-dev pkg-config --exists "libmicrohttpd >= 0.9.75"
for extra; do
    case $extra in
    tests)
        want libcmocka-dev pkg-config --exists cmocka
        want g++ command -v g++
        want libopenmpi-dev pkg-config --exists ompi-c
        want openmpi-bin command -v mpirun
        want python3-jsonschema python3 -c "import jsonschema"
        # Pages are tested in a browser. Ubuntu has none as a package: there those tests say that they are left out.
        grep -qsx 'ID=debian' /etc/os-release && want chromium-headless-shell command -v chromium-headless-shell
        ;;
    *) want "$extra" installed "$extra" ;;
    esac
done
[ ${#missing[@]} -eq 0 ] && exit 0

command="apt-get install -y --no-install-recommends ${missing[*]}"
if ! command -v apt-get >/dev/null; then
    echo "missing: ${missing[*]} (these are Debian's names; install them as this system does)" >&2
    exit 2
fi
if [ "$(id -u)" -eq 0 ]; then as=(env)
elif sudo -n true 2>/dev/null; then as=(sudo -n env)
else
    echo "missing: ${missing[*]}; run: sudo $command" >&2
    exit 2
fi

# The lists of packages may be stale or absent: then fetch them and try again.
echo "installing: ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
quietly() { "${as[@]}" DEBIAN_FRONTEND=noninteractive "$@" >"$log" 2>&1 </dev/null; }
quietly $command || { quietly apt-get update && quietly $command; } && exit 0
tail -n 20 "$log" >&2
echo "could not install: ${missing[*]}; the command was: $command" >&2
exit 2
