"""What a watched run reports, what a microscope sees, which layers a policy harms."""
import math
import json

import numpy as np
import pytest

torch = pytest.importorskip("torch", minversion="2.4")
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import halfulp  # noqa: E402
import halfulp.torch as ht  # noqa: E402

LABELS = torch.arange(24) % 4


def make(*middle):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 32), *(middle or (nn.GELU(), nn.LayerNorm(32))), nn.Linear(32, 4))


def inputs():
    return torch.randn(24, 16, generator=torch.Generator().manual_seed(1))


def train(run_of, steps=12, optimizer_of=None, model=None):
    model = make() if model is None else model
    run = run_of(model)
    optimizer = optimizer_of(run, model) if optimizer_of else torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        with run:
            loss = F.cross_entropy(model(inputs()), LABELS)
            optimizer.backward(loss) if optimizer_of else loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return run, losses, [p.detach().clone() for p in model.parameters()]


def test_watching_changes_no_bit_and_makes_a_report(tmp_path):
    _, plain, weights = train(lambda m: ht.emulate(m, "mxfp4", seed=1))
    run, losses, watched = train(lambda m: ht.emulate(m, "mxfp4", seed=1, every=5))
    assert losses == plain and all(map(torch.equal, weights, watched))
    report = run.report()
    report.save(tmp_path / "model.json")
    assert halfulp.validate(tmp_path / "model.json").status == 0
    assert report["experiment"] == "model" and report.status == "pass"
    assert [row["step"] for row in report.rows("steps")] == [0, 5, 10]
    assert [row["loss"] for row in report.rows("steps")] == [losses[0], losses[5], losses[10]]
    products = report.rows("products")
    assert {(row["step"], row["layer"], row["product"]) for row in products} == {(s, layer, p) for s in (0, 5, 10) for layer in ("0", "3") for p in ("forward", "to-input", "to-weight")} - {(s, "0", "to-input") for s in (0, 5, 10)}
    for row in products:
        assert row["quantization"] + row["accumulation"] + row["rounding"] == pytest.approx(1)
        assert 5 < row["sqnr"] < 25 and row["quantization"] > 0.9
    assert {row["role"] for row in report.rows("exponents")} == {"gradient-of-activation", "gradient-of-weight"}
    assert sum(row["count"] for row in report.rows("exponents") if row["layer"] == "0" and row["role"] == "gradient-of-weight") == 3 * 16 * 32
    assert {row["parameter"] for row in report.rows("updates")} == {name for name, _ in make().named_parameters()}
    assert halfulp.load_report(tmp_path / "model.json")["finding"].startswith("weakest product: ")


def test_the_share_of_the_sums_is_theirs():
    rules = [{"operators": ["linear"], "operands": "bf16", "accumulate": "acc=bf16"}]
    run, *_ = train(lambda m: ht.emulate(m, {"name": "narrow", "rules": rules}, seed=1, every=4))
    wide, *_ = train(lambda m: ht.emulate(m, {"name": "wide", "rules": [{**rules[0], "accumulate": "acc=fp32"}]}, seed=1, every=4))
    for narrow_row, wide_row in zip(run.report().rows("products"), wide.report().rows("products")):
        assert narrow_row["sqnr"] < wide_row["sqnr"]
        assert narrow_row["accumulation"] > 0.3 and wide_row["accumulation"] < 0.01


