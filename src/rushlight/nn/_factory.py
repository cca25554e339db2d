"""`factory_kwargs`: the options of a constructor that say how its tensors are made."""

from __future__ import annotations

from typing import Any

from ..core.errors import check

_KEYS = ("device", "dtype", "memory_format")


def factory_kwargs(kwargs: dict[str, Any] | None) -> dict[str, Any]:
    """device, dtype and memory_format from `kwargs`, directly or inside of its "factory_kwargs".

    >>> nn.factory_kwargs({"dtype": rl.float64})
    {'dtype': rushlight.float64}
    """
    if kwargs is None:
        return {}
    given = {key: kwargs[key] for key in kwargs if key in _KEYS}
    unknown = [key for key in kwargs if key not in (*_KEYS, "factory_kwargs")]
    check(not unknown, f"unexpected kwargs {set(unknown)}", TypeError)
    inner = dict(kwargs.get("factory_kwargs", {}))
    twice = [key for key in given if key in inner]
    check(not twice, f"{', '.join(twice)} specified twice, in **kwargs and in factory_kwargs", TypeError)
    return {**inner, **given}
