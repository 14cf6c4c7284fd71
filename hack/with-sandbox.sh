#!/usr/bin/env bash
# Runs two verbs of the Makefile: one that needs no cluster, beside which Kubernetes and the images are built, and one
# whose stages share a sandbox. That is ended at the end, whatever happened, unless it was up before.
# Usage: hack/with-sandbox.sh ALONE SHARING
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

building= ours= said=$(mktemp)
end() {
  local status=$?
  trap - EXIT INT TERM
  [ -z "$building" ] || kill -- "-$building" 2>/dev/null || :
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

# Images that cannot be built here, for lack of a package, are tried once more when the sandbox is started.
build='bin/sandbox parts --all && { bin/sandbox image build || echo "They are built when the sandbox is started."; }'
set -m # A process group of its own, so that all of it can be ended.
nice -n 15 bash -c "$build" </dev/null &>"$said" &
building=$!
set +m
make "$1"

if kill -0 "$building" 2>/dev/null; then
  printf '\nKubernetes and the images are still being built:\n'
  tail --lines=+1 --follow --pid="$building" "$said"
fi
wait "$building" || { cat "$said" >&2; echo 'Kubernetes cannot be built: see above.' >&2; exit 1; }
building=
bin/sandbox status &>/dev/null || ours=yes
make "$2"
