"""The exercises of the notebooks: halfulp judges an answer.

check("formats-1", answer) says that it is right and why, or gives a hint, or that there is no answer yet. One function an exercise: it returns
the sentence for a right answer and raises Hint for another. What is right is computed by halfulp there; solutions.py has one answer each.
"""
from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import halfulp

FASHION_MNIST = Path("/usr/share/datasets/fashion-mnist")  # where Debian's and Ubuntu's dataset-fashion-mnist puts it


class Hint(Exception):
    """What to say of an answer that is not right."""


_judges: dict[str, Callable[[Any], str]] = {}


def _exercise(name: str) -> Callable[[Callable[[Any], str]], Callable[[Any], str]]:
    def keep(judge: Callable[[Any], str]) -> Callable[[Any], str]:
        _judges[name] = judge
        return judge
    return keep


def judge(name: str, answer: Any) -> tuple[str, str]:
    """("unanswered" | "right" | "hint", what to say)"""
    if name not in _judges:
        raise ValueError(f"name: no exercise {name!r}; accepted: {', '.join(_judges)}")
    if answer is ...:
        return "unanswered", "not answered yet: write your answer instead of the three dots, and run the cell again"
    try:
        return "right", _judges[name](answer)
    except Hint as hint:
        return "hint", str(hint)
    except (TypeError, ValueError) as why:
        return "hint", f"this cannot be judged: {why}"


def check(name: str, answer: Any) -> None:
    """Prints what there is to say of an answer."""
    verdict, text = judge(name, answer)
    print(f"{name}: " + {"unanswered": "", "right": "right. ", "hint": "not yet. "}[verdict] + text)


def names() -> list[str]:
    return list(_judges)


def _need(holds: Any, hint: str) -> None:
    if not holds:
        raise Hint(hint)


def _number(answer: Any) -> float:
    _need(isinstance(answer, (int, float, np.integer, np.floating)) and not isinstance(answer, bool) and math.isfinite(answer), "The answer is one finite number.")
    return float(answer)


def _integer(answer: Any, least: int, most: int) -> int:
    number = _number(answer)
    _need(number == int(number) and least <= number <= most, f"The answer is an integer from {least} to {most:,}.")
    return int(number)


def _power_of_two(answer: Any) -> float:
    number = _number(answer)
    _need(number > 0 and math.frexp(number)[0] == 0.5, "The answer is a power of two.")
    return number


def images() -> str:
    """The folder of Fashion-MNIST where it is installed, else of the small made images that the tests of halfulp use."""
    return str(FASHION_MNIST if FASHION_MNIST.is_dir() else Path(__file__).resolve().parent.parent / "tests/golden/images")


# --- formats --------------------------------------------------------------------------------------

@_exercise("formats-1")
def _(answer: Any) -> str:
    n = _integer(answer, 1, 10**6)
    _need(halfulp.quantize(n, "bf16") != n, f"{n} is a BF16 number: halfulp.quantize({n}, 'bf16') returns it.")
    smaller = np.arange(1, n)
    _need(np.array_equal(halfulp.quantize(smaller, "bf16"), smaller), "BF16 does not have it, but some smaller integer is missing too. Where does the spacing grow from 1 to 2?")
    return f"From {n - 1} on the spacing is 2: BF16 has 8 significant bits, and {n} needs 9."


@_exercise("formats-2")
def _(answer: Any) -> str:
    _need(isinstance(answer, (str, halfulp.Format)), "The answer is a text such as \"e5m2\".")
    f = halfulp.Format(answer) if isinstance(answer, str) else answer
    _need(f.bits == 8, f"{f.name} has {f.bits} bits, not 8.")
    _need(f.is_signed, f"{f.name} has no sign.")
    _need(f.eps <= 1 / 8, f"The spacing of {f.name} above 1 is {f.eps}. How many fraction bits does 1/8 take?")
    _need(f.max >= 1000, f"{f.name} ends at {f.max}. The bits are spent; which number in the description moves the whole range?")
    return f"{f.name} reaches {f.max}; the price is paid at the other end, where its smallest number is {f.smallest_subnormal} (E4M3 as the OCP has it: {2**-9})."


