# Sourced by scripts/test and scripts/demo: runs named stages, shows what is going on, prints the time of each.
# Needs: log directory in $logs.

stage_times=()
stage_pid=

# For a trap on INT and TERM: ends the stage that runs, so that it cleans up after itself, and waits for it (at most
# 30 s).
stop_stage() {
  [ -n "$stage_pid" ] || return 0
  kill -INT -- "-$stage_pid" 2>/dev/null || return 0
  local i
  for i in $(seq 150); do
    kill -0 -- "-$stage_pid" 2>/dev/null || return 0
    sleep 0.2
  done
  kill -TERM -- "-$stage_pid" 2>/dev/null || true
}

# stage NAME COMMAND...: runs the command with its output in $logs/NAME.log; a failing stage shows the log's end and
# ends the script. With $verbose=1 the output is shown as it comes.
stage() {
  local name=$1 begin status=0 seconds
  shift
  begin=$(date +%s)
  if [ "${verbose:-0}" = 1 ]; then
    echo "== $name"
    "$@" 2>&1 | tee "$logs/$name.log" || status=${PIPESTATUS[0]}
  else
    printf '== %-18s ' "$name"
    # A process group of its own, and no ignored SIGINT, as background jobs of a script would have.
    set -m
    "$@" >"$logs/$name.log" 2>&1 &
    stage_pid=$!
    set +m
    local shown=0
    # A line that grows while the stage runs: a dot every five seconds, so that nobody wonders.
    while kill -0 $stage_pid 2>/dev/null; do
      sleep 0.2
      seconds=$(($(date +%s) - begin))
      if [ $((seconds / 5)) -gt $shown ]; then
        shown=$((seconds / 5))
        printf '.'
      fi
    done
    wait $stage_pid || status=$?
    stage_pid=
  fi
  seconds=$(($(date +%s) - begin))
  stage_times+=("$name ${seconds}s")
  if [ $status -ne 0 ]; then
    echo " FAILED after ${seconds} s (exit $status); the end of $logs/$name.log:"
    tail -n "${tail_lines:-60}" "$logs/$name.log"
    exit 1
  fi
  [ "${verbose:-0}" = 1 ] || echo " ok (${seconds} s)"
}

print_stage_times() {
  printf 'stages:'
  printf ' %s,' "${stage_times[@]}" | sed 's/,$//'
  echo
}
