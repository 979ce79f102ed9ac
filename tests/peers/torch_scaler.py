#!/usr/bin/env python3
"""What torch.amp.GradScaler answers to scripted iterations, on the CPU: tests/golden/torch_scaler.json.

    python tests/peers/torch_scaler.py [--out FILE] [--random N] [--seed S]        needs torch

tests/training/torch_scaler_test.cpp replays the calls and compares. One scenario per line: settings, and operations with their answers:

    ["scale", loss, scaled loss]                    floats are code words in hex, NaN is 7fc00000; gradients are one string per tensor
    ["gradients", optimizer, [tensor, ...]]         before unscaling; a parameter without one is left out
    ["unscale", optimizer, found, [tensor, ...]]
    ["clip", optimizer, max norm, norm, [tensor, ...]]
    ["step", optimizer, taken, [tensor, ...]]       null for gradients that are as before
    ["update", scale, tracker]    ["set", new scale, scale, tracker]
    ["save", state]               ["load", state, scale, tracker]      ["new", settings]: another scaler continues
    ["repeat", times, [operation without answers, ...], scale, tracker, steps taken, mix of every scale]
    [..., "error"]                torch raised an exception
"""
import argparse, json, math, random, struct
import torch


def word(x):
    return "7fc00000" if x != x else "%08x" % struct.unpack("<I", struct.pack("<f", x))[0]


def words(tensor):
    return "".join(word(x) for x in tensor.flatten().tolist())


def number(x):
    return x if math.isfinite(x) else "NaN" if x != x else "Infinity" if x > 0 else "-Infinity"


class Counting(torch.optim.SGD):
    """Counts steps; takes them only if a learning rate is given."""
    def __init__(self, sizes, lr=0.0):
        self.tensors = [torch.nn.Parameter(torch.zeros(size)) for size in sizes]
        self.taken, self.moves = 0, lr != 0
        super().__init__(self.tensors, lr=lr or 1.0)

    def step(self, closure=None):
        self.taken += 1
        if self.moves:
            super().step()

    def gradients(self):
        return [words(p.grad) for p in self.tensors if p.grad is not None]


