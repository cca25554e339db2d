"""Random indices and random chains of views, read and written, on PyTorch and on Rushlight.

Values, shapes, strides, offsets, versions and error types must agree, and writes through a view must reach
its base. Writes whose outcome PyTorch leaves open (several values for one element) are not tried.
"""

from __future__ import annotations

import math
import os
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rushlight.testing.side_by_side import assert_same, outcome

# RUSHLIGHT_FUZZ=20000 looks further, with other examples every time.
EXAMPLES = int(os.environ.get("RUSHLIGHT_FUZZ", "0"))
FUZZ = settings(
    max_examples=EXAMPLES or 400,
    deadline=None,
    derandomize=not EXAMPLES,
    database=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated forms of indices are part of what is drawn
        yield


# --- bases -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Base:
    """A tensor of `shape` that may be a part of a larger one: permuted, sliced with steps, expanded."""

    shape: tuple[int, ...]
    order: tuple[int, ...]
    steps: tuple[int, ...]
    starts: tuple[int, ...]

    def build(self, T: Any) -> tuple[Any, Any]:
        """(the tensor that owns the memory, the one to work on)"""
        dims = list(zip(self.shape, self.steps, self.starts, strict=True))
        full = [n * step + start for n, step, start in dims]
        memory = [full[d] for d in self.order]
        owner = T.arange(math.prod(memory), dtype=T.float32).reshape(memory)
        result = owner.permute([self.order.index(d) for d in range(len(full))])
        return owner, result[tuple(slice(start, start + n * step, step) for n, step, start in dims)]


@st.composite
def bases(draw: Any, max_rank: int = 4) -> Base:
    shape = tuple(draw(st.lists(st.sampled_from([0, 1, 1, 2, 3, 3, 4]), max_size=max_rank)))
    rank = len(shape)
    if draw(st.booleans()):
        return Base(shape, tuple(range(rank)), (1,) * rank, (0,) * rank)
    steps = [draw(st.sampled_from([1, 1, 2])) for _ in shape]
    starts = [draw(st.sampled_from([0, 0, 1])) for _ in shape]
    return Base(shape, tuple(draw(st.permutations(range(rank)))), tuple(steps), tuple(starts))


# --- indices -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Data:
    """An index that holds numbers: a tensor, an array, or a list, 0-d included."""

    kind: str
    values: np.ndarray

    def build(self, T: Any) -> Any:
        if self.kind == "list":
            return self.values.tolist()
        if self.kind == "array":
            return self.values.copy()
        return T.from_numpy(self.values.copy())


def built(item: Any, T: Any) -> Any:
    if isinstance(item, Data):
        return item.build(T)
    return tuple(built(part, T) for part in item) if isinstance(item, tuple) else item


bound = st.none() | st.integers(-6, 6)
slices = st.builds(slice, bound, bound, st.none() | st.integers(1, 3)) | st.just(slice(None))


@st.composite
def numbers(draw: Any, size: int) -> Data:
    """Positions in a dimension of `size`, seldom out of range."""
    shape = draw(st.sampled_from([(), (1,), (2,), (2,), (3,), (0,), (2, 1), (1, 2), (2, 2)]))
    reach = size if draw(st.integers(0, 9)) else size + 2
    count = math.prod(shape)
    values = draw(st.lists(st.integers(-reach, max(reach - 1, 0)), min_size=count, max_size=count))
    dtype = draw(st.sampled_from([np.int64, np.int64, np.int64, np.int32, np.int16, np.float32]))
    kind = draw(st.sampled_from(["tensor", "tensor", "array", "list"]))
    return Data(kind, np.array(values, dtype).reshape(shape))


@st.composite
def masks(draw: Any, shape: tuple[int, ...]) -> Data:
    """A mask over dimensions of `shape`, seldom of another shape."""
    if not draw(st.integers(0, 14)) and shape:
        shape = (shape[0] + 1, *shape[1:])
    count = math.prod(shape)
    values = draw(st.lists(st.booleans(), min_size=count, max_size=count))
    dtype = draw(st.sampled_from([np.bool_, np.bool_, np.bool_, np.uint8]))
    # PyTorch counts a NumPy mask as one dimension whatever its rank; later items are then without a meaning.
    kind = draw(st.sampled_from(["tensor", "tensor", "array"])) if len(shape) == 1 else "tensor"
    return Data(kind, np.array(values, dtype).reshape(shape))


KINDS = ["int", "int", "slice", "slice", "numbers", "numbers", "mask", "none", "bool"]
KINDS += ["stop", "ellipsis", "0-d mask", "numpy int"]


@st.composite
def indices(draw: Any, shape: tuple[int, ...]) -> Any:
    """An index for a tensor of `shape`: mostly valid, in every form that Python code can write."""
    items: list[Any] = []
    dim = 0
    while len(items) < len(shape) + 2:
        kind = draw(st.sampled_from(KINDS))
        left = shape[dim:]
        if kind == "stop":
            break
        if kind == "none":
            items.append(None)
        elif kind == "ellipsis" and Ellipsis not in items:
            items.append(Ellipsis)
            dim = draw(st.integers(min(dim, len(shape)), len(shape)))
        elif kind == "bool":
            items.append(draw(st.booleans()))
        elif kind == "0-d mask":
            items.append(Data("tensor", np.array(draw(st.booleans()))))
        elif not left and draw(st.integers(0, 9)):
            if draw(st.sampled_from([None, "stop"])) == "stop":
                break
        elif kind == "mask":
            width = draw(st.integers(1, max(len(left), 1)))
            items.append(draw(masks(tuple(left[:width]))))
            dim += width
        elif kind != "ellipsis":
            items.append(of_one_dimension(draw, kind, left))
            dim += 1
    if len(items) == 1 and draw(st.booleans()):
        return items[0]
    return tuple(items)


def of_one_dimension(draw: Any, kind: str, left: tuple[int, ...]) -> Any:
    """An index of the first of the dimensions that are left."""
    if kind == "int":
        if not left or not left[0] or not draw(st.integers(0, 9)):
            return draw(st.integers(-6, 6))
        return draw(st.integers(-left[0], left[0] - 1))
    if kind == "numpy int":
        return np.int64(draw(st.integers(0, max(left[0] - 1, 0) if left else 0)))
    return draw(slices if kind == "slice" else numbers(left[0] if left else 2))


def parts(index: Any) -> list[Any]:
    return list(index) if isinstance(index, tuple) else [index]


def repeats(index: Any) -> bool:
    """Whether an element may be selected more than once, so that only one value can be assigned to all."""
    return any(
        isinstance(item, Data) and item.values.dtype.kind != "b" and item.values.size > 1
        for item in parts(index)
    )


@given(st.data())
@FUZZ
def test_reading(data):
    base = data.draw(bases())
    index = data.draw(indices(base.shape))

    def run(T):
        owner, tensor = base.build(T)
        result = tensor[built(index, T)]
        if result._base is None:
            return owner, tuple(result.shape), strides_that_matter(result), result.flatten()
        result.fill_(-1)
        return owner, result

    assert_same(run)


def strides_that_matter(fresh: Any) -> tuple[int, ...]:
    """Strides of a new tensor where it has more than one element to step over."""
    pairs = zip(fresh.shape, fresh.stride(), strict=True)
    return tuple(stride for size, stride in pairs if size > 1 and fresh.numel())


VALUES = ("number", "one", "ramp", "leading ones", "broadcast", "other dtype", "wrong shape", "int")


@given(st.data())
@FUZZ
def test_writing(data):
    base = data.draw(bases())
    index = data.draw(indices(base.shape))
    kind = data.draw(st.sampled_from(VALUES[:2] if repeats(index) else VALUES))
    selected = outcome(lambda T: base.build(T)[1][built(index, T)], torch)
    shape = selected.shape if not isinstance(selected, Exception) else ()

    def value(T):
        if kind == "number":
            return 99.5
        if kind == "int":
            return -3
        if kind == "one":
            return T.ones(())
        ramp = T.from_numpy(-np.arange(1, math.prod(shape) + 1, dtype=np.float32).reshape(shape))
        if kind == "leading ones":
            return ramp.reshape((1, 1, *shape))
        if kind == "broadcast":
            return ramp[..., :1] if shape else ramp
        if kind == "other dtype":
            return ramp.to(T.float64)
        return ramp.reshape(-1).repeat(2) if kind == "wrong shape" else ramp

    def run(T):
        owner, tensor = base.build(T)
        tensor[built(index, T)] = value(T)
        return owner, tensor

    assert_same(run)


# --- chains of views ---------------------------------------------------------------------------------


def dims(rank: int) -> Any:
    """A dimension, seldom out of range."""
    return st.integers(-max(rank, 1), max(rank, 1) - 1) | st.integers(-rank - 1, rank)


@st.composite
def factors(draw: Any, count: int) -> tuple[int, ...]:
    """A shape of `count` elements, perhaps with one size left open."""
    sizes = []
    rest = count
    while rest > 1 and len(sizes) < 4:
        size = draw(st.sampled_from([n for n in range(1, rest + 1) if rest % n == 0]))
        sizes.append(size)
        rest //= size
    sizes.append(rest)
    if draw(st.booleans()):
        sizes[draw(st.integers(0, len(sizes) - 1))] = -1
    return tuple(sizes)


def _expanded(draw: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    grown = [draw(st.sampled_from([n, -1] if n != 1 else [1, -1, 2, 3])) for n in shape]
    return (*draw(st.lists(st.integers(0, 2), max_size=2)), *grown)


# name -> arguments for a tensor of a given shape
VIEWS = {
    "select": lambda draw, s: (draw(dims(len(s))), draw(st.integers(-3, 3))),
    "narrow": lambda draw, s: (draw(dims(len(s))), draw(st.integers(-3, 3)), draw(st.integers(0, 3))),
    "transpose": lambda draw, s: (draw(dims(len(s))), draw(dims(len(s)))),
    "swapdims": lambda draw, s: (draw(dims(len(s))), draw(dims(len(s)))),
    "movedim": lambda draw, s: (draw(dims(len(s))), draw(dims(len(s)))),
    "permute": lambda draw, s: (tuple(draw(st.permutations(range(len(s))))),),
    "t": lambda draw, s: (),
    "squeeze": lambda draw, s: draw(st.sampled_from([(), (draw(dims(len(s))),), (tuple(range(len(s))),)])),
    "unsqueeze": lambda draw, s: (draw(dims(len(s) + 1)),),
    "expand": lambda draw, s: (_expanded(draw, s),),
    "view": lambda draw, s: (draw(factors(math.prod(s))),),
    "reshape": lambda draw, s: (draw(factors(math.prod(s))),),
    "flatten": lambda draw, s: (draw(dims(len(s))), draw(dims(len(s)))),
    "ravel": lambda draw, s: (),
    "unflatten": lambda draw, s: _unflatten(draw, s),
    "diagonal": lambda draw, s: (draw(st.integers(-4, 4)), draw(dims(len(s))), draw(dims(len(s)))),
    "unfold": lambda draw, s: (draw(dims(len(s))), draw(st.integers(0, 3)), draw(st.integers(1, 3))),
    "unbind": lambda draw, s: (draw(dims(len(s))),),
    "split": lambda draw, s: (draw(st.integers(0, 3)), draw(dims(len(s)))),
    "chunk": lambda draw, s: (draw(st.integers(0, 3)), draw(dims(len(s)))),
    "tensor_split": lambda draw, s: (
        draw(st.integers(0, 3) | st.lists(st.integers(-3, 4), max_size=3).map(tuple)),
        draw(dims(len(s))),
    ),
    "as_strided": lambda draw, s: (
        tuple(draw(st.lists(st.integers(0, 3), min_size=2, max_size=2))),
        tuple(draw(st.lists(st.integers(0, 3), min_size=2, max_size=2))),
        draw(st.none() | st.integers(0, 3)),
    ),
    "detach": lambda draw, s: (),
    "adjoint": lambda draw, s: (),
    "__getitem__": lambda draw, s: (draw(slices),),
}


def _unflatten(draw: Any, shape: tuple[int, ...]) -> tuple[Any, ...]:
    dim = draw(dims(len(shape)))
    size = shape[dim] if -len(shape) <= dim < len(shape) else 1
    return dim, draw(factors(size))


def one_place_each(tensor: Any) -> bool:
    """Whether no two elements of a torch tensor share memory."""
    size = tensor.untyped_storage().nbytes() // tensor.element_size()
    places = torch.arange(size).as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
    return places.unique().numel() == places.numel()


@given(st.data())
@FUZZ
def test_chains(data):
    base = data.draw(bases())
    tensor = base.build(torch)[1]
    steps: list[tuple[str, tuple[Any, ...], int]] = []
    for _ in range(data.draw(st.integers(1, 6))):
        name = data.draw(st.sampled_from(sorted(VIEWS)))
        arguments = VIEWS[name](data.draw, tuple(tensor.shape))
        chosen = data.draw(st.integers(0, 2))
        steps.append((name, arguments, chosen))
        try:
            tensor = follow(tensor, steps[-1])
        except (RuntimeError, IndexError):
            break

    def run(T):
        owner, tensor = base.build(T)
        on_the_way = []
        for step in steps:
            tensor = follow(tensor, step)
            on_the_way.append(tensor)
        return owner, tuple(on_the_way)

    assert_same(run)
    if not one_place_each(tensor) and not any(
        stride == 0 and size > 1 for size, stride in zip(tensor.shape, tensor.stride(), strict=True)
    ):
        return

    def write(T):
        owner, tensor = base.build(T)
        for step in steps:
            tensor = follow(tensor, step)
        tensor.copy_(T.from_numpy(-np.arange(1, tensor.numel() + 1, dtype=np.float32)).reshape(tensor.shape))
        tensor.add_(0.5)
        return owner, tensor

    assert_same(write)


def follow(tensor: Any, step: tuple[str, tuple[Any, ...], int]) -> Any:
    """One step of a chain: a view, or one of the views that the step gives."""
    name, arguments, chosen = step
    result = getattr(tensor, name)(*arguments)
    return result[chosen] if isinstance(result, tuple) else result
