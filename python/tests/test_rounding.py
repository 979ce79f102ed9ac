"""Code words and rounding against ml_dtypes and NumPy: every code word, and floats over the whole range. Against
fractions: each number is rounded once, from its exact value, for all types and containers."""
from fractions import Fraction

import numpy as np
import pytest

import halfulp
from conftest import same


def test_every_code_word_has_the_value_of_ml_dtypes(shared):
    f, dtype = shared
    codes = np.arange(2**f.bits, dtype=f"u{dtype.itemsize}")
    same(halfulp.decode(codes, f), codes.view(dtype).astype(np.float32))
    same(halfulp.decode(codes.view(dtype), f), halfulp.decode(codes, f))


def test_every_fp16_code_word_has_the_value_of_numpy():
    codes = np.arange(2**16, dtype=np.uint16)
    same(halfulp.decode(codes, "fp16"), codes.view(np.float16).astype(np.float32))
    same(halfulp.quantize(codes.view(np.float16), "fp16"), codes.view(np.float16))


def operands(f, floats):
    """The floats for which ml_dtypes and halfulp must agree. Formats without NaN have no answer to NaN, and E8M0 has
    none to numbers that are not positive."""
    if not f.has_zero:
        floats = floats[floats > 0]
    return floats if f.has_nan else floats[np.isfinite(floats)]


def test_floats_are_rounded_as_by_ml_dtypes(shared, floats):
    f, dtype = shared
    x = operands(f, floats)
    if f.name == "e8m0":  # within its range; ml_dtypes has its own rules for subnormal floats (halfulp.profiles)
        x = x[(x >= 2.0**-126) & (x <= f.max)]
    mode = "nearest-even" if f.has_zero else "nearest-away"
    with np.errstate(all="ignore"):
        theirs = x.astype(dtype)
    same(halfulp.quantize(x, f, rounding=mode), theirs.astype(np.float32))
    ours = halfulp.encode(x, f, rounding=mode)
    number = ~np.isnan(x)
    if f.has_nan:
        number &= ~np.isnan(theirs.astype(np.float32))
    assert np.array_equal(ours[number], theirs.view(ours.dtype)[number])
    same(halfulp.quantize(x, f, rounding=mode, dtype=dtype).astype(np.float32), theirs.astype(np.float32))


def test_floats_are_rounded_as_by_numpy(floats):
    with np.errstate(all="ignore"):
        same(halfulp.quantize(floats, "fp16"), floats.astype(np.float16).astype(np.float32))
        same(halfulp.quantize(floats, "fp16", dtype=np.float16), floats.astype(np.float16))


def test_doubles_are_rounded_once():
    """1 + 2^-11 + 2^-40 is above the midpoint of two fp16 numbers; as float32 it would be the midpoint."""
    x = 1 + 2.0**-11 + 2.0**-40
    assert halfulp.quantize(x, "fp16") == 1 + 2.0**-10 == np.float64(x).astype(np.float16)
    assert halfulp.quantize(np.float32(x), "fp16") == 1
    random = np.random.default_rng(1).standard_normal(100000) * 2.0 ** np.random.default_rng(2).integers(-30, 18, 100000)
    with np.errstate(all="ignore"):
        same(halfulp.quantize(random, "fp16"), random.astype(np.float16).astype(np.float64))
        same(halfulp.quantize(random, "fp32"), random.astype(np.float32).astype(np.float64))


def test_integers_are_rounded_once():
    assert halfulp.quantize(2**53 + 1, "fp64", rounding="toward-positive") == 2.0**53 + 2
    assert halfulp.quantize(np.uint64(2**64 - 1), "fp32") == 2.0**64
    assert halfulp.encode(np.int64(-(2**63)), "bf16") == 0xDF00
    assert halfulp.quantize(np.int64(2**60 + 2**49 + 1), "fp16").dtype == np.float64
    x = np.arange(-70000, 70000, dtype=np.int32)
    same(halfulp.quantize(x, "bf16"), halfulp.quantize(x.astype(np.float64), "bf16"))
    with np.errstate(all="ignore"):
        same(halfulp.quantize(x, "fp16"), x.astype(np.float16).astype(np.float64))


