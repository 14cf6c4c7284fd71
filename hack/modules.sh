#!/usr/bin/env bash
# Downloads the Go modules that the programs and the sandbox are built from, and says so where it takes longer than a
# moment: the first time it is some hundred megabytes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# Of the stores only the one that the demo starts: the other one has a hundred more.
{ go mod download && go mod download -C sandbox && go list -C test/stores -deps ./s3 >/dev/null; } &
pid=$!
trap 'kill $pid 2>/dev/null || :' EXIT
store=$(go env GOMODCACHE)/cache/download
for ((second = 0; ; second++)); do
	sleep 1
	kill -0 $pid 2>/dev/null || break
	((second == 2)) && echo "Downloading Go modules, the first time only"
	((second > 2 && second % 5 == 0)) && echo "  $(du -sm "$store" | cut -f1) MB are there"
done
wait $pid
trap - EXIT
