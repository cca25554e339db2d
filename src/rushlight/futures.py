"""Values that are there later."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

T = TypeVar("T")

__all__ = ["Future", "collect_all", "wait_all"]


class Future(Generic[T]):
    """A value, or an error, that another thread sets.

    >>> future = rl.futures.Future()
    >>> future.set_result(3)
    >>> future.then(lambda f: f.value() + 1).wait()
    4
    """

    def __init__(self, *, devices: Any = None) -> None:
        self._future: concurrent.futures.Future[Any] = concurrent.futures.Future()

    def done(self) -> bool:
        return self._future.done()

    def wait(self) -> Any:
        """The value, once it is there; the error is raised."""
        return self._future.result()

    def value(self) -> Any:
        if not self.done():
            raise RuntimeError("the Future has no value yet; wait() waits for it")
        return self._future.result()

    def then(self, callback: Callable[[Future[T]], Any]) -> Future[Any]:
        """What `callback` makes of this Future, once that has a value."""
        made: Future[Any] = Future()

        def run(_: Any) -> None:
            try:
                made.set_result(callback(self))
            except Exception as error:
                made.set_exception(error)

        self._future.add_done_callback(run)
        return made

    def add_done_callback(self, callback: Callable[[Future[T]], Any]) -> None:
        self._future.add_done_callback(lambda _: callback(self))

    def set_result(self, result: Any) -> None:
        if self.done():
            raise RuntimeError("Future can only be marked completed once")
        self._future.set_result(result)

    def set_exception(self, result: BaseException) -> None:
        if not isinstance(result, Exception):
            raise AssertionError(f"{result} is of type {type(result)}, not an Exception.")
        self._future.set_exception(result)


def collect_all(futures: list[Future[Any]]) -> Future[list[Future[Any]]]:
    """A Future whose value is the list of these, once all are done.

    >>> future = rl.futures.Future()
    >>> future.set_result(3)
    >>> [f.value() for f in rl.futures.collect_all([future]).wait()]
    [3]
    """
    made: Future[Any] = Future()
    left = len(futures)
    if not left:
        made.set_result([])

    def count(_: Future[Any]) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            made.set_result(futures)

    for future in futures:
        future.add_done_callback(count)
    return made


def wait_all(futures: Iterable[Future[Any]]) -> list[Any]:
    """The values of all, once they are there.

    >>> future = rl.futures.Future()
    >>> future.set_result(3)
    >>> rl.futures.wait_all([future])
    [3]
    """
    return [future.wait() for future in futures]
