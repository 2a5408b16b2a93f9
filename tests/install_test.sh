#!/usr/bin/env bash
# install_test.sh BUILD_DIR: installs the host library, softnic and Open MPI's component below a temporary root, moves the
# tree, and builds the examples against it, with find_package and with pkg-config. Exit 0 if both build and run as far as a
# machine without EPIC lets them, wherever the tree lies, and if Open MPI finds the component there.
set -euo pipefail

[ $# -eq 1 ] || { sed -n '2,4s/^# //p' "$0" >&2; exit 2; }
build=$(realpath "$1")
source=$(realpath "$(dirname "$0")/..")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "install_test: $*" >&2; exit 1; }

# A package is built like this: installed below DESTDIR, used somewhere else later.
for component in commlib softnic mpi; do
  DESTDIR=$work/root cmake --install "$build" --component $component --prefix /opt/epic >>"$work/install.log"
done
[ ! -e /opt/epic/include/epic/epic.h ] || fail "DESTDIR was ignored"
mv "$work/root/opt/epic" "$work/epic"

# What docs/HOST.md lists.
for file in include/epic/epic.h include/epic/epic_c.h include/epic/parallel.h lib/libcommlib.so lib/pkgconfig/epic.pc lib/cmake/epic/epicConfig.cmake \
            bin/epic-run lib/epic/softnic/libibverbs.so.1 lib/epic/run/epic_run; do
  [ -e "$work/epic/$file" ] || fail "$file is not installed"
  grep -qF "$file" "$source/docs/HOST.md" || fail "docs/HOST.md does not list $file"
done
# Nothing says where it was built or put first.
if grep -rlE "$work|/opt/epic|$build" "$work/epic/lib/pkgconfig" "$work/epic/lib/cmake"; then fail "these files hold old places"; fi

# Without a group to join, the examples end with a typed error.
expect_refusal() {
  local out
  if out=$(env -u EPIC_RANK -u EPIC_SIZE EPIC_MANAGER=127.0.0.1:1 "$@" 2>&1); then fail "$* succeeded without a rank"; fi
  case $out in *"nobody says this process's rank"*) ;; *) fail "$* said: $out" ;; esac
}

# build_and_run PREFIX: both examples in both ways, in a folder of their own.
build_and_run() {
  local prefix=$1 to libdir
  to=$(mktemp -d -p "$work")
  cmake -S "$source/examples" -B "$to/cmake" -DCMAKE_PREFIX_PATH="$prefix" >"$to/log"
  cmake --build "$to/cmake" >>"$to/log"
  expect_refusal "$to/cmake/allreduce"
  expect_refusal "$to/cmake/allreduce_c"

  export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
  libdir=$(pkg-config --variable=libdir epic)
  # shellcheck disable=SC2046  # flags are words
  c++ -std=c++20 -Wall -Wextra -Werror "$source/examples/allreduce.cc" -o "$to/pc" $(pkg-config --cflags --libs epic) \
    -Wl,-rpath,"$libdir"
  # shellcheck disable=SC2046
  cc -std=c11 -Wall -Wextra -Werror -pedantic "$source/examples/allreduce_c.c" -o "$to/pc_c" $(pkg-config --cflags --libs epic)
  expect_refusal "$to/pc"
  expect_refusal env LD_LIBRARY_PATH="$libdir" "$to/pc_c"
  built=$to
}

build_and_run "$work/epic"
mv "$work/epic" "$work/moved"
# What was linked before finds the library no more, but by the environment.
if "$built/pc" >"$work/log" 2>&1 || ! grep -q "libcommlib.so.0: cannot open" "$work/log"; then fail "$(cat "$work/log")"; fi
expect_refusal env LD_LIBRARY_PATH="$work/moved/lib" "$built/pc"
build_and_run "$work/moved"
[ "$("$work/moved/bin/epic-run" --version)" = "softnic in $work/moved/lib/epic/softnic" ] || fail "epic-run does not find softnic"
expect_refusal "$work/moved/bin/epic-run" --devices lo "$built/pc"
# Without a host: `epic-run --hosts` of the tree runs a program here, and leaves nothing in the tree.
printf '#!/bin/sh\nshift; exec sh -c "$*"\n' >"$work/ssh" && chmod +x "$work/ssh"
out=$(EPIC_SSH=$work/ssh "$work/moved/bin/epic-run" --hosts a sh -c 'echo $EPIC_RANK $LD_LIBRARY_PATH' </dev/null)
[ "$out" = "[0] 0 $work/moved/lib/epic/softnic" ] || fail "epic-run --hosts said: $out"
[ -z "$(find "$work/moved" -name __pycache__)" ] || fail "epic-run --hosts has written into the installed tree"

# MPICH's libraries, where cmake has found it: no program without it notices the preload.
if [ -e "$build/mpi/lib/libepic_mpi.so" ]; then
  for file in libepic_mpi.so libepic_mpi_mpich.so tsan-suppressions; do
    [ -e "$work/moved/lib/epic/mpi/$file" ] || fail "$file is not installed"
    grep -qF "$file" "$source/docs/MPI.md" || fail "docs/MPI.md does not list $file"
  done
  [ -z "$(LD_PRELOAD=$work/moved/lib/epic/mpi/libepic_mpi.so sh -c true 2>&1)" ] || fail "sh does not run with libepic_mpi.so preloaded"
fi

# Open MPI's component, where cmake has found Open MPI: epic-run of the same prefix starts MPI programs with it.
if [ -e "$build/mpi/lib/mca_coll_epic.so" ]; then
  mpi=$work/moved/lib/epic/mpi
  for file in mca_coll_epic.so libepic_mpi_group.so; do
    [ -e "$mpi/$file" ] || fail "$file is not installed"
    grep -qF "$file" "$source/docs/MPI.md" || fail "docs/MPI.md does not list $file"
  done
  found=$(EPIC_MANAGER=127.0.0.1:1 "$work/moved/bin/epic-run" --mpi ompi_info --param coll epic --level 9)
  for parameter in coll_epic_priority coll_epic_manager coll_epic_softnic; do
    [[ $found == *"$parameter"* ]] || fail "Open MPI does not find the component: ompi_info says $found"
  done
  [[ $(ldd "$mpi/libepic_mpi_group.so") == *"$work/moved/lib/"*libcommlib.so.0* ]] || fail "the groups' library finds no libcommlib beside it"
fi
echo "find_package and pkg-config both work, wherever the tree is"
