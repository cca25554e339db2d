"""A compiled program whose sizes change from call to call.

In: native code that takes its sizes from a table, and a description in which shapes are expressions of them.
`run(inputs, sizes)` finds, or makes, the `Executable` for these sizes: shapes of outputs, places of temporaries.
All of them share one library and one workspace, which is as large as the largest call needed.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..core.errors import InternalError
from ..core.index_data import evaluate_data
from ..core.lazy import LazyModule
from ..loops.tasks import split_rows, stage_numbers
from .cache import key_of
from .engine import engine
from .executable import Executable, SharedWorkspace

tables = LazyModule("rushlight.codegen.llvm.matmul.tables")

MOST_SIZES = (
    256  # of which what depends on them is kept; sizes that come again after these are worked out anew
)
MOST_PRODUCTS = 256  # whose numbers are kept


class SizedExecutable:
    """Native code for all sizes."""

    native = False  # calls go through Python, which works out the shapes

    def __init__(
        self,
        symbols: Sequence[str],
        derived: Sequence[Sequence[Any]],
        make: Callable[[Mapping[str, int], np.ndarray, SharedWorkspace], Executable],
        updates: Mapping[int, int],
    ) -> None:
        self.symbols = list(symbols)
        self._derived = derived
        self.updates = dict(sorted(updates.items()))
        self._make = make
        self._workspace = SharedWorkspace()
        self._known: OrderedDict[tuple[int, ...], Executable] = OrderedDict()
        self._lock = threading.Lock()

    def run(self, inputs: Sequence[np.ndarray], sizes: Sequence[int]) -> list[np.ndarray]:
        """The outputs; those in `updates` are the given arrays, with new contents."""
        if 0 in sizes:  # of data: where a part is empty, an element of it may be read that nothing depends on
            inputs = [array if array.size else _readable(array) for array in inputs]
        program = self.at(sizes)
        found = program.run(inputs)
        for position, given in self.updates.items() if program.updates != self.updates else ():
            if (
                position not in program.updates
            ):  # code for these sizes that does not write to the input itself
                np.copyto(inputs[given], found[position])
        return found

    def at(self, sizes: Sequence[int]) -> Executable:
        """The program for these sizes."""
        key = tuple(sizes)
        with self._lock:
            found = self._known.get(key)
            if found is None:
                named = dict(zip(self.symbols, key, strict=True))
                table = np.array(derived_numbers(key, named, self._derived), np.int64)
                found = self._known[key] = self._make(named, table, self._workspace)
                if len(self._known) > MOST_SIZES:
                    self._known.popitem(last=False)
            else:
                self._known.move_to_end(key)
        return found


_products: dict[str, list[int]] = {}  # numbers of products, by what they follow from


def known_products() -> dict[str, list[int]]:
    """The numbers of products that this process has worked out, or was told of: the next process of a program
    need not load what works them out. They are of this version of the package."""
    return dict(_products)


def tell_products(known: Mapping[str, list[int]]) -> None:
    """What `known_products` has given in another process."""
    _products.update(known)


def _product_numbers(template: Mapping[str, Any], named: Mapping[str, int]) -> list[int]:
    target = engine().target
    key = key_of([repr(target), repr(template), repr(sorted(named.items()))])
    found = _products.get(key)
    if found is None:
        found = tables.product_numbers(template, named, target)
        if len(_products) < MOST_PRODUCTS:
            _products[key] = found
    return found


_ROOM = np.zeros(256, np.uint8)


def _readable(array: np.ndarray) -> np.ndarray:
    """An empty array in memory in which there is an element."""
    return np.ndarray(array.shape, array.dtype, _ROOM[:0], 0, array.strides)


def derived_numbers(
    sizes: Sequence[int], named: Mapping[str, int], derived: Sequence[Sequence[Any]]
) -> list[int]:
    """The table of sizes: the symbols, then what follows from them (codegen/llvm/sizes.py)."""
    table = list(sizes)
    for kind, *data in derived:
        if kind == "split":
            extent, work = (evaluate_data(part, named) for part in data[:2])
            table.extend(split_rows(extent, work, *data[2:]))
        elif kind == "size":
            table.append(evaluate_data(data[0], named))
        elif kind == "at least":
            table.append(int(evaluate_data(data[0], named) >= data[1]))
        elif kind == "product":
            table.extend(_product_numbers(data[0], named))
        elif kind == "quotient":
            whole, share = (n if n >= 0 else table[-1 - n] for n in data)
            table.append(whole // share)
        elif kind == "stage":
            table.extend(stage_numbers([n if n >= 0 else table[-1 - n] for n in data[0]]))
        else:
            raise InternalError(f"nothing is known of {kind!r} in a table of sizes")
    return table
