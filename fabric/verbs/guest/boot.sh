#!/usr/bin/env bash
# Boots a guest of Debian's kernel in QEMU, with RDMA in software (rdma_rxe), and runs commands in it: boot.sh [-t SECONDS] [-k KERNEL] [-p PROGRAM]... COMMAND...
# KERNEL is a package that depends on a kernel, like linux-image-amd64, which is used without -k. Each PROGRAM is copied to /bin of the guest with the
# libraries that it needs; COMMAND is run by its shell. Everything comes from Debian packages and is put together in a temporary directory, which is
# removed. Needs root for nothing but installing what is missing. The exit status is 77 if a package is missing and cannot be installed.
set -euo pipefail

limit=600 kernel=linux-image-amd64 programs=()
while getopts t:k:p: option; do
	case $option in
	t) limit=$OPTARG ;;
	k) kernel=$OPTARG ;;
	p) programs+=("$OPTARG") ;;
	*) exit 2 ;;
	esac
done
shift $((OPTIND - 1))

needed=(qemu-system-x86 busybox-static cpio kmod iproute2 ibverbs-providers libibverbs1)
missing=()
for package in "${needed[@]}"; do
	dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
if [[ ${#missing[@]} -gt 0 ]]; then
	[[ $(id -u) -eq 0 ]] && apt-get update -q && apt-get install -y -q --no-install-recommends "${missing[@]}" || { echo "install these packages: ${missing[*]}"; exit 77; }
fi

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
root=$dir/root
mkdir -p "$root"/{bin,proc,sys,dev,tmp,etc/libibverbs.d,lib/modules}

# The kernel, and of its modules those that rxe is made of, in the order in which they are loaded.
package=$kernel
kernel=$(apt-cache depends "$package" 2>/dev/null | sed -n 's/.*Depends: \(linux-image-[^ ]*\)$/\1/p' | head -1) || true
[[ $kernel ]] && (cd "$dir" && apt-get download -q "$kernel" >/dev/null 2>&1) || { echo "no kernel of $package can be downloaded"; exit 77; }
dpkg-deb --fsys-tarfile "$dir/$kernel"_*.deb | tar -x -C "$dir" --wildcards ./boot/'vmlinuz*' ./lib/modules
release=${kernel#linux-image-}
depmod -b "$dir" "$release"
modprobe -d "$dir" -S "$release" -a --show-depends crc32_generic ib_uverbs rdma_rxe dummy | sed -n 's/^insmod \([^ ]*\).*/\1/p' | awk '!seen[$0]++' >"$dir/modules"
while read -r module; do
	name=$(basename "$module" .xz)
	if [[ $module == *.xz ]]; then busybox xzcat "$module"; else cat "$module"; fi >"$root/lib/modules/$name"
	echo "insmod /lib/modules/$name"
done <"$dir/modules" >"$root/load"

# program copies a file, under its name or another one, and the libraries that it needs.
program() {
	local file=$1 as=$2 library
	mkdir -p "$(dirname "$root$as")"
	cp -L "$file" "$root$as"
	while read -r library; do
		[[ -e $root$library ]] || { mkdir -p "$(dirname "$root$library")"; cp -L "$library" "$root$library"; }
	done < <(ldd "$file" 2>/dev/null | grep -o '/[^ ]*' || true)
}
program "$(command -v busybox)" /bin/busybox
program "$(PATH=$PATH:/sbin:/usr/sbin command -v rdma)" /bin/rdma
for file in "${programs[@]}"; do program "$file" "/bin/$(basename "$file")"; done
cp /etc/libibverbs.d/rxe.driver "$root/etc/libibverbs.d/"
for provider in /usr/lib/*/libibverbs/librxe-rdmav*.so; do program "$provider" "$provider"; done

printf '%s\n' "$*" >"$root/commands"
cat >"$root/init" <<'INIT'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin HOME=/tmp TMPDIR=/tmp
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm /dev/pts
mount -t tmpfs tmpfs /tmp
mount -t tmpfs tmpfs /dev/shm
ulimit -l unlimited
. /load
ip link set lo up
ip addr add 10.28.0.1/24 dev dummy0
ip link set dummy0 up
rdma link add rxe0 type rxe netdev dummy0
rdma link show
cd /tmp
sh -e /commands
echo "guest: exit status $?"
poweroff -f
INIT
chmod +x "$root/init"
(cd "$root" && find . | cpio -o -H newc --quiet) | gzip -1 >"$dir/initramfs"

# Emulation: a nested KVM is not to be relied on, and ten seconds are quick enough. The guest's clock is the host's: with little processor time it fails.
TIMEFORMAT='guest: %0U+%0S s of processor time in %0R s'
time timeout "$limit" qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp 2 -m 2048 -display none -no-reboot -serial file:"$dir/console" -monitor none \
	-kernel "$dir"/boot/vmlinuz-"$release" -initrd "$dir/initramfs" -append "console=ttyS0 quiet panic=-1 mitigations=off" </dev/null >/dev/null || echo "guest: QEMU ended with status $?"
tr -d '\r' <"$dir/console"
grep -q '^guest: exit status 0' <(tr -d '\r' <"$dir/console")
