"""Every command of `halfulp` as a function of the same name, which runs the command line in this process.

A function returns the command's JSON as dicts and lists, or with as_text=True its text for people. `.status` is the
exit status, 1 where something fails or differs. Errors: ValueError with the line that the command line would print,
BackendMissing, KeyboardInterrupt. Options have the command line's names, with underscores.
"""
from __future__ import annotations

import contextlib
import json
import operator
import os
import sys
import tempfile
from pathlib import Path
from typing import Any, Mapping, Sequence

from ._command import BackendMissing, Text, answer, call, file_of, options, parsed, path, text, word, writable
from .report import Report, show as show

Number = int | float | str


def formats(name: str | None = None, *, blocks: bool = False, as_text: bool = False) -> Any:
    """The formats and their constants, or one in detail; blocks=True: block formats.

    >>> formats("e4m3")["max"]
    {'code': '0x7e', 'value': 448.0}
    """
    return answer(["formats", *options(blocks=blocks), *_named(name)], as_text)


def _named(name: Any) -> Any:
    """A name, if given, after "--", so that it cannot be taken for an option."""
    return [] if name is None else ["--", word(name, "name")]


def _typed(value: Any, argument: str) -> str:
    """A number as typed text: exact, even where float64 does not hold it."""
    if hasattr(value, "dtype") and str(value.dtype) not in ("float64", "object") and getattr(value, "ndim", 0) == 0 and value.dtype.kind not in "iu":
        return float(value).hex() if float(value) == float(value) and abs(float(value)) != float("inf") else str(float(value))
    return word(value, argument)


def explain(value: Any, format: Any, *, as_text: bool = False, **rounding: Any) -> Any:
    """One number in one format: its bits, its neighbours, and the result of every rounding mode. `value`: a number, its
    text ("0.1", "0x1.8p-3"), or a code word as text ("0x3C00"). Options: round (the name of a mode or, as in every
    command, a Rounding), overflow, flush_inputs, flush_outputs, tininess, nan, stochastic_variant, random_bits, seed.

    >>> explain(0.1, "fp16")["result"]
    {'code': '0x2e66', 'value': 0.0999755859375}
    >>> print(explain(0.1, "fp16", as_text=True).splitlines()[0])
    0.1 in fp16 (IEEE half precision)
    """
    return answer(["explain", *options(format=format, **rounding), "--", _typed(value, "value")], as_text)


def calc(expression: str, format: Any = None, *, as_text: bool = False, trace: bool = False, **rounding: Any) -> Any:
    """Arithmetic as people write it, every number and every step rounded to each of the formats (a name, or a list;
    default: fp32, bf16, fp16, e4m3). trace=True: the text has every step. Options as for `explain`.

    >>> calc("0.1 + 0.2", "fp16")["formats"][0]["result"]
    {'code': '0x34cc', 'value': 0.2998046875}
    >>> [step["error"] for step in calc("(1 + 2^-8) - 1", "bf16")["formats"][0]["steps"]]
    [0.0, 0.0, -0.00390625, 0.0]
    """
    chosen = None if format is None else format if isinstance(format, str) else ",".join(str(f) for f in format)
    return answer(["calc", *options(format=chosen, trace=trace, **rounding), "--", word(expression, "expression")], as_text)


def eval(operation: str, *operands: int | str, format: str, to: str | None = None, lines: Sequence[str] | str | None = None, check: bool = False, strict_nan: bool = False, show: int | None = None,
         exhaustive: bool = False, sample: int | None = None, exact: bool = False, int_overflow: str | None = None, **rounding: Any) -> Any:
    """One operation on code words (integers, or hexadecimal text), in TestFloat's line format: "3C00 3C00 4000 00",
    operands, result, flags. `lines`: text with many cases, one per line. check=True: each line ends in the result and
    flags of your hardware or simulation, and the status says whether any differs; show: write at most so many that do.
    exhaustive=True writes every case, sample=N boundary cases and random ones, by the rounding's seed.

    >>> eval("add", 0x3C00, "3C00", format="fp16")
    3C00 3C00 4000 00
    """
    arguments = ["eval", *options(format=format, to=to, check=check, strict_nan=strict_nan, show=show, exhaustive=exhaustive, sample=sample, exact=exact, int_overflow=int_overflow, **rounding), "--", word(operation, "operation")]
    if (lines is not None) + bool(operands) + exhaustive + (sample is not None) != 1:
        raise ValueError("operands, lines, exhaustive or sample: accepted: one of them")
    if exhaustive or sample is not None:
        return text(arguments)
    if lines is not None:
        return text(arguments, _lines(lines))
    return _stripped(text([*arguments, *(_code_word(w) for w in operands)]))


