#!/usr/bin/env bash
# install_test.sh BUILD_DIR: installs the host library below a temporary root and builds the examples against it, with
# find_package and with pkg-config. Exit 0 if both build and run as far as a machine without EPIC lets them.
set -euo pipefail

[ $# -eq 1 ] || { sed -n '2,3s/^# //p' "$0" >&2; exit 2; }
build=$(realpath "$1")
source=$(realpath "$(dirname "$0")/..")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A package is built like this: installed below DESTDIR, used somewhere else later.
DESTDIR=$work/root cmake --install "$build" --component commlib --prefix /opt/epic >"$work/install.log"
[ ! -e /opt/epic/include/epic/epic.h ] || { echo "DESTDIR was ignored" >&2; exit 1; }
mv "$work/root/opt/epic" "$work/epic"

# Without a group to join, the examples end with a typed error.
expect_refusal() {
  local out
  if out=$(env -u EPIC_RANK -u EPIC_SIZE EPIC_MANAGER=127.0.0.1:1 "$@" 2>&1); then
    echo "$1 succeeded without a rank" >&2
    exit 1
  fi
  case $out in *"nobody says this process's rank"*) ;; *) echo "$1 said: $out" >&2; exit 1 ;; esac
}

cmake -S "$source/examples" -B "$work/cmake" -DCMAKE_PREFIX_PATH="$work/epic" >"$work/cmake.log"
cmake --build "$work/cmake" >>"$work/cmake.log"
expect_refusal "$work/cmake/allreduce"
expect_refusal "$work/cmake/allreduce_c"

PKG_CONFIG_PATH=$(dirname "$(find "$work/epic" -name epic.pc)")
export PKG_CONFIG_PATH
libdir=$(pkg-config --variable=libdir epic)
# shellcheck disable=SC2046  # flags are words
c++ -std=c++20 -Wall -Wextra -Werror "$source/examples/allreduce.cc" -o "$work/pc" $(pkg-config --cflags --libs epic)
# shellcheck disable=SC2046
cc -std=c11 -Wall -Wextra -Werror -pedantic "$source/examples/allreduce_c.c" -o "$work/pc_c" $(pkg-config --cflags --libs epic)
expect_refusal env LD_LIBRARY_PATH="$libdir" "$work/pc"
expect_refusal env LD_LIBRARY_PATH="$libdir" "$work/pc_c"
echo "find_package and pkg-config both work"
