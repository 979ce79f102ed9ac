"""Checkpoints beside the package safetensors: the same tensors, bit for bit, of whatever it writes; and of damaged headers, refused where
it refuses."""
import json
import os
import pathlib
import random
import struct

import numpy as np
import pytest

torch = pytest.importorskip("torch", minversion="2.4")
safetensors = pytest.importorskip("safetensors")
import safetensors.numpy  # noqa: E402
import safetensors.torch  # noqa: E402

import halfulp  # noqa: E402

# Of torch, those that the package saves: integers, bool, floats. Older torches have fewer.
DTYPES = [getattr(torch, name) for name in ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu",
                                            "float4_e2m1fn_x2", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "bool", "complex64") if hasattr(torch, name)]
SHAPES = [(), (0,), (1,), (3, 0, 2), (7,), (3, 5), (2, 3, 4), (1, 1, 1, 1, 6)]


def bits(x):
    """A tensor's memory."""
    return x.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def same(ours, theirs):
    assert ours.dtype == theirs.dtype and ours.shape == theirs.shape and ours.stride() == theirs.stride() and bits(ours) == bits(theirs)


def random_tensor(dtype, shape, generator):
    """Any bits, NaN and infinities among them."""
    x = torch.empty(shape, dtype=dtype)
    if dtype == torch.bool:
        return torch.randint(2, shape, generator=generator).bool()
    return torch.randint(256, (x.numel() * x.element_size(),), dtype=torch.uint8, generator=generator).view(dtype).reshape(shape)


@pytest.fixture(scope="module")
def tensors():
    generator = torch.Generator().manual_seed(1)
    return {f"{str(dtype).removeprefix('torch.')}.{'x'.join(map(str, shape)) or 'scalar'}": random_tensor(dtype, shape, generator)
            for dtype in DTYPES for shape in SHAPES if shape or dtype != getattr(torch, "float4_e2m1fn_x2", None)}


def test_every_dtype(tensors, tmp_path):
    file = tmp_path / "model.safetensors"
    safetensors.torch.save_file(tensors, file, metadata={"format": "pt", "näme": "wert\n"})
    ckpt = halfulp.open_checkpoint(file)
    theirs = safetensors.torch.load_file(file)
    assert set(ckpt) == set(theirs) == set(tensors) and len(ckpt) == len(tensors) and ckpt.metadata == {"format": "pt", "näme": "wert\n"}
    with safetensors.safe_open(file, "pt") as opened:
        order = [name for name in opened.offset_keys() if tensors[name].numel()]
        assert [name for name in ckpt if tensors[name].numel()] == order
        for name in ckpt:
            same(ckpt.tensor(name), theirs[name])
            same(ckpt.tensor(name), opened.get_tensor(name))
            part = opened.get_slice(name)
            assert ckpt.info(name)[:2] == (part.get_dtype(), tuple(part.get_shape()))
            assert ckpt.info(name).bytes == theirs[name].nbytes and ckpt.info(name).file == str(file)


def test_values_are_what_torch_converts_to(tensors, tmp_path):
    file = tmp_path / "model.safetensors"
    safetensors.torch.save_file(tensors, file)
    ckpt = halfulp.open_checkpoint(file)
    compared = 0
    for name, x in tensors.items():
        if not x.dtype.is_floating_point:
            with pytest.raises(TypeError, match=name):
                ckpt.values(name)
        elif x.dtype != getattr(torch, "float4_e2m1fn_x2", None):  # torch converts none
            expected, values = x.float().numpy(), ckpt.values(name)
            assert values.dtype == np.float32 and values.shape == expected.shape
            np.testing.assert_array_equal(values, expected)
            zeros = values == 0
            assert np.array_equal(np.signbit(values[zeros]), np.signbit(expected[zeros]))
            compared += values.size
    assert compared > 400


