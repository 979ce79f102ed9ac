#!/usr/bin/env python3
"""Plants bugs, one at a time, in a copy of the sources, and sees that the test named beside each one fails.

usage: tests/mutants.py [WORK_FOLDER [WORD]]     (default: build/mutants; WORD: only bugs whose titles hold it)
       tests/mutants.py --check                  (builds nothing: does each bug's text occur exactly once?)

Exit status: 0 every bug was caught, 1 one was not, 2 the sources no longer hold the text that a bug replaces.
"""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys

MODES, SCALAR, CONVERSION = "emulation/rounding.hpp", "emulation/round_pack.hpp", "emulation/conversion.hpp"
RECOMMENDED = "emulation/elementary.cpp"
NARROW, PLAN, KERNELS = "emulation/array/narrow-inl.hpp", "emulation/array/plan.cpp", "emulation/array/kernels.hpp"
SCALE, STEPS, ELEMENTS = "emulation/block/scale.hpp", "emulation/block/steps.cpp", "emulation/block/block.cpp"
ARITHMETIC = "emulation/array/arithmetic-inl.hpp"
PHILOX, TALLY = "emulation/array/philox-inl.hpp", "emulation/array/tally.cpp"
STREAM, APPLY = "emulation/array/stream.cpp", "emulation/array/apply.cpp"
FOUR = "emulation/array/four-inl.hpp"

# Enough of a test to catch what it is there for.
FILTER = {"small_formats": "*/e4m3:*/e5m2:*/e2m1", "half_formats": "*/bf16:Exponential.*:Logarithm.*",
          "block_oracle": "*/e4m3_1x32_*:*/int8*:*/e2m1_1x16*"}