def _stripped(answer: Text) -> Text:
    """One line without the newline, with the status."""
    result = Text(answer.rstrip("\n"))
    result.status = answer.status
    return result


def _code_word(value: Any) -> str:
    """An integer of any type as hexadecimal digits. Text already holds them."""
    if hasattr(value, "__index__") and not isinstance(value, bool) and getattr(value, "ndim", 0) == 0:
        try:
            number = operator.index(value)
        except TypeError:  # a float of torch
            return word(value, "operands")
        return f"{number:X}" if number >= 0 else str(number)
    return word(value, "operands")


def _lines(lines: Sequence[str] | str) -> str:
    return lines if isinstance(lines, str) else "".join(word(line, "lines") + "\n" for line in lines)


def list(*, as_text: bool = False) -> Any:  # noqa: A001
    """The experiments: names, questions, parameters.

    >>> [experiment["name"] for experiment in list()][:3]
    ['underflow', 'conversions', 'swamping']
    """
    return answer(["list"], as_text)


def run(experiment: str, /, *, backend: str | Sequence[str] | None = None, config: str | os.PathLike[str] | Mapping[str, Any] | None = None,
        out: str | os.PathLike[str] | None = None, store: str | os.PathLike[str] | None = None, threads: int | None = None, progress: bool = False, **parameters: Any) -> Any:
    """Runs an experiment and returns its Report; "all" runs every one and returns a dict of them, by name.

    parameters: named as in halfulp.list(); lists are accepted. backend: the names of the backends to compare results
    with (default: all that are present). config: a file, a dict or a Report to run again. `out`: a file or folder to
    write; without it nothing is written. store: a folder that keeps what the run computes, and from which it reads what
    is there already: see trial(). progress=True: shows a bar where standard error is a terminal. Ctrl-C raises
    KeyboardInterrupt.

    >>> report = run("swamping", ratios=[1024, 2048, 4096], backend="emulated", training_steps=100)
    >>> report.status
    'pass'
    """
    given = _configuration(config)
    target = None if out is None else writable(out, "out", experiment == "all")
    with contextlib.ExitStack() as stack:
        arguments = [*_run_arguments("run", given, backend, threads, progress, parameters, stack), *options(store=None if store is None else path(store, "store"))]
        name = ["--", word(experiment, "experiment")]
        if experiment == "all":
            folder = os.path.join(stack.enter_context(tempfile.TemporaryDirectory()) if target is None else target, "")
            call([*arguments, "--out=" + folder, *name])
            return {made["name"]: Report(json.loads(Path(folder, made["name"] + ".json").read_text(encoding="utf-8"))) for made in list()}
        return _reported([*arguments, "--out=-", *name], target)


def trials(experiment: str, /, *, store: str | os.PathLike[str], all: bool = False, backend: str | Sequence[str] | None = None,  # noqa: A002
           config: str | os.PathLike[str] | Mapping[str, Any] | None = None, as_text: bool = False, **parameters: Any) -> Any:
    """The pieces of an experiment that a store lacks; all=True: also those it has. Parameters as for run().

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     trials("training", store=folder, policies="fp32", seeds=2, backend="emulated")["trials"][0]["label"]
    'mlp-fp32-1'
    """
    with contextlib.ExitStack() as stack:
        arguments = [*_run_arguments("trials", _configuration(config), backend, None, False, parameters, stack), *options(store=path(store, "store"), all=all), "--", word(experiment, "experiment")]
        return answer(arguments, as_text)


