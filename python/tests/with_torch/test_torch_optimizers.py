"""PolicyOptimizer as torch's: groups, schedulers, states; optim() around others; convert()."""
import copy
import io
import pickle

import pytest

torch = pytest.importorskip("torch", minversion="2.4")
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import halfulp.torch as ht  # noqa: E402

X, LABELS = torch.randn(12, 8, generator=torch.Generator().manual_seed(1)), torch.arange(12) % 4


def make():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))


def step(run, model, optimizer):
    optimizer.zero_grad()
    with run:
        optimizer.backward(F.cross_entropy(model(X), LABELS))
    optimizer.step()


def weights(model):
    return [p.detach().clone() for p in model.parameters()]


@pytest.mark.parametrize("kind, theirs", [("adam", torch.optim.Adam), ("adamw", torch.optim.AdamW), ("sgd", torch.optim.SGD)])
def test_groups_and_schedulers_are_torchs(kind, theirs):
    def train(own):
        model = make()
        run = ht.emulate(model, "fp32", seed=1)
        decay, rest = [list(model.named_parameters())[i::2] for i in (0, 1)]
        if own:
            optimizer = ht.PolicyOptimizer(run, [{"params": decay, "weight_decay": 0.1}, {"params": rest, "lr": 0.05}], kind, lr=0.02)
        else:
            optimizer = theirs([{"params": [p for _, p in decay], "weight_decay": 0.1}, {"params": [p for _, p in rest], "lr": 0.05}], lr=0.02, foreach=False)
            optimizer.backward = lambda loss: loss.backward()
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 8)
        for _ in range(8):
            step(run, model, optimizer)
            schedule.step()
        return weights(model), [g["lr"] for g in optimizer.param_groups]
    (ours, rates), (expected, their_rates) = train(True), train(False)
    assert rates == their_rates
    for a, b in zip(ours, expected):
        torch.testing.assert_close(a, b, rtol=2e-6, atol=2e-7)  # square roots of MKL may be an ulp off


@pytest.mark.parametrize("policy", ["O2", "bf16-kahan", "bf16-sr", "fp32"])
def test_states_go_on_with_the_same_bits(policy):
    def train(stops):
        model = make()
        run = ht.emulate(model, policy, seed=1)
        optimizer = ht.PolicyOptimizer(run, model.named_parameters(), "adamw", lr=0.01)
        for i in range(8):
            if stops and i == 4:
                file = io.BytesIO()
                torch.save({"model": model.state_dict(), "run": run.state_dict(), "optimizer": optimizer.state_dict()}, file)
                file.seek(0)
                saved = torch.load(file, weights_only=True)
                model = make()
                model.load_state_dict(saved["model"])
                run = ht.emulate(model, policy, seed=1)
                run.load_state_dict(saved["run"])
                optimizer = ht.PolicyOptimizer(run, model.named_parameters(), "adamw", lr=0.5)
                optimizer.load_state_dict(saved["optimizer"])
            step(run, model, optimizer)
        return weights(model), optimizer.scale
    (plain, scale), (again, its) = train(False), train(True)
    assert all(map(torch.equal, plain, again)) and scale == its


def test_bad_optimizers():
    model = make()
    run = ht.emulate(model, "fp32")
    optimizer = ht.PolicyOptimizer(run, model.named_parameters(), "adam")
    for call, error, message in ((lambda: optimizer.add_param_group({"params": []}), RuntimeError, "all groups"), (lambda: optimizer.step(lambda: 0), TypeError, "^closure"),
                                 (lambda: ht.PolicyOptimizer(run, [], "adam"), ValueError, "^parameters: none"), (lambda: ht.PolicyOptimizer(run, [{"lr": 1}], "adam"), ValueError, "'params'"),
                                 (lambda: ht.PolicyOptimizer(run, model.named_parameters(), "adam", betas=0.9), TypeError, "^betas"),
                                 (lambda: optimizer.load_state_dict({"policy": "O2", "kind": "adam"}), ValueError, "^state"), (lambda: ht.optim(optimizer), TypeError, "^optimizer"),
                                 (lambda: ht.optim(torch.optim.SGD(model.parameters()), master=True), ValueError, "^weights"),
                                 (lambda: ht.optim(torch.optim.SGD(model.parameters()), weights="bf16", master=True, kahan=True), ValueError, "^master")):
        with pytest.raises(error, match=message):
            call()
    optimizer.param_groups[0]["betas"] = (0.5, 0.9)
    with pytest.raises(ValueError, match="^betas"):
        optimizer.step()


