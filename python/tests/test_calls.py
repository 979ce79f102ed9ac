"""The commands' functions pass on their arguments: no value is read as an option, none is lost, and nothing is written
unasked."""
import decimal
import enum
import fractions
import json
import os

import numpy as np
import pytest

import halfulp
from halfulp import Report, Rounding


@pytest.fixture(scope="module")
def report():
    return halfulp.run("position_ids", lengths=2048, backend="emulated")


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.float32([0.1, 300, 1e-9]))
    return tmp_path


@pytest.mark.parametrize("call, error, message", [
    (lambda: halfulp.quantize("x.npy", "e4m3", out="", codes="c.npy"), ValueError, "^out: empty"), (lambda: halfulp.quantize("x.npy", "e4m3", rule=""), ValueError, "^rule: empty"),
    (lambda: halfulp.quantize("x.npy", "e4m3", axis="", codes="c.npy"), ValueError, "^axis: empty"), (lambda: halfulp.run("position_ids", backend=[]), ValueError, "^backend: empty"),
    (lambda: halfulp.quantize("x.npy", "e4m3", out=np.zeros(3)), TypeError, "^out: ndarray"), (lambda: halfulp.quantize("x.npy", "mxfp4", codes=[1]), TypeError, "^codes: "),
    (lambda: halfulp.quantize("x.npy", "mxfp4", scales=5), TypeError, "^scales: "), (lambda: halfulp.quantize("x.npy", "mxfp4", zeros=b"z"), TypeError, "^zeros: "),
    (lambda: halfulp.quantize("x.npy", "e4m3", help=True), ValueError, "^help: "), (lambda: halfulp.explain(1, "fp16", json=True), ValueError, "^json: "),
    (lambda: halfulp.eval("add", 1, 2, format="fp16", version=True), ValueError, "^version: "), (lambda: halfulp.eval("--help", format="fp16", lines="1"), ValueError, "--help"),
    (lambda: halfulp.formats("--help"), ValueError, "--help"), (lambda: halfulp.profiles("--help"), ValueError, "--help"), (lambda: halfulp.policies("--json"), ValueError, "--json"),
    (lambda: halfulp.verify("--help", "fp16", against="oracle"), ValueError, "--help"), (lambda: halfulp.run("--help"), ValueError, "--help"), (lambda: halfulp.formats("\ud800"), ValueError, "surrogate"),
    (lambda: halfulp.explain(10**5000, "fp16"), ValueError, "^value: an integer of 16610 bits"), (lambda: halfulp.explain(0.1, "fp16", round=Rounding("to-odd", overflow="saturate"), overflow="ieee"), ValueError, "^overflow: "),
    (lambda: halfulp.explain(0.1, np.int8), TypeError, "^format: "), (lambda: halfulp.show({}, where=5), TypeError, "^where: "), (lambda: halfulp.run("position_ids", config=Report({})), ValueError, "^config: ")])
def test_refused(here, call, error, message):
    with pytest.raises(error, match=message) as caught:
        call()
    assert "\n" not in str(caught.value) and os.listdir(here) == ["x.npy"]


def test_tables_with_names_of_options(report):
    with pytest.raises(ValueError, match="--help"):
        halfulp.show(report, "--help")


def test_code_words_of_any_integer_type():
    class Code(enum.IntEnum):
        one = 0x3C00

    for one in (np.uint16(0x3C00), np.int64(0x3C00), Code.one, 0x3C00, "3C00"):
        assert halfulp.eval("add", one, one, format="fp16") == "3C00 3C00 4000 00"
    assert halfulp.eval("sqrt", np.uint8(56), format="e4m3") == halfulp.eval("sqrt", 56, format="e4m3") == halfulp.eval("sqrt", "38", format="e4m3")


def test_fractions_and_decimals_are_exact_numbers():
    third = fractions.Fraction(1, 3)
    assert halfulp.explain(third, "fp16") == halfulp.explain("1/3", "fp16")
    assert halfulp.explain(decimal.Decimal("0.1"), "fp16") == halfulp.explain("0.1", "fp16")


def test_types_of_torch_are_formats():
    torch = pytest.importorskip("torch")
    assert halfulp.explain(0.1, torch.bfloat16) == halfulp.explain(0.1, "bf16")


def test_status_of_checks():
    assert halfulp.eval("add", 0x3C00, 0x1000, 0x3C01, 1, format="fp16", check=True).status == 1
    assert halfulp.eval("add", 0x3C00, 0x1000, 0x3C00, 1, format="fp16", check=True).status == 0


