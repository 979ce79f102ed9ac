#!/usr/bin/env python3
"""Times a training step of a transformer in PyTorch under policies of halfulp.torch, torchao's emulation and
QPyTorch's quantizers, relative to plain torch in fp32.

usage: training_steps.py [--quick] [--only WORD] [--out OUT.json]

The model has two layers of width 256 and 4 heads, 8 x 128 tokens, and SGD. torch and halfulp take all cores. A round
makes every kind of step once, in an order of its own, so that what else the machine does meets all of them alike. A
row has the median of the rounds' ratios, and their quartiles. With every=10, which counts one step of ten, a row is
the mean of ten steps. Exit status 1 without torch or halfulp.
"""
import argparse
import contextlib
import dataclasses
import json
import random
import signal
import statistics
import sys
import time

POLICIES = ("amp-bf16", "bf16-sr", "fp8-hybrid", "te-current", "torchao-tensorwise", "torchao-rowwise", "mxfp8",
            "mxfp4", "nvfp4", "fp8-deepseek")
UNITS = ("hopper.wgmma.fp16.fp32", "hopper.wgmma.e4m3.fp32")
WATCHED = "mxfp8", "fp8-hybrid"
PEERS = "torchao ", "QPyTorch"
PLAIN, UNSCALED = "torch, fp32", "e4m3-e5m2-unscaled"
WIDTH, HEADS, BATCH, LENGTH, WORDS = 256, 4, 8, 128, 64


def network(torch):
    """Pre-norm layers of attention and a perceptron, as in GPT-2."""
    nn, F = torch.nn, torch.nn.functional

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
            self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
            self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, x):
            parts = self.qkv(self.before(x)).chunk(3, -1)
            q, k, v = (part.reshape(BATCH, LENGTH, HEADS, -1).transpose(1, 2) for part in parts)
            seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(seen.transpose(1, 2).reshape(BATCH, LENGTH, WIDTH))
            return x + self.down(F.gelu(self.up(self.between(x))))

    class Transformer(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
            self.layers = nn.Sequential(Layer(), Layer())
            self.last, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS)

        def forward(self, tokens):
            return self.head(self.last(self.layers(self.words(tokens) + self.places(torch.arange(LENGTH)))))

    torch.manual_seed(1)
    return Transformer()


class Steps:
    """Steps of a model of its own."""

    def __init__(self, torch, around=None, change=None, count=1):
        self.model, self.count = network(torch), count
        if change:
            change(self.model)
        self.around = around(self.model) if around else contextlib.nullcontext()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.loss_of = torch.nn.functional.cross_entropy
        self.tokens = torch.randint(0, WORDS, (BATCH, LENGTH + 1), generator=torch.Generator().manual_seed(2))

    def seconds_a_step(self):
        start = time.perf_counter()
        for _ in range(self.count):
            self.optimizer.zero_grad()
            with self.around:
                logits = self.model(self.tokens[:, :-1])
                self.loss_of(logits.reshape(-1, WORDS), self.tokens[:, 1:].reshape(-1)).backward()
            self.optimizer.step()
        return (time.perf_counter() - start) / self.count


