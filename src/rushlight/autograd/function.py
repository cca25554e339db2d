"""`autograd.Function`: operators with a backward written by the user.

A subclass has static methods `forward(ctx, *args)` (or `forward(*args)` and `setup_context(ctx, inputs,
output)`), `backward` (or `vjp`), and optionally `jvp` and `vmap`. The context is the node of the tape itself,
as in PyTorch.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from ..core.dispatch import AMBIENT, run_name
from ..core.errors import check
from ..core.interpreters import innermost
from ..core.modes import MODES
from ..core.tensor import AUTOGRAD, TRACED, Tensor
from ..core.views import restrict_view
from .edges import edge_of
from .function_tangents import push_tangents
from .refusing import once_differentiable
from .saved import save_output, save_tensor, second_time, unpack_output, unpack_tensor, zeros
from .saved_tensor import SavedTensor, raw
from .tape import FREED, Edge, Node, meta_of
from .views import CopySlices

_MISSING = object()


class FunctionCtx:
    """What `forward` tells `backward`."""

    to_save: tuple[Any, ...] = ()
    dirty_tensors: tuple[Tensor, ...] = ()
    non_differentiable: tuple[Tensor, ...] = ()
    materialize_grads = True
    _materialize_non_diff_grads = True  # zeros, not None, for outputs that were marked non-differentiable
    needs_input_grad: tuple[bool, ...] = ()
    saved_for_forward: tuple[Any, ...] = ()

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep tensors for `saved_tensors`; inputs and outputs only are safe to keep this way, as in PyTorch."""
        self.to_save = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Keep tensors for `jvp`."""
        for tensor in tensors:
            check(
                isinstance(tensor, Tensor) or tensor is None,
                f"save_for_forward expects all arguments to be tensors; you passed in {type(tensor)}",
                TypeError,
            )
        self.saved_for_forward = tensors

    def mark_dirty(self, *args: Tensor) -> None:
        """Say which inputs `forward` wrote to."""
        self.dirty_tensors = args

    def mark_non_differentiable(self, *args: Tensor) -> None:
        """Say which outputs have no gradient."""
        self.non_differentiable = args

    def set_materialize_grads(self, value: bool) -> None:
        """With False, undefined gradients come to `backward` as None instead of zeros."""
        self.materialize_grads = value


class BackwardCFunction(Node, FunctionCtx):
    """The node of a custom function."""

    runs_on_nothing = True  # its backward is called with zeros, or with None
    _function: type[_SingleLevelFunction]

    def __init__(self) -> None:
        super().__init__((), ())
        self._saved: Any = ()
        self._in_jvp = False
        self._without_gradient: frozenset[int] = frozenset()  # outputs whose gradient stays None
        self._inputs: tuple[bool, ...] = ()  # for each argument of forward: is it a tensor

    def name(self) -> str:
        return type(self).__name__

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        if self._in_jvp:
            return self.saved_for_forward
        if self._saved is FREED:
            raise second_time()
        if not self._saved:
            return self.to_save  # forward or setup_context is still running
        return tuple(
            unpack_tensor(item, self) if number is None else unpack_output(item, self, number)
            for item, number in self._saved
        )

    @property
    def _raw_saved_tensors(self) -> tuple[SavedTensor, ...]:
        if self._saved is FREED:
            raise second_time()
        return tuple([raw(self, self._saved, i, number) for i, (_, number) in enumerate(self._saved)])

    @property
    def saved_variables(self) -> tuple[Any, ...]:
        warnings.warn(
            "'saved_variables' is deprecated; use 'saved_tensors'", DeprecationWarning, stacklevel=2
        )
        return self.saved_tensors

    def _keep(self, outputs: Sequence[Any]) -> None:
        """Save what save_for_backward was given, now that the outputs are known."""
        kept: list[tuple[Any, int | None]] = []
        for tensor in self.to_save:
            check(
                tensor is None or isinstance(tensor, Tensor),
                f"save_for_backward can only save variables, but argument is of type {type(tensor).__name__}",
                TypeError,
            )
            number = next(
                (i for i, output in enumerate(outputs) if output is tensor and tensor is not None), None
            )
            if number is not None and tensor._node is self:
                kept.append((save_output(tensor), number))
            else:
                kept.append((save_tensor(tensor), None))
        self._saved = kept
        self.to_save = ()

    def _release(self) -> None:
        if self._saved:
            self._saved = FREED

    def apply(self, *grads: Any) -> Any:
        """The engine calls it with a list of gradients, users with the gradients themselves."""
        if len(grads) == 2 and isinstance(grads[0], list):
            grads = tuple(grads[0])
        found = self._function._backward_function()(self, *self._materialized(grads))
        return self._checked(found if isinstance(found, tuple | list) else (found,))

    def _materialized(self, grads: Sequence[Any]) -> Sequence[Any]:
        """Gradients as `backward` gets them: zeros for those that are undefined, unless it takes None."""
        if not self.materialize_grads or all(grad is not None for grad in grads):
            return grads
        without = self._without_gradient
        return [
            zeros(meta)
            if grad is None and meta is not None and meta[1].is_differentiable and number not in without
            else grad
            for number, (grad, meta) in enumerate(zip(grads, self._meta, strict=True))
        ]

    def _checked(self, grads: Sequence[Any]) -> list[Any]:
        """One gradient per argument of forward; extra Nones at the end are allowed."""
        given, expected = len(grads), len(self._inputs)
        if given > expected and all(g is None for g in grads[expected:]):
            grads = grads[:expected]
        check(
            len(grads) == expected,
            f"function {self.name()} returned an incorrect number of gradients "
            f"(expected {expected}, got {given})",
        )
        for i, (grad, is_tensor) in enumerate(zip(grads, self._inputs, strict=True)):
            check(
                grad is None or is_tensor,
                f"function {self.name()} returned a gradient different than "
                f"None at position {i + 1}, but the corresponding forward input was not a Variable",
            )
            check(
                grad is None or isinstance(grad, Tensor),
                f"expected Variable or None (got {type(grad).__name__})",
                TypeError,
            )
        return [grad for grad, is_tensor in zip(grads, self._inputs, strict=True) if is_tensor]


class WrappedContext:
    """The context as the methods of a function see it that runs as part of another: tensors they save are
    unwrapped, with a note each on how to wrap them again when they are read.
    """

    def __init__(
        self,
        ctx: BackwardCFunction,
        unwrap: Callable[[Any], tuple[Any, Any]],
        wrap: Callable[[Any, Any], Any],
    ) -> None:
        self.__dict__.update(_ctx=ctx, _unwrap=unwrap, _wrap=wrap)

    def save_for_backward(self, *tensors: Any) -> None:
        unwrapped = [self._unwrap(t) for t in tensors]
        self._ctx.saved_notes = [note for _, note in unwrapped]
        self._ctx.save_for_backward(*[t for t, _ in unwrapped])

    def save_for_forward(self, *tensors: Any) -> None:
        unwrapped = [self._unwrap(t) for t in tensors]
        self._ctx.forward_notes = [note for _, note in unwrapped]
        self._ctx.save_for_forward(*[t for t, _ in unwrapped])

    def mark_non_differentiable(self, *tensors: Any) -> None:
        self._ctx.mark_non_differentiable(*[self._unwrap(t)[0] for t in tensors])

    def mark_dirty(self, *tensors: Any) -> None:
        self._ctx.mark_dirty(*[self._unwrap(t)[0] for t in tensors])

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        return tuple(map(self._wrap, self._ctx.saved_tensors, self._ctx.saved_notes))

    @property
    def saved_for_forward(self) -> tuple[Any, ...]:
        return tuple(map(self._wrap, self._ctx.saved_for_forward, self._ctx.forward_notes))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ctx, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._ctx, name, value)


class _FunctionMeta(type):
    """Gives each Function its own class of nodes."""

    def __init__(cls, name: str, bases: tuple[type, ...], fields: dict[str, Any]) -> None:
        super().__init__(name, bases, fields)
        cls._backward_cls = type(name + "Backward", (BackwardCFunction,), {"_function": cls})
        cls._generated_cls = type(
            name + "GeneratedBackward", (cls._backward_cls,), {}
        )  # inside of a transform


class _SingleLevelFunction(metaclass=_FunctionMeta):
    """A Function that runs at the level of its arguments, not level by level through the open transforms."""

    generate_vmap_rule = False
    _backward_cls: type[BackwardCFunction]
    _generated_cls: type[BackwardCFunction]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warnings.warn(
            f"{self.__class__} should not be instantiated: its methods are static, call "
            f"{type(self).__name__}.apply(...). This will become an error.",
            DeprecationWarning,
            stacklevel=2,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated: write "
            "static methods and call apply"
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("You must implement the forward method of a custom Function")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        raise NotImplementedError(
            "You must implement either the backward or the vjp method of a custom "
            "Function to use it with reverse mode"
        )

    vjp = backward

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        raise NotImplementedError(
            "You must implement the jvp function of a custom Function to use it with forward mode"
        )

    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any) -> Any:
        raise NotImplementedError(
            "to use a Function with vmap, give it a vmap staticmethod or set generate_vmap_rule = True"
        )

    @classmethod
    def _backward_function(cls) -> Callable[..., Any]:
        own, vjp = cls.backward is not _SingleLevelFunction.backward, cls.vjp is not _SingleLevelFunction.vjp
        check(
            not (own and vjp),
            "Implementing both 'backward' and 'vjp' for a custom Function is not allowed; keep one of them",
        )
        return cls.vjp if vjp else cls.backward

    @classmethod
    def _has_setup_context(cls) -> bool:
        return cls.setup_context is not _SingleLevelFunction.setup_context

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run `forward` and record that `backward` differentiates it."""
        return run(cls, _bound(cls, args, kwargs) if kwargs or cls._has_setup_context() else args)


