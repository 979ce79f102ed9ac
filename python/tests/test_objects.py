"""Formats, roundings and product models as values: they survive text, copying and pickling."""
import copy
import pickle

import numpy as np
import pytest

import halfulp
from halfulp import Format, ProductModel, Rounding

FIELDS = {"mode": "stochastic", "overflow": "saturate", "flush_inputs": True, "flush_outputs": True, "tininess": "before", "nan": "cuda", "int_overflow": "x86", "exact": True,
          "stochastic_variant": "nearest-up", "random_bits": 7}
OWN = ProductModel.of_unit('{"based_on": "hopper.mma.fp16.fp32", "alignment_bits": 5}')


@pytest.mark.parametrize("value", [Rounding(), Rounding(**FIELDS), ProductModel("fp16"), ProductModel("mul=fp16,acc=fp32,order=blocked:128"), ProductModel("hopper.mma.fp16.fp32"),
                                   ProductModel("blackwell.tcgen05.nvfp4.fp32"), OWN, ProductModel.of_unit('{"based_on": "hopper.mma.fp16.fp32", "name": "mine+1", "k": 8}')], ids=repr)
def test_copies(value):
    for other in (pickle.loads(pickle.dumps(value)), copy.copy(value), copy.deepcopy(value), eval(repr(value), {"ProductModel": ProductModel, "Rounding": Rounding})):
        assert other == value and hash(other) == hash(value) and repr(other) == repr(value)


def test_a_unit_of_ones_own_is_written_in_full():
    assert OWN != ProductModel("hopper.mma.fp16.fp32") and repr(OWN).startswith("ProductModel.of_unit(")
    assert repr(ProductModel("hopper.mma.fp16.fp32")) == "ProductModel('hopper.mma.fp16.fp32')"
    same_unit = halfulp.units("hopper.mma.fp16.fp32")
    assert halfulp.products.as_model(same_unit) == ProductModel("hopper.mma.fp16.fp32")
    disguised = ProductModel.of_unit('{"based_on": "hopper.mma.fp16.fp32", "name": "hopper.mma.fp16.fp32", "alignment_bits": 5}')
    assert eval(repr(disguised)) == disguised != ProductModel("hopper.mma.fp16.fp32")


def test_fields_of_roundings():
    r = Rounding(**FIELDS)
    assert {name: getattr(r, name) for name in FIELDS} == FIELDS
    assert Rounding(**{name: getattr(Rounding(), name) for name in FIELDS}) == Rounding()


@pytest.mark.parametrize("call, error, message", [
    (lambda: Format(1), TypeError, "^name: .*int.*; accepted: text"), (lambda: halfulp.BlockFormat(None), TypeError, "^name: "), (lambda: ProductModel(3), TypeError, "^text: "),
    (lambda: Format("\ud800"), ValueError, "^name: .*surrogate"), (lambda: halfulp.BlockFormat("\udfff"), ValueError, "surrogate"), (lambda: halfulp.quantize([1], "e\ud800"), ValueError, "surrogate"),
    (lambda: Format("e4m3").value(-1), ValueError, "^code: -1 is no code word"), (lambda: Format("e4m3").value(2**70), ValueError, "^code: "), (lambda: Format("e4m3").value("1"), TypeError, "^code: "),
    (lambda: Format("e4m3").text(1.0), TypeError, "^code: "), (lambda: Format("e4m3").holds("e2m1"), TypeError, "^other: "), (lambda: halfulp.set_threads("a"), TypeError, "^count: "),
    (lambda: halfulp.set_threads(2**40), TypeError, "^count: "), (lambda: halfulp.set_threads(0), ValueError, "^count "), (lambda: halfulp.quantize([1], "e4m3", overflow=""), ValueError, "overflow"),
    (lambda: halfulp.decode(np.uint8([16]), "e2m1"), ValueError, "^codes: "), (lambda: halfulp.add([1], [1], "fp16", rouding="x"), TypeError, r"^add\(\) got .*'rouding'"),
    (lambda: halfulp.round_to_integral([1], "fp16", x=1), TypeError, r"^round_to_integral\(\) got"), (lambda: halfulp.convert([1], "fp16", "fp32", x=1), TypeError, r"^convert\(\) got")])
