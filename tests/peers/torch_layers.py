#!/usr/bin/env python3
"""Forward and backward of every layer by PyTorch on the CPU, in fp32. tests/training/layers_torch_test.cpp compares our
layers with them.

    python tests/peers/torch_layers.py OUT.json [SEED]

A case holds the layer and its numbers, named input tensors, and torch's answers: y (or the loss), dx and each
parameter's gradient of the sum of y times `weights`. A tensor is its shape and hexadecimal floats in one string: every
bit counts, and decimals are longer.
"""
import json
import math
import sys

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 20240601)
torch.set_num_threads(1)


def text(t):
    t = t.detach().to(torch.float32).contiguous()
    words = t.view(torch.int32).flatten().tolist() if t.dim() else [t.view(torch.int32).item()]
    return {"shape": list(t.shape), "words": "".join(f"{w & 0xFFFFFFFF:08x}" for w in words)}


def normal(*shape, scale=1.0):
    return scale * torch.randn(*shape)


cases = []


def case(layer, options, x, parameters, forward, differentiable=True):
    """forward(x) of a layer whose parameters are [(our name, tensor)]."""
    x = x.clone().requires_grad_(differentiable)
    y = forward(x)
    weights = normal(*y.shape)
    (y * weights).sum().backward()
    result = {"layer": layer, "options": options, "x": text(x), "weights": text(weights), "y": text(y),
              "parameters": {name: text(p) for name, p in parameters},
              "gradients": {name: text(p.grad) for name, p in parameters}}
    if differentiable:
        result["dx"] = text(x.grad)
    cases.append(result)


def randomise(module):
    for name, p in module.named_parameters():
        with torch.no_grad():
            p.copy_(normal(*p.shape, scale=0.5) + (1 if "weight" in name and p.dim() == 1 else 0))
    return module


def weight_and_bias(m):
    return [("weight", m.weight)] + ([("bias", m.bias)] if m.bias is not None else [])


def norm_parameters(m):
    return [("gain", m.weight)] + ([("bias", m.bias)] if getattr(m, "bias", None) is not None else [])


for rows, inputs, outputs, bias in [(4, 9, 5, True), (3, 20, 7, False)]:
    m = randomise(nn.Linear(inputs, outputs, bias=bias))
    case("linear", {"inputs": inputs, "outputs": outputs, "bias": bias}, normal(rows, inputs), weight_and_bias(m), m)

for inputs, outputs, kernel, stride, padding in [(2, 3, 3, 1, 1), (1, 2, 5, 2, 2), (3, 2, 1, 1, 0)]:
    m = randomise(nn.Conv2d(inputs, outputs, kernel, stride, padding))
    case("conv2d", {"inputs": inputs, "outputs": outputs, "kernel": kernel, "stride": stride, "padding": padding},
         normal(2, inputs, 7, 6), weight_and_bias(m), m)

m = randomise(nn.Embedding(6, 4))
case("embedding", {"rows": 6, "width": 4}, torch.tensor([[1.0, 5, 1], [0, 1, 4]]), [("table", m.weight)],
     lambda x: m(x.detach().long()), differentiable=False)

for shape in [(3, 8), (2, 3, 20)]:
    m = randomise(nn.LayerNorm(shape[-1]))
    case("layer-norm", {"width": shape[-1]}, normal(*shape, scale=2), norm_parameters(m), m)
    r = randomise(nn.RMSNorm(shape[-1], eps=1e-6))
    case("rms-norm", {"width": shape[-1]}, normal(*shape, scale=2), norm_parameters(r), r)

for shape, training in [((6, 3), True), ((2, 3, 4, 5), True), ((6, 3), False)]:
    m = randomise((nn.BatchNorm1d if len(shape) == 2 else nn.BatchNorm2d)(shape[1]))
    if not training:
        m.running_mean.copy_(normal(shape[1]))
        m.running_var.copy_(normal(shape[1]).abs() + 0.5)
    before = [m.running_mean.clone(), m.running_var.clone()]
    m.train(training)
    case("batch-norm", {"channels": shape[1], "training": training}, normal(*shape, scale=2), norm_parameters(m), m)
    cases[-1]["states"] = {"running_mean": text(before[0]), "running_variance": text(before[1])}
    cases[-1]["states_after"] = {"running_mean": text(m.running_mean), "running_variance": text(m.running_var)}

case("relu", {}, normal(4, 10), [], F.relu)
for form in ["none", "tanh"]:
    case("gelu", {"form": "erf" if form == "none" else form}, normal(5, 24, scale=2), [], nn.GELU(approximate=form))
case("softmax", {}, normal(4, 11, scale=3), [], lambda x: torch.softmax(x, -1))

for pooling, size, stride in [("max", 2, 2), ("max", 3, 1), ("average", 2, 2), ("average", 3, 2)]:
    pool = (nn.MaxPool2d if pooling == "max" else nn.AvgPool2d)(size, stride)
    case("pool", {"pooling": pooling, "size": size, "stride": stride}, normal(2, 2, 6, 7), [], pool)


