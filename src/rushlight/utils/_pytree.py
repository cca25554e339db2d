"""Nested containers of values, flattened, mapped and rebuilt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.pytree import TreeSpec, flatten, unflatten

__all__ = [
    "TreeSpec",
    "arg_tree_leaves",
    "tree_all",
    "tree_any",
    "tree_flatten",
    "tree_iter",
    "tree_leaves",
    "tree_map",
    "tree_map_",
    "tree_map_only",
    "tree_structure",
    "tree_unflatten",
]

IsLeaf = Callable[[Any], bool] | None


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
