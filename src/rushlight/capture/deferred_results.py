"""Results that wait: operators whose results a program may return, but that run after its graph (deferred.py)."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from ..core.dispatch import AMBIENT, Arguments, is_sparse_call, run_name, tensors_in
from ..core.dispatch import call as run_operator
from ..core.dtypes import DTYPES, Category
from ..core.errors import check
from ..core.modes import MODES
from ..core.registry import Kind, OpDef
from ..core.shapes import Spec
from ..core.symbols import is_size
from ..core.tensor import TRACED, Tensor
from ..core.traits import Trait
from .data_sizes import RULES, THROUGH, SizesOfData, with_data_sizes
from .deferred import DeferredCall, recorded_plainly
from .errors import CaptureError, Problem, user_line
from .functionalize import FunctionalizedWrites
from .program_tensors import depends_on_data

MOST_LISTED = 64  # numbers of a tolist() that are sizes


class DeferredResults(FunctionalizedWrites):
    """What a capture makes of operators that must see the data."""

    def waits(self, op: OpDef, args: Arguments) -> bool:
        if self.data_sizes is not None and op.name in THROUGH:
            return False
        return (op.kind is Kind.COMPOSITE and op.rule is not None) or (
            bool(op.traits & Trait.DEFERRED) and is_sparse_call(op, args)
        )

    def _defer(self, op: OpDef, args: Arguments, specs: Any) -> Any:
        """Tensors without a shape, for the results of an operator that must see the data to know it; or with
        sizes that are data."""
        if self.data_sizes is not None and op.name in RULES:
            found = with_data_sizes(self.data_sizes, op, self._map(op, args, self.abstract))
            if found is not NotImplemented:
                return found
        if AMBIENT.trace is not self or MODES.dual_levels:  # inside of another transform
            raise depends_on_data(op.name)
        several = (specs,) if isinstance(specs, Spec) else specs
        differentiable = (
            MODES.grad
            and any(t.requires_grad for t in tensors_in(op, args))
            and any(spec.dtype.is_differentiable for spec in several)
        )
        if not differentiable:
            args = self._map(op, args, lambda t: run_name("detach", t) if t.requires_grad else t)
        call = DeferredCall(op.name, lambda *given: run_operator(op, given), args, differentiable)
        self.deferred.append(call)
        results = []
        for position, spec in enumerate(several):
            tensor = object.__new__(Tensor)
            tensor._array, tensor.dtype, tensor._spec = None, spec.dtype, Spec(None, spec.dtype)
            tensor._keys |= TRACED
            self.claim(tensor)
            tensor._deferred = call, None if isinstance(specs, Spec) else position  # type: ignore[attr-defined]
            tensor._requires_grad = differentiable and spec.dtype.is_differentiable
            results.append(tensor)
        return results[0] if isinstance(specs, Spec) else tuple(results)

    def _defer_sparse(self, op: OpDef, args: Arguments) -> Any:
        """As `_defer`, for the operators that make sparse tensors, or take some, of one dtype."""
        if not op.traits & Trait.DEFERRED:
            raise CaptureError(
                f"{op.name} makes or takes a sparse tensor, which has no place in a graph",
                user_line(),
                Problem.LAYOUT,
            )
        return self._defer(op, args, Spec(None, tensors_in(op, args)[0].dtype))

    def item(self, tensor: Tensor) -> Any:
        """The number that `tensor` will hold: a size, if it is an int; else for the program to return."""
        if self.data_sizes is not None and tensor.dtype.category is Category.INTEGRAL:
            return self._int(self.data_sizes, tensor)
        if tensor.requires_grad:
            tensor = run_name("detach", tensor)
        tensor = self.abstract(tensor)
        in_graph = self.data_sizes is not None and tensor.dtype.is_floating_point
        if in_graph:  # which may be written to afterwards
            with recorded_plainly():
                tensor = tensor.reshape(()).to(DTYPES["float64"], copy=True)
        call = DeferredCall("item", Tensor.item, (tensor,), False)
        if not in_graph:
            self.deferred.append(call)
        dtype = tensor.dtype
        kind: type = (
            complex
            if dtype.is_complex
            else float
            if dtype.is_floating_point
            else bool
            if dtype.name == "bool"
            else int
        )
        number = self.deferred_numbers.make(call, kind, lambda: self.read(tensor).item())
        if in_graph:
            number.tensor, number.make = tensor, self.item
        return number

    def tolist(self, tensor: Tensor) -> Any:
        """The integers that `tensor` will hold, as sizes, if there are not too many."""
        few = all(type(n) is int for n in tensor.shape) and tensor.numel() <= MOST_LISTED
        if self.data_sizes is None or tensor.dtype.category is not Category.INTEGRAL or not few:
            return NotImplemented
        if tensor.ndim == 0:
            return self.item(tensor)
        return [self.tolist(tensor.select(0, i)) for i in range(tensor.shape[0])]

    def _int(self, sizes: SizesOfData, tensor: Tensor) -> Any:
        """The integer that `tensor` will hold, as a size."""
        wide = tensor if tensor.dtype.name == "int64" else tensor.to(DTYPES["int64"])
        return sizes.of(wide, f"the number that item() reads in {user_line()}", 16, -(2**63), 2**63 - 1)

    def number_of_data(self, compute: Callable[..., Any], operands: Sequence[Any]) -> Any:
        """The float that arithmetic makes of sizes that are data, in the graph; None if there is no form."""
        if compute not in (operator.add, operator.sub, operator.mul, operator.truediv):
            return None
        if compute is operator.truediv:
            check(operands[1] != 0, "division by zero", ZeroDivisionError)
        float64 = DTYPES["float64"]
        with recorded_plainly():
            given = [
                run_name("full", (), o, float64, None, None, None) if is_size(o) else o for o in operands
            ]
            return self.item(compute(*given))
