#!/usr/bin/env bash
# Tries RDMA links in a guest with rdma_rxe (boot.sh): the fabric's tests and those of streams over libibverbs, groups of three processes that
# send, and such whose members join, leave, fail and hang. Flag -s: the short form.
set -euo pipefail
cd "$(dirname "$0")/../../.."
short='' repeat=200 limit=1800
[[ ${1:-} == -s ]] && short=-test.short repeat=20 limit=900

if [[ ! -f /usr/include/infiniband/verbs.h ]]; then
	[[ $(id -u) -eq 0 ]] && apt-get update -q && apt-get install -y -q --no-install-recommends libibverbs-dev || { echo "install libibverbs-dev"; exit 1; }
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export CGO_ENABLED=1
go test -c -tags verbs -o "$dir/ibverbs.test" ./fabric/verbs/ibverbs
go build -tags verbs -o "$dir/squall" ./cmd/squall/squall-tools
programs=(-p "$dir/ibverbs.test" -p "$dir/squall")
if [[ ! $short ]]; then
	go test -c -tags system,verbs -o "$dir/testlab.test" ./cmd/squall/internal/testlab
	programs+=(-p "$dir/testlab.test")
fi

# Emulated processors are slow: what takes long in the demo is its phase of single messages. Absolute figures of the benchmark mean nothing.
fabric/verbs/guest/boot.sh -t $limit "${programs[@]}" "
set -o pipefail
rdma resource show rxe0 >before
ibverbs.test -test.v $short
seq 1 100 >lines
squall demo --fabric verbs --nodes 3 --repeat $repeat --timeout 5m lines | cat
if [ -z '$short' ]; then
	squall fabric listen 127.0.0.1:7500 &
	sleep 5
	squall fabric check --fabric verbs,tcp --listen 127.0.0.1:0 127.0.0.1:7500 | cat
	kill -INT %1
	wait
	squall bench --fabric verbs --nodes 3 --runs 1 --duration 5s | cat
	squall demo --chaos --fabric verbs --nodes 3 --duration 30s --fail-after 5s --timeout 5m --seed 7 | cat
	testlab.test -test.v -test.run TestAGroupSurvivesAStorm/fabric=verbs/witness=true -cycles 5
fi
rdma resource show rxe0 >after
cat before after
cmp before after"
