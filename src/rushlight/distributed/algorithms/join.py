"""Processes that end with different numbers of inputs: one process ends when it ends."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

__all__ = ["Join", "JoinHook", "Joinable"]


class JoinHook:
    """What a process does that has no inputs left, while others have."""

    def main_hook(self) -> None:
        """Called for each input of the others."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """Called when all have ended."""


class Joinable(ABC):
    """What can be joined."""

    @abstractmethod
    def join_hook(self, **kwargs: Any) -> JoinHook: ...

    @property
    @abstractmethod
    def join_device(self) -> Any: ...

    @property
    @abstractmethod
    def join_process_group(self) -> Any: ...


class Join:
    """A context for a loop over inputs: nobody waits for others."""

    def __init__(
        self,
        joinables: list[Joinable],
        enable: bool = True,
        throw_on_early_termination: bool = False,
        **kwargs: Any,
    ) -> None:
        if not joinables:
            raise ValueError("The join context manager requires at least one joinable")
        self._joinables, self._options = joinables, kwargs

    def __enter__(self) -> Join:
        return self

    def __exit__(self, kind: Any, *exception: object) -> None:
        for joinable in self._joinables if kind is None else ():
            joinable.join_hook(**self._options).post_hook(is_last_joiner=True)

    @staticmethod
    def notify_join_context(joinable: Joinable) -> None:
        return None