class Scenario:
    """Calls torch's scaler and records its answers."""
    def __init__(self, name, sizes=((3,),), static=False, lr=0.0, **settings):
        self.name, self.settings, self.static, self.operations = name, settings, static, []
        self.optimizers = [Counting(s, lr) for s in sizes]
        self.scaler = torch.amp.GradScaler("cpu", **settings)
        self.constant = settings.get("init_scale", 65536.0)

    def note(self, operation, call, *answers):
        try:
            call()
        except (AssertionError, RuntimeError) as problem:
            assert "overflow" in str(problem) or "scale" in str(problem) or "recorded" in str(problem) or "step" in str(problem) or "state dict" in str(problem), problem
            self.operations.append(operation + ["error"])
        else:
            self.operations.append(operation + [a() for a in answers])

    def at(self):
        return word(self.scaler.get_scale()), self.scaler._get_growth_tracker()

    def scale(self, loss=1.0):
        answer = []
        self.note(["scale", word(loss)], lambda: answer.append(self.scaler.scale(torch.tensor(loss, dtype=torch.float32)).item()), lambda: word(answer[0]))

    def gradients(self, optimizer, *tensors):
        o = self.optimizers[optimizer]
        for p, values in zip(o.tensors, tensors):
            p.grad = None if values is None else torch.tensor(values, dtype=torch.float32)
        self.operations.append(["gradients", optimizer, o.gradients()])

    def found(self, optimizer):
        recorded = self.scaler._per_optimizer_states[id(self.optimizers[optimizer])]["found_inf_per_device"]
        return int(sum(v.item() for v in recorded.values()) > 0) if recorded else None

    def unscale(self, optimizer=0):
        o = self.optimizers[optimizer]
        self.note(["unscale", optimizer], lambda: self.scaler.unscale_(o), lambda: self.found(optimizer) if self.scaler.is_enabled() else None, o.gradients)

    def clip(self, optimizer, most):
        o, norm = self.optimizers[optimizer], []
        self.note(["clip", optimizer, word(most)], lambda: norm.append(torch.nn.utils.clip_grad_norm_(o.tensors, most)), lambda: word(norm[0].item()), o.gradients)

    def step(self, optimizer=0):
        o = self.optimizers[optimizer]
        before, gradients = o.taken, o.gradients()
        self.note(["step", optimizer], lambda: self.scaler.step(o), lambda: o.taken - before, lambda: None if o.gradients() == gradients else o.gradients())

    def update(self):
        self.note(["update"], lambda: self.scaler.update(self.constant) if self.static else self.scaler.update(), lambda: self.at()[0], lambda: self.at()[1])

    def set(self, scale):
        self.note(["set", number(scale)], lambda: self.scaler.update(scale), lambda: self.at()[0], lambda: self.at()[1])

    def save(self):
        state = self.scaler.state_dict()
        self.operations.append(["save", {k: number(v) for k, v in state.items()}])
        return state

    def load(self, state):
        self.note(["load", {k: number(v) for k, v in state.items()}], lambda: self.scaler.load_state_dict(state), lambda: self.at()[0], lambda: self.at()[1])

    def new(self, **settings):
        self.scaler = torch.amp.GradScaler("cpu", **settings)
        self.operations.append(["new", {k: number(v) if isinstance(v, float) else v for k, v in settings.items()}])

    def iteration(self, *gradients):
        """One list of tensors per optimizer."""
        self.scale()
        for i, tensors in enumerate(gradients):
            self.gradients(i, *tensors)
            self.step(i)
        self.update()

    def repeat(self, times, *gradients):
        """Repeats iteration() and records the end and a mix of all scales."""
        start, mix, taken = len(self.operations), 0, sum(o.taken for o in self.optimizers)
        for _ in range(times):
            del self.operations[start:]
            self.iteration(*gradients)
            mix = (mix * 0x100000001B3 ^ int(self.at()[0], 16)) % 2**64
        inner = [o[:3] if o[0] == "gradients" else o[:2] if o[0] in ("scale", "step") else o[:1] for o in self.operations[start:]]
        del self.operations[start:]
        self.operations.append(["repeat", times, inner, *self.at(), sum(o.taken for o in self.optimizers) - taken, "%016x" % mix])

    def to_json(self):
        settings = {k: number(v) if isinstance(v, float) else v for k, v in self.settings.items()}
        return {"name": self.name, "settings": settings, "static": self.static, "optimizers": len(self.optimizers), "operations": self.operations}


INF, NAN, BIG, TINY = float("inf"), float("nan"), 3.4028234663852886e38, 1.401298464324817e-45


