#!/usr/bin/env bash
# Tries RDMA links in a guest with rdma_rxe (boot.sh): the fabric's tests over libibverbs, and groups of three processes. Flag -s: the short form.
set -euo pipefail
cd "$(dirname "$0")/../../.."
short='' repeat=200
[[ ${1:-} == -s ]] && short=-test.short repeat=20

if [[ ! -f /usr/include/infiniband/verbs.h ]]; then
	[[ $(id -u) -eq 0 ]] && apt-get update -q && apt-get install -y -q --no-install-recommends libibverbs-dev || { echo "install libibverbs-dev"; exit 1; }
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
CGO_ENABLED=1 go test -c -tags verbs -o "$dir/ibverbs.test" ./fabric/verbs/ibverbs
CGO_ENABLED=1 go build -tags verbs -o "$dir/squall" ./cmd/squall/squall-tools

# Emulated processors are slow: what takes long in the demo is its phase of single messages. Absolute figures of the benchmark mean nothing.
fabric/verbs/guest/boot.sh -t 900 -p "$dir/ibverbs.test" -p "$dir/squall" "
rdma resource show rxe0 >before
ibverbs.test -test.v $short
seq 1 100 >lines
squall demo --fabric verbs --nodes 3 --repeat $repeat --timeout 5m lines | cat
[ -n '$short' ] || squall bench --fabric verbs --nodes 3 --runs 1 --duration 5s | cat
rdma resource show rxe0 >after
cat before after
cmp before after"