def test_wrong_arguments_are_named(call, error, message):
    with pytest.raises(error, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_arguments_that_numpy_takes():
    assert Format("e4m3").value(np.uint8(56)) == 1 and Format("e4m3").text(np.int64(56)) == "1"
    assert halfulp.decode([], "e4m3").shape == (0,) and halfulp.add([], [], "fp16", codes=True).dtype == np.uint16
    assert halfulp.convert([], "e4m3", "fp16", codes=True).dtype == np.uint8
    values, tally = halfulp.quantize(np.float32([0.1, 300]), "e4m3", tally="yes")
    assert tally["elements"] == 2 and halfulp.quantize(np.float32([1]), "e4m3", tally=0)[0] == 1


class Lying:
    """An object that promises an array and breaks the promise, differently each time."""
    def __init__(self, why):
        self.why = why

    def __array__(self, *_, **__):
        raise self.why


@pytest.mark.parametrize("why", [ZeroDivisionError("no"), KeyError("x"), ValueError("broken"), AttributeError("gone"), RuntimeError()], ids=repr)
def test_objects_that_lie(why):
    class Dlpack:
        def __dlpack_device__(self):
            raise why

        def __dlpack__(self, **_):
            raise why

    for x in (Lying(why), Dlpack()):
        with pytest.raises(TypeError, match="^x: .+; accepted: "):
            halfulp.quantize(x, "e4m3")
    with pytest.raises(MemoryError):
        halfulp.quantize(Lying(MemoryError()), "e4m3")
    with pytest.raises(TypeError, match="^x: the class"):
        halfulp.quantize(Lying, "e4m3")


def test_broadcast_code_words_are_not_walked_through():
    """A virtual array of 2^48 code words is refused at once, for its type or its size."""
    huge = np.broadcast_to(np.int64(1), (1 << 24, 1 << 24))
    for call in (lambda: halfulp.decode(huge, "e4m3"), lambda: halfulp.add(huge, huge, "fp16", codes=True), lambda: halfulp.gemm(huge, huge, codes=True)):
        with pytest.raises(MemoryError):
            call()
    with pytest.raises(ValueError, match="^codes: -1"):
        halfulp.decode(np.broadcast_to(np.int64(-1), (1 << 24, 1 << 24)), "e4m3")
    assert halfulp.decode(np.broadcast_to(np.int64([[56], [0]]), (2, 3)), "e4m3").tolist() == [[1, 1, 1], [0, 0, 0]]


UNIT = "blackwell.tcgen05.nvfp4.fp32"


def test_scales_have_the_shape_of_blocks():
    block = ProductModel(UNIT).scale_block
    a, b = np.ones((4, 2 * block)), np.ones((2 * block, 3))
    good_a, good_b = np.ones((4, 2)), np.ones((2, 3))
    assert halfulp.mma(UNIT, a, b, scale_a=good_a, scale_b=good_b).tolist() == [[2.0 * block] * 3] * 4
    for scales, named in (((good_a.T, good_b), "scale_a"), ((good_a, good_b.T), "scale_b"), ((good_a[:, :1], good_b), "scale_a"), ((good_a, np.ones((1, 3))), "scale_b"), ((None, good_b), "scale_a"),
                          ((good_a, None), "scale_b"), ((good_a, np.ones(6)), "scale_b")):
        with pytest.raises(ValueError, match=f"^{named}: "):
            halfulp.mma(UNIT, a, b, scale_a=scales[0], scale_b=scales[1])
    assert halfulp.mma(UNIT, a[:, :block + 1], b[:block + 1], scale_a=good_a, scale_b=good_b).shape == (4, 3)  # the last block is shorter