@pytest.mark.parametrize("name", ["fp16", "bf16", "e4m3", "e5m3", "e2m1", "p3109k8p4", "tf32", "fp32", "fp64", "e11m2"])
@pytest.mark.parametrize("mode", ["nearest-even", "nearest-away", "toward-zero", "toward-positive", "to-odd", "stochastic"])
def test_quantize_is_decode_of_encode(name, mode):
    x = np.random.default_rng(3).integers(0, 1 << 32, 5000, dtype=np.uint32).view(np.float32)
    q = halfulp.quantize(x, name, rounding=mode, seed=7)
    same(q.astype(np.float64), halfulp.decode(halfulp.encode(x, name, rounding=mode, seed=7), name, dtype=np.float64))


def test_directed_modes_enclose():
    x = np.random.default_rng(4).standard_normal(10000).astype(np.float32)
    down, up = (halfulp.quantize(x, "e4m3", rounding=m) for m in ("toward-negative", "toward-positive"))
    assert np.all(down <= x) and np.all(x <= up) and np.all((down == x) == (up == x))


def test_stochastic_rounding_has_the_right_mean_and_depends_on_the_seed():
    x = np.full(200000, 1 + 0.3 / 8, np.float32)
    q = halfulp.quantize(x, "e4m3", rounding="stochastic", seed=5)
    assert set(q) == {1, 1.125} and abs(q.mean() - x[0]) < 0.001
    assert np.array_equal(q, halfulp.quantize(x, "e4m3", rounding="stochastic", seed=5))
    assert not np.array_equal(q, halfulp.quantize(x, "e4m3", rounding="stochastic", seed=6))


def test_tally():
    q, counts = halfulp.quantize(np.float32([1e9, 1e-9, 1, np.nan, 0.1]), "e4m3", overflow="saturate", tally=True)
    assert list(q[:3]) == [448, 0, 1]
    assert (counts["elements"], counts["overflow"], counts["to_zero"], counts["nan"], counts["inexact"]) == (5, 1, 1, 1, 3)


@pytest.mark.parametrize("x", [[2**60 + 1, 0.5], (0.5, 2**53 + 1), [-1, 2**63 + 1], [2**64 - 1, -1], [[1.0, 2.0], [3, -(2**53) - 1]], [np.array([2**60 + 1]), np.array([0.5])],
                               [np.uint64(2**63 + 1), np.int8(-1)], [float("nan"), 2**53 + 1]], ids=str)
def test_integers_beside_floats(x):
    for call in (lambda: halfulp.quantize(x, "fp32", rounding="toward-positive"), lambda: halfulp.encode(x, "e4m3"), lambda: halfulp.add(x, 1, "fp64"), lambda: halfulp.quantize_blocks(x, "mxfp4")):
        with pytest.raises(ValueError, match="^(x|a): the integer -?[0-9]+ beside"):
            call()


def test_integers_that_are_no_problem():
    assert halfulp.quantize([2**60 + 1], "fp32", rounding="toward-positive")[0] == 2.0**60 + 2**37
    assert halfulp.quantize([2**60, 0.5, -(2**53)], "fp64").tolist() == [2.0**60, 0.5, -(2.0**53)]
    assert halfulp.quantize([2**53 - 1, 0.5], "fp64")[0] == 2**53 - 1
    assert halfulp.quantize([1e300, True], "fp64").tolist() == [1e300, 1]


def test_masks_in_lists():
    masked = np.ma.array([1.0, 2.0], mask=[0, 1])
    for x in ([masked], [[masked]], [np.ma.masked, 1.0], (1.0, np.ma.masked)):
        with pytest.raises(TypeError, match="^x: a masked array"):
            halfulp.quantize(x, "e4m3")


