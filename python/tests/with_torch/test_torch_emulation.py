"""Plain torch modules under a policy against the trainer: the same bits of every parameter after some steps."""
import math

import numpy as np
import pytest

torch = pytest.importorskip("torch", minversion="2.4")
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import halfulp  # noqa: E402
import halfulp.torch as ht  # noqa: E402
from halfulp import _core  # noqa: E402

POLICIES = [policy["name"] for policy in halfulp.policies()]


class Perceptron(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.relu1, self.fc2 = nn.Linear(20, 16), nn.ReLU(), nn.Linear(16, 10)

    def forward(self, x):
        return self.fc2(self.relu1(self.fc1(x)))


class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.relu1, self.pool1 = nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)
        self.conv2, self.relu2, self.pool2 = nn.Conv2d(4, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)
        self.fc = nn.Linear(8 * 2 * 2, 10)

    def forward(self, x):
        x = x.reshape(-1, 1, 8, 8)
        x = self.pool1(self.relu1(self.conv1(x)))
        x = self.pool2(self.relu2(self.conv2(x)))
        return self.fc(x.flatten(1))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.lstm, self.head = nn.Embedding(12, 8), nn.LSTM(8, 16, batch_first=True), nn.Linear(16, 12)

    def forward(self, x):
        return self.head(self.lstm(self.embedding(x))[0])


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (t.reshape(batch, length, self.heads, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        q, k = ht.rotary(q), ht.rotary(k)
        return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.attention, self.norm2 = nn.LayerNorm(width), Attention(width, heads), nn.LayerNorm(width)
        self.fc1, self.gelu, self.fc2 = nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.fc2(self.gelu(self.fc1(self.norm2(x))))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.block1, self.block2 = nn.Embedding(12, 16), Block(16, 2), Block(16, 2)
        self.norm, self.head = nn.LayerNorm(16), nn.Linear(16, 12)

    def forward(self, x):
        return self.head(self.norm(self.block2(self.block1(self.embedding(x)))))


NETWORKS = {
    "mlp": (Perceptron, {"inputs": 20, "outputs": 10, "width": 16, "depth": 1}, {}),
    "cnn": (Convolutions, {"inputs": 8, "outputs": 10, "width": 4}, {}),
    "lstm": (Recurrent, {"inputs": 12, "width": 16}, {"embedding.weight": "embedding.table", "lstm.weight_ih_l0": "lstm.weight_ih", "lstm.weight_hh_l0": "lstm.weight_hh",
                                                     "lstm.bias_ih_l0": "lstm.bias_ih", "lstm.bias_hh_l0": "lstm.bias_hh"}),
    "transformer": (Transformer, {"inputs": 12, "width": 16, "depth": 2, "heads": 2}, {"embedding.weight": "embedding.table"}),
}


def trainers_name(name, network):
    found = NETWORKS[network][2].get(name, name)
    return found.replace(".weight", ".gain") if "norm" in found else found


def batches(network, count):
    generator = np.random.default_rng(1)
    for _ in range(count):
        if network in ("mlp", "cnn"):
            size = NETWORKS[network][1]["inputs"] ** (2 if network == "cnn" else 1)
            yield generator.normal(size=(6, size)).astype(np.float32), generator.integers(0, 10, 6)
        else:
            text = generator.integers(0, 12, (3, 6))
            yield text[:, :-1].astype(np.float32), text[:, 1:].reshape(-1)


def trained_both_ways(network, policy, steps, kind="adam", lr=1e-2, seed=5):
    """Parameters by name from the model under the policy, and from the trainer."""
    torch.manual_seed(0)
    make, options, _ = NETWORKS[network]
    model = make()
    start = {trainers_name(name, network): p.detach().reshape(-1).tolist() for name, p in model.named_parameters()}
    data = list(batches(network, steps))
    reference = _core.Reference(network, {k: float(v) for k, v in options.items()}, policy, kind, {"lr": lr}, seed,
                                [(list(x.shape), x.reshape(-1).tolist(), labels.tolist()) for x, labels in data], start)
    reference.run()
    untrained = {trainers_name(name, network): p.detach().clone().reshape(-1).numpy() for name, p in model.named_parameters()}
    run = ht.emulate(model, policy, seed=seed)
    optimizer = ht.PolicyOptimizer(run, ((trainers_name(name, network), p) for name, p in model.named_parameters()), kind, lr=lr)
    losses = []
    for x, labels in data[:reference.steps]:
        optimizer.zero_grad()
        with run:
            inputs = torch.from_numpy(x)
            logits = model(inputs if network in ("mlp", "cnn") else inputs.long())
            loss = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), torch.from_numpy(labels))
            optimizer.backward(loss)
        optimizer.step()
        losses.append(float(loss.detach()))
    assert math.isnan(reference.loss) == math.isnan(losses[-1]) and (math.isnan(losses[-1]) or reference.loss == losses[-1]), (reference.loss, losses[-1])
    assert reference.steps == steps or policy in ("O3", "pure-fp16", "strict-fp16"), reference.steps
    ours = {trainers_name(name, network): p.detach().reshape(-1).numpy() for name, p in model.named_parameters()}
    assert any(not np.array_equal(ours[name], untrained[name]) for name in ours)
    return run, ours, {name: np.asarray(values, np.float32) for name, values in reference.values.items()}


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("network", NETWORKS)
def test_bits_are_the_trainers(network, policy, optimizer):
    run, ours, theirs = trained_both_ways(network, policy, 50, optimizer)
    assert ours.keys() == theirs.keys()
    for name in ours:
        assert np.array_equal(ours[name].view(np.uint32), theirs[name].view(np.uint32)), (name, ours[name][:4], theirs[name][:4])
    assert not run.not_covered, run.not_covered
