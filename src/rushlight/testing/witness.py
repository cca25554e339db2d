"""Samples of operators: calls with small arguments, whose derivatives are checked against finite differences.

A sample is a text, `x(2, 3), dim=1`, in which letters make tensors of a range of values: those of
inventory_samples.py, or one that follows from the schema.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import rushlight
from rushlight.autograd import gradcheck, gradgradcheck
from rushlight.core import dispatch
from rushlight.core.lazy import LazyModule
from rushlight.core.mutation import call_inplace
from rushlight.core.nested_base import NestedBase
from rushlight.core.registry import OpDef
from rushlight.core.resolve import bind
from rushlight.core.schema import REQUIRED, Argument

from .inventory_samples import COMPLEX, DOMAINS, SAMPLES

special = LazyModule("scipy.special")

OK, CONSTANT = "ok", "constant"
_LARGE = 20  # more elements than this, and one direction stands for the whole Jacobian


class Witness:
    """A sample of an operator, as a function of its leaves."""

    def __init__(self, op: OpDef, inplace: bool, text: str, seed: int = 7) -> None:
        self.op, self.inplace, self.text = op, inplace, text
        values = bind(op, *evaluate(text, seed))
        if isinstance(values, str):
            raise TypeError(f"{op.name}({text}): {values}")
        self.values = values
        names = op.schema.argument_names
        self.leaves = [leaf for value in values for leaf in _leaves(value)]
        self.differentiated = {n for n, value in zip(names, values, strict=True) if list(_leaves(value))}

    @property
    def tensors(self) -> list[Any]:
        """All tensor arguments."""
        return [tensor for value in self.values for tensor in _tensors(value)]

    def __call__(self, *leaves: Any) -> Any:
        fresh = {id(old): new for old, new in zip(self.leaves, leaves, strict=True)}
        return self._run([_replaced(value, fresh) for value in self.values])

    def with_tensors(self, fresh: dict[int, Any]) -> Any:
        """The call with other tensors in place of the tensor arguments, given by the id of these."""

        def replaced(tree: Any) -> Any:
            if isinstance(tree, tuple | list):
                return type(tree)(replaced(item) for item in tree)
            return fresh[id(tree)] if isinstance(tree, rushlight.Tensor) else tree

        return self._run([replaced(value) for value in self.values])

    def _run(self, values: list[Any]) -> Any:
        if self.op.random or self.op.family == "random":
            rushlight.manual_seed(0)
        if not self.inplace:
            for i in self.op.schema.mutable_arguments:  # running statistics stay as they are
                one = values[i]
                values[i] = (
                    tuple(t.clone() for t in one)
                    if isinstance(one, tuple | list)
                    else None
                    if one is None
                    else one.clone()
                )
            result = dispatch.call(self.op, tuple(values))
            if isinstance(result, NestedBase):
                return result.values()  # that is what autograd and finite differences look at
            free = self.op.name in PHASES and any(part.is_complex() for part in result)
            return PHASES[self.op.name](*result) if free else result
        lists = self.op.list_positions
        first = 0 if lists[:1] == (0,) else self.op.tensor_positions[0]
        values[first] = [t.clone() for t in values[first]] if first in lists else values[first].clone()
        return call_inplace(self.op, tuple(values))

    def constant(self) -> bool:
        result = self(*self.leaves)
        return not any(o.requires_grad for o in _tensors(result))

    def reverse(self, wanted: bool) -> str:
        if self.constant():
            if wanted:
                raise AssertionError("no output requires a gradient")
            return CONSTANT
        large = sum(leaf.numel() for leaf in self.leaves) > _LARGE
        gradcheck(self, tuple(self.leaves), fast_mode=large, masked=True)
        return OK

    def forward(self) -> str:
        return self._unless_constant(gradcheck, check_forward_ad=True, check_backward_ad=False)

    def second(self) -> str:
        return self._unless_constant(gradgradcheck)

    def mixed(self) -> str:
        return self._unless_constant(gradgradcheck, check_fwd_over_rev=True, check_rev_over_rev=False)

    def _unless_constant(self, check: Callable[..., Any], **options: bool) -> str:
        if self.constant():
            return CONSTANT
        check(self, tuple(self.leaves), fast_mode=True, masked=True, **options)
        return OK


def _tensors(tree: Any) -> Iterator[Any]:
    if isinstance(tree, rushlight.Tensor):
        yield tree
    elif isinstance(tree, tuple | list):
        for item in tree:
            yield from _tensors(item)


def _leaves(tree: Any) -> Iterator[Any]:
    """The tensors that are differentiated; of one that was made of a leaf (`of`), that leaf."""
    for tensor in _tensors(tree):
        if tensor.requires_grad:
            yield tensor._follows[0] if hasattr(tensor, "_follows") else tensor


def _replaced(tree: Any, fresh: dict[int, Any]) -> Any:
    if isinstance(tree, rushlight.Tensor):
        source, function = getattr(tree, "_follows", (None, None))
        if source is not None and function is not None:
            return function(fresh.get(id(source), source))
        return fresh.get(id(tree), tree)
    if isinstance(tree, tuple | list):
        return type(tree)(_replaced(item, fresh) for item in tree)
    return tree


# What is defined of complex eigenvectors and singular vectors: their phase is the library's choice, not a
# function of the matrix, and drops out of the products of each vector with its own conjugate or partner.
PHASES: dict[str, Callable[..., Any]] = {
    "_linalg_eigh": lambda values, v: (values, v.mT.unsqueeze(-1) * v.mH.unsqueeze(-2)),
    "linalg_eig": lambda values, v: (values, v.mT.unsqueeze(-1) * v.mH.unsqueeze(-2)),
    "_linalg_svd": lambda u, s, vh: (s, u.mT.unsqueeze(-1) * vh.unsqueeze(-2)),
}


# Draws.


def _fixed_draw(parameter: Any, out: Any) -> np.ndarray:
    return np.random.default_rng(5).standard_normal(out.shape)


def _gamma_of_fixed_rank(parameter: Any, out: Any) -> np.ndarray:
    ranks = np.linspace(0.15, 0.85, parameter.size).reshape(parameter.shape)
    found: np.ndarray = special.gammaincinv(parameter, ranks)
    return found


# What a draw stands for as a function of its first argument: by this its derivative is defined, not by how a
# generator's numbers become a draw. A normal draw is a constant, as PyTorch says; a gamma draw keeps its rank
# in the distribution.
DRAWS: dict[str, Callable[[Any, Any], np.ndarray]] = {
    "normal.Tensor_float": _fixed_draw,
    "normal.float_Tensor": _fixed_draw,
    "normal.Tensor_Tensor": _fixed_draw,
    "_standard_gamma": _gamma_of_fixed_rank,
}


@contextlib.contextmanager
def standing_in(op: OpDef) -> Iterator[None]:
    """The function that a draw stands for, in place of its kernel."""
    if op.name not in DRAWS:
        yield
        return
    draw, saved = DRAWS[op.name], (op.kernel, op.kernel_reads)
    op.kernel, op.kernel_reads = lambda values: draw(values[0], values[-1]), frozenset((0,))
    try:
        yield
    finally:
        op.kernel, op.kernel_reads = saved


# Samples.

_RANGES = {"x": (-0.9, 0.9), "p": (0.3, 1.9), "u": (0.1, 0.9), "a": (1.2, 2.8), "k": (-0.9, 0.9)}


def _follower(source: Any, function: Callable[[Any], Any]) -> Any:
    """A value that is computed anew from `source` in every call; gradients lead back to `source`."""
    value = function(source)
    value._follows = source, function
    return value


def sparse_tensor(kind: str, values: np.ndarray) -> Any:
    """A sparse matrix that lacks every third of `values`."""
    values = np.where(np.arange(values.size).reshape(values.shape) % 3 != 1, values, 0.0)
    if kind == "hybrid":
        return rushlight.from_numpy(np.stack([values, 2 * values + 0.1], axis=-1)).to_sparse(2)
    dense = rushlight.from_numpy(values)
    if kind == "uncoalesced":
        found = dense.to_sparse()
        return rushlight.sparse_coo_tensor(
            rushlight.cat([found.indices(), found.indices().flip(1)], 1),
            rushlight.cat([found.values(), 0.3 - found.values()]),
            found.shape,
        )
    return dense.to_sparse(
        layout=getattr(rushlight, f"sparse_{kind}"), blocksize=(1, 2) if kind in ("bsr", "bsc") else None
    )


def evaluate(text: str, seed: int = 7) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments that a sample's text stands for; the same ones each time, others for another seed."""
    random = np.random.default_rng(seed)

    def spread(low: float, high: float, shape: tuple[int, ...]) -> np.ndarray:
        """Values in random order that keep a distance from each other: no ties, no kink within a step."""
        count = int(np.prod(shape))
        places = (random.permutation(count) + random.uniform(0.2, 0.8, count)) / count
        return (low + (high - low) * places).reshape(shape)

    def real(letter: str) -> Callable[..., Any]:
        low, high = _RANGES[letter]
        return lambda *shape: rushlight.from_numpy(spread(low, high, shape)).requires_grad_(letter != "k")

    def complex_(*shape: int) -> Any:
        values = spread(-0.9, 0.9, shape) + 1j * spread(0.2, 0.8, shape)
        return rushlight.from_numpy(values).requires_grad_()

    def matrix(of: Callable[[Any], Any], default: str) -> Callable[..., Any]:
        """Square matrices of a kind, each a function of a leaf of the same size."""
        return lambda size, leaf=None: _follower((leaf or scope[default])(size, size), of)

    scope: dict[str, Any] = {letter: real(letter) for letter in _RANGES}
    scope |= {
        "c": complex_,
        "spd": matrix(lambda v: v @ v.mH + rushlight.eye(v.shape[0], dtype=v.dtype), "x"),
        "hermitian": matrix(lambda v: v + v.mH, "x"),
        "lower": matrix(lambda v: v.tril() + rushlight.eye(v.shape[0], dtype=v.dtype), "x"),
        "n": lambda *shape: rushlight.from_numpy((np.arange(int(np.prod(shape))) % 4 + 1.0).reshape(shape)),
        "m": lambda *shape: rushlight.from_numpy((np.arange(int(np.prod(shape))) % 3 != 1).reshape(shape)),
        "z": lambda *shape: rushlight.from_numpy((np.arange(int(np.prod(shape))) % 4 + 1).reshape(shape)),
        "i": lambda values: rushlight.from_numpy(np.array(values, np.int64)),
        "i8": lambda *shape: rushlight.from_numpy(np.asarray(random.integers(-5, 5, shape), np.int8)),
        "i32": lambda values: rushlight.from_numpy(np.array(values, np.int32)),
        "s": lambda kind, *shape: sparse_tensor(kind, spread(-0.9, 0.9, shape)).requires_grad_(),
        "sk": lambda kind, *shape: sparse_tensor(kind, spread(-0.9, 0.9, shape)),
        "layout": lambda name: getattr(rushlight, name),
        "of": _follower,
        "nested": lambda leaf, *ends: _follower(
            leaf,
            lambda values: rushlight.nested.nested_tensor_from_jagged(values, rushlight.tensor([0, *ends])),
        ),
        "by": lambda source, function: _follower(source, lambda value: function(value).detach()),
        "float64": rushlight.float64,
        "int64": rushlight.int64,
        "int8": rushlight.int8,
        "float": float,
        "arguments": lambda *args, **kwargs: (args, kwargs),
    }
    return eval(f"arguments({text})", {"__builtins__": {}}, scope)  # the texts are this package's own