def trial(experiment: str, /, *keys: str, store: str | os.PathLike[str], part: str | None = None, wait: bool = False, backend: str | Sequence[str] | None = None,
          config: str | os.PathLike[str] | Mapping[str, Any] | None = None, threads: int | None = None, progress: bool = False, **parameters: Any) -> None:
    """Computes pieces of an experiment into a store: those with these keys of trials(), one part of them ("3/7", or
    "auto" under Slurm or MPI), or all. wait=True: waits for what other processes compute. run(..., store=store) then
    puts them together. Parameters as for run().
    """
    with contextlib.ExitStack() as stack:
        arguments = [*_run_arguments("trial", _configuration(config), backend, threads, progress, parameters, stack), *options(store=path(store, "store"), part=part, wait=wait)]
        text([*arguments, "--", word(experiment, "experiment"), *(word(key, "keys") for key in keys)])


def store(folder: str | os.PathLike[str], *, check: bool = False, prune: bool = False, remove: str | None = None, show: str | None = None, as_text: bool = False) -> Any:
    """What a store of trials holds. check=True: reads every record; the status is 1 if any is damaged. prune=True:
    removes those, and what killed runs left. remove: a kind ("training-1") whose records go. show: the record of a key.
    """
    if show is not None:
        return json.loads(text(["store", *options(show=show), "--", path(folder, "folder")]))
    return answer(["store", *options(check=check, prune=prune, remove=remove), "--", path(folder, "folder")], as_text)


def campaign(specification: str | os.PathLike[str] | Mapping[str, Any], *, store: str | os.PathLike[str], out: str | os.PathLike[str] | None = None,
             list: bool = False, dry_run: bool = False, backend: str | Sequence[str] | None = None, threads: int | None = None,  # noqa: A002
             max_points: int | None = None, as_text: bool = False, progress: bool = False, scheduler: str | None = None, workers: int | None = None,
             slurm: Mapping[str, Any] | None = None, shared: bool = True) -> Any:
    """Runs an experiment under every combination of some parameters and returns the Report of the whole sweep.

    specification: a file or a dict with "experiment", "settings", "grid" (lists of values by parameter, or a list of
    such grids), "exclude" and "tables" (those that the report joins; all if left out). The trials are kept in
    `store`: what is there is read, the rest computed. list=True: what is missing; dry_run=True: how long it would
    take, by a few trials that are computed. Both return a dict, or as_text=True the program's words. backend: as for
    run(), but "emulated" by default. max_points: a larger grid is refused.

    On a cluster, by Dask: scheduler="tcp://host:8786", the address of one that runs; workers=4, processes of this
    machine; slurm={"queue": "short", ...}, options of dask_jobqueue.SLURMCluster, with so many workers as jobs.
    shared=False: workers do not see the folder, and records come back by the engine. A worker that dies or hangs loses
    nothing but what it was at; workers of another revision are refused. A trial that fails three times raises
    campaigns.CampaignFailed with its message. Files that settings name have absolute paths there. A script that asks for
    workers begins with `if __name__ == "__main__":`, since they import it.

    >>> import tempfile
    >>> sweep = {"experiment": "training", "settings": {"steps": 20, "seeds": 2}, "grid": {"policies": ["amp-bf16", "bf16-sr"]}}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     report = campaign(sweep, store=folder)
    >>> [row["policies"] for row in report.rows("points")]
    ['amp-bf16', 'bf16-sr']
    """
    from . import campaigns
    clustered = scheduler is not None or workers is not None or slurm is not None
    campaigns.check_cluster(scheduler, workers, slurm)
    if max_points is not None and (not isinstance(max_points, int) or isinstance(max_points, bool)):
        raise TypeError(f"max_points: {max_points!r}; accepted: a whole number")
    if not isinstance(shared, bool):
        raise TypeError(f"shared: {shared!r}; accepted: True or False")
    if (list or dry_run) and (clustered or out is not None):
        raise ValueError("list and dry_run compute nothing on a cluster and make no report; accepted: without scheduler, workers, slurm and out")
    with contextlib.ExitStack() as stack:
        file, folder = stack.enter_context(file_of(specification, "specification")), path(store, "store")
        own = options(backend=backend, max_points=max_points)
        if list or dry_run:
            return answer(["campaign", *own, *options(store=folder, list=list, dry_run=dry_run, threads=threads, quiet=not progress), "--", file], as_text)
        target = None if out is None else writable(out, "out", False)
        if clustered:
            campaigns.run_on_cluster(file, folder, own, backend=word(backend if backend is not None else "emulated", "backend"), scheduler=scheduler, workers=workers,
                                     slurm=slurm, shared=shared, note=campaigns.say if progress else lambda line: None)
        return _reported(["campaign", *own, *options(store=folder, threads=threads, quiet=not progress), "--out=-", "--", file], target)