class Function(_SingleLevelFunction):
    """Subclass it with static methods forward and backward, and call `apply`.

    >>> class Double(rl.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return 2 * x
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         return 2 * grad
    >>> x = rl.ones(1, requires_grad=True)
    >>> Double.apply(x).backward()
    >>> x.grad
    tensor([2.])
    """

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run `forward` and record that `backward` differentiates it."""
        check(
            not MODES.transforms or cls._has_setup_context(),
            f"In order to use the autograd.Function {cls.__name__} with transforms (vmap, grad, jvp, jacrev), it "
            "must override the setup_context staticmethod, and its forward take no context",
        )
        if kwargs or cls._has_setup_context():
            args = _bound(cls, args, kwargs)
        return cls._apply(args)

    @classmethod
    def _apply(cls, args: tuple[Any, ...]) -> Any:
        around = AMBIENT.trace
        if around is not None and around.takes_all:
            args = tuple([around.inside(a) for a in args])
        if any(isinstance(a, Tensor) and a._keys & TRACED for a in args) and _transform is not None:
            handled = _transform(cls, args)
            if handled is not NotImplemented:
                return handled
        return run(cls, args)


_transform: Callable[[type[Function], tuple[Any, ...]], Any] | None = None


def install_transform(handler: Callable[[type[Function], tuple[Any, ...]], Any]) -> None:
    """How vmap and nested tensors are treated; the handler returns NotImplemented for what it leaves."""
    global _transform
    _transform = handler


def _bound(cls: type[_SingleLevelFunction], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """Positional arguments with the defaults of forward filled in."""
    lead = () if cls._has_setup_context() else (None,)  # the context, which comes first in the older style
    bound = inspect.signature(cls.forward).bind(*lead, *args, **kwargs)
    bound.apply_defaults()
    check(
        not MODES.traces or not any(isinstance(value, Tensor) for value in bound.kwargs.values()),
        f"{cls.__name__}: vmap does not take an autograd.Function with kwarg-only Tensor args; make "
        f"{', '.join(bound.kwargs)} positional",
        NotImplementedError,
    )
    return (*bound.args[len(lead) :], *bound.kwargs.values())


def run(cls: type[_SingleLevelFunction], args: tuple[Any, ...]) -> Any:
    """Run forward outside of autograd, then give the outputs their history."""
    if MODES.watch is not None:
        MODES.watch(cls)
    ctx = cls._generated_cls() if MODES.transforms else cls._backward_cls()
    ctx._inputs = tuple(isinstance(a, Tensor) for a in args)
    ctx.needs_input_grad = tuple(isinstance(a, Tensor) and a.requires_grad for a in args)
    recorded = MODES.grad and True in ctx.needs_input_grad
    if recorded and MODES.silent:  # as operators of that level
        recorded = innermost([a for a in args if isinstance(a, Tensor)]) not in MODES.silent
    output = _outside(cls, ctx, args)
    outputs = output if isinstance(output, tuple) else (output,)
    finished = _finish(ctx, args, list(outputs), recorded)
    push_tangents(cls, ctx, args, finished)
    if recorded:
        ctx._keep(finished)
    return tuple(finished) if isinstance(output, tuple) else finished[0]


def _outside(cls: type[_SingleLevelFunction], ctx: BackwardCFunction, args: tuple[Any, ...]) -> Any:
    """Call forward (and setup_context) with recording switched off."""
    modes = MODES
    saved = modes.grad, modes.forward_grad
    modes.grad = modes.forward_grad = False
    try:
        if not cls._has_setup_context():
            return cls.forward(ctx, *args)
        output = cls.forward(*args)
        cls.setup_context(ctx, args, output)
        return output
    finally:
        modes.grad, modes.forward_grad = saved


def _finish(ctx: BackwardCFunction, args: tuple[Any, ...], outputs: list[Any], recorded: bool) -> list[Any]:
    """The outputs as the caller sees them, with `ctx` as the history of the differentiable ones."""
    inputs = [a for a in args if isinstance(a, Tensor)]
    for dirty in ctx.dirty_tensors:
        check(
            any(dirty is o for o in outputs),
            "Some elements marked as dirty during the forward method "
            "were not returned as output. forward must return every input that it writes to",
        )
        if not any(dirty is i for i in inputs):
            warnings.warn(
                "Only input Tensors should be given to ctx.mark_dirty(); a Tensor that is not an "
                "input needs no mark",
                stacklevel=4,
            )
        dirty.version_counter.value += 1
    if recorded:
        ctx._next = tuple(edge_of(a) if a._keys & AUTOGRAD else None for a in inputs)
    finished: list[Any] = []
    known = tuple([frozenset(map(id, some)) for some in (inputs, ctx.dirty_tensors, ctx.non_differentiable)])
    if not ctx._materialize_non_diff_grads:
        ctx._without_gradient = frozenset(i for i, o in enumerate(outputs) if id(o) in known[2])
    for output in outputs:
        if not isinstance(output, Tensor):
            finished.append(output)
            continue
        finished.append(_finish_one(ctx, output, known, recorded, len(finished), len(outputs)))
    ctx._meta = tuple(meta_of(o) if isinstance(o, Tensor) else _NOT_A_TENSOR for o in finished)
    return finished


_NOT_A_TENSOR: Any = None


def _finish_one(
    ctx: BackwardCFunction, output: Tensor, known: Sequence[Any], recorded: bool, number: int, count: int
) -> Tensor:
    """`known`: identities of the tensors that were given, of those written to, and of those without gradients."""
    is_input, is_dirty, refused = [id(output) in some for some in known]
    wanted = recorded and output.dtype.is_differentiable and not refused
    if not wanted:
        if output._base is not None and not is_input and MODES.grad and not MODES.inference:
            restrict_view(output, "custom")
        if is_input and not is_dirty:
            return output.detach() if recorded and output.requires_grad else _as_view(output)
        return output
    if is_dirty:
        return _written(ctx, output, number, count)
    if is_input:
        output = _as_view(output)
    elif output._base is not None:
        restrict_view(output, "custom")
    return _with_history(ctx, output, number)


def _as_view(tensor: Tensor) -> Tensor:
    """An input that was returned as it is: a view of it that must not be written through."""
    saved, MODES.grad = MODES.grad, False
    try:
        view = run_name("alias", tensor)
    finally:
        MODES.grad = saved
    if type(view) is not type(tensor) and type(view) is Tensor:
        view = view.as_subclass(type(tensor))
        vars(view).update({name: value for name, value in vars(tensor).items() if name not in vars(view)})
    restrict_view(view, "custom")
    return view


def _with_history(ctx: BackwardCFunction, output: Tensor, number: int) -> Tensor:
    output._node, output._output_nr = ctx, number
    output._requires_grad = False
    output._keys |= AUTOGRAD
    if output._base is not None:
        output._seen = output._base._node
    return output


def _written(ctx: BackwardCFunction, output: Tensor, number: int, count: int) -> Tensor:
    """An input that forward wrote to takes the function as its history."""
    base = output._base
    check(
        base is not None or not (output._requires_grad and output._node is None),
        "a leaf Variable that requires grad is being used in an in-place operation.",
    )
    if base is None:
        return _with_history(ctx, output, number)
    check(
        count == 1,
        "your Function modifies inplace an input that is a view of another Tensor: it cannot "
        "return more than one Tensor. Clone the input before the call, or split the Function "
        "in two: one that writes and returns the written tensor alone, and one for the rest.",
    )
    check(
        not (base._requires_grad and base._node is None),
        "a view of a leaf Variable that requires grad is being used in an in-place operation.",
    )
    edge: Edge = (ctx, number)
    slices = CopySlices(output, base, edge)
    base._node, base._output_nr = slices, 0
    base._keys |= AUTOGRAD
    return output


class InplaceFunction(Function):
    """A Function that remembers whether it was asked to write to its input."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


__all__ = ["Function", "FunctionCtx", "InplaceFunction", "once_differentiable"]
