"""Operations against rationals, over all operands of small formats, and against NumPy in float16."""
import math
from bisect import bisect_left
from fractions import Fraction

import numpy as np
import pytest

import halfulp
from conftest import same
from halfulp import Format

OPERATIONS = {"add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "div": lambda a, b: a / b if b else None}


class Nearest:
    """Rounds rationals to a format's values, ties to even codes, by a search in the sorted list of values."""

    def __init__(self, f):
        codes = [c for c in range(2 ** (f.bits - 1)) if math.isfinite(f.value(c))]
        self.f, self.values = f, [Fraction(f.value(c)) for c in codes]
        self.beyond = self.values[-1] + (self.values[-1] - self.values[-2])  # the next value if there were one

    def __call__(self, x):
        """The magnitude rounded with the sign of x; None for overflow."""
        m = abs(x)
        values = self.values + [self.beyond]
        i = bisect_left(values, m)
        if i == len(values):
            return None
        if values[i] != m:
            below, above = m - values[i - 1], values[i] - m
            i = i - 1 if below < above or (below == above and (i - 1) % 2 == 0) else i
        if i == len(self.values):
            return None
        return -values[i] if x < 0 else values[i]


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("name", ["e2m1", "e2m3", "e3m2", "e3m1", "e2m2fn"])
def test_every_pair_is_rounded_once(name, operation):
    f = Format(name)
    nearest = Nearest(f)
    codes = np.arange(2**f.bits, dtype=np.uint8)
    finite = codes[np.isfinite(halfulp.decode(codes, f))]
    a, b = (x.ravel() for x in np.meshgrid(finite, finite))
    results, flags = getattr(halfulp, operation)(a, b, f, codes=True, flags=True)
    assert np.array_equal(results, getattr(halfulp, operation)(a, b, f, codes=True))  # without flags the code takes another path
    values = halfulp.decode(results, f)
    for x, y, v, raised in zip(halfulp.decode(a, f), halfulp.decode(b, f), values, flags):
        exact = OPERATIONS[operation](Fraction(float(x)), Fraction(float(y)))
        if exact is None:
            assert raised & (halfulp.FLAGS["divide_by_zero"] if x else halfulp.FLAGS["invalid"])
            continue
        expected = nearest(exact)
        if expected is None:
            assert raised & halfulp.FLAGS["overflow"]
            assert not np.isfinite(v) if f.has_nan else abs(v) == f.max
        else:
            assert Fraction(float(v)) == expected
            assert bool(raised & halfulp.FLAGS["inexact"]) == (expected != exact)


def test_fma_and_sqrt_are_rounded_once():
    f = Format("e3m2")
    nearest = Nearest(f)
    random = np.random.default_rng(1)
    a, b, c = random.integers(0, 64, (3, 3000), dtype=np.uint8)
    for x, y, z, v in zip(*(halfulp.decode(k, f) for k in (a, b, c)), halfulp.decode(halfulp.fma(a, b, c, f, codes=True), f)):
        expected = nearest(Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z)))
        assert Fraction(float(v)) == (expected if expected is not None else math.copysign(f.max, x * y + z))
    roots = halfulp.sqrt(np.arange(1, 128, dtype=np.uint8), "e4m3", codes=True)
    for code, root in zip(range(1, 127), halfulp.decode(roots, "e4m3")):
        step = Fraction(Format("e4m3").value(int(halfulp.encode(root, "e4m3")) + 1)) - Fraction(float(root))
        assert abs(Fraction(float(root)) ** 2 - Fraction(Format("e4m3").value(code))) <= Fraction(float(root)) * step + step * step / 4


@pytest.mark.parametrize("operation, theirs", [("add", np.add), ("sub", np.subtract), ("mul", np.multiply), ("div", np.divide), ("sqrt", np.sqrt)])
def test_float16_as_numpy(operation, theirs):
    """float32 holds sums, products and quotients of fp16 well enough that a second rounding does no harm."""
    random = np.random.default_rng(2)
    operands = [random.integers(0, 1 << 16, 200000, dtype=np.uint16).view(np.float16) for _ in range(1 if operation == "sqrt" else 2)]
    with np.errstate(all="ignore"):
        result = getattr(halfulp, operation)(*operands)
        expected = theirs(*operands)
    assert result.dtype == np.float16
    nan = np.isnan(expected)
    assert np.array_equal(nan, np.isnan(result)) and np.array_equal(result[~nan].view(np.uint16), expected[~nan].view(np.uint16))


def test_comparisons_and_extremes():
    a, b = np.float32([1, 2, np.nan, -0.0]), np.float32([2, 2, 1, 0.0])
    assert halfulp.lt(a, b, "fp16").tolist() == [True, False, False, False] and halfulp.lt(a, b, "fp16").dtype == bool
    assert halfulp.le(a, b, "fp16").tolist() == [True, True, False, True]
    assert halfulp.eq(a, b, "fp16").tolist() == [False, True, False, True]
    assert halfulp.lt(np.nan, 1, "fp16", flags=True)[1] == halfulp.FLAGS["invalid"] and halfulp.eq(np.nan, 1, "fp16", flags=True)[1] == 0
    same(halfulp.min(a, b, "fp16"), np.float32([1, 2, 1, -0.0]))
    same(halfulp.max(a, b, "fp16"), np.float32([2, 2, 1, 0.0]))