def _configuration(config: Any) -> Any:
    """What --config reads: a file, a dict, or that of a report."""
    plain = config.get("config") if isinstance(config, Report) else config
    if plain is None and config is not None:
        raise ValueError("config: a report without its parameters; accepted: a whole report, a dict of parameters or a file")
    return plain


def _run_arguments(command: str, config: Any, backend: Any, threads: int | None, progress: bool, parameters: Mapping[str, Any], stack: contextlib.ExitStack) -> Any:
    """The options of every command that runs an experiment. Files that they name live as long as the stack."""
    file = None if config is None else stack.enter_context(file_of(config, "config"))
    return [command, *options(config=file, backend=backend, threads=threads, quiet=not progress), *_settings(parameters)]


def _settings(parameters: Mapping[str, Any]) -> Sequence[str]:
    return [f"--set={name}={word(value, name)}" for name, value in parameters.items()]


def _reported(arguments: Sequence[str], target: str | None) -> Report:
    """Runs a command that writes its report to standard output; saves that report."""
    _, output = call(arguments)
    report = Report(json.loads(output))
    if target is not None:
        _save(report, target)
    return report


def recommend(*, network: str | Sequence[str] | None = None, tensors: str | os.PathLike[str] | None = None, budget: Number | None = None,
              formats: str | Sequence[str] | None = None, against: str | Sequence[str] | None = None, policy: str | os.PathLike[str] | None = None,
              config: str | os.PathLike[str] | Mapping[str, Any] | None = None, backend: str | Sequence[str] | None = None,
              out: str | os.PathLike[str] | None = None, store: str | os.PathLike[str] | None = None, threads: int | None = None, progress: bool = False, **parameters: Any) -> Report:
    """Finds the narrowest precision policy that keeps a budget, and returns the Report of how.

    network: what is trained. tensors: instead of that, a folder of .npy files, each of which gets a format. budget: what
    may be lost (a share of the test examples; of tensors, a relative error), or the bytes that there are ("400kB").
    formats: besides fp32. against: policies to compare with. policy: a file for the recommended policy, which
    run("training", policies=[file]) reads. Everything else is as for run().

    >>> report = recommend(network="mlp", budget=0.05, formats="bf16", against="O1", backend="emulated", steps=4, batch=2, seeds=1)
    >>> report.frame("recommended")["network"].item()
    'mlp'
    """
    given = _configuration(config)
    target = None if out is None else writable(out, "out", False)
    own = _valued(network=network, tensors=None if tensors is None else path(tensors, "tensors"), budget=budget, formats=formats, against=against,
                  policy=None if policy is None else path(policy, "policy"), store=None if store is None else path(store, "store"))
    with contextlib.ExitStack() as stack:
        return _reported([*_run_arguments("recommend", given, backend, threads, progress, parameters, stack), *own, "--out=-"], target)


def inspect(checkpoint: str | os.PathLike[str] | None = None, *, formats: str | Sequence[str] | None = None, layers: str | Sequence[str] | None = None,
            roles: str | Mapping[str, str | Sequence[str]] | None = None, activations: str | os.PathLike[str] | None = None,
            product: str | None = None, against: str | os.PathLike[str] | None = None,
            config: str | os.PathLike[str] | Mapping[str, Any] | None = None, backend: str | Sequence[str] | None = None,
            out: str | os.PathLike[str] | None = None, threads: int | None = None, progress: bool = False, **parameters: Any) -> Report:
    """Looks at a checkpoint of one's own, and at what formats would keep of it, and returns the Report.

    checkpoint: a .safetensors file, an index of shards, a .npy file, or a folder of these (of a config, its own).
    formats: formats and block formats to try, by default eight of 16 to 4 bits. layers: globs of the names of tensors to
    look at. roles: globs of names by what tensors are for, {"attention": "*attn*", "mlp": ["*ffn*", "*mlp*"]} or the
    command line's text, before those that are known. activations: inputs of layers by module name, as checkpoint is; the
    Report then has the errors of outputs, by the product model or matrix unit `product`. against: the checkpoint that it was made of: the Report then says
    which tensors differ, and which cast (one of `formats`) explains it. Everything else is as for run(): outliers=8,
    overflow="ieee". open_checkpoint() gives the tensors themselves.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = sample(folder + "/gradients.npy", shape=[64, 32])
    ...     report = inspect(folder, formats=["bf16", "mxfp8e4m3"])
    >>> [(row["format"], row["bits"], row["bytes"]) for row in report.rows("formats")]
    [('bf16', 16.0, 4096), ('mxfp8e4m3', 8.25, 2112)]
    """
    given = _configuration(config)
    target = None if out is None else writable(out, "out", False)
    file = [] if checkpoint is None else ["--", path(checkpoint, "checkpoint")]
    own = _valued(formats=formats, layers=layers, roles=roles if roles is None else _roles(roles), product=product,
                  activations=None if activations is None else path(activations, "activations"),
                  against=None if against is None else path(against, "against"))
    with contextlib.ExitStack() as stack:
        return _reported([*_run_arguments("inspect", given, backend, threads, progress, parameters, stack), *own, "--out=-", *file], target)


