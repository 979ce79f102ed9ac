#!/usr/bin/env bash
# on_device_test.sh SOURCE BUILD WORK: cuda/on_device.sh with the emulation in place of a GPU. Every step ends well and
# leaves what it should, and the recording is one that others can check.
set -euo pipefail
source=$1
halfulp=$2/bin/halfulp
out=$3
rm -rf "$out"
"$source/cuda/on_device.sh" "$2/bin" "$out" rehearsal >"$out.txt" || { cat "$out.txt" "$out/log" && exit 1; }
for file in summary.txt check.json probe.txt verify.txt recording/{manifest.json,answers.bin} reports/swamping.json; do
  [ -s "$out/$file" ] || { echo "$file is missing or empty" && exit 1; }
done
# Each committed ledger of a GPU is one that the script would make again.
for ledger in "$source"/evidence/ledger/*_cuda.json; do
  name=$(basename "$ledger" _cuda.json)
  [ "$name" = fma_fp16 ] && continue  # all triples, which a rehearsal leaves out
  [ -s "$out/ledger/${name}_rehearsal.json" ] || { echo "no ledger of $name" && exit 1; }
done
"$halfulp" ledger "$out/ledger" >/dev/null
"$halfulp" check --backend "recorded:$out/recording" --quiet | tee "$out.txt"
[ "$(grep -c ' 0 fail ' "$out.txt")" = 2 ] || { echo "the recording is not what was asked" && exit 1; }