# (what is wrong, file, right text, wrong text, test that must fail). The layout of the right text does not matter.
BUGS = [
    ("tie rule: to odd instead of even", MODES,
     "unit / 2 - 1 + odd)", "unit / 2 - 1 + !odd)", "small_formats"),
    ("tie rule, vectors: ties go up", NARROW,
     "hn::And(above_tail(u), set(1))", "set(1)", "array"),
    ("subnormal shift: one bit too many", SCALAR,
     "const int binade = e < f.emin() ? f.emin() : e;", "const int binade = e < f.emin() ? f.emin() + 1 : e;", "small_formats"),
    ("subnormal shift, vectors: the aligner ignores emin", NARROW,
     "hn::Max(hn::BitCast(di, hn::And(x, set(infinity))), hn::BitCast(di, set(plan_.emin)))", "hn::BitCast(di, hn::And(x, set(infinity)))", "array"),
    ("carry into the exponent is lost", SCALAR,
     "base + static_cast<std::uint64_t>(kept.value)", "(base | static_cast<std::uint64_t>(kept.value))", "small_formats"),
    ("Inf under directed modes: overflow always goes away from zero", SCALAR,
     "overflows_away(rounding, sign) || !f.has_zero", "true", "small_formats"),
    ("Inf under directed modes, vectors: infinities become the largest value", NARROW,
     "choose(x, specials().infinite)", "choose(x, specials().over)", "array"),
    ("NaN, vectors: the smallest payload counts as an infinity", NARROW,
     "select(less(set(infinity), u), set(specials().nan), result)", "select(less(set(infinity + 1), u), set(specials().nan), result)", "array"),
    ("-0 where a format has none", CONVERSION,
     "return {to.zero(x.sign), 0};", "return {to.with_sign(0, x.sign), 0};", "edges"),
    ("-0, vectors, where a format has none", NARROW,
     "if (!careful || !plan_.unsigned_zero)", "if (true)", "array"),
    ("code words, vectors: the aligner's last bits are off by one unit", PLAN,
     "((0 - plan.code_offset) & ", "((1 - plan.code_offset) & ", "array"),
    ("ties toward zero, AVX-512: half a unit is whole", NARROW,
     "mode == RoundingMode::nearest_to_zero ? 1 : 0", "0", "array"),
    ("stochastic code words: a carry into the place of the sign is not seen", NARROW,
     "set(2 * plan_.code_magnitude + 1)", "set(plan_.code_magnitude)", "array"),
    ("vectors of no more than the largest binade are never special", NARROW,
     "(plan_.special_from & infinity) - 1", "(plan_.special_from & infinity)", "array"),
    ("safetensors: bytes that belong to no tensor are taken", "data/safetensors.cpp",
     "if (t.offset > end)", "if (false)", "safetensors"),
    ("safetensors: tensors may overlap", "data/safetensors.cpp",
     "if (t.offset < end)", "if (false)", "safetensors"),
    ("safetensors: a size that does not fit its shape is taken", "data/safetensors.cpp",
     "if (*bytes != end - begin)", "if (false)", "safetensors"),
    ("JSON: a member that is there twice is taken", "support/json.cpp",
     "if (!members_.back().insert(member).second)", "if (members_.back().insert(member), false)", "safetensors"),
    ("layouts: integers stored with an offset are read without it", "data/layout_rows.cpp",
     "d.element.value(code ^ flipped)", "d.element.value(code)", "layouts"),
    ("checkpoint: values below the least one do not saturate", "data/loss.cpp",
     "beyond.add(hn::Or(hn::Gt(x, high), hn::Lt(x, low)));", "beyond.add(hn::Gt(x, high));", "checkpoint_survey"),
    ("checkpoint: what was zero counts as lost to zero", "data/loss.cpp",
     "zeroed.add(hn::And(hn::Ne(x, zero), hn::Eq(q, zero)));", "zeroed.add(hn::Eq(q, zero));", "checkpoint_survey"),
    ("checkpoint: parts of several long rows share the first one's largest magnitude", "experiments/checkpoint/survey.cpp",
     "const std::uint64_t few = part.columns != view_.columns ? 1 :", "const std::uint64_t few =", "checkpoint_survey"),
    ("checkpoint: a tensor's scale is that of its part", "experiments/checkpoint/survey.cpp",
     "if (f->tensor_scale) return of.add(loss, values, rows, squares, first_.amax_with_infinity());",
     "if (f->tensor_scale) return of.add(loss, values, rows, squares, {});", "checkpoint_survey"),
    ("layouts: code words of 32-bit words are not moved", "data/layout_writing.cpp",
     "if (layout_->codes.packing == Packing::words)\n    for (std::uint8_t& code : bytes)", "if (false)\n    for (std::uint8_t& code : bytes)", "layout_writing"),
    ("layouts: scales of later matrices lie in the first", "data/layout_writing.cpp",
     "grid_row = first / rows_ * grid_rows_ + first % rows_ / block_rows_", "grid_row = first % rows_ / block_rows_", "layout_writing"),
    ("layouts: the tensor's scale is not inverted where it divides", "data/layout_writing.cpp",
     "TensorScale::divide ? 1 / tensor_scale : tensor_scale", "TensorScale::divide ? tensor_scale : tensor_scale", "layout_writing"),
    ("layouts: zero points are packed by rows", "data/layout_writing.cpp",
     "zeros.bytes[(byte / 4 * grid_columns_ + c) * 4 + byte % 4]", "zeros.bytes[c * parts_[zeros_part_].shape[0] * 4 + byte]", "layout_writing"),
    ("writing: stochastic bits of every part begin anew", "experiments/checkpoint/rounding.cpp",
     "random.first += first_row(part) * view_.columns;", "", "checkpoint_quantize"),
    ("writing: one NaN makes all scales of blocks NaN", "experiments/checkpoint/rounding.cpp",
     "if (nan && !block()->tensor_scale)", "if (nan)", "checkpoint_quantize"),
    ("writing: what a dtype rounds again is not counted", "experiments/checkpoint/write.cpp",
     "again += !have_same_bits(exact[i], values[i]);", "again += exact[i] != exact[i];", "checkpoint_quantize"),
    ("difference: the last part is not compared with a cast", "experiments/checkpoint/difference.cpp",
     "if (!std::equal(wanted.begin(), wanted.end(), part.after.begin(), is_same)) same = false;",
     "if (i + 1 < rounding.parts().size() && !std::equal(wanted.begin(), wanted.end(), part.after.begin(), is_same)) same = false;", "checkpoint_difference"),
    ("difference: ulps are those of the finer format", "experiments/checkpoint/difference.cpp",
     "fa.fraction_bits < fb.fraction_bits ? fa : fb", "fa.fraction_bits < fb.fraction_bits ? fb : fa", "checkpoint_difference"),
    ("mix: half of the open choices are not looked at", "experiments/checkpoint/mix.cpp",
     "to.priced <= gap)", "to.priced <= 0.5 * gap)", "checkpoint_mix"),
    ("mix: the budget is not kept", "experiments/checkpoint/mix.cpp",
     "if (cost + step.cost > budget_)", "if (cost > budget_)", "checkpoint_mix"),
    ("product errors: what the sums lost counts as the operands'", "training/product_errors.cpp",
     "e.accumulation += (s - z) * (s - z)", "e.accumulation += (s - y) * (s - y)", "model_watch"),
    ("product errors: every head is measured at the same row", "training/product_errors.cpp",
     "(turns - std::floor(turns))", "0.0", "model_watch"),
    ("products: fma of tiny products", "emulation/product/plan.cpp",
     "smallest >= std::numeric_limits<float>::min() &&", "", "products"),
    ("products: fma of products beyond the largest", "emulation/product/plan.cpp",
     "largest <= std::numeric_limits<float>::max();", "true;", "products"),
    ("products: fma of products of 25 bits", "emulation/product/plan.cpp",
     "b.zeros >= fp32.precision()", "b.zeros >= fp32.precision() - 1", "products"),
    ("products: aligned as normal numbers where some are subnormal", "emulation/product/plan.cpp",
     "finite && !tiny && largest <= normal_to_", "finite && largest <= normal_to_", "products"),
    ("products: aligned beyond the largest aligner", "emulation/product/plan.cpp",
     "!tiny && largest <= normal_to_", "!tiny", "products"),
    ("products: zeros of aligned sums have no sign", "emulation/product/tiles.cpp",
     "w.plan.signless_zeros || rules->running.sum.way == Way::normal", "w.plan.signless_zeros", "products"),
    ("AVX512-FP16: subnormal products are rounded as normal ones", "emulation/product/half.cpp",
     "power = _mm512_max_epi16(power, words(half(rule.emin)))", "(void)0", "products"),
    ("AVX512-FP16: aligners overflow", "emulation/product/half.cpp",
     "power = _mm512_min_epi16(power, words(half(rule.emax)))", "(void)0", "products"),
    ("AVX512-FP16: infinite operands become the largest value", "emulation/product/plan.cpp",
     "finite || !(keeps_infinity(half.product.fix)", "true || !(keeps_infinity(half.product.fix)", "products"),
    ("AVX512-FP16: products overflow by the rule of sums", "emulation/product/plan.cpp",
     "one_fix && (finite", "(finite", "products"),
    ("products: infinities stay where a stage of another format saturates", "emulation/product/plan.cpp",
     "if (only_finite_ && !finite) return {};", "", "products"),
    ("products: a NaN with a full payload is rounded to a number", "emulation/product/panels.cpp",
     "if (!p.extents[panel].finite)", "if (false)", "products_contract"),
    ("AVX512-FP16: sums rounded twice to nearest", "emulation/product/plan.cpp",
     "nearest && rule.sum.way != Way::plain && !sums_serve(sum->format, fp16)", "false", "products"),
    ("AVX512-FP16: operands that are not finite", "emulation/array/half.cpp",
     "if (_mm512_cmpgt_epu8_mask(largest, max_) != 0) return false;", "", "array"),
    ("AVX512-FP16: results beyond the largest", "emulation/array/half.cpp",
     "if (_mm512_cmpgt_epi16_mask(most, most_) != 0) return false;", "", "array"),
    ("AVX512-FP16: sums to odd are even", "emulation/array/half.cpp",
     "words(high), words(low)));", "words(low), words(high)));", "array_half"),
    ("AVX-512: code words by way of fp16 are rounded up where they are negative", NARROW,
     "_mm512_andnot_si512(negative, dropped)", "_mm512_and_si512(negative, dropped)", "array"),
    ("blocks: values keep the tensor's scale", "emulation/block/block.cpp",
     "? 1 : value(steps.scales[i])", "? 1 : steps.values[i]", "block"),
    ("operands: 9 bits count as bf16", "training/operand.cpp",
     "range.zeros >= fp32.fraction_bits - f.fraction_bits;", "range.zeros >= fp32.fraction_bits - f.fraction_bits - 1;", "policy_numerics"),
    ("product errors: scales of blocks are forgotten", "training/product_errors.cpp",
     "if (!operand.scales.empty()) value *=", "if (false) value *=", "model_watch"),
    ("watching: an observer draws other random bits", "training/policy_numerics.cpp",
     "if (!observer_ || !observer_->measures()) return {};", "if (!observer_ || !observer_->measures()) return {}; next_random();", "model_watch"),
    ("product errors: a cut gradient is the sums' error", "training/policy_numerics.cpp",
     "observer_->see_product({site, which, 1, came, a_, b_, bias, sums, d, model})", "observer_->see_product({site, which, 1, came, a_, b_, bias, d, d, model})", "model_watch"),
    ("decoding: NaN in the place of -0 is a number", FOUR,
     "if (!hn::AllFalse(di, nan)) return false;", "", "array"),
    ("decoding: the table of four bits has no signs", "emulation/array/decode.cpp",
     "FourByTable::any_code ? 2 * mask + 1 : mask", "mask", "array"),
    ("decoding through fp16: no scale", FOUR,
     "low = hn::Mul(low, hn::Set(df, plan.half_scale)), high = hn::Mul(high, hn::Set(df, plan.half_scale));", ";", "array"),
    ("bf16: subnormal products are rounded twice", "emulation/array/short.cpp",
     "quiet | denormal | signalling", "quiet | signalling", "array_short"),
    ("bf16: an infinity in a directed mode is one", "emulation/array/short.cpp",
     "is_nearest(mode) && (op != Operation::fma || HALFULP_EMBEDDED_ROUNDING)", "true", "array_short"),
    ("saturation edge: one value too late", PLAN,
     "plan.over_from[negative] = max + unit - ", "plan.over_from[negative] = max + 1 + unit - ", "array"),
    ("sticky bit is dropped", SCALAR,
     "return (x >> distance) | ((x & ((U{1} << distance) - 1)) != 0);", "return x >> distance;", "half_formats"),
    ("fma is rounded twice", KERNELS,
     "op == Operation::fma ? Sums::odd : Sums::nearest;", "Sums::nearest;", "array"),
    ("rsqrt: exact roots count as inexact", RECOMMENDED,
     "uint128{rest != 0}", "1", "small_formats"),
    ("exp just below 1 is taken for just above", RECOMMENDED,
     "return negative ? Exact<uint128>{false, -bits - 1, 2 * one - 1} : Exact<uint128>{false, -bits, one | 1};",
     "return Exact<uint128>{false, -bits, one | 1};", "half_formats"),
    ("exp: bits that are open are taken for known", RECOMMENDED,
     "const Integer error = Integer(width + 256) << 10;", "const Integer error = 0;", "half_formats"),
    ("log2 just below 1 is taken for just above", RECOMMENDED,
     "const bool below = significand < power;", "const bool below = false;", "half_formats"),
    ("log2: bits that are open are taken for known", RECOMMENDED,
     "const Integer error = width + 32;", "const Integer error = 0;", "half_formats"),
    ("stochastic rounding off by one", MODES,
     "return bits << cut;", "return (bits + 1) << cut;", "stochastic"),
    ("stochastic rounding, vectors: goes up one word too early", NARROW,
     "return hn::Lt(hn::Add(tail, random), tail);\n    const VU low", "return hn::Not(hn::Lt(tail, hn::Add(tail, random)));\n    const VU low", "array"),
    ("AVX-512: sums to odd are even", ARITHMETIC,
     "hn::Set(du, 1))), low, high)", "hn::Set(du, 1))), high, low)", "array"),
    ("AVX-512: tf32 products rounded twice below 2^-126", KERNELS,
     "sums_before(mode, op == Operation::mul ? Operation::fma : op)", "sums_before(mode, op)", "array_short"),
    ("bf16 products rounded twice below 2^-126, without embedded rounding", ARITHMETIC,
     "hn::Set(d, std::numeric_limits<hn::TFromD<D>>::min())", "hn::Zero(d)", "array_short"),
    ("bf16 quotients that vanish are exact zeros", ARITHMETIC,
     "hn::IfThenElseZero(vanished, least)", "hn::Zero(d)", "array_short"),
    ("quotients of 14 bits through 24", PLAN,
     "2 * f.precision() + 2 <= carrier.precision()", "2 * f.precision() - 4 <= carrier.precision()", "array_short"),
    ("fp16, vectors: ties away go to even", "emulation/array/fused.cpp",
     "return hn::Or(v, hn::BitCast(df, hn::Set(du32, 1)));", "return v;", "array"),
    ("fp16, vectors: off its midpoints infinity is NaN", "emulation/array/fused.cpp",
     "!hn::AllTrue(df, hn::And(finite(r[0], r[1]), finite(r[2], r[3])))", "false", "array"),
    ("fp16, vectors: to odd is to even", "emulation/array/fused.cpp",
     "hn::TestBit(low, hn::Set(d16, 1)), low, high", "hn::TestBit(low, hn::Set(d16, 1)), high, low", "array"),
    ("one plan serves whatever is asked for next", "emulation/array/scratch.hpp",
     "!last || last->key != std::tie(key...)", "!last", "array_contract"),
    ("AVX-512: NaN in the third and fourth vector is not seen", "emulation/array/lanes-inl.hpp",
     "_mm512_mask_cmp_ps_mask(ordered, v2.raw, v3.raw, _CMP_ORD_Q)", "ordered", "array"),
    ("block scale: ceil takes powers of two for more", SCALE,
     "return exponent(x) + !is_power(x);", "return exponent(x) + 1;", "block_oracle"),
    ("block scale: even looks at one bit less", SCALE,
     "<< (22 - fraction_bits)) >=", "<< (23 - fraction_bits)) >=", "block_oracle"),
    ("block scale: floor of subnormal magnitudes is their field's", SCALE,
     ": std::bit_width(bits) - 150;", ": -127;", "block_oracle"),
    ("block scale: quotients may round to zero", SCALE,
     "return f.is_nan(code) || code > f.min_normal() ? code : static_cast<std::uint32_t>(f.min_normal());", "return code;", "block_oracle"),
    ("block scale: the tensor's goes first into the block's", SCALE,
     "bounded(f.tensor_scale ? (1.0f / tensor) / s : 1.0f / s)", "bounded(1.0f / step.value)", "block_oracle"),
    ("block elements: zero points are rounded away from zero", SCALE,
     "std::nearbyint(low / step.value)", "std::round(low / step.value)", "block_oracle"),
    ("block elements: infinities do not saturate", SCALE,
     "r.overflow = Overflow::saturate;", "r.overflow = Overflow::ieee;", "block_oracle"),
    ("block steps: rceil of subnormal quotients", STEPS,
     "(k == -127 ? 0x40'0000u : 0u)", "0u", "block"),
    ("block steps: the reciprocal of 2^127 is zero", STEPS,
     "k > 126 ? 0x40'0000u", "k > 126 ? 0u", "block"),
    ("block arrays: a short last block takes its neighbour's scale", "emulation/block/lanes.cpp",
     "std::min(block, count - begin), i);", "std::min(block, count - begin), count - begin < block && i ? i - 1 : i);", "block"),
    ("block arrays: random bits begin anew in each piece", ELEMENTS,
     "const RandomStream random = random_.from(at + begin);", "const RandomStream random = random_.from(at);", "block"),
    ("block arrays: -0 of integers stays", ELEMENTS,
     "const float x = q[i] + 0.0f;", "const float x = q[i];", "block"),
    ("block products: scales are multiplied first", "emulation/block/product.cpp",
     "if (order == ScaleOrder::after)", "if (order != ScaleOrder::after)", "block_dot"),
    ("elements left for later are done with those before", "emulation/array/lanes-inl.hpp",
     "begin = i;", "begin = 0;", "array_short"),
    ("toward positive, vectors: one unit is missing, without embedded rounding", NARROW,
     "hn::IfThenElseZero(hn::Lt(nearest, x), unit)", "hn::Zero(d)", "array"),
    ("AVX-512: the aligner of directed modes leaves its binade", NARROW,
     "(static_cast<Bits>(Carrier<T>::format.bias) << fraction_bits) + (fraction_mask + 1) / 2)",
     "(static_cast<Bits>(Carrier<T>::format.bias) << fraction_bits))", "array"),
    ("Philox: the second round forgets the upper half of the seed", PHILOX,
     "(product0 >> 32) ^ keys_[1][1][0]", "(product0 >> 32) ^ keys_[0][1][0]", "array_paths"),
    ("tally: all inexact subnormals underflow", TALLY,
     "set(plan.tiny_below[1]), set(plan.tiny_below[0])", "set(plan.emin), set(plan.emin)", "array_paths"),
    ("tally: stochastic results are tiny whatever the random bits", TALLY,
     "hn::Gt(u, near_emin)), hn::Eq(v, emin)", "hn::Gt(u, near_emin)), hn::Eq(v, max)", "array_paths"),
    ("tally: a result that is NaN counts as exact", TALLY,
     "auto differs = hn::Not(hn::RebindMask(di, hn::Eq(value, result)));", "auto differs = hn::RebindMask(di, hn::Ne(value, result));", "array_paths"),
    ("tables: one for all roundings", APPLY,
     " && e.rounding == rounding;", ";", "array_paths"),
    ("streams: the last bytes of a block stay behind", STREAM,
     "std::memcpy(to + i, from + i, bytes - i);", "", "array_paths"),
    ("stochastic rounding through 53 bits of what has 54", APPLY,
     "p + max_random_bits + 2 > 53", "p + max_random_bits + 2 > 54", "array_contract"),
]


