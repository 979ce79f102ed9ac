#!/usr/bin/env bash
# Makes every entry of the ledger, in place: make_ledger.sh [HALFULP] (default: build/release/bin/halfulp). Entries of GPUs
# (*_cuda.json) come from cuda/on_device.sh. 40 minutes on two cores; each verification may be run again by itself. Ends
# with exit status 1 if anything differs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
halfulp=${1:-build/release/bin/halfulp}
status=0

verify() { # verify FILE ARGUMENTS...: on every input
  verify_some "$@" --exhaustive
}
verify_some() { # verify_some FILE ARGUMENTS...
  local file=evidence/ledger/$1.json
  shift
  echo "== verify $*" >&2
  "$halfulp" verify "$@" --ledger "$file" || status=1
}

every16="fp16 bf16"
every8="e4m3 e5m2 e4m3fnuz e5m2fnuz e4m3b11fnuz e4m3ieee e3m4 e3m2 e2m3 e2m1 p3109k8p3 p3109k8p4"

# All pairs of the 16-bit formats in the modes that the CPU has.
for format in $every16; do
  for operation in add sub mul div; do
    for mode in nearest-even toward-zero toward-positive toward-negative; do
      verify "${operation}_${format}_x86" "$operation" --format "$format" --round "$mode" --against x86
    done
  done
done

# Of the 2^48 triples of fp16, all pairs with 64 third operands, and a sample: some ten minutes where the CPU has
# AVX512-FP16, without which no instruction is asked.
if grep -q -w avx512_fp16 /proc/cpuinfo; then
  for inputs in "--addends 64" "--sample $((1 << 30))"; do
    # shellcheck disable=SC2086
    verify_some fma_fp16_x86 fma --format fp16 --against x86 $inputs
  done
fi

# All floats to every narrow format, every deterministic mode; saturating where that is the usual way.
for to in $every16 $every8 e8m0; do
  verify "convert_fp32_${to}_oracle" convert --format fp32 --to "$to" --round all --against oracle
done
for to in e4m3 e5m2; do
  verify "convert_fp32_${to}_oracle" convert --format fp32 --to "$to" --round all --overflow saturate --against oracle
done

# Roots, reciprocals, exponentials and conversions between formats on all codes.
for format in $every16 $every8; do
  for operation in sqrt rcp rsqrt exp; do
    verify "${operation}_${format}_oracle" "$operation" --format "$format" --round all --against oracle
  done
done
for from in $every16 e4m3 e5m2; do
  for to in $every16 e4m3 e5m2 e3m2 e2m3 e2m1 e8m0; do
    [ "$from" = "$to" ] || verify "convert_${from}_oracle" convert --format "$from" --to "$to" --round all --against oracle
  done
done

# FP8: all pairs of every operation and all triples, flags included.
for format in e4m3 e5m2; do
  for operation in add sub mul div rem fma; do
    verify "${operation}_${format}_oracle" "$operation" --format "$format" --round all --against oracle
  done
  for operation in min max eq lt le; do  # nothing is rounded
    verify "${operation}_${format}_oracle" "$operation" --format "$format" --against oracle
  done
done
exit $status