def kinds_of_steps(torch, halfulp):
    """{name: what makes it}; the first is what the others are held against"""
    def emulated(policy, **options):
        return lambda model: halfulp.torch.emulate(model, policy, **options)

    def looked_at(policy):
        return lambda model: halfulp.torch.microscope(model, policy, every=10)

    def policy_of(name, **rule):
        return {"name": name, "title": name, "source": "this benchmark", "rules": [rule]}

    def of_torchao(recipe):
        def change(model):
            from torchao.float8 import Float8LinearConfig, convert_to_float8_training
            config = dataclasses.replace(Float8LinearConfig.from_recipe_name(recipe), emulate=True)
            convert_to_float8_training(model, config=config)
        return change

    def of_qpytorch(model):
        """Its quantizers around every linear layer, as its documentation puts them into a network."""
        from qtorch import FloatingPoint
        from qtorch.quant import Quantizer

        class Linear(torch.nn.Linear):
            operand = Quantizer(forward_number=FloatingPoint(4, 3), forward_rounding="nearest")
            result = Quantizer(backward_number=FloatingPoint(5, 2), backward_rounding="nearest")

            def forward(self, x):
                y = torch.nn.functional.linear(self.operand(x), self.operand(self.weight), self.bias)
                return self.result(y)
        for module in model.modules():
            if type(module) is torch.nn.Linear:
                module.__class__ = Linear

    kinds = {PLAIN: lambda: Steps(torch)}
    for policy in POLICIES:
        kinds[policy] = lambda policy=policy: Steps(torch, emulated(policy))
    for unit in UNITS:
        policy = policy_of(unit, operators=["linear", "attention-scores", "attention-values"],
                           operands=unit.split(".")[2], accumulate=unit)
        kinds[unit] = lambda policy=policy: Steps(torch, emulated(policy))
    for policy in WATCHED:
        kinds[policy + ", every=10"] = lambda policy=policy: Steps(torch, emulated(policy, every=10), count=10)
        kinds[f"microscope, {policy}"] = lambda policy=policy: Steps(torch, looked_at(policy), count=10)
    e4m3 = policy_of(UNSCALED, operators=["linear"],
                     operands={"activation": "e4m3", "weight": "e4m3", "gradient-of-activation": "e5m2"})
    kinds[UNSCALED] = lambda: Steps(torch, emulated(e4m3))
    kinds["QPyTorch, " + UNSCALED] = lambda: Steps(torch, change=of_qpytorch)
    for recipe in ("tensorwise", "rowwise"):
        kinds[f"torchao {recipe}, emulate"] = lambda recipe=recipe: Steps(torch, change=of_torchao(recipe))
    return kinds


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0],
                                     usage=__doc__.split("usage: ")[1].split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="3 rounds instead of 15")
    parser.add_argument("--only", default="", help="rows whose names have this in them")
    parser.add_argument("--out", help="a file for the ratios, as JSON")
    options = parser.parse_args()
    try:
        import torch
        import halfulp.torch
    except (ImportError, OSError) as why:
        print(f"training_steps.py: skipped: {' '.join(str(why).split())}", file=sys.stderr)
        return 1
    kinds = kinds_of_steps(torch, halfulp)
    wanted = [name for name in kinds if name == PLAIN or options.only in name]
    if wanted == [PLAIN] and options.only not in PLAIN:
        parser.error(f"--only: no row has '{options.only}' in it; there are {', '.join(kinds)}")
    try:
        out = open(options.out, "w") if options.out is not None else None
    except OSError as why:
        parser.error(f"--out: {options.out}: {why.strerror}")
    steps, skipped = {}, {}
    for name in wanted:
        try:
            steps[name] = kinds[name]()
            steps[name].seconds_a_step()
        except Exception as why:  # whatever is wrong with somebody else's package
            if not name.startswith(PEERS):
                raise
            skipped[name] = " ".join(f"{type(why).__name__} {why}".split())[:200]
            steps.pop(name, None)
    seconds = {name: [] for name in steps}
    order = random.Random(1)
    for _ in range(3 if options.quick else 15):
        for name in order.sample(list(steps), len(steps)):
            seconds[name].append(steps[name].seconds_a_step())
    rows = {}
    for name, its in seconds.items():
        ratios = sorted(s / plain for s, plain in zip(its, seconds[PLAIN]))
        low, middle, high = statistics.quantiles(ratios, n=4)
        rows[name] = {"milliseconds": 1e3 * statistics.median(its), "ratio": middle, "quartiles": [low, high]}
    about = {"torch": torch.__version__, "halfulp": halfulp.__version__, "threads": torch.get_num_threads()}
    print("a training step: " + ", ".join(f"{name} {value}" for name, value in about.items()) + "\n")
    print(f"{'':36}      ms   ratio   quartiles")
    for name, row in rows.items():
        low, high = row["quartiles"]
        print(f"{name:36} {row['milliseconds']:7.1f} {row['ratio']:7.2f}   {low:.2f} {high:.2f}")
    for name, why in skipped.items():
        print(f"{name:36} skipped: {why}")
    if out:
        with out:
            json.dump({**about, "rows": rows, "skipped": skipped}, out, indent=1)
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends it without a traceback
    sys.exit(main())
