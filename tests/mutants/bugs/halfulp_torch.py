"""Planted bugs in halfulp.torch."""

EMULATION, LAYERS, MATRICES, SUMS = "torch/_emulation.py", "torch/_layers.py", "torch/_matrices.py", "torch/_sums.py"
ELEMENTS, ROUNDING, PRODUCTS = "torch/_elementwise.py", "torch/_rounding.py", "torch/_products.py"
OPTIMIZER, WATCH, MICROSCOPE, CONVERT, DISTRIBUTED = (f"torch/_{name}.py" for name in ("optimizer", "watch", "microscope", "convert", "distributed"))

BUGS = [
    ("an evaluation counts as a step", EMULATION, "            if self._scales is None:\n", "            if True:\n", "models", "evaluation"),
    ("what torch computes is not counted", EMULATION, "self.not_covered[name, self.module] += 1", "pass", "models", "says_what"),
    ("autocast stays on", EMULATION, 'if torch.is_autocast_enabled("cpu"):', "if False:", "coverage", "autocast"),
    ("threads are not given back", EMULATION, "torch.set_num_threads(self._threads)", "pass", "models", "leave_torch"),
    ("rules come before the policy's own", EMULATION, 'base.get("rules", []) + changes', 'changes + base.get("rules", [])', "models", "rules_change"),
    ("the bias has no gradient's rounding", MATRICES, 'run.precision.cast(kind, site, "gradient-of-weight", address(db), outputs)', "pass", "emulation", "bits"),
    ("the gradient of the input is the weight's", MATRICES, 'run.precision.product(kind, name, "to-input"', 'run.precision.product(kind, name, "to-weight"', "emulation", "bits"),
    ("einsum: rows and columns change places", MATRICES, "order = batch + rows + columns", "order = batch + columns + rows", "coverage", "torchs"),
    ("convolution: one group for all", MATRICES, "some = slice(g * each, (g + 1) * each)", "some = slice(0, each)", "coverage", "torchs"),
    ("convolution: dilation is the stride", MATRICES, "dilation=apart, padding=edge, stride=step).mT", "dilation=step, padding=edge, stride=step).mT", "coverage", "torchs"),
    ("residual: the gradient is not rounded", SUMS, 'earlier.register_hook(lambda gradient: cast_gradient(run, "residual", name, gradient))', "pass", "emulation", "bits"),
    ("cross-entropy: ignored labels count", SUMS, "seen = labels != ignore_index", "seen = labels != -12345", "edges", "ignored"),
    ("activation: the result is not rounded", ELEMENTS, "y = Cast.apply(run, kind, name, function(", "y = torch.clone(function(", "coverage", "rounded_like"),
    ("gate: a gradient is not rounded", ELEMENTS, "if t.requires_grad else t for t in (a, b))", "if t is a else t for t in (a, b))", "coverage", "rounded_like"),
    ("quantize: the same bits in every call", "torch/_tensors.py", "return torch.randint(2**63 - 1, (), generator=generator, dtype=torch.int64, device=\"cpu\")", "return torch.tensor(7, dtype=torch.int64)", "rounding", ""),
    ("quantize: backward=FORMAT is the straight-through rule", ROUNDING, 'if ctx.rule != "ste":', "if False:", "rounding", ""),
    ("linear: the two products of the backward pass change models", PRODUCTS, "plan = _plan(model, to_input, to_weight, input_format", "plan = _plan(model, to_weight, to_input, input_format", "products", "linear_layer"),
    ("linear: the bias gradient is a mean", PRODUCTS, "db = torch.ops.halfulp.column_sums(dy).to(ctx.bias_dtype)", "db = dy.mean((0, 1)).to(ctx.bias_dtype)", "products", "linear_layer"),
    ("optimizer: gradients are rounded for communication twice", OPTIMIZER, "if not self._updates.unscaled:", "if True:", "models", "before_they"),
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
    ("microscope: what is computed a second time is in a user's autocast", MICROSCOPE, 'torch.enable_grad(), torch.autocast("cpu", enabled=False):', "torch.enable_grad():", "coverage", "microscopes"),
    ("memory of any type is handed on as fp32", "torch/_handlers.py", "if x.dtype is not torch.float32 or not x.is_contiguous():", "if False:", "coverage", "memory_of"),
]
