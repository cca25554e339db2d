"""Instance normalization."""

from __future__ import annotations

import warnings
from typing import Any

from ...core.errors import check
from ...core.tensor import Tensor
from ._simple import F
from .batchnorm import _LazyNormBase, _NormBase

__all__ = [
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "LazyInstanceNorm1d",
    "LazyInstanceNorm2d",
    "LazyInstanceNorm3d",
]


class _InstanceNorm(_NormBase):
    """Normalizes each channel of each sample; an input of the lower number of dimensions is one sample."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-05,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        if local_metadata.get("version") is None and not self.track_running_stats:
            stale = [key for key in (prefix + "running_mean", prefix + "running_var") if key in state_dict]
            if stale:
                names = " and ".join(f'"{key}"' for key in stale)
                error_msgs.append(
                    f"Unexpected running stats buffer(s) {names} for {type(self).__name__} with "
                    "track_running_stats=False; remove these keys from the state dict, or set "
                    "track_running_stats=True to use them."
                )
                for key in stale:
                    state_dict.pop(key)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )

    def _get_no_batch_dim(self) -> int:
        """How many dimensions an input without a batch has."""
        return self._dims[0]

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        single = input.ndim == self._get_no_batch_dim()
        dim = input.ndim - self._dims[0]
        if input.shape[dim] != self.num_features:
            check(
                not self.affine,
                f"expected input's size at dim={dim} to match num_features ({self.num_features}), "
                f"but got: {input.shape[dim]}.",
                ValueError,
            )
            warnings.warn(
                f"input's size at dim={dim} does not match num_features. You can silence this warning by "
                "not passing in num_features, which is not used because affine=False",
                UserWarning,
                stacklevel=2,
            )
        result = F.instance_norm(
            input.unsqueeze(0) if single else input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )
        return result.squeeze(0) if single else result


class InstanceNorm1d(_InstanceNorm):
    """Normalization of each channel of each sample of input (N, C, L).

    >>> nn.InstanceNorm1d(1)(rl.tensor([[[1.0, 3.0]]])).round(decimals=3)
    tensor([[[-1.,  1.]]])
    """

    _dims = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Normalization of each channel of each sample of input (N, C, H, W).

    >>> nn.InstanceNorm2d(3)(rl.ones(2, 3, 4, 4)).shape
    rushlight.Size([2, 3, 4, 4])
    """

    _dims = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Normalization of each channel of each sample of input (N, C, D, H, W).

    >>> nn.InstanceNorm3d(3)(rl.ones(2, 3, 2, 2, 2)).shape
    rushlight.Size([2, 3, 2, 2, 2])
    """

    _dims = (4, 5)


class LazyInstanceNorm1d(_LazyNormBase, _InstanceNorm):
    """`InstanceNorm1d` whose number of channels is that of its first input.

    >>> nn.LazyInstanceNorm1d()(rl.ones(1, 2, 4)).shape
    rushlight.Size([1, 2, 4])
    """

    cls_to_become = InstanceNorm1d
    _dims = (2, 3)


class LazyInstanceNorm2d(_LazyNormBase, _InstanceNorm):
    """`InstanceNorm2d` whose number of channels is that of its first input.

    >>> nn.LazyInstanceNorm2d()(rl.ones(1, 2, 4, 4)).shape
    rushlight.Size([1, 2, 4, 4])
    """

    cls_to_become = InstanceNorm2d
    _dims = (3, 4)


class LazyInstanceNorm3d(_LazyNormBase, _InstanceNorm):
    """`InstanceNorm3d` whose number of channels is that of its first input.

    >>> nn.LazyInstanceNorm3d()(rl.ones(1, 2, 2, 2, 2)).shape
    rushlight.Size([1, 2, 2, 2, 2])
    """

    cls_to_become = InstanceNorm3d
    _dims = (4, 5)
