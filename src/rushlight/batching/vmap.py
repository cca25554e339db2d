"""vmap's interpreter: batched tensors and how operators run on them.

A `BatchedTensor` wraps a tensor with one more dimension, `_bdim`, that the user does not see; `_bdim` None
means that the tensor does not vary along the batch but belongs to this level all the same, so that autograd
inside the vmap has an object of its own to record on.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from ..core.binding import check_names
from ..core.dispatch import AMBIENT, Arguments, call, execute, run_name, tensors_in
from ..core.dtypes import Category
from ..core.errors import check
from ..core.interpreters import Interpreter, next_level
from ..core.modes import MODES
from ..core.mutation import assign
from ..core.promotion import common
from ..core.registry import Kind, OpDef
from ..core.shapes import Spec, broadcast_shapes
from ..core.tensor import LAZY, META, RANDOM, TRACED, Tensor, _new, refuse_overrides
from ..core.transforms import TransformType, describe, indented, level_of
from .declare import Call, Generic, expand_batch


class BatchedTensor(Tensor):
    """A tensor inside a vmap."""

    __torch_function__ = staticmethod(refuse_overrides)
    _value: Tensor
    _bdim: int | None

    def __repr__(self) -> str:
        return describe(self, BatchedTensor._plain_repr)

    def _plain_repr(self: Any) -> str:
        level, value = level_of(self._trace), indented(repr(self._value))
        return f"BatchedTensor(lvl={level}, bdim={self._bdim}, value=\n{value}\n)"

    @property  # type: ignore[misc]
    def data(self) -> NoReturn:
        raise RuntimeError("accessing `data` under vmap transform is not allowed")


def wrap_batched(value: Tensor, bdim: int | None, trace: Vmap) -> BatchedTensor:
    check(
        value._parts is None, "vmap: a sparse tensor cannot take part in a vmap; call .to_dense() on it first"
    )
    check(
        value._quantizer is None,
        "vmap: a quantized tensor cannot take part in a vmap; call dequantize() on it first",
    )
    tensor = _new(BatchedTensor)
    shape, strides = tuple(value.shape), value.strides()
    if bdim is not None:
        shape, strides = shape[:bdim] + shape[bdim + 1 :], strides[:bdim] + strides[bdim + 1 :]
    tensor._array = None
    tensor.dtype = value.dtype
    tensor._spec = Spec(shape, value.dtype, strides, 0)
    tensor._value, tensor._bdim, tensor._trace = value, bdim, trace
    tensor._keys = TRACED | (value._keys & (META | LAZY))
    if value._keys & LAZY:
        tensor._conj, tensor._neg = value._conj, value._neg
    return tensor


class _Fallback:
    warns = True  # where an operator without a batching rule runs once for each element


FALLBACK = _Fallback()


class Vmap(Interpreter):
    """One open vmap over a batch of `size`."""

    kind = TransformType.Vmap

    def __init__(self, size: int, randomness: str = "error", *, direct: bool = False) -> None:
        importlib.import_module("rushlight.batching.rules")
        self.number = next_level()
        self.size = size
        self.randomness = randomness
        self.direct = direct  # the methods of custom functions run on batched tensors as they are

    def __enter__(self) -> Vmap:
        self._keys = AMBIENT.keys
        MODES.traces.append(self)
        AMBIENT.keys |= RANDOM
        return self

    def __exit__(self, *exception: Any) -> None:
        MODES.traces.pop()
        AMBIENT.keys = self._keys

    def __repr__(self) -> str:
        return f"<vmap {self.number} over {self.size}>"

    def tracks(self, tensor: Tensor) -> bool:
        return False

    # Wrapping.

    def lift(self, value: Tensor, bdim: int | None) -> BatchedTensor:
        return wrap_batched(value, bdim, self)

    def pure(self, tensor: Tensor) -> Tensor:
        return tensor if tensor._trace is self else wrap_batched(tensor, None, self)

    def unwrap(self, value: Any) -> tuple[Any, int | None]:
        """What `value` wraps at this level, and its batch dimension."""
        if isinstance(value, BatchedTensor) and value._trace is self:
            return value._value, value._bdim
        return value, None

    def _wrap_results(self, results: Any, bdim: int | None) -> Any:
        if isinstance(results, Tensor):
            return wrap_batched(results, bdim, self)
        if type(results) is tuple:
            return tuple([self._wrap_results(r, bdim) for r in results])
        return results

    # Running operators.

    def process(self, op: OpDef, args: Arguments) -> Any:
        if op.random:  # a composite may draw or not: that is up to its body
            return execute(op, args, TRACED) if op.kind is Kind.COMPOSITE else self._random(op, args)
        if not self._any_batched(op, args):
            result = self._wrap_results(call(op, self._unwrapped(op, args)), None)
        elif op.batching is not None:
            if op.kind is Kind.STRUCTURAL:
                op.rule(args)  # type: ignore[misc]  # refuses what one example of the batch does not allow
            result = self._wrap_results(op.batching(self.request(op, args)), 0)
        elif op.kind is Kind.COMPOSITE:
            return execute(op, args, TRACED)
        elif op.kind is Kind.POINTWISE:
            result = self._pointwise(op, args)
        elif op.data_dependent:
            raise RuntimeError(
                "vmap: We do not support batching operators that can output dynamic shape. "
                f"Attempted to vmap over aten::{op.name}."
            )
        else:
            result = self._loop(op, args)
        if op.kind is Kind.VIEW:
            self.track_view(op, args, result)
        return result

    def _any_batched(self, op: OpDef, args: Arguments) -> bool:
        return any(self.unwrap(tensor)[1] is not None for tensor in tensors_in(op, args))

    def _unwrapped(self, op: OpDef, args: Arguments) -> Arguments:
        plain = list(args)
        for i in op.tensor_positions:
            plain[i] = self.unwrap(args[i])[0]
        for i in op.list_positions:
            if args[i] is not None:
                plain[i] = tuple([self.unwrap(t)[0] for t in args[i]])
        return tuple(plain)

    def front(self, value: Any) -> tuple[Any, bool, int | None]:
        """A tensor with its batch dimension in front, whether it has one, and how many others it has."""
        if value is None:
            return None, False, None
        tensor, bdim = self.unwrap(value)
        if bdim is None:
            return tensor, False, tensor.ndim
        if bdim != 0:
            order = (bdim, *[d for d in range(tensor.ndim) if d != bdim])
            tensor = run_name("permute", tensor, order)
        return tensor, True, tensor.ndim - 1

    def request(self, op: OpDef, args: Arguments) -> Call:
        """The call as batching rules see it."""
        values, batched = list(args), [False] * len(args)
        ndim: list[Any] = [None] * len(args)
        for i in op.tensor_positions:
            values[i], batched[i], ndim[i] = self.front(args[i])
        for i in op.list_positions:
            if args[i] is not None:
                fronts = [self.front(t) for t in args[i]]
                values[i] = tuple([f[0] for f in fronts])
                batched[i] = tuple([f[1] for f in fronts])  # type: ignore[call-overload]
                ndim[i] = tuple([f[2] for f in fronts])
        return Call(op, values, batched, ndim, self.size, self.randomness)

    def _pointwise(self, op: OpDef, args: Arguments) -> Any:
        """Batch dimensions in front, ones after them where ranks differ; then the operator broadcasts as
        always."""
        request = self.request(op, args)
        rank = max(n for n in request.ndim if n is not None)
        cast = self._weak_dtype(op, args)
        for i in op.tensor_positions:
            tensor = request.args[i]
            if tensor is None:
                continue
            if request.batched[i]:
                for _ in range(rank - request.ndim[i]):
                    tensor = run_name("unsqueeze", tensor, 1)
                weak = cast is not None and request.ndim[i] == 0 and i in op.operands
                if weak and Category.BOOL < tensor.dtype.category <= cast.category:
                    tensor = tensor.to(cast)
                request.args[i] = tensor
        broadcast_shapes(*[t.shape for t in tensors_in(op, args)], name=op.schema.name)
        return self._wrap_results(request.run(), 0)

    def _weak_dtype(self, op: OpDef, args: Arguments) -> Any:
        """The common dtype, where a tensor that the user sees as 0-d must not count as one with dimensions."""
        operands = [args[i] for i in op.operands]
        if not any(isinstance(o, Tensor) and o.ndim == 0 for o in operands):
            return None
        described = [(o.dtype, o.ndim == 0) if isinstance(o, Tensor) else o for o in operands]
        dtype = common(described)
        if all(d[0] is dtype for d in described if isinstance(d, tuple)):
            return None
        return dtype if dtype.category > Category.BOOL else None

    def _loop(self, op: OpDef, args: Arguments) -> Any:
        """Run the operator once for each element of the batch."""
        if FALLBACK.warns:
            warnings.warn(
                f"There is a performance drop because the operator {op.name} has no batching rule: "
                "vmap runs it once for each element of the batch.",
                UserWarning,
                stacklevel=2,
            )
        return self.loop(op, args)

    def loop(self, op: OpDef, args: Arguments) -> Any:
        check(
            self.size > 0,
            f"vmap: the operator {op.name} has no batching rule, and the loop that stands "
            "for it cannot run over a batch of size 0",
        )
        request = self.request(op, args)
        outputs = []
        for n in range(self.size):
            one = list(request.args)
            for i in op.tensor_positions:
                if request.batched[i]:
                    one[i] = run_name("select.int", one[i], 0, n)
            for i in op.list_positions:
                if one[i] is not None:
                    one[i] = tuple(
                        [
                            run_name("select.int", t, 0, n) if has else t
                            for t, has in zip(one[i], request.batched[i], strict=True)
                        ]
                    )
            outputs.append(call(op, tuple(one)))
        if type(outputs[0]) is tuple:
            return tuple(
                [
                    wrap_batched(run_name("stack", tuple(column), 0), 0, self)
                    for column in zip(*outputs, strict=True)
                ]
            )
        return wrap_batched(run_name("stack", tuple(outputs), 0), 0, self)

    # Random operators.

    def _random(self, op: OpDef, args: Arguments) -> Any:
        check(
            self.randomness != "error" or not self.direct,
            "vmap: We do not yet support calling random "
            f"operations inside of vmap where a batch of gradients or tangents is computed: {op.name}",
        )
        check(
            self.randomness != "error",
            f"vmap: called random operation {op.name} while in randomness "
            "error mode; say randomness='same' or 'different' to vmap, or "
            "draw the numbers outside of it",
        )
        saved = AMBIENT.keys, MODES.traces[:]
        MODES.traces[:] = [trace for trace in MODES.traces if trace.number < self.number]
        AMBIENT.keys = AMBIENT.keys if MODES.traces else AMBIENT.keys & ~RANDOM
        try:
            if self.randomness == "same":
                return self._same(op, args)
            if op.batching is not None:
                return self._wrap_results(op.batching(self.request(op, args)), 0)
            return self.loop(op, args)
        finally:
            AMBIENT.keys, MODES.traces[:] = saved

    def _same(self, op: OpDef, args: Arguments) -> Any:
        """Draw once for the whole batch; only the shape of a batched argument may matter, not its values."""
        request = self.request(op, args)
        for i in op.tensor_positions:
            if request.batched[i]:
                check(
                    i not in op.kernel_reads,
                    f"vmap: {op.name} with randomness='same' takes no batched "
                    "tensor whose values matter; use randomness='different'",
                )
                request.args[i] = run_name("select.int", request.args[i], 0, 0)
        return self._wrap_results(request.run(), None)

    # Writing and reading.

    def write(self, target: Tensor, result: Tensor) -> None:
        value, bdim = self.unwrap(target)
        new, new_bdim = self.unwrap(result)
        if new_bdim is not None and bdim is None:
            raise RuntimeError(
                "vmap: an in-place operator cannot write a batched value into a tensor that "
                "is not batched, which has room for one element only; use an operator that "
                "is not in-place"
            )
        if bdim is not None:
            new = expand_batch(new, self.size) if new_bdim is None else self.front(result)[0]
            if bdim != 0:
                order = [*range(1, bdim + 1), 0, *range(bdim + 1, value.ndim)]
                new = run_name("permute", new, tuple(order))
        if new.dtype is not value.dtype:
            new = new.to(value.dtype)
        assign(value, new)
        target.version_counter.value += 1

    def take_geometry(self, target: Tensor, view: Tensor) -> None:
        assert isinstance(target, BatchedTensor)
        target._value, target._bdim = self.unwrap(view)
        target._spec = view._spec

    def resize(self, target: Tensor, shape: Any, strides: Any, offset: int) -> bool:
        self.refuse("it changes the shape of a batched tensor in place")
        return True

    def keep_values(self, tensor: Tensor) -> None:
        assert isinstance(tensor, BatchedTensor)
        tensor._value, tensor._storage = run_name("clone", tensor._value, None), None

    def read(self, tensor: Tensor) -> np.ndarray:
        refuse_to_read()


def refuse_to_read() -> NoReturn:
    raise RuntimeError(
        "vmap: It looks like you're calling .item() on a Tensor, or using one in "
        "data-dependent control flow (such as `if tensor:`). vmap runs the function once for "
        "the whole batch, so a Tensor has no single value to look at; use where() or other "
        "operators instead."
    )


class Through(Generic):
    """vmap goes through a body of simpler operators, which names the arguments it needs, as it goes through
    that of a composite."""

    def __init__(self, body: Callable[..., Any]) -> None:
        self.body = body
        self.asked: dict[str, list[int]] = {}

    def check(self, op: OpDef) -> None:
        names = op.schema.argument_names
        asked = check_names(self.body, names, f"the batching rule of {op.name}")
        self.asked[op.name] = [names.index(name) for name in asked]

    def apply(self, request: Call) -> Any:
        with Vmap(request.batch) as trace:
            lifted = [
                trace.lift(value, 0) if request.batched[i] is True else value
                for i, value in enumerate(request.args)
            ]
            results = self.body(*[lifted[i] for i in self.asked[request.op.name]])
            if type(results) is tuple:
                return tuple([self._front(trace, result) for result in results])
            return self._front(trace, results)

    @staticmethod
    def _front(trace: Vmap, result: Tensor) -> Tensor:
        tensor, batched, _ = trace.front(result)
        found: Tensor = tensor if batched else expand_batch(tensor, trace.size)
        return found
