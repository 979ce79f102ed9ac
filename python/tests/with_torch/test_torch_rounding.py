"""halfulp.torch's quantize, encode, decode and cast against those of NumPy's door."""
import numpy as np
import pytest

torch = pytest.importorskip("torch", minversion="2.4")
import halfulp  # noqa: E402
import halfulp.torch as ht  # noqa: E402

FORMATS = ("fp16", "bf16", "e4m3", "e5m2", "e2m1", "e4m3fnuz", "tf32", "e8m0")
BLOCKS = ("mxfp8e4m3", "nvfp4", "fp8-1x128", "int8")


def values(*shape):
    x = torch.randn(*shape, generator=torch.Generator().manual_seed(1)) * 10
    x.view(-1)[:6] = torch.tensor([0.0, -0.0, float("inf"), -float("inf"), float("nan"), 1e-42])[: x.numel()]
    return x


def same(a, b):
    """Bit for bit, NaN with NaN."""
    a, b = np.asarray(a), np.asarray(b)
    assert a.shape == b.shape and a.dtype == b.dtype, (a.shape, b.shape, a.dtype, b.dtype)
    np.testing.assert_array_equal(a, b)
    assert np.array_equal(np.signbit(a)[~np.isnan(a)], np.signbit(b)[~np.isnan(b)])


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_values_are_numpys(format, dtype):
    x = values(7, 33).to(dtype)
    wide = x.to(torch.float64 if dtype is torch.float64 else torch.float32)
    expected = halfulp.quantize(wide.numpy(), format)
    result = ht.quantize(x, format)
    holds = dtype in (torch.float32, torch.float64) or (dtype is torch.float16) == (format not in ("bf16", "tf32", "e8m0")) and not (dtype is torch.bfloat16 and format in ("fp16", "tf32"))
    if format in ("e4m3", "e5m2", "e2m1", "e4m3fnuz"):
        holds = True
    assert result.dtype is (dtype if holds or format == "bf16" and dtype is torch.bfloat16 else torch.float32)
    same(result.to(wide.dtype), expected)


@pytest.mark.parametrize("format", FORMATS)
def test_float8_comes_and_goes_without_ml_dtypes(format):
    x = values(50).clamp(-100, 100).nan_to_num(0).to(torch.float8_e4m3fn)
    same(ht.quantize(x, format).float(), ht.quantize(x.float(), format))


@pytest.mark.parametrize("layout", [lambda x: x.mT, lambda x: x[::2], lambda x: x[:, ::3], lambda x: x.unsqueeze(0).expand(3, 8, 12), lambda x: x.flip(0), lambda x: x[0, 0], lambda x: x[:0]])
def test_layouts(layout):
    x = layout(values(8, 12))
    same(ht.quantize(x, "e4m3"), halfulp.quantize(np.ascontiguousarray(x.numpy()), "e4m3") if x.dim() else np.asarray(halfulp.quantize(x.numpy(), "e4m3")))


@pytest.mark.parametrize("format", BLOCKS)
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_blocks(format, axis):
    x = values(6, 40).nan_to_num(1, 5, -5)
    if axis == 0 and halfulp.BlockFormat(format).rows != 1:
        pytest.skip("its blocks do not run along an axis")
    try:
        expected = halfulp.quantize(x.numpy(), format, axis=axis)
    except ValueError as why:
        with pytest.raises(ValueError, match="axis"):
            ht.quantize(x, format, axis=axis)
        assert "axis" in str(why)
        return
    same(ht.quantize(x, format, axis=axis), expected)
    same(ht.quantize(x.double(), format, axis=axis), halfulp.quantize(x.double().numpy(), format, axis=axis))


@pytest.mark.parametrize("format", FORMATS)
def test_code_words(format):
    x = values(40)
    codes = ht.encode(x, format)
    np.testing.assert_array_equal(codes.numpy(), halfulp.encode(x.numpy(), format))
    same(ht.decode(codes, format), halfulp.decode(codes.numpy(), format))
    same(ht.decode(codes.to(torch.int64), format), ht.decode(codes, format))
    out = torch.empty_like(codes)
    assert ht.encode(x, format, out=out) is out and torch.equal(out, codes)
    with pytest.raises(TypeError, match="^out: "):
        ht.encode(x, format, out=torch.empty(3, dtype=torch.int64))
    with pytest.raises(ValueError, match="^codes: "):
        ht.decode(torch.tensor([1 << 40]), format)


