"""Nested containers of values: lists, tuples, named tuples and dictionaries, flattened and rebuilt.

`flatten(tree)` gives the leaves in order and a `TreeSpec`, which rebuilds a tree of the same structure from
other leaves.
"""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class TreeSpec:
    """The structure of a tree: a container type with the specs of its children, or a leaf."""

    type: Any = None  # None for a leaf
    context: Any = None  # keys of a dictionary
    children: tuple[TreeSpec, ...] = ()

    def __post_init__(self) -> None:
        children: Any = self.children
        if type(children) is list:  # of a program that takes trees apart on its own
            object.__setattr__(self, "children", tuple(children))

    def is_leaf(self) -> bool:
        return self.type is None

    @property
    def num_leaves(self) -> int:
        return 1 if self.type is None else sum(child.num_leaves for child in self.children)

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        iterator = iter(leaves)
        tree = self._build(iterator)
        if next(iterator, _END) is not _END:
            raise ValueError(f"more leaves than the {self.num_leaves} of the structure {self}")
        return tree

    def _build(self, leaves: Any) -> Any:
        if self.type is None:
            return next(leaves)
        parts = [child._build(leaves) for child in self.children]
        if self.type in _RECORDS:
            return _RECORDS[self.type][1](self.context, parts)
        if _is_named(self.type):
            return self.type(*parts)
        if self.type in (dict, OrderedDict, defaultdict):
            pairs = zip(self.context[0], parts, strict=True)
            if self.type is defaultdict:
                return defaultdict(self.context[1], pairs)
            return self.type(pairs)
        if self.type in (list, tuple):
            return self.type(parts)
        keys, attributes = self.context
        return _record(self.type, keys, attributes, parts)

    def __repr__(self) -> str:
        if self.type is None:
            return "*"
        inside = ", ".join(repr(child) for child in self.children)
        if self.type in _RECORDS:
            inside += f", {self.context}"
        return f"{self.type.__name__}({inside})"


# kind -> (a value's context and parts, a value from both): further containers
_RECORDS: dict[Any, tuple[Callable[[Any], tuple[Any, list[Any]]], Callable[[Any, list[Any]], Any]]] = {}


def register_record(
    kind: type, taken_apart: Callable[[Any], tuple[Any, list[Any]]], built: Callable[[Any, list[Any]], Any]
) -> None:
    """Make `kind` a container: of a context, which is hashable and tells one structure from another, and
    parts."""
    _RECORDS[kind] = (taken_apart, built)


register_record(deque, lambda d: (d.maxlen, list(d)), lambda length, parts: deque(parts, length))

LEAF = TreeSpec()
_END = object()


