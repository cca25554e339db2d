"""`GradScaler`: losses scaled up, so that gradients in float16 do not vanish, and gradients scaled back.

A step whose gradients hold infinity or NaN is skipped and the scale made smaller; after some steps without
any it is made larger. In a capture nothing can be looked at, so that such a step is computed and then undone;
outside, it is not computed.
"""

from __future__ import annotations

import inspect
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any

from ..autograd import no_grad
from ..core.construct import tensor
from ..core.dispatch import AMBIENT, run_name
from ..core.dtypes import DTYPES
from ..core.mutation import call_inplace
from ..core.registry import REGISTRY
from ..core.tensor import Tensor

FLOAT16, FLOAT32, INT32 = DTYPES["float16"], DTYPES["float32"], DTYPES["int32"]


class OptState(Enum):
    READY = 0
    UNSCALED = 1
    STEPPED = 2


def _refresh_per_optimizer_state() -> dict[str, Any]:
    return {"stage": OptState.READY, "found_inf_per_device": {}}


class GradScaler:
    """`scaler.scale(loss).backward(); scaler.step(optimizer); scaler.update()`.

    >>> rl.GradScaler("cpu", init_scale=8.0).scale(rl.tensor(1.0))
    tensor(8.)
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._device = device
        if enabled and device != "cpu":
            warnings.warn(
                f"GradScaler is enabled for {device!r}, but there is no such device. Disabling.",
                UserWarning,
                stacklevel=2,
            )
            enabled = False
        self._enabled = enabled
        if enabled:
            assert growth_factor > 1.0, "The growth factor must be > 1.0."
            assert backoff_factor < 1.0, "The backoff factor must be < 1.0."
            self._init_scale = init_scale
            self._scale: Tensor | None = None  # made when it is first needed
            self._growth_factor = growth_factor
            self._backoff_factor = backoff_factor
            self._growth_interval = growth_interval
            self._init_growth_tracker = 0
            self._growth_tracker: Tensor | None = None
            self._per_optimizer_states: dict[int, dict[str, Any]] = defaultdict(_refresh_per_optimizer_state)

    # Scaling.

    def _lazy_init_scale_growth_tracker(self) -> None:
        saved = AMBIENT.keys, AMBIENT.trace
        AMBIENT.keys, AMBIENT.trace = 0, None  # the state is the caller's, also when a capture makes it
        try:
            self._scale = tensor(self._init_scale, dtype=FLOAT32)
            self._growth_tracker = tensor(self._init_growth_tracker, dtype=INT32)
        finally:
            AMBIENT.keys, AMBIENT.trace = saved

    def _check_scale_growth_tracker(self, name: str) -> tuple[Tensor, Tensor]:
        hint = (
            "This may indicate your script did not use scaler.scale(loss or outputs) earlier in the "
            "iteration."
        )
        assert self._scale is not None, f"Attempted {name} but _scale is None.  {hint}"
        assert self._growth_tracker is not None, f"Attempted {name} but _growth_tracker is None.  {hint}"
        return self._scale, self._growth_tracker

    def scale(self, outputs: Any) -> Any:
        """`outputs`, a tensor or an iterable of them, times the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            if self._scale is None:
                self._lazy_init_scale_growth_tracker()
            assert self._scale is not None
            return outputs * self._scale
        if isinstance(outputs, Iterable):
            scaled = [self.scale(output) for output in outputs]
            return type(outputs)(scaled) if isinstance(outputs, list | tuple) else iter(scaled)
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    # Unscaling.

    def _unscale_grads_(
        self, optimizer: Any, inv_scale: Tensor, found_inf: Tensor, allow_fp16: bool
    ) -> dict[Any, Tensor]:
        grads: dict[Any, list[Tensor]] = {}
        with no_grad():
            for param in (param for group in optimizer.param_groups for param in group["params"]):
                if param.grad is None:
                    continue
                if not allow_fp16 and param.grad.dtype is FLOAT16:
                    raise ValueError("Attempting to unscale FP16 gradients.")
                grad = param.grad
                if grad.is_sparse:
                    grad = param.grad = grad.coalesce()  # sums of repeated indices may overflow
                    grad = grad._values()
                grads.setdefault(grad.dtype, []).append(grad)
            for same in grads.values():
                call_inplace(
                    REGISTRY["_amp_foreach_non_finite_check_and_unscale"], (tuple(same), found_inf, inv_scale)
                )
        return {found_inf.device: found_inf}

    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients of `optimizer` by the scale, as clipping them needs it."""
        if not self._enabled:
            return
        scale, _ = self._check_scale_growth_tracker("unscale_")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.UNSCALED:
            raise RuntimeError(
                "unscale_() has already been called on this optimizer since the last update()."
            )
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        inverse = scale.double().reciprocal().float()
        found = run_name("zeros", (), FLOAT32, None, None, None)
        state["found_inf_per_device"] = self._unscale_grads_(optimizer, inverse, found, False)
        state["stage"] = OptState.UNSCALED

    # Stepping.

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """`optimizer.step(*args, **kwargs)`, unless a gradient is infinite or NaN."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._check_scale_growth_tracker("step")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if getattr(optimizer, "_step_supports_amp_scaling", False):
            result = self._scaled_step(optimizer, state, *args, **kwargs)
        else:
            if state["stage"] is OptState.READY:
                self.unscale_(optimizer)
            assert len(state["found_inf_per_device"]) > 0, "No inf checks were recorded for this optimizer."
            result = self._maybe_opt_step(optimizer, state, *args, **kwargs)
        state["stage"] = OptState.STEPPED
        return result

    def _scaled_step(self, optimizer: Any, state: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """A step of an optimizer that unscales gradients, and leaves out a bad step, itself: it is given this
        scaler, or for the time of the step the attributes `grad_scale` and `found_inf`."""
        if "grad_scaler" in inspect.signature(optimizer.step).parameters:
            warnings.warn(
                "GradScaler is going to stop passing itself as a keyword argument to the passed optimizer; read "
                "`optimizer.grad_scale` and `optimizer.found_inf` instead",
                FutureWarning,
                stacklevel=3,
            )
            return optimizer.step(*args, **kwargs, grad_scaler=self)
        if state["stage"] is OptState.READY:
            self._check_inf_per_device(optimizer)
        found = list(state["found_inf_per_device"].values())
        optimizer.grad_scale = None if state["stage"] is OptState.UNSCALED else self._get_scale_async()
        optimizer.found_inf = sum(found[1:], found[0])
        try:
            return optimizer.step(*args, **kwargs)
        finally:
            del optimizer.grad_scale, optimizer.found_inf

    def _maybe_opt_step(self, optimizer: Any, state: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        found = list(state["found_inf_per_device"].values())
        if AMBIENT.trace is not None:
            return _step_or_undo(optimizer, found[0] != 0, lambda: optimizer.step(*args, **kwargs))
        if not sum(each.item() for each in found):
            return optimizer.step(*args, **kwargs)
        return None

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Choose the scale of the next step, or set it to `new_scale`."""
        if not self._enabled:
            return
        scale, tracker = self._check_scale_growth_tracker("update")
        if new_scale is not None:
            if isinstance(new_scale, Tensor):
                plain = not new_scale.requires_grad and new_scale.dtype is FLOAT32
                assert plain, "new_scale should be a float32 tensor that does not require grad."
                assert new_scale.numel() == 1, "new_scale should have one element."
                scale.copy_(new_scale.reshape(()))
            else:
                scale.fill_(new_scale)
        else:
            found = [
                each
                for state in self._per_optimizer_states.values()
                for each in state["found_inf_per_device"].values()
            ]
            assert len(found) > 0, "No inf checks were recorded prior to update."
            for other in found[1:]:
                found[0] = found[0] + other
            call_inplace(
                REGISTRY["_amp_update_scale"],
                (scale, tracker, found[0], self._growth_factor, self._backoff_factor, self._growth_interval),
            )
        self._per_optimizer_states = defaultdict(_refresh_per_optimizer_state)

    def _check_inf_per_device(self, optimizer: Any) -> dict[Any, Tensor]:
        self._check_scale_growth_tracker("_check_inf_per_device")
        one, found = tensor(1.0), tensor(0.0)
        state = self._per_optimizer_states[id(optimizer)]
        state["found_inf_per_device"] = self._unscale_grads_(optimizer, one, found, True)
        return dict(state["found_inf_per_device"])

    def _found_inf_per_device(self, optimizer: Any) -> dict[Any, Tensor]:
        return dict(self._per_optimizer_states[id(optimizer)]["found_inf_per_device"])

    # The state.

    def _get_scale_async(self) -> Tensor | None:
        return self._scale

    def _get_growth_tracker(self) -> int:
        if not self._enabled:
            return 0
        return self._init_growth_tracker if self._growth_tracker is None else int(self._growth_tracker.item())

    def get_scale(self) -> float:
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else float(self._scale.item())

    def get_growth_factor(self) -> float:
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        self._growth_interval = new_interval

    def is_enabled(self) -> bool:
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._get_growth_tracker(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        if not self._enabled:
            return
        if len(state_dict) == 0:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a "
                "disabled instance of GradScaler."
            )
        self._init_scale = state_dict["scale"]
        if self._scale is not None:
            self._scale.fill_(state_dict["scale"])
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._init_growth_tracker = state_dict["_growth_tracker"]
        if self._growth_tracker is not None:
            self._growth_tracker.fill_(state_dict["_growth_tracker"])

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        if self._enabled:
            assert len(self._per_optimizer_states) == 0, (
                "A GradScaler instance may only be pickled at the beginning of an iteration, or at the end "
                "after scaler.update()."
            )
            state["_init_scale"] = self.get_scale()
            state["_init_growth_tracker"] = self._get_growth_tracker()
            state["_scale"] = state["_growth_tracker"] = None
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


def _step_or_undo(optimizer: Any, bad: Tensor, step: Callable[[], Any]) -> Any:
    """A step that leaves everything as it was if `bad`."""
    params = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
    optimizer._make_state()
    with no_grad():
        before = [param.clone() for param in params]
        held = [
            (value, value.clone())
            for param in params
            for value in optimizer.state.get(param, {}).values()
            if isinstance(value, Tensor)
        ]
        result = step()
        for now, then in (*zip(params, before, strict=True), *held):
            now.copy_(run_name("where.self", bad, then, now))
    return result
