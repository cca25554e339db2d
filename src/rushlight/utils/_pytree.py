"""Nested containers of values, flattened, mapped and rebuilt."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from ..core.pytree import (
    LEAF,
    TreeSpec,
    containers,
    flatten,
    is_container,
    register_record,
    taken_apart,
    unflatten,
)

__all__ = [
    "Context",
    "GetAttrKey",
    "MappingKey",
    "PyTree",
    "SequenceKey",
    "TreeSpec",
    "arg_tree_leaves",
    "keystr",
    "register_pytree_node",
    "tree_all",
    "tree_any",
    "tree_flatten",
    "tree_flatten_with_path",
    "tree_iter",
    "tree_leaves",
    "tree_map",
    "tree_map_",
    "tree_map_only",
    "tree_map_with_path",
    "tree_structure",
    "tree_unflatten",
]

PyTree = Any
Context = Any
IsLeaf = Callable[[Any], bool] | None


class NodeDef(NamedTuple):
    """How values of a class are taken apart, and rebuilt."""

    type: Any
    flatten_fn: Callable[[Any], tuple[list[Any], Any]]
    unflatten_fn: Callable[[Iterable[Any], Any], Any]


class _Nodes(Mapping[Any, NodeDef]):
    """The classes that are containers; of named tuples every class is one of its own."""

    def __getitem__(self, kind: Any) -> NodeDef:
        if not is_container(kind):
            raise KeyError(kind)
        return NodeDef(kind, taken_apart, lambda parts, context: _rebuilt(kind, context, list(parts)))

    def __iter__(self) -> Iterator[Any]:
        return iter(containers())

    def __len__(self) -> int:
        return len(containers())


SUPPORTED_NODES = _Nodes()


def _rebuilt(kind: Any, context: Any, parts: list[Any]) -> Any:
    return TreeSpec(kind, context, (LEAF,) * len(parts)).unflatten(parts)


def _get_node_type(tree: Any) -> Any:
    return type(tree)


def LeafSpec() -> TreeSpec:
    """The structure of a value that is no container."""
    return LEAF


def tree_flatten(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], TreeSpec]:
    """The leaves from left to right, and the structure."""
    return flatten(tree, is_leaf)


def tree_unflatten(leaves: Any, treespec: TreeSpec) -> Any:
    return unflatten(leaves, treespec)


def tree_leaves(tree: Any, is_leaf: IsLeaf = None) -> list[Any]:
    return flatten(tree, is_leaf)[0]


def arg_tree_leaves(*args: Any, **kwargs: Any) -> list[Any]:
    """The leaves of all arguments of a call."""
    return flatten((args, kwargs))[0]


def tree_iter(tree: Any, is_leaf: IsLeaf = None) -> Any:
    return iter(tree_leaves(tree, is_leaf))


def tree_structure(tree: Any, is_leaf: IsLeaf = None) -> TreeSpec:
    return flatten(tree, is_leaf)[1]


def tree_map(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: IsLeaf = None) -> Any:
    """`func` applied to each leaf, and to what stands at the same places of `rests`."""
    leaves, spec = flatten(tree, is_leaf)
    others = [flatten(rest, is_leaf)[0] for rest in rests]
    return spec.unflatten([func(*group) for group in zip(leaves, *others, strict=True)])


def tree_map_(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: IsLeaf = None) -> Any:
    """`tree` itself, after `func` was called with each leaf."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def tree_map_only(
    type_or_types_or_pred: Any, func: Callable[[Any], Any], tree: Any, is_leaf: IsLeaf = None
) -> Any:
    """`func` applied to the leaves of a type (or for which a predicate holds); the others stay."""
    wanted = type_or_types_or_pred
    if isinstance(wanted, type) or not callable(wanted):
        return tree_map(lambda leaf: func(leaf) if isinstance(leaf, wanted) else leaf, tree, is_leaf=is_leaf)
    return tree_map(lambda leaf: func(leaf) if wanted(leaf) else leaf, tree, is_leaf=is_leaf)