def plain_steps(optimizer, model, count=5):
    for _ in range(count):
        optimizer.zero_grad()
        F.cross_entropy(model(X), LABELS).backward()
        optimizer.step()
    return weights(model)


def test_any_optimizer_with_rounded_weights_and_states():
    model = make()
    ours = plain_steps(ht.optim(torch.optim.Adagrad(model.parameters(), lr=0.1), weights="bf16", states="fp16"), model)
    model = make()
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.1)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(p.to(torch.bfloat16))
    for _ in range(5):
        optimizer.zero_grad()
        F.cross_entropy(model(X), LABELS).backward()
        optimizer.step()
        with torch.no_grad():
            for p in model.parameters():
                p.copy_(p.to(torch.bfloat16))
                optimizer.state[p]["sum"].copy_(optimizer.state[p]["sum"].to(torch.float16))
    assert all(map(torch.equal, ours, weights(model)))


def test_a_copy_would_not_round_and_is_refused():
    optimizer = ht.optim(torch.optim.Adam([nn.Parameter(torch.ones(4))]), weights="bf16")
    for copied in (copy.deepcopy, pickle.dumps, lambda o: torch.save(o, io.BytesIO())):
        with pytest.raises(TypeError, match="^optim\\(\\): the optimizer is not to be copied"):
            copied(optimizer)


def test_masters_kahan_and_stochastic_weights_keep_small_updates():
    def moved(**options):
        p = nn.Parameter(torch.ones(64))
        optimizer = ht.optim(torch.optim.SGD([p], lr=1.0), **options)
        for _ in range(1000):
            p.grad = torch.full_like(p, -1e-3)
            optimizer.step()
        assert torch.equal(p.detach(), p.detach().to(torch.bfloat16).float()) or options == {}
        return float(p.detach().mean()), optimizer
    assert moved()[0] == pytest.approx(2, rel=1e-4)
    assert moved(weights="bf16")[0] == 1
    assert moved(weights="bf16", kahan=True)[0] == pytest.approx(2, rel=0.01)
    master, optimizer = moved(weights="bf16", master=True)
    assert master == 2 and {"halfulp_master"} == set(optimizer.state_dict()["state"][0])
    torch.manual_seed(0)
    assert moved(weights=("bf16", "stochastic"))[0] == pytest.approx(2, rel=0.02)


def test_masters_survive_state_dicts_and_adam_still_begins():
    def train(stops):
        model = make()
        optimizer = ht.optim(torch.optim.Adam(model.parameters(), lr=0.01), weights="bf16", master=True)
        plain_steps(optimizer, model, 3)
        if stops:
            state, values = optimizer.state_dict(), model.state_dict()
            other = make()
            other.load_state_dict(values)
            model, optimizer = other, ht.optim(torch.optim.Adam(other.parameters(), lr=0.01), weights="bf16", master=True)
            optimizer.load_state_dict(state)
        return plain_steps(optimizer, model, 3)
    assert all(map(torch.equal, train(False), train(True)))


@pytest.mark.parametrize("policy", ["torchao-tensorwise", "torchao-rowwise", "te-block", "fp8-deepseek", "mxfp8", "amp-bf16", "pure-fp16"])
def test_converted_layers_have_the_bits_of_runs(policy):
    model = make()
    reference = make()
    assert ht.convert(model, policy, rules={"2": {"operands": "fp16", "accumulate": "fp32"}}) is model
    assert isinstance(model[0], ht.PolicyLinear) and set(model.state_dict()) == set(reference.state_dict())
    run = ht.emulate(reference, policy, rules={"2": {"operands": "fp16", "accumulate": "fp32"}}, seed=1)
    results = []
    for its, layer in ((model, model[0]), (reference, reference[0])):
        x = X.clone().requires_grad_()
        y = layer(x) if its is model else None
        if y is None:
            with run:
                y = layer(x)
                y.backward(torch.linspace(-1, 1, y.numel()).reshape(y.shape))
        else:
            y.backward(torch.linspace(-1, 1, y.numel()).reshape(y.shape))
        results.append([y.detach(), x.grad, layer.weight.grad, layer.bias.grad])
    for a, b in zip(*results):
        assert torch.equal(a, b)