def _is_named(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields")


def _record(kind: Any, keys: Sequence[Any], attributes: Sequence[str], parts: list[Any]) -> Any:
    """A data class, or a container of a class of its own, without running code of that class: what is in it
    comes first among the parts, then its attributes.
    """
    count = len(parts) - len(attributes)
    if issubclass(kind, tuple):
        made = tuple.__new__(kind, parts[:count])
    else:
        made = kind.__new__(kind)
    if issubclass(kind, dict):
        put = OrderedDict.__setitem__ if issubclass(kind, OrderedDict) else dict.__setitem__
        for key, value in zip(keys, parts, strict=False):
            put(made, key, value)
    elif issubclass(kind, list):
        list.extend(made, parts[:count])
    for name, value in zip(attributes, parts[count:], strict=True):
        object.__setattr__(made, name, value)
    return made


def _attributes(thing: Any) -> dict[str, Any]:
    """What an object of a class of its own holds besides what it contains, in slots or not."""
    slots = [
        name
        for kind in type(thing).__mro__
        for name in _names(vars(kind).get("__slots__", ()))
        if name not in ("__dict__", "__weakref__") and hasattr(thing, name)
    ]
    return {**{name: getattr(thing, name) for name in slots}, **getattr(thing, "__dict__", {})}


def _names(slots: Any) -> Iterable[str]:
    return (slots,) if isinstance(slots, str) else slots


def _children(tree: Any, records: bool = False) -> tuple[Any, Any, list[Any]] | None:
    kind = type(tree)
    if kind in _RECORDS:
        return (kind, *_RECORDS[kind][0](tree))
    if kind in (list, tuple) or _is_named(kind):
        return kind, None, list(tree)
    if records and kind not in (dict, OrderedDict, defaultdict):
        if isinstance(tree, dict):
            extra = _attributes(tree)
            if isinstance(tree, defaultdict):
                extra["default_factory"] = tree.default_factory
            keys = tuple((OrderedDict if isinstance(tree, OrderedDict) else dict).keys(tree))
            items = [dict.__getitem__(tree, key) for key in keys]
            return kind, (keys, tuple(extra)), [*items, *extra.values()]
        if isinstance(tree, list | tuple):
            extra = _attributes(tree)
            items = list(list.__iter__(tree) if isinstance(tree, list) else tuple.__iter__(tree))
            return kind, ((), tuple(extra)), [*items, *extra.values()]
        if dataclasses.is_dataclass(kind):
            extra = {f.name: getattr(tree, f.name) for f in dataclasses.fields(kind) if hasattr(tree, f.name)}
            extra |= _attributes(tree)
            return kind, ((), tuple(extra)), list(extra.values())
    if kind in (dict, OrderedDict, defaultdict):
        factory = tree.default_factory if kind is defaultdict else None
        return kind, (tuple(tree), factory), list(tree.values())
    return None


def is_container(kind: Any) -> bool:
    """Whether values of a class are taken apart."""
    return kind in (list, tuple, dict, OrderedDict, defaultdict) or kind in _RECORDS or _is_named(kind)


def containers() -> tuple[Any, ...]:
    return (list, tuple, dict, OrderedDict, defaultdict, *_RECORDS)


def taken_apart(tree: Any) -> tuple[list[Any], Any]:
    """The parts of a container, and what a TreeSpec has to know besides."""
    found = _children(tree)
    if found is None:
        raise ValueError(f"a {type(tree).__name__} is a leaf")
    return found[2], found[1]


def flatten(
    tree: Any, is_leaf: Callable[[Any], bool] | None = None, *, records: bool = False
) -> tuple[list[Any], TreeSpec]:
    """The leaves of `tree` from left to right, and its structure.

    With `records`, data classes and classes derived from dict are containers too.
    """
    leaves: list[Any] = []
    return leaves, _flatten(tree, leaves, is_leaf, records)


def _flatten(tree: Any, leaves: list[Any], is_leaf: Callable[[Any], bool] | None, records: bool) -> TreeSpec:
    found = None if is_leaf is not None and is_leaf(tree) else _children(tree, records)
    if found is None:
        leaves.append(tree)
        return LEAF
    kind, context, parts = found
    return TreeSpec(kind, context, tuple([_flatten(part, leaves, is_leaf, records) for part in parts]))


def unflatten(leaves: Iterable[Any], spec: TreeSpec) -> Any:
    return spec.unflatten(leaves)


def tree_map(function: Callable[..., Any], tree: Any, *rest: Any) -> Any:
    """`function` applied to each leaf (and to those at the same places of `rest`)."""
    leaves, spec = flatten(tree)
    others = [flatten(other)[0] for other in rest]
    return spec.unflatten([function(*group) for group in zip(leaves, *others, strict=True)])


def broadcast_prefix(
    prefix: Any, spec: TreeSpec, is_leaf: Callable[[Any], bool] | None = None
) -> list[Any] | None:
    """`prefix`, whose leaves may stand for whole subtrees of `spec`, as one value per leaf; None where it
    does not fit."""
    found = None if is_leaf is not None and is_leaf(prefix) else _children(prefix)
    if found is None:
        return [prefix] * spec.num_leaves
    kind, context, parts = found
    if spec.type is not kind or spec.context != context or len(parts) != len(spec.children):
        return None
    result: list[Any] = []
    for part, child in zip(parts, spec.children, strict=True):
        values = broadcast_prefix(part, child, is_leaf)
        if values is None:
            return None
        result.extend(values)
    return result