def test_out_is_written_and_torch_learns_of_it():
    x = values(20)
    expected = ht.quantize(x, "e4m3")
    out = torch.empty(20, dtype=torch.bfloat16)
    assert ht.quantize(x, "e4m3", out=out) is out
    same(out.float(), expected)
    w = torch.ones(3, requires_grad=True)
    y = w * 2
    z = y * y
    ht.quantize(y.detach(), "e4m3", out=y.detach())
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()
    with pytest.raises(ValueError, match="^out: a tensor that requires"):
        ht.quantize(x, "e4m3", out=torch.zeros(20, requires_grad=True))
    with pytest.raises(ValueError, match="^x: a tensor that requires"):
        ht.quantize(x.clone().requires_grad_(), "e4m3", out=out)
    with pytest.raises(TypeError, match="^out: torch.float8_e4m3fn does not hold"):
        ht.quantize(x, "fp16", out=torch.empty(20, dtype=torch.float8_e4m3fn))


def test_gradients_follow_the_stated_rule():
    dy = torch.tensor([1.05, -3.3, 1000.0])
    for rule, expected in (("ste", dy), ("e4m3", ht.quantize(dy, "e4m3")), (None, None)):
        x = torch.tensor([0.1, 500.0, -2.2], requires_grad=True)
        y = ht.quantize(x, "e4m3", overflow="saturate", backward=rule)
        if expected is None:
            assert not y.requires_grad
            continue
        y.backward(dy)
        assert torch.equal(x.grad.nan_to_num(7), expected.nan_to_num(7))
    x = torch.zeros(4096, requires_grad=True)
    ht.quantize(x, "e4m3", backward=("e5m2", "stochastic")).backward(torch.full((4096,), 1.1))
    assert set(x.grad.tolist()) == {1.0, 1.25} and abs(float(x.grad.mean()) - 1.1) < 0.02
    x = torch.ones(3, dtype=torch.bfloat16, requires_grad=True)
    ht.quantize(x, "fp16").backward(torch.full((3,), 1.001))
    assert x.grad.dtype is torch.bfloat16


def test_numpys_door_loses_no_gradient_silently():
    x = torch.ones(3, requires_grad=True)
    for call in (lambda: halfulp.quantize(x, "e4m3"), lambda: halfulp.encode(x, "e4m3"), lambda: halfulp.add(x, x, "e4m3"), lambda: halfulp.gemm(x[None], x[:, None])):
        with pytest.raises(ValueError, match="requires a gradient"):
            call()
    with torch.no_grad():
        assert isinstance(halfulp.quantize(x, "e4m3"), torch.Tensor)


def test_numpys_door_gives_tensors_back():
    x = values(5)
    assert torch.equal(halfulp.quantize(x, "e5m2").nan_to_num(3), ht.quantize(x, "e5m2").nan_to_num(3))
    assert halfulp.encode(x, "fp16").dtype is torch.uint16
    results, flags = halfulp.add(x, x, "fp16", flags=True)
    assert isinstance(results, torch.Tensor) and isinstance(flags, torch.Tensor)
    assert isinstance(halfulp.gemm(x[None], np.ones((5, 2), np.float32)), torch.Tensor)
    assert isinstance(halfulp.quantize(x.numpy(), "e5m2"), np.ndarray)


# --- stochastic rounding ---------------------------------------------------------------------------

def test_two_calls_draw_different_bits():
    x = torch.full((4096,), 1.03125)
    for quantize in (ht.quantize, halfulp.quantize):
        a, b = quantize(x, "e4m3", rounding="stochastic"), quantize(x, "e4m3", rounding="stochastic")
        assert not torch.equal(a, b)
        assert abs(float(a.mean()) - 1.03125) < 0.005
        assert torch.equal(quantize(x, "e4m3", rounding="stochastic", seed=3), quantize(x, "e4m3", rounding="stochastic", seed=3))


