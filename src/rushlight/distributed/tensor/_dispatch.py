"""Running an operator on distributed tensors: the rule says which placements it takes, arguments are
redistributed
to them, each process runs the operator on what it has, and the results are distributed tensors again.

What the rule says is remembered by the operator, the layouts of its tensors and its other arguments.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

from ...capture.rewrites import is_live
from ...core.aten import FUNCTIONAL, INPLACE, OpOverload, overload
from ...core.dispatch import AMBIENT
from ...core.modes import MODES
from ...core.pytree import flatten
from ...core.registry import REGISTRY
from ...core.shapes import Spec
from ...core.tensor import Tensor, meta_tensor
from . import _view_rules  # noqa: F401  rules of views
from ._layout import DTensorSpec, Placements, TensorMeta, local_part
from ._redistribute import redistribute_local
from ._rules import Call, replicated, rule_of
from .placement_types import Replicate

# What operators do that no rule can say: func(dispatch, func, args, kwargs) -> result, by name.
SPECIAL: dict[str, Callable[[OpOverload, Any, Any], Any]] = {}
# Operators that are told the shape of the result.
_SIZED = frozenset(("view", "_unsafe_view", "reshape", "expand"))
_told: set[str] = set()
_replicating: ContextVar[bool] = ContextVar("_replicating", default=False)


def special(*names: str) -> Callable[[Any], Any]:
    def declare(function: Any) -> Any:
        for name in names:
            SPECIAL[name] = function
        return function

    return declare


@dataclass(frozen=True)
class Plan:
    """What is done for one kind of call, on any mesh that is equal: placements of arguments, and of results."""

    inputs: tuple[Placements, ...]
    outputs: tuple[tuple[Placements, TensorMeta], ...]


_plans: dict[Any, Plan] = {}
_MOST_PLANS = 4096


def run(kind: Any, func: OpOverload, args: Any, kwargs: dict[str, Any], by_rule: bool = False) -> Any:
    """`func` with tensors of the class `kind`, DTensor, among its arguments; if `by_rule`, also one of
    SPECIAL."""
    name = func.schema.name.rstrip("_") if func.form == INPLACE else func.schema.name
    if func.form not in (FUNCTIONAL, INPLACE):
        raise NotImplementedError(f"{func.name()}: out= is not available for DTensors")
    handler = SPECIAL.get(name)
    if handler is not None and not by_rule:
        return handler(func, args, kwargs)
    if name.startswith("_foreach_"):
        return _run_lists(kind, func, args, kwargs)
    leaves, structure = flatten((args, kwargs))
    at = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
    mesh = next(leaves[i].device_mesh for i in at if isinstance(leaves[i], kind))
    tensors = [as_distributed(kind, leaves[i], mesh, func) for i in at]
    live = any(map(is_live, leaves))
    plain = [leaf.value if is_live(leaf) else leaf for leaf in leaves] if live else leaves
    plan = _plan(func, name, plain, structure, at, tensors)
    if live:
        func = _with_number(func)
    local = list(leaves)
    for i, tensor, wanted in zip(at, tensors, plan.inputs, strict=True):
        spec = tensor._spec_
        local[i] = redistribute_local(tensor._local_tensor, spec.shape, mesh, spec.placements, wanted)
    given, named = structure.unflatten(local)
    if name in _SIZED:
        placements, meta = plan.outputs[0]
        size, _ = local_part(meta.shape, mesh, placements)
        # what is here may lie in memory in another order than the whole is said to
        result = given[0].expand(size) if name == "expand" else given[0].reshape(size)
    else:
        result = func(*given, **named)
    if func.form == INPLACE:
        return args[0]
    return _wrapped(kind, result, [DTensorSpec(mesh, *placed) for placed in plan.outputs])


def _with_number(func: OpOverload) -> OpOverload:
    """The overload that takes a number, for one that is told of it in the place of a tensor."""
    schema = func.op.schema
    other = f"{schema.name}.Scalar"
    return overload(REGISTRY[other], func.form) if schema.overload == "Tensor" and other in REGISTRY else func


def as_distributed(kind: Any, tensor: Tensor, mesh: Any, func: OpOverload) -> Any:
    """A DTensor, also for a tensor of one element, which every process is taken to have."""
    if isinstance(tensor, kind):
        if tensor.device_mesh != mesh:
            raise ValueError(f"{func.name()}: DTensors on different meshes")
        return tensor
    if tensor.ndim == 0 or tensor.numel() == 1 or _replicating.get():
        return kind(tensor, replicated_spec(mesh, tensor))
    raise RuntimeError(
        f"{func.name()}: got mixed torch.Tensor and DTensor, need to convert all torch.Tensor to DTensor "
        "before calling distributed operators!"
    )


@contextmanager
def implicit_replication() -> Iterator[None]:
    """Within it a tensor that meets a DTensor is taken to be the same in every process.

    >>> with rl.distributed.tensor.experimental.implicit_replication():
    ...     print(rl.ones(2) + 1)
    tensor([2., 2.])
    """
    token = _replicating.set(True)
    try:
        yield
    finally:
        _replicating.reset(token)


def replicated_spec(mesh: Any, tensor: Tensor) -> DTensorSpec:
    meta = TensorMeta(tuple(tensor.shape), tuple(tensor.strides()), tensor.dtype)
    return DTensorSpec(mesh, (Replicate(),) * mesh.ndim, meta)


def _wrapped(kind: Any, result: Any, specs: Sequence[DTensorSpec]) -> Any:
    if isinstance(result, Tensor):
        return kind(result, specs[0])
    if not isinstance(result, tuple | list):
        return result
    return type(result)([kind(part, spec) for part, spec in zip(result, specs, strict=True)])


def _plan(
    func: OpOverload, name: str, leaves: list[Any], structure: Any, at: list[int], tensors: list[Any]
) -> Plan:
    others = tuple((type(leaf), leaf) for leaf in leaves if not isinstance(leaf, Tensor))
    key: Any = (func, tuple(at), tuple(t._spec_ for t in tensors), others, repr(structure))
    try:
        found = _plans.get(key)
    except TypeError:  # an argument that cannot be looked up
        key = found = None
    if found is None:
        found = _make_plan(func, name, leaves, structure, at, tensors)
        if key is not None:
            if len(_plans) >= _MOST_PLANS:
                _plans.clear()
            _plans[key] = found
    return found


def _make_plan(
    func: OpOverload, name: str, leaves: list[Any], structure: Any, at: list[int], tensors: list[Any]
) -> Plan:
    mesh = tensors[0].device_mesh
    metas = list(leaves)
    for i, tensor in zip(at, tensors, strict=True):
        meta = tensor._spec_.tensor_meta
        metas[i] = meta_tensor(Spec(meta.shape, meta.dtype, meta.stride))
    with outside_of_captures():
        made = func(*(whole := structure.unflatten(metas))[0], **whole[1])
    results = [made] if isinstance(made, Tensor) else [r for r in made or () if isinstance(r, Tensor)]
    out = [TensorMeta(tuple(r.shape), tuple(r.strides()), r.dtype) for r in results]
    call = Call(
        func.op,
        name,
        func.form == INPLACE,
        tuple(t._spec_.shape for t in tensors),
        _named_values(func, *structure.unflatten(metas)),
        tuple(meta.shape for meta in out),
    )
    rule = rule_of(func.op, name)
    if rule is None:
        if any(not p.is_replicate() for t in tensors for p in t.placements):
            tell_once(func)
        rule = replicated
    inputs: list[tuple[Any, ...]] = []
    outputs: list[tuple[Any, ...]] = []
    for dim in range(mesh.ndim):
        places = tuple(t.placements[dim] for t in tensors)
        given, made_of = rule(replace(call, parts=mesh.size(dim)), places)
        inputs.append(given)
        outputs.append(made_of)
    return Plan(tuple(zip(*inputs, strict=True)), tuple(zip(zip(*outputs, strict=True), out, strict=True)))


def _named_values(func: OpOverload, args: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments by name, with defaults."""
    found: dict[str, Any] = {
        argument.name: argument.default
        for argument in func.schema.arguments
        if isinstance(argument.default, int | float | str | tuple | bool)
    }
    found.update(zip(func.schema.argument_names, args, strict=False))
    found.update(kwargs)
    return {key: tuple(value) if isinstance(value, list) else value for key, value in found.items()}