@_exercise("formats-3")
def _(answer: Any) -> str:
    x = _number(answer)
    _need(halfulp.quantize(x, "e4m3") == 448, f"{x} does not become 448.")
    _need(halfulp.quantize(math.nextafter(x, math.inf), "e4m3") != 448,
          "It becomes 448, and so do numbers a little larger. What would the next E4M3 number be if the format did not end, and where is the midpoint?")
    return "It is the midpoint of 448 and the 480 that E4M3 does not have; the tie goes to the even significand, 448. Whatever is larger is NaN."


# --- underflow ------------------------------------------------------------------------------------

@_exercise("underflow-1")
def _(answer: Any) -> str:
    x = _number(answer)
    _need(x > 0, "The answer is positive.")
    _need(halfulp.quantize(x, "fp16") == 0, f"{x} becomes {halfulp.quantize(x, 'fp16')}, which is not zero.")
    _need(halfulp.quantize(math.nextafter(x, 1), "fp16") > 0, "It becomes zero, but a slightly larger number does too. Which one is half way to the smallest subnormal number?")
    return "Half of the smallest subnormal number is a tie between it and zero, and zero is even."


def gradients() -> Any:
    """The gradients of an exercise: 4,096 magnitudes, spread over many binades."""
    return np.exp2(np.random.default_rng(2018).uniform(-38, -2, 4096)).astype(np.float32)


@_exercise("underflow-2")
def _(answer: Any) -> str:
    scale = _power_of_two(answer)
    rounded, counts = halfulp.quantize(gradients() * np.float64(scale), "fp16", tally=True)
    _need(counts["overflow"] == 0, f"{counts['overflow']} gradients become infinite: too much.")
    _need(counts["to_zero"] == 0, f"{counts['to_zero']} gradients become zero: not enough.")
    return f"All {rounded.size:,} gradients survive. GradScaler finds such a scale by trial: it doubles until something overflows."


@_exercise("underflow-3")
def _(answer: Any) -> str:
    k = _integer(answer, -30, 0)
    _need(halfulp.quantize(10.0**k, "fp16") > 0, f"1e{k} is zero in FP16, and v + eps can be zero.")
    _need(halfulp.quantize(10.0**(k - 1), "fp16") == 0, f"1e{k} survives, and so does a smaller power of ten.")
    return f"1e{k} is a subnormal number of FP16; 1e{k - 1} is zero. Adam's default, 1e-8, lies below."


# --- swamping -------------------------------------------------------------------------------------

@_exercise("swamping-1")
def _(answer: Any) -> str:
    n = _power_of_two(answer)
    _need(n >= 2, "The answer is larger than 1.")
    _need(halfulp.add(1, 1 / n, "bf16") == 1, f"1 + 1/{n:g} is {halfulp.add(1, 1 / n, 'bf16')} in BF16: the update arrives.")
    _need(halfulp.add(1, 2 / n, "bf16") != 1, f"1 + 1/{n:g} is lost, but larger updates are lost already.")
    return f"1/{n:g} is half the spacing above 1: a tie, and 1 is the even neighbour."


@_exercise("swamping-2")
def _(answer: Any) -> str:
    m = _integer(answer, 1, 40)
    _need(halfulp.add(1, 2.0**-14, f"e8m{m}") != 1, f"With {m} fraction bits the update is still lost.")
    _need(halfulp.add(1, 2.0**-14, f"e8m{m - 1}") == 1, f"{m} fraction bits are enough, and so are fewer.")
    return "With as many fraction bits the update is a whole step of the format; with one less it is half a step, and the tie goes back to 1."


@_exercise("swamping-3")
def _(answer: Any) -> str:
    _need(isinstance(answer, (tuple, list)) and len(answer) == 2, "The answer is a pair, (w, u).")
    w, u = (_number(x) for x in answer)
    for name, x in (("w", w), ("u", u)):
        _need(halfulp.quantize(x, "fp16") == x, f"{name} = {x} is no FP16 number.")
    _need(u != 0, "u must not be zero.")
    once = halfulp.add(w, u, "fp16")
    _need(halfulp.add(once, u, "fp16") == w, f"(w + u) + u is {halfulp.add(once, u, 'fp16')}: something arrives.")
    _need(halfulp.add(w, halfulp.add(u, u, "fp16"), "fp16") != w, "w + (u + u) is lost as well: u is too small.")
    return "Together the two updates are large enough. That is what gradient accumulation and master weights live on."


