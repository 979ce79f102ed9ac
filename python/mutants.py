#!/usr/bin/env python3
"""Plants bugs, one at a time, in a copy of the Python package, and sees that the tests named beside each one fail.

usage: python/mutants.py PYTHON PACKAGE   (PYTHON has torch; PACKAGE: build/release/python)
       python/mutants.py --check          (does each bug's text occur exactly once?)

Exit status: 0 every bug was caught, 1 one was not, 2 the sources no longer hold the text that a bug replaces.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

FOLDER = pathlib.Path(__file__).resolve().parent
EMULATION, LAYERS, MATRICES, SUMS = "torch/_emulation.py", "torch/_layers.py", "torch/_matrices.py", "torch/_sums.py"
ELEMENTS, ROUNDING, PRODUCTS = "torch/_elementwise.py", "torch/_rounding.py", "torch/_products.py"
OPTIMIZER, WATCH, MICROSCOPE, CONVERT, DISTRIBUTED = (f"torch/_{name}.py" for name in ("optimizer", "watch", "microscope", "convert", "distributed"))

# (what is wrong, file, right text, wrong text, file of tests, their names)
BUGS = [
    ("an evaluation counts as a step", EMULATION, "            if self._scales is None:\n", "            if True:\n", "models", "evaluation"),
    ("what torch computes is not counted", EMULATION, "self.not_covered[name, self.module] += 1", "pass", "models", "says_what"),
    ("autocast stays on", EMULATION, 'if not torch.is_autocast_enabled("cpu"):', "if True:", "coverage", "autocast"),
    ("threads are not given back", EMULATION, "torch.set_num_threads(self._threads)", "pass", "models", "leave_torch"),
    ("rules come before the policy's own", EMULATION, 'base.get("rules", []) + changes', 'changes + base.get("rules", [])', "models", "rules_change"),
    ("the bias has no gradient's rounding", MATRICES, 'run.precision.cast(kind, site, "gradient-of-weight", db.data_ptr(), outputs)', "pass", "emulation", "bits"),
    ("the gradient of the input is the weight's", MATRICES, 'run.precision.product(kind, name, "to-input"', 'run.precision.product(kind, name, "to-weight"', "emulation", "bits"),
    ("einsum: rows and columns change places", MATRICES, "order = batch + rows + columns", "order = batch + columns + rows", "coverage", "torchs"),
    ("convolution: one group for all", MATRICES, "some = slice(g * each, (g + 1) * each)", "some = slice(0, each)", "coverage", "torchs"),
    ("convolution: dilation is the stride", MATRICES, "dilation=apart, padding=edge, stride=step).mT", "dilation=step, padding=edge, stride=step).mT", "coverage", "torchs"),
    ("residual: the gradient is not rounded", SUMS, 'earlier.register_hook(lambda gradient: cast_gradient(run, "residual", name, gradient))', "pass", "emulation", "bits"),
    ("cross-entropy: ignored labels count", SUMS, "seen = labels != ignore_index", "seen = labels != -12345", "edges", ""),
    ("activation: the result is not rounded", ELEMENTS, "y = Cast.apply(run, kind, name, function(", "y = torch.clone(function(", "coverage", "rounded_like"),
    ("gate: a gradient is not rounded", ELEMENTS, "if t.requires_grad else t for t in (a, b))", "if t is a else t for t in (a, b))", "coverage", "rounded_like"),
    ("quantize: the same bits in every call", "torch/_tensors.py", "return torch.randint(2**63 - 1, (), generator=generator, dtype=torch.int64, device=\"cpu\")", "return torch.tensor(7, dtype=torch.int64)", "rounding", ""),
    ("quantize: backward=FORMAT is the straight-through rule", ROUNDING, 'if ctx.rule != "ste":', "if False:", "rounding", ""),
    ("linear: the two products of the backward pass change models", PRODUCTS, "plan = _plan(model, to_input, to_weight, input_format", "plan = _plan(model, to_weight, to_input, input_format", "products", ""),
    ("linear: the bias gradient is a mean", PRODUCTS, "db = torch.ops.halfulp.column_sums(dy).to(ctx.bias_dtype)", "db = dy.mean((0, 1)).to(ctx.bias_dtype)", "products", ""),
    ("optimizer: gradients are rounded for communication twice", OPTIMIZER, "if not self._updates.unscaled:", "if True:", "models", "clip"),
    ("optimizer: groups share a learning rate", OPTIMIZER, '[float(group["lr"]) for group in self.param_groups]', '[self.lr for group in self.param_groups]', "optimizers", "groups"),
    ("optimizer: a state forgets learning rates", OPTIMIZER, "            group.update(its)", "            pass", "optimizers", "states"),
    ("optim: masters are the rounded weights", OPTIMIZER, '                state["halfulp_master"] = p.detach().clone()\n', '                state["halfulp_master"] = rounded(p, weights)\n', "optimizers", "masters"),
    ("optim: Kahan loses the sign of what was lost", OPTIMIZER, 'update += state["halfulp_lost"]', 'update -= state["halfulp_lost"]', "optimizers", "masters"),
    ("watch: swamped are those that moved", WATCH, "moved & (p == weight)", "moved & (p != weight)", "watch", "swamped"),
    ("watch: left-out steps count as swamped", WATCH, "        if not taken:\n            self._before = {}\n", "", "watch", "swamped"),
    ("watch: the NaN of an operator is torch's", WATCH, "if not self._births and not self._run.precision.has_nan:", "if False:", "watch", "nan_is_named"),
    ("microscope: modules are written out", MICROSCOPE, "    _replaces = False\n", "", "watch", "lets_torch"),
    ("microscope: running means are the model's", MICROSCOPE, "copied = inplace or not x.requires_grad and x.dim() < 2", "copied = inplace", "watch", "leaves_a_training"),
    ("ablate: gradients stay", MICROSCOPE, "                p.grad = g\n", "                pass\n", "watch", "ablation"),
    ("convert: no rounding of results", CONVERT, "return _quantized(y, self._result)", "return y", "optimizers", "converted_layers"),
    ("convert: delayed scales are accepted", CONVERT, 'any(isinstance(s, Mapping) and "delayed" in s for s in its["operands"].values())', "False", "optimizers", "refused"),
    ("hook: a ring begins at rank 0", DISTRIBUTED, "total = pieces[piece][piece]", "total = pieces[0][piece]", "distributed", ""),
]


def main():
    broken = [title for title, name, right, *_ in BUGS if (FOLDER / "halfulp" / name).read_text().count(right) != 1]
    for title in broken:
        print(f"python/mutants.py: the text of this bug is not there once: {title}", file=sys.stderr)
    if broken or sys.argv[1:] == ["--check"]:
        return 2 if broken else 0
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    python, package = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder) / "halfulp"
        shutil.copytree(FOLDER / "halfulp", copy, ignore=shutil.ignore_patterns("__pycache__"))
        for built in (package / "halfulp").glob("_core*"):
            (copy / built.name).symlink_to(built)
        environment = {**os.environ, "PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"}

        def passes(tests, names):
            answer = subprocess.run([python, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--rootdir", FOLDER, FOLDER / f"tests/with_torch/test_torch_{tests}.py", "-k", names],
                                    env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=600)
            return answer.returncode == 0
        for tests, names in sorted({bug[4:] for bug in BUGS}):
            if not passes(tests, names):
                print(f"python/mutants.py: test_torch_{tests}.py -k '{names}' fails, or holds no test, without any bug", file=sys.stderr)
                return 1
        for title, name, right, wrong, tests, names in BUGS:
            text = (copy / name).read_text()
            (copy / name).write_text(text.replace(right, wrong))
            caught = not passes(tests, names)
            (copy / name).write_text(text)
            missed += not caught
            print(f"{'caught' if caught else 'MISSED'}  {title} (test_torch_{tests})", flush=True)
    print(f"{len(BUGS)} bugs, {len(BUGS) - missed} caught, {missed} missed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
