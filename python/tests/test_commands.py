"""Commands give the command line's answers: its JSON, its text, its exit statuses."""
import inspect
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import halfulp
from conftest import commands


@pytest.fixture(scope="module")
def report():
    return halfulp.run("swamping", ratios=[1024, 2048, 4096], formats=["fp16", "bf16"], count=256, repair_steps=64, seeds=10, training_steps=100, steps=100, backend="emulated")


ROUNDING = {"round", "overflow", "flush-inputs", "flush-outputs", "tininess", "nan", "stochastic-variant", "random-bits", "seed"}
def test_every_command_is_a_function():
    for name in commands():
        assert callable(getattr(halfulp, name.replace("-", "_"))), name


# Options without an argument (for a terminal or the shell; page() draws with this Python), and options under other
# names.
OTHERWISE = {"help", "version", "json", "quiet", "verbose"}
RENAMED = {("run", "set"): "parameters", ("run", "parameters"): None, ("trial", "set"): "parameters", ("trials", "set"): "parameters", ("trials", "threads"): None, ("recommend", "set"): "parameters", ("recommend", "parameters"): None, ("inspect", "set"): "parameters", ("inspect", "parameters"): None, ("choose", "set"): "parameters", ("choose", "parameters"): None, ("quantize", "set"): "parameters", ("mma", "unit-file"): "unit", ("page", "python"): None}


def test_every_option_is_an_argument():
    for name in commands():
        functions = [halfulp.commands.quantize_file, halfulp.quantize_checkpoint] if name == "quantize" else [getattr(halfulp, name.replace("-", "_"))]
        accepted = {argument: parameter for function in functions for argument, parameter in inspect.signature(function).parameters.items()}
        if name == "diff":  # what is for checkpoints, inspect(..., against=...) has
            accepted = {**accepted, **inspect.signature(halfulp.inspect).parameters, "set": None}
        options = set(re.findall(r"^  (?:-\w,)?--([a-z-]+)", halfulp._command.call([name, "--help"])[1], re.M)) - OTHERWISE
        assert options or name in ("diff", "ledger", "list", "policies"), name
        for option in options:
            argument = RENAMED.get((name, option), option.replace("-", "_"))
            rounding = option in ROUNDING and "rounding" in accepted
            assert argument is None or argument in accepted or argument + "_" in accepted or rounding, (name, option)


