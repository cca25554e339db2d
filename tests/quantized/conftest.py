"""What tests of quantized tensors share: the same tensor here and in PyTorch, and how to compare them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np
import pytest
import torch

import rushlight as rl

DTYPES = {"qint8": (-128, 127), "quint8": (0, 255), "qint32": (-(2**31), 2**31 - 1)}


@pytest.fixture(autouse=True)
def _quiet_oracle() -> Iterator[None]:
    """PyTorch warns that quantized tensors will be removed from it, and of grids that differ."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.quantize_per_tensor|All inputs of this cat operator")
        yield


def both(values, dtype=None):
    """The same tensor here and there."""
    values = np.asarray(values)
    mine, theirs = rl.from_numpy(values.copy()), torch.from_numpy(values.copy())
    if dtype is None:
        return mine, theirs
    return mine.to(getattr(rl, dtype)), theirs.to(getattr(torch, dtype))


def name_of(token):
    return str(token).split(".")[-1]


def agree(mine, theirs):
    """Values, dtype, strides; of quantized tensors integers and scheme."""
    if isinstance(theirs, tuple | list):
        assert len(mine) == len(theirs)
        for a, b in zip(mine, theirs, strict=True):
            agree(a, b)
    elif isinstance(theirs, torch.Tensor):
        assert isinstance(mine, rl.Tensor) and mine.is_quantized == theirs.is_quantized
        assert name_of(mine.dtype) == name_of(theirs.dtype)
        assert tuple(mine.shape) == tuple(theirs.shape) and mine.stride() == theirs.stride()
        if not theirs.is_quantized:
            np.testing.assert_array_equal(mine.numpy(), theirs.numpy())
            return
        assert name_of(mine.qscheme()) == name_of(theirs.qscheme())
        np.testing.assert_array_equal(mine.int_repr().numpy(), theirs.int_repr().numpy())
        if theirs.qscheme() == torch.per_tensor_affine:
            assert (mine.q_scale(), mine.q_zero_point()) == (theirs.q_scale(), theirs.q_zero_point())
        else:
            assert mine.q_per_channel_axis() == theirs.q_per_channel_axis()
            agree(mine.q_per_channel_scales(), theirs.q_per_channel_scales())
            agree(mine.q_per_channel_zero_points(), theirs.q_per_channel_zero_points())
    else:
        assert mine == theirs and type(mine) is type(theirs)


def sample(dtype, shape=(2, 3, 4, 5), scale=0.05, zero_point=3, seed=0):
    values = np.random.default_rng(seed).normal(size=shape).astype(np.float32) * 2
    mine, theirs = both(values)
    return (
        rl.quantize_per_tensor(mine, scale, zero_point, getattr(rl, dtype)),
        torch.quantize_per_tensor(theirs, scale, zero_point, getattr(torch, dtype)),
    )


def channels(dtype, shape=(2, 3, 4), axis=1, floating=False):
    random = np.random.default_rng(axis)
    values = both(random.normal(size=shape).astype(np.float32))
    scales = both(random.uniform(0.01, 0.1, shape[axis]), "float32" if floating else "float64")
    points = both(random.integers(0, 9, shape[axis]), "float32" if floating else "int64")
    return tuple(
        lib.quantize_per_channel(values[i], scales[i], points[i], axis, getattr(lib, dtype))
        for i, lib in enumerate((rl, torch))
    )