def test_numpy(tensors, tmp_path):
    """What safetensors.numpy writes and reads: the same arrays. NumPy's other types are refused by the package."""
    kinds = (np.float64, np.float32, np.float16, np.int64, np.int32, np.int16, np.int8, np.uint64, np.uint32, np.uint16, np.uint8, np.bool_, np.complex64)
    draw = np.random.default_rng(2)
    arrays = {}
    for kind in kinds:
        for shape in SHAPES:
            count = int(np.prod(shape))
            codes = draw.integers(0, 2 if kind == np.bool_ else 256, count * np.dtype(kind).itemsize, dtype=np.uint8)
            arrays[f"{np.dtype(kind).name}/{shape}"] = codes.view(kind).reshape(shape)
    file = tmp_path / "arrays.safetensors"
    safetensors.numpy.save_file(arrays, file)
    ckpt, theirs = halfulp.open_checkpoint(file), safetensors.numpy.load_file(file)
    assert set(ckpt) == set(theirs)
    for name, x in theirs.items():
        y = ckpt[name]
        assert y.dtype == x.dtype == arrays[name].dtype and y.shape == x.shape and y.tobytes() == x.tobytes() == arrays[name].tobytes()
        assert y.flags.writeable and y.flags.c_contiguous
    # A file of torch's types as NumPy's
    file = tmp_path / "model.safetensors"
    safetensors.torch.save_file(tensors, file)
    ckpt = halfulp.open_checkpoint(file)
    for name, x in tensors.items():
        if str(x.dtype).removeprefix("torch.") in {np.dtype(kind).name for kind in kinds}:
            assert ckpt[name].tobytes() == bits(x) and ckpt[name].dtype == x.numpy().dtype and ckpt[name].shape == tuple(x.shape)


