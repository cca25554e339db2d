"""Handles of collectives that are under way."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from ..comm.pending import Pending
from ..futures import Future

__all__ = ["Work"]


class Work:
    """A collective. Its tensors are not to be read or written before `wait` has returned."""

    def __init__(
        self, pending: Pending | None = None, result: Any = None, source: Callable[[], int] | None = None
    ):
        self._pending, self._result, self._source = pending, result, source

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Return when it has ended. DistBackendError if that takes longer than `timeout`, or the group's."""
        if self._pending is not None:
            self._pending.wait(None if not timeout else timeout.total_seconds())
        return True

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        return self._pending is None or self._pending.advance()

    def is_success(self) -> bool:
        return self._pending is None or (self._pending.done and self._pending.error is None)

    def exception(self) -> BaseException | None:
        return None if self._pending is None else self._pending.error

    def result(self) -> Any:
        self.wait()
        return self._result

    def source_rank(self) -> int:
        """The rank that a received message came from."""
        if self._source is None:
            raise RuntimeError(
                "source_rank() may only be called on work objects that are recv from any source"
            )
        self.wait()
        return self._source()

    def get_future(self) -> Future:
        """A future of the result. It is complete once this has been waited for, which `Future.wait` does."""
        return _WorkFuture(self)


class _WorkFuture(Future):
    """The future of a collective, or of what follows it: waiting for it moves the collective on."""

    def __init__(self, work: Work, first: bool = True) -> None:
        super().__init__()
        self._work, self._first = work, first

    def _complete(self) -> None:
        if self._first and not self._future.done():
            self._future.set_result(self._work.result())

    def done(self) -> bool:
        if self._first and self._work.is_completed():
            self._complete()
        return self._future.done()

    def wait(self) -> Any:
        if self._first:
            self._complete()
        else:
            self._work.wait()
            self._before.wait()
        return self._future.result()

    def then(self, callback: Callable[[Future], Any]) -> Future:
        made = _WorkFuture(self._work, first=False)
        made._before = self

        def run(_: Any) -> None:
            try:
                made._future.set_result(callback(self))
            except Exception as error:
                made.set_exception(error)

        self._future.add_done_callback(run)
        return made

    _before: Future
