"""Operators beyond the trainer's layers: convolutions of groups, einsum, activations, gates; autocast and GradScaler."""
import pytest

torch = pytest.importorskip("torch", minversion="2.4")
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import halfulp.torch as ht  # noqa: E402
from halfulp.torch import _handlers  # noqa: E402


class Call(nn.Module):
    """A function as a module, so that it is inside one."""

    def __init__(self, function, **parameters):
        super().__init__()
        self.function = function
        for name, value in parameters.items():
            setattr(self, name, nn.Parameter(value))

    def forward(self, *tensors):
        return self.function(self, *tensors)


def both(module, *tensors, policy="fp32"):
    """Results and gradients by torch and under a policy."""
    def once(run):
        given = [t.clone().requires_grad_() for t in tensors]
        module.zero_grad()
        if run is None:
            y = module(*given)
            y.backward(torch.linspace(-1, 1, y.numel()).reshape(y.shape))
        else:
            with run:
                y = module(*given)
                y.backward(torch.linspace(-1, 1, y.numel()).reshape(y.shape))
        return [y.detach(), *[t.grad for t in given], *[p.grad.clone() for p in module.parameters()]]
    run = ht.emulate(module, policy, seed=1)
    return once(None), once(run), run


torch.manual_seed(0)
X, Y = torch.randn(3, 8, 12), torch.randn(3, 8, 12)


