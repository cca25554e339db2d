"""save and load: what comes back, what a file holds, and what happens to damaged ones."""

from __future__ import annotations

import io
import json
import math
import os
import pickle
import stat
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors
import safetensors.torch
import torch

import rushlight
from rushlight.serialization import SerializationError

from .files import load_with_flipped_bytes, saved, through

ALL_DTYPES = [dtype for name, dtype in sorted(rushlight.core.dtypes.DTYPES.items())]


def same(actual: Any, expected: Any) -> bool:
    if isinstance(expected, rushlight.Tensor):
        return (
            actual.dtype is expected.dtype
            and actual.shape == expected.shape
            and actual.stride() == expected.stride()
            and actual.requires_grad == expected.requires_grad
            and actual.detach().numpy().tobytes() == expected.detach().numpy().tobytes()
        )
    if type(actual) is not type(expected):
        return False
    if isinstance(expected, dict):
        return list(actual) == list(expected) and all(same(actual[key], expected[key]) for key in expected)
    if isinstance(expected, list | tuple):
        return len(actual) == len(expected) and all(same(a, e) for a, e in zip(actual, expected, strict=True))
    if isinstance(expected, float) and math.isnan(expected):
        return math.isnan(actual)
    return bool(actual == expected) and (
        not isinstance(expected, float) or math.copysign(1, actual) == math.copysign(1, expected)
    )


# What comes back.