MODES = {"nearest-even": None, "toward-zero": lambda q: int(q), "toward-positive": lambda q: -(-q.numerator // q.denominator), "toward-negative": lambda q: q.numerator // q.denominator}


@pytest.mark.parametrize("mode", MODES)
def test_blocks_round_float64_once(mode):
    """MXFP4's elements in a block with the largest magnitude 6, whose scale is 1: multiples of 1/2 up to 2, of 1 up to
    4, then of 2, by rational arithmetic."""
    draws = np.random.default_rng(3)
    near = np.repeat(np.arange(-12, 13) / 4, 40) * (1 + draws.choice([-1, 0, 1], 1000) * 2.0**-draws.integers(30, 50, 1000))
    x = np.concatenate([near, draws.uniform(-6, 6, 24)]).reshape(32, 32)
    x[:, 0] = 6
    expected = np.empty_like(x)
    for i, v in np.ndenumerate(x):
        step = Fraction(1, 2) if abs(v) < 2 else Fraction(1) if abs(v) < 4 else Fraction(2)
        quotient = Fraction(v) / step
        expected[i] = float((round(quotient) if MODES[mode] is None else MODES[mode](quotient)) * step)
    for q in (halfulp.quantize(x, "mxfp4", rounding=mode), halfulp.quantize_blocks(x, "mxfp4", rounding=mode).values(), halfulp.quantize(x, "mxfp4", rounding=mode, out=np.empty_like(x))):
        assert np.array_equal(q, expected)


def test_blocks_of_integers_and_of_what_float32_does_not_reach():
    assert halfulp.quantize([2**53 + 2**51 + 1, 6 * 2**51], "mxfp4", rounding="toward-positive").tolist() == [6 * 2.0**51, 6 * 2.0**51]
    with np.errstate(all="raise"):
        largest = halfulp.quantize([1e300, 1], "mxfp4")
        assert np.isfinite(largest).all() and largest[0] == halfulp.quantize(np.float32([3.4e38, 1]), "mxfp4")[0]
        assert halfulp.quantize([1e-300, -1e-300], "mxfp4").tolist() == [0, 0]
        same(halfulp.quantize(np.float64([np.inf, 1]), "mxfp4"), halfulp.quantize(np.float32([np.inf, 1]), "mxfp4"))
        same(halfulp.quantize(np.float64([np.nan, 1]), "nvfp4"), halfulp.quantize(np.float32([np.nan, 1]), "nvfp4"))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.float16])
@pytest.mark.parametrize("format", ["e4m3", "bf16", "fp64", "mxfp4"])
def test_parts_are_rounded_as_the_whole(dtype, format):
    x = (np.random.default_rng(4).standard_normal(320) * 1000).astype(dtype)
    whole = halfulp.quantize(x, format, rounding="stochastic", seed=7, stream=3)
    assert not np.array_equal(whole, halfulp.quantize(x, format, rounding="stochastic", seed=7)) or format == "fp64"
    parts = [halfulp.quantize(x[i:i + 64], format, rounding="stochastic", seed=7, stream=3, first=i) for i in range(0, 320, 64)]
    same(np.concatenate(parts), whole)
    if format == "mxfp4":
        blocks = [halfulp.quantize_blocks(x[i:i + 64], format, rounding="stochastic", seed=7, stream=3, first=i).values() for i in range(0, 320, 64)]
        same(np.concatenate(blocks), whole)
    else:
        codes = [halfulp.encode(x[i:i + 64], format, rounding="stochastic", seed=7, stream=3, first=i) for i in range(0, 320, 64)]
        same(halfulp.decode(np.concatenate(codes), format), whole)