def texts_of(name: str, op: OpDef, wanted: set[str]) -> Iterator[str]:
    texts = SAMPLES.get(name) or [_generated(name, op, wanted)]
    yield from texts
    if name in COMPLEX:
        yield re.sub(r"\b[xpua]\(", "c(", texts[0])


def _generated(name: str, op: OpDef, wanted: set[str]) -> str:
    """Arguments by their type: those that have no default, and those that want a gradient."""
    letters = DOMAINS.get(name, "x")
    tensors = 0
    parts: list[str] = []
    entry = op.derivative
    for position, argument in enumerate(op.schema.arguments):
        if argument.default is not REQUIRED and argument.name not in wanted:
            continue
        if argument.type.base == "Tensor":
            letter = letters[min(tensors, len(letters) - 1)]
            tensors += 1
            if entry is not None and entry.targets and position not in entry.targets and letter != "n":
                letter = "k"
            text = f"{letter}(2, 3)"
            text = f"[{text}, {text}]" if argument.type.is_list else text
        else:
            text = _plain(argument)
        keyword = argument.keyword_only or len(parts) != position
        parts.append(f"{argument.name}={text}" if keyword else text)
    return ", ".join(parts)


def _plain(argument: Argument) -> str:
    kind = argument.type
    if kind.base == "int":
        return "(1,)" if kind.is_list else "1"
    return {"Scalar": "1.3", "float": "0.5", "bool": "False"}.get(kind.base, "None")