def scripted():
    s = Scenario("defaults: growth every 2000 updates, one overflow between")
    s.repeat(4100, [[1.0, -3.0, 0.1]])
    s.iteration([[1.0, INF, 0.1]])
    s.repeat(2001, [[0.3, -0.0, 1e-30]])
    yield s

    s = Scenario("overflows of every kind", growth_interval=3)
    for bad in (INF, -INF, NAN, None, BIG, None, None, None, NAN, NAN, None, INF, None, None, None, None):
        s.iteration([[1.0, -7.0, 2e-38 if bad is None else bad]])
    yield s

    s = Scenario("two losses, three optimizers, one update", sizes=((2,), (2, 3), (1,)), growth_interval=2)
    for i in range(12):
        s.scale(0.5 + i)
        s.scale(-2.25)
        for o in range(3):
            bad = [1e4, INF, NAN, 1e4][i % 4] if o == i % 3 else 3.0
            s.gradients(o, *[[bad] + [0.7 * i] * (size - 1) for size in ((2,), (2, 3), (1,))[o]])
        if i % 2:
            s.unscale(1)
        if i == 5:
            s.unscale(1)
        for o in (0, 2, 1) if i % 3 else (1, 0):
            s.step(o)
        s.update()
    yield s

    s = Scenario("unscaling once, clipping in between", sizes=((2, 2),))
    for i, tensors in enumerate(([[3 * 65536.0, 0.0], [0.0, -4 * 65536.0]], [[1e4, 2e3], [5.0, 7e6]], [[INF, 1.0], [2.0, 3.0]], [[NAN, 1.0], [2.0, 3.0]], [[1.0, 1.0], [1.0, 1e-9]],
                                 [[0.0, 0.0], [0.0, -0.0]], [[1e20, 65536.0], [-3e4, 8.0]])):
        s.scale()
        s.gradients(0, *tensors)
        s.unscale()
        s.clip(0, [1.0, 0.5, 1.0, 1.0, 100.0, 1.0, 0.1][i])
        s.unscale()
        s.step()
        s.step()
        s.unscale()
        s.update()
    yield s

    s = Scenario("down through the subnormals to zero, and on", growth_interval=2)
    for i in range(170):
        s.scale(3.0)
        s.gradients(0, [NAN if i % 5 else INF, 1.0, TINY])
        if i > 140 and i % 3 == 0:
            s.unscale()
        s.step()
        s.update()
    for tensors in ([0.0, 0.0, -0.0], [1.0, 0.0, -2.0], [0.0, INF, 0.0], [1.0, 1.0, 1.0], [1.0, 1.0, 1.0]):
        s.iteration([tensors])
    yield s

    s = Scenario("inverses of small scales", growth_interval=1000)
    for e in (-120, -125, -126, -127, -128, -129, -140, -149):
        for scale in (2.0**e, min(1.5 * 2.0**e, 1.0), 2.0**e * (1 - 2.0**-23)):
            s.scale()
            s.set(scale)
            s.iteration([[1.0, 0.0, -TINY]])
            s.iteration([[BIG, -1e-38, 3e-12]])
    yield s

    s = Scenario("growth is refused at infinity", growth_interval=1)
    for i in range(115):
        s.iteration([[1.0, BIG, TINY]])
    s.iteration([[1.0, INF, TINY]])
    for i in range(3):
        s.iteration([[1.0, BIG, TINY]])
    yield s

    for growth, backoff, interval in ((1.3, 0.7, 3), (1.0000001, 0.9999999, 1), (1e300, 1e-300, 2), (7.0, 0.0, 1), (2.0, -0.5, 2), (2.0, 0.5, 0), (2.0, 0.5, -1)):
        s = Scenario(f"growth {growth}, backoff {backoff}, interval {interval}", init_scale=1234.567, growth_factor=growth, backoff_factor=backoff, growth_interval=interval)
        for i in range(14):
            s.iteration([[1.0 + i, INF if i % 5 == 4 else 1.0, 0.3]])
        yield s

    s = Scenario("saved and restored", growth_interval=4)
    for i in range(6):
        s.iteration([[1.0, INF if i == 2 else 3.0, 0.0]])
    kept = s.save()
    s.new(init_scale=7.0, growth_interval=99)
    s.load(kept)
    s.save()
    for i in range(5):
        s.iteration([[1.0, 3.0, 0.0]])
    s.load(kept)
    s.iteration([[1.0, 3.0, 0.0]])
    s.save()
    s.load({"scale": 0.1, "growth_factor": 0.5, "backoff_factor": 3.0, "growth_interval": 2, "_growth_tracker": -2})
    for i in range(7):
        s.iteration([[1.0, INF if i == 5 else 3.0, 0.0]])
    s.scale()
    s.gradients(0, [INF, 0.0, 0.0])
    s.unscale()
    s.load(kept)  # in the middle of an iteration
    s.step()
    s.update()
    s.load({})
    for scale in (INF, NAN, 0.0, -3.0):
        s.load(dict(kept, scale=scale))
        s.iteration([[1.0, 3.0, 0.0]])
        s.save()
    yield s

    s = Scenario("the user's own scale", growth_interval=3)
    s.scale()
    for scale in (0.1, 1024.0, 0.0, INF, NAN, -2.0, 1e39, BIG, TINY, 1e-46, 65536.0):
        s.gradients(0, [1.0, 2.0, 1e-3])
        s.unscale()
        s.set(scale)
        s.iteration([[1.0, 2.0, 1e-3]])
    yield s

    for scale in (128.0, 2.0**24, 1000.1):
        s = Scenario(f"a static scale, {scale}", static=True, init_scale=scale)
        for i in range(6):
            s.iteration([[1.0, INF if i % 3 == 1 else 2.0, NAN if i == 5 else 3.0]])
        yield s

    s = Scenario("disabled", enabled=False)
    s.scale(1.5)
    s.gradients(0, [INF, 2.0, NAN])
    for call in (s.unscale, s.unscale, s.step, s.step, s.update):
        call()
    s.load({"scale": 1.0})
    s.save()
    yield s

    s = Scenario("wrong order, and a first scale that is no float", init_scale=0.1, sizes=((3,), (0,)))
    for call in (s.unscale, s.step, s.update, s.save):
        call()
    s.set(3.0)
    s.scale(3.0)
    s.save()
    for call in (s.update, s.step, s.update):  # without gradients
        call()
    s.gradients(0, [1.0, 2.0, 3.0])
    for call in (s.step, s.unscale, s.update):
        call()
    s.gradients(1, [])
    s.step(1)
    s.update()
    s.iteration([[1.0, 2.0, 3.0]])
    yield s


