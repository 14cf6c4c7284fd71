#!/usr/bin/env bash
# Runs verbs of the Makefile beside each other: one whose stages share a sandbox, and others that need none and get what
# the first leaves of the processors; their lines begin with a bar. Kubernetes and the images are built before the first
# and beside the others. If one fails, all are ended. The sandbox is ended at the end, whatever happened, unless it was
# up before.
# Usage: hack/with-sandbox.sh SHARING ALONE…
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

building= ours= running=() said=$(mktemp)
end() {
  local status=$?
  trap - EXIT INT TERM
  for group in $building "${running[@]}"; do
    kill -- "-$group" 2>/dev/null || :
  done
  rm -f "$said"
  if [ -n "$ours" ]; then
    echo 'The sandbox of the tests is ended.'
    bin/sandbox down
  fi
  [ $status = 0 ] && printf '\nAll stages are well, after %d min %d s.\n' $((SECONDS / 60)) $((SECONDS % 60))
  exit $status
}
trap end EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

set -m # Each is a process group of its own, so that all of it can be ended.
# Images that cannot be built here, for lack of a package, are tried once more when the sandbox is started.
build='bin/sandbox image build & bin/sandbox parts --all; wait $! || echo "They are built when the sandbox is started."'
bash -euc "$build" </dev/null &>"$said" &
building=$!
for alone in "${@:2}"; do
  nice -n 10 bash -o pipefail -c 'make "$1" 2>&1 | sed -u "s/^/| /"' alone "$alone" </dev/null &
  running+=($!)
done

wait "$building" || { cat "$said" >&2; echo 'Kubernetes cannot be built: see above.' >&2; exit 1; }
building=
printf '\nKubernetes and the images are built, after %d s.\n' $SECONDS
bin/sandbox status &>/dev/null || ours=yes
make "$1" </dev/null &
running+=($!)
set +m

while [ ${#running[@]} -gt 0 ]; do
  status=0
  wait -n -p ended "${running[@]}" || status=$?
  for index in "${!running[@]}"; do
    [ "${running[index]}" != "$ended" ] || unset "running[index]"
  done
  [ $status = 0 ] || exit $status
done
