"""Checkpoints: files written by hand, every dtype of the specification, and what is refused. tests/with_torch compares with the package."""
import json
import os
import struct
import subprocess
import sys
import threading

import numpy as np
import pytest

import halfulp
from conftest import same

NATIVE = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "I64": np.int64, "I32": np.int32, "I16": np.int16, "I8": np.int8, "U64": np.uint64, "U32": np.uint32, "U16": np.uint16,
          "U8": np.uint8, "BOOL": np.bool_, "C64": np.complex64}
# Bits, format, name in ml_dtypes
OTHERS = {"BF16": (16, "bf16", "bfloat16"), "F8_E4M3": (8, "e4m3", "float8_e4m3fn"), "F8_E5M2": (8, "e5m2", "float8_e5m2"), "F8_E4M3FNUZ": (8, "e4m3fnuz", "float8_e4m3fnuz"),
          "F8_E5M2FNUZ": (8, "e5m2fnuz", "float8_e5m2fnuz"), "F8_E8M0": (8, "e8m0", "float8_e8m0fnu"), "F6_E2M3": (6, "e2m3", "float6_e2m3fn"), "F6_E3M2": (6, "e3m2", "float6_e3m2fn"),
          "F4": (4, "e2m1", "float4_e2m1fn")}


def write(file, tensors, metadata=None, before=b"{", data=None):
    """A .safetensors file of {name: (dtype, shape, bytes)}, by the specification."""
    header, at = {} if metadata is None else {"__metadata__": metadata}, 0
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + len(content)]}
        at += len(content)
    text = before + json.dumps(header).encode()[1:]
    file.write_bytes(struct.pack("<Q", len(text)) + text + (b"".join(content for _, _, content in tensors.values()) if data is None else data))
    return file


