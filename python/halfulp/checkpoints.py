"""Checkpoints of one's own: named tensors in files, which are read one at a time."""
from __future__ import annotations

import os
from collections.abc import Iterator, KeysView
from typing import Any, NamedTuple

import numpy as np

from . import _core
from ._arrays import Array, dtype_of_format
from ._command import path as file_name
from ._core import Format

# What is no float, as safetensors and NumPy have it.
_OTHERS = {"I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8", "U64": "uint64", "U32": "uint32", "U16": "uint16", "U8": "uint8", "BOOL": "bool", "C64": "complex64"}
# As safetensors.torch has it, which has no tensors of F6_E2M3 and F6_E3M2. A float4_e2m1fn_x2 is two elements.
_TORCH = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "F8_E4M3FNUZ": "float8_e4m3fnuz",
          "F8_E5M2FNUZ": "float8_e5m2fnuz", "F8_E8M0": "float8_e8m0fnu", "F4": "float4_e2m1fn_x2", **_OTHERS}


class TensorInfo(NamedTuple):
    """A tensor as its file describes it."""
    dtype: str  #: as safetensors has it: "F32", "BF16", "F8_E4M3", "I64"; of .npy files the same
    shape: tuple[int, ...]
    bytes: int  #: of its data in the file
    file: str


class EncodedInfo(NamedTuple):
    """A weight that is stored as code words and scales."""
    layout: str  #: who stores weights so, and in which of their formats
    format: str  #: the block format: "nvfp4", "e4m3/128x128/fp32"
    shape: tuple[int, ...]  #: of its values
    bytes: int  #: of all its tensors
    citation: str  #: where the layout is defined


class _Entry(NamedTuple):
    """A tensor, and what reads it."""
    number: int
    info: TensorInfo
    format: Format | None  # of floats


