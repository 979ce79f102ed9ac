#!/usr/bin/env bash
# tsan.sh: looks for data races. Builds oneTBB from its source and halfulp on top of it, both with gcc's
# ThreadSanitizer, and runs commands and tests in which threads share work. (Debian's libtbb was built without: a task
# that one thread hands to another would look like a race.) Needs what `./run build` installs, and curl. HALFULP_JOBS:
# parallel jobs (default: all cores).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

version=2021.8.0
checksum=7e9111b8bb59c8800bf6d0b06afe7b0891937443d2dae1ee1101c8e2ede6a7ef
source=https://deb.debian.org/debian/pool/main/o/onetbb/onetbb_$version.orig.tar.xz
folder=$PWD/build/tsan-tbb
jobs=${HALFULP_JOBS:-$(nproc)}
# Where threads share work, or share what they remember.
programs=(emulation_array emulation_product emulation_unit training)
tests='^(array|array_contract|products_contract|gemm|checkpoint|trainer|networks)$'

say() { printf '\n== %s\n' "$*" >&2; }

build_tbb() {
  [ -e "$folder/complete" ] && return
  say "building oneTBB $version ($source)"
  rm -rf "$folder" && mkdir -p "$folder/source"
  curl -sSfL -o "$folder/source.tar.xz" "$source"
  echo "$checksum  $folder/source.tar.xz" | sha256sum --check --quiet
  tar -xf "$folder/source.tar.xz" -C "$folder/source" --strip-components 1
  cmake -S "$folder/source" -B "$folder/build" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DTBB_SANITIZE=thread \
    -DTBB_TEST=OFF -DTBBMALLOC_BUILD=OFF -DTBB_STRICT=OFF -DCMAKE_INSTALL_PREFIX="$folder" >"$folder/build.log"
  cmake --build "$folder/build" --parallel "$jobs" --target install >>"$folder/build.log"
  touch "$folder/complete"
}

# halfulp WORDS: a command under the sanitizer; a race ends it with status 66.
halfulp() {
  printf '%s\n' "halfulp $*" >&2
  build/tsan/bin/halfulp "$@" >/dev/null
}

# A race on purpose: whether the sanitizer would see one.
sees_races() {
  printf '%s\n' '#include <tbb/parallel_for.h>' 'int main() {' '  int sum = 0;' \
    '  tbb::parallel_for(0, 100000, [&](int i) { sum += i; });' '  return sum == 1;' '}' >"$folder/race.cpp"
  g++ -std=c++20 -O1 -fsanitize=thread -I"$folder/include" "$folder/race.cpp" -L"$folder/lib" -Wl,-rpath,"$folder/lib" \
    -ltbb -o "$folder/race"
  if "$folder/race" 2>"$folder/race.log" || ! grep -q 'data race' "$folder/race.log"; then
    say "a planted race was not seen ($folder/race.log)"
    return 1
  fi
}

build_tbb
sees_races
headers=$PWD/build/headers/usr  # where ./run has unpacked some
export CMAKE_PREFIX_PATH=$folder${CMAKE_PREFIX_PATH:+:$CMAKE_PREFIX_PATH}$([ -d "$headers" ] && echo ":$headers")
say "building ($jobs jobs; build/tsan)"
cmake --preset tsan >build/tsan-configure.log
cmake --build --preset tsan --parallel "$jobs" --target halfulp_program "${programs[@]/%/_tests}" >build/tsan-build.log
export TSAN_OPTIONS="halt_on_error=1 suppressions=$folder/source/cmake/suppressions/tsan.suppressions"

say "commands"
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
halfulp verify add --format e4m3 --against oracle --exhaustive --quiet --threads 4
halfulp verify convert --format fp32 --to bf16 --against x86 --sample 4000000 --quiet --threads 4
halfulp sample --shape 512,512 --out "$out/x.npy"
halfulp quantize "$out/x.npy" --format nvfp4 --out "$out/y.npy"
halfulp quantize "$out" --format e4m3-row --quiet --threads 4 --out "$out/new.safetensors" --report "$out/report.json"
halfulp inspect "$out/new.safetensors" --formats e4m3,mxfp4 --quiet --backend emulated --out "$out/report.json"
for experiment in swamping underflow conversions collectives scaling recurrent; do
  halfulp run "$experiment" --quiet --threads 4 --backend emulated --out "$out/report.json"
done
halfulp run training --set networks=mlp,transformer --set policies=bf16-sr,fp8-deepseek --set steps=2 --set seeds=2 \
  --set width=8 --set intervals=1 --set test_examples=16 --set train_examples=64 --quiet --threads 4 \
  --backend emulated --out "$out/report.json"
say "tests"
ctest --preset tsan --parallel 1 --timeout 7200 -R "$tests"
