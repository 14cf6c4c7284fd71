#!/usr/bin/env bash
# Runs two verbs of the Makefile beside each other: one whose stages share a sandbox, and one that needs none and gets
# what the first leaves of the processors; its lines begin with a bar. Kubernetes and the images are built before the
# first and beside the second. If one fails, the other is ended. The sandbox is ended at the end, whatever happened,
# unless it was up before.
# Usage: hack/with-sandbox.sh ALONE SHARING
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

building= alone= sharing= ours= said=$(mktemp)
end() {
  local status=$?
  trap - EXIT INT TERM
  for group in $building $alone $sharing; do
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
nice -n 10 bash -o pipefail -c 'make "$1" 2>&1 | sed -u "s/^/| /"' alone "$1" </dev/null &
alone=$!
set +m

wait "$building" || { cat "$said" >&2; echo 'Kubernetes cannot be built: see above.' >&2; exit 1; }
building=
printf '\nKubernetes and the images are built, after %d s.\n' $SECONDS
bin/sandbox status &>/dev/null || ours=yes
set -m
make "$2" </dev/null &
sharing=$!
set +m

for _ in "$alone" "$sharing"; do
  status=0
  wait -n -p ended $alone $sharing || status=$?
  [ "$ended" = "$alone" ] && alone='' || sharing=''
  [ $status = 0 ] || exit $status
done
