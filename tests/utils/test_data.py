"""Datasets, samplers, collation and the loader, with and without worker processes."""

import inspect
import os
import time
from collections import namedtuple

import numpy as np
import pytest
import torch
import torch.utils.data as theirs

import rushlight as rl
from rushlight.utils import data
from rushlight.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

CORES = len(os.sched_getaffinity(0))
WORKERS = min(2, CORES)


class Squares(Dataset):
    def __init__(self, size):
        self.size = size

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        if index >= self.size:
            raise IndexError(index)
        return index, index * index


class Counting(IterableDataset):
    def __init__(self, size):
        self.size = size

    def __iter__(self):
        info = data.get_worker_info()
        start, step = (0, 1) if info is None else (info.id, info.num_workers)
        return iter(range(start, self.size, step))


class Failing(Squares):
    def __getitem__(self, index):
        if index == 5:
            raise KeyError("no five")
        return super().__getitem__(index)


class Dying(Squares):
    def __getitem__(self, index):
        if index == 3 and data.get_worker_info() is not None:
            os._exit(1)
        return index


class Slow(Squares):
    def __getitem__(self, index):
        time.sleep(30)


class Draws(Squares):
    def __getitem__(self, index):
        return rl.rand(())


def test_names_and_signatures_are_torchs():
    only_theirs = {name for name in theirs.__all__ if not hasattr(data, name)}
    assert only_theirs == {  # datapipes, deprecated in torch, and its internals
        "DFIterDataPipe", "DataChunk", "_DatasetKind", "argument_validation", "functional_datapipe",
        "guaranteed_datapipes_determinism", "non_deterministic", "runtime_validation",
        "runtime_validation_disabled",
    }  # fmt: skip
    for name in set(theirs.__all__) - only_theirs:
        ours, other = (inspect.signature(getattr(m, name)) for m in (data, theirs))
        assert list(ours.parameters) == list(other.parameters), name


@pytest.mark.parametrize("workers", [0, WORKERS])
@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": 4},
        {"batch_size": 4, "drop_last": True},
        {"batch_size": None},
        {"batch_size": 1},
        {"batch_sampler": [[0, 3], [5], [1, 2, 9]]},
        {"batch_size": 3, "sampler": [4, 2, 0, 6]},
    ],
)
def test_batches_equal_torchs(workers, options):
    ours = [[np.asarray(c) for c in b] for b in DataLoader(Squares(10), num_workers=workers, **options)]
    other = [[np.asarray(c) for c in b] for b in theirs.DataLoader(Squares(10), **options)]
    assert len(ours) == len(other) == len(DataLoader(Squares(10), **options))
    for a, b in zip(ours, other, strict=True):
        for x, y in zip(a, b, strict=True):
            np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("workers", [0, WORKERS])
def test_iterable_datasets(workers):
    loader = DataLoader(Counting(11), batch_size=3, num_workers=workers)
    assert sorted(i for batch in loader for i in batch.tolist()) == list(range(11))
    dropped = DataLoader(Counting(11), batch_size=3, num_workers=0, drop_last=True)
    assert [b.tolist() for b in dropped] == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    assert [int(b) for b in DataLoader(Counting(3), batch_size=None)] == [0, 1, 2]


def test_shuffle_follows_the_seed():
    def order():
        rl.manual_seed(3)
        return [i for batch in DataLoader(Squares(20), 4, shuffle=True) for i in batch[0].tolist()]

    first = order()
    assert first == order()
    assert first != list(range(20))
    assert sorted(first) == list(range(20))


def test_workers_keep_order_and_can_persist():
    loader = DataLoader(Squares(40), 3, num_workers=WORKERS, persistent_workers=True, prefetch_factor=3)
    for _ in range(3):
        assert [i for b in loader for i in b[0].tolist()] == list(range(40))
    pids = {p.pid for p in loader._workers.processes}
    list(loader)
    assert pids == {p.pid for p in loader._workers.processes}
    loader._workers.close()
    loose = DataLoader(Squares(40), 3, num_workers=WORKERS, in_order=False)
    assert sorted(i for b in loose for i in b[0].tolist()) == list(range(40))


def test_workers_have_seeds_of_their_own():
    loader = DataLoader(Draws(4), 1, num_workers=WORKERS)
    rl.manual_seed(0)
    first = [b.item() for b in loader]
    assert len(set(first)) == 4
    rl.manual_seed(0)
    assert first == [b.item() for b in loader]


def test_errors_of_workers_come_back():
    with pytest.raises(KeyError, match="no five"):
        list(DataLoader(Failing(10), 2, num_workers=1))
    with pytest.raises(RuntimeError, match="exited unexpectedly"):
        list(DataLoader(Dying(10), 1, num_workers=1))
    with pytest.raises(RuntimeError, match="timed out"):
        list(DataLoader(Slow(10), 1, num_workers=1, timeout=0.5))


def fail_in_init(number):
    raise ValueError("bad start")


def test_worker_init():
    with pytest.raises(ValueError, match="bad start"):
        list(DataLoader(Squares(4), num_workers=1, worker_init_fn=fail_in_init))


