"""DataLoader: batches of a dataset, made here or by worker processes ahead of time."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import queue
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from .collate import default_collate, default_convert
from .dataset import Dataset, IterableDataset
from .sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler, draw_seed
from .worker import Exhausted, Failure, Job, Restart, run_worker

_collate_fn_t = Callable[[list[Any]], Any]

__all__ = ["DataLoader"]

POLL = 1.0  # seconds between looks at whether the workers still live


class _Endless(Sampler[Any]):
    """For iterable datasets, which have no indices: None again and again."""

    def __iter__(self) -> Iterator[Any]:
        return itertools.repeat(None)


class DataLoader:
    """Iterates over batches of `dataset`; the arguments are those of PyTorch.

    `num_workers` processes make batches ahead, `prefetch_factor` each, and hand them over in order
    (`in_order=False`: as they come). `pin_memory` is accepted and means nothing on a CPU.

    >>> list(rl.utils.data.DataLoader([1, 2, 3], batch_size=2))
    [tensor([1, 2]), tensor([3])]
    """

    def __init__(
        self,
        dataset: Dataset[Any],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Any = None,
        batch_sampler: Any = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], Any] | None = None,
        multiprocessing_context: Any = None,
        generator: Any = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        _check_counts(num_workers, timeout, prefetch_factor, persistent_workers)
        self.iterable = isinstance(dataset, IterableDataset)
        _check_sampling(self.iterable, batch_size, shuffle, sampler, batch_sampler, drop_last)
        if batch_sampler is not None:
            batch_size, drop_last = None, False
        self.dataset = dataset
        self.num_workers = num_workers
        self.prefetch_factor = 2 if num_workers and prefetch_factor is None else prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.generator = generator
        self.persistent_workers = persistent_workers
        self.in_order = in_order
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler if sampler is not None else self._default_sampler(bool(shuffle))
        if batch_sampler is None and batch_size is not None:
            batch_sampler = BatchSampler(self.sampler, batch_size, drop_last)
        self.batch_sampler = batch_sampler
        self.collate_fn = collate_fn or (default_collate if batch_sampler is not None else default_convert)
        self._workers: _Workers | None = None

    def _default_sampler(self, shuffle: bool) -> Any:
        if self.iterable:
            return _Endless()
        if shuffle:
            return RandomSampler(self.dataset, generator=self.generator)  # type: ignore[arg-type]
        return SequentialSampler(self.dataset)  # type: ignore[arg-type]

    def __iter__(self) -> _BaseDataLoaderIter:
        return self._get_iterator()

    def _get_iterator(self) -> _BaseDataLoaderIter:
        return (_MultiProcessingDataLoaderIter if self.num_workers else _SingleProcessDataLoaderIter)(self)

    def _by_workers(self) -> Iterator[Any]:
        if not self.persistent_workers:
            return _Workers(self).epoch()
        if self._workers is None:
            self._workers = _Workers(self)
        return self._workers.epoch()

    def _here(self) -> Iterator[Any]:
        fetch = self.fetcher(self.dataset)
        for indices in self.index_batches():
            try:
                batch = fetch(indices)
            except StopIteration:
                return
            yield batch

    def check_worker_number_rationality(self) -> None:
        """Warn if there are more workers than processors to run them."""
        _check_workers(self.num_workers)

    def index_batches(self) -> Iterator[Any]:
        """What to fetch, batch by batch."""
        return iter(self.batch_sampler if self.batch_sampler is not None else self.sampler)

    def fetcher(self, dataset: Any) -> Callable[[Any], Any]:
        """The function that makes a batch from indices."""
        return _Fetcher(
            dataset, self.iterable, self.batch_sampler is not None, self.collate_fn, self.drop_last
        )

    def __len__(self) -> int:
        if not self.iterable:
            return len(self.batch_sampler if self.batch_sampler is not None else self.sampler)
        count = len(self.dataset)  # type: ignore[arg-type]
        if self.batch_size is None:
            return count
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)


class _BaseDataLoaderIter:
    """One pass over a loader, batch by batch."""

    def __init__(self, loader: DataLoader) -> None:
        self._reset(loader, first_iter=True)

    def _reset(self, loader: DataLoader, first_iter: bool = False) -> None:
        """Begin again."""
        self._loader = loader
        self._batches = loader._by_workers() if loader.num_workers else loader._here()

    def __iter__(self) -> _BaseDataLoaderIter:
        return self

    def __next__(self) -> Any:
        return next(self._batches)

    def __len__(self) -> int:
        return len(self._loader)


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    """Batches that are made here."""


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    """Batches that worker processes make."""

    def __del__(self) -> None:
        batches: Any = self._batches
        batches.close()  # ends the workers


class _Fetcher:
    """Batches from indices, or the next ones of an iterable dataset."""

    def __init__(
        self, dataset: Any, iterable: bool, batched: bool, collate: Callable[[Any], Any], drop_last: bool
    ) -> None:
        self.dataset = dataset
        self.batched = batched
        self.collate = collate
        self.drop_last = drop_last
        self.stream = iter(dataset) if iterable else None

    def __call__(self, indices: Any) -> Any:
        if self.stream is not None:
            return self.collate(self._next(len(indices)) if self.batched else next(self.stream))
        if not self.batched:
            return self.collate(self.dataset[indices])
        together = getattr(self.dataset, "__getitems__", None)
        return self.collate(together(indices) if together else [self.dataset[i] for i in indices])

    def _next(self, count: int) -> list[Any]:
        assert self.stream is not None
        batch = list(itertools.islice(self.stream, count))
        if not batch or (self.drop_last and len(batch) < count):
            raise StopIteration
        return batch


def _check_counts(workers: int, timeout: float, prefetch: int | None, persistent: bool) -> None:
    if workers < 0:
        raise ValueError(
            "num_workers option should be non-negative; use num_workers=0 to disable multiprocessing."
        )
    if timeout < 0:
        raise ValueError("timeout option should be non-negative")
    if workers == 0 and prefetch is not None:
        raise ValueError(
            "prefetch_factor option could only be specified in multiprocessing: set num_workers > 0"
        )
    if prefetch is not None and prefetch < 0:
        raise ValueError("prefetch_factor option should be non-negative")
    if persistent and workers == 0:
        raise ValueError("persistent_workers option needs num_workers > 0")
    _check_workers(workers)


def _check_workers(workers: int) -> None:
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if workers > available:
        warnings.warn(
            f"DataLoader: {workers} worker processes on a machine with {available} cores for this process; "
            "more than there are cores may be slow",
            stacklevel=4,
        )


def _check_sampling(
    iterable: bool,
    batch_size: int | None,
    shuffle: bool | None,
    sampler: Any,
    batch_sampler: Any,
    drop_last: bool,
) -> None:
    if iterable and shuffle:
        raise ValueError(
            f"DataLoader with IterableDataset: expected unspecified shuffle option, but got shuffle={shuffle}"
        )
    if iterable and sampler is not None:
        raise ValueError(
            f"DataLoader with IterableDataset: expected unspecified sampler option, but got sampler={sampler}"
        )
    if iterable and batch_sampler is not None:
        raise ValueError(
            "DataLoader with IterableDataset: expected unspecified batch_sampler option, but got "
            f"{batch_sampler}"
        )
    if sampler is not None and shuffle:
        raise ValueError("sampler option is mutually exclusive with shuffle")
    if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
        raise ValueError(
            "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last"
        )
    if batch_sampler is None and batch_size is None and drop_last:
        raise ValueError(
            "batch_size=None option disables auto-batching and is mutually exclusive with drop_last"
        )


class _Workers:
    """Worker processes of one loader, for one epoch or, if persistent, for all."""

    def __init__(self, loader: DataLoader) -> None:
        self.loader = loader
        context = loader.multiprocessing_context
        if context is None or isinstance(context, str):
            context = multiprocessing.get_context(context)
        self.results = context.Queue()
        self.tasks = [context.Queue() for _ in range(loader.num_workers)]
        self.fresh = True
        job = Job(
            loader.fetcher,
            loader.dataset,
            loader.worker_init_fn,
            loader.num_workers,
            draw_seed(),
            os.getpid(),
        )
        self.processes = [
            context.Process(target=run_worker, args=(job, number, tasks, self.results), daemon=True)
            for number, tasks in enumerate(self.tasks)
        ]
        for process in self.processes:
            process.start()

    def epoch(self) -> Iterator[Any]:
        """All batches of one pass over the dataset."""
        loader = self.loader
        if not self.fresh:
            for tasks in self.tasks:
                tasks.put(Restart(draw_seed()))
        self.fresh = False
        finished = False
        try:
            yield from _Epoch(self).batches()
            finished = True
        finally:
            if not loader.persistent_workers or not finished:
                self.close()
                loader._workers = None

    def receive(self) -> Any:
        """The next result of any worker; raises if one died or none came in time."""
        loader = self.loader
        deadline = time.monotonic() + loader.timeout if loader.timeout else None
        while True:
            wait = POLL if deadline is None else min(POLL, max(deadline - time.monotonic(), 0.001))
            try:
                return self.results.get(timeout=wait)
            except queue.Empty:
                dead = [str(p.pid) for p in self.processes if not p.is_alive()]
                if dead:
                    raise RuntimeError(
                        f"DataLoader worker (pid(s) {', '.join(dead)}) exited unexpectedly"
                    ) from None
                if deadline is not None and time.monotonic() >= deadline:
                    raise RuntimeError(f"DataLoader timed out after {loader.timeout} seconds") from None

    def close(self) -> None:
        for tasks in self.tasks:
            tasks.put(None)
        for process in self.processes:
            process.join(timeout=0.2)
            if process.is_alive():
                process.terminate()
                process.join()
        for channel in (*self.tasks, self.results):
            channel.cancel_join_thread()
            channel.close()


class _Epoch:
    """The order of one pass: which batch was given to whom, and which is due."""

    def __init__(self, workers: _Workers) -> None:
        self.workers = workers
        self.indices = workers.loader.index_batches()
        self.live = set(range(len(workers.tasks)))
        self.owner: dict[int, int] = {}  # batch -> worker, for batches not handed over yet
        self.ready: dict[int, Any] = {}
        self.sent = 0
        self.turn = itertools.cycle(range(len(workers.tasks)))

    def batches(self) -> Iterator[Any]:
        loader = self.workers.loader
        for _ in range((loader.prefetch_factor or 1) * loader.num_workers):
            self._send()
        while self.owner:
            position = self._due()
            result = self.ready.pop(position)
            worker = self.owner.pop(position)
            if isinstance(result, Failure):
                result.raise_again()
            if isinstance(result, Exhausted):
                self.live.discard(worker)
                self._send()
                continue
            self._send()
            yield result

    def _send(self) -> None:
        """Give the next batch to the next worker that still has examples."""
        if not self.live:
            return
        try:
            indices = next(self.indices)
        except StopIteration:
            return
        worker = next(w for w in self.turn if w in self.live)
        self.owner[self.sent] = worker
        self.workers.tasks[worker].put((self.sent, indices))
        self.sent += 1

    def _due(self) -> int:
        """Wait for the batch to hand over: the first in order, or any."""
        first = min(self.owner)
        while True:
            if first in self.ready:
                return first
            if self.ready and not self.workers.loader.in_order:
                return next(iter(self.ready))
            position, result = self.workers.receive()
            self.ready[position] = result
