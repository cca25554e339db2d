"""What a kernel needs besides its code, as plain data: the cache on disk keeps it, and nothing is captured again.

In: the captured call of an operator. Out: a `KernelRecord`, which says where the inputs of the program come from,
what its outputs are, and which expressions of sizes and numbers it needs or relies on.
"""

from __future__ import annotations

import copy
import functools
import json
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..capture.live_inputs import LiveInputs, all_hold, computing, roots_in
from ..core.dtypes import get_default_dtype
from ..core.index_data import evaluate_data, to_data
from ..core.pytree import LEAF, TreeSpec
from ..core.registry import OpDef
from ..core.shapes import Spec
from ..runtime.keys import NoText, exact_text, key_under
from .layouts import Form, Operand, Slot

if TYPE_CHECKING:
    from ..capture.captured_call import Leaf

_ROOT = re.compile(r"argument (\d+)(?:\.(shape)\[(\d+)\]|\.(stride)\((\d+)\))?")
_KINDS = {"float": float, "int": int}
_CONTAINERS = {"tuple": tuple, "list": list}

Root = Callable[[Any], Any]  # finds a size or number in the leaves of a call


class KernelNumbers:
    """The sizes and numbers in calls of a kernel: those that it takes, and what it relies on."""

    def __init__(
        self,
        roots: Sequence[Root],
        guards: Sequence[tuple[str, Any]],
        fills: Mapping[type, Callable[[Any], Any]],
        sizes: Mapping[str, int],
    ) -> None:
        self._roots = list(roots)
        self._guards = list(guards)  # expressions, and the values that they must have
        self._holds = all_hold([text for text, _ in guards], [value for _, value in guards])
        self.fills = dict(fills)
        self.sizes = dict(sizes)  # symbols, and which root each is
        self.guarded = bool(guards)

    def read(self, leaves: Sequence[Any]) -> list[Any]:
        """The present values."""
        return [root(leaves) for root in self._roots]

    def holds(self, values: Sequence[Any]) -> bool:
        try:
            return bool(self._holds(values))
        except (ArithmeticError, ValueError):
            return False

    def sizes_of(self, values: Sequence[Any]) -> dict[str, int]:
        """The sizes that change, by their symbols."""
        return {name: values[root] for name, root in self.sizes.items()}

    def at(self, values: Sequence[Any]) -> KernelNumbers:
        """The same for calls with the sizes among these values alone."""
        fixed = copy.copy(self)
        known = set(self.sizes.values())
        fixed._roots = [
            functools.partial(_given, values[i]) if i in known else root for i, root in enumerate(self._roots)
        ]
        fixed.sizes = {}
        fixed._guards = [(text, value) for text, value in self._guards if not roots_in(text) <= known]
        fixed.guarded = bool(fixed._guards)
        return fixed

    def fill(self, kind: type, values: Sequence[Any]) -> np.ndarray:
        """What the input for numbers of `kind` holds. OverflowError for an int that does not fit."""
        return np.array(self.fills[kind](values), np.float64 if kind is float else np.int64)


def captured_numbers(live: LiveInputs) -> KernelNumbers:
    """Those of a kernel that was captured just now."""
    return KernelNumbers(
        live.roots, live.guards, live.fills, {dim.name: root for dim, root in live.sizes.items()}
    )


def stored_numbers(data: dict[str, Any]) -> KernelNumbers:
    """Those that `numbers_as_data` has described."""
    return KernelNumbers(
        [_reader(*root) for root in data["roots"]],
        [(text, value) for text, value in data["guards"]],
        {_KINDS[name]: computing(texts) for name, texts in data["fills"].items()},
        dict(data["sizes"]),
    )


def _reader(leaf: int, aspect: str | None, dim: int) -> Root:
    if aspect is None:
        return operator.itemgetter(leaf)
    if aspect == "shape":
        return lambda leaves: leaves[leaf]._array.shape[dim]
    return lambda leaves: leaves[leaf]._array.strides[dim] // leaves[leaf]._array.itemsize


def _given(value: Any, leaves: Sequence[Any]) -> Any:
    return value


class NoRecord(Exception):
    """Why a kernel cannot be described as data."""


