"""Cross entropy of logits of which each process has some classes: `loss_parallel`.

What is exchanged are three numbers for each row, where a gather would send all of its logits: the largest logit,
the sum of exponentials, and the logit of the right class. One dimension of the mesh shards the classes; others
may shard the rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

from ...core.aten import OpOverload
from ...core.dtypes import DTYPES
from ...core.tensor import Tensor
from .. import _results as results
from ._dispatch import SPECIAL, as_distributed, implicit_replication, run
from ._layout import DTensorSpec, Placements, TensorMeta, contiguous, local_part
from ._redistribute import redistribute_local
from .placement_types import Replicate, Shard

_parallel: ContextVar[bool] = ContextVar("_parallel", default=False)
_NONE, _MEAN = 0, 1  # of reduction


@contextmanager
def loss_parallel() -> Iterator[None]:
    """Within it `nn.functional.cross_entropy` of a DTensor that is sharded along its classes does not gather it.

    Targets are numbers of classes, as a tensor that is whole in each process or a DTensor; results are whole, but
    those of `reduction="none"` where other dimensions of the mesh cut the rows.

    >>> from rushlight.distributed.tensor.parallel import loss_parallel
    >>> with loss_parallel():
    ...     print(nn.functional.cross_entropy(rl.zeros(1, 2), rl.tensor([1])))
    tensor(0.6931)
    """
    token = _parallel.set(True)
    try:
        yield
    finally:
        _parallel.reset(token)


class _Cut(NamedTuple):
    """How the class dimension is cut: along which dimension of the mesh, and what this process has of it."""

    spec: DTensorSpec
    dim: int
    along: int
    begin: int
    size: int

    @property
    def group(self) -> Any:
        return self.spec.mesh.get_group(self.along)

    def rows(self) -> Placements:
        """Placements of what has no class dimension."""
        shifted = [
            p.along(p.dim - (p.dim > self.dim)) if isinstance(p, Shard) else p for p in self.spec.placements
        ]
        shifted[self.along] = Replicate()
        return tuple(shifted)

    def row_groups(self) -> list[Any]:
        """The groups of processes that have other rows."""
        mesh = self.spec.mesh
        return [mesh.get_group(dim) for dim, p in enumerate(self.rows()) if isinstance(p, Shard)]


def _cut(tensor: Any, dim: int, kind: Any) -> _Cut | None:
    """How `dim` of a DTensor is cut, if it is by one dimension of the mesh and nothing is partial."""
    if not isinstance(tensor, kind):
        return None
    spec: DTensorSpec = tensor._spec_
    dim %= max(1, spec.ndim)
    found = [at for at, placement in enumerate(spec.placements) if placement.is_shard(dim)]
    if len(found) != 1 or any(p.is_partial() for p in spec.placements):
        return None
    sizes, offsets = local_part(spec.shape, spec.mesh, spec.placements)
    return _Cut(spec, dim, found[0], offsets[dim], sizes[dim])


def _placed(tensor: Any, placements: Placements, kind: Any, cut: _Cut, func: OpOverload) -> Tensor:
    """What this process has of `tensor`, which may be a plain one if it is to be whole everywhere."""
    if not isinstance(tensor, kind):
        if not all(p.is_replicate() for p in placements):
            raise RuntimeError(
                f"{func.name()}: rows are sharded as {placements}: give the target as a DTensor that is "
                "placed so, not as a torch.Tensor"
            )
        with implicit_replication():
            tensor = as_distributed(kind, tensor, cut.spec.mesh, func)
    spec = tensor._spec_
    return redistribute_local(tensor._local_tensor, spec.shape, spec.mesh, spec.placements, placements)


def install(kind: Any) -> None:
    """Declare the operators of cross entropy for the class DTensor."""

    def log_softmax(func: OpOverload, args: Any, kwargs: Any) -> Any:
        tensor, dim, to_float = args
        cut = _cut(tensor, dim, kind) if _parallel.get() else None
        if cut is None:
            return run(kind, func, args, kwargs, by_rule=True)
        local = tensor._local_tensor
        exact = local.float() if local.dtype.itemsize == 2 else local
        lowest = exact.new_full(
            [1 if at == cut.dim else n for at, n in enumerate(local.shape)], -float("inf")
        )
        largest = exact.amax(cut.dim, keepdim=True) if cut.size else lowest
        shifted = exact - results.all_reduce(largest, "max", cut.group)
        total = results.all_reduce(shifted.exp().sum(cut.dim, keepdim=True), "sum", cut.group)
        made = (shifted - total.log()).to(DTYPES["float32"] if to_float else local.dtype)
        meta = TensorMeta(cut.spec.shape, contiguous(cut.spec.shape), made.dtype)
        return kind(made, DTensorSpec(cut.spec.mesh, cut.spec.placements, meta))

    def log_softmax_backward(func: OpOverload, args: Any, kwargs: Any) -> Any:
        grad, output, dim, dtype = args
        cut = _cut(output, dim, kind)
        if cut is None:
            return run(kind, func, args, kwargs, by_rule=True)
        grad = _placed(grad, cut.spec.placements, kind, cut, func)
        total = results.all_reduce(grad.sum(cut.dim, keepdim=True), "sum", cut.group)
        made = (grad - output._local_tensor.exp() * total).to(dtype)
        meta = TensorMeta(cut.spec.shape, contiguous(cut.spec.shape), dtype)
        return kind(made, DTensorSpec(cut.spec.mesh, cut.spec.placements, meta))

    SPECIAL.update({"_log_softmax": log_softmax, "_log_softmax_backward_data": log_softmax_backward})
    for name in ("nll_loss", "nll_loss2d"):
        SPECIAL[f"{name}_forward"] = _forward(kind)
        SPECIAL[f"{name}_backward"] = _backward(kind)


class _Rows(NamedTuple):
    """Of each row here: its weight, where its class is in this process's part, and whether it is there."""

    weight: Tensor
    at: Tensor
    here: Tensor