class Checkpoint:
    """The tensors of a checkpoint by name, as open_checkpoint() returns it. len(), `in`, iteration and keys() are of the
    names, in the order of the files and of their bytes; ckpt[name], ckpt.tensor(name) and ckpt.values(name) read one
    tensor each, and keep nothing.

    Errors of all three: KeyError with the nearest spelling for a name that is not there; ValueError in one line for a
    file that was changed or cut short since it was opened, and for a shape that arrays cannot have. Reading releases
    the GIL, and threads may read at once.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = os.fsdecode(path) if isinstance(path, os.PathLike) else path
        self._files = _core.CheckpointFiles(file_name(path, "path"))
        self._encoded: dict[str, EncodedInfo] | None = None  # once it was asked for
        self._entries = {name: _Entry(i, TensorInfo(dtype, shape, bytes, file), format) for i, (name, dtype, format, shape, bytes, file) in enumerate(self._files.tensors())}

    @property
    def path(self) -> str:
        """The file or folder, as it was given."""
        return self._path

    @property
    def metadata(self) -> dict[str, str]:
        """The members of __metadata__ in the headers; of one that several files have, the first."""
        return self._files.metadata()

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._entries

    def keys(self) -> KeysView[str]:
        """The names."""
        return self._entries.keys()

    def info(self, name: str) -> TensorInfo:
        """A tensor's dtype, shape, bytes and file, without reading it."""
        return self._entry(name).info

    def __getitem__(self, name: str) -> Array:
        """The tensor as a NumPy array of its own type: float64, float32, float16, integers, bool, complex64. A type that
        NumPy lacks (BF16, F8_*, F6_*, F4) comes as ml_dtypes' type if that package is installed, else as float32, which
        holds every value of it; F6_* and F4 then have one element in each byte."""
        entry = self._entry(name)
        dtype = np.dtype(_OTHERS[entry.info.dtype]) if entry.format is None else dtype_of_format(entry.format)
        if dtype is None:
            return self.values(name)
        result = _empty(name, entry.info.shape, dtype)
        packed = result.nbytes != entry.info.bytes
        (self._files.read_codes if packed else self._files.read_bytes)(entry.number, result.reshape(-1).view(np.uint8))
        return result

    def values(self, name: str) -> Array:
        """The values of a tensor of floats, of any type, as float32: F64 is rounded to nearest even, and every other type's
        values are floats. TypeError for integers, truth values and complex numbers."""
        entry = self._entry(name)
        if entry.format is None:
            raise TypeError(f"tensor {name!r}: {entry.info.dtype}; accepted: types of floats")
        result = _empty(name, entry.info.shape, np.dtype(np.float32))
        self._files.read_values(entry.number, result.reshape(-1))
        return result

    def layouts(self) -> dict[str, EncodedInfo]:
        """The weights that are stored as code words and scales in several tensors, by the weight's own name, which need not
        be a tensor's: "model.layers.0.mlp.up_proj.weight" of ...weight_packed and ...weight_scale. ValueError in one line
        where names are those of a published layout and shapes are not. Sources: each info.citation."""
        if self._encoded is None:
            self._encoded = {name: EncodedInfo(layout, format, shape, bytes, citation) for name, layout, format, shape, bytes, citation in self._files.encoded()}
        return dict(self._encoded)

    def decoded(self, name: str) -> Array:
        """The values of a weight of layouts(), in float32: code words times scales. KeyError for another name."""
        layouts = self.layouts()
        if name not in layouts:
            raise KeyError(f"{name!r} is not stored as code words and scales; accepted: one of layouts()")
        result = _empty(name, layouts[name].shape, np.dtype(np.float32))
        self._files.read_encoded([*layouts].index(name), result.reshape(-1))
        return result

    def tensor(self, name: str) -> Any:
        """The tensor as a torch.Tensor in the CPU's memory, bit for bit as safetensors.torch gives it: F8_E4M3 is
        float8_e4m3fn, and F4 is float4_e2m1fn_x2, whose last axis is half as long because an element holds two.
        ImportError without torch; TypeError for a type that this torch has not, F6_E2M3 and F6_E3M2 among them; ValueError
        for F4 with an odd last axis."""
        try:
            import torch
        except ImportError as why:
            raise ImportError("tensor() needs the package torch; ckpt[name] does not") from why
        entry = self._entry(name)
        dtype, shape = getattr(torch, _TORCH.get(entry.info.dtype, ""), None), entry.info.shape
        if dtype is None:
            raise TypeError(f"tensor {name!r}: {entry.info.dtype}, of which torch {torch.__version__} has no tensors; accepted: ckpt[{name!r}], ckpt.values({name!r})")
        if entry.info.dtype == "F4":
            if shape[-1] % 2:
                raise ValueError(f"tensor {name!r}: F4 of shape {list(shape)}; accepted: an even last axis, because torch holds two elements in one")
            shape = (*shape[:-1], shape[-1] // 2)
        bytes = torch.empty(entry.info.bytes, dtype=torch.uint8)
        self._files.read_bytes(entry.number, bytes.numpy())
        try:
            return bytes.view(dtype).reshape(shape)
        except (RuntimeError, TypeError):  # no elements, but long axes
            raise ValueError(f"tensor {name!r}: shape {list(entry.info.shape)}; accepted: what torch can have") from None

    def _entry(self, name: str) -> _Entry:
        """Where a tensor is."""
        if not isinstance(name, str):
            raise TypeError(f"name: {type(name).__name__}; accepted: text")
        entry = self._entries.get(name)
        if entry is None:
            known = self._files.unknown(name.encode(errors="replace").decode())
            raise KeyError(f"{name!r} is stored as code words and scales; accepted: decoded({name!r})" if self._is_encoded(name) else known)
        return entry

    def _is_encoded(self, name: str) -> bool:
        try:
            return name in self.layouts()
        except ValueError:  # some other weight is in no layout of its name
            return False

    def __repr__(self) -> str:
        total = sum(entry.info.bytes for entry in self._entries.values())
        return f"<Checkpoint {self._path!r}: {len(self)} tensors, {total} bytes>"


def _empty(name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    try:
        return np.empty(shape, dtype)
    except ValueError as why:  # no elements, but long axes; or more axes than NumPy's 64
        raise ValueError(f"tensor {name!r}: shape {list(shape)}: {why}; accepted: what NumPy can have") from None


def open_checkpoint(path: str | os.PathLike[str]) -> Checkpoint:
    """Opens a checkpoint: reads the headers of its files, and no tensor.

    path: a .safetensors file; an index of shards, NAME.safetensors.index.json, with its files beside it; a .npy file,
    which is one tensor of the file's name; or a folder of an index, of one .safetensors file or of .npy files. The
    files stay open as long as the Checkpoint is there.

    Returns a Checkpoint. Raises ValueError in one line that names the file, and the tensor if it is one: no such file, a
    header that safetensors forbids, data that are missing, a pickle of torch.save. Source: huggingface/safetensors,
    README.md, Format.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(folder + "/weight.npy", np.float16([[1, 2, 3], [4, 5, 6]]))
    ...     ckpt = open_checkpoint(folder)
    ...     [*ckpt], ckpt.info("weight").dtype, ckpt["weight"].dtype, ckpt.values("weight")[1]
    (['weight'], 'F16', dtype('float16'), array([4., 5., 6.], dtype=float32))
    """
    return Checkpoint(path)