def tell_once(func: OpOverload) -> None:
    """Say that an operator gathers whole tensors."""
    if func.name() not in _told:
        _told.add(func.name())
        warnings.warn(
            f"DTensor: {func.name()} has no rule of sharding; its arguments are gathered, and each "
            f"process computes "
            "all of it",
            stacklevel=2,
        )


@contextmanager
def outside_of_captures() -> Iterator[None]:
    """What runs inside is not recorded."""
    saved = AMBIENT.keys, AMBIENT.trace, MODES.dispatchers
    AMBIENT.keys, AMBIENT.trace, MODES.dispatchers = 0, None, ()
    try:
        yield
    finally:
        AMBIENT.keys, AMBIENT.trace, MODES.dispatchers = saved


# Operators on lists of tensors, as optimizers have them: element by element, each where the first one lies.


def _run_lists(kind: Any, func: OpOverload, args: Any, kwargs: dict[str, Any]) -> Any:
    lists = [i for i, a in enumerate(args) if isinstance(a, list | tuple) and a and isinstance(a[0], Tensor)]
    first = args[lists[0]]
    specs = [tensor._spec_ if isinstance(tensor, kind) else None for tensor in first]
    name = func.schema.name
    for position, spec in enumerate(specs):
        if spec is not None and any(p.is_partial() for p in spec.placements):
            if func.form == INPLACE and not name.startswith(("_foreach_mul", "_foreach_div")):
                raise RuntimeError(f"{name} in place on a DTensor that is partial: redistribute() it first")
            if func.form != INPLACE:
                specs[position] = replace(spec, placements=_whole(spec.placements))

    def placed(tensor: Tensor, spec: DTensorSpec | None) -> Tensor:
        if not isinstance(tensor, kind):
            if spec is not None and tensor.ndim:
                raise RuntimeError(f"{name}: got mixed torch.Tensor and DTensor")
            return tensor
        own = tensor._spec_
        wanted = _whole(own.placements) if spec is None or not tensor.ndim else spec.placements
        return redistribute_local(tensor._local_tensor, own.shape, own.mesh, own.placements, wanted)

    given = [
        [placed(tensor, spec) for tensor, spec in zip(a, specs, strict=True)]
        if i in lists
        else placed(a, None)
        if isinstance(a, Tensor)
        else a
        for i, a in enumerate(args)
    ]
    named = {k: placed(v, None) if isinstance(v, Tensor) else v for k, v in kwargs.items()}
    result = func(*given, **named)
    if func.form == INPLACE or result is None:
        return None
    return type(result)(
        [
            part
            if spec is None
            else kind(part, replace(spec, tensor_meta=replace(_scalar_or_same(part, spec), dtype=part.dtype)))
            for part, spec in zip(result, specs, strict=True)
        ]
    )


def _scalar_or_same(part: Tensor, spec: DTensorSpec) -> TensorMeta:
    return spec.tensor_meta if part.ndim == spec.ndim else TensorMeta((), (), part.dtype)


def _whole(placements: Placements) -> Placements:
    return tuple(Replicate() if p.is_partial() else p for p in placements)