@pytest.mark.parametrize(
    "function", [halfulp.quantize, halfulp.encode, lambda x, f, **k: halfulp.quantize_blocks(x, f, **k).codes]
)
@pytest.mark.parametrize("n, bits", [(2, 16), (4, 8), (4, 3)])
def test_roundings_share_words(function, n, bits):
    blocks = function not in (halfulp.quantize, halfulp.encode)
    x, f = np.full(4096, np.float32(1.03)), "mxfp8" if blocks else "e4m3"
    options = {"rounding": "stochastic", "random_bits": bits, "seed": 7, "stream": 3}
    plain, shared = function(x, f, **options), function(x, f, **options, roundings_per_word=n)
    same(shared[::n], plain[:len(shared[::n])])  # the lowest bits of a word are those of its first element
    assert not np.array_equal(shared, plain)
    same(
        np.concatenate(
            [
                function(x[:2048], f, **options, roundings_per_word=n),
                function(x[2048:], f, **options, roundings_per_word=n, first=2048),
            ]
        ),
        shared,
    )
    ups = np.mean(shared != shared.min())  # 1.03 lies 0.24 of a unit above 1
    assert abs(ups - 0.24) < 0.03 + 2.0**-bits


@pytest.mark.parametrize("n, bits", [(2, None), (2, 17), (4, 9), (3, 8), (0, 8), (2.0, 8), (True, 8), ("2", 8)])
def test_words_too_short_for_their_roundings(n, bits):
    for function, format in (
        (halfulp.quantize, "e4m3"),
        (halfulp.quantize, "mxfp4"),
        (halfulp.encode, "e4m3"),
        (halfulp.quantize_blocks, "mxfp4"),
    ):
        with pytest.raises(ValueError, match="^roundings_per_word: "):
            function([1.0], format, rounding="stochastic", random_bits=bits, roundings_per_word=n)
    with pytest.raises(TypeError, match="roundings_per_word"):
        halfulp.quantize("x.npy", "e4m3", roundings_per_word=2)


def test_streams_are_numbers():
    for keywords in ({"stream": -1}, {"first": 2**64}, {"first": 0.5}, {"stream": "1"}):
        for function, format in ((halfulp.quantize, "e4m3"), (halfulp.quantize, "mxfp4"), (halfulp.encode, "e4m3"), (halfulp.quantize_blocks, "mxfp4")):
            with pytest.raises((TypeError, ValueError), match=next(iter(keywords))):
                function([1.0], format, **keywords)
    with pytest.raises(TypeError, match="stream"):
        halfulp.quantize("x.npy", "e4m3", stream=1)


@pytest.mark.parametrize("name", ["e2m2b150", "e4m2b1060", "e5m30"])
def test_a_largest_number_that_is_no_float32(name):
    largest = halfulp.Format(name).max
    for x in np.float32([5.605193857299268e-45, 1.4e-45, 1e30]):
        wide = halfulp.quantize(np.array([x], np.float64), name, rounding="toward-zero")
        narrow = halfulp.quantize(np.array([x], np.float32), name, rounding="toward-zero")
        assert narrow[0] == wide[0] <= largest, (name, x)


@pytest.mark.parametrize("format", ["fp16", "bf16", "fp32", "tf32", "e9m2", "fp64", "e11m30"])
def test_subnormals_of_the_given_type_are_flushed(format):
    rounding = halfulp.Rounding(flush_inputs=True)
    for least in (np.finfo(np.float32).smallest_subnormal, np.finfo(np.float16).smallest_subnormal):
        tiny = np.finfo(least.dtype).smallest_normal
        x = np.array([least, -least, tiny / 2, -tiny, 1, np.nan, np.inf], least.dtype)
        flushed = np.where(np.abs(x) < tiny, np.copysign(0, x), x).astype(x.dtype)
        same(halfulp.quantize(x, format, rounding=rounding), halfulp.quantize(flushed, format))
        same(halfulp.encode(x, format, rounding=rounding), halfulp.encode(flushed, format))


@pytest.mark.parametrize("format", ["fp64", "e8m30", "e10m30fn", "e9m23finite"])
def test_saturated_infinities_are_finite(format):
    f, x = halfulp.Format(format), np.array([np.inf, -np.inf, 1], np.float32)
    rounded = halfulp.quantize(x, format, overflow="saturate")
    same(rounded, np.array([f.max, -f.max, 1]))
    with pytest.raises(TypeError, match="does not hold"):
        halfulp.quantize(x, format, overflow="saturate", dtype=np.float32)
