#!/usr/bin/env bash
# avx512.sh [TEST...]: runs tests with AVX-512 on a CPU that has none, on Debian 13 and later. Bochs interprets a CPU
# that has it, more than a hundred times as slowly. `./run build` must have built the tests, for all instruction sets.
# Of tests that run once for each instruction set, only AVX-512's part runs. While they run, build/avx512/serial.txt
# holds what they write, and build/avx512/bochs.log what Bochs says.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tools=(bochs bochsbios vgabios busybox-static cpio grub-common grub-pc-bin mtools xorriso)
kernel_package=linux-image-cloud-amd64  # which names the package of the newest kernel
# Tests of what has vectors, but not those that would take hours.
tests=(array_contract array_short array_paths block products_contract array)
others='*AVX2*:*SSE*:*SSSE*:*EMU*:*SCALAR*'
here=$PWD/build/avx512 programs=build/release/tests

say() { printf '\n== %s\n' "$*" >&2; }
fail() { # fail STATUS WHY
  echo "avx512.sh: $2" >&2
  exit "$1"
}

version_of_bochs() { apt-cache policy bochs | sed -n 's/^  Candidate: \([0-9].*\)/\1/p'; }

install_tools() {
  local missing=() package sudo=() version
  [ "$(id -u)" -eq 0 ] || sudo=(sudo)
  [ -n "$(version_of_bochs)" ] || "${sudo[@]}" apt-get update -qq
  version=$(version_of_bochs)
  # Version 2.7 breaks ties of conversions to fp16 wrongly.
  dpkg --compare-versions "${version:-0}" ge 3 ||
    fail 3 "Bochs ${version:-of no version} is what apt has; accepted: 3.0, which Debian 13 has, and later"
  for package in "${tools[@]}"; do
    dpkg-query -W -f='${Status}\n' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
  done
  if [ ${#missing[@]} -gt 0 ]; then
    say "installing: ${missing[*]}"
    "${sudo[@]}" apt-get update -qq
    "${sudo[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}"
  fi
}

# A kernel, unpacked: no package of this machine changes.
unpack_kernel() {
  local package
  compgen -G "$here/kernel/boot/vmlinuz-*" >/dev/null && return
  package=$(apt-cache depends "$kernel_package" | sed -n 's/.*Depends: \(linux-image-.*\)/\1/p')
  say "unpacking: $package"
  rm -rf "$here/kernel" "$here/unpacked"
  mkdir -p "$here/unpacked"
  (cd "$here/unpacked" && apt-get download -qq "$package" && dpkg-deb -x "$package"_*.deb . && rm -- *.deb)
  mv "$here/unpacked" "$here/kernel"
}

# program_of TEST: the program that it is a part of; nothing if there is none.
program_of() {
  [[ $1 =~ ^[a-z0-9_]+$ ]] || return
  sed -n "s/^add_test(\[=\[$1\]=\] \"\([^\"]*_tests\)\" \"$1\")$/\1/p" "$programs/CTestTestfile.cmake"
}

# A machine's first and only file system: these tests, what they load, and an init that runs them.
make_root() {
  local root=$here/root name program library
  rm -rf "$root"
  mkdir -p "$root"/{bin,proc,sys,dev,tests}
  cp /bin/busybox "$root/bin/"
  for name in "${tests[@]}"; do
    program=$(program_of "$name")
    strip -o "$root/tests/${program##*/}" "$program"
    while read -r library; do
      mkdir -p "$root$(dirname "$library")"
      [ -e "$root$library" ] || cp -L "$library" "$root$library"
    done < <(ldd "$program" | grep -o '/[^ ]*')
    echo "/tests/${program##*/} $name --gtest_brief=1; echo \"$name ended with \$?\""
  done >"$root/todo"
  cat >"$root/init" <<INIT
#!/bin/busybox sh
/bin/busybox mount -t proc none /proc
/bin/busybox mount -t sysfs none /sys
/bin/busybox mount -t devtmpfs none /dev
exec >/dev/ttyS0 2>&1
export GTEST_FILTER='-$others'
if /bin/busybox grep -q -w avx512bw /proc/cpuinfo; then . /todo; else echo "the kernel sees no AVX-512"; fi
echo "that was all"
/bin/busybox sleep 1
/bin/busybox poweroff -f
INIT
  chmod +x "$root/init"
}

# A disc that starts it. The kernel must not see two features: with them it computes another size of AVX-512's registers
# than Bochs tells, and uses none of them.
make_disc() {
  local settings="noxsaves clearcpuid=xsavec,xsaves mitigations=off nmi_watchdog=0 tsc=reliable"
  mkdir -p "$here/disc/boot/grub"
  (cd "$here/root" && find . | cpio --quiet -o -H newc) >"$here/disc/boot/initrd"
  cp "$here"/kernel/boot/vmlinuz-* "$here/disc/boot/vmlinuz"
  cat >"$here/disc/boot/grub/grub.cfg" <<GRUB
set timeout=0
menuentry tests {
  linux /boot/vmlinuz console=ttyS0 quiet $settings rdinit=/init
  initrd /boot/initrd
}
GRUB
  grub-mkrescue -o "$here/disc.iso" "$here/disc" >"$here/disc.log" 2>&1 || fail 2 "no disc; $here/disc.log says why"
}

# The machine. With newer models of Bochs 3.0 (tigerlake, sapphire_rapids) Linux did not start. Bochs shows the screen
# on a port, so it gets a network of its own where that is allowed.
run_machine() {
  cat >"$here/bochsrc" <<BOCHS
cpu: model=corei7_skylake_x, ips=100000000
memory: guest=1024, host=1024
romimage: file=/usr/share/bochs/BIOS-bochs-latest
vgaromimage: file=/usr/share/bochs/VGABIOS-lgpl-latest
display_library: rfb, options="timeout=0"
ata0-master: type=cdrom, path=$here/disc.iso, status=inserted
boot: cdrom
com1: enabled=1, mode=file, dev=$here/serial.txt
clock: sync=none
log: $here/bochs.log
panic: action=fatal
BOCHS
  echo c >"$here/continue"
  : >"$here/serial.txt"
  local alone=(unshare --map-root-user --net)
  "${alone[@]}" true 2>/dev/null || alone=()
  # Its status is 1 when the machine is switched off.
  timeout 12h "${alone[@]}" bochs -q -f "$here/bochsrc" -rc "$here/continue" \
    </dev/null >"$here/bochs.txt" 2>&1 || true
}

[ $# -eq 0 ] || tests=("$@")
for name in "${tests[@]}"; do
  program=$(program_of "$name") || true
  [ -x "${program:-/absent}" ] ||
    fail 2 "no program of the test '$name' in $programs; accepted: C++ tests that ./run build has built"
done
mkdir -p "$here"
exec 9>"$here/lock"
flock -n 9 || fail 2 "another run is using $here"
install_tools
unpack_kernel
make_root
make_disc
say "testing under Bochs: ${tests[*]}"
run_machine
tr -d '\r' <"$here/serial.txt" | sed '/^\[ *[0-9.]*\]/d' | tee "$here/answer.txt"
grep -q -x "that was all" "$here/answer.txt" ||
  fail 1 "the machine stopped early; see $here/bochs.txt and $here/bochs.log"
for name in "${tests[@]}"; do
  grep -q -x "$name ended with 0" "$here/answer.txt" || fail 1 "$name has not passed"
done
