"""Tensors on a GPU: the way to its kernels, rehearsed in the CPU's memory, and what is refused. Where torch has a GPU and
halfulp was built for it, the last tests ask it."""
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch", minversion="2.4")
import halfulp.torch as ht  # noqa: E402
from halfulp import _core  # noqa: E402
from halfulp.torch import _device  # noqa: E402

X = torch.cat([torch.randn(1001, generator=torch.Generator().manual_seed(1)) * 2.0**k for k in range(-24, 20, 4)]
              + [torch.tensor([0.0, -0.0, float("inf"), -float("inf"), float("nan"), 3.4e38, 1e-45])])
FORMATS = ("fp16", "bf16", "tf32", "e4m3", "e5m2", "e3m4", "e2m1", "e4m3fnuz", "e5m10")
MODES = ("nearest-even", "nearest-away", "nearest-to-zero", "toward-zero", "toward-positive", "toward-negative", "to-odd", "stochastic")


@pytest.fixture
def queues(monkeypatch):
    """Every tensor counts as one on a GPU whose kernels are rehearsed; what was put into its queue."""
    made = []

    def queue_of(x):
        made.append(x)
        return _core.Queue(0, 0, rehearsed=True)
    monkeypatch.setattr(_device, "queue_of", queue_of)
    return made


def same(a, b):
    return a.dtype is b.dtype and a.shape == b.shape and torch.equal(a.isnan(), b.isnan()) and torch.equal(a.nan_to_num(9).signbit(), b.nan_to_num(9).signbit()) and torch.equal(a.nan_to_num(9), b.nan_to_num(9))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("format", FORMATS)
def test_the_bits_are_those_of_the_cpu(format, mode, monkeypatch, request):
    options = {"rounding": mode, **({"seed": 7, "stream": 3, "first": 5} if mode == "stochastic" else {})}
    codes = format != "tf32"
    expected = [ht.quantize(X, format, **options), ht.quantize(X[1:], format, overflow="saturate", **options),
                ht.quantize(X.to(torch.bfloat16), format, **options), ht.encode(X, format, **options) if codes else None]
    back = ht.decode(expected[3], format) if codes else None
    asked = request.getfixturevalue("queues")
    given = [ht.quantize(X, format, **options), ht.quantize(X[1:], format, overflow="saturate", **options),
             ht.quantize(X.to(torch.bfloat16), format, **options)]
    for a, b in zip(given, expected):
        assert same(a, b)
    if codes:
        assert torch.equal(ht.encode(X, format, **options), expected[3])
        assert same(ht.decode(expected[3], format), back)
        assert same(ht.decode(expected[3][1:], format), back[1:])  # not aligned
        out = torch.zeros(X.numel() + 1, dtype=expected[3].dtype)[1:]
        assert ht.encode(X, format, out=out, **options) is out and torch.equal(out, expected[3])
    assert len(asked) >= 3


def test_gradients_and_compiled_calls_go_the_same_way(queues):
    x = X[:64].clone().requires_grad_()
    y = ht.quantize(x, "e4m3", backward="e5m2")
    y.backward(torch.full((64,), 1.1))
    assert torch.equal(x.grad, torch.full((64,), 1.0)) and len(queues) == 2
    assert ht.quantize(torch.ones(0), "fp16").shape == (0,)


@pytest.mark.parametrize("call, said", [
    (lambda: ht.quantize(X[:64], "mxfp8e4m3"), "mxfp8e4m3 is a block format"),
    (lambda: ht.quantize(X.double(), "fp16"), "x: torch.float64"),
    (lambda: ht.quantize(X, "e8m0"), "e8m0 under this rounding has no kernel"),
    (lambda: ht.encode(X, "tf32"), "accepted on a GPU: at most 16"),
    (lambda: ht.decode(torch.tensor([16], dtype=torch.uint8), "e2m1"), "codes: 16 is no code word of e2m1"),
])
def test_what_kernels_do_not_do_is_refused(call, said, queues):
    with pytest.raises(ValueError, match=said):
        call()


def test_a_gpu_without_kernels_is_refused(monkeypatch):
    there = SimpleNamespace(device=torch.device("cuda:1"))
    monkeypatch.setattr(_device, "missing", lambda: "built without CUDA")
    with pytest.raises(ValueError, match=r"x: a tensor on cuda:1, and halfulp has no kernels for it \(built without CUDA\); accepted: .*x.cpu\(\)"):
        ht._tensors.check_device(there, "x", ht._tensors.ACCEPTED, on_gpu=True)
    monkeypatch.setattr(_device, "missing", lambda: "")
    ht._tensors.check_device(there, "x", ht._tensors.ACCEPTED, on_gpu=True)
    with pytest.raises(ValueError, match="a: a tensor on cuda:1; accepted"):  # products
        ht._tensors.check_device(there, "a", ht._tensors.ACCEPTED, on_gpu=False)
    assert isinstance(_core.missing_gpu(), str)


def test_shapes_are_known_without_a_gpu():
    with torch._subclasses.FakeTensorMode():
        x = torch.empty(3, 4, dtype=torch.bfloat16, device="cuda:0")
        y = torch.ops.halfulp.quantize(x, None, "e4m3", "[]", 0, 0, None, "ste")
    assert (y.device, y.dtype, y.shape) == (x.device, torch.bfloat16, (3, 4))


needs_gpu = pytest.mark.skipif(not torch.cuda.is_available() or bool(_device.missing()), reason=f"no GPU: {_device.missing() or 'torch has none'}")


@needs_gpu
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("format", FORMATS)
def test_a_gpu_gives_the_bits_of_the_cpu(format, mode):
    options = {"rounding": mode, **({"seed": 7, "stream": 3, "first": 5} if mode == "stochastic" else {})}
    for x in (X, X[1:], X.to(torch.bfloat16), X.reshape(-1, 1)[:1000].expand(1000, 3)):
        there = ht.quantize(x.cuda(), format, **options)
        assert there.is_cuda and same(there.cpu(), ht.quantize(x, format, **options))
    if format != "tf32":
        codes = ht.encode(X, format, **options)
        assert torch.equal(ht.encode(X.cuda(), format, **options).cpu(), codes)
        assert same(ht.decode(codes.cuda()[1:], format).cpu(), ht.decode(codes[1:], format))


@needs_gpu
def test_kernels_keep_the_order_of_torchs_streams():
    x, side = torch.randn(1 << 22, device="cuda"), torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y = x
        for _ in range(20):
            y = ht.quantize(y * 1.01, "bf16")
    torch.cuda.current_stream().wait_stream(side)
    expected = x.cpu()
    for _ in range(20):
        expected = ht.quantize(expected * 1.01, "bf16")
    assert torch.equal(y.cpu(), expected)