@pytest.mark.parametrize(
    "options",
    [
        {"num_workers": -1},
        {"timeout": -1},
        {"prefetch_factor": 2},
        {"persistent_workers": True},
        {"sampler": [1], "shuffle": True},
        {"batch_sampler": [[1]], "shuffle": True},
        {"batch_size": None, "drop_last": True},
        {"batch_size": 0},
        {"batch_size": 2.5},
    ],
)
def test_bad_options_raise_what_torch_raises(options):
    with pytest.raises(ValueError, match=r"."):
        theirs.DataLoader(Squares(4), **options)
    with pytest.raises(ValueError, match=r"."):
        DataLoader(Squares(4), **options)


def test_too_many_workers_warn():
    with pytest.warns(UserWarning, match="cores"):
        DataLoader(Squares(4), num_workers=CORES + 1)


Point = namedtuple("Point", "x y")


@pytest.mark.parametrize(
    "batch",
    [
        [1, 2],
        [1.5, 2.5],
        [True, False],
        ["a", "b"],
        [{"a": 1, "b": [2, 3]}, {"a": 4, "b": [5, 6]}],
        [Point(1, 2.0), Point(3, 4.0)],
        [(1, "x"), (2, "y")],
        [np.float32(1), np.float32(2)],
        [np.ones(3), np.zeros(3)],
        [np.ones(3), np.zeros(3, np.float32)],  # arrays that are not alike, or not in order
        [np.arange(6).reshape(2, 3).T, np.arange(6).reshape(3, 2)],
        [np.array(1), np.array(2)],
        [[1, 2], [3, 4]],
    ],
)
def test_collate_equals_torchs(batch):
    def plain(value):
        if isinstance(value, rl.Tensor | torch.Tensor):
            return str(value.dtype).rpartition(".")[2], np.asarray(value).tolist()
        if isinstance(value, dict):
            return {key: plain(v) for key, v in value.items()}
        if isinstance(value, str):
            return value
        return type(value).__name__, [plain(v) for v in value]

    assert plain(data.default_collate(batch)) == plain(theirs.default_collate(batch))
    assert plain(data.default_collate([rl.ones(2), rl.zeros(2)])) == ("float32", [[1, 1], [0, 0]])


def test_collate_refuses_what_does_not_fit():
    with pytest.raises(RuntimeError, match="equal size"):
        data.default_collate([[1, 2], [3]])
    with pytest.raises(TypeError, match="default_collate"):
        data.default_collate([object()])
    with pytest.raises(TypeError, match="cannot become"):
        data.default_collate([np.array(["a"])])
    with pytest.raises(RuntimeError):
        data.default_collate([np.ones(2), np.ones(3)])


def test_convert():
    converted = data.default_convert({"a": np.ones(2), "b": [1, "x"], "c": (np.float64(2), 3)})
    assert isinstance(converted["a"], rl.Tensor)
    assert converted["b"] == [1, "x"]
    assert isinstance(converted["c"][0], rl.Tensor)


def test_combined_datasets():
    both = Squares(3) + Squares(2)
    assert [both[i][0] for i in range(5)] == [0, 1, 2, 0, 1]
    assert both[-1] == (1, 1)
    assert len(both) == 5
    assert list(Counting(2) + Counting(3)) == [0, 1, 0, 1, 2]
    stacked = data.StackDataset(a=Squares(3), b=[7, 8, 9])
    assert stacked[1] == {"a": (1, 1), "b": 8}
    assert data.StackDataset(Squares(3), [7, 8, 9]).__getitems__([0, 2]) == [((0, 0), 7), ((2, 4), 9)]
    x = rl.arange(6).reshape(3, 2)
    assert [t.tolist() for t in TensorDataset(x, x + 1)[2]] == [[4, 5], [5, 6]]
    with pytest.raises(AssertionError):
        TensorDataset(x, rl.ones(2))


def test_random_split():
    parts = data.random_split(Squares(10), [0.5, 0.25, 0.25], rl.Generator().manual_seed(0))
    assert [len(p) for p in parts] == [6, 2, 2]
    assert sorted(p[i][0] for p in parts for i in range(len(p))) == list(range(10))
    assert [len(p) for p in data.random_split(Squares(10), [7, 3])] == [7, 3]
    with pytest.raises(ValueError, match="lengths"):
        data.random_split(Squares(10), [7, 2])


def test_samplers():
    assert len(list(data.RandomSampler(range(5), replacement=True, num_samples=50))) == 50
    assert sorted(data.RandomSampler(range(4), num_samples=8)) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert sorted(data.SubsetRandomSampler([3, 7, 9])) == [3, 7, 9]
    assert set(data.WeightedRandomSampler([0, 1, 0, 1], 50)) <= {1, 3}
    assert list(data.BatchSampler(range(5), 2, False)) == [[0, 1], [2, 3], [4]]
    assert list(data.BatchSampler(range(5), 2, True)) == [[0, 1], [2, 3]]
    parts = [list(data.DistributedSampler(range(10), 3, rank, shuffle=False)) for rank in range(3)]
    assert parts == [list(theirs.DistributedSampler(range(10), 3, rank, shuffle=False)) for rank in range(3)]
    sampler = data.DistributedSampler(range(10), 2, 0)
    before = list(sampler)
    sampler.set_epoch(1)
    assert list(sampler) != before