def test_functions():
    x = np.float32([0.25, 1, 2, 4])
    assert halfulp.rcp(x, "e4m3").tolist() == [4, 1, 0.5, 0.25] and halfulp.rsqrt(x, "bf16").tolist()[0] == 2 and halfulp.log2(x, "e4m3").tolist() == np.log2(x).tolist()
    assert halfulp.exp(1, "fp32") == np.float32(math.e) and halfulp.exp(1, "fp16") == np.float16(math.e)
    assert halfulp.rem(5, 3, "fp16") == -1 and halfulp.round_to_integral(2.5, "fp16") == 2
    assert halfulp.round_to_integral([2.5, -2.5], "fp16", rounding="toward-positive").tolist() == [3, -2]


def test_convert():
    assert halfulp.convert(np.float16([65504, 1e-7]), "bf16").tolist() == [65536, halfulp.quantize(np.float16(1e-7), "bf16")]
    assert halfulp.convert([0x3C00], "bf16", "fp16", codes=True).tolist() == [0x3F80]
    assert halfulp.convert([1.5, -1.5, np.nan, 3e9], "i32", "fp64").tolist() == [2, -2, 0, 2**31 - 1]
    assert halfulp.convert([1.5, np.nan], "i32", "fp64", rounding=halfulp.Rounding(int_overflow="x86")).tolist() == [2, -(2**31)]
    assert halfulp.convert(np.int32([-7, 2049]), "fp16").tolist() == [-7, 2048] and halfulp.convert(np.int8([-7]), "e4m3").tolist() == [-7]
    assert halfulp.convert(np.uint64([2**64 - 1]), "fp32", rounding="toward-zero").tolist() == [2.0**64 - 2.0**40]
    value, flags = halfulp.convert(1e6, "fp16", "fp32", flags=True)
    assert np.isinf(value) and flags == halfulp.FLAGS["overflow"] | halfulp.FLAGS["inexact"]


def test_operands_broadcast_and_keep_their_type(shared):
    f, dtype = shared
    if not f.has_zero:
        pytest.skip("arithmetic in e8m0 is refused")
    a = np.ones((3, 1)).astype(dtype)
    result = halfulp.add(a, np.ones(4).astype(dtype))
    assert result.dtype == dtype and result.shape == (3, 4) and np.all(result.astype(np.float32) == 2)
    assert halfulp.add(a, 1, f).dtype == np.float32


def test_stochastic_operations_depend_on_the_seed_alone():
    x = np.random.default_rng(3).standard_normal((2, 5000))
    by_vectors = halfulp.add(x[0], x[1], "e4m3", rounding="stochastic", seed=9, codes=False)
    one_by_one, _ = halfulp.add(x[0], x[1], "e4m3", rounding="stochastic", seed=9, flags=True)
    same(by_vectors, one_by_one)
    assert not np.array_equal(by_vectors, halfulp.add(x[0], x[1], "e4m3", rounding="stochastic", seed=10))


def operands_of(dtype, count):
    """Numbers of every magnitude, specials among them, as an operand may hold them."""
    random = np.random.default_rng(count)
    if np.dtype(dtype).kind in "iu":
        return random.integers(0, 100, count).astype(dtype)
    with np.errstate(over="ignore"):
        x = np.ldexp(random.standard_normal(count), random.integers(-30, 20, count)).astype(dtype)
    x[:: 97], x[1:: 97], x[2:: 97], x[3:: 97] = np.nan, np.inf, -np.inf, -0.0
    return x


@pytest.mark.parametrize("mode", ["nearest-even", "toward-positive", "to-odd", "stochastic"])
@pytest.mark.parametrize("format", ["fp16", "bf16", "e4m3", "e2m1", "tf32", "e4m3b11fnuz", "e9m3", "fp32"])
def test_values_give_the_same_in_one_step_and_through_code_words(format, mode):
    for function, name, count, truth in halfulp._core.operations():
        if name == "convert" or truth:
            continue
        for types in ([np.float32] * 3, [np.float64, np.float32, np.float16], [np.float32, np.int8, np.int64]):
            given = [operands_of(t, 300) for t in types[:count]]
            options = {"rounding": mode, "seed": 5}
            words = [halfulp.encode(x, format) for x in given]
            expected = halfulp.decode(getattr(halfulp, function)(*words, format, codes=True, **options), format)
            same(getattr(halfulp, function)(*given, format, **options), expected)


@pytest.mark.parametrize("count", [0, 1, 8192, 8193, 2**18 + 4097])
def test_values_of_any_number(count):
    a, b = operands_of(np.float32, count), operands_of(np.float64, count)[::-1]
    for mode in ("nearest-even", "stochastic"):
        codes = [halfulp.encode(x, "e4m3") for x in (a, b)]
        words = halfulp.add(*codes, "e4m3", rounding=mode, seed=2, codes=True)
        values = halfulp.add(a, b, "e4m3", rounding=mode, seed=2)
        same(values, halfulp.decode(words, "e4m3"))
        assert values.dtype == np.float32


def test_every_operation_has_its_function():
    for function, name, operands, truth in halfulp._core.operations():
        call = getattr(halfulp, function)
        assert call is getattr(halfulp.operations, function) and "Operands, format, options" in call.__doc__ or name == "convert"
        code = call.__code__
        assert code.co_varnames[:operands] == ("a", "b", "c")[:operands] and code.co_varnames[operands] in ("format", "to")
        if name != "convert":
            answer = call(*[1.0] * operands, "fp32")
            assert isinstance(answer, np.bool_) == truth