def choose(checkpoint: str | os.PathLike[str] | None = None, *, bytes: str | float | None = None, bits: float | None = None, sqnr: float | None = None,
           formats: str | Sequence[str] | None = None, layers: str | Sequence[str] | None = None, keep: str | Sequence[str] | None = None,
           roles: str | Mapping[str, str | Sequence[str]] | None = None, layout: str | None = None, mix: str | os.PathLike[str] | None = None,
           config: str | os.PathLike[str] | Mapping[str, Any] | None = None, backend: str | Sequence[str] | None = None,
           out: str | os.PathLike[str] | None = None, threads: int | None = None, progress: bool = False, **parameters: Any) -> Report:
    """Chooses a format for each tensor of a checkpoint, so that a budget is kept and the least is lost; returns the Report.

    checkpoint: as for inspect(). One budget: bytes ("900MB", 900_000_000), or a share of what the tensors take (0.3);
    bits, the most an element on average; or sqnr, the least signal to error in dB, for the fewest bytes. keep: globs of
    tensors that stay as they are stored. layout: whose code words and scales the file is to have
    (a layout of quantize_checkpoint()): bytes are what they take there, and formats are those it holds. mix: a JSON file for the
    choice. Everything else is as for inspect(): axes=1, measure="relative".

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = sample(folder + "/gradients.npy", shape=[64, 32])
    ...     report = choose(folder, bits=8.25, formats=["bf16", "mxfp8e4m3", "mxfp4"])
    >>> [(row["format"], row["bytes"]) for row in report.rows("choice")]
    [('mxfp8e4m3', 2112)]
    """
    given = _configuration(config)
    target = None if out is None else writable(out, "out", False)
    file = [] if checkpoint is None else ["--", path(checkpoint, "checkpoint")]
    if isinstance(bytes, int) and not isinstance(bytes, bool) and bytes > 1:
        bytes = f"{bytes}B"
    own = _valued(bytes=bytes, bits=bits, sqnr=sqnr, formats=formats, layers=layers, keep=keep, layout=layout, roles=roles if roles is None else _roles(roles),
                  mix=None if mix is None else path(mix, "mix"))
    with contextlib.ExitStack() as stack:
        return _reported([*_run_arguments("choose", given, backend, threads, progress, parameters, stack), *own, "--out=-", *file], target)