# --- position ids ---------------------------------------------------------------------------------

@_exercise("positions-1")
def _(answer: Any) -> str:
    n = _integer(answer, 0, 10**6)
    ids = halfulp.quantize(np.arange(n + 1), "fp16")
    _need(np.unique(ids[:n]).size == n, f"Some token before {n} shares its id already.")
    _need(np.unique(ids).size == n, f"Token {n} has an id of its own, and so have all before it.")
    return f"FP16 has 11 significant bits: the integers up to {n - 1} are exact, and {n} is rounded to it."


@_exercise("positions-2")
def _(answer: Any) -> str:
    ids = halfulp.quantize(np.arange(2048), "bf16")
    truth = set(np.flatnonzero(ids == 1000).tolist())
    _need(isinstance(answer, (list, tuple, set, range)), "The answer is a list of tokens.")
    given = {_integer(x, 0, 2047) for x in answer}
    _need(given - truth == set(), f"Token {min(given - truth, default=0)} has the id {ids[min(given - truth, default=0)]:g}.")
    _need(truth - given == set(), "All of these have it, but there are more. What is the spacing there, and where do the ties go?")
    return "The spacing is 4 there. Both ties belong to 1000, whose significand is even, so five tokens meet; its neighbours 996 and 1004 have three each."


@_exercise("positions-3")
def _(answer: Any) -> str:
    m = _integer(answer, 1, 40)
    positions = np.arange(32768)
    distinct = [np.unique(halfulp.quantize(positions, f"e8m{bits}")).size for bits in (m, m - 1)]
    _need(distinct[0] == 32768, f"With {m} fraction bits {distinct[0]:,} positions are left.")
    _need(distinct[1] < 32768, f"{m} fraction bits keep all positions, and so do fewer.")
    return "Integers are exact up to 2^(fraction bits + 1)."


# --- accumulation ---------------------------------------------------------------------------------

@_exercise("accumulation-1")
def _(answer: Any) -> str:
    total = _number(answer)
    ones = np.ones(10**6, np.float32)
    _need(total == halfulp.dot(ones, ones, model="e4m3"), f"How many ones does {total:g} take, and what is {total:g} + 1 in E4M3?" if 0 < total <= 448 else "That is no sum of ones in E4M3, which ends at 448.")
    return f"{total:g} + 1 is a tie, and goes back to {total:g}: the rest of the million is lost."


def terms() -> Any:
    """The terms of an exercise: 8,192 numbers that are uniform in (0, 1)."""
    return np.random.default_rng(2002).random(8192).astype(np.float32)


@_exercise("accumulation-2")
def _(answer: Any) -> str:
    _need(isinstance(answer, str), "The answer is a text.")
    _need("acc=bf16" in answer.replace(" ", ""), "The text must say acc=bf16.")
    _need("promote=" not in answer and "out=" not in answer.replace("out=bf16", ""), "Without promote= and out=: everything is BF16.")
    x, ones = terms(), np.ones(8192, np.float32)
    exact = halfulp.dot(x, ones, model="fp64")
    error = abs(float(halfulp.dot(x, ones, model=answer)) - exact) / exact
    _need(error < 0.01, f"The relative error is {error:.1%}. Which order lets numbers of equal size meet, or what keeps what an addition loses?")
    return f"The relative error is {error:.2%}; one after the other it is {abs(float(halfulp.dot(x, ones, model='bf16')) - exact) / exact:.0%}."


@_exercise("accumulation-3")
def _(answer: Any) -> str:
    _need(isinstance(answer, (list, tuple)), "The answer is a list.")
    _need(sorted(_number(x) for x in answer) == [1, 1, 1, 1, 2048], "These are not the numbers of the exercise.")
    total = halfulp.dot(list(answer), np.ones(5), model="fp16")
    _need(total == 2052, f"This order gives {total:g}. Where must the ones be to grow together?")
    return "From small to large: the ones meet each other before they meet 2048. (For numbers of one sign it is the better order; it is no guarantee.)"


# --- matrix units ---------------------------------------------------------------------------------

_FIRST_EXAMPLE = ([[-8192, -0.5, -0.25, -0.125]], [[1024], [1], [1], [1]], [[8388608]])


