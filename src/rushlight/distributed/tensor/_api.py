"""DTensor: one tensor of which each process of a mesh has a part, used like any other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..._api.link import empty, full, ones, zeros
from ...autograd.function import Function
from ...core.tensor import Tensor
from ...nn.modules.module import Module
from ...nn.parameter import Parameter
from .. import distributed_c10d as c10d
from . import _losses, _special
from ._dispatch import run
from ._layout import DTensorSpec, Placements, TensorMeta, contiguous, local_part, normalized, whole_of
from ._redistribute import redistribute_local
from .placement_types import Partial, Placement, Replicate

__all__ = ["DTensor", "distribute_module", "distribute_tensor"]


class DTensor(Tensor):
    """A tensor of the shape of the whole; this process holds `to_local()`. Made by `distribute_tensor`,
    `DTensor.from_local` and by operators on others."""

    _local_tensor: Tensor
    _spec_: DTensorSpec
    _has_graph = True  # captures see the operators on what processes hold

    @staticmethod
    def __new__(cls, local_tensor: Tensor, spec: DTensorSpec, *, requires_grad: bool = False) -> DTensor:
        made: DTensor = Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls,
            spec.shape,
            strides=spec.stride,
            dtype=local_tensor.dtype,
            device=local_tensor.device,
            requires_grad=requires_grad,
        )
        made._local_tensor, made._spec_ = local_tensor, spec
        return made

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return run(DTensor, func, args, kwargs or {})

    @property
    def device_mesh(self) -> Any:
        return self._spec_.mesh

    @property
    def placements(self) -> Placements:
        return self._spec_.placements

    def _holding(self, local: Tensor) -> DTensor:
        """A tensor placed like this one of which this process has `local`."""
        return DTensor(local, self._spec_)

    @staticmethod
    def from_local(
        local_tensor: Tensor,
        device_mesh: Any = None,
        placements: Sequence[Placement] | None = None,
        *,
        run_check: bool = False,
        shape: Any = None,
        stride: Any = None,
        grad_placements: Sequence[Placement] | None = None,
    ) -> DTensor:
        """The tensor of which each process has `local_tensor`. Pieces are all of one size unless `shape` says
        otherwise. Differentiable."""
        if isinstance(local_tensor, DTensor):
            raise RuntimeError("the local_tensor argument only accepts torch.Tensor but got DTensor")
        mesh = current_mesh(device_mesh)
        placed = normalized(placements, mesh, local_tensor.ndim)
        if (shape is None) != (stride is None):
            raise RuntimeError("Please pass both shape and stride at the same time.")
        if shape is None:
            shape, stride = whole_of(local_tensor, mesh, placed)
        if run_check:
            _check_same_shapes(local_tensor, mesh)
        spec = DTensorSpec(mesh, placed, TensorMeta(tuple(shape), tuple(stride), local_tensor.dtype))
        back = None if grad_placements is None else normalized(grad_placements, mesh, len(spec.shape))
        return _FromLocal.apply(local_tensor, spec, back)

    def to_local(self, *, grad_placements: Sequence[Placement] | None = None) -> Tensor:
        """What this process holds. Differentiable; the gradient is taken to be placed like this tensor, or as
        `grad_placements` says."""
        back = None if grad_placements is None else normalized(grad_placements, self.device_mesh, self.ndim)
        return _ToLocal.apply(self, back)

    def redistribute(
        self,
        device_mesh: Any = None,
        placements: Sequence[Placement] | None = None,
        *,
        async_op: bool = False,
    ) -> DTensor:
        """The same tensor with other placements. Differentiable."""
        mesh = self.device_mesh
        if device_mesh is not None and device_mesh != mesh:
            raise NotImplementedError("DTensor.redistribute: to another mesh is not available")
        if placements is None:
            raise RuntimeError("placements is needed for redistribute!")
        wanted = normalized(placements, mesh, self.ndim)
        if wanted == self.placements:
            return self
        if any(new.is_partial() and new != old for new, old in zip(wanted, self.placements, strict=True)):
            raise RuntimeError(
                "Can not redistribute to Partial, redistributing to Partial is for internal use only!"
            )
        return _Redistribute.apply(self, wanted)

    def full_tensor(self, *, grad_placements: Sequence[Placement] | None = None) -> Tensor:
        """The whole tensor, in each process."""
        whole = self.redistribute(placements=[Replicate()] * self.device_mesh.ndim)
        return whole.to_local(grad_placements=grad_placements)

    def numpy(self, *, force: bool = False) -> Any:
        raise RuntimeError("a DTensor has no memory of its own: use to_local() or full_tensor()")

    def tolist(self) -> Any:
        return self.full_tensor().tolist()

    def item(self) -> Any:
        return self.full_tensor().item()

    def __repr__(self) -> str:
        placed = ", ".join(map(str, self.placements))
        mesh = self.device_mesh
        return f"DTensor(local_tensor={self._local_tensor}, device_mesh={mesh}, placements=({placed}))"

    def __deepcopy__(self, memo: dict[int, Any]) -> DTensor:
        if id(self) not in memo:
            copy: Any = DTensor(self._local_tensor.detach().clone(), self._spec_)
            if getattr(self, "_is_param", False):
                copy = Parameter(copy, self.requires_grad)
            elif self.requires_grad:
                copy = copy.requires_grad_()
            memo[id(self)] = copy
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(
            "a DTensor cannot be pickled: it belongs to the processes of its mesh. "
            "rushlight.distributed.checkpoint "
            "saves it, and full_tensor() gives a plain tensor"
        )


_special.install(DTensor)
_losses.install(DTensor)


def current_mesh(mesh: Any) -> Any:
    if mesh is None:
        raise ValueError("a DTensor needs a device_mesh")
    return mesh


def _check_same_shapes(local: Tensor, mesh: Any) -> None:
    for dim in range(mesh.ndim):
        group = mesh.get_group(dim)
        shapes: list[Any] = [None] * mesh.size(dim)
        c10d.all_gather_object(shapes, (tuple(local.shape), local.dtype.name), group=group)
        if any(shape != shapes[0] for shape in shapes):
            raise RuntimeError(
                f"DTensor.from_local: processes have tensors of other shapes or dtypes: {shapes}"
            )


def _of_gradient(placements: Placements) -> Placements:
    """The gradient of what is partial is whole everywhere."""
    return tuple(Replicate() if placement.is_partial() else placement for placement in placements)


class _FromLocal(Function):
    @staticmethod
    def forward(ctx: Any, local: Tensor, spec: DTensorSpec, back: Placements | None) -> Any:
        ctx.placements = _of_gradient(spec.placements) if back is None else back
        return DTensor(local.view_as(local), spec)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return placed_local(grad, ctx.placements), None, None


class _ToLocal(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Any, back: Placements | None) -> Any:
        ctx.spec = tensor._spec_
        ctx.placements = _of_gradient(tensor.placements) if back is None else back
        local = tensor._local_tensor
        return local.view_as(local)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        spec = ctx.spec
        meta = TensorMeta(spec.shape, contiguous(spec.shape), grad.dtype)
        return DTensor(grad, DTensorSpec(spec.mesh, ctx.placements, meta)), None


class _Redistribute(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Any, placements: Placements) -> Any:
        ctx.placements = _of_gradient(tensor.placements)
        return placed(tensor, placements)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return placed(grad, ctx.placements), None


def placed_local(tensor: Any, placements: Placements) -> Tensor:
    """What this process holds of `tensor` with other placements; no history."""
    spec = tensor._spec_
    return redistribute_local(tensor._local_tensor, spec.shape, spec.mesh, spec.placements, placements)


def placed(tensor: Any, placements: Placements) -> DTensor:
    spec = tensor._spec_
    meta = TensorMeta(spec.shape, contiguous(spec.shape), spec.tensor_meta.dtype)
    return DTensor(placed_local(tensor, placements), DTensorSpec(spec.mesh, placements, meta))


def distribute_tensor(
    tensor: Tensor,
    device_mesh: Any = None,
    placements: Sequence[Placement] | None = None,
    *,
    src_data_rank: int | None = 0,
) -> DTensor:
    """`tensor`, of which process `src_data_rank` of each dimension of the mesh has the values that count, as a
    DTensor; None: each process keeps its part of its own tensor, without communication. A Parameter gives one."""
    mesh = current_mesh(device_mesh)
    if isinstance(tensor, DTensor):
        if tensor.device_mesh != mesh or tensor.placements != normalized(placements, mesh, tensor.ndim):
            raise ValueError("Cannot distribute a DTensor with other mesh or placements: use redistribute()")
        return tensor
    wanted = normalized(placements, mesh, tensor.ndim)
    local = tensor.detach()
    if src_data_rank is not None:
        local = local.contiguous().clone()
        for dim in range(mesh.ndim):
            c10d.broadcast(local, group=mesh.get_group(dim), group_src=src_data_rank)
    shape = tuple(tensor.shape)
    whole = (Replicate(),) * mesh.ndim
    local = redistribute_local(local, shape, mesh, whole, wanted)
    if local.shape == tensor.shape and src_data_rank is None:
        local = local.clone()
    meta = TensorMeta(shape, contiguous(shape), tensor.dtype)
    made: Any = DTensor(local, DTensorSpec(mesh, wanted, meta))
    if isinstance(tensor, Parameter):
        return Parameter(made, tensor.requires_grad)  # type: ignore[return-value]
    return made.requires_grad_() if tensor.requires_grad else made


def distribute_module(
    module: Module,
    device_mesh: Any = None,
    partition_fn: Callable[[str, Module, Any], None] | None = None,
    input_fn: Callable[..., Any] | None = None,
    output_fn: Callable[..., Any] | None = None,
) -> Module:
    """Make the parameters and buffers of `module` DTensors: as `partition_fn(name, module, mesh)` does, whole
    everywhere where it leaves them. `input_fn(module, inputs, mesh)` and `output_fn(module, outputs, mesh)` run
    before and after its forward."""
    mesh = current_mesh(device_mesh)
    for name, part in module.named_modules():
        if partition_fn is not None:
            partition_fn(name, part, mesh)
        _replicate(part, mesh)
    if input_fn is not None:
        module.register_forward_pre_hook(lambda m, inputs: input_fn(m, inputs, mesh))
    if output_fn is not None:
        module.register_forward_hook(lambda m, inputs, outputs: output_fn(m, outputs, mesh))
    return module


def _replicate(module: Module, mesh: Any) -> None:
    whole = [Replicate()] * mesh.ndim
    parameters: dict[str, Any] = module._parameters
    for name, parameter in list(parameters.items()):
        if parameter is not None and not isinstance(parameter, DTensor):
            module.register_parameter(name, replace_parameter(parameter, mesh, whole))
    for name, buffer in list(module._buffers.items()):
        if buffer is not None and not isinstance(buffer, DTensor):
            module._buffers[name] = distribute_tensor(buffer, mesh, whole)


def replace_parameter(
    parameter: Tensor, mesh: Any, placements: Sequence[Placement], source: int | None = 0
) -> Any:
    """A parameter as a DTensor, whose gradient is placed as it is."""
    made = distribute_tensor(parameter, mesh, placements, src_data_rank=source)
    if made.requires_grad:
        made.register_hook(_Placed(made.placements))
    return made


class _Placed:
    """A hook: gradients are placed like the parameter they belong to."""

    def __init__(self, placements: Placements) -> None:
        self.placements = placements

    def __call__(self, grad: Any) -> Any:
        return grad if grad.placements == self.placements else grad.redistribute(placements=self.placements)


def _factory(make: Callable[..., Tensor]) -> Callable[..., DTensor]:
    def made(*size: Any, device_mesh: Any = None, placements: Any = None, **options: Any) -> DTensor:
        shape = tuple(size[0]) if len(size) == 1 and isinstance(size[0], list | tuple) else size
        mesh = current_mesh(device_mesh)
        wanted = normalized(placements, mesh, len(shape))
        if any(isinstance(p, Partial) for p in wanted):
            raise ValueError("a new DTensor cannot be Partial")
        local = make(local_part(shape, mesh, wanted)[0], **options)
        meta = TensorMeta(shape, contiguous(shape), local.dtype)
        grad = options.get("requires_grad", False)
        return DTensor(local.detach(), DTensorSpec(mesh, wanted, meta), requires_grad=grad)

    made.__name__ = made.__qualname__ = make.__name__
    made.__doc__ = f"As `{make.__name__}`, distributed."
    return made


def _full(size: Any, *, fill_value: Any, **options: Any) -> Tensor:
    return full(size, fill_value, **options)


zeros_distributed, ones_distributed, empty_distributed = _factory(zeros), _factory(ones), _factory(empty)


def full_distributed(size: Sequence[int], fill_value: Any, **options: Any) -> DTensor:
    """As `full`, distributed."""
    return _factory(_full)(size, fill_value=fill_value, **options)
