#!/usr/bin/env bash
# Tries RDMA links in a guest with rdma_rxe (boot.sh): the fabric's tests and those of streams over libibverbs, groups of three processes that
# send, and such whose members join, leave, fail and hang, and what the device does by itself. Flag -s: the short form, of the tests alone. Flag
# -k KERNEL: the one of boot.sh. The exit status is 77 if a package is missing and cannot be installed.
set -euo pipefail
cd "$(dirname "$0")/../../.."
short='' limit=1800 boot=()
while getopts sk: option; do
	case $option in
	s) short=-test.short limit=180 ;;
	k) boot+=(-k "$OPTARG") ;;
	*) exit 2 ;;
	esac
done

needed=(libibverbs-dev)
[[ $short ]] || needed+=(perftest)
if ! dpkg-query -W "${needed[@]}" >/dev/null 2>&1; then
	[[ $(id -u) -eq 0 ]] && apt-get update -q && apt-get install -y -q --no-install-recommends "${needed[@]}" || { echo "install these packages: ${needed[*]}"; exit 77; }
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export CGO_ENABLED=1
go test -c -tags verbs -o "$dir/ibverbs.test" ./fabric/verbs/ibverbs
boot+=(-t $limit -p "$dir/ibverbs.test")
if [[ ! $short ]]; then
	go build -tags verbs -o "$dir/squall" ./cmd/squall/squall-tools
	go test -c -tags system,verbs -o "$dir/testlab.test" ./cmd/squall/internal/testlab
	for program in "$dir/squall" "$dir/testlab.test" ib_write_bw ib_write_lat ib_send_lat; do boot+=(-p "$(command -v "$program")"); done
fi

# Emulated processors are slow: what takes long in the demo is its phase of single messages. Absolute figures of the benchmark mean nothing; the
# share that a group keeps of what the device writes counts each byte as often as it is written, twice.
fabric/verbs/guest/boot.sh "${boot[@]}" "
set -o pipefail
rdma resource show rxe0 >before
ibverbs.test -test.v $short
if [ -z '$short' ]; then
	seq 1 100 >lines
	squall demo --fabric verbs --nodes 3 --repeat 200 --timeout 5m lines | cat
	squall fabric listen 127.0.0.1:7500 &
	sleep 5
	squall fabric check --fabric verbs,tcp --listen 127.0.0.1:0 127.0.0.1:7500 | cat
	kill -INT %1
	wait
	both() { \"\$@\" >/dev/null & sleep 2; \"\$@\" 10.28.0.1; wait; }
	both ib_write_bw -F -s 10240 -D 10 | tee bandwidth
	both ib_write_lat -F -s 64 -n 2000
	both ib_send_lat -F -s 80 -n 2000
	squall bench --fabric verbs --nodes 3 --runs 1 --duration 10s --limits=false --json | tee runs
	awk '/^ 10240/ { device = \$4 * 1048576 } /\"bytes_rate\"/ { rate = \$2 + 0; printf \"share: %.2f: %.1f MB/s delivered, %.1f MB/s written by ib_write_bw\\n\", 2*rate/device, rate/1e6, device/1e6 }' bandwidth runs
	squall demo --chaos --fabric verbs --nodes 3 --duration 30s --fail-after 5s --timeout 5m --seed 7 | cat
	testlab.test -test.v -test.run TestAGroupSurvivesAStorm/fabric=verbs/witness=true -cycles 5
fi
rdma resource show rxe0 >after
cat before after
cmp before after"
