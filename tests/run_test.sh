#!/usr/bin/env bash
# run_test.sh: ./run finds the best instruction set of a CPU, the only one that the demo builds kernels for, and refuses
# options that ctest would ignore.
set -euo pipefail
for name in other_vectors known_to_ctest; do
  source <(sed -n "/^$name()/,/^}/p" "$(dirname "$0")/../run")
done

check() { # check FLAGS WANTED
  local got
  got=$(other_vectors <(printf 'processor\t: 0\nflags\t\t: fpu %s\nbugs\t\t: avx512bw avx512vl\n' "$1"))
  [ "$got" = "$2" ] || { echo "a CPU with $1: $got, not $2" >&2; exit 1; }
}
check 'sse2 avx2 avx512bw avx512vl avx512_bf16' 'HWY_SSSE3|HWY_SSE4|HWY_AVX2'
check 'avx512vl avx2 avx512f avx512bw' 'HWY_SSSE3|HWY_SSE4|HWY_AVX2'
check 'sse2 avx2 avx512f avx512bw' 'HWY_SSSE3|HWY_SSE4|HWY_AVX3'
check 'sse2 avx2' 'HWY_SSSE3|HWY_SSE4|HWY_AVX3'
check 'sse2 sse4_2' HWY_SSSE3

known_to_ctest -R 'array|house' -j4 --output-on-failure --repeat=until-fail:2 -FA demo -VV --rerun-failed --verbose x=-y
for word in --exhaustiv --exhaustive=1 --parts --par -Z -p --output; do
  if said=$(known_to_ctest -R array "$word" 2>&1); then
    echo "$word was not refused" >&2
    exit 1
  fi
  [ "$(wc -l <<<"$said")" = 1 ]
done
