"""The key of a call: by which its specialization is looked up.

In:  the arguments. Out: a `CallKey`, which can be a key of a dictionary: the structure of the arguments, the
layouts of tensors, the types of numbers, the values of everything else, what shares memory, and the modes the
call runs under. Calls with equal keys differ only in what `GuardCheck` looks at (compiler/guards.py).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..autograd import hooks
from ..capture.references import layout_of
from ..core import dtypes
from ..core.autocast import autocast_key
from ..core.determinism import DETERMINISM
from ..core.modes import MODES
from ..core.nested_base import NestedBase
from ..core.pytree import TreeSpec, flatten
from ..core.tensor import Tensor

OVERLAP = "overlap"  # two arguments over one memory of NumPy's
_HOOKED = "hooks"
_FLAT = frozenset({Tensor, float, int, bool, type(None)})


class CallKey(NamedTuple):
    """What decides which specializations may serve a call."""

    structure: TreeSpec | int  # how the arguments are nested; a number: that many, without containers
    leaves: tuple[Any, ...]
    # (an argument, the first that shares memory with it, how far that is, the first that is the same tensor);
    # (OVERLAP, an argument, another one); (_HOOKED, an argument, its hooks)
    sharing: tuple[Any, ...]
    modes: tuple[Any, ...]

    def distance(self, other: CallKey) -> tuple[int, int, int]:
        """In how many parts two keys differ, in how many arguments, and in how many facts about these."""
        parts = sum(a != b for a, b in zip(self, other, strict=True))
        differ = [(a, b) for a, b in zip(self.leaves, other.leaves, strict=False) if a != b]
        facts = sum(
            x != y
            for a, b in differ
            if isinstance(a, tuple) and isinstance(b, tuple)
            for x, y in zip(a, b, strict=False)
        )
        return parts, len(differ), facts


def leaves_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], Any]:
    """The leaves of the arguments, and something that tells their structure."""
    if not kwargs and _FLAT.issuperset(map(type, args)):
        return list(args), len(args)
    return flatten((args, kwargs), records=True)


def key_of_call(leaves: list[Any], structure: TreeSpec | int) -> CallKey:
    described = tuple(
        [layout_of(leaf, anywhere=True) if isinstance(leaf, Tensor) else _constant(leaf) for leaf in leaves]
    )
    storages: dict[int, int] = {}
    objects: dict[int, int] = {}
    sharing: list[Any] = []
    owners: dict[int, int] = {}  # of memory, which may be NumPy's
    for i, leaf in enumerate(leaves):
        if isinstance(leaf, Tensor):
            first = storages.setdefault(id(leaf if leaf._storage is None else leaf._storage), i)
            array = leaf._array
            if array is not None and first == i:
                other = owners.setdefault(id(array if array.base is None else array.base), i)
                if other != i and np.may_share_memory(array, leaves[other]._array):
                    sharing.append((OVERLAP, other, i))
            if leaf._hooks is not None and hooks.hooks_of(leaf):
                sharing.append((_HOOKED, i, tuple(map(_Itself, hooks.hooks_of(leaf)))))
            itself = objects.setdefault(id(leaf), i)
            if first != i:
                sharing.append((i, first, leaf._offset - leaves[first]._offset, itself))
    return CallKey(structure, described, tuple(sharing), _modes())


def _modes() -> tuple[Any, ...]:
    return (MODES.grad, MODES.inference, dtypes.get_default_dtype(), autocast_key(), DETERMINISM.key)


def is_ragged(structure: Any) -> bool:
    """Whether there is a nested tensor among the arguments."""
    return isinstance(structure, TreeSpec) and (
        issubclass(structure.type or object, NestedBase) or any(map(is_ragged, structure.children))
    )


def sharing_in_words(old: tuple[Any, ...], new: tuple[Any, ...]) -> str:
    """In what two descriptions of shared memory and hooks differ."""
    return f"{_shared(old)} before, {_shared(new)} now"


def _shared(sharing: tuple[Any, ...]) -> str:
    parts = []
    for part in sharing:
        if part[0] == _HOOKED:
            parts.append(f"argument {part[1]} has hooks")
        elif part[0] == OVERLAP:
            parts.append(f"arguments {part[1]} and {part[2]} share memory through NumPy")
        elif part[3] != part[0]:
            parts.append(f"arguments {part[3]} and {part[0]} are one tensor")
        else:
            parts.append(f"arguments {part[1]} and {part[0]} share memory")
    return " and ".join(parts) or "none shares memory or has hooks"


class _Itself:
    """An object that is told from others by identity. It is kept, so that no other can take its place."""

    def __init__(self, of: Any) -> None:
        self.of = of

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Itself) and other.of is self.of

    def __hash__(self) -> int:
        return id(self.of)

    def __repr__(self) -> str:
        return repr(self.of)


def _constant(leaf: Any) -> Any:
    """A value that was specialised; kept apart from equal values of other types. Numbers are live."""
    kind = type(leaf)
    if kind is float or (kind is int and -(2**63) <= leaf < 2**63):
        return kind
    if isinstance(leaf, set):
        return kind, frozenset(leaf)
    try:
        hash(leaf)
    except TypeError:
        return kind, _Itself(leaf)
    return kind, repr(leaf) if isinstance(leaf, float | complex) else leaf
