"""Each number is rounded once, from its exact value, for all types and containers. Compares with fractions."""
from fractions import Fraction

import numpy as np
import pytest

import halfulp
from conftest import same


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
    for x in ([np.ma.array([1.0, 2.0], mask=[0, 1])], [np.ma.masked, 1.0], (1.0, np.ma.masked)):
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


def test_streams_are_numbers():
    for keywords in ({"stream": -1}, {"first": 2**64}, {"first": 0.5}, {"stream": "1"}):
        for function, format in ((halfulp.quantize, "e4m3"), (halfulp.quantize, "mxfp4"), (halfulp.encode, "e4m3"), (halfulp.quantize_blocks, "mxfp4")):
            with pytest.raises((TypeError, ValueError), match=next(iter(keywords))):
                function([1.0], format, **keywords)
    with pytest.raises(TypeError, match="stream"):
        halfulp.quantize("x.npy", "e4m3", stream=1)