def test_generators_make_runs_repeat():
    x = torch.full((512,), 1.03125)
    def run(generator):
        return torch.stack([ht.quantize(x, "e4m3", rounding="stochastic", generator=generator) for _ in range(3)])
    a, b = (run(torch.Generator().manual_seed(5)) for _ in range(2))
    assert torch.equal(a, b) and not torch.equal(a[0], a[1])
    torch.manual_seed(1)
    c = run(None)
    torch.manual_seed(1)
    assert torch.equal(c, run(None))
    halfulp.set_seed(4)
    d = halfulp.quantize(x.numpy(), "e4m3", rounding="stochastic")
    halfulp.set_seed(4)
    assert np.array_equal(d, halfulp.quantize(x.numpy(), "e4m3", rounding="stochastic"))
    with pytest.raises(TypeError, match="seed and generator"):
        ht.quantize(x, "e4m3", rounding="stochastic", seed=1, generator=torch.Generator())


def test_a_thousand_small_updates_arrive_on_average():
    """1 + 1000 * 10^-3 in bf16, whose spacing there is 2^-7: nearest stays at 1, a fixed seed would drift."""
    w, stuck = torch.ones(2000), torch.ones(1)
    generator = torch.Generator().manual_seed(0)
    for _ in range(1000):
        w = ht.quantize(w + 1e-3, "bf16", rounding="stochastic", generator=generator)
        stuck = ht.quantize(stuck + 1e-3, "bf16")
    assert float(stuck) == 1
    spread = float(w.std()) / 2000**0.5
    assert abs(float(w.double().mean()) - 2) < 5 * spread < 0.02


@pytest.mark.parametrize("format", ["e4m3", "mxfp8e4m3"])
def test_roundings_share_words(format):
    x = torch.full((64, 64), 1.03)
    options = {"rounding": "stochastic", "random_bits": 16, "seed": 7, "roundings_per_word": 2}
    y = ht.quantize(x, format, **options)
    assert np.array_equal(y.numpy(), halfulp.quantize(x.numpy(), format, **options))
    assert not torch.equal(y, ht.quantize(x, format, **{**options, "roundings_per_word": 1}))
    with_gradient = ht.quantize(x.clone().requires_grad_(), format, **options)  # the operator's way
    with_gradient.sum().backward()
    assert torch.equal(with_gradient.detach(), y)
    if format == "e4m3":
        assert np.array_equal(ht.encode(x, format, **options).numpy(), halfulp.encode(x.numpy(), format, **options))
    for call in (
        lambda x: ht.quantize(x, format, rounding="stochastic", roundings_per_word=2),
        lambda x: ht.quantize(x, format, roundings_per_word=3),
    ):
        for tensor in (x, x.clone().requires_grad_()):
            with pytest.raises(ValueError, match="^roundings_per_word: "):
                call(tensor)


# --- torch's own machinery --------------------------------------------------------------------------

@pytest.mark.parametrize("options", [{}, {"rounding": "stochastic", "seed": 3}, {"backward": "e5m2"}])
@pytest.mark.parametrize("format", ["e4m3", "mxfp8e4m3"])
def test_opcheck(format, options):
    x = values(4, 32).nan_to_num(1, 2, 3).requires_grad_()
    seed = torch.tensor(3) if "seed" in options else None
    from halfulp.torch._rounding import quantization
    r = quantization(format, options.get("rounding", "nearest-even"), None, None, None, "ste")[1]
    torch.library.opcheck(torch.ops.halfulp.quantize.default, (x, seed, format, r, 0, 0, None, options.get("backward", "ste")))


@pytest.mark.parametrize("format", ["e4m3", "nvfp4"])
def test_compiles_into_one_graph(format):
    def f(x):
        return (ht.quantize(x * 2, format, rounding="stochastic") + ht.quantize(x, format)).sum()
    compiled = torch.compile(f, fullgraph=True, backend="aot_eager")
    x = values(4, 32).nan_to_num(1, 2, 3).requires_grad_()
    compiled(x).backward()
    assert torch.equal(x.grad, torch.full_like(x, 3))


