"""State dicts as flat lists: what is in them by names joined with dots."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from ...core.tensor import Tensor


@runtime_checkable
class Stateful(Protocol):
    """An object in a state dict that says what its state is."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> None: ...


@dataclass(frozen=True)
class Item:
    """A leaf of a state dict and the container that holds it."""

    name: str
    value: Any
    container: Any
    key: Any


def items_of(state: dict[str, Any]) -> list[Item]:
    """The leaves of a state dict: tensors, and whatever else is in no dictionary and in no list of tensors.
    ValueError if two of them have one name."""
    found = list(_walk(state, ""))
    names: set[str] = set()
    for item in found:
        if item.name in names:
            raise ValueError(f"a checkpoint cannot hold two values of the name {item.name!r}")
        names.add(item.name)
    return found


def _walk(container: Any, prefix: str) -> Iterator[Item]:
    pairs = container.items() if isinstance(container, dict) else enumerate(container)
    for key, value in pairs:
        if not isinstance(key, str | int):
            raise TypeError(f"the keys of state dicts are texts or integers, not {type(key).__name__}")
        name = f"{prefix}.{key}" if prefix else str(key)
        if (isinstance(value, dict) and value) or (isinstance(value, list) and _has_tensors(value)):
            yield from _walk(value, name)
        else:
            yield Item(name, value, container, key)


def _has_tensors(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_tensors, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_has_tensors, value))
    return isinstance(value, Tensor)


def is_stateful(value: Any) -> bool:
    return isinstance(value, Stateful) and not isinstance(value, Tensor | type)


def states_of(state: dict[str, Any]) -> dict[str, Any]:
    """`state` with the state dict in place of each object that has one."""
    return {key: value.state_dict() if is_stateful(value) else value for key, value in state.items()}
