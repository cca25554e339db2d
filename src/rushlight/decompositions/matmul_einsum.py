"""einsum: a sum of products by its subscripts, as a sequence of pairwise contractions.

An operand is a tensor with one label per dimension. Labels 0..51 are A-Z, a-z; the dimensions under an
ellipsis get the labels from 52 on, aligned to the right, so that from there on they are labels like all
others.
"""

from __future__ import annotations

import functools
import math
import string
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from ..core.errors import check
from ..core.registry import INTERNAL, composite
from ..core.tensor import Tensor

LETTERS = string.ascii_uppercase + string.ascii_lowercase
_FIRST_ELLIPSIS = len(LETTERS)


@dataclass(frozen=True)
class Operand:
    tensor: Tensor
    labels: tuple[int, ...]

    def size(self, label: int) -> int:
        return self.tensor.shape[self.labels.index(label)]


@composite("einsum(str equation, Tensor[] tensors, *, int[]? path=None) -> Tensor", api=INTERNAL)
def einsum(equation: str, tensors: Sequence[Tensor], path: Sequence[int] | None) -> Tensor:
    check(len(tensors) > 0, "einsum: at least one operand is needed")
    inputs, output = parse(equation, tuple(t.ndim for t in tensors))
    operands = [without_repeats(i, tensor, inputs[i]) for i, tensor in enumerate(tensors)]
    check_sizes(operands)
    steps = path_pairs(path, len(operands))
    while len(operands) > 1:
        i, j = next(steps) if steps is not None else cheapest_pair(operands, output)
        left, right = operands[i], operands[j]
        operands = [o for k, o in enumerate(operands) if k not in (i, j)]
        operands.append(contracted(left, right, {*output, *(label for o in operands for label in o.labels)}))
    return arranged(operands[0], output)


# The equation.


@functools.lru_cache(maxsize=256)
def parse(equation: str, ranks: tuple[int, ...]) -> tuple[list[tuple[int, ...]], tuple[int, ...]]:
    """The labels of every operand and of the output."""
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    check(len(terms) >= len(ranks), "einsum: more operands were provided than specified in the equation")
    check(len(terms) <= len(ranks), "einsum: fewer operands were provided than specified in the equation")
    inputs = [operand_labels(i, term, rank) for i, (term, rank) in enumerate(zip(terms, ranks, strict=True))]
    every = [label for labels in inputs for label in labels]
    ellipsis = sorted({label for label in every if label >= _FIRST_ELLIPSIS}, reverse=True)
    if arrow:
        return inputs, output_labels(right, ellipsis, set(every))
    once = [label for label in set(every) if label < _FIRST_ELLIPSIS and every.count(label) == 1]
    return inputs, (*ellipsis, *sorted(once))


def subscripts(term: str, where: str) -> list[int]:
    """The labels of a term; -1 stands for the ellipsis."""
    labels: list[int] = []
    text = term.replace(" ", "")
    while text:
        if text[0] == ".":
            check(
                text.startswith("..."),
                f"einsum: found '.' for {where} that is not part of any ellipsis in '{term}'",
            )
            check(
                -1 not in labels,
                f"einsum: found '.' for {where} for which an ellipsis was already found in '{term}'",
            )
            labels.append(-1)
            text = text[3:]
            continue
        check(
            text[0] in LETTERS,
            f"einsum: invalid subscript '{text[0]}' in '{term}' for {where}; subscripts must be in [a-zA-Z]",
        )
        labels.append(LETTERS.index(text[0]))
        text = text[1:]
    return labels


def operand_labels(index: int, term: str, rank: int) -> tuple[int, ...]:
    labels = subscripts(term, f"operand {index}")
    named = len(labels) - (-1 in labels)
    check(
        named == rank or (named < rank and -1 in labels),
        "einsum: the number of subscripts in the "
        f"equation ({named}) does not match the number of dimensions ({rank}) for operand {index}"
        + ("" if -1 in labels else " and no ellipsis was given"),
    )
    covered = tuple(_FIRST_ELLIPSIS + i for i in reversed(range(rank - named)))
    return tuple(label for item in labels for label in (covered if item == -1 else (item,)))


def output_labels(term: str, ellipsis: Sequence[int], known: set[int]) -> tuple[int, ...]:
    result: list[int] = []
    for label in subscripts(term, "the output"):
        if label == -1:
            result.extend(ellipsis)
            continue
        check(
            label not in result,
            f"einsum: output subscript {LETTERS[label]} appears more than once in the output",
        )
        check(
            label in known,
            f"einsum: output subscript {LETTERS[label]} does not appear in the equation "
            "for any input operand",
        )
        result.append(label)
    return tuple(result)


# The operands.


def without_repeats(index: int, tensor: Tensor, labels: tuple[int, ...]) -> Operand:
    """A label that occurs twice in one operand takes the diagonal of those dimensions."""
    names = list(labels)
    for label in dict.fromkeys(labels):
        while names.count(label) > 1:
            first = names.index(label)
            second = names.index(label, first + 1)
            check(
                tensor.shape[first] == tensor.shape[second],
                f"einsum: subscript {LETTERS[label]} is "
                f"repeated for operand {index} but the sizes don't match, {tensor.shape[second]} != "
                f"{tensor.shape[first]}",
            )
            tensor = tensor.diagonal(0, first, second).movedim(-1, first)
            del names[second]
    return Operand(tensor, tuple(names))


