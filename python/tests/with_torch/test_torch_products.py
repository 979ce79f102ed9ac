"""halfulp.torch's products against gemm(), and their gradients against products done by hand."""
import numpy as np
import pytest

torch = pytest.importorskip("torch", minversion="2.4")
import halfulp  # noqa: E402
import halfulp.torch as ht  # noqa: E402

MODELS = ("fp32", "fp16", "bf16", "mul=fp16,acc=fp32,order=blocked:16", "in=e4m3,acc=fp16", "hopper.mma.fp16.fp32", "in=bf16,mul=bf16,acc=bf16,comp=kahan")


def values(*shape, seed=1):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def by_hand(a, b, model):
    """Stacks of matrices, one after the other, by NumPy's door."""
    stack = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    x, y = (t.detach().expand(*stack, *t.shape[-2:]).reshape(-1, *t.shape[-2:]) for t in (a, b))
    return torch.stack([torch.from_numpy(halfulp.gemm(p.numpy(), q.numpy(), model=model)) for p, q in zip(x, y)]).reshape(*stack, a.shape[-2], b.shape[-1])


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("shapes", [((5, 7), (7, 3)), ((2, 5, 7), (2, 7, 3)), ((2, 3, 5, 7), (7, 4)), ((4, 1, 5, 7), (3, 7, 2))])
def test_matmul_is_gemm(model, shapes):
    a, b = (values(*shape, seed=i) for i, shape in enumerate(shapes))
    assert torch.equal(ht.matmul(a, b, model=model), by_hand(a, b, model))


@pytest.mark.parametrize("model", MODELS[:3])
def test_vectors_layouts_and_types(model):
    a, b = values(5, 7), values(7, 3, seed=2)
    expected = ht.matmul(a, b, model=model)
    assert torch.equal(ht.matmul(a.mT.contiguous().mT, b.mT.contiguous().mT, model=model), expected)
    assert torch.equal(ht.matmul(a[0], b, model=model), expected[0])
    assert torch.equal(ht.matmul(a, b[:, 1], model=model), expected[:, 1])
    assert ht.matmul(a[0], b[:, 1], model=model) == expected[0, 1]
    assert torch.equal(ht.matmul(a.bfloat16(), b.double(), model=model), ht.matmul(a.bfloat16().float(), b, model=model))
    assert ht.matmul(a[:0], b, model=model).shape == (0, 3)
    out = torch.empty(5, 3)
    assert ht.matmul(a, b, model=model, out=out) is out and torch.equal(out, expected)


@pytest.mark.parametrize("turned", [False, True])
def test_each_product_has_its_model(turned):
    a = values(5, 7).requires_grad_()
    b = (values(3, 7, seed=2).mT if turned else values(7, 3, seed=2)).detach().requires_grad_()
    dy = values(5, 3, seed=3)
    y = ht.matmul(a, b, model="fp16", to_a="bf16", to_b="in=e4m3,acc=fp16")
    y.backward(dy)
    assert torch.equal(y, by_hand(a, b, "fp16"))
    assert torch.equal(a.grad, by_hand(dy, b.mT, "bf16"))
    assert torch.equal(b.grad, by_hand(dy.mT, a, "in=e4m3,acc=fp16").mT)
    with pytest.raises(RuntimeError, match="no second derivative"):
        g, = torch.autograd.grad(ht.matmul(a, b).sum(), a, create_graph=True)
        g.sum().backward()


def test_each_product_of_a_linear_layer_has_its_model():
    x, w, b, dy = values(5, 7).requires_grad_(), values(3, 7, seed=2).requires_grad_(), values(3, seed=4).requires_grad_(), values(5, 3, seed=3)
    ht.linear(x, w, b, model="fp16", to_input="bf16", to_weight="in=e4m3,acc=fp16").backward(dy)
    assert torch.equal(x.grad, by_hand(dy, w, "bf16"))
    assert torch.equal(w.grad, by_hand(dy.mT, x, "in=e4m3,acc=fp16"))
    torch.testing.assert_close(b.grad, dy.sum(0))