def quantize_checkpoint(checkpoint: str | os.PathLike[str], out: str | os.PathLike[str], format: Any = None, *,
                        mix: str | os.PathLike[str] | Mapping[str, Any] | Report | None = None, layers: str | Sequence[str] | None = None,
                        keep: str | Sequence[str] | None = None, layout: str | None = None, dtype: str | None = None, round: str | None = None,
                        overflow: str | None = None, seed: int | None = None, report: str | os.PathLike[str] | None = None,
                        threads: int | None = None, progress: bool = False, **parameters: Any) -> Report:
    """Writes a checkpoint as a new file with tensors in another format, reads it back, and returns the Report of what was
    lost.

    checkpoint: as for inspect(). out: the new .safetensors file. One of format, for every tensor of two axes or more
    that layers (globs) match and keep does not; and mix, the Report of choose(), its file or a dict of that kind. layout: code words and
    scales as "compressed-tensors", "modelopt", "torchao", "mlx", "deepseek" or "gpt-oss" has them; without it values,
    in dtype ("F32", "BF16") or each tensor's own. round, overflow, seed: as for quantize_file(), but overflow saturates
    by default. report: a file for the Report. parameters: axes=1. Nothing is left of a file that does not read back as it was meant.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = sample(folder + "/weight.npy", shape=[64, 32])
    ...     report = quantize_checkpoint(folder, folder + "/model.safetensors", "mxfp8e4m3", layout="deepseek")
    >>> [(row["stored_as"], row["bytes"]) for row in report.rows("tensors")]
    [('DeepSeek-V3 FP8', 2112)]
    """
    target, file = None if report is None else writable(report, "report", False), path(out, "out")
    if not file.endswith(".safetensors"):
        raise ValueError(f"out: {file!r}; accepted: the name of a .safetensors file")
    own = _valued(format=format, layers=layers, keep=keep, layout=layout, dtype=dtype, round=round, overflow=overflow, seed=seed, threads=threads)
    if isinstance(mix, Report) and "mix" in mix.names:
        mix = json.loads(mix.rows("mix")[0]["mix"])
    with contextlib.ExitStack() as stack:
        chosen = [] if mix is None else [f"--mix={stack.enter_context(file_of(mix, 'mix'))}"]
        return _reported(["quantize", *own, *_settings(parameters), *chosen, *options(quiet=not progress, out=file), "--json", "--", path(checkpoint, "checkpoint")], target)


def _valued(**given: Any) -> Sequence[str]:
    """options() that take a value each. TypeError for True and False, which would be no value."""
    for name, value in given.items():
        if isinstance(value, bool):
            raise TypeError(f"{name} is {value}; accepted: a value")
    return options(**given)


def _roles(roles: Any) -> str:
    """Patterns of roles as the command line has them: ROLE=GLOB, separated by ';'."""
    if not isinstance(roles, Mapping):
        return word(roles, "roles")
    globs = [(role, glob if isinstance(glob, Sequence) and not isinstance(glob, str) else [glob]) for role, glob in roles.items()]
    return ";".join(f"{word(role, 'roles')}={word(glob, 'roles')}" for role, some in globs for glob in some)


def _save(report: Report, name: str) -> None:
    folder = name.endswith("/") or os.path.isdir(name)
    try:
        if folder:
            os.makedirs(name, exist_ok=True)
        report.save(os.path.join(name, report["experiment"] + ".json") if folder else name)
    except OSError as why:
        raise ValueError(f"out: {why}") from None


def validate(*reports: Any, schema: bool = False) -> Any:
    """Whether reports, files or dicts, are valid: text with status 1 where one is not. schema=True: the JSON Schema itself."""
    if schema:
        return parsed(["validate", "--schema"])
    with contextlib.ExitStack() as stack:
        names = [f"report{i + 1}" if len(reports) > 1 else "report" for i in range(len(reports))]
        files = [stack.enter_context(file_of(report, name)) for name, report in zip(names, reports)]
        answer = text(["validate", "--", *files])
        said = str(answer)
        for report, name, file in zip(reports, names, files):
            said = said.replace(file, name) if isinstance(report, Mapping) else said
    result = Text(said)
    result.status = answer.status
    return result


def diff(first: Any, second: Any) -> Text:
    """Where the results of two reports, files or dicts, differ: code words first, then numbers. The status is 1 if they do.
    Two checkpoints: inspect(first, against=second)."""
    for report in (first, second):
        if isinstance(report, (str, os.PathLike)) and (os.path.isdir(report) or os.fspath(report).endswith((".safetensors", ".safetensors.index.json", ".npy"))):
            raise ValueError(f"{os.fspath(report)!r} is a checkpoint; accepted: reports, and halfulp.inspect(first, against=second) of checkpoints")
    with file_of(first, "first") as a, file_of(second, "second") as b:
        return text(["diff", "--", a, b])


