#!/usr/bin/env bash
# aarch64.sh [CTEST ARGS]: builds the core for 64-bit Arm by a cross compiler and runs its tests under qemu, on Debian
# 12 and later. Without arguments it leaves out the tests that take longest; `tests/aarch64.sh -L 'emulation|report'`
# runs all of these folders. HALFULP_JOBS: the number of parallel jobs (default: all cores).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tools=(g++-aarch64-linux-gnu qemu-user cmake ninja-build)
libraries=(libboost-dev libeigen3-dev libfmt-dev libtbb-dev nlohmann-json3-dev libcli11-dev librandom123-dev libhwy-dev
           libxxhash-dev zlib1g-dev libgtest-dev)
header_packages=(libvalijson-dev)  # without what they depend on, as in ./run
root=$PWD/build/aarch64-root
jobs=${HALFULP_JOBS:-$(nproc)}

# Folders whose tests run, each by the program FOLDER_tests. Tests of commands and some of evidence/ start halfulp
# itself, which this machine cannot run without qemu.
folders=(formats emulation emulation/{array,product,block,unit,cast,witness} support hardware report data training)
# More than five minutes each.
slow=(half_formats small_formats profiles_peers block_oracle random_configurations reproducibility)

say() { printf '\n== %s\n' "$*" >&2; }

# The compiler and qemu, as packages of this machine.
install_tools() {
  local missing=() package sudo=()
  for package in "${tools[@]}"; do
    dpkg-query -W -f='${Status}\n' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return
  [ "$(id -u)" -eq 0 ] || sudo=(sudo)
  say "installing: ${missing[*]}"
  "${sudo[@]}" apt-get update -qq
  "${sudo[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}"
}

# Arm's libraries, unpacked in a folder: apt has a state of its own there, so no package of this machine changes, and
# nobody needs to be root.
unpack_libraries() {
  local apt=$PWD/build/aarch64-apt package
  [ -e "$root/complete" ] && return
  say "unpacking Arm's libraries in $root"
  rm -rf "$root" "$apt"
  mkdir -p "$root" "$apt"/{lists,archives}/partial
  : >"$apt/status"
  cat >"$apt/apt.conf" <<CONF
APT::Architecture "arm64";
#clear APT::Architectures;
APT::Architectures { "arm64"; };
APT::Sandbox::User "";
Acquire::Languages "none";
Dir::State "$apt";
Dir::State::status "$apt/status";
Dir::Cache "$apt";
#clear APT::Update;
#clear DPkg::Post-Invoke;
CONF
  apt-get -c "$apt/apt.conf" update -qq
  apt-get -c "$apt/apt.conf" install -y -qq --download-only --no-install-recommends "${libraries[@]}"
  (cd "$apt/archives" && apt-get -c "$apt/apt.conf" download -qq "${header_packages[@]}")
  for package in "$apt"/archives/*.deb; do dpkg-deb -x "$package" "$root"; done
  rm -rf "$apt"
  touch "$root/complete"
}

install_tools
unpack_libraries
say "building ($jobs jobs; build/aarch64)"
cmake --preset aarch64 >build/aarch64-configure.log
programs=("${folders[@]//\//_}")
cmake --build --preset aarch64 --parallel "$jobs" --target "${programs[@]/%/_tests}"
say "testing under $(qemu-aarch64 --version | head -n 1)"
if [ $# -eq 0 ]; then
  set -- -L "^($(IFS='|'; echo "${folders[*]}"))\$" -E "^($(IFS='|'; echo "${slow[*]}"))\$"
  echo "left out: ${slow[*]}" >&2
fi
ctest --preset aarch64 --parallel "$jobs" --timeout 7200 "$@"