def test_formats_of_operands_are_rounded_along_the_k_of_each_product():
    x, w, dy = values(6, 64).requires_grad_(), values(32, 64, seed=2).requires_grad_(), values(6, 32, seed=3)
    y = ht.linear(x, w, model="acc=fp32", input_format="mxfp8e4m3", weight_format="mxfp8e4m3", gradient_format="mxfp8e5m2")
    y.backward(dy)
    q = lambda t, f, axis: ht.quantize(t.detach(), f, axis=axis)
    assert torch.equal(y, by_hand(q(x, "mxfp8e4m3", 1), q(w, "mxfp8e4m3", 1).mT, "fp32"))
    assert torch.equal(x.grad, by_hand(q(dy, "mxfp8e5m2", 1), q(w, "mxfp8e4m3", 0), "fp32"))
    assert torch.equal(w.grad, by_hand(q(x, "mxfp8e4m3", 0).mT, q(dy, "mxfp8e5m2", 0), "fp32").mT)


def test_linear_and_bmm_and_conv2d():
    x, w, b = values(2, 5, 7), values(3, 7, seed=2), values(3, seed=3)
    assert torch.equal(ht.linear(x, w, b, model="fp16"), by_hand(x, w.mT, "fp16") + b)
    assert torch.equal(ht.bmm(x, x.mT, model="fp16"), by_hand(x, x.mT, "fp16"))
    image, kernel = values(2, 3, 8, 9), values(4, 3, 3, 2, seed=2)
    for options in ({}, {"stride": 2, "padding": 1}, {"stride": (1, 2), "padding": (0, 2), "dilation": 2}):
        p, q = image.clone().requires_grad_(), image.clone().requires_grad_()
        y = ht.conv2d(p, kernel, torch.ones(4), **options)
        expected = torch.nn.functional.conv2d(q, kernel, torch.ones(4), **options)
        torch.testing.assert_close(y, expected)
        y.sum().backward(), expected.sum().backward()
        torch.testing.assert_close(p.grad, q.grad)


def test_attention_is_torchs_in_fp32():
    q, k, v = (values(2, 4, 6, 8, seed=i) for i in range(3))
    for options in ({}, {"is_causal": True}, {"mask": torch.ones(6, 6, dtype=torch.bool).tril()}, {"mask": values(6, 6), "scale": 0.3}):
        expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, **{("attn_mask" if name == "mask" else name): value for name, value in options.items()})
        torch.testing.assert_close(ht.attention(q, k, v, **options), expected)
    narrow = ht.attention(q, k, v, model="fp16", values={"model": "bf16"})
    p = (ht.matmul(q, k.mT, model="fp16") * 8**-0.5).softmax(-1)
    assert torch.equal(narrow, ht.matmul(p, v, model="bf16"))


def test_stochastic_operands_and_sums():
    x, w = values(16, 32).requires_grad_(), values(8, 32, seed=2)
    def run(**options):
        x.grad = None
        y = ht.linear(x, w, model="acc=fp32", input_format=("e4m3", "stochastic"), **options)
        y.sum().backward()
        return y.detach(), x.grad
    a, b = run(seed=1), run(seed=1)
    assert torch.equal(a[0], b[0]) and torch.equal(a[1], b[1])
    assert not torch.equal(run()[0], run()[0])
    sums = [ht.matmul(x.detach(), w.mT, model="acc=bf16,round=stochastic", seed=s) for s in (1, 1, 2)]
    assert torch.equal(sums[0], sums[1]) and not torch.equal(sums[0], sums[2])


@pytest.mark.parametrize("arguments, name", [({"model": "fp17"}, "fp17"), ({"model": 3}, "model"), ({"a_format": "e4m3", "model": "hopper.mma.fp16.fp32"}, "model"), ({"seed": "x", "a_format": ("e4m3", "stochastic"), "model": "acc=fp32"}, "seed"),
                                             ({"out": torch.empty(2)}, "out"), ({"model": "blackwell.tcgen05.mxe4m3.fp32"}, "takes scales"), ({"a_format": {"format": "e4m3", "width": 3}, "model": "acc=fp32"}, "width")])
def test_refused_arguments(arguments, name):
    with pytest.raises((TypeError, ValueError), match=name):
        ht.matmul(torch.ones(2, 3), torch.ones(3, 2), **arguments)


