"""What tensors and calls must not do: be read beyond their ends, lose an argument, or give another function's numbers."""
import contextlib
import copy
import threading

import pytest

torch = pytest.importorskip("torch", minversion="2.4")
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import halfulp.torch as ht  # noqa: E402

R = torch.randn
RUN = ht.emulate(nn.Identity(), "fp32", seed=1)


def padding(x):
    mask = torch.ones(1, 1, 3, 3, dtype=torch.bool)
    mask[..., 0, :] = False
    return F.scaled_dot_product_attention(x, x, x, mask)


VALID = {
    "bias of one": lambda: F.linear(X34, W54, torch.ones(1)), "addmm of one": lambda: torch.addmm(torch.ones(1), X34, W54.t()), "named linear": lambda: F.linear(input=X34, weight=W54),
    "named matmul": lambda: torch.matmul(X34, other=W54.t()), "named bmm": lambda: torch.bmm(X34[None], mat2=W54.t()[None]), "named add": lambda: torch.add(X34, other=X34),
    "softmax to double": lambda: torch.softmax(X34, 1, torch.float64), "method softmax to double": lambda: X34.softmax(1, torch.float64), "layer norm": lambda: torch.layer_norm(X34, (4,), cudnn_enable=False),
    "sums of losses": lambda: F.cross_entropy(X34, torch.tensor([0, 1, 2]), reduction="sum"), "padding index": lambda: F.embedding(torch.tensor([0, 1]), W54, padding_idx=-1), "dropout of all": lambda: F.dropout(X34, 1.0),
    "rows that see nothing": lambda: padding(X34.reshape(1, 1, 3, 4)), "empty": lambda: F.linear(X34[:0], W54), "conv": lambda: F.conv2d(X34.reshape(1, 1, 3, 4), W54[:2, :4].reshape(2, 1, 2, 2), padding="same"),
    "zero tensor": lambda: F.relu(torch._efficientzerotensor(3, 4)), "negative bit": lambda: F.relu(torch._neg_view(X34)), "named dropout": lambda: torch.dropout(X34, p=0.5, train=False)}
X34, W54 = R(3, 4, generator=torch.Generator().manual_seed(1)), R(5, 4, generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize("name", VALID)
def test_valid_calls_are_torchs(name):
    expected = VALID[name]()
    if name == "rows that see nothing":  # NaN before torch 2.5
        expected = torch.nan_to_num(expected)
    with RUN:
        ours = VALID[name]()
    assert ours.dtype is expected.dtype
    torch.testing.assert_close(ours, expected)


@pytest.mark.parametrize("call", [lambda: F.linear(R(3, 7), R(5, 4)), lambda: R(2, 4) @ R(3, 2), lambda: F.conv2d(R(1, 2, 4, 4), R(3, 2, 2, 2), R(2)), lambda: F.conv2d(R(1, 2, 4, 4), R(3, 2, 2, 2), stride=0),
                                  lambda: F.conv2d(R(1, 2, 4, 4), R(3, 2, 2, 2), padding=-1), lambda: F.max_pool2d(R(1, 1, 4, 4), 0), lambda: F.layer_norm(R(2, 8), (4,), R(4), R(4)), lambda: F.layer_norm(R(2, 8), (8,), R(4), R(8)),
                                  lambda: F.scaled_dot_product_attention(R(1, 2, 3, 4), R(1, 2, 3, 5), R(1, 2, 3, 4)),
                                  lambda: F.batch_norm(R(8, 300), torch.zeros(3), torch.ones(3), R(300), R(300), True), lambda: ht.rotary(R(3, 2, 0)), lambda: F.embedding(torch.tensor([7]), R(5, 4)),
                                  lambda: F.cross_entropy(R(3, 4), torch.tensor([0, 1, 9])), lambda: nn.LSTM(5, 3)(R(2, 1, 4))])
def test_wrong_calls_raise(call):
    with pytest.raises((RuntimeError, ValueError, IndexError)):
        with RUN:
            call()


def test_other_default_dtypes_and_devices():
    model, x = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.LayerNorm(32)), R(8, 64)
    with RUN:
        expected = model(x)
    torch.set_default_dtype(torch.float16)
    try:
        with RUN:
            assert torch.equal(model(x), expected)
    finally:
        torch.set_default_dtype(torch.float32)
    with torch.device("meta"):
        assert torch.equal(ht.decode(ht.encode(x, "e4m3"), "e4m3"), ht.quantize(x, "e4m3"))
        assert ht.quantize(x, "e4m3", rounding="stochastic").device.type == "cpu"


def test_norms_are_replaced_only_where_they_are_the_same():
    class GammaRMSNorm(nn.Module):  # as Gemma's: times 1 + weight
        def __init__(self):
            super().__init__()
            self.weight, self.eps = nn.Parameter(torch.rand(8)), 1e-6

        def forward(self, x):
            return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * (1 + self.weight)

    class PlainRMSNorm(GammaRMSNorm):
        def forward(self, x):
            return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps))
    x = R(4, 8)
    for kind, covered in ((GammaRMSNorm, False), (PlainRMSNorm, True)):
        norm = kind()
        expected, run = norm(x), ht.emulate(norm, "fp32")
        with run:
            torch.testing.assert_close(norm(x), expected)
            duplicate = copy.deepcopy(norm)
        assert any(function == "rms_norm" for function, _ in run.covered) == covered
        assert "forward" not in vars(norm)
        with torch.no_grad():
            duplicate.weight.fill_(3.0)
        assert not torch.allclose(duplicate(x), expected)


