# Sourced by scripts/test and scripts/demo: runs named stages, alone or side by side, shows what is going on, and the
# time of each. Needs: log directory in $logs. With $verbose=1 the stages' output is shown as it comes.
#
# A stage is one process of its own, in a process group of its own, under `set -euo pipefail`: it ends at the first command
# that fails. Its output is in $logs/NAME.log. A stage that fails shows the log's end, stops the others and ends the script;
# with $keep_going=1 it is noted in $failed_stages instead. With a folder in $ledger a line of JSON about each stage goes into
# $ledger/stages.jsonl: the seconds that it took, and that all of its processes computed.

stage_times=()
failed_stages=()
declare -A stage_pid=() stage_begin=()  # of those that run, by name

# pause SECONDS: without a child. While bash waits for one it notes a SIGINT, and runs the trap only after that has ended.
exec {_nothing}<> <(:)
pause() { read -rt "$1" -u "$_nothing" || true; }

# For a trap on INT and TERM: ends the stages that run, so that they clean up after themselves, and waits for them (at
# most 30 s).
stop_stages() {
  local name i
  for name in "${!stage_pid[@]}"; do kill -INT -- "-${stage_pid[$name]}" 2>/dev/null || true; done
  for name in "${!stage_pid[@]}"; do
    for ((i = 0; i < 150; ++i)); do
      kill -0 -- "-${stage_pid[$name]}" 2>/dev/null || break
      sleep 0.2
    done
    kill -TERM -- "-${stage_pid[$name]}" 2>/dev/null || true
  done
  stage_pid=()
}

# A control group for each stage, of version 2, which counts processor time without any controller. None where there is no
# such or we may make none: the ledger has no processor seconds then.
stage_groups=
make_stage_groups() {
  local place kind own
  own=$(sed -n 's/^0:://p' /proc/self/cgroup)
  while read -r _ place kind _; do
    [ "$kind" = cgroup2 ] || continue
    stage_groups=$place${own%/}/epic-stages-$$
    mkdir "$stage_groups" 2>/dev/null || stage_groups=
    export EPIC_STAGE_GROUPS=$stage_groups  # for the ledger
    return 0
  done </proc/self/mounts
}
remove_stage_groups() { [ -z "$stage_groups" ] || rmdir "$stage_groups"/* "$stage_groups" 2>/dev/null || true; }

# Processor seconds of a stage, or 0.
_computed() {
  local key value
  [ -n "$stage_groups" ] || { echo 0; return 0; }
  while read -r key value; do
    [ "$key" = usage_usec ] && printf '%d.%03d\n' $((value / 1000000)) $((value % 1000000 / 1000))
  done <"$stage_groups/$1/cpu.stat"
  return 0
}

_start_stage() {
  local name=$1 log=$logs/$1.log
  shift
  [ -z "$stage_groups" ] || mkdir -p "$stage_groups/$name"
  stage_begin[$name]=$EPOCHSECONDS
  : >"$log"
  # A process group of its own, and no ignored SIGINT, as background jobs of a script would have. Not within a
  # condition: `set -e` would be off in there.
  set -m
  (
    set -euo pipefail
    [ -z "$stage_groups" ] || echo $BASHPID >"$stage_groups/$name/cgroup.procs"
    export EPIC_STAGE_NAME=$name
    "$@"
  ) >"$log" 2>&1 &
  stage_pid[$name]=$!
  set +m
  [ "${verbose:-0}" = 1 ] || return 0
  echo "== $name"
  tail -n +1 -s 0.2 --pid="${stage_pid[$name]}" -f "$log" &
}

# Takes note of a stage that has ended.
_end_stage() {
  local name=$1 status=0 seconds
  wait "${stage_pid[$name]}" || status=$?
  unset "stage_pid[$name]"
  seconds=$((EPOCHSECONDS - stage_begin[$name]))
  [ -z "${ledger:-}" ] || printf '{"stage": "%s", "wall": %d, "cpu": %s}\n' "$name" $seconds "$(_computed "$name")" >>"$ledger/stages.jsonl"
  stage_times+=("$name ${seconds}s")
  if [ $status -eq 0 ]; then
    printf '%-18s ok (%s s)\n' "== $name" $seconds
    return 0
  fi
  printf '%-18s FAILED after %s s (exit %s); the end of %s:\n' "== $name" $seconds $status "$logs/$name.log"
  tail -n "${tail_lines:-60}" "$logs/$name.log"
  failed_stages+=("$name")
  [ "${keep_going:-0}" = 1 ] && return 0
  stop_stages
  exit 1
}

# Says every half minute what runs, so that nobody wonders.
_say_what_runs() {
  local now=$EPOCHSECONDS name
  [ $((now - ${stage_said:=$now})) -ge 30 ] && [ ${#stage_pid[@]} -gt 0 ] && [ "${verbose:-0}" = 0 ] || return 0
  stage_said=$now
  for name in "${!stage_pid[@]}"; do
    printf '   %s: %s s' "$name" $((now - stage_begin[$name]))
    [ ! -s "${ledger:-}/$name.progress" ] || printf ' (%s)' "$(<"$ledger/$name.progress")"
  done
  echo
}

_runs() { kill -0 "${stage_pid[$1]}" 2>/dev/null; }

# stage NAME COMMAND...: one stage alone.
stage() {
  _start_stage "$@"
  while _runs "$1"; do
    pause 0.2
    _say_what_runs
  done
  _end_stage "$1"
}

# configure PRESET [OPTION...]: within a stage, configures a build tree. What CMake warns of fails it: in a log nobody would see it.
configure() {
  local said=$logs/configure-$1.log
  cmake --preset "$@" 2>&1 | tee "$said"
  if grep -q '^CMake .*Warning' "$said"; then
    echo "configuring with the preset $1 is not to warn of anything (above)"
    return 1
  fi
}

# side_by_side LANE...: each lane is a list of NAME=COMMAND in one word; the stages of a lane run in turn, the lanes side
# by side. A command is a function or a program without arguments.
side_by_side() {
  local -a lanes=("$@") running=() next=()
  local i busy=1
  while [ $busy = 1 ]; do
    busy=0
    for i in "${!lanes[@]}"; do
      if [ -n "${running[i]:-}" ] && ! _runs "${running[i]}"; then
        _end_stage "${running[i]}"
        running[i]=
      fi
      read -ra next <<<"${lanes[i]}"
      if [ -z "${running[i]:-}" ] && [ ${#next[@]} -gt 0 ]; then
        running[i]=${next[0]%%=*}
        lanes[i]=${next[*]:1}
        _start_stage "${running[i]}" "${next[0]#*=}"
      fi
      [ -z "${running[i]:-}" ] || busy=1
    done
    pause 0.2
    _say_what_runs
  done
}

print_stage_times() {
  printf 'stages:'
  printf ' %s,' "${stage_times[@]}" | sed 's/,$//'
  echo
}