def test_refused_operands():
    for a, b in ((torch.ones(2, 3), torch.ones(2, 3)), (torch.ones(()), torch.ones(2))):
        with pytest.raises(ValueError, match="^a and b: "):
            ht.matmul(a, b)
    with pytest.raises(TypeError, match="^b: a tensor of torch.int64"):
        ht.matmul(torch.ones(2, 3), torch.ones(3, 2, dtype=torch.int64))
    with pytest.raises(ValueError, match="^bias: "):
        ht.linear(torch.ones(2, 3), torch.ones(4, 3), torch.ones(3))


# --- torch's own machinery --------------------------------------------------------------------------

@pytest.mark.parametrize("model", ["fp16", "acc=bf16,round=stochastic"])
def test_opcheck(model):
    from halfulp.torch._products import _plan
    a, b, bias = values(2, 3, 4).requires_grad_(), values(2, 4, 5, seed=2).requires_grad_(), values(5, seed=3).requires_grad_()
    torch.library.opcheck(torch.ops.halfulp.product.default, (a, b, bias, torch.tensor(1), _plan(model, None, None, None, None, None)[0], 0))


def test_compiles_into_one_graph():
    def f(x, w):
        return ht.linear(x, w, model="acc=fp32", input_format="e4m3", weight_format=("e4m3", "stochastic")).relu().sum()
    x, w = values(4, 8).requires_grad_(), values(3, 8, seed=2).requires_grad_()
    torch.compile(f, fullgraph=True, backend="aot_eager")(x, w).backward()
    assert x.grad is not None and w.grad.shape == w.shape


def test_a_trace_has_the_product():
    a, b = torch.eye(2), torch.ones(2, 2)
    traced = torch.jit.trace(lambda x, y: ht.matmul(x, y), (a, b))
    assert torch.equal(traced(a, 5 * b), 5 * b)


def test_drawn_bits_do_not_depend_on_strides():
    a, b, w = (torch.randn(*shape, generator=torch.Generator().manual_seed(i)) for i, shape in enumerate([(4, 5), (5, 3), (3, 5)]))
    of_b = dict(model="acc=fp32", a_format=("bf16", "stochastic"), b_format=("bf16", "stochastic"), seed=1)
    of_w = dict(model="acc=fp32", input_format=("bf16", "stochastic"), weight_format=("bf16", "stochastic"), seed=1)

    def other_strides(x):
        return x.t().contiguous().t()
    assert torch.equal(ht.matmul(a, b, **of_b), ht.matmul(other_strides(a), other_strides(b), **of_b))
    y = ht.linear(a, w, **of_w)
    for same_w in (other_strides(w), torch._neg_view(-w), w.clone().requires_grad_(), torch._neg_view(-w).requires_grad_()):
        assert torch.equal(y, ht.linear(a, same_w, **of_w))

    def gradients(x, v):
        x, v = x.detach().requires_grad_(), v.detach().requires_grad_()
        ht.linear(x, v, gradient_format=("bf16", "stochastic"), **of_w).backward(torch.arange(12.0).reshape(4, 3) / 7)
        return x.grad, v.grad
    for one, two in zip(gradients(a, w), gradients(other_strides(a), other_strides(w))):
        assert torch.equal(one, two)


@pytest.mark.parametrize("call, said", [
    (lambda: ht.matmul(torch.ones(2, 2), torch.ones(2, 2), stream=1.5), "stream: 1.5; accepted"), (lambda: ht.matmul(torch.ones(0, 2), torch.ones(2, 2), stream=2**61), "stream: "),
    (lambda: ht.bmm([1], [2]), "a: list"), (lambda: ht.conv2d(torch.ones(1, 1, 3, 3), torch.ones(1, 1, 2, 2), stride=0), "stride: 0; accepted: an integer from 1"),
    (lambda: ht.conv2d(torch.ones(1, 1, 3, 3), torch.ones(1, 1, 2, 2), padding="same"), "padding: 'same'; accepted"),
    (lambda: ht.conv2d(torch.ones(1, 1, 3, 3), torch.ones(1, 1, 2, 2), dilation=(1,)), r"dilation: \(1,\); accepted")])
def test_arguments_are_named(call, said):
    with pytest.raises((TypeError, ValueError), match=said):
        call()
