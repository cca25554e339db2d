"""The parameters of one module that are gathered together.

Each process keeps a piece of each parameter, cut along its first dimension. Before the module runs one collective
gathers all of them, and one averages their gradients and gives each process its piece when the backward pass has
used them. What autograd saves of gathered parameters is a note of where it was: they are freed after the
forward pass and gathered again when the backward pass asks for them.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..._api.compiler import is_compiling
from ..._api.link import cat
from ...autograd.function import Function
from ...autograd.grad_mode import no_grad
from ...core.modes import MODES
from ...core.tensor import Tensor
from ...nn.modules.module import Module
from ...nn.parameter import Parameter
from .. import _results as results
from .. import distributed_c10d as c10d
from ..tensor._api import DTensor
from ..tensor._layout import DTensorSpec, TensorMeta, contiguous, piece
from ..tensor.placement_types import Placement, Replicate, Shard, _StridedShard
from ._policy import MixedPrecisionPolicy


@dataclass(eq=False)
class Sharded:
    """A parameter: its piece here, and the modules that have it."""

    name: str
    shard: Any  # the DTensor, a Parameter
    owners: list[tuple[Module, str]]
    inner: DTensorSpec | None  # how it lies where it is gathered, if it is a DTensor there, too
    shape: tuple[int, ...]  # of what is gathered
    step: int  # rows of a piece, but for the last ones
    row: int  # elements of a row

    @property
    def padded(self) -> int:
        return self.step * self.row


class ParameterGroup:
    """Parameters that are gathered and freed together."""

    def __init__(
        self,
        parameters: Sequence[tuple[str, Tensor, list[tuple[Module, str]]]],
        mesh: Any,
        policy: MixedPrecisionPolicy,
        reshard: bool,
    ) -> None:
        self.mesh, self.policy, self.reshard = mesh, policy, reshard
        self.dim = mesh.ndim - 1  # of the mesh, along which pieces are cut; one before it holds copies
        self.group = mesh.get_group(self.dim)
        self.parts, self.index = mesh.size(self.dim), mesh.get_coordinate()[self.dim]
        self.sync = True
        self.gathered: list[Tensor] | None = None  # whole parameters, while they are needed
        self.work: Any = None  # a gathering that is under way, and its result
        self.pending: list[Tensor | None] = []  # gradients that were not averaged yet
        self.next_forward: list[ParameterGroup] = []  # gathered while this one is in use
        self.next_backward: list[ParameterGroup] = []
        self.sharded = [self._shard(*given) for given in parameters]
        self.dtype = policy.param_dtype or (self.sharded[0].shard.dtype if self.sharded else None)

    def _shard(self, name: str, parameter: Tensor, owners: list[tuple[Module, str]]) -> Sharded:
        inner = parameter._spec_ if isinstance(parameter, DTensor) else None
        whole = parameter._local_tensor if isinstance(parameter, DTensor) else parameter
        shape = tuple(whole.shape) or (1,)
        begin, size = piece(shape[0], self.parts, self.index)
        local = whole.detach().reshape(shape).narrow(0, begin, size).clone()
        made: Any = Parameter(DTensor(local, self._spec(name, parameter, inner)), parameter.requires_grad)
        for module, attribute in owners:
            module._parameters[attribute] = made
        row = whole.numel() // shape[0] if shape[0] else 0
        return Sharded(name, made, owners, inner, tuple(whole.shape), -(-shape[0] // self.parts), row)

    def _spec(self, name: str, parameter: Tensor, inner: DTensorSpec | None) -> DTensorSpec:
        """How the pieces lie: cut along the first dimension, after what tensor parallelism has cut."""
        shape = tuple(parameter.shape) or (1,)
        meta = TensorMeta(shape, contiguous(shape), parameter.dtype)
        copies: list[Placement] = [Replicate()] * self.dim
        if inner is None:
            return DTensorSpec(self.mesh, (*copies, Shard(0)), meta)
        if any(placement.is_partial() for placement in inner.placements):
            raise ValueError(
                f"fully_shard: the parameter {name} is {inner.placements}, and not all of it is there"
            )
        cuts = [inner.mesh.size(dim) for dim, p in enumerate(inner.placements) if p.is_shard(0)]
        own = _StridedShard(0, split_factor=math.prod(cuts)) if cuts else Shard(0)
        return DTensorSpec(_joined_mesh(self.mesh, inner.mesh), (*copies, own, *inner.placements), meta)

    # Gathering.

    def _flat(self) -> Tensor:
        """The pieces here, one after the other, each as long as the longest."""
        rows = []
        for each in self.sharded:
            local = each.shard._local_tensor.detach().reshape(-1)
            rows.append(local if local.dtype is self.dtype else local.to(self.dtype))
            missing = each.padded - local.numel()
            if missing:
                rows.append(local.new_zeros(missing, dtype=self.dtype))
        return cat(rows) if len(rows) > 1 else rows[0]

    def _whole(self, flat: Tensor) -> list[Tensor]:
        """Parameters out of what all processes sent."""
        table, offset, found = flat.view(self.parts, -1), 0, []
        for each in self.sharded:
            rows = table.narrow(1, offset, each.padded).reshape(self.parts * each.step, *each.shape[1:])
            length = each.shape[0] if each.shape else 1
            if rows.shape[0] != length:
                rows = rows.narrow(0, 0, length).contiguous()
            elif len(self.sharded) == 1:
                rows = rows.clone() if self.parts == 1 else rows
            found.append(rows.view(each.shape))
            offset += each.padded
        return found

    def begin_gathering(self) -> None:
        """Start to gather, if that has not been done."""
        if self.gathered is None and self.work is None and self.sharded and not is_compiling():
            with no_grad():
                flat = self._flat()
                result = flat.new_empty(self.parts * flat.numel())
                self.work = c10d.all_gather_into_tensor(result, flat, group=self.group, async_op=True), result

    def gather(self) -> list[Tensor]:
        """The whole parameters."""
        if is_compiling():
            return self._whole(results.all_gather(self._flat(), 0, self.group))
        if self.gathered is None:
            self.begin_gathering()
            work, result = self.work
            work.wait()
            with no_grad():
                self.gathered = self._whole(result)
            self.work = None
            _ACTIVE.append(weakref.ref(self))
        return self.gathered

    def free(self) -> None:
        if self.gathered is not None:
            self.gathered = None
            _ACTIVE[:] = [ref for ref in _ACTIVE if ref() is not None and ref() is not self]

    # In modules.

    def unshard(self) -> None:
        """Put whole parameters into the modules."""
        if not self.sharded:
            return
        recorded = MODES.grad and any(each.shard.requires_grad for each in self.sharded)
        whole = _Gather.apply(self, *[each.shard for each in self.sharded]) if recorded else self.gather()
        for each, tensor in zip(self.sharded, whole, strict=True):
            if each.inner is not None:
                tensor = _placed(tensor, each.inner)
            for module, attribute in each.owners:
                module._parameters[attribute] = tensor

    def take_back(self) -> None:
        """Put the pieces into the modules."""
        for each in self.sharded:
            for module, attribute in each.owners:
                module._parameters[attribute] = each.shard

    # Gradients.

    def averaged(self, grads: Sequence[Tensor | None]) -> list[Any]:
        """The pieces here of the averages of gradients, as DTensors."""
        if self.pending:
            grads = [_sum(one, two) for one, two in zip(self.pending, grads, strict=True)]
            self.pending = []
        if not self.sync:
            self.pending = list(grads)
            return [None] * len(grads)
        dtype = self.policy.reduce_dtype or self.dtype
        rows = []
        for each, grad in zip(self.sharded, grads, strict=True):
            size = self.parts * each.padded
            flat = (
                each.shard._local_tensor.new_zeros(size, dtype=dtype)
                if grad is None
                else grad.detach().reshape(-1)
            )
            flat = flat if flat.dtype is dtype else flat.to(dtype)
            if flat.numel() < size:
                flat = cat([flat, flat.new_zeros(size - flat.numel())])
            rows.append(flat.view(self.parts, each.padded))
        table = cat(rows, 1) if len(rows) > 1 else rows[0]
        mine = results.reduce_scatter(table.reshape(-1), "avg", 0, self.group)
        if self.dim:
            mine = results.all_reduce(mine, "avg", self.mesh.get_group(0))
        return self._pieces(mine, grads)

    def _pieces(self, flat: Tensor, grads: Sequence[Tensor | None]) -> list[Any]:
        offset, found = 0, []
        for each, grad in zip(self.sharded, grads, strict=True):
            local = each.shard._local_tensor
            own = flat.narrow(0, offset, local.numel()).view(tuple(local.shape))
            if own.dtype is not local.dtype:
                own = own.to(local.dtype)
            elif not is_compiling():  # in a graph, a copy would be made, and waited for, at once
                own = own.clone()
            found.append(
                None if grad is None or not each.shard.requires_grad else DTensor(own, each.shard._spec_)
            )
            offset += each.padded
        return found


def _joined_mesh(outer: Any, inner: Any) -> Any:
    """The mesh of the dimensions of both, which are parts of one mesh, in this order."""
    root = outer._get_root_mesh()
    names = (outer.mesh_dim_names or (), inner.mesh_dim_names or ())
    if root != inner._get_root_mesh() or not all(names):
        raise ValueError(
            "fully_shard: parameters that are DTensors lie on another mesh, and both meshes have to be parts of "
            f"one (mesh['dp'] and mesh['tp']), not {outer} and {inner}"
        )
    return root[(*names[0], *names[1])]


def _placed(tensor: Tensor, spec: DTensorSpec) -> Any:
    """A gathered parameter as a DTensor; its gradient is placed as it is."""
    stride = spec.tensor_meta.stride
    return DTensor.from_local(tensor, spec.mesh, spec.placements, shape=spec.shape, stride=stride)


def _sum(first: Tensor | None, second: Tensor | None) -> Tensor | None:
    return second if first is None else first if second is None else first + second


class _Gather(Function):
    """From pieces to whole parameters; backwards from gradients to pieces of averages."""

    @staticmethod
    def forward(ctx: Any, group: ParameterGroup, *shards: Any) -> Any:
        ctx.group = group
        ctx.set_materialize_grads(False)
        return tuple(tensor.view_as(tensor) for tensor in group.gather())

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        group: ParameterGroup = ctx.group
        if not is_compiling():
            group.free()
        with no_grad():
            return (None, *group.averaged(grads))


# What autograd saves.

_ACTIVE: list[weakref.ref[ParameterGroup]] = []  # groups whose parameters are gathered now


@dataclass(frozen=True)
class Note:
    """In place of a tensor over a gathered parameter."""

    group: ParameterGroup
    number: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int  # in elements, from where the parameter begins


@dataclass(frozen=True)
class PlacedNote:
    """In place of a DTensor of which that is what this process has."""

    note: Note
    spec: DTensorSpec


def pack(tensor: Tensor) -> Any:
    """A note, if `tensor` lies in the memory of a gathered parameter that is to be freed."""
    if isinstance(tensor, DTensor):
        found = pack(tensor._local_tensor)
        return PlacedNote(found, tensor._spec_) if isinstance(found, Note) else tensor
    if (
        type(tensor) is not Tensor
        or tensor._array is None
        or tensor._conj
        or tensor._neg
        or not tensor.numel()
    ):
        return tensor
    place = tensor.data_ptr()
    for reference in _ACTIVE:
        group = reference()
        if group is None or not group.reshard or group.gathered is None:
            continue
        for number, whole in enumerate(group.gathered):
            begin = whole.data_ptr()
            if begin <= place < begin + whole.numel() * whole.itemsize and whole.dtype is tensor.dtype:
                offset = (place - begin) // whole.itemsize
                return Note(group, number, tuple(tensor.shape), tuple(tensor.strides()), offset)
    return tensor


def unpack(packed: Any) -> Tensor:
    if isinstance(packed, PlacedNote):
        return DTensor(unpack(packed.note), packed.spec)
    if not isinstance(packed, Note):
        return packed
    group = packed.group
    if group.gathered is None:
        whole = group.gather()[packed.number]
        if MODES.run is not None:
            MODES.run.callbacks.append(group.free)
        for other in group.next_backward:
            other.begin_gathering()
    else:
        whole = group.gathered[packed.number]
    with no_grad():
        return whole.as_strided(packed.shape, packed.strides, whole.storage_offset() + packed.offset)
