#!/usr/bin/env bash
# Runs three verbs of the Makefile beside each other: one whose stages share a sandbox, one that needs none, and one that
# needs images. The last two get what the first leaves of the processors, and their lines begin with a bar. Kubernetes and
# the images are built beside the second, before the others. If one fails, all are ended. The sandbox is ended at the
# end, whatever happened, unless it was up before.
# Usage: hack/with-sandbox.sh SHARING ALONE WITH-IMAGES
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

ours= failed= running=() said=$(mktemp -d)
declare -A verb=()
# Lanes print at once, so that the reason of a failure is soon out of sight.
failures() {
  printf '\nWhat failed:\n'
  grep -h -B 60 -A 12 -e '--- FAIL' -e '^panic: ' -e 'WARNING: DATA RACE' "$1" | tail -n 300 || tail -n 80 "$1"
}
end() {
  local status=$?
  trap - EXIT INT TERM
  for signal in INT TERM; do # Go removes what it has made for itself when it is interrupted.
    for group in "${running[@]}"; do
      kill -s $signal -- "-$group" 2>/dev/null && sleep 1 || :
    done
  done
  if [ -n "$ours" ]; then
    echo 'The sandbox of the tests is ended.'
    bin/sandbox down
  fi
  [ -z "$failed" ] || failures "$said/$failed"
  rm -rf "$said"
  [ $status = 0 ] && printf '\nAll stages are well, after %d min %d s.\n' $((SECONDS / 60)) $((SECONDS % 60))
  exit $status
}
trap end EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Each is a process group of its own, so that all of it can be ended.
begin() {
  set -m
  "$@" </dev/null &
  running+=($!)
  set +m
}
lane() { # NICENESS BEFORE-EACH-LINE VERB
  begin nice -n "$1" bash -o pipefail -c 'make "$1" 2>&1 | sed -u "s/^/$2/" | tee -i "$3"' lane "$3" "$2" "$said/$3"
  verb[$!]=$3
}
beside() { lane 10 '| ' "$1"; }
build() { # What cannot be built here, for lack of a package, is tried once more when the sandbox is started.
  begin bash -euc 'bin/sandbox image build & bin/sandbox parts --all; wait $! || echo "They are built later."' &>"$said/build"
}

build
building=$!
beside "$2"
while [ ${#running[@]} -gt 0 ]; do
  status=0
  wait -n -p ended "${running[@]}" || status=$?
  for index in "${!running[@]}"; do
    [ "${running[index]}" != "$ended" ] || unset "running[index]"
  done
  if [ "$ended" = "$building" ]; then
    [ $status = 0 ] || { cat "$said/build" >&2; echo 'Kubernetes cannot be built: see above.' >&2; exit $status; }
    printf '\nKubernetes and the images are built, after %d s.\n' $SECONDS
    bin/sandbox status &>/dev/null || ours=yes
    lane 0 '' "$1"
    beside "$3"
  fi
  [ $status = 0 ] || { failed=${verb[$ended]}; exit $status; }
done