def test_second_passes_are_refused():
    model, x = nn.Linear(4, 4), R(3, 4, requires_grad=True)
    with ht.emulate(model, "fp32"):
        with pytest.raises(RuntimeError, match="no second derivative"):
            torch.autograd.grad(model(torch.tanh(x)).sum(), x, create_graph=True)
    for reentrant in (False, True):
        with pytest.raises(RuntimeError, match="runs again in the backward pass"):
            with ht.emulate(model, "fp32"):
                torch.utils.checkpoint.checkpoint(model, x, use_reentrant=reentrant).sum().backward()


def test_other_threads_are_left_alone():
    stop, trouble = threading.Event(), []

    def others():
        plain = nn.Sequential(nn.ReLU(), nn.Linear(3, 3))
        while not stop.is_set():
            try:
                plain(torch.ones(2, 3))
            except Exception as why:  # noqa: BLE001
                trouble.append(why)
    thread = threading.Thread(target=others)
    thread.start()
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    run = ht.emulate(model, "fp32")
    for _ in range(50):
        with run:
            model(R(2, 4))
    stop.set(), thread.join()
    assert not trouble and {module for _, module in run.covered} == {"0", "1"}


def test_optimizers_follow_their_parameters():
    layer = nn.Linear(100, 100)
    run = ht.emulate(layer, "fp32", seed=1)
    optimizer = ht.PolicyOptimizer(run, layer.named_parameters(), "sgd", lr=0.1)
    layer.weight.data = layer.weight.data.clone()
    before = layer.weight.detach().clone()
    layer.weight.grad = torch.autograd.grad(layer.weight.sum(), layer.weight)[0]  # with strides of 0
    layer.bias.grad = None
    assert optimizer.step()
    torch.testing.assert_close(layer.weight.detach(), before - 0.1)
    layer.weight.grad = R(100, 100).t()
    before = layer.weight.detach().clone()
    optimizer.step()
    torch.testing.assert_close(layer.weight.detach(), before - 0.1 * layer.weight.grad)
    layer.double()
    with pytest.raises(TypeError, match="^parameters: weight is torch.float64"):
        optimizer.step()


def test_what_is_in_no_module_is_not_rounded():
    a = R(3, 4, requires_grad=True) * 1
    with ht.emulate(nn.Identity(), "pure-bf16") as run:
        with torch.no_grad():
            total = a + a
    assert torch.equal(total, 2 * a) and ("add", "") in run.not_covered


@pytest.mark.parametrize("ignored", [-100, 2])
def test_ignored_labels_do_not_count(ignored):
    logits, labels = torch.randn(6, 4, generator=torch.Generator().manual_seed(1)), torch.tensor([0, ignored, 3, 1, ignored, 3])
    model, results = nn.Linear(4, 4), []
    with torch.no_grad():
        model.weight.copy_(torch.eye(4)), model.bias.zero_()
    for context in (contextlib.nullcontext(), ht.emulate(model, "fp32")):
        x = logits.clone().requires_grad_()
        with context:
            loss = F.cross_entropy(model(x), labels, ignore_index=ignored)
            loss.backward()
        results.append((loss.detach(), x.grad))
    (loss, gradient), (ours, our_gradient) = results
    assert torch.allclose(loss, ours, rtol=1e-6) and torch.allclose(gradient, our_gradient, rtol=1e-5, atol=1e-7)
    assert not our_gradient[1].any() and our_gradient[0].any()


def test_what_hides_its_calls_is_refused():
    def model():
        return nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    for hidden in (torch.jit.script(model()), torch.jit.trace(model(), X34), nn.Sequential(torch.jit.script(nn.Linear(4, 4)))):
        with pytest.raises(TypeError, match="is a module of TorchScript, which hides its calls"):
            ht.emulate(hidden, "fp32")
    own = model()
    run = ht.emulate(own, "mxfp8", seed=1)
    with pytest.raises(RuntimeError, match="a module compiled by torch.compile runs inside"), run:
        torch.compile(own, backend="eager")(X34)
    own.compile(backend="eager")  # after the run was made
    with pytest.raises(TypeError, match="model: it is compiled"), run:
        pass
    other = nn.Linear(4, 4)
    with ht.emulate(other, "mxfp8", seed=1):  # nothing of this is left
        other(X34)


def test_a_model_that_changes_its_dtype_is_refused_in_the_next_step():
    model = nn.Linear(4, 4)
    run = ht.emulate(model, "mxfp8", seed=1)
    with run:
        model(X34)
    model.bfloat16()
    with pytest.raises(TypeError, match="model: weight is torch.bfloat16 on cpu; accepted: float32"), run:
        pass


def test_ablate_needs_a_loss_of_its_model():
    other = nn.Linear(4, 4)
    with pytest.raises(ValueError, match="loss_of: ran modules with parameters, but none of model"), pytest.warns(UserWarning):
        ht.ablate(nn.Linear(4, 4), "mxfp8", lambda: other(X34).sum())