def half_network():
    """A parameter in fp32, with forward and backward in fp16, so that gradients overflow by themselves."""
    torch.manual_seed(1)
    s = Scenario("a network in fp16", sizes=((8,),), lr=2.0**-6, growth_interval=4)
    o = s.optimizers[0]
    with torch.no_grad():
        o.tensors[0].copy_(torch.arange(8) / 8)
    x = torch.tensor([1.0, -2.0, 0.5, 3.0, -0.25, 4.0, 0.001, 7.0]).half()
    for i in range(60):
        o.zero_grad()
        loss = (((o.tensors[0].half() * x).sum() - 3) * (1 if i % 7 else 0.01)).float() ** 2
        s.scale(loss.item())
        s.scaler.scale(loss).backward()
        s.gradients(0, o.tensors[0].grad.tolist())
        s.step()
        s.update()
    return s


def drawn(seed):
    """Any calls in any order."""
    r = random.Random(seed)
    pool = [INF, -INF, NAN, BIG, -BIG, TINY, 0.0, -0.0, 1.0]
    sizes = [tuple(r.choice((1, 2, 5, 70)) if r.random() < 0.1 else r.choice((1, 2, 3)) for _ in range(r.randint(1, 2))) for _ in range(r.randint(1, 3))]
    s = Scenario(f"drawn {seed}", sizes=sizes, init_scale=r.choice((65536.0, 0.3, 1.0, 2.0**-140, 2.0**120, 1e10)), growth_factor=r.choice((2.0, 2.0, 1.7, 64.0)),
                 backoff_factor=r.choice((0.5, 0.5, 0.1, 2.0**-20)), growth_interval=r.choice((1, 2, 3, 5)))
    kept, chance = None, r.choice((0.02, 0.1, 0.3))
    for _ in range(r.randint(8, 25)):
        if r.random() < 0.95:
            s.scale(r.uniform(-9, 9))
        order = [i for i in range(len(sizes)) if r.random() < 0.9]
        r.shuffle(order)
        for i in order:
            tensors = [[r.choice(pool) if r.random() < chance else struct.unpack("<f", struct.pack("<f", r.uniform(-1, 1) * 2.0 ** r.randint(-60, 60)))[0] for _ in range(n)] for n in sizes[i]]
            s.gradients(i, *[None if r.random() < 0.03 else t for t in tensors])
            if r.random() < 0.3:
                s.unscale(i)
            if r.random() < 0.95:
                s.step(i)
            if r.random() < 0.05:
                r.choice((s.step, s.unscale))(i)
        if r.random() < 0.9:
            s.update()
        elif r.random() < 0.5:
            s.set(r.choice((1.0, 0.7, 2.0**-130, 2.0**127, 65536.0)))
        if r.random() < 0.08:
            kept = s.save()
        if kept and r.random() < 0.08:
            s.load(kept)
    return s


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", default="tests/golden/torch_scaler.json")
    parser.add_argument("--random", type=int, default=24, help="how many scenarios are drawn")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    scenarios = [*scripted(), half_network(), *(drawn(options.seed + i) for i in range(options.random))]
    lines = ",\n".join(json.dumps(s.to_json(), separators=(",", ":"), allow_nan=False) for s in scenarios)
    with open(options.out, "w") as out:
        out.write('{"made_by":"tests/peers/torch_scaler.py","torch":%s,"scenarios":[\n%s\n]}\n' % (json.dumps(torch.__version__), lines))


if __name__ == "__main__":
    main()
