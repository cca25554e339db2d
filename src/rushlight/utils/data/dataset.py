"""Datasets: what can be indexed, what can only be iterated, and combinations of them."""

from __future__ import annotations

import bisect
import itertools
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from ... import random as rl_random
from ..._api.link import API
from ...core.tensor import Tensor

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")

__all__ = [
    "ChainDataset", "ConcatDataset", "Dataset", "IterableDataset", "StackDataset", "Subset", "TensorDataset",
    "random_split",
]  # fmt: skip


class Dataset(Generic[T_co]):
    """Examples by index: define `__getitem__`, and `__len__` for the samplers.

    `__getitems__(indices)` may be defined too, to fetch a batch at once.

    >>> class Squares(rl.utils.data.Dataset):
    ...     def __len__(self):
    ...         return 4
    ...     def __getitem__(self, i):
    ...         return i * i
    >>> list(rl.utils.data.DataLoader(Squares(), batch_size=4))
    [tensor([0, 1, 4, 9])]
    """

    def __getitem__(self, index: Any) -> T_co:
        raise NotImplementedError(f"{type(self).__name__} defines no __getitem__")

    def __add__(self, other: Dataset[T_co]) -> ConcatDataset[T_co]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T_co], Iterable[T_co]):
    """Examples in order, for streams: define `__iter__`.

    With several workers each has a copy; use `get_worker_info` to give each a part.

    >>> class Count(rl.utils.data.IterableDataset):
    ...     def __iter__(self):
    ...         return iter(range(3))
    >>> list(rl.utils.data.DataLoader(Count()))
    [tensor([0]), tensor([1]), tensor([2])]
    """

    def __add__(self, other: Dataset[T_co]) -> ChainDataset:  # type: ignore[override]
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Tensors of the same first size; example i is the i-th entry of each.

    >>> rl.utils.data.TensorDataset(rl.arange(3), rl.arange(3) * 2)[1]
    (tensor(1), tensor(2))
    """

    tensors: tuple[Tensor, ...]

    def __init__(self, *tensors: Tensor) -> None:
        if any(tensor.shape[0] != tensors[0].shape[0] for tensor in tensors):
            raise AssertionError(
                f"Size mismatch between tensors: first dimensions are {[t.shape[0] for t in tensors]}"
            )
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return self.tensors[0].shape[0]


class StackDataset(Dataset[Any]):
    """Datasets of one length side by side; examples are tuples, or dicts if given by name.

    >>> rl.utils.data.StackDataset([1, 2], [3, 4])[1]
    (2, 4)
    """

    def __init__(self, *args: Dataset[Any], **kwargs: Dataset[Any]) -> None:
        if args and kwargs:
            raise ValueError("StackDataset takes its datasets by position or by name, not both")
        if not args and not kwargs:
            raise ValueError("StackDataset needs at least one dataset")
        given = args or tuple(kwargs.values())
        self._length = len(given[0])  # type: ignore[arg-type]
        if any(len(dataset) != self._length for dataset in given):  # type: ignore[arg-type]
            raise ValueError("Size mismatch between datasets")
        self.datasets: Any = args if args else kwargs

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {name: dataset[index] for name, dataset in self.datasets.items()}
        return tuple(dataset[index] for dataset in self.datasets)

    def __getitems__(self, indices: list[Any]) -> list[Any]:
        columns = self.datasets if isinstance(self.datasets, dict) else dict(enumerate(self.datasets))
        fetched = {name: _fetch(dataset, indices) for name, dataset in columns.items()}
        rows = [{name: column[i] for name, column in fetched.items()} for i in range(len(indices))]
        return rows if isinstance(self.datasets, dict) else [tuple(row.values()) for row in rows]

    def __len__(self) -> int:
        return self._length


def _fetch(dataset: Any, indices: Sequence[Any]) -> list[Any]:
    if callable(getattr(dataset, "__getitems__", None)):
        items = list(dataset.__getitems__(indices))
        if len(items) != len(indices):
            raise ValueError(f"__getitems__ gave {len(items)} examples for {len(indices)} indices")
        return items
    return [dataset[index] for index in indices]


class ConcatDataset(Dataset[T_co]):
    """Datasets one after the other.

    >>> list(rl.utils.data.ConcatDataset([[1, 2], [3]]))
    [1, 2, 3]
    """

    def __init__(self, datasets: Iterable[Dataset[T_co]]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        if any(isinstance(dataset, IterableDataset) for dataset in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset; use ChainDataset")
        self.cumulative_sizes = self.cumsum(self.datasets)

    @staticmethod
    def cumsum(sequence: Sequence[Any]) -> list[int]:
        """The end of each dataset in the whole."""
        return list(itertools.accumulate(len(dataset) for dataset in sequence))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> T_co:
        if index < 0:
            if -index > len(self):
                raise ValueError("absolute value of index should not exceed dataset length")
            index += len(self)
        which = bisect.bisect_right(self.cumulative_sizes, index)
        start = self.cumulative_sizes[which - 1] if which else 0
        return self.datasets[which][index - start]


class ChainDataset(IterableDataset[Any]):
    """Iterable datasets one after the other.

    >>> class Count(rl.utils.data.IterableDataset):
    ...     def __iter__(self):
    ...         return iter(range(2))
    >>> list(rl.utils.data.ChainDataset([Count(), Count()]))
    [0, 1, 0, 1]
    """

    def __init__(self, datasets: Iterable[Dataset[Any]]) -> None:
        self.datasets = datasets

    def __iter__(self) -> Iterator[Any]:
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise AssertionError("ChainDataset only supports IterableDataset")
            yield from dataset

    def __len__(self) -> int:
        return sum(len(dataset) for dataset in self.datasets)  # type: ignore[arg-type, misc]


class Subset(Dataset[T_co]):
    """The examples of a dataset at given indices.

    >>> list(rl.utils.data.Subset([10, 20, 30], [0, 2]))
    [10, 30]
    """

    def __init__(self, dataset: Dataset[T_co], indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: list[int]) -> list[T_co]:
        return _fetch(self.dataset, [self.indices[i] for i in indices])

    def __len__(self) -> int:
        return len(self.indices)


def random_split(
    dataset: Dataset[T], lengths: Sequence[int | float], generator: Any = rl_random.default_generator
) -> list[Subset[T]]:
    """Parts of a dataset at random, of given lengths or, if they add up to 1, fractions.

    What fractions leave over by rounding down goes to the first parts, one example each.

    >>> [len(part) for part in rl.utils.data.random_split(range(5), [3, 2])]
    [3, 2]
    """
    size = len(dataset)  # type: ignore[arg-type]
    counts = _counts(lengths, size) if math.isclose(sum(lengths), 1) and sum(lengths) <= 1 else list(lengths)
    for i, count in enumerate(counts):
        if count == 0:
            warnings.warn(
                f"Length of split at index {i} is 0. This might result in an empty dataset.", stacklevel=2
            )
    if sum(counts) != size:
        raise ValueError(
            f"Sum of input lengths does not equal the length of the input dataset: {sum(counts)} != {size}"
        )
    order = API.functions[""]["randperm"](size, generator=generator or rl_random.default_generator).tolist()
    ends = list(itertools.accumulate(int(count) for count in counts))
    return [Subset(dataset, order[end - int(count) : end]) for end, count in zip(ends, counts, strict=True)]


def _counts(fractions: Sequence[float], size: int) -> list[float]:
    for i, fraction in enumerate(fractions):
        if not 0 <= fraction <= 1:
            raise ValueError(f"Fraction at index {i} is not between 0 and 1")
    counts: list[float] = [math.floor(size * fraction) for fraction in fractions]
    for i in range(int(size - sum(counts))):
        counts[i % len(counts)] += 1
    return counts


class IterDataPipe(IterableDataset):
    """A dataset that is iterated over, under the name of PyTorch's data pipes.

    >>> issubclass(rl.utils.data.IterDataPipe, rl.utils.data.IterableDataset)
    True
    """


class MapDataPipe(Dataset):
    """A dataset with items by key, under the name of PyTorch's data pipes.

    >>> issubclass(rl.utils.data.MapDataPipe, rl.utils.data.Dataset)
    True
    """
