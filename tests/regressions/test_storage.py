"""Storages, dtypes and sizes: defects 12, 21 and 23, finding A11, and what PyTorch's storage tests ask."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import rushlight as rl
from rushlight._api import typed_storage
from rushlight.multiprocessing.reductions import StorageWeakRef
from rushlight.testing import make_tensor

LIBRARIES = [torch, rl]


@pytest.fixture(autouse=True)
def _quiet_about_typed_storages() -> None:
    typed_storage._has_warned[0] = True


# Storages.


def test_storage_of_a_tensor_is_one_object_and_its_memory() -> None:
    x = rl.arange(6.0)
    storage = x.untyped_storage()
    assert x[2:].untyped_storage() is storage
    assert storage is x.untyped_storage()
    assert (len(storage), storage.nbytes(), storage.element_size()) == (24, 24, 1)
    assert storage.data_ptr() == x.data_ptr()
    storage[0:4] = 0xFF
    assert x[0].isnan()
    part = storage[4:8]
    part.fill_(0)
    assert x[1].item() == 0.0
    assert storage.tolist() == torch.from_numpy(x.numpy()).untyped_storage().tolist()
    with pytest.raises(IndexError):
        storage[24]
    with pytest.raises(TypeError):
        storage[0] = 1.5


def test_resizing_a_storage_moves_its_tensors() -> None:
    x = rl.arange(4.0)
    view = x[1:3]
    storage = x.untyped_storage()
    storage.resize_(0)  # what frees the memory of a sharded parameter
    assert x.shape == (4,)
    with pytest.raises((RuntimeError, ValueError)):
        x.fill_(1.0)
    storage.resize_(16)
    x.copy_(rl.arange(4.0) + 10)
    assert view.tolist() == [11.0, 12.0]


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda lib: lib.__name__)
@pytest.mark.filterwarnings("ignore:TypedStorage")
def test_typed_storages(library: Any) -> None:
    storage = library.FloatStorage([1, 2, 3])
    assert isinstance(storage, library.FloatStorage)
    assert isinstance(storage, library.TypedStorage)
    assert not isinstance(storage, library.IntStorage)
    storage[1] = 5
    assert storage.tolist() == [1.0, 5.0, 3.0]
    assert storage.int().tolist() == [1, 5, 3]
    assert library.IntStorage([-1, 256]).byte().tolist() == [255, 0]
    assert storage.clone().fill_(2).tolist() == [2.0, 2.0, 2.0]
    assert (len(storage), storage.nbytes(), storage.element_size()) == (3, 12, 4)
    x = library.tensor(storage)
    assert x.untyped_storage().data_ptr() == storage.data_ptr()
    y = library.tensor([]).set_(storage, 1, (2,), (1,))
    assert y.tolist() == [5.0, 3.0]
    with pytest.raises(RuntimeError, match="Expected a Storage of type"):
        library.tensor([], dtype=library.int64).set_(storage)
    for wrong in (
        lambda: storage[0:2],
        lambda: library.FloatStorage(1, 2),
        lambda: library.TypedStorage(0, wrap_storage=storage.untyped(), dtype=library.float32),
    ):
        with pytest.raises(RuntimeError):
            wrong()
    swapped = library.ShortStorage.from_buffer(b"\x01\x02\x03\x04", "big")
    assert swapped.tolist() == [0x0102, 0x0304]


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda lib: lib.__name__)
def test_set_in_all_its_forms(library: Any) -> None:
    source = library.arange(6.0)
    target = library.zeros(1)
    assert target.set_(source).tolist() == list(range(6))
    assert target.set_(source, 1, (2, 2), (1, 2)).tolist() == [[1.0, 3.0], [2.0, 4.0]]
    assert target.set_(source.untyped_storage()).shape == (6,)
    storage = source.untyped_storage()
    assert target.set_(storage, storage_offset=2, size=(3,), stride=(1,)).tolist() == [2, 3, 4]
    assert target.set_().shape == (0,)
    for wrong in (
        lambda: target.set_(source.double()),
        lambda: target.set_(source, -1, (2,), (1,)),
        lambda: target.set_(source, 0, (-2,), (1,)),
        lambda: target.set_(source, 0, (2,), (-1,)),
        lambda: target.set_(source, 0, (2**62, 2**62)),
        lambda: library.ones(2, requires_grad=True).set_(source),
    ):
        with pytest.raises(RuntimeError):
            wrong()
    assert library is torch or target.shape == (0,)  # nothing is half done here


def test_weak_references_to_storages() -> None:
    x = rl.ones(3)
    first, second = StorageWeakRef(x.untyped_storage()), StorageWeakRef(x[1:].untyped_storage())
    assert first == second
    assert len({first, second, StorageWeakRef(rl.ones(3).untyped_storage())}) == 2
    assert not first.expired()
    seen = weakref.ref(x.untyped_storage())
    del x
    gc.collect()
    assert seen() is None
    assert first.expired()


def test_copies_of_storages_keep_what_is_shared() -> None:
    x = rl.arange(3.0)
    tensors = [x, x[1:], x.untyped_storage()]
    for again in (copy.deepcopy(tensors), pickle.loads(pickle.dumps([x, x.view(3, 1), x.untyped_storage()]))):
        again[0][1] = 9.0
        assert again[1].flatten().tolist()[-2] == 9.0
        assert again[2].data_ptr() == again[0].data_ptr()
        assert x.tolist() == [0.0, 1.0, 2.0]


def test_files_as_memory(tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    first = rl.from_file(path, True, 10, dtype=rl.float32)
    first.copy_(rl.arange(10.0))
    assert np.fromfile(path, np.float32).tolist() == list(range(10))
    second = rl.from_file(path, True, 4, dtype=rl.float32)
    second[0] = 7.0
    assert first[0].item() == 7.0
    private = rl.from_file(path, False, 10, dtype=rl.float32)
    private.zero_()
    assert first[3].item() == 3.0
    assert first.untyped_storage().filename == str(path)
    with pytest.raises(RuntimeError, match="not resizable"):
        first.resize_(100)
    with pytest.raises(RuntimeError):
        rl.from_file(tmp_path / "none", False, 10)
    with pytest.raises(RuntimeError):
        rl.from_file(path, False, 1000)


# Memory that processes share.


def _double(tensor: rl.Tensor, module: Any, answers: Any) -> None:
    tensor.mul_(2)
    with rl.no_grad():
        module.weight.fill_(3.0)
    answers.put((tensor[1:], os.getpid()))
    answers.get()  # wait until it was received


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.parametrize("strategy", ["file_descriptor", "file_system"])
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_processes_share_memory(method: str, strategy: str) -> None:
    multiprocessing = rl.multiprocessing
    before = multiprocessing.get_sharing_strategy()
    multiprocessing.set_sharing_strategy(strategy)
    try:
        context = multiprocessing.get_context(method)
        x = rl.arange(4.0).share_memory_()
        module = rl.nn.Linear(2, 1).share_memory()
        assert x.is_shared()
        assert module.weight.is_shared()
        answers = context.SimpleQueue()
        process = context.Process(target=_double, args=(x, module, answers))
        process.start()
        tensor, other = answers.get()
        assert other != os.getpid()
        assert x.tolist() == [0.0, 2.0, 4.0, 6.0]
        assert tensor.tolist() == [2.0, 4.0, 6.0]
        assert module.weight.tolist() == [[3.0, 3.0]]
        tensor[0] = 50.0
        assert x[1].item() == 50.0
        answers.put("received")
        process.join(60)
        assert process.exitcode == 0
        with pytest.raises(RuntimeError, match="not resizable"):
            x.resize_(100)
    finally:
        multiprocessing.set_sharing_strategy(before)


# dtypes.


def test_d12_data_of_a_tensor_that_requires_grad_stays_differentiable() -> None:
    x = rl.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="floating point or complex"):
        x.data = rl.ones(2, dtype=rl.int64)
    assert x.dtype is rl.float32
    x.data = rl.zeros(3)
    assert x.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.filterwarnings("ignore:ComplexHalf")
@pytest.mark.filterwarnings("ignore:Casting complex values")
@pytest.mark.parametrize(
    "name",
    ["complex32", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"],
)
def test_conversions_of_small_dtypes(name: str) -> None:
    rng = np.random.default_rng(0)
    values = np.concatenate(
        [
            rng.standard_normal(4000) * 10.0 ** rng.integers(-42, 38, 4000),
            [
                0.0,
                -0.0,
                np.inf,
                -np.inf,
                448,
                449,
                464,
                480,
                240,
                248,
                256,
                57344,
                61440,
                65504,
                65520,
                65536,
                -1.0,
                1e-45,
            ],
        ]
    ).astype(np.float32)
    ours = rl.from_numpy(values).to(getattr(rl, name))
    theirs = torch.from_numpy(values).to(getattr(torch, name))
    bits = rl.int32 if name == "complex32" else rl.uint8
    torch_bits = torch.int32 if name == "complex32" else torch.uint8
    assert ours.view(bits).tolist() == theirs.view(torch_bits).tolist()
    back, wanted = ours.to(rl.float64).numpy(), theirs.to(torch.float64).numpy()
    np.testing.assert_array_equal(back, wanted)
    assert rl.tensor(float("nan")).to(ours.dtype).float().isnan().item()
    for info in ("bits", "eps", "max", "min", "tiny", "resolution", "dtype"):
        assert getattr(rl.finfo(ours.dtype), info) == getattr(torch.finfo(theirs.dtype), info), info


@pytest.mark.filterwarnings("ignore:ComplexHalf")
def test_arithmetic_of_complex32() -> None:
    functions: list[Callable[[Any, Any], Any]] = [
        lambda lib, x: x + x,
        lambda lib, x: x * 2,
        lambda lib, x: x * x,
        lambda lib, x: x - 1j,
        lambda lib, x: x.abs(),
        lambda lib, x: x.conj().resolve_conj(),
        lambda lib, x: -x,
        lambda lib, x: x.real,
        lambda lib, x: x == x,
        lambda lib, x: lib.cat([x, x]),
        lambda lib, x: x.masked_fill(x == x[0], 2j),
        lambda lib, x: lib.view_as_real(x),
        lambda lib, x: x.roll(1),
        lambda lib, x: x[lib.tensor([1, 0])],
        lambda lib, x: x.to(lib.complex128),
        lambda lib, x: x.isfinite(),
        lambda lib, x: x.norm(),
        lambda lib, x: lib.view_as_complex(lib.ones(2, 2).half()),
        lambda lib, x: x.sgn(),
    ]
    for function in functions:
        results = [function(lib, lib.tensor([1 + 2j, 3 - 1.5j], dtype=lib.complex32)) for lib in LIBRARIES]
        assert results[0].tolist() == results[1].tolist()
        assert str(results[0].dtype).rpartition(".")[2] == results[1].dtype.name
    x = rl.tensor([1 + 2j], dtype=rl.chalf, requires_grad=True)
    (x * x.conj()).real.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2 + 4j]
    assert rl.compile(lambda y: y * 2 + 1)(x.detach()).tolist() == [3 + 4j]


@pytest.mark.filterwarnings("ignore")
def test_d21_make_tensor_has_pytorchs_ranges() -> None:
    names = (
        "bool",
        "uint8",
        "int8",
        "int32",
        "int64",
        "float16",
        "bfloat16",
        "float32",
        "float64",
        "complex64",
        "complex32",
        "float8_e4m3fn",
        "float8_e5m2",
        "float8_e4m3fnuz",
    )
    ranges = (
        (None, None),
        (-5, 5),
        (0, 1),
        (3, 3),
        (5, 1),
        (-1e40, 1e40),
        (float("nan"), 1),
        (300, 400),
        (-400, -300),
        (float("-inf"), float("inf")),
        (0.5, 1.5),
        (1, None),
        (None, 0),
    )

    def outcome(library: Any, make: Any, name: str, low: Any, high: Any) -> Any:
        try:
            made = make((200,), dtype=getattr(library, name), device="cpu", low=low, high=high)
        except (RuntimeError, TypeError, ValueError) as error:
            return type(error)
        return True if made.shape == (200,) else made.shape

    for name in names:
        for low, high in ranges:
            wanted = outcome(torch, torch.testing.make_tensor, name, low, high)
            assert outcome(rl, make_tensor, name, low, high) == wanted, (name, low, high)
    assert make_tensor(1000, dtype=rl.uint8, device="cpu", low=-5, high=3).max().item() == 2
    assert not (make_tensor(1000, dtype=rl.int8, device="cpu", exclude_zero=True) == 0).any()
    spread = make_tensor((3, 4), dtype=rl.float32, device="cpu", noncontiguous=True)
    assert (spread.shape, spread.stride(), spread.storage_offset()) == ((3, 4), (8, 2), 1)


# Sizes.


def _sizes(lib: Any) -> dict[str, Callable[[], Any]]:
    x = lib.ones(3)
    big = lib.ones(1).expand(2**50)
    return {
        "empty": lambda: lib.empty(2**62, 2**62),
        "empty large": lambda: lib.empty(2**60),
        "zeros": lambda: lib.zeros(2**62),
        "ones": lambda: lib.ones(2**60),
        "full": lambda: lib.full((2**62, 2**62), 1.0),
        "rand": lambda: lib.rand(2**62, 2**62),
        "strided": lambda: lib.empty_strided((2,), (2**62,)),
        "meta": lambda: lib.empty(2**62, 2**62, device="meta"),
        "no elements": lambda: lib.zeros(0, 2**63 - 1, 2**63 - 1),
        "arange": lambda: lib.arange(2**62),
        "eye": lambda: lib.eye(2**40),
        "linspace": lambda: lib.linspace(0, 1, 2**60),
        "resize_": lambda: x.resize_(2**62, 2**62),
        "resize_ large": lambda: x.resize_(2**60),
        "resize_ negative": lambda: x.resize_(-1),
        "set_": lambda: x.set_(x, 0, (2**62, 2**62)),
        "as_strided": lambda: x.as_strided((2, 2), (2**62, 2**62)),
        "expand": lambda: x.expand(2**62, 2**62, 3),
        "clone": lambda: big.clone(),
        "add": lambda: big + 1,
        "like": lambda: lib.zeros_like(big),
        "broadcast": lambda: lib.ones(2**20).view(-1, 1) + lib.ones(1).expand(2**41),
        "storage": lambda: lib.UntypedStorage(2**60),
        "new": lambda: x.new_empty(2**62),
        "one_hot": lambda: lib.nn.functional.one_hot(lib.tensor([0]), 2**60),
        "pad": lambda: lib.nn.functional.pad(x, (2**62, 2**62)),
    }


@pytest.mark.parametrize("name", _sizes(rl))
def test_a11_impossible_sizes_are_runtime_errors(name: str) -> None:
    with pytest.raises(RuntimeError):
        _sizes(torch)[name]()
    with pytest.raises(RuntimeError):
        _sizes(rl)[name]()


def test_a11_what_failed_is_as_it_was() -> None:
    x = rl.arange(3.0)
    for impossible in (
        lambda: x.resize_(2**60),
        lambda: x.resize_(2**62, 4),
        lambda: x.set_(x, 0, (2**62, 4)),
    ):
        with pytest.raises(RuntimeError):
            impossible()
        assert x.tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize(
    "make",
    [
        lambda: rl.ones((1,) * 65),
        lambda: rl.ones(1).view((1,) * 65),
        lambda: rl.ones(2)[(None,) * 64],
        lambda: rl.ones(1).resize_((1,) * 65),
        lambda: rl.tensor(np.ones((1,) * 64)).unsqueeze(0),
        lambda: rl.ones((1,) * 64).expand((1,) * 65),
    ],
)
def test_d23_more_than_64_dimensions_are_refused_clearly(make: Callable[[], Any]) -> None:
    """Values are in arrays, which have no more. PyTorch itself refuses most operators on such tensors."""
    with pytest.raises(RuntimeError, match="up to 64 dims"):
        make()
    assert rl.ones((1,) * 65, device="meta").ndim == 65


def test_d23_sizes_that_overflow() -> None:
    for lib in LIBRARIES:
        for wrong in (lambda lib=lib: lib.empty(2, 2**63 - 1), lambda lib=lib: lib.ones(2).repeat(2**61, 2)):
            with pytest.raises(RuntimeError):
                wrong()
        assert lib.ones(5).unfold(0, 2, 2**62).shape == (1, 2)