def test_vmap_and_meta():
    with pytest.raises(ValueError, match="^x: a tensor on meta"):
        ht.quantize(torch.ones(3, device="meta"), "e4m3")
    assert torch.ops.halfulp.quantize(torch.ones(3, device="meta"), None, "e4m3", "[]", 0, 0, None, "ste").shape == (3,)


# --- bad input ---------------------------------------------------------------------------------------

@pytest.mark.parametrize("x, why", [(torch.ones(3, dtype=torch.complex64), "complex64"), (torch.ones(3, dtype=torch.int32), "int32"), (torch.ones(3, 3).to_sparse(), "sparse"),
                                    (torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8), "quantized"), ([1.0], "list"), (np.ones(3), "ndarray")])
def test_refused_tensors(x, why):
    with pytest.raises(TypeError, match=f"^x: .*{why}"):
        ht.quantize(x, "e4m3")


@pytest.mark.parametrize("arguments", [{"format": "e4m4x"}, {"rounding": "nearest"}, {"backward": "nothing"}, {"axis": 0}, {"overflow": "wrap"}, {"random_bits": 40}, {"seed": -1, "rounding": "stochastic"},
                                       {"generator": 3, "rounding": "stochastic"}])
def test_refusedquantization(arguments):
    with pytest.raises((TypeError, ValueError)) as caught:
        ht.quantize(torch.ones(3), **{"format": "e4m3", **arguments})
    assert next(iter(arguments)) in str(caught.value) or str(next(iter(arguments.values()))) in str(caught.value)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("profile", ["ml_dtypes", "torch", "cuda-satfinite"])
@pytest.mark.parametrize("to", ["e4m3", "e5m2"])
def test_casts_are_numpys(profile, to, dtype):
    x = values(9, 21).to(dtype)
    words = x.view(torch.int32 if dtype is torch.float32 else torch.int16).numpy()
    try:
        expected = halfulp.cast(words.view(np.uint32 if dtype is torch.float32 else np.uint16), profile, to, ht._rounding.as_format(dtype))
    except ValueError as why:
        with pytest.raises(ValueError, match=str(why).split(";")[0][:40]):
            ht.cast(x, profile, to)
        return
    result = ht.cast(x.T, profile, to)  # with strides
    assert result.dtype is dtype and result.shape == (21, 9)
    same(result.to(torch.float32).T, expected)


def test_profiles_differ_and_gradients_follow_the_rule():
    x = torch.tensor([449.0, 465.0, 1.05], requires_grad=True)
    y = ht.cast(x, "cuda-satfinite", "e4m3")
    assert y.tolist() == [448, 448, 1] and ht.cast(x.detach(), "ml_dtypes", "e4m3")[1].isnan()
    y.backward(torch.full((3,), 1.1))
    assert x.grad.tolist() == pytest.approx([1.1] * 3)
    x.grad = None
    ht.cast(x, "ml_dtypes", "e4m3", backward="e5m2").backward(torch.full((3,), 1.1))
    assert x.grad.tolist() == [1, 1, 1]
    assert not ht.cast(x, "ml_dtypes", "e4m3", backward=None).requires_grad


def test_cast_is_an_operator_of_torch():
    x = values(3, 5).nan_to_num(1).requires_grad_()
    torch.library.opcheck(torch.ops.halfulp.cast.default, (x, "ml_dtypes", "e5m2", "ste"))
    compiled = torch.compile(lambda t: ht.cast(t, "ml_dtypes", "e5m2") * 2, fullgraph=True, backend="aot_eager")
    same(compiled(x).detach(), ht.cast(x.detach(), "ml_dtypes", "e5m2") * 2)


@pytest.mark.parametrize("call, said", [
    (lambda: ht.cast(torch.ones(2), "nobody", "e4m3"), "nobody"), (lambda: ht.cast(torch.ones(2), 3, "e4m3"), "profile: 3"),
    (lambda: ht.cast([1.0], "ml_dtypes", "e4m3"), "x: list"), (lambda: ht.cast(torch.ones(2), "ml_dtypes", "mxfp4"), "mxfp4' is a block format"),
    (lambda: ht.cast(torch.ones(2), "ml_dtypes", "e4m3", backward="nothing"), "backward: 'nothing'")])
