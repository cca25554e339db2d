"""Files that PyTorch wrote: read without running anything in them."""

from __future__ import annotations

import io
import os
import pickle
import subprocess
import sys
import warnings
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import rushlight
from rushlight.serialization import SerializationError, add_safe_globals, get_safe_globals, safe_globals


def written(value: Any, *, zipped: bool = True) -> bytes:
    file = io.BytesIO()
    torch.save(value, file, _use_new_zipfile_serialization=zipped)
    return file.getvalue()


def read(value: Any, *, zipped: bool = True, **options: Any) -> Any:
    return rushlight.load(io.BytesIO(written(value, zipped=zipped)), **options)


DTYPES = [
    "bool",
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
def test_tensors_of_every_dtype(dtype: str, zipped: bool) -> None:
    x = torch.arange(12).reshape(3, 4).to(getattr(torch, dtype))
    for view in (x, x.t(), x[1:, ::2], x[0, 0], x[:0]):
        back = read(view, zipped=zipped)
        assert back.dtype is getattr(rushlight, dtype)
        assert (tuple(back.shape), back.stride()) == (tuple(view.shape), view.stride())
        assert back.tolist() == view.tolist()


@pytest.mark.parametrize("zipped", [True, False])
def test_a_checkpoint_of_a_training_run(zipped: bool) -> None:
    model = torch.nn.Sequential(torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    model(torch.arange(15.0).sin().reshape(5, 3)).pow(2).sum().backward()
    optimizer.step()
    saved = {
        "epoch": 3,
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "best": 0.5,
        "shape": torch.Size([2, 3]),
        "dtype": torch.float16,
        "device": torch.device("cpu"),
        "names": ("a", ["b", None, True]),
        "bytes": b"\x00\xff",
    }
    back = read(saved, zipped=zipped)
    assert isinstance(back["model"], OrderedDict)
    assert back["model"]._metadata == model.state_dict()._metadata
    assert back["shape"] == (2, 3) and isinstance(back["shape"], rushlight.Size)
    assert back["dtype"] is rushlight.float16 and back["device"] == rushlight.device("cpu")
    assert (back["epoch"], back["best"], back["names"], back["bytes"]) == (
        3,
        0.5,
        saved["names"],
        b"\x00\xff",
    )
    ours = rushlight.nn.Sequential(rushlight.nn.BatchNorm1d(3), rushlight.nn.Linear(3, 4))
    ours.load_state_dict(back["model"])
    mine = rushlight.optim.Adam(ours.parameters(), lr=0.1)
    mine.load_state_dict(back["optimizer"])
    x = np.linspace(-1, 1, 15, dtype=np.float32).reshape(5, 3)
    for net, step, library in ((model, optimizer, torch), (ours, mine, rushlight)):
        step.zero_grad()
        net(library.from_numpy(x)).pow(2).sum().backward()
        step.step()
    for one, other in zip(ours.parameters(), model.parameters(), strict=True):
        np.testing.assert_allclose(one.detach().numpy(), other.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_tensors_that_share_memory_share_it_again() -> None:
    x = torch.zeros(4)
    back = read({"a": x, "b": x[1:3]})
    back["b"].fill_(7)
    assert back["a"].tolist() == [0, 7, 7, 0]


@pytest.mark.filterwarnings("ignore:Sparse CSR", "ignore:The PyTorch API of nested tensors")
def test_parameters_sparse_and_lazy_tensors() -> None:
    z = torch.tensor([1 + 2j])
    back = read(
        {
            "p": torch.nn.Parameter(torch.ones(2)),
            "f": torch.nn.Parameter(torch.ones(2), False),
            "g": torch.ones(2, requires_grad=True),
            "coo": torch.eye(3).to_sparse(),
            "csr": torch.eye(3).to_sparse_csr(),
            "conj": z.conj(),
            "nested": torch.nested.nested_tensor([torch.ones(2, 3), torch.zeros(1, 2)]).transpose(1, 2),
        }
    )
    assert [row.tolist() for row in back["nested"].unbind()] == [[[1, 1]] * 3, [[0]] * 2]
    assert isinstance(back["p"], rushlight.nn.Parameter) and back["p"].requires_grad
    assert isinstance(back["f"], rushlight.nn.Parameter) and not back["f"].requires_grad
    assert back["g"].requires_grad and type(back["g"]) is rushlight.Tensor
    assert back["coo"].layout is rushlight.sparse_coo and back["coo"].is_coalesced()
    assert back["csr"].layout is rushlight.sparse_csr
    assert back["coo"].to_dense().tolist() == back["csr"].to_dense().tolist() == torch.eye(3).tolist()
    assert back["conj"].tolist() == [1 - 2j]


@pytest.mark.parametrize("zipped", [True, False])
def test_shapes_alone(zipped: bool) -> None:
    back = read({"a": torch.ones(2, 3).t()}, zipped=zipped, map_location="meta")
    assert back["a"].is_meta and back["a"].stride() == (1, 3) and back["a"].shape == (3, 2)


class Trusted:
    def __init__(self) -> None:
        self.value = 3


def test_only_what_is_trusted_is_built() -> None:
    data = written({"x": Trusted()})
    with pytest.raises(SerializationError, match="Trusted"):
        rushlight.load(io.BytesIO(data))
    with safe_globals([Trusted]):
        assert rushlight.load(io.BytesIO(data))["x"].value == 3
    assert Trusted not in get_safe_globals()
    add_safe_globals([])
    with pytest.raises(SerializationError, match=r"torch\.nn\.modules\.linear\.Linear"):
        read(torch.nn.Linear(1, 1))


class Evil:
    def __reduce__(self) -> Any:
        return os.mkdir, ("made_by_a_pickle",)


@pytest.mark.parametrize("zipped", [True, False])
def test_nothing_is_run(zipped: bool, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SerializationError, match="mkdir"):
        read([Evil()], zipped=zipped)
    with pytest.raises(SerializationError, match="mkdir"):
        rushlight.load(io.BytesIO(pickle.dumps(Evil(), protocol=2)))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("zipped", [True, False])
def test_files_that_are_cut_short(zipped: bool) -> None:
    data = written({"a": torch.arange(4), "b": "text"}, zipped=zipped)
    for length in range(4, len(data), 7):
        with pytest.raises(SerializationError):
            rushlight.load(io.BytesIO(data[:length]))


def test_other_archives_and_pickles() -> None:
    with pytest.raises(SerializationError, match="did not write"):
        rushlight.load(io.BytesIO(pickle.dumps([1, 2], protocol=2)))
    file = io.BytesIO()
    torch.jit.save(torch.jit.trace(torch.nn.ReLU(), torch.ones(1)), file)
    with pytest.raises(SerializationError, match="TorchScript"):
        rushlight.load(io.BytesIO(file.getvalue()))


@pytest.mark.parametrize(
    "target", ["torch\nfloat32", "torch._utils\n_rebuild_tensor_v2", "torch\ndevice", "collections\nCounter"]
)
def test_a_file_changes_no_object_that_it_names(target: str) -> None:
    """The instruction that sets attributes, on a function, a class or a dtype."""
    text = f"c{target}\n".encode() + b"N}X\x0c\x00\x00\x00__defaults__)s\x86b."
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02" + text)
    file.seek(0)
    with pytest.raises(SerializationError, match="sets attributes"):
        rushlight.load(file)


# Sparse tensors, whose indices a file of the older format holds after the object.

LAYOUTS = ("to_sparse", "to_sparse_csr", "to_sparse_csc")


@pytest.mark.filterwarnings("ignore:Sparse CS. tensor support is in beta")  # torch, once in a process
@pytest.mark.parametrize("library", [torch, rushlight], ids=["theirs", "ours"])
@pytest.mark.parametrize("archive", [True, False])
@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_sparse_tensors_of_both_formats(library: Any, archive: bool, weights_only: bool, layout: str) -> None:
    file = io.BytesIO()
    given = {"s": getattr(library.eye(3), layout)(), "t": library.ones(2)}
    library.save(given, file, _use_new_zipfile_serialization=archive)
    if library is torch and not weights_only:
        pytest.skip("a file of PyTorch's names its own functions, which weights_only=False would run")
    file.seek(0)
    loaded = rushlight.load(file, weights_only=weights_only)
    assert loaded["s"].layout.name == str(given["s"].layout).rpartition(".")[2]
    assert loaded["s"].to_dense().tolist() == np.eye(3).tolist()
    assert loaded["t"].tolist() == [1, 1]


class Spoofed:
    """Pickled as a sparse tensor with an index outside of it."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor

    def __reduce_ex__(self, protocol: Any) -> Any:
        indices = self.tensor._indices().clone()
        indices[0, 0] = 7
        data = (indices, self.tensor._values(), self.tensor.size())
        return rushlight._utils._rebuild_sparse_tensor, (self.tensor.layout, data)


@pytest.mark.parametrize("archive", [True, False])
@pytest.mark.parametrize("weights_only", [True, False])
def test_indices_outside_of_a_sparse_tensor_are_refused(archive: bool, weights_only: bool) -> None:
    file = io.BytesIO()
    rushlight.save([Spoofed(rushlight.eye(3).to_sparse())], file, _use_new_zipfile_serialization=archive)
    file.seek(0)
    with pytest.raises(RuntimeError, match="size is inconsistent with indices"):
        rushlight.load(file, weights_only=weights_only)


@pytest.mark.parametrize("asked", [None, True, False])
@pytest.mark.parametrize("variables", [("",), ("NO_",), ("", "NO_"), ()], ids=str)
def test_the_environment_decides_what_a_file_may_hold(
    monkeypatch: pytest.MonkeyPatch, variables: tuple[str, ...], asked: bool | None
) -> None:
    for name in variables:
        monkeypatch.setenv(f"TORCH_FORCE_{name}WEIGHTS_ONLY_LOAD", "1")

    def outcome(library: Any) -> str:
        file = io.BytesIO()
        library.save(library.nn.Linear(2, 2), file)
        file.seek(0)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                made = type(library.load(file, weights_only=asked)).__name__
            except pickle.UnpicklingError as error:
                made = str(error)[:24]
            except RuntimeError as error:
                made = str(error)[:20]
        return made + str(["forcing weights_only=False" in str(w.message) for w in caught])

    assert outcome(rushlight) == outcome(torch)


def test_a_fresh_process_loads_a_parameter(tmp_path: Path) -> None:
    """Where nothing has asked for nn's classes before."""
    torch.save({"w": torch.nn.Parameter(torch.ones(2))}, tmp_path / "w.pt")
    code = f"import rushlight; print(type(rushlight.load({str(tmp_path / 'w.pt')!r})['w']).__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "Parameter\n"