def test_shards(tensors, tmp_path):
    names = list(tensors)
    random.Random(3).shuffle(names)
    shards = {f"model-{i + 1:05}-of-00004.safetensors": names[i::4] for i in range(4)}
    for file, some in shards.items():
        safetensors.torch.save_file({name: tensors[name] for name in some}, tmp_path / file, metadata={"format": "pt"})
    index = {"metadata": {"total_size": 1}, "weight_map": {name: file for file, some in shards.items() for name in some}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    for path in (tmp_path, tmp_path / "model.safetensors.index.json"):
        ckpt = halfulp.open_checkpoint(path)
        assert set(ckpt) == set(names) and ckpt.metadata == {"format": "pt"} and ckpt.path == str(path)
        for file, some in shards.items():
            theirs = safetensors.torch.load_file(tmp_path / file)
            for name in some:
                same(ckpt.tensor(name), theirs[name])
                assert ckpt.info(name).file == str(tmp_path / file)


def test_tensors_that_are_not_contiguous(tmp_path):
    file = tmp_path / "views.safetensors"
    views = {"turned": torch.arange(12.0).reshape(3, 4).t(), "stepped": torch.arange(12.0, dtype=torch.bfloat16)[::3]}
    with pytest.raises(ValueError, match="contiguous"):
        safetensors.torch.save_file(views, file)
    safetensors.torch.save_file({name: x.contiguous() for name, x in views.items()}, file)
    ckpt = halfulp.open_checkpoint(file)
    for name, x in views.items():
        same(ckpt.tensor(name), x.contiguous())


def test_what_torch_cannot_hold(tmp_path):
    """Where the package has no tensor, neither do we; the values are there all the same."""
    for dtype, shape, count, error, theirs in (("F6_E2M3", [4], 3, TypeError, "F6_E2M3"), ("F6_E3M2", [2, 4], 6, TypeError, "F6_E3M2"), ("F4", [2, 3], 3, ValueError, "divisible by 2")):
        file = tmp_path / "x.safetensors"
        header = json.dumps({"x": {"dtype": dtype, "shape": shape, "data_offsets": [0, count]}}).encode()
        file.write_bytes(struct.pack("<Q", len(header)) + header + bytes(range(17, 17 + count)))
        with safetensors.safe_open(file, "pt") as opened, pytest.raises(safetensors.SafetensorError, match=theirs):
            opened.get_tensor("x")
        ckpt = halfulp.open_checkpoint(file)
        with pytest.raises(error, match="tensor 'x': F"):
            ckpt.tensor("x")
        assert ckpt.values("x").shape == tuple(shape)


# --- damaged headers ------------------------------------------------------------------------------

NAMES = ("DTYPE", "a", "model.layers.0.weight", "ü")
ALL = ("F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "F8_E8M0", "F6_E2M3", "F6_E3M2", "F4", "I64", "I32", "I16", "I8", "U64", "U32", "U16", "U8", "BOOL",
       "C64", "F128", "f32", "")
NUMBERS = ("0", "1", "2", "3", "4", "8", "16", "-1", "-0", "1.0", "1e2", "01", "2147483648", "9223372036854775807", "9223372036854775808", "18446744073709551615", "18446744073709551616", "1e400", "null",
           '"2"', "[1]", "true", "NaN", "")


class Damage:
    """A valid file, as text of its fields, and ways to damage it."""

    def __init__(self, seed):
        self.draw = draw = random.Random(seed)
        self.members, self.data = [], b""
        for i in range(draw.randrange(1, 6)):
            dtype, shape = draw.choice(ALL[:22]), [draw.choice((0, 1, 2, 4, 8)) for _ in range(draw.randrange(4))]
            size = {"6": 6, "4": 4}.get(dtype[1], 8) if dtype[:2] in ("F6", "F4") and dtype != "F64" else 8 * {"F8": 1, "BO": 1, "BF": 2, "C6": 8}.get(dtype[:2], int(dtype[1:] or 0) // 8 if dtype[1:].isdigit() else 1)
            count = int(np.prod(shape)) * size
            if count % 8:
                shape, count = [*shape, 8], count * 8
            begin = len(self.data)
            self.data += draw.randbytes(count // 8) if dtype != "BOOL" else bytes(draw.randrange(2) for _ in range(count // 8))
            self.members.append([json.dumps(f"t{i}", ensure_ascii=False), [['"dtype"', json.dumps(dtype)], ['"shape"', [str(s) for s in shape]], ['"data_offsets"', [str(begin), str(len(self.data))]]]])
        if draw.random() < 0.5:
            self.members.append(['"__metadata__"', [['"format"', '"pt"'], ['"key"', '"value"']]])
        if draw.random() < 0.5:
            draw.shuffle(self.members)

    def header(self):
        def text(value):
            if isinstance(value, str):
                return value
            if value and isinstance(value[0], list):
                return "{" + ",".join(f"{k}:{text(v)}" for k, v in value) + "}"
            return "[" + ",".join(map(text, value)) + "]"
        return text(self.members).encode()

    def change_field(self):
        draw = self.draw
        fields = draw.choice(self.members)[1]
        field = draw.choice(fields)
        kind = draw.randrange(12)
        if kind == 0:
            field[1] = json.dumps(draw.choice(ALL))
        elif kind in (1, 2, 3) and isinstance(field[1], list) and field[1]:
            field[1][draw.randrange(len(field[1]))] = draw.choice(NUMBERS)
        elif kind == 4 and isinstance(field[1], list):
            field[1].insert(draw.randrange(len(field[1]) + 1), draw.choice(NUMBERS))
        elif kind == 5 and isinstance(field[1], list) and field[1]:
            draw.shuffle(field[1])
        elif kind == 6:
            fields.remove(field)
        elif kind == 7:
            fields.append([draw.choice(('"more"', field[0])), draw.choice(('"x"', *NUMBERS, "{}"))])
        elif kind == 8:
            draw.choice(self.members)[0] = draw.choice((*(json.dumps(name) for name in NAMES), draw.choice(self.members)[0], '"__metadata__"', '"\\u0001"', '"\\ud800"', '"a\\nb"', '""', '"\x7f"', "1"))
        elif kind == 9:
            self.members.append([draw.choice(('"__metadata__"', '"new"')), draw.choice(("null", "{}", "[]", '"x"', [['"a"', "1"]], [['"a"', '"b"'], ['"a"', '"c"']], *NUMBERS))])
        elif kind == 10:
            self.members.remove(draw.choice(self.members))
        else:
            draw.shuffle(fields)

    def file(self):
        draw, rounds = self.draw, self.draw.choice((1, 1, 1, 2, 3))
        by_field = draw.random() < 0.5
        for _ in range(rounds if by_field else 0):
            if self.members and all(isinstance(value, list) and value and isinstance(value[0], list) for _, value in self.members):
                self.change_field()
        header = bytearray(draw.choice((b"",) * 95 + (b" ", b"\n", b"\t \r\n", b"\xef\xbb\xbf", b"\0")) + self.header() + b" " * draw.choice((0, 0, 1, 7)))
        length = len(header)
        for _ in range(0 if by_field else rounds):
            at = draw.randrange(len(header) + 1)
            kind = draw.randrange(5)
            if kind == 0 and at < len(header):
                header[at] ^= 1 << draw.randrange(8)
            elif kind == 1 and at < len(header):
                header[at] = draw.choice(b'0123456789{}[],:" \t\n\\eE+-.')
            elif kind == 2:
                header.insert(at, draw.choice(b'0123456789{}[],:" \t\n\\\x00\x7f\xff'))
            elif kind == 3 and at < len(header):
                del header[at]
            else:
                header = header[:at] + header[draw.randrange(len(header) + 1):]
        if draw.random() < 0.9:
            length = len(header)
        elif draw.random() < 0.5:
            length = draw.choice((0, 1, length - 1, length + 1, len(header) + len(self.data), 100_000_000, 100_000_001, 2**63, 2**64 - 1))
        data = self.data
        if draw.random() < 0.05:
            data = draw.choice((data[:-1], data + b"\0", b""))
        return (struct.pack("<Q", length) + header + data)[: None if draw.random() < 0.98 else draw.randrange(12)]


def documented(content):
    """Why we refuse what the package takes, if it is a reason that data/safetensors.hpp has."""
    (length,) = struct.unpack("<Q", content[:8])
    header = content[8: 8 + length]
    if header[:1] != b"{":
        return "does not begin with '{'"
    twice = []

    def members(pairs):
        keys = [key for key, _ in pairs]
        twice.extend(key for key in keys if keys.count(key) > 1)
        return dict(pairs)
    names = json.loads(header, object_pairs_hook=members).keys()
    if twice:
        return "a name twice"
    if any(ord(c) < 32 or ord(c) == 127 for name in names for c in name):
        return "a control character in a name"
    return None


ELEMENT = '"dtype": "F32", "shape": [1], "data_offsets": [0, 4]'


@pytest.mark.parametrize("header, message", [
    (' {"x": {%s}}' % ELEMENT, "begin with '{'"), ('{"x": {%s}, "x": {%s}}' % (ELEMENT, ELEMENT), 'member "x" is there twice'), ('{"x": {%s, "more": 1, "more": 2}}' % ELEMENT, "twice"),
    ('{"x": {%s}, "__metadata__": {"a": "1", "a": "2"}}' % ELEMENT, 'member "a" is there twice'), ('{"x\\u0000": {%s}}' % ELEMENT, "control character"), ('{"x\\n": {%s}}' % ELEMENT, "control character"),
    ('{"x": ["F32", [1], [0, 4]]}', "no object"), ('{"x": {"dtype": {"F32": null}, "shape": [1], "data_offsets": [0, 4]}}', "dtype is no text"),
    ('{"x": {%s, "more": %s}}' % (ELEMENT, "[" * 65 + "]" * 65), "nested deeper")])
def test_headers_that_only_the_package_takes(header, message, tmp_path):
    """All of them are outside the specification, but for nesting, which no writer makes."""
    file = tmp_path / "x.safetensors"
    file.write_bytes(struct.pack("<Q", len(header)) + header.encode() + b"1234")
    assert len(package_tensors(file)) == 1
    with pytest.raises(ValueError, match=message):
        halfulp.open_checkpoint(file)


def package_tensors(file):
    """{name: (dtype, shape, bytes)}, or None where the package refuses: deserialize() and safe_open() agree on that."""
    try:
        theirs = {name: (t["dtype"], tuple(t["shape"]), bytes(t["data"])) for name, t in safetensors.deserialize(file.read_bytes())}
    except safetensors.SafetensorError:
        theirs = None
    try:
        with safetensors.safe_open(file, "pt"):
            opened = True
    except (safetensors.SafetensorError, OSError):  # an empty file cannot be mapped
        opened = False
    assert opened == (theirs is not None)
    return theirs


def test_damaged_headers(tmp_path):
    """What the package refuses is refused; what is accepted has the same tensors; and what is refused besides is refused for a
    documented reason."""
    file = tmp_path / "x.safetensors"
    counts = {"both refuse": 0, "both accept": 0}
    values = tensors_compared = 0
    for seed in range(100_000 if os.environ.get("HALFULP_EXHAUSTIVE") else 10_000):
        content = Damage(seed).file()
        file.write_bytes(content)
        theirs = package_tensors(file)
        try:
            ours = halfulp.open_checkpoint(file)
        except ValueError as why:
            assert str(why).startswith(str(file)) and "\n" not in str(why) and len(str(why)) < 1000, (seed, why)
            kind = "both refuse" if theirs is None else documented(content)
            assert kind is not None, (seed, content, why)
            counts[kind] = counts.get(kind, 0) + 1
            continue
        assert theirs is not None, (seed, content)
        counts["both accept"] += 1
        assert set(ours) == set(theirs), seed
        with safetensors.safe_open(file, "pt") as opened:
            for name, (dtype, shape, data) in theirs.items():
                info = ours.info(name)
                assert (info.dtype, info.shape, info.bytes) == (dtype, shape, len(data)), (seed, name)
                try:
                    expected = opened.get_tensor(name)
                except Exception:  # a shape or a type that torch cannot have
                    with pytest.raises((TypeError, ValueError)):
                        ours.tensor(name)
                    continue
                same(ours.tensor(name), expected)
                assert bits(expected) == data, (seed, name)
                tensors_compared, values = tensors_compared + 1, values + expected.numel()
    print(counts, tensors_compared, values)
    assert counts["both accept"] > 1000 and counts["both refuse"] > 1000 and len(counts) == 5, counts
    assert tensors_compared > 1000


def test_written_layouts_load_in_torchao(tmp_path):
    """Code words, scales and values of what `halfulp quantize --layout torchao` writes are those of torchao's own quantization."""
    pytest.importorskip("torchao", minversion="0.18")
    from torchao.prototype.mx_formats.mx_tensor import MXTensor
    from torchao.prototype.mx_formats.nvfp4_tensor import NVFP4Tensor, per_tensor_amax_to_scale
    from torchao.prototype.safetensors.safetensors_support import unflatten_tensor_state_dict
    from torchao.quantization import Float8Tensor, Int8Tensor, IntxUnpackedToInt8Tensor, MappingType, PerRow
    generator = torch.Generator().manual_seed(3)
    weight = torch.randn(128, 256, generator=generator) * torch.exp(2 * torch.randn(128, 1, generator=generator))
    cases = {"mxfp8e4m3": lambda w: MXTensor.to_mx(w, torch.float8_e4m3fn, 32), "mxfp8e5m2": lambda w: MXTensor.to_mx(w, torch.float8_e5m2, 32),
             "mxfp4": lambda w: MXTensor.to_mx(w, torch.float4_e2m1fn_x2, 32), "mxfp6e2m3": lambda w: MXTensor.to_mx(w, "fp6_e2m3", 32),
             "mxfp6e3m2": lambda w: MXTensor.to_mx(w, "fp6_e3m2", 32), "nvfp4": lambda w: NVFP4Tensor.to_nvfp4(w, per_tensor_scale=per_tensor_amax_to_scale(w.abs().max().float())),
             "e2m1/1x16/e4m3/reciprocal": lambda w: NVFP4Tensor.to_nvfp4(w), "e4m3-row": lambda w: Float8Tensor.from_hp(w, granularity=PerRow()),
             "int8full/row/fp32/reciprocal": lambda w: Int8Tensor.from_hp(w, granularity=PerRow()),
             "int4full/1x32/fp32/reciprocal": lambda w: IntxUnpackedToInt8Tensor.from_hp(w, (1, 32), torch.int4, mapping_type=MappingType.SYMMETRIC)}
    new = tmp_path / "new.safetensors"
    for name, theirs in cases.items():
        for dtype in (torch.bfloat16, torch.float32):
            if dtype == torch.bfloat16 and name.startswith(("int", "e4m3-row")):
                continue  # torchao computes these in bf16
            source = {"a.weight": weight.to(dtype), "a.bias": torch.zeros(3)}
            safetensors.torch.save_file(source, tmp_path / "m.safetensors")
            halfulp.quantize_checkpoint(tmp_path / "m.safetensors", new, name, layout="torchao")
            with safetensors.safe_open(new, "pt") as file:
                loaded, left = unflatten_tensor_state_dict({key: file.get_tensor(key) for key in file.keys()}, file.metadata())
            ours, expected = loaded["a.weight"], theirs(source["a.weight"])
            assert not left and type(ours) is type(expected) and (loaded["a.bias"] == 0).all()
            for part in ("qdata", "scale", "zero_point", "per_tensor_scale"):
                a, b = getattr(ours, part, None), getattr(expected, part, None)
                assert (a is None) == (b is None), (name, part)
                if a is not None:
                    same(a, b)
            same(ours.dequantize(), expected.dequantize())
            if "reciprocal" not in name:  # no layout says how elements were divided
                assert {row["because"] for row in halfulp.inspect(new, against=tmp_path / "m.safetensors").rows("differences")} == {halfulp.open_checkpoint(new).layouts()["a.weight"].format, "the same bytes"}


def test_a_mix_beats_single_formats_on_a_trained_transformer(tmp_path):
    """Small transformers are trained on licence texts; at 5 bits an element the mix of choose() has a lower mean validation loss than each
    single format of as many bytes or fewer. (One model alone says little: rounding moves its loss by chance, too.)"""
    licences = [pathlib.Path("/usr/share/common-licenses", name) for name in ("GPL-2", "GPL-3", "LGPL-2.1", "Apache-2.0", "MPL-2.0")]
    if not all(file.exists() for file in licences):
        pytest.skip("Debian's licence texts are not here")
    text = b"".join(file.read_bytes() for file in licences)
    known = sorted(set(text))
    tokens = torch.tensor([known.index(c) for c in text])
    learned, unseen = tokens[:len(tokens) * 9 // 10], tokens[len(tokens) * 9 // 10:]
    formats, losses = ["int8", "int5/1x32/fp16", "nvfp4", "int4", "mxfp4"], {}
    for seed in range(3):
        torch.manual_seed(seed)
        model = trained(CharacterModel(len(known)), learned)
        file, new = tmp_path / "text.safetensors", tmp_path / "new.safetensors"
        safetensors.torch.save_model(model, file)
        chosen = halfulp.choose(file, bits=5, formats=formats, mix=tmp_path / "mix.json")
        narrow = [row["format"] for row in chosen.rows("totals") if row["format"] in formats and row["bits"] <= 5]
        assert narrow == ["nvfp4", "int4", "mxfp4"]
        for name in ["mix", *narrow]:
            halfulp.quantize_checkpoint(file, new, **(dict(mix=tmp_path / "mix.json") if name == "mix" else dict(format=name)))
            safetensors.torch.load_model(model, new)
            losses[name] = losses.get(name, 0) + validation_loss(model, unseen)
    assert losses["mix"] < min(loss for name, loss in losses.items() if name != "mix"), losses


class Block(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm1, self.norm2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.qkv, self.out = torch.nn.Linear(width, 3 * width, bias=False), torch.nn.Linear(width, width, bias=False)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, 4, x.shape[-1] // 4)).permute(2, 0, 3, 1, 4)
        x = x + self.out(torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm2(x))))


class CharacterModel(torch.nn.Module):
    """A language model of characters, of the kind of GPT-2."""
    context = 64

    def __init__(self, characters, width=96):
        super().__init__()
        self.tokens, self.places = torch.nn.Embedding(characters, width), torch.nn.Embedding(self.context, width)
        self.layers, self.norm = torch.nn.ModuleList(Block(width) for _ in range(2)), torch.nn.LayerNorm(width)
        self.head = torch.nn.Linear(width, characters, bias=False)

    def forward(self, ids):
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1]))
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def trained(model, tokens, steps=150):
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    for _ in range(steps):
        at = torch.randint(len(tokens) - model.context - 1, (32,))
        x, y = (torch.stack([tokens[a + shift:a + shift + model.context] for a in at]) for shift in (0, 1))
        loss = torch.nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


def validation_loss(model, tokens):
    rows = (len(tokens) - 1) // model.context
    with torch.no_grad():
        return torch.nn.functional.cross_entropy(model(tokens[:rows * model.context].view(rows, -1)).flatten(0, 1), tokens[1:rows * model.context + 1]).item()
