#!/usr/bin/env bash
# Everything that a GPU is needed for, in one call: on_device.sh BIN OUT [BACKEND] [SECONDS]
#
#   BIN      where halfulp, gpu_bench and table.py are (./run gpu --pack makes such a folder, with the libraries they need)
#   OUT      a new folder: summary.txt, check.json, recording/, probe.txt, reports/, bench.json,
#            ledger/ (as evidence/ledger names its files), check_many.json, triples.json, log
#   BACKEND  cuda; rehearsal runs the same commands with the emulation in place of a GPU, on fewer inputs and one
#            experiment
#   SECONDS  what all 2^48 triples of fp16 fma may take of the time, 240 without it; triples.json goes on another day
#
# No step keeps the others from running, and none outlasts its limit. Ends with 1 if anything differs that should not, 3 without
# a device.
set -uo pipefail
unset CDPATH
[ $# -ge 2 ] || { sed -n '2,14s/^# \{0,1\}//p' "$0" >&2; exit 2; }
bin=$(cd "$1" && pwd) || exit 2
mkdir "$2" || exit 2
out=$(cd "$2" && pwd)
backend=${3:-cuda}
seconds=${4:-240}
export LD_LIBRARY_PATH=$bin/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
halfulp=$bin/halfulp
started=$SECONDS
status=0

exec 3>&1  # steps send their output into files
say() { printf '%s\n' "$*" | tee -a "$out/summary.txt" >&3; }

# All in all no longer than this; what there is no time for is said.
total=570

# step LIMIT NAME COMMAND...: standard output goes where the command sends it, messages into the log. A step that is cut short has
# not shown anything: that is a failure, unless may_stop is set.
may_stop=false
said() { tail -n 1 "$out/log" | sed 's/^== .*/see its output/'; }
line() { printf '%-58s %s' "$1" "$2"; }
step() {
  local limit=$1 name=$2 begin=$SECONDS result left=$((total - (SECONDS - started)))
  shift 2
  if [ "$left" -lt 5 ]; then
    say "$(line "$name" "not begun: $total s are over")"
    $may_stop || status=1
    return 1
  fi
  [ "$left" -lt "$limit" ] && limit=$left
  printf '\n== %s\n' "$*" >>"$out/log"
  timeout --foreground --signal=INT --kill-after=10 "$limit" "$@" 2>>"$out/log"
  result=$?
  case $result in
    0) say "$(line "$name" "done in $((SECONDS - begin)) s")" ;;
    124 | 130 | 137) $may_stop || status=1; say "$(line "$name" "stopped after $((SECONDS - begin)) s")" ;;
    3) say "$(line "$name" "FAILS, the device broke down: $(said)")"; status=1 ;;
    *) say "$(line "$name" "FAILS ($result), $((SECONDS - begin)) s: $(said)")"; status=1 ;;
  esac
  return $result
}

"$halfulp" verify add --format fp16 --against "$backend" --sample 16 --quiet >/dev/null 2>"$out/log"
if [ $? -eq 3 ]; then
  say "$(tail -n 1 "$out/log")"
  exit 3
fi
say "$("$halfulp" --version | sed -n '1p; s/^CUDA: *//p' | paste -s -d ,), $(date -u +%Y-%m-%dT%H:%M:%SZ), $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null || echo 'no nvidia-smi')"

rehearsed() { [ "$backend" = rehearsal ]; }
few=() quick=() experiments=all
rehearsed && few=(--tiles 8 --floats 4096) quick=(--quick) experiments=swamping

# 1. Is every kernel, operation and matrix instruction right?
step 150 "every kernel and instruction" "$halfulp" check --backend "$backend" "${few[@]}" --json --quiet >"$out/check.json"

# 2. The answers to keep.
step 150 "recording" "$halfulp" record --backend "$backend" "${quick[@]}" --out "$out/recording" --quiet >>"$out/log"

# 3. Which matrix units are these? What only silicon answers: least exponents, signs of zeros, NaN codes, order. The recording
#    holds the same answers: --backend recorded:DIR probes them later.
step 90 "which matrix units" "$halfulp" probe --backend "$backend" >"$out/probe.txt"

# 4. Experiments beside the device.
step 150 "experiments" "$halfulp" run "$experiments" --backend "emulated,$backend" --out "$out/reports/" --quiet >"$out/experiments.txt"

# 5. Does any kernel touch what is not its own?
if rehearsed || ! command -v compute-sanitizer >/dev/null; then
  say "$(line compute-sanitizer "skipped: $(rehearsed && echo 'a rehearsal has no device memory' || echo 'not installed')")"
else
  step 90 "compute-sanitizer" compute-sanitizer --error-exitcode 9 "$halfulp" check --backend "$backend" --tiles 2 --floats 4096 --quiet >"$out/sanitizer.txt"
fi

# 6. How fast?
if rehearsed; then
  say "$(line benchmarks "skipped: a rehearsal has no speed")"
else
  step 120 "benchmarks" "$bin/gpu_bench" --benchmark_out="$out/bench.json" --benchmark_out_format=json >>"$out/log"
fi

# 7. Instruction beside halfulp's arithmetic: all pairs, all floats.
mkdir "$out/ledger"
inputs=(--exhaustive)
rehearsed && inputs=(--sample 20000)
verify() { # verify LEDGER ARGUMENTS...
  local ledger=$1
  shift
  step 60 "verify $*" "$halfulp" verify "$@" --against "$backend" "${inputs[@]}" --ledger "$out/ledger/${ledger}_$backend.json" --quiet >>"$out/verify.txt"
}
for format in fp16 bf16; do
  for operation in add sub mul div; do verify "${operation}_$format" "$operation" --format "$format"; done
  for operation in sqrt rcp rsqrt exp; do verify "${operation}_$format" "$operation" --format "$format"; done
  verify "convert_fp32_$format" convert --format fp32 --to "$format" --round all
  verify "convert_fp32_$format" convert --format fp32 --to "$format" --round all --overflow saturate
done
for format in e4m3 e5m2; do
  verify "convert_fp32_$format" convert --format fp32 --to "$format" --overflow saturate
  verify convert_fp16 convert --format fp16 --to "$format" --overflow saturate
  verify "convert_$format" convert --format "$format" --to fp16
done
verify convert_fp16 convert --format fp16 --to bf16 --round all
verify convert_bf16 convert --format bf16 --to fp16 --round all

# 8. The matrix instructions on a hundred times as many tiles.
rehearsed || step 100 "matrix instructions, many tiles" "$halfulp" check --backend "$backend" --tiles 25600 --json --quiet >"$out/check_many.json"

# 9. All 2^48 triples of fp16 fma, as far as the time goes.
if rehearsed; then
  say "$(line "all triples of fp16 fma" "skipped: a rehearsal would take years")"
else
  may_stop=true  # the state file goes on where it stopped
  step "$seconds" "all triples of fp16 fma" "$halfulp" verify fma --format fp16 --against "$backend" --exhaustive --state "$out/triples.json" \
    --ledger "$out/ledger/fma_fp16_$backend.json" --quiet >>"$out/verify.txt"
fi

say ""
say "total $((SECONDS - started)) s"
[ -s "$out/bench.json" ] && python3 "$bin/table.py" "$out/bench.json" | tee -a "$out/summary.txt"
exit $status