def test_program():
    """python -m halfulp is the command line itself: its text, its statuses, the process's own streams."""
    def program(*arguments, **given):
        return subprocess.run([sys.executable, "-m", "halfulp", *arguments], capture_output=True, text=True, timeout=60, **given)
    assert program("eval", "add", "--format", "fp16", input="3C00 3C00\n").stdout == "3C00 3C00 4000 00\n"
    wrong = program("formats", "fp17")
    assert wrong.returncode == 2 and wrong.stdout == "" and wrong.stderr.startswith("halfulp: ") and "fp16" in wrong.stderr
    running = subprocess.Popen([sys.executable, "-m", "halfulp", "verify", "mul", "--format", "bf16", "--against", "oracle", "--exhaustive", "--quiet"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    time.sleep(1)
    running.send_signal(signal.SIGINT)
    assert running.wait(20) in (130, -signal.SIGINT)
    running.communicate()


def test_both_ways_to_say_it():
    """as_text=True gives what a terminal shows; without it the same comes as JSON."""
    for call in (lambda **k: halfulp.explain(0.1, "fp16", **k), lambda **k: halfulp.formats("e4m3", **k), lambda **k: halfulp.list(**k), lambda **k: halfulp.units("hopper", **k),
                 lambda **k: halfulp.policies("amp-fp16", **k), lambda **k: halfulp.profiles("ml_dtypes", **k), lambda **k: halfulp.backends(**k)):
        assert isinstance(call(as_text=True), halfulp.Text) and call(as_text=True).count("\n") > 2
        assert isinstance(call(), (dict, list)) and call().status == 0


def test_parts_of_tables(report):
    table = next(name for name in report.names if len(report.rows(name)) > 2)
    column = report.columns(table)[0]["name"]
    value = report.rows(table)[0][column]
    lines = report.show(table, columns=[column], where={column: value}, csv=True).splitlines()
    assert lines[0] == column and len(lines) == 1 + sum(row[column] == value for row in report.rows(table))
    with pytest.raises(ValueError, match="no_such"):
        halfulp.show(report, table, columns="no_such")


def test_report(report, tmp_path):
    assert report["experiment"] == "swamping" and report.status in ("pass", "fail") and report.claims and report.config["ratios"] == [1024, 2048, 4096]
    assert report.names and repr(report).startswith("<Report of swamping")
    for name in report.names:
        assert len(report.rows(name)) == len(report["results"][name]["rows"])
        assert set(c["name"] for c in report.columns(name)) <= set(report.rows(name)[0])
    assert "rows" in report.show() and report.show(report.names[0]).count("\n") > 2
    report.save(tmp_path / "r.json")
    assert halfulp.load_report(tmp_path / "r.json") == report
    assert halfulp.validate(report).status == 0 and halfulp.diff(report, tmp_path / "r.json").status == 0
    again = halfulp.run("swamping", config=report, backend="emulated", threads=1)
    assert again["results"] == report["results"]
    with pytest.raises(ValueError, match="no_such_table"):
        report.rows("no_such_table")


def test_frames(report):
    pandas = pytest.importorskip("pandas")
    for name, frame in report.tables.items():
        assert isinstance(frame, pandas.DataFrame) and len(frame) == len(report.rows(name)) and frame.attrs["units"]


def test_claims_are_a_table_too(report):
    assert [row["id"] for row in report.rows("claims")] == [claim["id"] for claim in report.claims]
    lines = report.show("claims", columns=["id", "verdict"], where={"verdict": "pass"}, csv=True).splitlines()
    assert lines[0] == "id,verdict" and len(lines) == 1 + sum(claim["verdict"] == "pass" for claim in report.claims)


def test_reports_that_differ_or_are_none(report):
    other = json.loads(json.dumps(report))
    table = next(iter(other["results"].values()))
    table["rows"].pop()
    assert halfulp.diff(report, other).status == 1
    assert halfulp.validate({"schema_version": 2}).status == 1
    with pytest.raises(ValueError, match="no report of halfulp"):
        halfulp.show({})


def test_page(report, tmp_path):
    pytest.importorskip("matplotlib")
    pytest.importorskip("jinja2")
    answer = halfulp.page(report, out=tmp_path / "page.html", title="mine", rows=3)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert answer.status == 0 and "<title>mine</title>" in page and all(claim["id"] in page for claim in report.claims)
    report.save(tmp_path / "r.json")
    halfulp.page(report, tmp_path / "r.json", out=tmp_path / "both.html")
    assert "The results are the same." in (tmp_path / "both.html").read_text(encoding="utf-8")
    with pytest.raises(ValueError, match="REPORT"):
        halfulp.page(out=tmp_path / "none.html")
    with pytest.raises(ValueError, match="report1"):
        halfulp.page({}, out=tmp_path / "none.html")
    assert not (tmp_path / "none.html").exists()


def test_nothing_is_written_unless_asked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    halfulp.run("position_ids", lengths=2048, backend="emulated")
    assert not os.listdir(tmp_path)
    halfulp.run("position_ids", lengths=2048, backend="emulated", out="here/")
    assert os.listdir(tmp_path / "here") == ["position_ids.json"]


def test_answers():
    assert halfulp.formats("e4m3")["max"]["value"] == 448 and len(halfulp.formats()) >= 18 and halfulp.formats("mxfp4") and halfulp.formats(blocks=True)
    assert halfulp.explain(0.1, "fp16")["result"]["code"] == "0x2e66" == halfulp.explain(np.float64(0.1), "fp16")["result"]["code"]
    assert halfulp.explain(np.float32(0.1), "fp32")["is_exact"] and halfulp.explain("0x3C00", "fp16")["exact_decimal"] == "1" and halfulp.explain(-2, "fp16")["class"] == "normal"
    assert halfulp.explain(0.1, "e4m3", round="toward-zero")["rounding"] == "toward-zero"
    assert halfulp.eval("add", 0x3C00, 0x1000, format="fp16") == "3C00 1000 3C00 01"
    assert halfulp.eval("add", lines=["3C00 1000", "3C00 3C00"], format="fp16").split("\n")[1] == "3C00 3C00 4000 00"
    assert halfulp.eval("add", lines="3C00 1000 3C01 01\n", format="fp16", check=True).status == 1
    assert len(halfulp.eval("mul", format="e2m1", exhaustive=True).splitlines()) == 256
    cases = halfulp.eval("fma", format="fp32", sample=100, seed=3)
    assert halfulp.eval("fma", lines=cases, format="fp32", check=True) == "100 checked, 0 differ\n"
    unit = "hopper.mma.fp16.fp32"
    assert halfulp.mma(unit, lines=halfulp.mma(unit, sample=10, length=4, seed=2), check=True, show=0) == "10 checked, 0 differ"
    with pytest.raises(ValueError, match="accepted: one of them"):
        halfulp.eval("add", 1, 2, format="fp16", sample=3)
    with pytest.raises(ValueError, match="accepted: one of them"):
        halfulp.mma(unit, [[1]], sample=3)
    assert halfulp.eval("convert", 0x3C00, format="fp16", to="bf16") == "3C00 3F80 00"
    assert {b["name"] for b in halfulp.backends()} >= {"emulated", "x86"} and len(halfulp.list()) >= 9
    assert len(halfulp.units("hopper", "fp16")) > 1 and halfulp.units("hopper.mma.fp16.fp32")["k"] == 16
    assert halfulp.mma("hopper.mma.fp16.fp32", lines=["1 2 | 3 4 | 100"], values=True) == "111"
    assert halfulp.profiles() and halfulp.profiles(of=[449, 465], from_="fp32", to="e4m3") and halfulp.policies()
    assert halfulp.diff_profiles("ml_dtypes", "cuda-satfinite", from_="fp16", to="e4m3")["differing"] > 0
    assert halfulp.witness("fma:e2m1", "fma:e2m1:toward-zero", cases=1000)
    assert halfulp.verify("add", "e4m3", against="oracle", sample=1000)["verifications"][0]["differing"] == 0
    assert halfulp.probe("emulated:volta.mma.fp16.fp32")
    assert halfulp.validate(schema=True)["title"] == "halfulp report"


def test_files(tmp_path):
    x = np.random.default_rng(1).standard_normal((4, 64)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    summary = halfulp.quantize(tmp_path / "x.npy", "mxfp4", out=tmp_path / "v.npy", rule="rceil")
    assert summary["elements"] == 256 and np.array_equal(np.load(tmp_path / "v.npy"), halfulp.quantize(x, "mxfp4/rceil"))
    assert halfulp.quantize(str(tmp_path / "x.npy"), "e4m3", rounding="toward-zero")["rounding"] == "toward-zero"
    halfulp.sample(tmp_path / "s.npy", shape=(2, 3), distribution="uniform", median=0)
    sample = np.load(tmp_path / "s.npy")
    assert sample.shape == (2, 3) and sample.dtype == np.float32 and 0 < np.abs(sample).max() <= 1


@pytest.mark.parametrize("call, error, message", [
    (lambda: halfulp.run("swampin"), ValueError, "swamping"), (lambda: halfulp.run("swamping", ratio=[1]), ValueError, "ratios"), (lambda: halfulp.run("swamping", ratios="x"), ValueError, "ratios"),
    (lambda: halfulp.run("swamping", ratios=object()), TypeError, "ratios"), (lambda: halfulp.run("swamping", backend="cpu"), ValueError, "backend"),
    (lambda: halfulp.run("swamping", config={"x": 1}), ValueError, "config"), (lambda: halfulp.run("swamping", config="-"), ValueError, "config"),
    (lambda: halfulp.run("all", ratioz=1), ValueError, "ratioz"), (lambda: halfulp.run("swamping", threads=0), ValueError, "threads"),
    (lambda: halfulp.formats("fp17"), ValueError, "fp16"), (lambda: halfulp.formats(3), ValueError, "3"), (lambda: halfulp.formats(object()), TypeError, "name"),
    (lambda: halfulp.explain("0.1.2", "fp16"), ValueError, "0.1.2"), (lambda: halfulp.explain(0.1, "fp16", ronud="x"), ValueError, "--ronud"), (lambda: halfulp.eval("ad", 1, 2, format="fp16"), ValueError, "add"),
    (lambda: halfulp.eval("add", format="fp16"), ValueError, "lines"), (lambda: halfulp.eval("add", 1, lines="1 2", format="fp16"), ValueError, "lines"),
    (lambda: halfulp.eval("add", lines="1\n", format="fp16"), ValueError, "line 1"), (lambda: halfulp.units("hoper"), ValueError, "hopper"), (lambda: halfulp.mma("x", lines=["1"]), ValueError, "unit"),
    (lambda: halfulp.profiles("ml_dtype"), ValueError, "ml_dtypes"), (lambda: halfulp.validate("/no/such/file"), ValueError, "/no/such/file"), (lambda: halfulp.show("-"), ValueError, "report"),
    (lambda: halfulp.diff(1, 2), TypeError, "first"), (lambda: halfulp.verify("add", "fp16", against="oracle", exhaustive=True, sample=3), ValueError, "sample"), (lambda: halfulp.record("emulated", "-"), ValueError, "out"),
    (lambda: halfulp.quantize("/no/such.npy", "e4m3"), ValueError, "/no/such.npy"), (lambda: halfulp.formats("a\0b"), ValueError, "NUL"), (lambda: halfulp.load_report("/no/such"), ValueError, "/no/such"),
    (lambda: halfulp.check("cuda"), halfulp.BackendMissing, "cuda"), (lambda: halfulp.probe("recorded:nothing"), (ValueError, halfulp.BackendMissing), "nothing")])
def test_errors_are_the_command_lines(call, error, message):
    with pytest.raises(error, match=message) as caught:
        call()
    assert "\n" not in str(caught.value) and not str(caught.value).startswith("halfulp:")


def test_interrupts_and_handlers():
    """Ctrl-C, once or repeatedly, ends a run soon. The earlier handler comes back, and no interrupt stays pending."""
    seen = []
    before = signal.signal(signal.SIGINT, lambda *_: seen.append(1))
    handler = signal.getsignal(signal.SIGINT)
    try:
        for presses in (1, 3):
            timers = [threading.Timer(0.4 + 0.01 * i, os.kill, (os.getpid(), signal.SIGINT)) for i in range(presses)]
            for timer in timers:
                timer.start()
            start = time.monotonic()
            with pytest.raises(KeyboardInterrupt):
                halfulp.verify("mul", "bf16", against="oracle", exhaustive=True)
            assert time.monotonic() - start < 20
            for timer in timers:
                timer.join()
            assert signal.getsignal(signal.SIGINT) is handler and halfulp.formats("fp16")
        seen.clear()
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.1)
        assert seen == [1]
    finally:
        signal.signal(signal.SIGINT, before)


def test_threads_take_turns():
    answers = []
    threads = [threading.Thread(target=lambda k=k: answers.append((k, halfulp.explain(k, "fp16")["asked"]))) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [(k, str(k)) for k in range(8)]
