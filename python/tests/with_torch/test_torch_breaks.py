"""What testers found in emulated models and in functions of tensors, mended since."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", minversion="2.4")
import halfulp  # noqa: E402
import halfulp.torch as ht  # noqa: E402
import torch.autograd.forward_ad as forward_ad  # noqa: E402
import torch.nn as nn  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402


class RMSNorm(nn.Module):
    def __init__(self, epsilon_name="epsilon"):
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(0.5, 2, 8))
        self.name = epsilon_name
        setattr(self, epsilon_name, 1e-5)

    def forward(self, x, gate=None):
        y = self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + getattr(self, self.name)))
        return y if gate is None else y * gate


@pytest.mark.parametrize(
    "name, known",
    [("variance_epsilon", True), ("eps", True), ("epsilon", True), ("norm_eps", True), ("smallest", False)],
)
def test_norms_keep_their_epsilon(name, known):
    m, x = RMSNorm(name), torch.full((1, 8), 1e-3)
    run = ht.emulate(m, "fp32")
    with run:
        y = m(x)
    torch.testing.assert_close(y, m(x), rtol=1e-5, atol=1e-9)
    assert any(function == "rms_norm" for function, _ in run.covered) == known


def test_norms_with_other_arguments_are_their_own():
    m, x = RMSNorm(), torch.randn(3, 8)
    alone, gated = m(x), m(x, x)
    with ht.emulate(m, "fp32"):
        for y, wanted in ((m(x), alone), (m(x=x), alone), (m(x, x), gated), (m(x, gate=x), gated)):
            torch.testing.assert_close(y, wanted)


def test_a_norm_of_training_is_not_that_of_evaluation():
    class DropoutRMSNorm(RMSNorm):
        def forward(self, x):
            return F.dropout(super().forward(x), 0.5, self.training)

    m = DropoutRMSNorm()
    run = ht.emulate(m, "fp32")
    m.eval()
    with run:
        m(torch.ones(64, 8))
    m.train()
    with run:
        assert (m(torch.ones(64, 8)) == 0).any()


def test_the_last_cell_state_says_that_it_has_no_gradient():
    torch.manual_seed(1)
    m, x = nn.LSTM(3, 4), torch.randn(2, 1, 3)
    with ht.emulate(m, "fp32"):
        _, (h, c) = m(x)
        with pytest.raises(RuntimeError, match="cell state"):
            c.sum().backward()
    with ht.emulate(m, "fp32"):
        y, (h, c) = m(x)
        (y.sum() + h.sum() + c.detach().sum()).backward()  # unused, it is no hindrance
    assert m.weight_ih_l0.grad.abs().sum() > 0


class Checkpointed(nn.Module):
    def __init__(self, reentrant):
        super().__init__()
        self.w, self.reentrant = nn.Parameter(torch.randn(8, 8)), reentrant

    def forward(self, x):
        return checkpoint(F.linear, x, self.w, use_reentrant=self.reentrant)


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoints_of_functions_are_refused(reentrant):
    m = Checkpointed(reentrant)
    with ht.emulate(m, "mxfp4"), pytest.raises(RuntimeError, match="torch.utils.checkpoint"):
        m(torch.randn(4, 8, requires_grad=True)).sum().backward()


class Own(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w.T

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g @ w, g.T @ x


@pytest.mark.parametrize(
    "backward",
    [
        lambda y, w: y.backward(),
        lambda y, w: torch.autograd.backward([y]),
        lambda y, w: torch.autograd.grad(y, w),
        lambda y, w: torch.autograd.grad(outputs=y, inputs=[w]),
    ],
)
def test_backward_passes_of_users_are_not_left_out_silently(backward):
    m = nn.Linear(3, 4)
    run = ht.emulate(m, "fp8-hybrid")
    with run:
        backward((Own.apply(torch.randn(2, 3), m.weight).sum() + m(torch.randn(2, 3)).sum()), m.weight)
    assert run.not_covered["Own.backward", ""] == 1 and not any(
        name in ("grad", "backward") for name, _ in run.not_covered
    )


def test_the_model_in_another_thread_is_refused():
    import concurrent.futures

    m = nn.Linear(3, 4)
    with ht.emulate(m, "fp8-hybrid"), concurrent.futures.ThreadPoolExecutor(1) as pool:
        with pytest.raises(RuntimeError, match="another thread"):
            pool.submit(m, torch.randn(2, 3)).result()
        assert pool.submit(nn.Linear(3, 4), torch.randn(2, 3)).result().shape == (2, 4)  # not its business


def test_pieces_of_a_ring_draw_bits_of_their_own():
    from halfulp.torch._distributed import summed

    def rounded(x, i, at):
        return ht.quantize(x, "bf16", rounding="stochastic", seed=0, stream=10 + i, first=at)

    t = summed([torch.full((4096,), 1.003)] * 4, "ring", rounded).reshape(4, -1)
    assert not any(torch.equal(t[0], t[k]) for k in (1, 2, 3))
    for arguments in ({"rounding": "zz"}, {"seed": "a"}, {"seed": -1}):
        with pytest.raises((TypeError, ValueError)):
            ht.communication_hook("bf16", **arguments)


def test_a_bias_with_a_forward_derivative_is_refused():
    with forward_ad.dual_level():
        b = forward_ad.make_dual(torch.ones(2), torch.ones(2))
        with pytest.raises(RuntimeError, match="bias"):
            ht.linear(torch.randn(2, 3), torch.randn(2, 3), b)


@pytest.mark.parametrize(
    "mask", [torch.tensor([[True, False], [False, False]]), torch.tensor([[0.0, -torch.inf], [-torch.inf, -torch.inf]])]
)
def test_rows_that_see_nothing_are_zero(mask):
    q, k, v = torch.randn(3, 2, 4).unbind(0)
    torch.testing.assert_close(ht.attention(q, k, v, mask), F.scaled_dot_product_attention(q, k, v, mask))


def test_dropout_of_all_attention():
    q = torch.randn(1, 2, 4)
    with ht.emulate(nn.Linear(1, 1), "fp32"):
        assert torch.equal(F.scaled_dot_product_attention(q, q, q, dropout_p=1.0), torch.zeros(1, 2, 4))


def test_a_graph_of_an_earlier_step_is_refused():
    m = nn.Linear(3, 4)
    run = ht.emulate(m, "mxfp4")
    with run:
        y = m(torch.randn(2, 3)).sum()
    with run, pytest.raises(RuntimeError, match="after the `with` of its step"):
        y.backward()


def test_options_that_change_do_not_pile_up():
    m, plain = nn.BatchNorm2d(4, momentum=None), nn.BatchNorm2d(4, momentum=None)  # a mean of all steps: 1/n in step n
    run = ht.emulate(m, "fp32")
    sizes = []
    for step in range(4):
        x = torch.randn(2, 4, 4, 4) + step
        plain(x)
        with run:
            m(x).sum().backward()
        sizes.append(len(run.layers))
    assert sizes[0] == sizes[-1]
    torch.testing.assert_close(m.running_mean, plain.running_mean)


@pytest.mark.parametrize(
    "call, why",
    [
        (lambda: ht.rotary(torch.ones(2, 2), 0), "^base: 0"),
        (lambda: ht.rotary(torch.ones(2, 2), -1.0), "^base: "),
        (lambda: ht.rotary(torch.ones(2, 2), "a"), "^base: "),
        (lambda: ht.rotary(np.ones((2, 2))), "^x: ndarray"),
        (lambda: ht.attention("a", torch.ones(2, 2), torch.ones(2, 2)), "^query: str"),
        (lambda: ht.attention(torch.ones(2), torch.ones(2), torch.ones(2)), "^query: shape"),
        (lambda: ht.attention(torch.ones(2, 2), torch.ones(2, 2), torch.ones(2, 2), [[1]]), "^mask: list"),
        (lambda: ht.emulate(nn.Linear(1, 1), {"name": object()}), "^policy: "),
        (lambda: ht.emulate(nn.Linear(1, 1), "fp32", {"": {"operands": object()}}), "^rules: "),
        (lambda: ht.emulate(nn.Linear(1, 1), {"rules": 3}, {"": "fp16"}), "^policy: rules 3"),
        (lambda: ht.emulate(nn.Linear(1, 1), "fp32", save_gradients=3), "^save_gradients: "),
        (lambda: ht.emulate(nn.Linear(1, 1), "fp32").load_state_dict(None), "^state: NoneType"),
        (
            lambda: (lambda run: run.load_state_dict({**run.state_dict(), "scales": None}))(
                ht.emulate(nn.Linear(1, 1), "fp32")
            ),
            "^state: scales NoneType",
        ),
        (
            lambda: ht.ablate(nn.ReLU(), "fp32", lambda: torch.ones(1, requires_grad=True).sum()),
            "^model: it has no parameters",
        ),
        (lambda: ht.quantize(torch.ones(3), "e4m3", out=torch.ones(1).expand(3)), "^out: "),
        (lambda: ht.decode(torch.tensor([2**63], dtype=torch.uint64), "e4m3"), "^codes: 9223372036854775808"),
        (lambda: halfulp.gemm(np.ones((2, 2)), np.ones((2, 2)), model={"a": object()}), "^model: "),
    ],
)
def test_one_line_that_names_the_argument(call, why):
    with pytest.raises((TypeError, ValueError), match=why) as caught:
        call()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: torch.mm(x.reshape(2, 2, 2), x.reshape(2, 2, 2)),
        lambda x: torch.bmm(x.reshape(2, 4), x.reshape(4, 2)),
        lambda x: torch.bmm(x.reshape(1, 2, 4), x.reshape(2, 4, 1).expand(2, 4, 2)),
        lambda x: torch.addmm(x.reshape(2, 2, 2), x.reshape(2, 2, 2), x.reshape(2, 2, 2)),
        lambda x: F.dropout(x, p=-1, training=False),
        lambda x: F.scaled_dot_product_attention(
            x.reshape(1, 2, 4), x.reshape(1, 2, 4), x.reshape(1, 2, 4), torch.ones(2, 2, dtype=torch.int64)
        ),
    ],
)
def test_what_torch_refuses_is_refused_inside_too(call):
    x = torch.randn(8)
    with pytest.raises((RuntimeError, ValueError)) as outside:
        call(x)
    with ht.emulate(nn.Linear(1, 1), "fp32"), pytest.raises(type(outside.value)):
        call(x)


def test_states_of_optimizers_that_are_none():
    run = ht.emulate(m := nn.Linear(2, 2), "amp-fp16")
    optimizer = ht.PolicyOptimizer(run, m.named_parameters(), "sgd", lr=0.1)
    for state, why in (
        (None, "^state_dict: NoneType"),
        ({}, "^state_dict: no 'policy'"),
        ({**optimizer.state_dict(), "scaler": None}, "^state_dict: scaler NoneType"),
    ):
        with pytest.raises((TypeError, ValueError), match=why):
            optimizer.load_state_dict(state)
    with pytest.raises(TypeError, match="^loss: int"):
        optimizer.backward(3)