def page(*reports: Any, out: str | os.PathLike[str], title: str | None = None, rows: int | None = None) -> Text:
    """Draws reports (files, folders or dicts) as one HTML file with pictures. Two reports of the same experiment are
    shown side by side. rows: the largest number of rows per table, 0 for all. ImportError where this Python lacks
    matplotlib or Jinja2.
    """
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(file_of(report, f"report{i + 1}")) for i, report in enumerate(reports)]
        try:
            return text(["page", *options(out=path(out, "out"), title=title, rows=rows, python=sys.executable or None), "--", *files])
        except BackendMissing as why:
            raise ImportError(str(why)) from None


def backends(*, routes: bool = False, as_text: bool = False) -> Any:
    """Which silicon is here, and what each backend supports; routes=True: in the text too, by which instructions."""
    return answer(["backends", *options(routes=routes)], as_text)


def verify(operation: str, format: Any, to: Any = None, *, round: str = "nearest-even", overflow: str | None = None, flush_inputs: bool = False, against: str | None = None,
           exhaustive: bool = False, addends: int | None = None, sample: int | None = None, seed: int | None = None, state: Any = None, store: Any = None, part: str | None = None,
           ledger: Any = None, threads: int | None = None, as_text: bool = False, progress: bool = False) -> Any:
    """Array functions against an independent reference, every input or a sample; addends=N: every pair with N third
    operands of fma; against="recorded:NAME": what a device answered earlier, on what it was asked.

    >>> verify("add", "e2m1", against="oracle", exhaustive=True)["verifications"][0]["differing"]
    0
    """
    return answer(["verify", *options(format=format, to=to, round=round, overflow=overflow, flush_inputs=flush_inputs, against=against, exhaustive=exhaustive, addends=addends, sample=sample,
                                      seed=seed, state=state, store=store, part=part, ledger=ledger, threads=threads, quiet=not progress), "--", word(operation, "operation")], as_text)


def ledger(*paths: str | os.PathLike[str], as_text: bool = False) -> Any:
    """Who agrees with whom, of ledgers that verify(..., ledger=) wrote and of folders of them; the status is 1 where
    two digests differ.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = verify("mul", "e2m1", against="oracle", ledger=folder + "/mine.json")
    ...     ledger(folder)["operations"][0]["references"][0]["reference"]
    'rationals'
    """
    return answer(["ledger", *options(), "--", *(path(place, "paths") for place in paths)], as_text)


def units(*words: str, unit_file: Any = None, as_text: bool = False) -> Any:
    """Matrix units: one in full by its name, or all whose names contain the words.

    >>> units("hopper.mma.fp16.fp32")["k"]
    16
    """
    given = [] if unit_file is None else options(unit_file=path(unit_file, "unit_file"))
    return answer(["units", *given, "--", *(word(w, "words") for w in words)], as_text)


def mma(unit: Any, a: Any = None, b: Any = None, c: Any = None, *, scale_a: Any = None, scale_b: Any = None, codes: bool = False, lines: Sequence[str] | str | None = None,
        values: bool = False, check: bool = False, strict_nan: bool = False, show: int | None = None, sample: int | None = None, length: int | None = None,
        seed: int | None = None) -> Any:
    """D = A B + C by a matrix unit: on arrays, as in halfulp.gemm(), or on `lines` of the command's format, one case per
    line: a row of A, a column of B, an element of C (and scales), "3C00 3C00 | 3C00 3C00 | 0". unit: a name, or a
    description as halfulp.units(NAME) returns it. values=True: lines hold numbers. check=True: the last group is the D of
    your hardware or simulation; show: write at most so many lines that differ. sample=N writes N cases of `length`
    products, by `seed`, as lines that check=True reads.

    >>> mma("hopper.mma.fp16.fp32", [[1, 2]], [[3], [4]], [[100]])
    array([[111.]], dtype=float32)
    >>> mma("hopper.mma.fp16.fp32", lines=["3C00 | 3C00 | 3F800000"])
    40000000
    """
    arrays = a is not None and b is not None
    if (lines is not None) + (sample is not None) + arrays != 1 or (a is None) != (b is None):
        raise ValueError("a and b, lines or sample: accepted: one of them")
    if arrays:
        from .products import multiply_with_unit
        return multiply_with_unit(unit, a, b, c, scale_a, scale_b, codes)
    with file_of(unit, "unit") if isinstance(unit, Mapping) else contextlib.nullcontext(None) as file:
        answer = text(["mma", *(options(unit=unit) if file is None else options(unit_file=file)), *options(values=values, check=check, strict_nan=strict_nan, show=show, sample=sample, length=length, seed=seed)],
                      _lines(lines or ""))
    return answer if sample is not None else _stripped(answer)