def test_swamped_updates_scales_and_skipped_steps():
    optimizer_of = lambda run, model: ht.PolicyOptimizer(run, model.named_parameters(), "sgd", lr=1e-5)
    run, *_ = train(lambda m: ht.emulate(m, "pure-bf16", seed=1, every=1), 3, optimizer_of)
    swamped = [row["swamped"] for row in run.report().rows("updates") if row["parameter"] == "0.weight"]
    assert len(swamped) == 3 and min(swamped) > 0.9
    policy = {"name": "hot", "base": "O2", "loss_scaling": {"kind": "dynamic", "scale": 2.0**40, "interval": 2000}}
    run, *_ = train(lambda m: ht.emulate(m, policy, seed=1, every=1), 3, optimizer_of)
    report = run.report()
    assert [row["taken"] for row in report.rows("steps")] == [False] * 3 and [row["scale"] for row in report.rows("steps")] == [2.0**40, 2.0**39, 2.0**38]
    assert {row["event"] for row in report.rows("scaler_events")} == {"skipped", "backed-off"} and not report.rows("updates")
    births = report.rows("births")
    assert births[0]["what"] == "an Inf" and births[0]["step"] == 0 and births[0]["operator"] in ("cross-entropy", "linear")


def test_a_nan_is_named_with_the_function_that_bore_it():
    class Root(nn.Module):
        def forward(self, x):
            return torch.sqrt(x)
    run, *_ = train(lambda m: ht.emulate(m, "fp32", seed=1, every=1), 2, model=make(Root()))
    assert run.report().rows("births")[0] == {"what": "a NaN", "step": 0, "operator": "sqrt", "layer": "1", "role": None}


def test_gradients_are_saved_for_underflow(tmp_path):
    run, *_ = train(lambda m: ht.emulate(m, "amp-fp16", seed=1, every=6, save_gradients=tmp_path / "g"), optimizer_of=lambda run, m: ht.PolicyOptimizer(run, m.named_parameters(), "sgd"))
    listing = json.loads((tmp_path / "g" / "gradients.json").read_text())
    names = {entry["name"] for entry in listing["tensors"]}
    assert {"0.weight.gradient", "3.bias.gradient", "3.activation-gradient"} <= names and {e["step"] for e in listing["tensors"]} == {0, 6}
    assert {e["scale"] for e in listing["tensors"]} == {65536}
    assert np.load(tmp_path / "g" / "step-000006" / "0.weight.gradient.npy").shape == (32, 16)
    report = halfulp.run("underflow", input=str(tmp_path / "g"), backend="emulated")
    assert report.status == "pass"
    with pytest.raises(ValueError, match="^gradients: "):
        ht.emulate(make(), "fp32", save_gradients=tmp_path / "h")


def test_the_microscope_leaves_a_training_as_it_is():
    model = make(nn.ReLU(inplace=True), nn.BatchNorm1d(32), nn.Dropout(0.1))
    def step(run, model, state):
        torch.manual_seed(2)
        model.load_state_dict(state)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(4):
            optimizer.zero_grad()
            with run:
                loss = F.cross_entropy(model(inputs()), LABELS)
                loss.backward()
            optimizer.step()
        return [v.clone() for v in model.state_dict().values()]
    import contextlib
    state = {name: v.clone() for name, v in model.state_dict().items()}
    scope = ht.microscope(model, "fp8-hybrid", every=2, seed=1)
    assert all(map(torch.equal, step(contextlib.nullcontext(), model, state), step(scope, model, state)))
    report = scope.report()
    products = report.rows("products")
    assert {(row["step"], row["layer"]) for row in products} == {(0, "0"), (0, "4"), (2, "0"), (2, "4")}
    assert all(20 < row["sqnr"] < 45 for row in products), products
    covered = {row["function"] for row in report.rows("calls") if row["covered"]}
    assert {"linear", "relu", "batch_norm", "dropout", "cross_entropy"} <= covered
    with pytest.raises(ValueError, match="^every: 0"):
        ht.microscope(model, every=0)