@_exercise("units-1")
def _(answer: Any) -> str:
    bits = _integer(answer, 1, 60)
    hopper = halfulp.units("hopper.mma.fp16.fp32")
    got = [float(halfulp.mma(hopper | {"alignment_bits": n}, *_FIRST_EXAMPLE)[0, 0]) for n in (bits, bits - 1)]
    _need(got[0] == -0.875, f"With {bits} alignment bits D is {got[0]}.")
    _need(got[1] != -0.875, f"{bits} bits are enough, and so are fewer.")
    return "The last place is as many binades below 2^23 as there are bits, and 0.125 needs the place 2^-3."


@_exercise("units-2")
def _(answer: Any) -> str:
    _need(isinstance(answer, (tuple, list)) and len(answer) == 3, "The answer is three lists, (a, b, c).")
    a, b, c = (np.asarray(x, np.float64) for x in answer)
    _need(c.shape == (1, 1) and abs(c[0, 0]) <= 1024, "C is one number of at most 1024 in magnitude, as [[c]].")
    _need(a.ndim == 2 and a.shape[0] == 1 and b.shape == (a.shape[1], 1) and a.shape[1] <= 4, "A is one row of up to four numbers, as [[…]], and B one column of as many.")
    for name, x in (("A", a), ("B", b)):
        _need(np.array_equal(halfulp.quantize(x, "fp16"), x), f"{name} has numbers that FP16 does not have.")
    got = [float(halfulp.mma(f"{name}.mma.fp16.fp32", a, b, c)[0, 0]) for name in ("ampere", "hopper")]
    _need(got[0] != got[1], f"Both give {got[0]}. What is the largest term, how far below it does each unit cut, and which bits lie between?")
    return f"Ampere gives {got[0]}, Hopper {got[1]}: they cut at different places below the largest term."


def mystery(a: Any, b: Any, c: Any) -> Any:
    """A B + C by one of three matrix units."""
    return halfulp.mma(("volta", "hopper", "ampere")[2] + ".mma.fp16.fp32", a, b, c)


@_exercise("units-3")
def _(answer: Any) -> str:
    _need(isinstance(answer, str), "The answer is a name.")
    given = [name for name in ("volta", "ampere", "hopper") if name in answer.lower()]
    _need(len(given) == 1, "The answer is the name of a unit of the first table.")
    differs = float(mystery(*_FIRST_EXAMPLE)[0, 0]) != float(halfulp.mma(given[0] + ".mma.fp16.fp32", *_FIRST_EXAMPLE)[0, 0])
    _need(not differs, "There are operands on which that unit answers otherwise; the first example is a good question.")
    return "It answers the first example as that unit alone does."


# --- stochastic rounding --------------------------------------------------------------------------

@_exercise("stochastic-1")
def _(answer: Any) -> str:
    p = _number(answer)
    _need(0 <= p <= 1, "A probability lies between 0 and 1.")
    up = next(mode for mode in halfulp.explain("0.1", "e4m3")["modes"] if mode["rounding"] == "stochastic" and mode["value"] > 0.1)
    numerator, denominator = (int(part) for part in up["probability"].split("/"))
    _need(abs(p - numerator / denominator) < 0.005, "How long is the way from the lower number to 0.1, as a part of the way to the upper one?")
    return "0.1 lies that part of the way up."


@_exercise("stochastic-2")
def _(answer: Any) -> str:
    r = _integer(answer, 1, 32)
    x = np.full(100_000, 1 + 0.01 * halfulp.Format("bf16").eps)
    up = [bool((halfulp.quantize(x, "bf16", rounding="stochastic", random_bits=bits) > 1).any()) for bits in (r, max(r - 1, 1))]
    _need(up[0], f"With {r} random bits it never arrived in 100,000 trials: what do {r} bits see of 0.01?")
    _need(not up[1], f"With {r} random bits it arrives sometimes, and with fewer, too.")
    return "The first bit of 0.01 that is not zero is that far behind the point: 0.01 lies between 2^-7 and 2^-6."


@_exercise("stochastic-3")
def _(answer: Any) -> str:
    x = _number(answer)
    _need(1 < x < 2, "The answer lies between 1 and 2.")
    _need(halfulp.quantize(x, "bf16") != x, "BF16 has this number.")
    drawn = halfulp.quantize(np.full(100_000, x), "bf16", rounding="stochastic", random_bits=4)
    _need((drawn < x).all(), f"It went up {int((drawn > x).sum()):,} times in 100,000. How small a part of an ulp do 4 bits not see?")
    return "It is less than 1/16 ulp above a BF16 number, and of that 4 bits see nothing."


