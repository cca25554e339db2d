"""Inputs for each of several devices, and results from them: there is one."""

from __future__ import annotations

from typing import Any

__all__ = ["gather", "is_namedtuple", "scatter", "scatter_kwargs"]


def is_namedtuple(obj: Any) -> bool:
    return isinstance(obj, tuple) and hasattr(obj, "_asdict") and hasattr(obj, "_fields")


def _is_namedtuple(obj: Any) -> bool:
    return is_namedtuple(obj)


def scatter(inputs: Any, target_gpus: Any, dim: int = 0) -> list[Any]:
    """The inputs, for the one device.

    >>> nn.parallel.scatter(rl.arange(2), ["cpu"])
    [tensor([0, 1])]
    """
    _check(target_gpus)
    return [inputs]


def scatter_kwargs(
    inputs: tuple[Any, ...], kwargs: dict[str, Any] | None, target_gpus: Any, dim: int = 0
) -> tuple[tuple[Any, ...], tuple[dict[str, Any], ...]]:
    _check(target_gpus)
    return (inputs,), (kwargs or {},)


def gather(outputs: Any, target_device: Any, dim: int = 0) -> Any:
    """What the one device has made.

    >>> nn.parallel.gather([rl.arange(2)], "cpu")
    tensor([0, 1])
    """
    _check(outputs)
    return outputs[0]


def _check(devices: Any) -> None:
    if len(devices) != 1:
        raise NotImplementedError(f"torch.nn.parallel: {len(devices)} devices; there is one, the processor")