CPU = pathlib.Path("/proc/cpuinfo")
AVX512 = CPU.exists() and "avx512dq" in CPU.read_text()
NEEDS = {"AVX-512: ": AVX512, "AVX512-FP16: ": CPU.exists() and "avx512_fp16" in CPU.read_text()}

# Vector kernels take most of the time to compile. Tests of scalar functions do without vectors; those of arrays have code
# without vectors and this CPU's best.
ARRAY_TESTS = {"array", "array_half", "array_short", "array_paths", "array_contract", "block", "block_dot", "products"}
WITHOUT = {True: "HWY_SSSE3|HWY_SSE4" + ("|HWY_AVX2" if AVX512 else ""), False: "HWY_SSSE3|HWY_SSE4|HWY_AVX2|HWY_AVX3|HWY_AVX3_DL"}


def places(right, text):
    """Where a text stands in a source, however its lines are broken: blanks match any blanks, and any may stand beside a sign."""
    tokens = re.findall(r"\w+|[^\w\s]", right)
    between = [r"\s+" if a[-1:].isalnum() and b[:1].isalnum() else r"\s*" for a, b in zip(tokens, tokens[1:])]
    pattern = "".join(re.escape(token) + gap for token, gap in zip(tokens, between + [""]))
    return list(re.finditer(r"(?<!\w)" * tokens[0][0].isalnum() + pattern, text))


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description="Plants bugs one at a time, and sees that a test fails for each.")
    parser.add_argument("work", nargs="?", type=pathlib.Path, default=root / "build" / "mutants", help="folder for a copy of the sources and its builds")
    parser.add_argument("word", nargs="?", default="", help="only bugs whose titles contain it")
    parser.add_argument("--check", action="store_true", help="build nothing; see that the sources hold the text of each bug exactly once")
    arguments = parser.parse_args()
    bugs, work = [bug for bug in BUGS if arguments.word in bug[0]], arguments.work.resolve()
    source, builds = work / "source", {True: work / "vectors", False: work / "scalars"}
    lost = [(name, right) for _, name, right, _, _ in BUGS if len(places(right, (root / name).read_text())) != 1]
    for name, right in lost:
        print(f"mutants: {name} should hold once: {right.strip()}", file=sys.stderr)
    if lost or arguments.check:
        return 2 if lost else 0
    files = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=root, check=True,
                           capture_output=True, text=True).stdout.split()
    for name in files:
        if (root / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / name, source / name)
    log = open(work / "log.txt", "w")

    def run(*command, seconds=None):
        try:
            return subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, timeout=seconds).returncode == 0
        except subprocess.TimeoutExpired:
            return False

    def tests_of(name):
        folder = next((root / "tests").glob(f"**/{name}_test.cpp")).parent.relative_to(root / "tests")
        return "_".join(folder.parts) + "_tests"

    def make(name):
        return run("cmake", "--build", builds[name in ARRAY_TESTS], "--parallel", "2", "--target", tests_of(name))

    def passes(name):
        program = builds[name in ARRAY_TESTS] / "tests" / tests_of(name)
        # A bug may make a loop endless. Without bugs none of these takes a tenth of this.
        return run(program, name, f"--gtest_filter={FILTER.get(name, '*')}", "--gtest_fail_fast", seconds=600)

    def test(name):
        return make(name) and passes(name)

    # A static assertion of a neighbour in the same program would stop the build before the named test can fail.
    flags = "-O1 '-Dstatic_assert(...)=static_assert(true)'"
    for vectors, build in builds.items():
        if not run("cmake", "-S", source, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                   f"-DCMAKE_CXX_FLAGS_RELEASE={flags}", "-DHALFULP_CUDA=OFF", f"-DHALFULP_WITHOUT_VECTORS={WITHOUT[vectors]}"):
            print(f"mutants: cannot configure; see {log.name}", file=sys.stderr)
            return 1
    for name in sorted({bug[4] for bug in bugs}):
        if not test(name):
            print(f"mutants: {name} fails without any bug; see {log.name}", file=sys.stderr)
            return 1
    caught_bugs = missed = 0
    for title, name, right, wrong, caught_by in bugs:
        if any(title.startswith(part) and not there for part, there in NEEDS.items()):
            print(f"skipped  {title}: not on this CPU", flush=True)
            continue
        text = (source / name).read_text()
        place, = places(right, text)
        (source / name).write_text(text[:place.start()] + wrong + text[place.end():])
        built = make(caught_by)
        caught = built and not passes(caught_by)
        (source / name).write_text(text)
        caught_bugs += caught
        missed += not caught
        print(f"{'caught' if caught else 'MISSED' if built else 'DOES NOT COMPILE'}  {title} ({caught_by})", flush=True)
    print(f"{len(bugs)} bugs, {caught_bugs} caught, {missed} missed, {len(bugs) - caught_bugs - missed} skipped")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