def tree_all(pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None) -> bool:
    return all(map(pred, tree_leaves(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None) -> bool:
    return any(map(pred, tree_leaves(tree, is_leaf)))


# Containers of one's own.


class _Context:
    """What a container says of itself besides its parts; equal contexts have equal hashes, whatever is in
    them."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Context) and bool(self.value == other.value)

    def __hash__(self) -> int:
        return hash(_frozen(self.value))

    def __repr__(self) -> str:
        return repr(self.value)


def _frozen(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(map(_frozen, value))
    if isinstance(value, dict):
        return tuple((key, _frozen(part)) for key, part in value.items())
    return value


def register_pytree_node(
    cls: type,
    flatten_fn: Callable[[Any], tuple[list[Any], Any]],
    unflatten_fn: Callable[[Iterable[Any], Any], Any],
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: Callable[[Any], Any] | None = None,
    from_dumpable_context: Callable[[Any], Any] | None = None,
    flatten_with_keys_fn: Callable[[Any], Any] | None = None,
) -> None:
    """Make objects of a class containers: `flatten_fn` gives their parts and a context, `unflatten_fn`
    builds one of both."""

    def taken_apart(value: Any) -> tuple[_Context, list[Any]]:
        parts, context = flatten_fn(value)
        return _Context(context), list(parts)

    register_record(cls, taken_apart, lambda context, parts: unflatten_fn(parts, context.value))


_register_pytree_node = register_pytree_node


def _dict_flatten(d: dict[Any, Any]) -> tuple[list[Any], list[Any]]:
    return list(d.values()), list(d)


def _dict_unflatten(values: Iterable[Any], context: list[Any]) -> dict[Any, Any]:
    return dict(zip(context, values, strict=True))


def _dict_flatten_with_keys(d: dict[Any, Any]) -> tuple[list[tuple[MappingKey, Any]], list[Any]]:
    values, context = _dict_flatten(d)
    return [(MappingKey(key), value) for key, value in zip(context, values, strict=True)], context


# Where leaves are.


class SequenceKey(NamedTuple):
    """A place in a list or tuple."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"


class MappingKey(NamedTuple):
    """A key of a dictionary."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"


class GetAttrKey(NamedTuple):
    """An attribute."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"


def keystr(kp: tuple[Any, ...]) -> str:
    """A path as it would be written behind the tree."""
    return "".join(map(str, kp))


def _paths(spec: TreeSpec) -> list[tuple[Any, ...]]:
    """The paths of the leaves."""
    if spec.type is None:
        return [()]
    keys: list[Any]
    if spec.type in (dict, OrderedDict, defaultdict):
        keys = [MappingKey(key) for key in spec.context[0]]
    elif hasattr(spec.type, "_fields"):
        keys = [GetAttrKey(name) for name in spec.type._fields]
    else:
        keys = [SequenceKey(i) for i in range(len(spec.children))]
    return [(key, *path) for key, child in zip(keys, spec.children, strict=True) for path in _paths(child)]


def tree_flatten_with_path(
    tree: Any, is_leaf: IsLeaf = None
) -> tuple[list[tuple[tuple[Any, ...], Any]], TreeSpec]:
    """The leaves, each with its path, and the structure."""
    leaves, spec = flatten(tree, is_leaf)
    return list(zip(_paths(spec), leaves, strict=True)), spec


def tree_map_with_path(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: IsLeaf = None) -> Any:
    """`func(path, leaf, ...)` for each leaf, and what stands at the same places of `rests`."""
    pairs, spec = tree_flatten_with_path(tree, is_leaf)
    others = [flatten(rest, is_leaf)[0] for rest in rests]
    rows = zip(pairs, *others, strict=True)
    return spec.unflatten([func(path, leaf, *more) for (path, leaf), *more in rows])