def test_ablation_finds_the_layer_that_precision_harms():
    for harmed in ("0", "3"):
        model = make()
        policy = {"name": "narrow", "rules": [{"operators": ["linear"], "layers": [harmed], "operands": "e2m1/tensor/fp32"}]}
        before = [p.detach().clone() for p in model.parameters()]
        rows = ht.ablate(model, policy, lambda: F.cross_entropy(model(inputs()), LABELS))
        assert rows[0]["layer"] is None and rows[0]["error"] > 0.05
        assert rows[1]["layer"] == harmed and 0.9 < rows[1]["repaired"] < 1
        assert {row["layer"] for row in rows[1:]} == {"0", "1", "2", "3"} and all(row["repaired"] < 0.1 for row in rows[2:])
        assert all(map(torch.equal, before, model.parameters())) and model[0].weight.grad is None


def test_what_every_accepts():
    for bad in (-1, True, 1.5, "10"):
        with pytest.raises(ValueError, match="^every: "):
            ht.emulate(make(), "fp32", every=bad)
    report = ht.emulate(make(), "fp32").report()
    assert report.names == ["calls"] and report.claims[0]["verdict"] == "skipped"


def test_a_report_of_births_is_valid(tmp_path):
    model = make()
    run = ht.emulate(model, "amp-fp16", seed=0, every=1)
    with run:
        F.cross_entropy(model(inputs() * 1e30), LABELS).backward()
    report = run.report()
    assert report.rows("births")[0]["what"] == "a NaN" and "a NaN" in report.show("births")
    with pytest.raises(TypeError, match="^loss_of"):
        ht.ablate(model, "fp32", lambda: 1.0)


def test_updates_wait_for_the_optimizer_and_scales_are_taken_out():
    model = make()
    run = ht.emulate(model, "O2", seed=1, every=1)
    optimizer = ht.PolicyOptimizer(run, model.named_parameters(), "sgd", lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        with run:
            optimizer.backward(F.cross_entropy(model(inputs()), LABELS))
        run.report()
        with torch.no_grad(), run:
            model(inputs())
        optimizer.step()
    rows = run.report().rows("updates")
    assert len(rows) == 2 * len(list(model.parameters()))
    for row in rows:
        if row["weight_norm"] and row["update_to_weight"]:
            assert row["update_to_weight"] == pytest.approx(0.1 * row["gradient_to_weight"], rel=0.2)


def test_the_microscope_lets_torch_do_what_it_does():
    from torch.utils.checkpoint import checkpoint
    model = make(nn.SiLU(inplace=True), nn.ReLU6(inplace=True))
    def steps(scope):
        grads = []
        with scope:
            loss = F.cross_entropy(model(inputs()), LABELS)
            grads += torch.autograd.grad(loss, list(model.parameters()), retain_graph=True, create_graph=True)
            grads += torch.autograd.grad(loss, list(model.parameters()), retain_graph=True)
            grads += torch.autograd.grad(checkpoint(model, inputs(), use_reentrant=False).sum(), list(model.parameters()))
        return [g.detach() for g in [*grads, *torch.autograd.grad(loss, list(model.parameters()))]]
    import contextlib
    scope = ht.microscope(model, "mxfp8", every=1, seed=1)
    assert all(map(torch.equal, steps(contextlib.nullcontext()), steps(scope))) and scope.report().rows("products")
    class NewGELUActivation(nn.Module):
        def forward(self, x):
            return 0.5 * x * (1 + torch.tanh(0.7978845608028654 * (x + 0.044715 * x**3)))
    model = make(NewGELUActivation())
    assert torch.equal(*[y.detach() for y in (model(inputs()), inside(ht.microscope(model, every=10), model))])


def inside(scope, model):
    with scope:
        return model(inputs())


def test_a_nan_is_the_largest_magnitude():
    model = torch.nn.Linear(4, 3)
    run = ht.microscope(model, "bf16-sr", every=1, seed=1)
    with run:
        model(torch.tensor([[1.0, 2, 3, 4], [5, float("nan"), 7, 1e4]]))
        model(torch.ones(2, 4))  # and stays
    row = run.report().rows("products")[0]
    assert math.isnan(row["amax_a"]) and math.isnan(row["amax_result"]) and row["amax_b"] > 0