def test_converted_models_are_saved_compiled_and_refused():
    model = ht.convert(make(), "mxfp8")
    y = model(X)
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    assert torch.equal(torch.load(file, weights_only=False)(X), y)
    assert torch.equal(torch.compile(model, fullgraph=True, backend="aot_eager")(X), y)
    assert isinstance(ht.convert(nn.Linear(3, 3), "mxfp8"), ht.PolicyLinear)
    for policy in ("fp8-hybrid", "strict-bf16"):
        with pytest.raises(ValueError, match="^policy: "):
            ht.convert(make(), policy)


def test_convert_meets_every_name_and_refuses_what_it_would_break():
    model = nn.ModuleDict({"a": nn.Linear(3, 3)})
    model["b"] = model["a"]
    ht.convert(model, "mxfp8")
    assert isinstance(model["b"], ht.PolicyLinear) and model["a"] is model["b"]
    assert "mxfp4" in str(ht.convert(model, "mxfp4")["a"])
    hooked = nn.Linear(3, 3)
    hooked.register_forward_hook(lambda *_: None)
    for bad in (torch.nn.utils.weight_norm(nn.Linear(3, 3)), torch.nn.utils.parametrizations.weight_norm(nn.Linear(3, 3)), hooked, nn.TransformerEncoderLayer(8, 2)):
        with pytest.raises(ValueError, match="^model: "):
            ht.convert(nn.Sequential(bad), "mxfp8")
    for call, message in ((lambda: ht.convert(None, "mxfp8"), "^model: "), (lambda: ht.emulate(model, "fp32"), "^model: .* carries a policy"), (lambda: ht.emulate(make().bfloat16(), "fp32"), "^model: 0.weight is torch.bfloat16"),
                          (lambda: ht.emulate(torch.compile(make()), "fp32"), "^model: .*torch.compile"), (lambda: ht.emulate(make(), "fp32", rules=["0"]), "^rules"), (lambda: ht.emulate(make(), "fp32", rules={0: "bf16"}), "^rules")):
        with pytest.raises(TypeError, match=message):
            call()


def test_what_would_go_wrong_later_is_refused():
    import copy
    model = make()
    run = ht.emulate(model, "O2", seed=1)
    optimizer = ht.PolicyOptimizer(run, model.named_parameters(), "adamw")
    with pytest.raises(TypeError, match="state_dict"):
        copy.deepcopy(optimizer)
    with pytest.raises(ValueError, match="^parameters: none of the model"):
        ht.PolicyOptimizer(run, make().named_parameters(), "adamw")
    with run:
        optimizer.backward(F.cross_entropy(model(X), LABELS))
    optimizer.unscale_()
    for again in (optimizer.unscale_, lambda: optimizer.backward(model(X).sum())):
        with pytest.raises(RuntimeError, match="unscale_"):
            again()
    model.load_state_dict(make().state_dict())
    with pytest.raises(RuntimeError, match="written since"):
        optimizer.step()
    with pytest.raises(ValueError, match="^state: of other groups"):
        optimizer.load_state_dict({**optimizer.state_dict(), "param_groups": []})
    for bad in ({}, {**run.state_dict(), "step": -5}, {**run.state_dict(), "scales": "x"}):
        with pytest.raises(ValueError, match="^state: "):
            run.load_state_dict(bad)
    with run:
        loss = model(X).sum()
    with pytest.raises(RuntimeError, match="after the `with`"):
        loss.backward()
    rounded = ht.optim(torch.optim.SGD(make().parameters()), weights="bf16")
    for call, error, name in ((lambda: ht.optim(rounded, weights="bf16"), ValueError, "optimizer"), (lambda: ht.optim(torch.optim.SGD(make().parameters()), states="zz"), ValueError, "states"),
                              (lambda: ht.optim(torch.optim.SGD(make().parameters()), weights=("bf16", "x")), ValueError, "weights"), (lambda: ht.optim(torch.optim.SGD(make().parameters()), generator=3), TypeError, "generator")):
        with pytest.raises(error, match=f"^{name}"):
            call()


def test_masters_adopt_what_somebody_else_writes():
    model = make()
    optimizer = ht.optim(torch.optim.SGD(model.parameters(), lr=0.0), weights="bf16", master=True)
    plain_steps(optimizer, model, 1)
    with torch.no_grad():
        model[0].weight.fill_(0.5)
    assert bool((plain_steps(optimizer, model, 1)[0] == 0.5).all())
