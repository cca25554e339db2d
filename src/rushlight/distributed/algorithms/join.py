"""Processes that have different numbers of inputs: those that have none left take part in what the others do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

from ..._api.link import ones, zeros
from .. import distributed_c10d as c10d

__all__ = ["Join", "JoinHook", "Joinable"]


class JoinHook:
    """What a process does that has no inputs left, while others have."""

    def main_hook(self) -> None:
        """Called for each input of the others: takes part in the collectives that they make for it."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """Called when all have ended; `is_last_joiner` in those that were the last."""


class _JoinConfig(NamedTuple):
    """What a joinable knows of the context that it is in."""

    enable: bool
    throw_on_early_termination: bool
    is_first_joinable: bool


NO_JOIN = _JoinConfig(enable=False, throw_on_early_termination=False, is_first_joinable=False)


class Joinable(ABC):
    """What can be joined. It calls `Join.notify_join_context(self)` before the collectives of an input."""

    _join_config: _JoinConfig = NO_JOIN

    @abstractmethod
    def join_hook(self, **kwargs: Any) -> JoinHook: ...

    @property
    @abstractmethod
    def join_device(self) -> Any: ...

    @property
    @abstractmethod
    def join_process_group(self) -> Any: ...


class Join:
    """A context for a loop over inputs of which some processes have more than others.

    A process that leaves the loop calls the hooks of all `joinables` for each input that others have left, so
    that all processes take part in their collectives. With `throw_on_early_termination`, all raise an error
    instead as soon as one has no inputs left.
    """

    def __init__(
        self,
        joinables: list[Joinable],
        enable: bool = True,
        throw_on_early_termination: bool = False,
        **kwargs: Any,
    ) -> None:
        if not joinables:
            raise ValueError("The join context manager requires at least one joinable")
        groups = [joinable.join_process_group for joinable in joinables]
        if any(group is not groups[0] for group in groups):
            raise ValueError("Using join context manager with multiple process groups")
        self._joinables, self._enable, self._throw = joinables, enable, throw_on_early_termination
        self._group = groups[0]
        self._hooks = [joinable.join_hook(**kwargs) for joinable in joinables] if enable else []

    def __enter__(self) -> Join:
        for number, joinable in enumerate(self._joinables):
            joinable._join_config = _JoinConfig(self._enable, self._throw, number == 0)
        return self

    def __exit__(self, kind: Any, *exception: object) -> None:
        try:
            if kind is None and self._enable:
                self._take_part()
        finally:
            for joinable in self._joinables:
                joinable._join_config = NO_JOIN

    def _take_part(self) -> None:
        last = True
        while self._left():
            if self._throw:
                c10d.all_reduce(ones(1), group=self._group)
                raise RuntimeError(f"Rank {c10d.get_rank(self._group)} exhausted all inputs.")
            for hook in self._hooks:
                hook.main_hook()
            last = False
        for hook in self._hooks:
            hook.post_hook(last)

    def _left(self) -> int:
        """How many processes have inputs left; the others say so in `notify_join_context`."""
        count = zeros(1)
        c10d.all_reduce(count, group=self._group)
        return int(count.item())

    @staticmethod
    def notify_join_context(joinable: Joinable) -> Any:
        """Tell processes that have no inputs left that this one has: the Work of a collective whose result is the
        number of processes that have some. None outside of a context, and for others than its first joinable."""
        config = joinable._join_config
        if not config.enable or not config.is_first_joinable:
            return None
        group = joinable.join_process_group
        work = c10d.all_reduce(ones(1), group=group, async_op=True)
        if config.throw_on_early_termination:
            ended = zeros(1)
            c10d.all_reduce(ended, group=group)
            if ended.item() > 0:
                raise RuntimeError(
                    "Detected at least one rank that exhausted inputs. Throwing across all ranks."
                )
        return work