# --- block formats --------------------------------------------------------------------------------

@_exercise("blocks-1")
def _(answer: Any) -> str:
    scale = _power_of_two(answer)
    _need(scale == halfulp.quantize_blocks([0.5, 7, 30, 12], "mxfp8e4m3").scale_values[0, 0], "Which binade is the largest element in, and by how many binades must it move to be in the last one of E4M3?")
    return "30 is in the binade of 2^4; divided by the scale it is in that of 2^8."


@_exercise("blocks-2")
def _(answer: Any) -> str:
    m = _power_of_two(answer)
    _need(m >= 1, "The answer is at least 1.")
    _need(halfulp.quantize([1.0, m], "mxfp4")[0] == 0, f"With an outlier of {m:g} a one becomes {halfulp.quantize([1.0, m], 'mxfp4')[0]:g}.")
    _need(halfulp.quantize([1.0, m / 2], "mxfp4")[0] != 0, "The ones are zero, but a smaller outlier does it too.")
    return "The scale is 4 then: 1/4 is half of 0.5, the smallest number of E2M1, and the tie goes to zero."


@_exercise("blocks-3")
def _(answer: Any) -> str:
    _need(isinstance(answer, str), "The answer is a text.")
    f = halfulp.BlockFormat(answer)
    _need(f.bits_per_element <= 4.5, f"{answer} takes {f.bits_per_element:.3f} bits an element.")
    x = np.random.default_rng(1).standard_normal((128, 1024)).astype(np.float32)
    error = np.linalg.norm(halfulp.quantize(x, f) - x) / np.linalg.norm(x)
    _need(error < 0.1, f"The relative error is {error:.1%}. What may be smaller than 32, and what may have fraction bits?")
    return f"{f.bits_per_element:g} bits an element, and an error of {error:.1%}."


# --- training -------------------------------------------------------------------------------------

def _trained(policy: str, *, steps: int) -> halfulp.Report:
    """A short training of the perceptron under a policy, named or in a file."""
    return halfulp.run("training", data=images(), policies=policy, seeds=1, train_examples=32 * steps, test_examples=50, batch=32, epochs=1, intervals=4, backend="emulated")


@_exercise("training-1")
def _(answer: Any) -> str:
    _need(answer in ("O2", "strict-fp16", "strict-bf16", "mixed_float16"), "The answer is one of the four names, as a text.")
    run = _trained(answer, steps=2).rows("runs")[0]
    _need(run["failed_at"] is not None, f"{answer} goes on. In which format does its optimizer divide, and is eps zero there?")
    return f"Its parameters are no numbers after step {run['failed_at']}: optimizer and eps are in FP16. The other FP16 policies have an optimizer in FP32."


@_exercise("training-2")
def _(answer: Any) -> str:
    _need(isinstance(answer, dict), "The answer is a dict.")
    _need(answer.get("base") == "pure-bf16", "Its base must be pure-bf16.")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "answer.json"
        file.write_text(json.dumps({"name": "answer"} | answer), encoding="utf-8")
        policy = halfulp.policies(str(file))
        _need(policy.get("weights", {}).get("storage") == "bf16", "The weights must be stored in bf16.")
        report = _trained(str(file), steps=20)
    swamped = report.rows("summary")[0]["swamped"]
    _need(swamped < 0.001, f"{swamped:.2%} of the updates are lost. Which member of a policy says how weights are kept?")
    return f"{swamped:.3%} of the updates are lost; with pure BF16 it is {_trained('pure-bf16', steps=20).rows('summary')[0]['swamped']:.1%} of them after these few steps."


@_exercise("training-3")
def _(answer: Any) -> str:
    beta = _number(answer)
    _need(0 < beta < 1, "beta2 lies between 0 and 1.")
    _need(halfulp.quantize(beta, "bf16") == beta, f"{beta} becomes {halfulp.quantize(beta, 'bf16')} in BF16.")
    above = halfulp.decode(int(halfulp.encode(beta, "bf16")) + 1, "bf16")
    _need(above == 1, f"BF16 has {beta}, and there is another one between it and 1.")
    return "Second moments then remember 256 steps, not 1,000."