def test_casts_refuse(call, said):
    with pytest.raises((TypeError, ValueError), match=said):
        call()


def test_code_words_are_operators_of_torch():
    x = values(3, 5).nan_to_num(1, 2, 3)
    codes = ht.encode(x, "e4m3")
    rounding = ht._rounding._encoding("e4m3", "stochastic", None, None)[1]
    torch.library.opcheck(torch.ops.halfulp.encode.default, (x, torch.tensor(3), "e4m3", rounding, 0, 0))
    torch.library.opcheck(torch.ops.halfulp.decode.default, (codes, "e4m3"))
    there_and_back = torch.compile(lambda t: ht.decode(ht.encode(t, "e4m3"), "e4m3"), fullgraph=True, backend="aot_eager")
    same(there_and_back(x), ht.decode(codes, "e4m3"))
    assert torch.equal(torch.jit.trace(lambda t: ht.encode(t, "e5m2"), (x,))(2 * x), ht.encode(2 * x, "e5m2"))


def test_no_memory_of_tensors_that_have_none():
    with torch._subclasses.FakeTensorMode() as mode:
        fake, codes = mode.from_tensor(torch.ones(4)), mode.from_tensor(torch.ones(4, dtype=torch.uint8))
        assert ht.encode(fake, "e4m3").dtype is torch.uint8 and ht.decode(codes, "e4m3").dtype is torch.float32
    for call in (lambda: ht.encode(fake, "e4m3", out=torch.zeros(4, dtype=torch.uint8)), lambda: ht.encode(torch.ones(4), "e4m3", out=codes),
                 lambda: ht.decode(codes, "e4m3", out=torch.ones(4)), lambda: ht.decode(torch.ones(4, dtype=torch.uint8), "e4m3", out=fake)):
        with pytest.raises(TypeError, match="out: while torch only asks for shapes"):
            call()


@pytest.mark.parametrize("backward", ["e5m2", ("e5m2", "toward-zero"), torch.bfloat16, None])
def test_casts_compile_under_every_rule(backward):
    x = torch.tensor([1.05, 449.0], requires_grad=True)
    f = torch.compile(lambda t: ht.cast(t, "ml_dtypes", "e4m3", backward=backward) * t, fullgraph=True, backend="aot_eager")
    same(f(x).detach(), (ht.cast(x.detach(), "ml_dtypes", "e4m3") * x).detach())


def test_casts_own_their_memory():
    y = torch.nn.functional.relu(ht.cast(torch.tensor([-1.0, 1.05], requires_grad=True), "ml_dtypes", "e4m3"), inplace=True)
    assert y.tolist() == [0, 1] and ht.cast(torch._efficientzerotensor(2), "ml_dtypes", "e4m3").tolist() == [0, 0]


@pytest.mark.parametrize("call", [lambda t: ht.quantize(t, "e4m3"), lambda t: ht.cast(t, "ml_dtypes", "e4m3"), lambda t: ht.matmul(t, t), lambda t: ht.encode(t, "e4m3")])
def test_forward_mode_derivatives_are_not_lost_silently(call):
    x = torch.ones(2, 2)
    with pytest.raises(RuntimeError, match="a tensor with a forward-mode derivative"):
        torch.func.jvp(call, (x,), (x,))
    with torch.autograd.forward_ad.dual_level(), pytest.raises(RuntimeError, match="a tensor with a forward-mode derivative"):
        call(torch.autograd.forward_ad.make_dual(x, x))


@pytest.mark.parametrize("argument, value", [("stream", 1.5), ("stream", -1), ("stream", "x"), ("first", 2**63), ("first", True)])
def test_numbers_of_streams_are_checked(argument, value):
    for call in (ht.quantize, ht.encode):
        with pytest.raises((TypeError, ValueError), match=f"{argument}: {value!r}; accepted: an integer from 0"):
            call(torch.ones(2), "e4m3", **{argument: value})
