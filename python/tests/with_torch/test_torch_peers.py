"""halfulp.torch beside QPyTorch and torchao, where they are installed: equal, or different for a reason with a witness."""
import pytest

torch = pytest.importorskip("torch", minversion="2.4")
import halfulp.torch as ht  # noqa: E402


def values():
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(64, 256, generator=generator) * torch.logspace(-9, 6, 256)
    ties = torch.arange(-300, 300).mul(0.0625)
    return torch.cat([x.reshape(-1), ties])


# QPyTorch's "nearest" is nearest with ties away from zero, and its formats have no Inf and no NaN: all codes are numbers.
@pytest.mark.parametrize("exponent, fraction", [(5, 10), (4, 3), (5, 2), (3, 4), (2, 1)])
def test_float_quantize_of_qpytorch(exponent, fraction):
    quant = pytest.importorskip("qtorch.quant", exc_type=ImportError)
    x = values()
    theirs = quant.float_quantize(x, exp=exponent, man=fraction, rounding="nearest")
    ours = ht.quantize(x, f"e{exponent}m{fraction}finite", rounding="nearest-away", overflow="saturate")
    assert torch.equal(theirs, ours)


def test_the_default_differs_from_qpytorch_on_ties_and_above_the_largest():
    quant = pytest.importorskip("qtorch.quant", exc_type=ImportError)
    for x, theirs, ours in ((163.8125, 163.875, 163.75), (8.940697e-08, 1.1920929e-07, 1.1920929e-07), (2.9802322e-08, 5.9604645e-08, 0.0)):
        assert quant.float_quantize(torch.tensor([x]), exp=5, man=10, rounding="nearest").item() == pytest.approx(theirs, rel=1e-7)
        assert ht.quantize(torch.tensor([x]), "fp16").item() == pytest.approx(ours, rel=1e-7)
    assert quant.float_quantize(torch.tensor([500.0]), exp=4, man=3, rounding="nearest").item() == 480
    assert ht.quantize(torch.tensor([500.0]), "e4m3", overflow="saturate").item() == 448


@pytest.mark.parametrize("format, dtype", [("mxfp8e4m3", "float8_e4m3fn"), ("mxfp8e5m2", "float8_e5m2")])
@pytest.mark.parametrize("rule", ["FLOOR", "RCEIL"])
def test_mx_of_torchao(format, dtype, rule):
    mx = pytest.importorskip("torchao.prototype.mx_formats.mx_tensor", exc_type=ImportError)
    x = values()[: 64 * 256].reshape(64, 256).clamp(-1e4, 1e4)
    theirs = mx.MXTensor.to_mx(x, getattr(torch, dtype), 32, mx.ScaleCalculationMode[rule]).dequantize(torch.float32)
    assert torch.equal(theirs, ht.quantize(x, format + ("/rceil" if rule == "RCEIL" else "")))


def test_float8_linear_of_torchao():
    """The code words are the same. torchao keeps the scale's reciprocal and divides by it, which is up to an ulp from the
    product with the scale; and it sums products in the order of torch.mm."""
    scaling = pytest.importorskip("torchao.float8.float8_scaling_utils", exc_type=ImportError)
    from torchao.float8.float8_training_tensor import LinearMMConfig, ScaledMMConfig
    import halfulp
    x, w = torch.randn(16, 64, generator=torch.Generator().manual_seed(3)), torch.randn(32, 64, generator=torch.Generator().manual_seed(4))
    config = LinearMMConfig(*[ScaledMMConfig(emulate=True) for _ in range(3)])
    theirs = [scaling.hp_tensor_to_float8_dynamic(t, torch.float8_e4m3fn, config) for t in (x, w)]
    for t, mine in zip((x, w), theirs):
        assert torch.equal(mine._data.view(torch.uint8), torch.from_numpy(halfulp.quantize_blocks(t.numpy(), "e4m3-tensor").codes))
        ours = ht.quantize(t, "e4m3-tensor")
        assert not torch.equal(mine.to_original_precision(), ours)
        torch.testing.assert_close(mine.to_original_precision(), ours, rtol=2**-23, atol=0)
    y = torch.mm(theirs[0].to_original_precision(), theirs[1].to_original_precision().t())
    torch.testing.assert_close(ht.linear(x, w, model="acc=fp32", input_format="e4m3-tensor", weight_format="e4m3-tensor"), y, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("recipe, most", [("tensorwise", 1e-6), ("rowwise", 0.0)])
def test_recipes_of_torchao_in_a_training_step(recipe, most):
    """A linear layer of torchao.float8 with emulate=True, whose sums are torch.mm's: rowwise scales are powers of two, and
    the bits are the same; tensorwise ones have a reciprocal that torchao rounds. FP8's own error is 1e-2."""
    float8 = pytest.importorskip("torchao.float8", exc_type=ImportError)
    import dataclasses
    import json

    from halfulp import _core
    torch.manual_seed(0)
    layer, x, gradient = torch.nn.Linear(64, 48), torch.randn(32, 64), torch.randn(32, 48) * 1e-3
    config = dataclasses.replace(float8.Float8LinearConfig.from_recipe_name(recipe), emulate=True)
    theirs = float8.convert_to_float8_training(torch.nn.Sequential(torch.nn.Linear(64, 48)), config=config)
    theirs.load_state_dict({f"0.{name}": value for name, value in layer.state_dict().items()})
    operands = json.loads(_core.Precision(f"torchao-{recipe}", 0).policy)["rules"][-1]["operands"]
    run = ht.emulate(layer, {"name": "operands-alone", "rules": [{"operators": ["linear"], "operands": operands}]}, seed=0)
    results = []
    for model, weight in ((theirs, theirs[0].weight), (layer, layer.weight)):
        given = x.clone().requires_grad_()
        if model is layer:
            with run:
                y = model(given)
                y.backward(gradient)
        else:
            y = model(given)
            y.backward(gradient)
        results.append((y.detach(), given.grad, weight.grad))
    for expected, ours in zip(*results):
        assert float((expected - ours).norm() / expected.norm()) <= most
    assert float((results[0][0] - torch.nn.functional.linear(x, layer.weight, layer.bias).detach()).norm() / results[0][0].norm()) > 1e-2