def numbers_as_data(live: LiveInputs) -> dict[str, Any]:
    """What `stored_numbers` reads."""
    roots = []
    for name in live.names:
        found = _ROOT.fullmatch(name)
        if found is None:
            raise NoRecord(f"it depends on {name}")
        leaf, *aspects = found.groups()
        aspect, dim = next(((a, d) for a, d in (aspects[:2], aspects[2:]) if a), (None, 0))
        roots.append([int(leaf), aspect, int(dim)])
    if not all(value is None or isinstance(value, bool | int | float | str) for _, value in live.guards):
        raise NoRecord("it depends on values that are no numbers")
    return {
        "roots": roots,
        "guards": [[text, value] for text, value in live.guards],
        "fills": {kind.__name__: texts for kind, texts in live.used.items()},
        "sizes": [[dim.name, root] for dim, root in live.sizes.items()],
    }


class View(NamedTuple):
    """How a result sees an output of the program, in expressions of sizes."""

    shape: Sequence[Any]
    strides: Sequence[Any]
    offset: Any
    lazy: bool  # conjugated or negated when it is read

    def at(self, sizes: dict[str, int]) -> View:
        """The same with numbers."""
        shape, strides = (
            tuple([evaluate_data(n, sizes) for n in part]) for part in (self.shape, self.strides)
        )
        return View(shape, strides, evaluate_data(self.offset, sizes), self.lazy)


class Result(NamedTuple):
    """What a kernel returns at one place: an output of the program, a view of it, or, with neither, None."""

    output: int | None
    view: View | None = None


def result_of(leaf: Leaf) -> Result:
    """A leaf of a captured call that computes and does nothing else."""
    if leaf.kind == "python":
        return Result(None)
    return Result(leaf.index, _view_of(leaf.spec) if leaf.kind == "view" else None)


def _view_of(spec: Spec | None) -> View:
    assert spec is not None
    shape, strides = (list(map(to_data, part)) for part in (spec.known_shape(), spec.known_strides()))
    return View(shape, strides, to_data(spec.offset), bool(spec.conj or spec.neg))


def _structure_as_data(structure: TreeSpec) -> Any:
    if structure.type is None:
        return None
    name = structure.type.__name__
    if _CONTAINERS.get(name) is not structure.type:
        raise NoRecord(f"it returns a {name}")
    return [name, [_structure_as_data(child) for child in structure.children]]


def _structure(data: Any) -> TreeSpec:
    if data is None:
        return LEAF
    name, children = data
    return TreeSpec(_CONTAINERS[name], None, tuple(map(_structure, children)))


class KernelRecord(NamedTuple):
    """A kernel without its program. `inputs` has for each input of the program the number of a leaf, or the type
    of the numbers that it holds."""

    inputs: Sequence[int | type]
    results: Sequence[Result]
    structure: TreeSpec
    numbers: KernelNumbers


def pack(program: str, record: KernelRecord, live: LiveInputs) -> bytes:
    """The bytes that `unpack` reads; `program` is the key of the program. NoRecord for what cannot be data."""
    data = {
        "program": program,
        "inputs": [i if isinstance(i, int) else i.__name__ for i in record.inputs],
        "results": [
            [r.output, None if r.view is None else [r.view.shape, r.view.strides, r.view.offset, r.view.lazy]]
            for r in record.results
        ],
        "structure": _structure_as_data(record.structure),
        "numbers": numbers_as_data(live),
    }
    return json.dumps(data, separators=(",", ":")).encode()


def unpack(packed: bytes) -> tuple[str, KernelRecord]:
    """The key of a program, and the record."""
    data = json.loads(packed)
    results = [Result(output, None if view is None else View(*view)) for output, view in data["results"]]
    inputs = [_KINDS[i] if isinstance(i, str) else i for i in data["inputs"]]
    return data["program"], KernelRecord(
        inputs, results, _structure(data["structure"]), stored_numbers(data["numbers"])
    )


def record_key(op: OpDef, form: Form, given: Sequence[Any]) -> str | None:
    """The key of a kernel that is captured with the leaves `given`; None if its arguments have no exact text.
    Numbers count by their types: guards say for which of them it holds."""
    try:
        return key_under(
            "kernel",
            op.name,
            _text(form.arguments),
            " ".join(map(_leaf_text, given)),
            str(form.fixed),
            get_default_dtype().name,
        )
    except NoText:
        return None


def _text(argument: Any) -> str:
    if type(argument) is Slot:
        return f"leaf {argument.number}"
    if type(argument) is tuple:
        return f"({', '.join(map(_text, argument))})"
    return exact_text(argument)


def _leaf_text(leaf: Any) -> str:
    return (
        f"{leaf.dtype.name}{leaf.shape}{leaf.strides}" if isinstance(leaf, Operand) else type(leaf).__name__
    )
