#!/bin/bash
# Runs the model: as it is, where nothing may be found, and with one flaw at a time, where the named assertion must be.
set -euo pipefail

for tool in spin gcc; do
	command -v "$tool" >/dev/null || { echo "$tool is missing: install Debian's packages spin and gcc, or build spin from its sources" >&2; exit 2; }
done

model=$(cd "$(dirname "$0")" && pwd)/decide.pml
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# run builds a verifier for the bounds in $1, optimized as $2 says, and leaves what it says in $work/out.
run() {
	rm -rf "$work"/*
	(
		cd "$work"
		# shellcheck disable=SC2086 # the bounds are words
		spin $1 -a "$model" >spin.out 2>&1 || { cat spin.out; exit 1; }
		gcc "$2" -w -DSAFETY -DCOLLAPSE -DMEMLIM=3500 -DVECTORSZ=2048 -o pan pan.c
		./pan -m100000 >out 2>&1 || true
	)
}

# line prints what came out of a run: verdict, states, seconds, bounds.
line() {
	local states seconds
	states=$(awk '/states, stored/ { print $1 }' "$work/out")
	seconds=$(awk '/elapsed time/ { print $4 }' "$work/out")
	printf '%-9s %9s states %6s s  %s\n' "$1" "${states:--}" "${seconds:--}" "$2"
}

# holds: every state was visited, and no assertion failed.
holds() {
	run "$1" -O2
	if grep -q 'errors: 0' "$work/out" && ! grep -qE 'Search not completed|search depth too small|^error' "$work/out"; then
		line holds "$1"
	else
		line 'FAILS' "$1"
		grep -E '^(pan|error)' "$work/out" || true
		failed=1
	fi
}

# breaks: the flaw in $1 makes the assertion fail in whose text $2 occurs.
breaks() {
	run "$1" -O0 # they are short
	if grep -F 'assertion violated' "$work/out" | grep -qF "$2"; then
		line found "$1"
	else
		line 'NOT FOUND' "$1"
		grep -E '^(pan|error)' "$work/out" || true
		failed=1
	fi
}

agreement='chosen==v'
removed='part[v]>>'
cut='trim[v]>='
undone='state[i]==0'

holds '-DN=2 -DWRONG=2 -DCRASHES=2'
holds '-DN=3 -DWRONG=2 -DCRASHES=1'
holds '-DN=3 -DWRONG=3 -DCRASHES=2 -DEAGER'
holds '-DN=3 -DWRONG=2 -DCRASHES=1 -DJOIN=0 -DLEAVER=1 -DATTEMPTS=3'
holds '-DN=3 -DWRONG=3 -DCRASHES=2 -DLEAVER=1 -DEAGER'
holds '-DN=4 -DWRONG=2 -DCRASHES=1 -DJOIN=0 -DCLOSING=0 -DEAGER'
holds '-DN=4 -DWRONG=4 -DCRASHES=0 -DJOIN=0 -DCLOSING=0 -DEAGER'

breaks '-DN=3 -DEAGER -DNO_ECHO_QUORUM' "$agreement"
breaks '-DN=3 -DNO_ADOPTION' "$agreement"
breaks '-DN=2 -DWRONG=2 -DPLAIN_HALF' "$agreement"
breaks '-DN=4 -DWRONG=4 -DCRASHES=0 -DJOIN=0 -DCLOSING=0 -DEAGER -DPLAIN_HALF' "$agreement"
breaks '-DN=3 -DDEAD_SURVIVOR' "$cut"
breaks '-DN=3 -DNO_PART' "$removed"
breaks '-DN=3 -DEAGER -DNO_EVICTION' "$removed"
breaks '-DN=3 -DWRONG=2 -DJOIN=0 -DLEAVER=1 -DATTEMPTS=3 -DNO_RETRY' "$undone"
breaks '-DN=3 -DCLOSING=0 -DKEEPS_TABLE' "$undone"

exit "$failed"
