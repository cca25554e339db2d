"""Declaring batching rules: how vmap runs an operator on tensors with one more dimension than the user sees.

`batching(name, rule)` attaches a rule to an operator. A rule names the arguments it needs: tensors that are
batched come with their batch dimension in front, the others as they are. It returns the result, or a tuple of
results, with the batch dimension in front. Composites need no rule (vmap goes through their body), nor do
pointwise operators (vmap aligns and broadcasts); everything else has one, or falls back to a loop that warns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, overload

from ..core.binding import check_names, declaring_module
from ..core.dispatch import call, run_name
from ..core.errors import RegistrationError
from ..core.registry import REGISTRY, OpDef, operator
from ..core.tensor import Tensor


class Call:
    """One call of an operator under vmap, with the batch dimension of every batched tensor in front."""

    __slots__ = ("args", "batch", "batched", "ndim", "op", "randomness")

    def __init__(
        self,
        op: OpDef,
        args: list[Any],
        batched: list[Any],
        ndim: list[Any],
        batch: int,
        randomness: str = "error",
    ) -> None:
        self.op = op
        self.args = args
        self.batched = batched  # for each argument: is it batched (a tuple for lists of tensors)
        self.ndim = ndim  # for each tensor argument: its number of dimensions without the batch
        self.batch = batch  # the size of the batch
        self.randomness = randomness  # what the vmap does with random operators

    def run(self) -> Any:
        """The operator itself on these arguments."""
        return call(self.op, tuple(self.args))

    def batch_all(self) -> None:
        """Give every tensor the batch dimension."""
        for i in self.op.tensor_positions:
            if self.args[i] is not None and not self.batched[i]:
                self.args[i] = expand_batch(self.args[i], self.batch)
                self.batched[i] = True
        for i in self.op.list_positions:
            if self.args[i] is not None:
                pairs = zip(self.args[i], self.batched[i], strict=True)
                self.args[i] = tuple(
                    [t if t is None or has else expand_batch(t, self.batch) for t, has in pairs]
                )
                self.batched[i] = tuple([t is not None for t in self.args[i]])


Rule = Callable[[Call], Any]


Function = TypeVar("Function", bound=Callable[..., Any])


@overload
def batching(names: str | Sequence[str], *, all_batched: bool = ...) -> Callable[[Function], Function]: ...
@overload
def batching(names: str | Sequence[str], rule: Any, *, all_batched: bool = ...) -> Any: ...
def batching(names: str | Sequence[str], rule: Any = None, *, all_batched: bool = False) -> Any:
    """Attach a rule to operators; without `rule`, a decorator.

    Besides the schema's arguments a rule may name `batch` (the size), `X_batched` and `X_ndim` (the
    dimensions the user sees) of a tensor argument X. With `all_batched`, tensors that are not batched are
    expanded first.
    """
    module = declaring_module()

    def declare(function: Any) -> Any:
        for name in [names] if isinstance(names, str) else names:
            op = operator(name)
            if op.batching is not None:
                raise RegistrationError(f"{name} already has a batching rule")
            op.declared["batching"] = module
            if isinstance(function, Generic):
                function.check(op)
                op.batching = function.apply
            else:
                op.batching = _named(op, function, all_batched)
        return function

    return declare if rule is None else declare(rule)


def _named(op: OpDef, function: Callable[..., Any], all_batched: bool) -> Rule:
    names = op.schema.argument_names
    tensors = [a.name for a in op.schema.arguments if a.type.base == "Tensor"]
    scope = (*names, "batch", *[f"{n}_batched" for n in tensors], *[f"{n}_ndim" for n in tensors])
    asked = check_names(function, scope, f"the batching rule of {op.name}")
    sources = [_source(names, name) for name in asked]

    def rule(request: Call) -> Any:
        if all_batched:
            request.batch_all()
        return function(*[source(request) for source in sources])

    return rule


def _source(names: Sequence[str], name: str) -> Callable[[Call], Any]:
    if name in names:
        at = names.index(name)
        return lambda request: request.args[at]
    if name == "batch":
        return lambda request: request.batch
    stem, _, suffix = name.rpartition("_")
    at = names.index(stem)
    if suffix == "batched":
        return lambda request: request.batched[at]
    return lambda request: request.ndim[at]


class Generic:
    """A rule for operators of one form, told apart by the names of their arguments."""

    def check(self, op: OpDef) -> None:
        """Refuse an operator that does not have this form."""

    def apply(self, request: Call) -> Any:
        raise NotImplementedError


class Whole(Generic):
    """The operator treats every element (or every trailing block) alike: run it on the whole batch."""

    def __init__(self, *, all_batched: bool = False) -> None:
        self.all_batched = all_batched

    def apply(self, request: Call) -> Any:
        if self.all_batched:
            request.batch_all()
        return request.run()


class Along(Generic):
    """The operator works along dimensions that some arguments name: run it with those shifted past the batch.

        `of` is the tensor whose dimensions are counted, `like` the one whose number of dimensions the results
        have. With `empty_is_all`, None or an empty list means all
    dimensions.
    """

    def __init__(
        self,
        *dims: str,
        of: str = "self",
        like: str = "",
        empty_is_all: bool = False,
        all_batched: bool = False,
    ) -> None:
        self.dims = dims
        self.of = of
        self.like = like or of
        self.empty_is_all = empty_is_all
        self.all_batched = all_batched

    def check(self, op: OpDef) -> None:
        check_names_of(op, (*self.dims, self.of))

    def apply(self, request: Call) -> Any:
        names = request.op.schema.argument_names
        at = names.index(self.of)
        if self.all_batched:
            request.batch_all()
        if not request.batched[at]:
            request.args[at] = expand_batch(request.args[at], request.batch)
        ndim = request.ndim[at]
        if ndim == 0:
            return self._on_scalars(request, at)
        for name in self.dims:
            i = names.index(name)
            request.args[i] = shift(request.args[i], ndim, empty_is_all=self.empty_is_all)
        return request.run()

    def _on_scalars(self, request: Call, at: int) -> Any:
        """0-d tensors are as tensors of one element along one dimension."""
        op, names = request.op, request.op.schema.argument_names
        for i in op.tensor_positions:
            if request.args[i] is not None and request.ndim[i] == 0 and (i == at or request.batched[i]):
                request.args[i] = run_name("unsqueeze", request.args[i], -1)
        for name in self.dims:
            i = names.index(name)
            request.args[i] = shift(request.args[i], 1, empty_is_all=self.empty_is_all)
        results = request.run()
        if request.ndim[names.index(self.like)] != 0:
            return results
        scalars = [_scalars(r, request.batch) for r in (results if type(results) is tuple else (results,))]
        return tuple(scalars) if type(results) is tuple else scalars[0]


def _scalars(tensor: Tensor, batch: int) -> Tensor:
    return (
        tensor
        if tensor.ndim == 1
        else run_name("view", run_name("contiguous", tensor, _contiguous), (batch,))
    )


def _contiguous_format() -> Any:
    return REGISTRY["contiguous"].defaults[1]


_contiguous = _contiguous_format()


class Sized(Generic):
    """The operator makes a tensor of a size that an argument gives: put the batch in front of it."""

    def __init__(self, size: str = "size") -> None:
        self.size = size

    def check(self, op: OpDef) -> None:
        check_names_of(op, (self.size,))

    def apply(self, request: Call) -> Any:
        i = request.op.schema.argument_names.index(self.size)
        request.args[i] = (request.batch, *request.args[i])
        return request.run()


def check_names_of(op: OpDef, names: Sequence[str]) -> None:
    unknown = [name for name in names if name not in op.schema.argument_names]
    if unknown:
        raise RegistrationError(
            f"the batching rule of {op.name} names {', '.join(unknown)}; its arguments "
            f"are {', '.join(op.schema.argument_names)}"
        )


# What rules are made of.


def shift(dim: Any, ndim: int, *, empty_is_all: bool = False) -> Any:
    """Dimension numbers of a tensor of `ndim` dimensions, as they are once a batch dimension is in front."""
    if dim is None or (empty_is_all and not isinstance(dim, int) and len(dim) == 0):
        return tuple(range(1, ndim + 1)) if empty_is_all else None
    if isinstance(dim, int):
        if not -max(ndim, 1) <= dim < max(ndim, 1):
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-max(ndim, 1)}, "
                f"{max(ndim, 1) - 1}], but got {dim})"
            )
        return dim + 1 if dim >= 0 else dim + ndim + 1
    return tuple([shift(d, ndim) for d in dim])


def expand_batch(tensor: Tensor, batch: int) -> Tensor:
    """`tensor` with a batch dimension in front along which it does not change."""
    return run_name("expand", run_name("unsqueeze", tensor, 0), (batch, *tensor.shape), False)


def pad_ndim(tensor: Tensor, own: int, ndim: int) -> Tensor:
    """A batched tensor of `own` dimensions as one of `ndim`, with ones between the batch and the rest."""
    if own >= ndim:
        return tensor
    shape = tensor.shape
    for _ in range(ndim - own):
        tensor = run_name("unsqueeze", tensor, 1)
    assert len(shape) == own + 1
    return tensor


def flat(tensor: Tensor) -> Tensor:
    """A batched tensor with all but the batch flattened."""
    return (
        tensor.reshape(tensor.shape[0], -1)
        if tensor.numel()
        else tensor.reshape(tensor.shape[0], _count(tensor.shape[1:]))
    )


def _count(shape: Sequence[int]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count
