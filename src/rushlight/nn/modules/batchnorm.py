"""Batch normalization."""

from __future__ import annotations

from typing import Any

from ...core.construct import tensor
from ...core.dtypes import int64
from ...core.errors import check
from ...core.tensor import Tensor
from .. import init
from ..parameter import UninitializedBuffer, UninitializedParameter
from ._simple import F, functions, new_parameter
from .lazy import LazyModuleMixin
from .module import Module

__all__ = [
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "LazyBatchNorm1d",
    "LazyBatchNorm2d",
    "LazyBatchNorm3d",
    "SyncBatchNorm",
]


class _NormBase(Module):
    """A scale and a shift for each channel, and running statistics of each channel, all of which may be
    missing."""

    _version = 2
    _dims: tuple[int, ...] = ()  # how many dimensions an input may have

    weight: Any
    bias: Any
    running_mean: Any
    running_var: Any
    num_batches_tracked: Any

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-05,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        shape = (num_features,)
        self.register_parameter("weight", new_parameter(shape, device, dtype) if affine else None)
        self.register_parameter("bias", new_parameter(shape, device, dtype) if affine and bias else None)
        track = track_running_stats
        self.register_buffer(
            "running_mean", functions["zeros"](shape, device=device, dtype=dtype) if track else None
        )
        self.register_buffer(
            "running_var", functions["ones"](shape, device=device, dtype=dtype) if track else None
        )
        self.register_buffer("num_batches_tracked", tensor(0, dtype=int64, device=device) if track else None)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        self.reset_running_stats()
        if self.affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def _check_input_dim(self, input: Tensor) -> None:
        wanted = " or ".join(f"{dim}D" for dim in self._dims)
        check(input.ndim in self._dims, f"expected {wanted} input (got {input.ndim}D input)", ValueError)

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(self, state_dict: Any, prefix: str, local_metadata: Any, *rest: Any) -> None:
        version = local_metadata.get("version")
        if (
            version is None or version < 2
        ) and self.track_running_stats:  # written before batches were counted
            state_dict.setdefault(
                prefix + "num_batches_tracked",
                tensor(0, dtype=int64) if self.num_batches_tracked.is_meta else self.num_batches_tracked,
            )
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)


class _BatchNorm(_NormBase):
    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        momentum = 0.0 if self.momentum is None else self.momentum
        tracks = self.training and self.track_running_stats
        if tracks and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:  # a plain mean over all batches
                momentum = 1.0 / float(self.num_batches_tracked)
        by_batch = self.training or (self.running_mean is None and self.running_var is None)
        uses = tracks or not self.training
        return F.batch_norm(
            input,
            self.running_mean if uses else None,
            self.running_var if uses else None,
            self.weight,
            self.bias,
            by_batch,
            momentum,
            self.eps,
        )


class BatchNorm1d(_BatchNorm):
    """Batch normalization of input (N, C) or (N, C, L), with running statistics.

    >>> nn.BatchNorm1d(2)(rl.tensor([[1.0, 2.0], [3.0, 4.0]])).detach().round(decimals=3)
    tensor([[-1., -1.],
            [ 1.,  1.]])
    """

    _dims = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch normalization of input (N, C, H, W), with running statistics.

    >>> nn.BatchNorm2d(3)(rl.ones(2, 3, 4, 4)).shape
    rushlight.Size([2, 3, 4, 4])
    """

    _dims = (4,)


class BatchNorm3d(_BatchNorm):
    """Batch normalization of input (N, C, D, H, W), with running statistics.

    >>> nn.BatchNorm3d(3)(rl.ones(2, 3, 2, 2, 2)).shape
    rushlight.Size([2, 3, 2, 2, 2])
    """

    _dims = (5,)


class _LazyNormBase(LazyModuleMixin, _NormBase):
    """A normalization whose num_features is the number of channels of the first input."""

    def __init__(
        self,
        eps: float = 1e-05,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(0, eps, momentum, False, False, device, dtype, bias=False)
        self.affine = affine
        self.track_running_stats = track_running_stats
        if affine:
            self.weight = UninitializedParameter(device=device, dtype=dtype)
            if bias:
                self.bias = UninitializedParameter(device=device, dtype=dtype)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(device=device, dtype=dtype)
            self.running_var = UninitializedBuffer(device=device, dtype=dtype)
            self.num_batches_tracked = tensor(0, dtype=int64, device=device)

    def reset_parameters(self) -> None:
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        if self.has_uninitialized_params():
            self.num_features = input.shape[1]
            for value in (self.weight, self.bias, self.running_mean, self.running_var):
                if value is not None:
                    value.materialize((self.num_features,))
            self.reset_parameters()


class LazyBatchNorm1d(_LazyNormBase, _BatchNorm):
    """`BatchNorm1d` whose number of channels is that of its first input.

    >>> layer = nn.LazyBatchNorm1d()
    >>> _ = layer(rl.ones(2, 3))
    >>> layer
    BatchNorm1d(3, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
    """

    cls_to_become = BatchNorm1d
    _dims = (2, 3)


class LazyBatchNorm2d(_LazyNormBase, _BatchNorm):
    """`BatchNorm2d` whose number of channels is that of its first input.

    >>> layer = nn.LazyBatchNorm2d()
    >>> _ = layer(rl.ones(2, 3, 4, 4))
    >>> layer.num_features
    3
    """

    cls_to_become = BatchNorm2d
    _dims = (4,)


class LazyBatchNorm3d(_LazyNormBase, _BatchNorm):
    """`BatchNorm3d` whose number of channels is that of its first input.

    >>> layer = nn.LazyBatchNorm3d()
    >>> _ = layer(rl.ones(2, 3, 2, 2, 2))
    >>> layer.num_features
    3
    """

    cls_to_become = BatchNorm3d
    _dims = (5,)


class SyncBatchNorm(_BatchNorm):
    """Batch normalization over all processes; there is one.

    >>> nn.SyncBatchNorm(3).eval()(rl.ones(2, 3)).shape
    rushlight.Size([2, 3])
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-05,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group = process_group

    def _check_input_dim(self, input: Tensor) -> None:
        check(input.ndim >= 2, f"expected at least 2D input (got {input.ndim}D input)", ValueError)
        check(input.shape[1] != 0, "SyncBatchNorm number of input channels should be non-zero", ValueError)

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """`module` with all its batch normalizations replaced by this class."""
        result = module
        if isinstance(module, _BatchNorm):
            result = SyncBatchNorm(
                module.num_features,
                module.eps,
                module.momentum,
                module.affine,
                module.track_running_stats,
                process_group,
                bias=module.bias is not None,
            )
            for table in ("_parameters", "_buffers"):
                result.__dict__[table].update(module.__dict__[table])
            result.training = module.training
        for name, child in module.named_children():
            result.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return result
