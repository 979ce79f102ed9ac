#!/usr/bin/env python3
"""Steps of torch.optim's SGD, Adam and AdamW on a parameter, on the CPU: tests/golden/optimizers.json.

    python tests/peers/torch_optimizers.py [--out FILE] [--seed S] [--random N]        needs torch and numpy

tests/training/optimizer_torch_test.cpp takes the same steps and compares bits. One case per line: settings, the format
of parameter and gradients, the first weights, and for each step [lr, gradient or null, weights after]; at the end
momentum, or the means of gradients and their squares. Floats are code words of fp32 in hex, NaN is 7fc00000. `powers`:
Python's beta ** step.

What is compared is arithmetic that IEEE 754 defines, so the kernels without FMA are asked. Two things are replaced by what they stand for:
- MKL's square root of fp32 tensors is up to an ulp off: "sqrt": "ieee" takes numpy's in its place, "mkl" shows what it changes.
- `add` rounds numbers to the format of half tensors, alpha and the product with it too, on the CPU; GPUs' kernels compute in fp32 and round
  once. "add": "gpu" does so, "cpu" is torch's own, which for powers of two in bf16 is the same.
"""
import os
os.environ["ATEN_CPU_CAPABILITY"] = "default"

import argparse, json, math, random, struct
import numpy, torch

torch.set_num_threads(1)
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
mkl_sqrt, cpu_add, cpu_add_ = torch.Tensor.sqrt, torch.Tensor.add, torch.Tensor.add_


def ieee_sqrt(self):
    return torch.from_numpy(numpy.sqrt(self.numpy())) if self.dtype == torch.float32 else mkl_sqrt(self)


def gpu_add(self, other, *, alpha=1):
    other = other.float() if isinstance(other, torch.Tensor) else other
    return cpu_add(self.float(), other, alpha=alpha).to(self.dtype)


def words(tensor):
    def word(x):
        return "7fc00000" if math.isnan(x) else "%08x" % struct.unpack("<I", struct.pack("<f", x))[0]
    return "".join(word(x) for x in tensor.detach().float().tolist())


def magnitudes(rng, count, widest):
    """Values of many sizes, with zeros."""
    return [0.0 if rng.random() < 0.05 else rng.gauss(0, 1) * 10.0 ** rng.uniform(-widest, 2) for _ in range(count)]


def case(rng, kind, dtype, steps=6, count=48, sqrt="ieee", add="gpu", special=False, **settings):
    torch.Tensor.sqrt = ieee_sqrt if sqrt == "ieee" else mkl_sqrt
    torch.Tensor.add = gpu_add if add == "gpu" else cpu_add
    torch.Tensor.add_ = (lambda self, *a, **b: self.copy_(gpu_add(self, *a, **b))) if add == "gpu" else cpu_add_
    widest = {"fp32": 25, "bf16": 25, "fp16": 7}[dtype]
    p = torch.nn.Parameter(torch.tensor([rng.gauss(0, 1) * 10.0 ** rng.uniform(-3, 1) for _ in range(count)]).to(DTYPES[dtype]))
    o = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[kind]([p], foreach=False, **settings)
    result = {"kind": kind, "format": dtype, "sqrt": sqrt, "add": add, "settings": settings, "weights": words(p), "steps": []}
    scale = [10.0 ** rng.uniform(-widest, 2) for _ in range(count)]
    for step in range(steps):
        if step == steps // 2:
            o.param_groups[0]["lr"] /= 4
        if step == 2 and steps > 4:
            p.grad = None
        else:
            fresh = magnitudes(rng, count, widest)
            values = [fresh[i] if i % 2 else scale[i] * rng.gauss(0, 1) for i in range(count)]
            if special and step == 1:
                values[0:3] = [math.inf, -math.inf, math.nan]
            p.grad = torch.tensor(values).to(DTYPES[dtype])
        o.step()
        result["steps"].append([o.param_groups[0]["lr"], None if p.grad is None else words(p.grad), words(p)])
    state = o.state[p]
    if kind == "sgd":
        if state.get("momentum_buffer") is not None:
            result["first"] = words(state["momentum_buffer"])
    else:
        result["first"], result["second"] = words(state["exp_avg"]), words(state["exp_avg_sq"])
    return result


def fixed_cases(rng):
    for dtype in DTYPES:
        for settings in [{}, {"momentum": 0.9}, {"momentum": 0.9, "weight_decay": 0.01}, {"weight_decay": 0.03},
                         {"momentum": 0.9, "nesterov": True, "weight_decay": 0.01}]:
            yield case(rng, "sgd", dtype, lr=0.1, special=not settings, **settings)
        for kind in ["adam", "adamw"]:
            for settings in [{}, {"lr": 0.02, "weight_decay": 0.01}, {"lr": 0.003, "betas": [0.3, 0.95], "eps": 1e-6},
                             {"betas": [0.0, 0.99], "eps": 0.0}, {"lr": 0.01, "betas": [0.5, 0.999], "eps": 1e-15, "weight_decay": 0.01}]:
                yield case(rng, kind, dtype, special="eps" not in settings, **settings)
        yield case(rng, "adamw", dtype, steps=40, count=8, lr=0.01, weight_decay=0.1)
    yield case(rng, "sgd", "bf16", add="cpu", lr=0.125, momentum=0.5, nesterov=True, weight_decay=2.0 ** -6)
    yield case(rng, "adam", "bf16", add="cpu", weight_decay=2.0 ** -6, eps=2.0 ** -20)
    for kind in ["adam", "adamw"]:
        yield case(rng, kind, "fp32", steps=20, sqrt="mkl", lr=0.01)


def random_case(rng):
    dtype, kind = rng.choice(list(DTYPES)), rng.choice(["sgd", "adam", "adamw"])
    settings = {"lr": 10.0 ** rng.uniform(-6, 0)}
    if rng.random() < 0.6:
        settings["weight_decay"] = 10.0 ** rng.uniform(-5, -1)
    if kind != "sgd":
        settings["betas"] = [rng.choice([0.9, rng.random()]), rng.choice([0.999, 1 - 10.0 ** rng.uniform(-4, 0)])]
        settings["eps"] = rng.choice([1e-8, 0.0, 10.0 ** rng.uniform(-15, -2)])
    elif rng.random() < 0.7:
        settings["nesterov"] = rng.random() < 0.5
        settings["momentum"] = rng.random()
    return case(rng, kind, dtype, steps=rng.randint(2, 12), special=rng.random() < 0.2, **settings)


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--out", default=os.path.join(os.path.dirname(__file__), "../golden/optimizers.json"))
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--random", type=int, default=0, help="so many cases by chance besides")
    o = options.parse_args()
    rng = random.Random(o.seed)
    cases = list(fixed_cases(rng)) + [random_case(rng) for _ in range(o.random)]
    steps = [1, 2, 3, 7, 10, 100, 1000, 12345, 1000000]
    powers = [[beta, n, (beta ** float(n)).hex()] for beta in [0.9, 0.99, 0.999, 0.9999, 0.5, 0.0] for n in steps]
    with open(o.out, "w") as f:
        f.write('{"made_by":"tests/peers/torch_optimizers.py","torch":"%s",\n' % torch.__version__)
        f.write('"powers":%s,\n"cases":[\n' % json.dumps(powers, separators=(",", ":")))
        f.write(",\n".join(json.dumps(c, separators=(",", ":")) for c in cases))
        f.write("\n]}\n")


main()