@pytest.mark.parametrize("module, tensors", [
    (nn.Conv1d(8, 6, 3, stride=2, padding=1, dilation=2), [X]), (nn.Conv1d(8, 8, 5, groups=8, bias=False), [X]), (nn.Conv2d(4, 6, (3, 2), groups=2, padding=(1, 0)), [torch.randn(2, 4, 7, 6)]),
    (nn.Conv2d(4, 6, 3, dilation=2), [torch.randn(2, 4, 7, 6)]), (nn.Conv2d(4, 4, 3, stride=(2, 1), groups=4), [torch.randn(2, 4, 7, 6)]),
    (Call(lambda m, a, b: torch.einsum("bik,bjk->bij", a, b)), [X, Y]), (Call(lambda m, a, b: torch.einsum("b i k , b j k -> j b i", a, b)), [X, Y]),
    (Call(lambda m, a: torch.einsum("bik,ok->boi", a, m.w), w=torch.randn(5, 12)), [X]), (Call(lambda m, a: torch.einsum("hdk,bik->bhid", m.w, a), w=torch.randn(2, 5, 12)), [X]),
    (Call(lambda m, a: F.silu(a)), [X]), (Call(lambda m, a: torch.tanh(a)), [X]), (Call(lambda m, a: a.sigmoid()), [X]), (Call(lambda m, a: F.leaky_relu(a, 0.1)), [X]), (nn.Hardswish(), [X]), (nn.PReLU(), [X]),
    (Call(lambda m, a, b: a * b), [X, Y]), (nn.ELU(), [X]), (nn.ReLU6(), [X]),
], ids=lambda x: type(x).__name__)
def test_operators_are_torchs_under_fp32(module, tensors):
    own, ours, run = both(module, *tensors)
    assert not run.not_covered and run.covered, (run.not_covered, run.covered)
    for x, y in zip(own, ours):
        torch.testing.assert_close(x, y, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("function", [nn.SiLU, nn.ReLU6, nn.Hardswish, nn.LeakyReLU, nn.ELU, nn.Mish])
def test_activations_in_place_train(function):
    torch.manual_seed(0)
    for policy in ("fp32", "amp-bf16"):
        results = []
        for inplace in (False, True):
            torch.manual_seed(1)
            module = nn.Sequential(nn.Linear(12, 12), function(inplace=inplace), nn.Linear(12, 3))
            results.append(both(module, X, policy=policy)[1])
        assert all(map(torch.equal, *results))


def test_groups_are_convolutions_of_their_own():
    module = nn.Conv2d(4, 6, 3, groups=2, bias=True)
    x = torch.randn(2, 4, 7, 7)
    _, (y, *_), _ = both(module, x, policy="mxfp8")
    halves = []
    for g in range(2):
        part = nn.Conv2d(2, 3, 3)
        part.load_state_dict({"weight": module.weight[3 * g:3 * g + 3].detach(), "bias": module.bias[3 * g:3 * g + 3].detach()})
        halves.append(both(part, x[:, 2 * g:2 * g + 2], policy="mxfp8")[1][0])
    assert torch.equal(y, torch.cat(halves, 1))


def test_activations_and_gates_are_rounded_like_their_kind():
    policy = {"name": "p", "rules": [{"operators": ["gelu"], "results": {"activation": "e4m3", "gradient-of-activation": "e5m2"}}, {"operators": ["residual"], "results": "bf16"}]}
    (y, dx), (ry, rdx), _ = both(Call(lambda m, a: F.silu(a)), X, policy=policy)
    assert torch.equal(ry, ht.quantize(y, "e4m3")) and torch.equal(rdx, ht.quantize(dx, "e5m2"))
    (y, da, db), (ry, rda, rdb), _ = both(Call(lambda m, a, b: a * b), X, Y, policy=policy)
    assert torch.equal(ry, ht.quantize(y, "bf16")) and torch.equal(rda, ht.quantize(da, "bf16")) and torch.equal(rdb, ht.quantize(db, "bf16"))


@pytest.mark.parametrize("equation, tensors", [("ii,jk->jk", [torch.ones(2, 2), X[0]]), ("ij,jk->i", [torch.ones(2, 8), X[0]]), ("ij,kl->ijkl", [torch.ones(2, 8), X[0]]), ("...ij,...jk->...ik", [torch.ones(2, 2, 8), X[:2]])])
def test_other_sums_stay_torchs(equation, tensors):
    own, ours, run = both(Call(lambda m, a, b: torch.einsum(equation, a, b)), *tensors)
    assert run.not_covered and all(map(torch.equal, own, ours))


def test_errors_are_torchs():
    with ht.emulate(nn.Linear(2, 2), "fp32"):
        with pytest.raises(RuntimeError, match="einsum"):
            torch.einsum("ij,jk->ik", torch.ones(2, 3), torch.ones(4, 2))
        with pytest.raises(RuntimeError):
            F.conv1d(torch.ones(1, 3, 5), torch.ones(2, 2, 3))


def test_autocast_is_off_inside_and_grad_scaler_scales():
    def step(autocast, scaler):
        torch.manual_seed(0)
        # Autocast has PReLU, which an operator calls, in bf16, and transposed convolutions, which stay torch's.
        model = nn.Sequential(nn.Linear(8, 8), nn.PReLU(), nn.Unflatten(1, (2, 4)), nn.ConvTranspose1d(2, 2, 3), nn.Flatten(), nn.Linear(12, 4))
        x, labels = torch.randn(6, 8), torch.arange(6) % 4
        run = ht.emulate(model, "amp-bf16", seed=1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        grad_scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, enabled=scaler)
        for _ in range(3):
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16, enabled=autocast == "outside"), run, torch.autocast("cpu", torch.bfloat16, enabled=autocast == "inside"):
                y = model(x)
                assert y.dtype is torch.float32
                loss = F.cross_entropy(y, labels)
                grad_scaler.scale(loss).backward()
            grad_scaler.step(optimizer)
            grad_scaler.update()
        return [p.detach() for p in model.parameters()]
    plain = step("no", False)
    for autocast, scaler in (("outside", False), ("inside", False), ("no", True), ("outside", True)):
        assert all(map(torch.equal, plain, step(autocast, scaler))), (autocast, scaler)


def test_microscopes_compute_under_no_autocast():
    """Where a user's autocast is around the `with`, too: what is computed a second time is in fp32."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.PReLU(), nn.Linear(8, 4))
    x = torch.randn(6, 8)

    def seen(autocast):
        scope = ht.microscope(model, "pure-bf16", every=1)
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast), scope:
            model(x).float().sum().backward()
        return scope.report()
    for autocast in (False, True):
        covered = {row["function"] for row in seen(autocast).rows("calls") if row["covered"]}
        assert covered == {"linear", "prelu"}, autocast


@pytest.mark.parametrize("x", [torch.ones(4, dtype=torch.bfloat16), torch.ones(4, 4).T[1:], torch.ones(4, dtype=torch.float64)], ids=["bf16", "strided", "fp64"])
def test_memory_of_other_types_is_refused(x):
    """C++ would read and write beyond it."""
    with pytest.raises(TypeError, match="an operator met .*; accepted: contiguous float32"):
        _handlers.address(x)
