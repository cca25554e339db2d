"""Checkpoints of one process: what is in them, and that damaged or unfinished ones are never loaded."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
import rushlight.distributed.checkpoint as dcp
from rushlight.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

DTYPES = (
    "float32", "float64", "float16", "bfloat16", "int8", "uint8", "int64", "bool", "complex64", "complex128",
)  # fmt: skip


class Counter:
    def __init__(self) -> None:
        self.count = 0

    def state_dict(self) -> dict[str, Any]:
        return {"count": self.count}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.count = state["count"]


def test_values_come_back(tmp_path: Path) -> None:
    tensors = {name: rl.arange(6).to(getattr(rl, name)).reshape(2, 3) for name in DTYPES}
    tensors["empty"], tensors["number"] = rl.zeros(0, 3), rl.tensor(2.5)
    counter = Counter()
    counter.count = 5
    values = {"a": 1, "b": (1.5, None, "x"), "c": [True, {"k": 1}], "d": b"\0\1", "e": rl.float16, "f": {}}
    dcp.save({"t": tensors, "v": values, "n": counter, "l": [rl.ones(2), 3]}, checkpoint_id=tmp_path / "c")
    fresh = {
        "t": {name: rl.zeros_like(t) for name, t in tensors.items()},
        "v": dict.fromkeys(values),
        "n": Counter(),
        "l": [rl.zeros(2), 0],
    }
    fresh["v"]["f"] = {}
    dcp.load(fresh, checkpoint_id=tmp_path / "c")
    for name, tensor in tensors.items():
        assert rl.equal(fresh["t"][name], tensor), name
    assert fresh["v"] == values and fresh["n"].count == 5
    assert fresh["l"][1] == 3 and rl.equal(fresh["l"][0], rl.ones(2))


def test_models_and_optimizers(tmp_path: Path) -> None:
    def made() -> Any:
        model = rl.nn.Sequential(rl.nn.Linear(3, 4), rl.nn.BatchNorm1d(4), rl.nn.Linear(4, 1))
        return model, rl.optim.AdamW(model.parameters(), lr=0.1)

    def step(model: Any, optimizer: Any) -> float:
        optimizer.zero_grad()
        loss = model(rl.ones(2, 3) * rl.tensor([[1.0], [2.0]])).pow(2).sum()
        loss.backward()
        optimizer.step()
        return float(loss)

    model, optimizer = made()
    step(model, optimizer)
    states = get_state_dict(model, optimizer)
    dcp.save({"model": states[0], "optimizer": states[1]}, checkpoint_id=tmp_path / "c")
    expected = [step(model, optimizer) for _ in range(3)]
    model, optimizer = made()
    states = get_state_dict(model, optimizer)  # makes the states of the optimizer, and changes nothing
    loaded = {"model": states[0], "optimizer": states[1]}
    dcp.load(loaded, checkpoint_id=tmp_path / "c")
    set_state_dict(model, optimizer, model_state_dict=loaded["model"], optim_state_dict=loaded["optimizer"])
    assert [step(model, optimizer) for _ in range(3)] == expected


def damaged(path: Path, how: str) -> None:
    file = path / "rank-00000.safetensors"
    if how == "no manifest":
        (path / "manifest.json").unlink()
    elif how == "half a manifest":
        text = (path / "manifest.json").read_text()
        (path / "manifest.json").write_text(text[: len(text) // 2])
    elif how == "half a file":
        file.write_bytes(file.read_bytes()[:-8])
    elif how == "no file":
        file.unlink()
    else:
        data = bytearray(file.read_bytes())
        data[-1] ^= 1
        file.write_bytes(data)


@pytest.mark.parametrize("how", ["no manifest", "half a manifest", "half a file", "no file", "another bit"])
def test_damaged_checkpoints_are_not_loaded(how: str, tmp_path: Path) -> None:
    dcp.save({"x": rl.ones(4)}, checkpoint_id=tmp_path / "step-1")
    dcp.save({"x": rl.full((4,), 2.0)}, checkpoint_id=tmp_path / "step-2")
    damaged(tmp_path / "step-2", how)
    state = {"x": rl.zeros(4)}
    with pytest.raises(dcp.CheckpointException):
        dcp.load(state, checkpoint_id=tmp_path / "step-2")
    assert rl.equal(state["x"], rl.zeros(4))
    if how != "another bit":  # which is found when it is read
        assert dcp.latest(tmp_path) == str(tmp_path / "step-1")


def test_a_checkpoint_that_was_cut_off_does_not_count(tmp_path: Path) -> None:
    dcp.save({"x": rl.ones(4)}, checkpoint_id=tmp_path / "step-9")
    shutil.copytree(tmp_path / "step-9", tmp_path / "step-10.unfinished-0123")
    (tmp_path / "step-11").mkdir()
    assert dcp.latest(tmp_path) == str(tmp_path / "step-9")
    assert dcp.latest(tmp_path / "nowhere") is None


def test_errors(tmp_path: Path) -> None:
    with pytest.raises(dcp.CheckpointException, match="is a object"):
        dcp.save({"x": object()}, checkpoint_id=tmp_path / "c")
    with pytest.raises(dcp.CheckpointException, match="two values of the name"):
        dcp.save({"a.b": 1, "a": {"b": 2}}, checkpoint_id=tmp_path / "c")
    with pytest.raises(ValueError, match="needs a checkpoint_id"):
        dcp.save({"x": 1})
    writer = dcp.FileSystemWriter(tmp_path / "c", overwrite=False)
    dcp.save({"x": rl.ones(2)}, storage_writer=writer)
    with pytest.raises(dcp.CheckpointException, match="overwrite=False"):
        dcp.save({"x": rl.zeros(2)}, storage_writer=writer)
    state = {"x": rl.zeros(2)}
    dcp.load(state, storage_reader=dcp.FileSystemReader(tmp_path / "c"))
    assert np.array_equal(state["x"].numpy(), np.ones(2))
    with pytest.raises(dcp.CheckpointException, match="Missing key"):
        dcp.load({"y": rl.zeros(2)}, checkpoint_id=tmp_path / "c")
    with pytest.raises(ValueError, match="Size mismatch"):
        dcp.load({"x": rl.zeros(3)}, checkpoint_id=tmp_path / "c")