def record(backend: str, out: Any, *, quick: bool = False, progress: bool = False) -> Text:
    """Records a device's answers to the recording suite in a new folder."""
    return text(["record", *options(backend=backend, out=path(out, "out"), quick=quick, quiet=not progress)])


def probe(backend: str | None = None, *, unit_file: Any = None, as_text: bool = False) -> Any:
    """Identifies a matrix unit: finds its parameters from its answers to chosen operands. unit_file: a file or a
    description.

    >>> [p["unit"] if "unit" in p else p["device"] for p in probe("emulated:volta.mma.fp16.fp32")] != []
    True
    """
    with contextlib.ExitStack() as stack:
        file = None if unit_file is None else stack.enter_context(file_of(unit_file, "unit_file"))
        return answer(["probe", *options(backend=backend, unit_file=file)], as_text)


def profiles(name: str | None = None, *, of: Any = None, from_: Any = None, to: Any = None, as_text: bool = False) -> Any:
    """Cast profiles: all of them, one with its rules in full, or every profile's results for the numbers or code words
    `of`.

    >>> profiles("ml_dtypes")["name"]
    'ml_dtypes'
    """
    return answer(["profiles", *options(of=of, from_=from_, to=to), *_named(name)], as_text)


def diff_profiles(a: str, b: str, *, to: Any, from_: Any = None, any_nan: bool = False, all: bool = False, threads: int | None = None, as_text: bool = False, progress: bool = False) -> Any:
    """Every input on which two cast profiles differ.

    >>> diff_profiles("ml_dtypes", "cuda-satfinite", from_="fp16", to="e4m3")["differing"] > 0
    True
    """
    return answer(["diff-profiles", *options(from_=from_, to=to, any_nan=any_nan, all=all, threads=threads, quiet=not progress), "--", word(a, "a"), word(b, "b")], as_text)


def witness(a: str, b: str, *, cases: int | None = None, longest: int | None = None, seed: int | None = None, strict_nan: bool = False, any_zero: bool = False, as_text: bool = False, progress: bool = False) -> Any:
    """The smallest operands on which two configurations differ. A configuration: "fma:fp16", "convert:fp32:e4m3", a
    matrix unit, "dot:MODEL"."""
    return answer(["witness", *options(cases=cases, longest=longest, seed=seed, strict_nan=strict_nan, any_zero=any_zero, quiet=not progress), "--", word(a, "a"), word(b, "b")], as_text)


def sample(out: Any, *, shape: Any = None, distribution: str | None = None, median: Number | None = None, sigma: Number | None = None, seed: int | None = None) -> Text:
    """Writes made-up gradients as a .npy file of float32, for those who have none. shape: sizes, (256, 64) if none."""
    return text(["sample", *options(out=path(out, "out"), shape=shape, distribution=distribution, median=median, sigma=sigma, seed=seed)])


def quantize_file(file: Any, format: Any, *, rule: str | None = None, axis: int | None = None, out: Any = None, codes: Any = None, scales: Any = None, zeros: Any = None,
                  as_text: bool = False, **rounding: Any) -> Any:
    """Rounds a .npy file to a format or block format and reports the error: halfulp.quantize() with a file's name."""
    files = {name: None if file is None else path(file, name) for name, file in (("out", out), ("codes", codes), ("scales", scales), ("zeros", zeros))}
    return answer(["quantize", *options(format=format, rule=rule, axis=axis, **files, **rounding), "--", path(file, "x")], as_text)


def policies(name: str | None = None, *, as_text: bool = False) -> Any:
    """Precision policies of trainings: all of them, or one by its name or from a file that ends in .json.

    >>> policies("amp-fp16")["name"]
    'amp-fp16'
    """
    return answer(["policies", *_named(name)], as_text)


def check(backend: str, *, tiles: int | None = None, floats: int | None = None, all: bool = False, as_text: bool = False, progress: bool = False) -> Any:
    """Compares everything that a backend computes with the emulation. all=True: the text also lists what agrees, line
    by line."""
    return answer(["check", *options(backend=backend, tiles=tiles, floats=floats, all=all, quiet=not progress)], as_text)