def alibi_slopes(heads):
    """As the reference implementation describes it: geometric, and interpolated where heads is not a power of two."""
    def power_of_two(n):
        return [2.0 ** (-8.0 * (i + 1) / n) for i in range(n)]
    below = 2 ** math.floor(math.log2(heads))
    return power_of_two(below) + power_of_two(2 * below)[0::2][: heads - below]


def attention(x, qkv, out, heads, positions, causal):
    batch, length, width = x.shape
    each = width // heads
    q, k, v = (t.view(batch, length, heads, each).transpose(1, 2) for t in qkv(x).split(width, dim=2))
    if positions == "rope":
        angles = torch.outer(torch.arange(length).double(), 10000.0 ** (-torch.arange(0, each, 2).double() / each))
        cos, sin = torch.cos(angles).float(), torch.sin(angles).float()

        def turn(t):
            a, b = t[..., : each // 2], t[..., each // 2:]
            return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)
        q, k = turn(q), turn(k)
    scores = q @ k.transpose(-2, -1) / math.sqrt(each)
    if positions == "alibi":
        distance = (torch.arange(length)[:, None] - torch.arange(length)[None, :]).abs()
        scores = scores - torch.tensor(alibi_slopes(heads))[:, None, None] * distance
    if causal:
        scores = scores.masked_fill(torch.triu(torch.ones(length, length, dtype=torch.bool), 1), -math.inf)
    return out((torch.softmax(scores, -1) @ v).transpose(1, 2).reshape(batch, length, width))


for positions, width, heads, causal in [("none", 8, 2, True), ("rope", 12, 3, True), ("alibi", 12, 3, True), ("none", 4, 1, False)]:
    qkv, out = randomise(nn.Linear(width, 3 * width)), randomise(nn.Linear(width, width))
    case("attention", {"width": width, "heads": heads, "positions": positions, "causal": causal}, normal(2, 5, width),
         [("qkv.weight", qkv.weight), ("qkv.bias", qkv.bias), ("out.weight", out.weight), ("out.bias", out.bias)],
         lambda x: attention(x, qkv, out, heads, positions, causal))

# Independent of the above: torch's fused attention and its multi-head module.
own = nn.MultiheadAttention(8, 2, batch_first=True)
with torch.no_grad():
    for p in own.parameters():
        p.copy_(normal(*p.shape, scale=0.5))
mask = torch.triu(torch.ones(6, 6, dtype=torch.bool), 1)
case("attention", {"width": 8, "heads": 2, "positions": "none", "causal": True}, normal(2, 6, 8),
     [("qkv.weight", own.in_proj_weight), ("qkv.bias", own.in_proj_bias), ("out.weight", own.out_proj.weight), ("out.bias", own.out_proj.bias)],
     lambda x: own(x, x, x, attn_mask=mask, need_weights=False)[0])

for batch, length, inputs, width in [(3, 1, 4, 5), (2, 5, 3, 6)]:
    m = randomise(nn.LSTM(inputs, width, batch_first=True))
    case("lstm", {"inputs": inputs, "width": width}, normal(batch, length, inputs),
         [("weight_ih", m.weight_ih_l0), ("weight_hh", m.weight_hh_l0), ("bias_ih", m.bias_ih_l0), ("bias_hh", m.bias_hh_l0)], lambda x: m(x)[0])


def loss_case(layer, x, targets, loss, scale):
    x = x.clone().requires_grad_(True)
    value = loss(x, targets)
    (value * scale).backward()
    cases.append({"layer": layer, "options": {"scale": scale}, "x": text(x), "targets": text(targets.float()), "y": text(value), "dx": text(x.grad)})


loss_case("cross-entropy", normal(6, 10, scale=3), torch.tensor([0, 9, 3, 3, 1, 7]), F.cross_entropy, 1.0)
loss_case("cross-entropy", normal(4, 3, scale=30), torch.tensor([0, 2, 1, 1]), F.cross_entropy, 65536.0)
loss_case("bce", torch.cat([torch.sigmoid(normal(10, scale=2)), torch.tensor([0.0, 1.0, 1e-7])]), (torch.arange(13) % 3).float() / 2, F.binary_cross_entropy, 1.0)
loss_case("bce-with-logits", torch.cat([normal(10, scale=4), torch.tensor([-60.0, 60.0, 0.0])]), (torch.arange(13) % 3).float() / 2, F.binary_cross_entropy_with_logits, 8.0)

with open(sys.argv[1], "w") as f:
    f.write('{"made_by": "tests/peers/torch_layers.py", "torch": "%s",\n"cases": [\n' % torch.__version__)
    f.write(",\n".join(json.dumps(c, separators=(",", ":")) for c in cases))
    f.write("\n]}\n")