def check_sizes(operands: Sequence[Operand]) -> None:
    sizes: dict[int, int] = {}
    for index, operand in enumerate(operands):
        for label, size in zip(operand.labels, operand.tensor.shape, strict=True):
            seen = sizes.get(label, 1)
            name = LETTERS[label] if label < _FIRST_ELLIPSIS else "..."
            check(
                size == seen or 1 in (size, seen),
                f"einsum: subscript {name} has size {size} for operand "
                f"{index} which does not broadcast with previously seen size {seen}",
            )
            sizes[label] = size if seen == 1 else seen


def path_pairs(path: Sequence[int] | None, count: int) -> Iterator[tuple[int, int]] | None:
    """The pairs of a contraction path given flat: i0, j0, i1, j1, ...; None where there is none."""
    if path is None:
        return None
    check(
        len(path) == 2 * (count - 1) or (count == 1 and len(path) == 1),
        "einsum: expected contraction "
        f"path given in path parameter to be of length {2 * (count - 1)}, got {len(path)}",
    )
    for step in range(count - 1):
        pair = path[2 * step : 2 * step + 2]
        check(
            all(0 <= i < count - step for i in pair) and pair[0] != pair[1],
            "einsum: the contraction path "
            f"names {pair} at step {step}, when there are {count - step} operands",
        )
    return iter(zip(path[::2], path[1::2], strict=False))


def cheapest_pair(operands: Sequence[Operand], output: Sequence[int]) -> tuple[int, int]:
    """The pair whose contraction grows memory least, the first of equals."""
    if len(operands) == 2:
        return 0, 1

    def growth(pair: tuple[int, int]) -> int:
        left, right = (operands[i] for i in pair)
        rest = [o for k, o in enumerate(operands) if k not in pair]
        keep = {*output, *(label for o in rest for label in o.labels)}
        sizes = dict(zip(left.labels, left.tensor.shape, strict=True))
        for label, size in zip(right.labels, right.tensor.shape, strict=True):
            sizes[label] = max(size, sizes.get(label, 1))
        result = math.prod(size for label, size in sizes.items() if label in keep)
        return result - left.tensor.numel() - right.tensor.numel()

    return min(combinations(range(len(operands)), 2), key=growth)


# Contraction.


def contracted(left: Operand, right: Operand, keep: set[int]) -> Operand:
    """The product of two operands, summed over the labels that nobody needs any more."""
    left, right = without_broadcast(left, right), without_broadcast(right, left)
    shared = [label for label in left.labels if label in right.labels]
    batch = [label for label in shared if label in keep]
    inside = [label for label in shared if label not in keep]
    done = {*left.labels, *right.labels} - keep - set(shared)
    left, right = (
        summed(operand, [label for label in operand.labels if label in done], bool(inside))
        for operand in (left, right)
    )
    rows = [label for label in left.labels if label not in shared]
    columns = [label for label in right.labels if label not in shared]
    labels = (*batch, *rows, *columns)
    if not inside:
        return Operand(spread(left, labels) * spread(right, labels), labels)
    sizes = [left.size(label) for label in (*batch, *rows)] + [right.size(label) for label in columns]
    stacked = grouped(left, batch, rows, inside), grouped(right, batch, inside, columns)
    result = stacked[0].bmm(stacked[1]) if batch else stacked[0].squeeze(0).mm(stacked[1].squeeze(0))
    return Operand(result.view(sizes), labels)


def without_broadcast(operand: Operand, other: Operand) -> Operand:
    """`operand` without the dimensions of size 1 that broadcast against a larger one of `other`."""
    dims = [
        dim
        for dim, label in enumerate(operand.labels)
        if operand.tensor.shape[dim] == 1 and label in other.labels and other.size(label) != 1
    ]
    if not dims:
        return operand
    labels = tuple(label for dim, label in enumerate(operand.labels) if dim not in dims)
    return Operand(operand.tensor.squeeze(dims), labels)


def summed(operand: Operand, labels: Sequence[int], same_dtype: bool = False) -> Operand:
    """`operand` without `labels`; integers become int64, as in any sum, unless a matrix product follows."""
    if not labels:
        return operand
    dims = [operand.labels.index(label) for label in labels]
    total = operand.tensor.sum(dims, dtype=operand.tensor.dtype if same_dtype else None)
    return Operand(total, tuple(label for label in operand.labels if label not in labels))


def grouped(operand: Operand, *groups: Sequence[int]) -> Tensor:
    """The tensor with one dimension per group of labels."""
    order = [operand.labels.index(label) for group in groups for label in group]
    sizes = [math.prod(operand.size(label) for label in group) for group in groups]
    return operand.tensor.permute(order).reshape(sizes)


def spread(operand: Operand, labels: Sequence[int]) -> Tensor:
    """The tensor with its dimensions in the order of `labels`, of size 1 where it has no such label."""
    own = [label for label in labels if label in operand.labels]
    moved = operand.tensor.permute([operand.labels.index(label) for label in own])
    return moved.reshape([operand.size(label) if label in operand.labels else 1 for label in labels])


def arranged(operand: Operand, output: Sequence[int]) -> Tensor:
    """The last operand, summed and permuted to the labels of the output."""
    operand = summed(operand, [label for label in operand.labels if label not in output])
    return operand.tensor.permute([operand.labels.index(label) for label in output])