def packed(codes, bits):
    """Code words one after the other, the first in the lowest bits."""
    whole = sum(int(code) << (bits * i) for i, code in enumerate(codes))
    return whole.to_bytes(len(codes) * bits // 8, "little")


def every_dtype(shape):
    """{dtype: (its tensor, code words or array)} of random bits."""
    draw, count = np.random.default_rng(1), int(np.prod(shape))
    made = {}
    for dtype, kind in NATIVE.items():
        x = draw.integers(0, 2 if dtype == "BOOL" else 256, count * np.dtype(kind).itemsize, dtype=np.uint8).view(kind).reshape(shape)
        made[dtype] = ((dtype, shape, x.tobytes()), x)
    for dtype, (bits, _, _) in OTHERS.items():
        codes = draw.integers(0, 1 << bits, shape).astype(np.uint16)
        made[dtype] = ((dtype, shape, packed(codes.reshape(-1), bits)), codes)
    return made


@pytest.mark.parametrize("shape", [(8,), (3, 8), (2, 3, 4), (0,), (4, 0), (2, 0, 3), (1, 1, 8)], ids=str)
@pytest.mark.parametrize("installed", [True, False])
def test_every_dtype(shape, installed, tmp_path, monkeypatch):
    if installed:
        ml_dtypes = pytest.importorskip("ml_dtypes")
    else:
        monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    made = every_dtype(shape)
    ckpt = halfulp.open_checkpoint(write(tmp_path / "m.safetensors", {name: tensor for name, (tensor, _) in made.items()}))
    assert list(ckpt) == list(ckpt.keys()) == (sorted(made) if 0 in shape else [*made]) and len(ckpt) == 22  # at one place by name
    for name, (tensor, codes) in made.items():
        assert ckpt.info(name) == (name, shape, len(tensor[2]), str(tmp_path / "m.safetensors")) and ckpt.info(name).dtype == name
        x = ckpt[name]
        assert x.shape == shape and x.flags.c_contiguous and x.flags.writeable
        if name in NATIVE:
            assert x.dtype == NATIVE[name] and x.tobytes() == tensor[2]
            if name[0] == "F":
                with np.errstate(over="ignore", invalid="ignore"):
                    same(ckpt.values(name), codes.astype(np.float32))
            else:
                with pytest.raises(TypeError, match=f"tensor '{name}': {name}; accepted: types of floats"):
                    ckpt.values(name)
            continue
        bits, format, dtype = OTHERS[name]
        expected = halfulp.decode(codes, format)
        same(ckpt.values(name), expected)
        assert ckpt.values(name).dtype == np.float32
        if installed and hasattr(ml_dtypes, dtype):
            assert x.dtype == getattr(ml_dtypes, dtype)
            assert np.array_equal(x.view(np.uint16 if bits == 16 else np.uint8), codes)
        else:
            assert x.dtype == np.float32
            same(x, expected)


def test_bf16_by_its_definition(tmp_path):
    """The upper half of a float32, by a route that halfulp has no part in."""
    codes = np.arange(1 << 16, dtype=np.uint16)
    ckpt = halfulp.open_checkpoint(write(tmp_path / "m.safetensors", {"x": ("BF16", (256, 256), codes.tobytes())}))
    same(ckpt.values("x"), (codes.astype(np.uint32) << 16).view(np.float32).reshape(256, 256))


def test_scalars_and_order(tmp_path):
    """Tensors come in the order of their bytes, whatever the header's is."""
    file = write(tmp_path / "m.safetensors", {name: (dtype, (), np.dtype(kind).type(3).tobytes()) for name, (dtype, kind) in {"z": ("F64", "f8"), "a": ("I32", "i4"), "m": ("BOOL", "?")}.items()},
                 {"format": "pt", "note": "ä"})
    length = struct.unpack("<Q", file.read_bytes()[:8])[0]
    header = json.loads(file.read_bytes()[8: 8 + length])
    text = json.dumps(dict(reversed(header.items()))).encode()
    other = tmp_path / "other.safetensors"
    other.write_bytes(struct.pack("<Q", len(text) + 5) + text + b" " * 5 + file.read_bytes()[8 + length:])
    for ckpt in (halfulp.open_checkpoint(file), halfulp.open_checkpoint(str(other))):
        assert list(ckpt) == ["z", "a", "m"] and ckpt.metadata == {"format": "pt", "note": "ä"}
        assert ckpt["z"].shape == () and ckpt["z"] == 3.0 and ckpt.values("z") == 3.0 and ckpt["a"].dtype == np.int32 and ckpt["m"].dtype == np.bool_ and ckpt["m"]
    assert halfulp.open_checkpoint(file).path == str(file) and "3 tensors, 13 bytes" in repr(ckpt)


def test_pieces(tmp_path):
    """Tensors longer than the pieces in which they are read."""
    count = 2 * (1 << 22) + 8
    codes = np.random.default_rng(4).integers(0, 16, count, dtype=np.uint8)
    f4 = (codes[0::2] | codes[1::2] << 4).tobytes()
    six = codes.reshape(-1, 4).astype(np.uint32)
    stream = six[:, 0] | six[:, 1] << 6 | six[:, 2] << 12 | six[:, 3] << 18
    f6 = stream.astype("<u4").view(np.uint8).reshape(-1, 4)[:, :3].tobytes()
    wide = np.arange(count, dtype=np.float64) / 3
    ckpt = halfulp.open_checkpoint(write(tmp_path / "m.safetensors", {"f4": ("F4", (count,), f4), "f6": ("F6_E2M3", (count,), f6), "f64": ("F64", (count,), wide.tobytes())}))
    same(ckpt.values("f4"), halfulp.decode(codes, "e2m1"))
    same(ckpt.values("f6"), halfulp.decode(codes, "e2m3"))
    same(ckpt.values("f64"), wide.astype(np.float32))
    assert np.array_equal(ckpt["f64"], wide)
    if np.dtype(ckpt["f4"].dtype) != np.float32:
        assert np.array_equal(ckpt["f4"].view(np.uint8), codes) and np.array_equal(ckpt["f6"].view(np.uint8), codes)


def test_shards_and_folders(tmp_path):
    shard = {name: ("F32", (2,), np.float32([i, i + 1]).tobytes()) for i, name in enumerate("abcd")}
    write(tmp_path / "m-2.safetensors", {name: shard[name] for name in "ac"}, {"format": "pt", "of": "2"})
    write(tmp_path / "m-1.safetensors", {name: shard[name] for name in "db"}, {"format": "pt", "of": "1"})
    index = tmp_path / "m.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "m-2.safetensors", "b": "m-1.safetensors", "c": "m-2.safetensors", "d": "m-1.safetensors"}}))
    for path in (tmp_path, index, str(tmp_path) + "/"):
        ckpt = halfulp.open_checkpoint(path)
        assert list(ckpt) == ["d", "b", "a", "c"] and ckpt.metadata == {"format": "pt", "of": "1"}
        assert [ckpt[name][0] for name in "abcd"] == [0, 1, 2, 3] and ckpt.info("a").file.endswith("m-2.safetensors")
    (tmp_path / "m-1.safetensors").unlink()
    with pytest.raises(ValueError, match="tensor 'b' is in m-1.safetensors, which is not there"):
        halfulp.open_checkpoint(tmp_path)
    arrays = tmp_path / "arrays"
    arrays.mkdir()
    np.save(arrays / "b.npy", np.float16([[1, 2], [3, 4]]))
    np.save(arrays / "a.npy", np.float64([0.1]))
    ckpt = halfulp.open_checkpoint(arrays)
    assert list(ckpt) == ["a", "b"] and ckpt.info("b")[:3] == ("F16", (2, 2), 8) and ckpt["a"][0] == 0.1 and ckpt.values("a")[0] == np.float32(0.1)
    assert list(halfulp.open_checkpoint(arrays / "a.npy")) == ["a"] and ckpt.metadata == {}


def test_names(tmp_path):
    names = ["model.layers.0.self_attn.q_proj.weight", "model.layers.0.self_attn.k_proj.weight", "lm_head.weight", "größe", "\U0001f600", ""]
    ckpt = halfulp.open_checkpoint(write(tmp_path / "m.safetensors", {name: ("U8", (), b"\1") for name in names}))
    assert all(name in ckpt and ckpt[name] == 1 for name in names) and "model" not in ckpt and 3 not in ckpt and None not in ckpt
    for read in (ckpt.__getitem__, ckpt.values, ckpt.info):
        with pytest.raises(KeyError, match="unknown tensor 'model.layers.0.self_attn.q_prj.weight'; did you mean model.layers.0.self_attn.q_proj.weight. accepted: .* and 1 more"):
            read("model.layers.0.self_attn.q_prj.weight")
        with pytest.raises(KeyError, match="accepted"):
            read("\ud800")
        with pytest.raises(TypeError, match="name: int; accepted: text"):
            read(3)
    assert halfulp.open_checkpoint(write(tmp_path / "none.safetensors", {})).keys() == set()


def test_names_of_files_have_no_control_characters(tmp_path):
    np.save(tmp_path / "a\nb.npy", np.float32([1]))
    with pytest.raises(ValueError, match="control character"):
        halfulp.open_checkpoint(tmp_path)


def test_names_of_files_may_be_no_utf_8(tmp_path):
    try:
        file = os.path.join(os.fsencode(tmp_path), b"\xff.npy")
        np.save(os.fsdecode(file), np.float32([1]))
    except OSError:
        pytest.skip("this file system has names in UTF-8 only")
    ckpt = halfulp.open_checkpoint(tmp_path)
    assert list(ckpt) == ["\udcff"] and ckpt["\udcff"] == 1 and os.fsencode(ckpt.info("\udcff").file) == file
    with pytest.raises(KeyError):
        ckpt["x"]
    np.save(os.fsdecode(file), np.asfortranarray(np.ones((2, 2), np.float32)))
    with pytest.raises(ValueError, match="Fortran order"):
        halfulp.open_checkpoint(tmp_path)


GOOD = {"x": ("F32", (2,), b"12345678")}


@pytest.mark.parametrize("make, message", [
    (lambda f: f.write_bytes(b""), "0 bytes, not a .safetensors file"), (lambda f: f.write_bytes(b"x" * 8), "accepted: a .safetensors file"), (lambda f: f.mkdir(), "a folder without"),
    (lambda f: f.write_bytes(b"PK\3\4" + bytes(100)), "zip archive.*safetensors.torch.save_file"), (lambda f: f.write_bytes(b"\x80\2" + bytes(100)), "pickle"),
    (lambda f: f.write_bytes(b"GGUF" + bytes(100)), "GGUF"), (lambda f: write(f, GOOD, data=b"1234567"), "truncated: tensor 'x'"), (lambda f: write(f, GOOD, data=b"123456789"), "trailing garbage"),
    (lambda f: write(f, GOOD, before=b" {"), "begin with '{'"), (lambda f: write(f, GOOD, before=b'{"x":{},'), 'member "x" is there twice'), (lambda f: write(f, {"a\nb": GOOD["x"]}), "control character"),
    (lambda f: write(f, {"x": ("F128", (2,), b"1")}), "tensor 'x': unknown dtype 'F128'; accepted: F64, F32"), (lambda f: write(f, {"x": ("F4", (3,), b"1")}), "do not fill whole bytes"),
    (lambda f: write(f, {"x": ("F32", (3,), b"1")}), "take 12 bytes"), (lambda f: write(f, {"x": ("F32", (-1,), b"")}), "not whole, from 0 on"),
    (lambda f: write(f, {"x": ("F32", (1 << 62, 1 << 62), b"")}), "impossibly large"), (lambda f: write(f, {"x": ("F32", (1 << 63, 2, 0), b"")}), "impossibly large"), (lambda f: write(f, GOOD, {"a": 1}), "__metadata__ 'a' is no text")])
def test_refused(make, message, tmp_path):
    file = tmp_path / "m.safetensors"
    make(file)
    with pytest.raises(ValueError, match=message) as why:
        halfulp.open_checkpoint(file)
    assert str(why.value).startswith(str(file)) and "\n" not in str(why.value)
    with pytest.raises(ValueError, match=message):
        halfulp.inspect(file)


@pytest.mark.parametrize("path, error, message", [
    ("no/such/file.safetensors", ValueError, "no such file"), ("", ValueError, "path: empty"), ("-", ValueError, "path: '-'"), ("m\0.safetensors", ValueError, "NUL"),
    ("\ud800", ValueError, "lone surrogate"), (3, TypeError, "path: int; accepted: a file's name"), (None, TypeError, "path"), (b"m", TypeError, "path"), ("/dev/null", ValueError, "a pipe or a device")])
def test_paths(path, error, message):
    with pytest.raises(error, match=message):
        halfulp.open_checkpoint(path)


def test_a_path_that_begins_with_a_dash(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "-m.safetensors", GOOD)
    assert halfulp.open_checkpoint("-m.safetensors").path == "-m.safetensors" and len(halfulp.open_checkpoint("-m.safetensors")) == 1


@pytest.mark.parametrize("shape", [(0, 1 << 63), (1 << 62, 0), (1,) * 70], ids=["no float", "too long", "too many axes"])
def test_shapes_that_arrays_cannot_have(shape, tmp_path):
    ckpt = halfulp.open_checkpoint(write(tmp_path / "m.safetensors", {"x": ("F32", shape, b"1234"[: 0 if 0 in shape else 4])}))
    assert ckpt.info("x").shape == shape
    for read in (ckpt.__getitem__, ckpt.values):
        with pytest.raises(ValueError, match="tensor 'x': shape"):
            read("x")


def test_a_file_that_changes(tmp_path):
    """It is read where it was opened: another file under its name is not noticed, but a change of its own is."""
    file = write(tmp_path / "m.safetensors", GOOD)
    ckpt = halfulp.open_checkpoint(file)
    write(tmp_path / "new.safetensors", {"x": ("F32", (2,), b"abcdefgh")})
    os.replace(tmp_path / "new.safetensors", file)
    assert ckpt["x"].tobytes() == b"12345678"
    for size in (file.stat().st_size - 1, file.stat().st_size + 1):
        write(file, GOOD)
        ckpt = halfulp.open_checkpoint(file)
        os.truncate(file, size)
        for read in (ckpt.__getitem__, ckpt.values):
            with pytest.raises(ValueError, match="changed while it was read"):
                read("x")


def test_threads(tmp_path):
    x = np.random.default_rng(5).standard_normal((50, 1000), dtype=np.float32)
    ckpt = halfulp.open_checkpoint(write(tmp_path / "m.safetensors", {f"{i}": ("F32", (1000,), row.tobytes()) for i, row in enumerate(x)}))
    wrong = []

    def work(first):
        for i in range(200):
            row = (first + 7 * i) % 50
            if not np.array_equal(ckpt[str(row)], x[row]) or not np.array_equal(ckpt.values(str(row)), x[row]):
                wrong.append(row)
    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_without_torch(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    ckpt = halfulp.open_checkpoint(write(tmp_path / "m.safetensors", GOOD))
    with pytest.raises(ImportError, match="torch"):
        ckpt.tensor("x")
    assert ckpt["x"].size == 2


# --- halfulp inspect ------------------------------------------------------------------------------

@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Two layers in bf16, whose second has an outlier, and ids."""
    draw, tensors = np.random.default_rng(6), {}
    for layer in range(2):
        for role, shape in (("self_attn.q_proj", (64, 64)), ("mlp.up_proj", (128, 64))):
            x = draw.standard_normal(shape).astype(np.float32) * np.float32(0.02)
            x[3, 5] = 3 if layer else x[3, 5]
            tensors[f"model.layers.{layer}.{role}.weight"] = ("BF16", shape, (x.view(np.uint32) >> 16).astype(np.uint16).tobytes())
    tensors["ids"] = ("I64", (8,), bytes(64))
    return write(tmp_path_factory.mktemp("model") / "model.safetensors", tensors)


def test_inspect(model, tmp_path):
    report = halfulp.inspect(model, formats=["fp32", "e4m3", halfulp.BlockFormat("mxfp4")])
    assert report.status == "pass" and report["experiment"] == "checkpoint" and report.names == ["formats", "tensors", "losses", "layers", "roles", "exponents", "layouts", "others"]
    assert [row["format"] for row in report.rows("formats")] == ["fp32", "e4m3", "mxfp4"] and report.rows("formats")[0]["lossless"] == 4
    assert [row["tensor"] for row in report.rows("tensors")] == [name for name in halfulp.open_checkpoint(model) if name != "ids"]
    assert [row["tensor"] for row in report.rows("others")] == ["ids"]
    # The same as by hand
    ckpt = halfulp.open_checkpoint(model)
    for row in report.rows("losses"):
        x = ckpt.values(row["tensor"])
        y = halfulp.quantize(x, row["format"], **({} if row["format"] == "mxfp4" else {"overflow": "saturate"}))
        error = np.linalg.norm(np.float64(x) - y) / np.linalg.norm(np.float64(x))
        assert row["relative_error"] == pytest.approx(error, rel=1e-12, abs=0) and row["to_zero"] == np.count_nonzero((x != 0) & (y == 0))
        assert row["largest_error"] == np.abs(np.float64(x) - y).max()
    # The same as on the command line
    out = tmp_path / "report.json"
    done = subprocess.run([sys.executable, "-m", "halfulp", "inspect", str(model), "--formats", "fp32,e4m3,mxfp4", "--quiet", "--out", str(out)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert halfulp.diff(report, out).status == 0 and halfulp.validate(report).status == 0


def test_options_of_inspect(model, tmp_path):
    some = halfulp.inspect(model, formats="bf16", layers=["*.0.*", "ids"], roles={"mine": ["*q_proj*", "*k_proj*"], "other": "*up*"}, outliers=8, threads=1, out=tmp_path)
    assert {row["layer"] for row in some.rows("tensors")} == {"model.layers.0"} and {row["role"] for row in some.rows("tensors")} == {"mine", "other"}
    assert some.config["outliers"] == 8 and halfulp.load_report(tmp_path / "checkpoint.json") == some
    assert halfulp.inspect(model, formats="bf16", layers="*.0.*,ids", roles="mine=*q_proj*;mine=*k_proj*;other=*up*", outliers=8)["results"] == some["results"]
    assert halfulp.inspect(config=some)["results"] == some["results"]
    for given, message in (({"formats": "fp17"}, "did you mean fp16"), ({"layers": "nothing*"}, "no tensor of"), ({"roles": {"a": []}}, "roles: empty"), ({"outlier": 3}, "unknown parameter 'outlier'"),
                           ({"out": tmp_path / "no" / "folder.json"}, "out")):
        with pytest.raises(ValueError, match=message):
            halfulp.inspect(model, **given)
    with pytest.raises(ValueError, match="checkpoint"):
        halfulp.inspect()
    with pytest.raises(TypeError, match="roles"):
        halfulp.inspect(model, roles={"a": object()})


def test_choose(model, tmp_path):
    mix = tmp_path / "mix.json"
    report = halfulp.choose(model, bits=7, formats=["mxfp8e4m3", "nvfp4"], mix=mix)
    total = report.rows("totals")[0]
    assert report.status == "pass" and total["format"] == "mix" and total["bits"] <= 7
    assert json.loads(mix.read_text())["tensors"] == {row["tensor"]: row["format"] for row in report.rows("choice") if row["format"] != "stored"}
    assert halfulp.choose(model, bytes=total["bytes"], formats=["mxfp8e4m3", "nvfp4"])["results"]["choice"] == report["results"]["choice"]
    assert halfulp.choose(config=report)["results"] == report["results"]
    with pytest.raises(ValueError, match="no budget"):
        halfulp.choose(model)
    for given in ({"bits": True}, {"bits": 5, "keep": True}, {"sqnr": False}):
        with pytest.raises(TypeError, match="accepted: a value"):
            halfulp.choose(model, **given)


def test_quantized_and_compared(tmp_path):
    weight = np.random.default_rng(1).normal(size=(32, 64)).astype(np.float32)
    os.makedirs(tmp_path / "model")
    np.save(tmp_path / "model" / "a.weight.npy", weight)
    np.save(tmp_path / "model" / "norm.npy", np.ones(64, np.float16))
    new = tmp_path / "new.safetensors"
    for layout in ("compressed-tensors", "modelopt", "torchao"):
        report = halfulp.quantize_checkpoint(tmp_path / "model", new, "nvfp4", layout=layout)
        assert report.status == "pass" and [row["tensor"] for row in report.rows("tensors")] == ["a.weight"]
        ckpt = halfulp.open_checkpoint(new)
        (name, info), = ckpt.layouts().items()
        assert name == "a.weight" and info.format == "nvfp4" and info.shape == (32, 64) and info.bytes == 32 * 32 + 32 * 4 + 4 and layout in info.layout.lower()
        expected = halfulp.dequantize_blocks(halfulp.quantize_blocks(weight, "nvfp4")) if hasattr(halfulp, "dequantize_blocks") else halfulp.quantize(weight, "nvfp4")
        np.testing.assert_allclose(ckpt.decoded("a.weight"), expected, rtol=2.0 ** -22)
        with pytest.raises(KeyError, match="layouts"):
            ckpt.decoded("norm")
        if layout != "modelopt":
            with pytest.raises(KeyError, match="decoded"):
                ckpt.values("a.weight")
        with pytest.raises(ValueError, match="against"):
            halfulp.diff(new, tmp_path / "model")
        compared = halfulp.inspect(new, against=tmp_path / "model")
        assert {row["tensor"]: row["because"] for row in compared.rows("differences")} == {"a.weight": "nvfp4", "norm": "the same bytes"}
    mix = {"version": 1, "tensors": {"a.weight": "bf16"}}
    report = halfulp.quantize_checkpoint(tmp_path / "model", new, mix=mix, dtype="BF16", round="toward-zero")
    assert report.rows("tensors")[0]["stored_as"] == "BF16"
    chosen = halfulp.choose(tmp_path / "model", bits=9, formats="e4m3-row")
    assert halfulp.quantize_checkpoint(tmp_path / "model", new, mix=chosen).rows("tensors")[0]["format"] == "e4m3-row"
    report = halfulp.quantize_checkpoint(tmp_path / "model", new, mix=mix, dtype="BF16", round="toward-zero")
    assert (halfulp.open_checkpoint(new).values("a.weight") == halfulp.quantize(weight, "bf16", rounding="toward-zero")).all()
    assert halfulp.inspect(new, against=tmp_path / "model").rows("differences")[0]["because"] == "bf16, toward-zero"
    for arguments, why in ((dict(format="fp17"), "fp17"), ({}, "neither a format"), (dict(format="nvfp4", layout="gguf"), "layout"), (dict(format="bf16", axes=8), "is left to be rounded"),
                           (dict(mix={"version": 3}), "not a mix")):
        before = new.read_bytes()
        with pytest.raises(ValueError, match=why):
            halfulp.quantize_checkpoint(tmp_path / "model", new, **arguments)
        assert new.read_bytes() == before
    with pytest.raises(ValueError, match="safetensors"):
        halfulp.quantize_checkpoint(tmp_path / "model", tmp_path / "new.bin", "bf16")
