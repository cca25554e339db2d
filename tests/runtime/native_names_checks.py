"""Calls that give arguments by name, or lists, run natively, do what those in Python do, and keep nothing.

Native calls cannot be taken back: test_native_dispatch.py runs these tests in a process of their own.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import rushlight
from rushlight._api.link import API
from rushlight.core import dispatch
from rushlight.core.tensor import Tensor
from rushlight.runtime import native_dispatch


@pytest.fixture(autouse=True, scope="module")
def native() -> None:
    if not native_dispatch.install({**API.methods, **API.functions[""]}):
        pytest.skip("Python or NumPy is laid out in another way")


NAMED: list[Callable[[Tensor], Any]] = [
    lambda x: x.sum(dim=1),
    lambda x: x.sum(dim=(0, 1)),
    lambda x: x.sum(1, keepdim=True),
    lambda x: x.sum(keepdims=True, axis=0),
    lambda x: x.mean(dim=0, dtype=rushlight.float64),
    lambda x: rushlight.add(x, x, alpha=3),
    lambda x: rushlight.add(input=x, other=x[0], alpha=2),
    lambda x: rushlight.add(other=x[0], input=x),
    lambda x: x.unsqueeze(dim=-1),
    lambda x: x.clamp(min=1.0),
    lambda x: x.clamp(max=2.0),
    lambda x: x.transpose(dim0=0, dim1=1),
]


@pytest.mark.parametrize("number", range(len(NAMED)))
def test_arguments_with_names(number: int) -> None:
    """A call that gives arguments by name is native, too, with values that differ from call to call."""
    function, results = NAMED[number], []
    for value in range(4):
        x = rushlight.arange(6.0).reshape(2, 3) + value
        leaf = x.clone().requires_grad_()
        found = function(leaf)
        found.sum().backward()
        with rushlight.no_grad():
            plain = function(x)
        with in_python():
            other = x.clone().requires_grad_()
            wanted = function(other)
            wanted.sum().backward()
        for result in (found, plain):
            assert result.dtype is wanted.dtype
            assert result.tolist() == wanted.tolist()
        assert leaf.grad.tolist() == other.grad.tolist()  # type: ignore[union-attr]
        results.append(type(found.grad_fn))
    assert len(set(results)) == 1


@contextlib.contextmanager
def in_python() -> Iterator[None]:
    """Calls run as if there were no native ones."""
    plain, dispatch.run_call = dispatch.run_call, dispatch.call_operator
    paused = native_dispatch._installed.paused  # type: ignore[union-attr]
    paused[0] = 1
    try:
        yield
    finally:
        dispatch.run_call, paused[0] = plain, 0


SIZES: list[Callable[[Tensor], Any]] = [
    lambda x: x[:, :1].expand(x.shape),
    lambda x: x[:, :1].expand([*x.shape]),
    lambda x: x.expand((4, *x.shape)),
    lambda x: x.view(x.shape),
    lambda x: x.view([x.numel()]),
    lambda x: x.view(size=[-1, 3]),
    lambda x: x.view(-1, 1, 3),
    lambda x: x.reshape(rushlight.Size([3, 2])),
    lambda x: x.t().reshape([6]),
    lambda x: x.permute([1, 0]),
    lambda x: x.sum([0, 1]),
    lambda x: x.roll([1], [0]),
    lambda x: x.flip([0]),
    lambda x: x.repeat([2, 1]),
    lambda x: rushlight.broadcast_to(x[:1], x.shape),
    lambda x: x[0, 0].view([]),
    lambda x: x[0, 0].expand(rushlight.Size()),
    lambda x: rushlight.cat([x, x + 1], dim=1),
    lambda x: rushlight.stack((x, x + 1), dim=-1),
    lambda x: x.clone(memory_format=rushlight.contiguous_format),
    lambda x: x.t().clone(memory_format=rushlight.preserve_format),
    lambda x: x.split([1, 1], dim=0)[1],
]


@pytest.mark.parametrize("number", range(len(SIZES)))
def test_sizes_and_lists(number: int) -> None:
    """Of whichever type a list is; what is recorded has tuples."""
    function = SIZES[number]
    for value in range(4):
        x = rushlight.arange(6.0).reshape(2, 3) + value
        leaf, other = x.clone().requires_grad_(), x.clone().requires_grad_()
        found, plain = function(leaf), function(x)
        (found * found).sum().backward()
        with in_python():
            wanted, bare = function(other), function(x)
            (wanted * wanted).sum().backward()
        for result, right in ((found, wanted), (plain, bare)):
            assert result.tolist() == right.tolist() and result.dtype is right.dtype
            assert result.stride() == right.stride() and result._creation == right._creation
            assert (result._base is None) is (right._base is None)
            assert (result._view_of is None) is (right._view_of is None)
            if right._view_of is not None:
                assert result._view_of[1][1:] == right._view_of[1][1:]
                assert [*map(type, result._view_of[1])] == [*map(type, right._view_of[1])]
        assert leaf.grad.tolist() == other.grad.tolist()  # type: ignore[union-attr]
        assert type(found.grad_fn) is type(wanted.grad_fn)


def test_lists_that_change_after_the_call() -> None:
    for _ in range(3):
        x = rushlight.arange(6.0).reshape(2, 3).requires_grad_()
        y, z = rushlight.ones(2, 3), rushlight.ones(2, 3, requires_grad=True)
        size, dims, shifts, both = [6], [1, 0], [1], [y, z]
        view, turned, rolled = x.view(size), x.permute(dims), x.roll(shifts, [0])
        joined = rushlight.cat(both, dim=0)
        for given in (size, dims, shifts, both):
            given.clear()
        (view.sum() + (turned * turned).sum() + (rolled * rolled).sum() + joined.sum()).backward()
        assert x.grad.tolist() == (4 * x + 1).tolist() and z.grad.tolist() == y.tolist()


FACTORIES: list[Callable[[], Tensor]] = [
    lambda: rushlight.full((2, 3), 2.5, dtype=rushlight.float64),
    lambda: rushlight.full([2, 3], 2, dtype=rushlight.int32, device=rushlight.device("cpu")),
    lambda: rushlight.full((2, 3), 2.5, device=rushlight.device("meta")),
    lambda: rushlight.full((2, 3), 2.5, device=rushlight.device("cpu:0")),
    lambda: rushlight.full((2, 3), 2.5, device="cpu"),
    lambda: rushlight.full((2, 3), True),
    lambda: rushlight.zeros(4, dtype=rushlight.bool),
    lambda: rushlight.zeros(4, dtype=None, device=None),
    lambda: rushlight.zeros(4, 5, dtype=rushlight.float16),
    lambda: rushlight.zeros(rushlight.Size([2, 2]), device=rushlight.device("cpu")),
    lambda: rushlight.ones(2, 3, 4, dtype=rushlight.int64, device=rushlight.device("cpu")),
    lambda: rushlight.ones(2, 3, device=rushlight.device("meta")),
    lambda: rushlight.zeros(2, -3, dtype=rushlight.float64),
    lambda: rushlight.zeros(2, 2**70, dtype=rushlight.float64),
    lambda: rushlight.zeros(2, 3.5, dtype=rushlight.float64),
    lambda: rushlight.zeros(2, 3, size=[2]),
    lambda: rushlight.ones(3).new_ones(2, 2, dtype=rushlight.int64),
    lambda: rushlight.ones(3).expand(2, 3, implicit=False),
    lambda: rushlight.zeros(dtype=rushlight.int64, size=(2, 2)),
    lambda: rushlight.zeros((2, 3), (2, 3), dtype=rushlight.int64),
    lambda: rushlight.zeros(size=[2, 2], dtype=rushlight.float64),
    lambda: rushlight.zeros(2, 2, layout=rushlight.strided),
    lambda: rushlight.zeros([2, 2], layout=rushlight.sparse_coo),
    lambda: rushlight.zeros([2, 2], layout=rushlight.strided, dtype=rushlight.float64),
    lambda: rushlight.ones([2], requires_grad=True, dtype=rushlight.float64),
    lambda: rushlight.arange(4, dtype=rushlight.float64),
    lambda: rushlight.arange(1, 4, device=rushlight.device("cpu")),
    lambda: rushlight.eye(3, dtype=rushlight.int64),
    lambda: rushlight.zeros_like(rushlight.ones(2, 2), dtype=rushlight.float64),
    lambda: rushlight.ones_like(rushlight.ones(2, 2), device=rushlight.device("meta")),
    lambda: rushlight.ones_like(rushlight.ones(2, 2, device="meta"), device=rushlight.device("cpu")),
    lambda: rushlight.ones(2, 2).new_full((2,), 3, dtype=rushlight.int64),
    lambda: rushlight.ones(2, 2).new_zeros([2], device=rushlight.device("cpu")),
    lambda: rushlight.ones(2, 2).to(device=rushlight.device("cpu"), dtype=rushlight.float64),
    lambda: rushlight.ones(2, 2).to(rushlight.device("meta")),
    lambda: rushlight.zeros(4, pin_memory=False),
    lambda: rushlight.zeros([2, -1], dtype=rushlight.float64),
    lambda: rushlight.zeros([2, 2.5], dtype=rushlight.float64),
    lambda: rushlight.zeros([2**70], dtype=rushlight.float64),
]


@pytest.mark.parametrize("place", [None, "cpu", "meta"])
@pytest.mark.parametrize("number", range(len(FACTORIES)))
def test_factories(number: int, place: str | None) -> None:
    """What they make, and where, whoever says it, or how they fail."""

    def made() -> Any:
        try:
            t = FACTORIES[number]()
        except Exception as error:
            return type(error), str(error)
        values = None if t.is_meta else t.to_dense().tolist()
        return (
            values,
            t.dtype,
            t.device,
            t.layout,
            t.requires_grad,
            t.shape,
            None if t.is_sparse else t.stride(),
        )

    with in_python():
        wanted = [made()]
        with rushlight.device(place) if place else contextlib.nullcontext():
            wanted.append(made())
    for _ in range(3):
        found = [made()]
        with rushlight.device(place) if place else contextlib.nullcontext():
            found.append(made())
        assert found == wanted


def test_memory_of_factories_is_their_own() -> None:
    size, cpu = [3, 3], rushlight.device("cpu")
    made = [rushlight.zeros(size, dtype=rushlight.float64, device=cpu) for _ in range(4)]
    for i, t in enumerate(made):
        t.add_(i)
    assert [t.sum().item() for t in made] == [0, 9, 18, 27]
    for _ in range(3):
        rushlight.empty(size, dtype=rushlight.float64)
    rushlight.zeros(1000, 3, device=cpu)
    thousand = 1000
    before = sys.getrefcount(size), sys.getrefcount(cpu), sys.getrefcount(thousand)
    for _ in range(100):
        rushlight.zeros(size, dtype=rushlight.float64, device=cpu)
        rushlight.zeros(thousand, 3, device=cpu)
        rushlight.ones(9).view(size)
        with pytest.raises(RuntimeError):
            rushlight.ones(8).view(size)
    assert (sys.getrefcount(size), sys.getrefcount(cpu), sys.getrefcount(thousand)) == before


def test_calls_in_place_with_names() -> None:
    """They are not taken for those of the functional form, which are native."""
    x, y = rushlight.zeros(3), rushlight.ones(3)
    for alpha in (1.0, 2.0, 0.5, 4.0):
        before = x[0].item(), x._version
        assert x.add_(y, alpha=alpha) is x
        assert (x[0].item(), x._version) == (before[0] + alpha, before[1] + 1)
    for _ in range(3):
        assert x.clamp_(min=0.0, max=2.0) is x
        assert x.tolist() == [2.0, 2.0, 2.0]


def test_arguments_with_names_are_not_kept() -> None:
    packet = API.methods["sum"]
    x = rushlight.ones(2, 3)
    for _ in range(3):
        x.sum(dim=0)
    tables = vars(packet)["_named"]
    assert any(key[1:] == ("dim", int) and table is not False for key, table in tables.items())
    y = rushlight.ones(3)
    for _ in range(3):
        rushlight.add(input=x, other=y)
    before = sys.getrefcount(y)
    for _ in range(100):
        rushlight.add(input=x, other=y)
    assert sys.getrefcount(y) == before == 2


def test_wrong_arguments_with_names() -> None:
    x = rushlight.ones(2, 3)
    for _ in range(3):
        x.sum(dim=0)
    with pytest.raises(IndexError):
        x.sum(dim=5)
    with pytest.raises(ValueError, match="Overflow"):
        x.sum(dim=2**70)
    with pytest.raises(TypeError):
        x.sum(0, dim=0)
    with pytest.raises(TypeError):
        x.sum(nothing=0)
    assert x.sum(dim=()).item() == 6


def test_lists_of_tensors_and_factories() -> None:
    x, y = rushlight.ones(2, 2), rushlight.zeros(2, 2)
    w = rushlight.ones(2, 2, requires_grad=True)
    for _ in range(3):  # the first is resolved by Python
        assert rushlight.cat([x, y], 1).tolist() == [[1, 1, 0, 0]] * 2
        joined = rushlight.cat([x, w, y], 0)
        joined.backward(rushlight.arange(12.0).reshape(6, 2))
        assert w.grad.tolist() == [[4, 5], [6, 7]] and joined.grad_fn.name() == "CatBackward0"
        w.grad = None
        for wrong in ([], [x, 1], [x, None]):
            with pytest.raises((RuntimeError, TypeError, ValueError)):
                rushlight.cat(wrong, 1)
        assert rushlight.zeros(x.shape).tolist() == y.tolist() and rushlight.ones(2, 2).tolist() == x.tolist()
        with rushlight.device("meta"):
            assert rushlight.zeros(x.shape).is_meta and rushlight.randn(3).is_meta
        values, places = w.topk(1, 1)
        assert values.grad_fn is not None and places.grad_fn is None


def test_which_of_them_are_native() -> None:
    x, cpu, double = rushlight.ones(2, 2), rushlight.device("cpu"), rushlight.float64
    for _ in range(3):
        x.expand(x.shape), x.view([4]), x.clone(memory_format=rushlight.contiguous_format)
        rushlight.cat([x, x], dim=0), rushlight.zeros([2], dtype=double, device=cpu)
        rushlight.zeros([2], layout=rushlight.sparse_coo), rushlight.zeros(2, 2, dtype=double)
    size, methods, functions = rushlight.Size, API.methods, API.functions[""]
    assert vars(methods["expand"])["_fast"][Tensor, size] is not False
    assert vars(methods["view"])["_fast"][Tensor, list] is not False
    assert vars(methods["clone"])["_named"][Tensor, "memory_format", rushlight.memory_format] is not False
    assert vars(functions["cat"])["_named"][list, "dim", int] is not False
    named = vars(functions["zeros"])["_named"]
    assert named[list, "dtype", "device", rushlight.dtype, rushlight.device] is not False
    assert named[int, int, "dtype", rushlight.dtype] is not False
    assert named[list, "layout", rushlight.layout] is False


PLACES: list[Callable[[Tensor], Any]] = [
    lambda x: x.as_strided((2, 3), (3, 1)),
    lambda x: x.as_strided([2, 2], [1, 2], 3),
    lambda x: x[1].as_strided((2,), (1,)),
    lambda x: x[2:].as_strided((2,), (1,), 0),
    lambda x: x[2:, 1:].as_strided((2, 3), (0, 1)),
    lambda x: x[1:1].as_strided((2, 2), (2, 1)),
    lambda x: x[:, 3:].as_strided((2, 2), (2, 1), 1),
    lambda x: x.t().as_strided((3, 4), (1, 3), storage_offset=0),
    lambda x: x.view(-1).unfold(0, 4, 2),
    lambda x: x[1:].unfold(1, 2, 1),
    lambda x: x.t().unfold(0, 3, 1)[..., 1],
]


@pytest.mark.parametrize("number", range(len(PLACES)))
def test_views_of_any_place(number: int) -> None:
    """Of sources that begin anywhere, and may have no elements."""
    function = PLACES[number]
    for value in range(4):
        x = rushlight.arange(12.0).reshape(4, 3).clone() + value
        leaf, other = x.clone().requires_grad_(), x.clone().requires_grad_()
        found, plain = function(leaf), function(x)
        (found * found).sum().backward()
        with in_python():
            wanted, bare = function(other), function(x)
            (wanted * wanted).sum().backward()
        for result, right in ((found, wanted), (plain, bare)):
            assert result.tolist() == right.tolist() and result.stride() == right.stride()
            assert result.storage_offset() == right.storage_offset()
            assert result._view_of[1][1:] == right._view_of[1][1:]
        assert leaf.grad.tolist() == other.grad.tolist()  # type: ignore[union-attr]
        assert plain.data_ptr() == bare.data_ptr() and plain._versions is x._versions
        plain.zero_()
        assert not bare.any()


def test_views_of_storages_of_other_sizes() -> None:
    """The memory of the storage decides what fits, whatever was made of equal tensors before."""
    for _ in range(4):
        large, small = rushlight.arange(12.0)[:4], rushlight.arange(4.0)
        for offset in (8, None, 8):
            assert large.as_strided((4,), (1,), offset).tolist() == [*range(offset or 0, (offset or 0) + 4)]
            with pytest.raises(RuntimeError, match="out of bounds for storage of size 16"):
                small.as_strided((4,), (1,), offset or 1)
        held = rushlight.arange(12.0)
        part = held[2:6]
        assert part.as_strided((4,), (1,)).tolist() == [2, 3, 4, 5]
        held.resize_(100).zero_()
        for source in (part, part.detach(), held):
            view = source.as_strided((4,), (1,), 90)
            view.add_(1)
        assert held[90:94].tolist() == [3, 3, 3, 3]
        held.untyped_storage().resize_(24)
        for source in (part, held):
            with pytest.raises(RuntimeError, match="out of bounds"):
                source.as_strided((4,), (1,), 4)
