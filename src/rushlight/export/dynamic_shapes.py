"""Which sizes of the arguments change from call to call, as users say it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from ..core import pytree
from ..core.errors import UserError
from ..core.tensor import Tensor

__all__ = ["Dim", "ShapesCollection", "dims"]

LARGEST = 2**63 - 1


class _DimHint(Enum):
    """What is said of a dimension that has no name."""

    AUTO = "AUTO"  # it changes if the program allows it
    DYNAMIC = "DYNAMIC"  # it changes, or it is an error
    STATIC = "STATIC"  # it is what it is in the example

    def __repr__(self) -> str:
        return f"Dim.{self.name}"


class Dim:
    """A size that changes, by name, from `min` to `max`. Sizes with the same name are equal.

    >>> rl.export.Dim("batch", min=2)
    Dim('batch', min=2, max=9223372036854775807)
    """

    AUTO = _DimHint.AUTO
    DYNAMIC = _DimHint.DYNAMIC
    STATIC = _DimHint.STATIC

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:
        self.min, self.max = 0 if min is None else min, LARGEST if max is None else max
        if self.max <= self.min:
            raise AssertionError(f"Cannot create Dim with inconsistent min={self.min}, max={self.max}")
        if not name.isidentifier():
            raise AssertionError(f"Dim name must be a valid identifier, got {name}")
        self.__name__ = name

    def __repr__(self) -> str:
        return f"Dim('{self.__name__}', min={self.min}, max={self.max})"

    def __eq__(self, other: object) -> bool:
        mine = (self.__name__, self.min, self.max)
        return isinstance(other, Dim) and mine == (other.__name__, other.min, other.max)

    def __hash__(self) -> int:
        return hash((self.__name__, self.min, self.max))


def dims(*names: str, min: int | None = None, max: int | None = None) -> tuple[Dim, ...]:
    """Several sizes that change, with the same range.

    >>> [dim.__name__ for dim in rl.export.dims("rows", "columns")]
    ['rows', 'columns']
    """
    return tuple(Dim(name, min=min, max=max) for name in names)


class ShapesCollection:
    """What is said of sizes by the tensor that is passed: `shapes[x] = {0: Dim.AUTO}`.

    >>> shapes, x = rl.export.ShapesCollection(), rl.ones(2)
    >>> shapes[x] = {0: rl.export.Dim("n")}
    >>> len(shapes)
    1
    """

    def __init__(self) -> None:
        self._shapes: dict[int, tuple[Any, Any]] = {}

    def __setitem__(self, tensor: Any, shape: Any) -> None:
        if not isinstance(tensor, Tensor):
            raise AssertionError(f"Cannot assign shape to non-tensor type {type(tensor)}")
        if id(tensor) in self._shapes and self._shapes[id(tensor)][1] != shape:
            raise AssertionError("Shapes assigned to input is a mismatch")
        self._shapes[id(tensor)] = (tensor, shape)

    def __getitem__(self, tensor: Any) -> Any:
        return self._shapes.setdefault(id(tensor), (tensor, {}))[1]

    def __len__(self) -> int:
        return len(self._shapes)

    def dynamic_shapes(self, m: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> Any:
        """The same as `export` takes it."""
        leaves, spec = pytree.flatten((args, kwargs or {}))
        given, named = spec.unflatten([self._shapes.get(id(leaf), (None, None))[1] for leaf in leaves])
        return (*given, *named.values())


@dataclass(frozen=True)
class ChangingSize:
    """One dimension of one leaf of the arguments that changes."""

    leaf: int
    dim: int
    said: Dim | _DimHint


def changing_sizes(shapes: Any, names: list[str], values: list[Any]) -> list[ChangingSize]:
    """What is said of the sizes of arguments with these names. UserError where it does not fit them."""
    if not shapes:
        return []
    if isinstance(shapes, Mapping):
        if set(shapes) != set(names):
            raise UserError(
                "When `dynamic_shapes` is specified as a dict, its top-level keys must be the arg names "
                f"{names} of `inputs`, but here they are {list(shapes)}. Alternatively, you could "
                "also ignore arg "
                "names entirely and specify `dynamic_shapes` as a list/tuple matching `inputs`."
            )
        shapes = [shapes[name] for name in names]
    if len(shapes) != len(values):
        raise UserError(
            f"Expected `dynamic_shapes` to have one entry for each of {len(values)} arguments "
            f"{names}, but it has "
            f"{len(shapes)}"
        )
    found: list[ChangingSize] = []
    first = 0
    for name, said, value in zip(names, shapes, values, strict=True):
        _walk(said, value, first, name, found)
        first += len(pytree.flatten(value)[0])
    return found


def _walk(said: Any, value: Any, first: int, path: str, found: list[ChangingSize]) -> None:
    """Collect what is said of the leaves of one argument, of which the first has the number `first`."""
    if said is None:
        return
    if isinstance(value, Tensor):
        found += [ChangingSize(first, d, s) for d, s in _of_tensor(said, value, path)]
        return
    if pytree.flatten(value)[1].type is None:
        raise UserError(
            f"`dynamic_shapes` has {said} for {path}, which is no tensor but {type(value).__name__}"
        )
    parts = list(value.values()) if isinstance(value, Mapping) else list(value)
    keys = list(value) if isinstance(value, Mapping) else list(range(len(parts)))
    inner = said
    if isinstance(said, Mapping):
        if not isinstance(value, Mapping) or set(said) != set(keys):
            raise UserError(f"`dynamic_shapes` has the keys {list(said)} for {path}, which has {keys}")
        inner = [said[key] for key in keys]
    if len(inner) != len(parts):
        raise UserError(f"`dynamic_shapes` has {len(inner)} parts for {path}, which has {len(parts)}")
    for key, part_said, part in zip(keys, inner, parts, strict=True):
        _walk(part_said, part, first, f"{path}[{key!r}]", found)
        first += len(pytree.flatten(part)[0])


def _of_tensor(said: Any, tensor: Tensor, path: str) -> list[tuple[int, Any]]:
    """(dimension, what is said of it) of a tensor."""
    if isinstance(said, Mapping):
        items = list(said.items())
    elif isinstance(said, list | tuple):
        if len(said) != tensor.ndim:
            raise UserError(
                f"Expected dynamic shape spec {said} specified at `dynamic_shapes` for {path} to have the same "
                f"length as the actual tensor shape {tuple(tensor.shape)} (expected {tensor.ndim}, but got "
                f"{len(said)} instead)"
            )
        items = list(enumerate(said))
    else:
        raise UserError(
            f"Unexpected dynamic shape spec {said} for {path}: a dict, list, tuple or None is expected"
        )
    found = []
    for dim, what in items:
        if not isinstance(dim, int) or not -tensor.ndim <= dim < tensor.ndim:
            raise UserError(
                f"`dynamic_shapes` names the dimension {dim} of {path}, whose shape is {tuple(tensor.shape)}"
            )
        if isinstance(what, int) and not isinstance(what, bool) and what != tensor.shape[dim]:
            raise UserError(
                f"Static shape constraint of {what} does not match input size of {tensor.shape[dim]}, for {path}"
            )
        if isinstance(what, Dim | _DimHint) and what is not _DimHint.STATIC:
            found.append((dim % tensor.ndim, what))
        elif what is not None and what is not _DimHint.STATIC and not isinstance(what, int):
            raise UserError(f"Unexpected dimension {what} of {path}: an int, None, or a Dim is expected")
    return found
