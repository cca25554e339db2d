"""`rearrange`: dimensions named, permuted, split and joined by a pattern such as "b (h w) c -> b c h w"."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from ..core.dispatch import run_name
from ..core.errors import check
from ..core.tensor import Tensor

__all__ = ["rearrange"]

_WORD = re.compile(r"\s*(\.\.\.|\(|\)|[A-Za-z_]\w*|1|\S)")
Group = list[str]  # names of one dimension
_ALL: Group = ["... alone"]  # in place of a dimension: all that have no name


def rearrange(tensor: Tensor | Sequence[Tensor], pattern: str, **axes_lengths: int) -> Tensor:
    """`tensor` (tensors in a list are stacked) with its dimensions as the right side of `pattern` has them.

    A name is a dimension, a parenthesis several in one, `...` all others, `1` or `()` one of size 1. Sizes of
    parts that do not follow are given by name.

    >>> rl.func.rearrange(rl.arange(6), "(a b) -> b a", a=2)
    tensor([[0, 3],
            [1, 4],
            [2, 5]])
    """
    value: Any = tensor if isinstance(tensor, Tensor) else run_name("stack", tuple(tensor), 0)
    sides = pattern.split("->")
    check(
        len(sides) == 2,
        f"rearrange: a pattern has two sides with '->' between them, not {pattern!r}",
        ValueError,
    )
    left, right = (_parsed(side, pattern) for side in sides)
    left, right = _without_ellipsis(left, right, value.ndim, pattern)
    names, wanted = ([name for group in side for name in group if name != "1"] for side in (left, right))
    alone = set(names) ^ set(wanted)
    check(not alone, f"rearrange: {sorted(alone)} is on one side of {pattern!r} only", ValueError)
    unknown = set(axes_lengths) - set(names)
    check(not unknown, f"rearrange: there is no {sorted(unknown)} in {pattern!r}", ValueError)
    sizes = _sizes(left, tuple(value.shape), axes_lengths, pattern)
    parts = value.reshape([sizes[name] for name in names])
    moved = parts.permute([names.index(name) for name in wanted])
    return moved.reshape([math.prod(sizes[name] for name in group if name != "1") for group in right])


def _parsed(side: str, pattern: str) -> list[Group]:
    groups: list[Group] = []
    seen: set[str] = set()
    inside: Group | None = None
    for word in _WORD.findall(side.strip()):
        if word == "(" and inside is None:
            inside = []
        elif word == ")" and inside is not None:
            groups.append(inside)
            inside = None
        else:
            check(
                word in ("...", "1") or word.isidentifier(),
                f"rearrange: {word!r} has no meaning at its place in {pattern!r}",
                ValueError,
            )
            check(
                word == "1" or word not in seen,
                f"rearrange: {word!r} is there twice in {pattern!r}",
                ValueError,
            )
            seen.add(word)
            if inside is None:
                groups.append([word] if word != "..." else _ALL)
            else:
                inside.append(word)
    check(inside is None, f"rearrange: a parenthesis of {pattern!r} is not closed", ValueError)
    return groups


def _without_ellipsis(
    left: list[Group], right: list[Group], rank: int, pattern: str
) -> tuple[list[Group], list[Group]]:
    """Both sides with names of their own for the dimensions that `...` stands for."""
    has = _ALL in left
    count = rank - len(left) + 1 if has else 0
    check(
        count >= 0 if has else len(left) == rank,
        f"rearrange: {pattern!r} describes {len(left)} dimensions, but there are {rank}",
        ValueError,
    )
    check(
        not any("..." in group for group in left),
        f"rearrange: '...' on the left side of {pattern!r} is no part of a dimension",
        ValueError,
    )
    check(
        has == any(group == _ALL or "..." in group for group in right),
        f"rearrange: '...' is on one side of {pattern!r} only",
        ValueError,
    )
    filled = [f"...{i}" for i in range(count)]
    first = [part for group in left for part in ([[name] for name in filled] if group == _ALL else [group])]
    second: list[Group] = []
    for group in right:
        if group == _ALL:
            second.extend([name] for name in filled)
        else:
            second.append([n for name in group for n in (filled if name == "..." else [name])])
    return first, second


def _sizes(left: list[Group], shape: tuple[int, ...], given: dict[str, int], pattern: str) -> dict[str, int]:
    sizes = dict(given)
    for group, size in zip(left, shape, strict=True):
        names = [name for name in group if name != "1"]
        open_names = [name for name in names if name not in sizes]
        known = math.prod(sizes[name] for name in names if name in sizes)
        check(
            len(open_names) <= 1,
            f"rearrange: give all sizes but one of {open_names} in {pattern!r}",
            ValueError,
        )
        if open_names:
            check(
                known > 0 and size % known == 0,
                f"rearrange: a dimension of size {size} is not divided by {known} in {pattern!r}",
                ValueError,
            )
            sizes[open_names[0]] = size // known
        else:
            check(
                known == size,
                f"rearrange: ({' '.join(group)}) of {pattern!r} has size {known}, but the "
                f"dimension has {size}",
                ValueError,
            )
    return sizes