def test_roundings_and_types_as_options(here):
    r = Rounding("to-odd", overflow="saturate")
    summary = halfulp.quantize("x.npy", np.float16, rounding=r, out="v.npy")
    assert summary["rounding"] == "to-odd" and np.array_equal(np.load("v.npy"), halfulp.quantize(np.load("x.npy"), "fp16", rounding=r))
    halfulp.quantize("x.npy", halfulp.Format("e4m3"), rounding=r, out="v.npy")
    assert np.array_equal(np.load("v.npy"), halfulp.quantize(np.load("x.npy"), "e4m3", rounding=r))
    assert halfulp.explain(300, "e4m3", round=Rounding("toward-zero", overflow="saturate"))["rounding"] == "toward-zero"
    assert halfulp.explain(1e-9, "fp16", round=Rounding(flush_outputs=True)) == halfulp.explain(1e-9, "fp16", flush_outputs=True)
    assert halfulp.verify("add", np.float16, against="oracle", sample=100, round=Rounding("toward-zero"))["verifications"][0]["differing"] == 0
    assert halfulp.eval("convert", 0x43960000, format="fp32", to="e4m3", round=r) == halfulp.eval("convert", 0x43960000, format="fp32", to="e4m3", round="to-odd", overflow="saturate")


def test_numbers_with_names():
    class Seed(enum.IntEnum):
        one = 1

    class Half(float, enum.Enum):
        value_ = 0.5

    assert halfulp.explain(0.1, "fp16", round="stochastic", seed=Seed.one) == halfulp.explain(0.1, "fp16", round="stochastic", seed=1)
    assert halfulp.explain(Half.value_, "fp16")["is_exact"]


def test_reports_are_written_whole_or_not_at_all(report, tmp_path):
    file = tmp_path / "r.json"
    report.save(file)
    before = file.read_bytes()
    file.chmod(0o640)
    broken = Report(report)
    broken["results"] = {"t": object()}
    with pytest.raises(TypeError):
        broken.save(file)
    lone = Report(report)
    lone["question"] = "\ud800"
    lone.save(file)  # JSON escapes it
    assert json.loads(file.read_text())["question"] == "\ud800" and file.stat().st_mode & 0o777 == 0o640
    report.save(file)
    assert file.read_bytes() == before and os.listdir(tmp_path) == ["r.json"]
    (tmp_path / "link.json").symlink_to(file)
    Report({"other": 1}).save(tmp_path / "link.json")
    assert (tmp_path / "link.json").is_symlink() and json.loads(file.read_text()) == {"other": 1}


def test_a_full_disk_leaves_what_was_there(report, tmp_path, monkeypatch):
    file = tmp_path / "r.json"
    report.save(file)
    before = file.read_bytes()

    def full(self, content):
        with open(self, "wb") as f:
            f.write(content[:100])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(type(file), "write_bytes", full)
    with pytest.raises(OSError):
        report.save(file)
    monkeypatch.undo()
    assert file.read_bytes() == before and os.listdir(tmp_path) == ["r.json"]


@pytest.mark.parametrize("out", ["no/such/r.json", "a\0b", "x.npy/r.json", "x.npy/", ""])
def test_where_reports_go_is_looked_at_before(here, out, monkeypatch):
    monkeypatch.setattr(halfulp.commands, "call", lambda *_: pytest.fail("the experiment ran"))
    for experiment in ("position_ids", "all"):
        if experiment == "all" and out == "no/such/r.json":
            continue  # missing folders are made
        with pytest.raises(ValueError, match="^out: "):
            halfulp.run(experiment, out=out)
    assert os.listdir(here) == ["x.npy"]


def test_objects_that_are_no_reports():
    deep: dict = {}
    for _ in range(3000):
        deep = {"deeper": deep}
    with pytest.raises(ValueError, match="^report: nested (too deeply|deeper than 64 levels)"):  # from Python 3.13 on json writes it, and the program refuses
        halfulp.validate(deep)
    answer = halfulp.validate({})
    assert answer.status == 1 and "/" not in answer.split(":")[0] and answer.startswith("report")
    assert "report1" in halfulp.validate({}, {}) and "report2" in halfulp.validate({}, {})
    assert repr(Report({})) == "Report({})" and repr(Report({"a": 1})) == "Report({'a': 1})"


def test_reports_that_cannot_be_saved_name_their_file(tmp_path):
    report = halfulp.Report({"experiment": "none"})
    missing = tmp_path / "missing" / "a.json"
    with pytest.raises(FileNotFoundError) as raised:
        report.save(missing)
    assert raised.value.filename == str(missing)
    report.save(tmp_path / "a.json")
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
