"""What GradScaler needs: gradients scaled back, whether they are finite, and the next scale."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.dispatch import run_name
from ..core.dtypes import DTYPES
from ..core.errors import check
from ..core.registry import Api, composite
from ..core.tensor import Tensor
from .normalization import wide

Parts = tuple[Any, ...]

_SCALING = "float scale_growth_factor, float scale_backoff_factor, int growth_interval"


@composite(
    "_amp_foreach_non_finite_check_and_unscale(Tensor[] self, Tensor found_inf, Tensor inv_scale) -> "
    "(Tensor[] self_out, Tensor found_inf_out)",
    api=Api.INPLACE_FUNCTION,
)
def unscale(self: Sequence[Tensor], found_inf: Tensor, inv_scale: Tensor) -> Parts:
    """The tensors times `inv_scale`, and `found_inf`, or 1 if any of them holds infinity or NaN."""
    name = "_amp_foreach_non_finite_check_and_unscale_"
    check(
        found_inf.numel() == 1 and inv_scale.numel() == 1,
        f"{name}: found_inf and inv_scale must have one "
        f"element, but they have {found_inf.numel()} and {inv_scale.numel()}",
    )
    check(
        found_inf.dtype is DTYPES["float32"] and inv_scale.dtype is DTYPES["float32"],
        f"{name}: found_inf "
        f"and inv_scale must be float32, but they are {found_inf.dtype.name} and {inv_scale.dtype.name}",
    )
    check(all(t.is_floating_point() for t in self), f"{name}: tensors must be floating point")
    factor = inv_scale.reshape(())
    bad = found_inf != 0
    for each in self:
        bad = bad | ~each.isfinite().all()
    scaled = tuple([(wide(each) * factor).to(each.dtype) for each in self])
    return scaled, run_name("where.ScalarSelf", bad, 1.0, found_inf)


@composite(
    f"_amp_update_scale(Tensor self, Tensor growth_tracker, Tensor found_inf, {_SCALING}) -> (Tensor, "
    "Tensor growth_tracker_out)",
    api=Api.INPLACE_FUNCTION,
)
def update_scale(
    self: Tensor,
    growth_tracker: Tensor,
    found_inf: Tensor,
    scale_growth_factor: float,
    scale_backoff_factor: float,
    growth_interval: int,
) -> Parts:
    """The next scale, and how many steps without infinity or NaN there were since it last changed."""
    name = "_amp_update_scale_"
    for what, each, dtype in (
        ("current_scale", self, "float32"),
        ("growth_tracker", growth_tracker, "int32"),
        ("found_inf", found_inf, "float32"),
    ):
        check(each.numel() == 1, f"{name}: {what} must have one element, but it has {each.numel()}")
        check(each.dtype is DTYPES[dtype], f"{name}: {what} must be {dtype}, but it is {each.dtype.name}")
    bad = found_inf.reshape(self.shape) != 0
    count = growth_tracker.reshape(self.shape) + 1
    grows = count == growth_interval
    grown = self * scale_growth_factor
    larger = run_name("where.self", grows & grown.isfinite(), grown, self)
    scale = run_name("where.self", bad, self * scale_backoff_factor, larger)
    tracker = run_name("where.ScalarSelf", bad | grows, 0, count).to(growth_tracker.dtype)
    return scale, tracker.reshape(growth_tracker.shape)
