#!/usr/bin/env bash
# The stages of `make test`, in two lanes that share the machine: one computes, at a low priority, and one mostly waits
# for a real cluster. What a stage prints comes in one piece when it ends; until then a line each minute says what runs.
# When a stage fails, the stages that are running end, and no other one begins.
set -euo pipefail -m # With job control each lane is a process group, so that an interrupt reaches all of it.
cd "$(dirname "${BASH_SOURCE[0]}")/.."
logs=$(mktemp -d)
lanes=()
end() {
	for lane in "${lanes[@]}"; do kill -INT -- "-$lane" 2>/dev/null || :; done
	wait 2>/dev/null || :
	rm -rf "$logs"
}
trap end EXIT
trap 'exit 130' INT TERM

# stage TITLE VERB… runs verbs of the Makefile, and prints what they said when they have ended.
stage() {
	local title=$1 verb=$2 from=$SECONDS result=ok
	shift
	[ ! -e "$logs/failed" ] || return 1
	printf '\n==> %s (make %s)\n' "$title" "$*"
	echo "$title" >"$logs/$verb.running"
	nice -n "${niceness:-0}" make "$@" >"$logs/$verb" 2>&1 || result=FAILED
	rm "$logs/$verb.running"
	[ $result = ok ] || touch "$logs/failed"
	{
		flock 9
		printf '\n==> %s: what make %s has printed\n' "$title" "$*"
		cat "$logs/$verb"
		printf '<== %s: %s, %ds\n' "$title" $result $((SECONDS - from))
		[ $result = ok ] || printf '    again with: make %s\n' "$*"
	} 9>"$logs/printing"
	[ $result = ok ]
}

computes() {
	niceness=15
	stage 'Unit tests and a sample of the simulations' test-unit &&
		stage 'Rules and rights on a real API server' test-api
}

waits() {
	stage 'The sandbox and its images' test-sandbox &&
		stage 'The model of PostgreSQL and real servers' test-model SEQUENCES=10 &&
		stage 'A database on a real cluster' test-e2e
}

# Kubernetes is compiled while the linter reads: whoever has just cloned this waits for it longest.
make -s bin/sandbox
nice bin/sandbox parts >/dev/null 2>&1 &
lanes+=($!)
stage 'Generated files are current' gen-check
stage 'Lint of all modules' lint
(computes) &
lanes+=($!)
(waits) &
lanes+=($!)
while sleep 60; do
	running=$(cat "$logs"/*.running 2>/dev/null | paste -sd, | sed 's/,/, /g') || :
	[ -z "$running" ] || printf '... %d min: %s\n' $((SECONDS / 60)) "$running"
done &
ticker=$!
disown %%
failed=0
for lane in "${lanes[@]:1}"; do wait "$lane" || failed=1; done
kill -- "-$ticker" 2>/dev/null || :
printf '\nmake test: %s after %d min\n' "$([ $failed = 0 ] && echo ok || echo FAILED)" $((SECONDS / 60))
exit $failed
