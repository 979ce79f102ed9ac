#!/usr/bin/env bash
# run_test.sh: ./run finds the best instruction set of a CPU, the only one that the demo builds kernels for.
set -euo pipefail
source <(sed -n '/^other_vectors()/,/^}/p' "$(dirname "$0")/../run")

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