def _rows(kind: Any, func: OpOverload, cut: _Cut, local: Tensor, given: Any) -> _Rows:
    target, weight, _, ignored = given
    classes = _placed(target, cut.rows(), kind, cut, func)
    whole = (Replicate(),) * cut.spec.mesh.ndim
    count = cut.spec.shape[cut.dim]
    weights = local.new_ones((count,)) if weight is None else _placed(weight, whole, kind, cut, func)
    counts = classes != ignored
    known = classes.masked_fill(~counts, 0)
    # looking up the weight of each class checks that there is such a class
    found = weights.index_select(0, known.reshape(-1)).reshape(known.shape).masked_fill(~counts, 0.0)
    at = known - cut.begin
    here = (at >= 0) & (at < cut.size) & counts
    return _Rows(found, at.masked_fill(~here, 0).unsqueeze(cut.dim), here)


def _class_dim(tensor: Any) -> int:
    return 1 if tensor.ndim > 1 else 0


def _forward(kind: Any) -> Any:
    def nll_loss_forward(func: OpOverload, args: Any, kwargs: Any) -> Any:
        """The loss, and the sum of the weights of its rows."""
        tensor, *given = args
        cut = _cut(tensor, _class_dim(tensor), kind)
        if cut is None:
            return run(kind, func, args, kwargs, by_rule=True)
        local, reduction = tensor._local_tensor, given[2]
        rows = _rows(kind, func, cut, local, given)
        if cut.size:
            chosen = local.gather(cut.dim, rows.at).squeeze(cut.dim).masked_fill(~rows.here, 0.0)
        else:
            chosen = local.new_zeros(rows.here.shape)
        loss = -results.all_reduce(chosen, "sum", cut.group) * rows.weight
        total, placements = local.new_zeros(()), cut.rows()
        shape = tuple(n for at, n in enumerate(cut.spec.shape) if at != cut.dim)
        if reduction != _NONE:
            loss, total = loss.sum(), rows.weight.sum()
            for group in cut.row_groups():
                loss, total = (results.all_reduce(part, "sum", group) for part in (loss, total))
            loss = loss / total if reduction == _MEAN else loss
            placements, shape = (Replicate(),) * cut.spec.mesh.ndim, ()
        whole = DTensorSpec(
            cut.spec.mesh, (Replicate(),) * cut.spec.mesh.ndim, TensorMeta((), (), total.dtype)
        )
        placed = DTensorSpec(cut.spec.mesh, placements, TensorMeta(shape, contiguous(shape), loss.dtype))
        return kind(loss, placed), kind(total, whole)

    return nll_loss_forward


def _backward(kind: Any) -> Any:
    def nll_loss_backward(func: OpOverload, args: Any, kwargs: Any) -> Any:
        grad, tensor, *given, total = args
        cut = _cut(tensor, _class_dim(tensor), kind)
        if cut is None:
            return run(kind, func, args, kwargs, by_rule=True)
        local, reduction = tensor._local_tensor, given[2]
        rows = _rows(kind, func, cut, local, given)
        whole = (Replicate(),) * cut.spec.mesh.ndim
        scale = _placed(grad, cut.rows() if reduction == _NONE else whole, kind, cut, func)
        if reduction == _MEAN:
            scale = scale / _placed(total, whole, kind, cut, func)
        made = local.new_zeros(local.shape)
        if cut.size:
            values = (-rows.weight * scale).masked_fill(~rows.here, 0.0)
            made = made.scatter(cut.dim, rows.at, values.unsqueeze(cut.dim))
        meta = TensorMeta(cut.spec.shape, contiguous(cut.spec.shape), made.dtype)
        return kind(made, DTensorSpec(cut.spec.mesh, cut.spec.placements, meta))

    return nll_loss_backward