@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3), (2, 0, 3)], ids=str)
def test_every_dtype(dtype: Any, shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(0).integers(0, 2, shape)
    assert same(through(rushlight.tensor(values).to(dtype)), rushlight.tensor(values).to(dtype))


def test_bits_survive() -> None:
    for values in (
        [math.nan, math.inf, -math.inf, -0.0, 5e-324],
        [complex(math.nan, -0.0), complex(-math.inf, 1)],
    ):
        wide = rushlight.float64 if isinstance(values[0], float) else rushlight.complex128
        x = rushlight.tensor(values, dtype=wide)
        assert through(x).numpy().tobytes() == x.numpy().tobytes()


PLAIN = [
    None,
    True,
    False,
    0,
    -1,
    2**100,
    1.5,
    -0.0,
    math.nan,
    math.inf,
    -math.inf,
    1e-320,
    "",
    "text",
    "ünï\x00\n",
    1j,
    complex(math.inf, -0.0),
    b"\x00\xff",
    [],
    (),
    {},
    OrderedDict(),
    [1, [2, (3,)]],
    (1, (2, [3])),
    {"a": 1, 2: "b", None: 3, True: 4, 1.5: 5, (1, "x"): 6},
    {"$": "tensor"},
    OrderedDict(b=1, a=2),
    rushlight.Size([2, 3]),
    rushlight.float32,
    rushlight.device("cpu"),
    rushlight.device("cpu:0"),
]


@pytest.mark.parametrize("value", PLAIN, ids=repr)
def test_plain_values(value: Any) -> None:
    assert same(through(value), value)
    assert same(through({"x": [value, rushlight.zeros(1)]})["x"][0], value)


def test_state_of_a_training_run() -> None:
    model = OrderedDict(
        [("layer.weight", rushlight.arange(6.0).reshape(2, 3)), ("layer.bias", rushlight.zeros(2))]
    )
    moments = {"step": rushlight.tensor(3.0), "exp_avg": rushlight.ones(2, 3)}
    group = {"lr": 1e-3, "betas": (0.9, 0.999), "params": [0, 1], "foreach": None}
    state = {
        "model": model,
        "optimizer": {"state": {0: moments}, "param_groups": [group]},
        "epoch": 7,
        "name": "run",
    }
    state["model"]._metadata = OrderedDict([("", {"version": 1})])
    back = through(state)
    assert same(back, state)
    assert back["model"]._metadata == state["model"]._metadata


def test_arrays_and_numpy_scalars() -> None:
    back = through([np.arange(6).reshape(2, 3)[:, ::-1], np.float32(1.5), np.bool_(True)])
    np.testing.assert_array_equal(back[0], [[2, 1, 0], [5, 4, 3]])
    assert back[1] == 1.5
    assert isinstance(back[1], np.float32)
    assert isinstance(back[2], np.bool_)


def test_requires_grad_and_meta() -> None:
    back = through([rushlight.zeros(2, requires_grad=True), rushlight.zeros(2, 3, device="meta")])
    assert back[0].requires_grad
    assert back[0].is_leaf
    assert back[1].is_meta
    assert back[1].shape == (2, 3)


def test_strides_of_dense_tensors_survive() -> None:
    x = rushlight.arange(120.0).reshape(2, 3, 4, 5)
    for tensor in (x.permute(3, 1, 0, 2), x.contiguous(memory_format=rushlight.channels_last), x):
        back = through(tensor.clone())
        assert back.stride() == tensor.clone().stride()
        assert back.tolist() == tensor.tolist()
        assert through(tensor.clone(), map_location="meta").stride() == tensor.clone().stride()


def test_lazy_conjugation_is_carried_out() -> None:
    x = rushlight.tensor([1 + 2j, 3j])
    assert through(x.conj()).tolist() == x.conj().tolist()


def test_loaded_tensors_can_be_written_and_own_their_memory() -> None:
    back = through({"a": rushlight.zeros(3), "b": rushlight.zeros(3)})
    back["a"].fill_(1)
    assert back["b"].tolist() == [0.0, 0.0, 0.0]
    assert back["a"]._version == 1


# Shared memory.


def test_views_come_back_as_views() -> None:
    base = rushlight.arange(12.0).reshape(3, 4)
    back = through({"base": base, "row": base[1], "t": base.t(), "same": base, "flat": base.view(-1)[2:5]})
    back["base"].fill_(-1)
    for name, view in back.items():
        assert set(view.reshape(-1).tolist()) == {-1.0}, name
    assert back["t"].stride() == (1, 4)
    assert back["row"].untyped_storage() is back["base"].untyped_storage()


def test_views_without_their_base() -> None:
    base = rushlight.arange(100)
    back = through([base[10:20], base[15:30:3]])
    assert back[0].tolist() == list(range(10, 20))
    assert back[1].tolist() == list(range(15, 30, 3))
    back[0][5] = -7
    assert back[1][0].item() == -7


def test_views_of_other_dtypes() -> None:
    z = rushlight.tensor([1 + 2j, 3 + 4j])
    back = through([z, rushlight.view_as_real(z)])
    back[1][0, 0] = 9.0
    assert back[0].tolist() == [9 + 2j, 3 + 4j]


def test_memory_is_stored_once_and_only_what_is_used() -> None:
    big = rushlight.zeros(100_000)
    file = io.BytesIO()
    rushlight.save([big, big.view(100, 1000), big[5:]], file)
    assert file.tell() < 410_000
    file = io.BytesIO()
    rushlight.save(big[:10], file)
    assert file.tell() < 1000


# The file.


def test_other_readers_find_a_state_dict_under_its_names(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    state = {
        "w": rushlight.arange(6.0).reshape(2, 3),
        "b": rushlight.tensor([1, 2], dtype=rushlight.bfloat16),
        "n": {"step": rushlight.tensor(3)},
    }
    rushlight.save(state, path)
    with safetensors.safe_open(path, framework="pt") as file:
        assert set(file.keys()) == {"w", "b", "n.step"}
        assert file.get_tensor("w").tolist() == state["w"].tolist()
        assert file.get_tensor("b").dtype is torch.bfloat16
        assert file.get_tensor("n.step").item() == 3


def test_other_writers_are_read(tmp_path: Path) -> None:
    path = tmp_path / "theirs.safetensors"
    tensors = {
        "a": torch.arange(6.0).reshape(2, 3),
        "b.c": torch.tensor([True]),
        "h": torch.tensor([1.5]).bfloat16(),
        "f8": torch.tensor([2.0]).to(torch.float8_e5m2),
        "empty": torch.zeros(0, 3),
        "scalar": torch.tensor(7),
    }
    safetensors.torch.save_file(tensors, path, metadata={"format": "pt"})
    back = rushlight.load(path)
    assert set(back) == set(tensors)
    for name, tensor in tensors.items():
        assert back[name].tolist() == tensor.tolist()
        assert f"torch.{back[name].dtype.name}" == str(tensor.dtype)
    on_meta = rushlight.load(path, map_location="meta")
    assert on_meta["a"].is_meta
    assert on_meta["a"].shape == (2, 3)


def test_paths_and_files(tmp_path: Path) -> None:
    x = rushlight.arange(3)
    for place in (tmp_path / "a", str(tmp_path / "b"), os.fsencode(tmp_path / "c")):
        rushlight.save(x, place)
        assert rushlight.load(place).tolist() == [0, 1, 2]
    with open(tmp_path / "d", "wb") as file:
        rushlight.save(x, file)
    with open(tmp_path / "d", "rb") as file:
        assert rushlight.load(file, weights_only=True).tolist() == [0, 1, 2]
        with pytest.raises(ValueError, match="file path"):
            rushlight.load(file, mmap=True)
    assert rushlight.load(tmp_path / "d", mmap=True).tolist() == [0, 1, 2]


def test_reading_from_a_stream_that_cannot_seek() -> None:
    file = io.BytesIO()
    rushlight.save({"a": rushlight.arange(100), "b": rushlight.ones(3)}, file)

    class Stream:
        def __init__(self) -> None:
            self.rest = file.getvalue()

        def read(self, count: int) -> bytes:
            part, self.rest = self.rest[: min(count, 7)], self.rest[min(count, 7) :]
            return part

    assert rushlight.load(Stream())["a"].tolist() == list(range(100))


def test_a_failed_save_leaves_the_old_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "state"
    rushlight.save({"good": 1}, path)
    for bad in ([lambda: 1], {"x": threading.Lock()}):
        with pytest.raises((AttributeError, TypeError, pickle.PicklingError), match="pickle"):
            rushlight.save(bad, path)
    assert rushlight.load(path) == {"good": 1}
    assert os.listdir(tmp_path) == ["state"]


def test_a_save_that_dies_while_writing_leaves_no_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "state"
    rushlight.save({"good": 1}, path)

    def fails(*args: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(OSError, match="disk full"):
        rushlight.save(rushlight.zeros(10), path)
    assert os.listdir(tmp_path) == ["state"]
    assert rushlight.load(path) == {"good": 1}


@pytest.mark.skipif(os.name == "nt", reason="permission bits")
def test_permissions_are_those_of_a_plain_file(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("")
    rushlight.save(1, tmp_path / "new")
    new, plain = ((tmp_path / name).stat().st_mode for name in ("new", "plain"))
    assert stat.S_IMODE(new) == stat.S_IMODE(plain)
    (tmp_path / "new").chmod(0o600)
    rushlight.save(2, tmp_path / "new")
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o600


# Devices.


def test_map_location() -> None:
    x = {"a": rushlight.arange(6.0).reshape(2, 3).t().clone(), "n": 3}
    for place in ("meta", rushlight.device("meta"), {"cpu": "meta"}):
        back = through(x, map_location=place)
        assert back["a"].is_meta
        assert back["a"].stride() == x["a"].stride()
        assert back["n"] == 3
    assert through(x, map_location="cpu")["a"].tolist() == x["a"].tolist()
    assert through(x, map_location=lambda storage, location: storage)["a"].tolist() == x["a"].tolist()
    with pytest.raises(TypeError, match="map_location"):
        through(x, map_location=lambda storage, location: location)
    with pytest.raises(RuntimeError, match="CUDA device"):
        through(x, map_location="cuda")


# Damage.


def with_header(change: Any) -> bytes:
    data = saved({"a": rushlight.arange(4), "b": rushlight.ones(2)})
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    header = change(header) or header
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data[8 + length :]


def changed(name: str, **fields: Any) -> bytes:
    return with_header(lambda header: header[name].update(fields))


def with_tree(tree: Any) -> bytes:
    def change(header: dict) -> None:
        header["__metadata__"]["rushlight"] = json.dumps({"version": "1", "tree": tree})

    return with_header(change)


def record(**fields: Any) -> dict:
    return {"$": "tensor", "dtype": "int64", "shape": [4], "entry": "a", **fields}


DAMAGED = {
    "empty": b"",
    "short": b"abc",
    "text": b"hello, this is not a tensor file at all",
    "huge header": (2**60).to_bytes(8, "little") + b"{}",
    "header past the end": (500).to_bytes(8, "little") + b"{}",
    "not JSON": (4).to_bytes(8, "little") + b"{abc",
    "a JSON list": (2).to_bytes(8, "little") + b"[]",
    "deep JSON": (200_000).to_bytes(8, "little") + b"[" * 200_000,
    "a name twice": (30).to_bytes(8, "little") + b'{"a":1,"a":1}'.ljust(30),
    "no dtype": with_header(lambda header: header["a"].pop("dtype") and None),
    "unknown dtype": changed("a", dtype="I128"),
    "negative size": changed("a", shape=[-4]),
    "boolean size": changed("a", shape=[True, 4]),
    "other size": changed("a", shape=[5]),
    "offsets swapped": changed("a", data_offsets=[32, 0]),
    "offsets overlap": changed("b", data_offsets=[0, 8]),
    "offsets leave a gap": changed("b", data_offsets=[40, 48]),
    "offsets past the end": with_header(
        lambda header: header["b"].update(shape=[200], data_offsets=[32, 832])
    ),
    "metadata of numbers": with_header(lambda header: header["__metadata__"].update(x=1)),
    "broken tree": with_header(lambda header: header["__metadata__"].update(rushlight="{")),
    "no tree": with_header(lambda header: header["__metadata__"].update(rushlight="{}")),
    "later version": with_header(
        lambda header: header["__metadata__"].update(rushlight='{"version":"9","tree":1}')
    ),
    "unknown kind": with_tree({"$": "pickle", "value": "cos\nsystem"}),
    "untagged object": with_tree({"a": 1}),
    "missing entry": with_tree(record(entry="zzz")),
    "unknown record dtype": with_tree(record(dtype="object")),
    "other record dtype": with_tree(record(dtype="float64")),
    "larger record": with_tree(record(shape=[5])),
    "record past the entry": with_tree(record(shape=[4], strides=[1], offset=1)),
    "record with wild strides": with_tree(record(shape=[4], strides=[2**61], offset=0)),
    "record with negative strides": with_tree(record(shape=[4], strides=[-1], offset=3)),
    "record with one stride too many": with_tree(record(shape=[4], strides=[1, 1], offset=0)),
    "record with sparse strides": with_tree(record(shape=[2], strides=[2])),
    "record of text": with_tree(record(shape="4")),
    "unknown class": with_tree({**record(), "class": "Evil"}),
    "bad base64": with_tree({"$": "bytes", "value": "*"}),
    "bad float": with_tree({"$": "float", "value": "x"}),
    "bad dict": with_tree({"$": "dict", "items": [1]}),
    "bad key": with_tree({"$": "dict", "items": [[[1], 2]]}),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_damaged_files_are_refused(case: str) -> None:
    with pytest.raises(SerializationError, match="load: "):
        rushlight.load(io.BytesIO(DAMAGED[case]))


def test_every_truncation_is_refused() -> None:
    data = saved({"a": rushlight.arange(4), "b": "text"})
    for length in range(len(data)):
        with pytest.raises(SerializationError):
            rushlight.load(io.BytesIO(data[:length]))


def test_flipped_bytes_never_do_worse_than_raise() -> None:
    load_with_flipped_bytes(saved({"a": rushlight.arange(3), "b": [1, "x", (2.5, None)]}))


def test_text_files_are_refused() -> None:
    with pytest.raises(TypeError, match="binary"):
        rushlight.load(io.StringIO("some text that is long enough"))


def test_missing_files_are_missing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        rushlight.load(tmp_path / "nothing")


def test_tensor_subclasses_need_to_be_trusted() -> None:
    x = rushlight.zeros(2).as_subclass(Special)
    file = io.BytesIO(saved(x))
    with pytest.raises(pickle.UnpicklingError, match="Special"):
        rushlight.load(file)
    file.seek(0)
    with rushlight.serialization.safe_globals([Special]):
        assert type(rushlight.load(file)) is Special


class Special(rushlight.Tensor):
    pass
