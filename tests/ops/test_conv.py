"""Convolutions: layouts, borders, groups, strings for padding, dtypes, errors; columns and back."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch

import rushlight
from rushlight.core.registry import REGISTRY
from rushlight.nn import functional


def both(name: str, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
    """The result of a function of nn.functional here and in PyTorch; arrays become tensors."""
    results = []
    for lib, functions in ((rushlight, functional), (torch, torch.nn.functional)):
        given = [lib.tensor(a) if isinstance(a, np.ndarray) else a for a in args]
        results.append(getattr(functions, name)(*given, **kwargs))
    return results[0], results[1]


def close(name: str, *args: Any, **kwargs: Any) -> None:
    ours, theirs = both(name, *args, **kwargs)
    assert tuple(ours.shape) == tuple(theirs.shape)
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-9, atol=1e-12)


def values(*shape: int, dtype: Any = np.float64) -> np.ndarray:
    drawn = np.random.default_rng(0).standard_normal(shape)
    return (drawn * 4).astype(dtype) if np.dtype(dtype).kind in "iu" else drawn.astype(dtype)


@pytest.mark.parametrize(
    ("rank", "groups", "stride", "padding", "dilation"),
    [(rank, *rest) for rank in (1, 2, 3) for rest in itertools.product((1, 2, 4), (1, 3), (0, 2), (1, 2))],
)
def test_convolution(rank: int, groups: int, stride: int, padding: int, dilation: int) -> None:
    x, weight = values(2, 4, *(7, 6, 5)[:rank]), values(8, 4 // groups, *(3, 2, 1)[:rank])
    settings = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    close(f"conv{rank}d", x, weight, values(8), **settings)
    close(f"conv{rank}d", x[0], weight, None, **settings)
    weight = values(4, 2, *(3, 2, 1)[:rank])
    more = max(stride, dilation) - 1
    close(f"conv_transpose{rank}d", x, weight, values(2 * groups), output_padding=more, **settings)


@pytest.mark.parametrize("kernel", [1, 2, 3, 4])
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.filterwarnings("ignore:Using padding='same'")
def test_padding_by_name(kernel: int, dilation: int) -> None:
    x, weight = values(2, 3, 9, 8), values(4, 3, kernel, 3)
    for padding in ("same", "valid"):
        close("conv2d", x, weight, None, padding=padding, dilation=dilation)


def test_no_images_and_views() -> None:
    close("conv2d", values(0, 3, 5, 5), values(4, 3, 2, 2))
    x, weight = rushlight.tensor(values(5, 6, 3, 2)), rushlight.tensor(values(3, 2, 3, 4))
    view = functional.conv2d(
        x.permute(3, 2, 1, 0), weight.permute(3, 2, 1, 0).flip(0)[::2][:, :3].expand(2, 3, 2, 3)[:, :, :, ::2]
    )
    copy = functional.conv2d(
        x.permute(3, 2, 1, 0).contiguous(),
        weight.permute(3, 2, 1, 0).flip(0)[::2][:, :3].contiguous()[:, :, :, ::2].contiguous(),
    )
    np.testing.assert_allclose(view.numpy(), copy.numpy(), rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8, np.complex64])
def test_dtypes(dtype: Any) -> None:
    x, weight = abs(values(1, 2, 5, 5)).astype(dtype), abs(values(3, 2, 2, 2)).astype(dtype)
    ours, theirs = both("conv2d", x, weight)
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-5)
    assert ours.numpy().dtype == dtype


def test_half_rounds_once() -> None:
    x, weight = rushlight.tensor(values(1, 64, 4, 4)), rushlight.tensor(values(2, 64, 3, 3))
    half = [t.to(rushlight.bfloat16) for t in (x, weight)]
    exact = functional.conv2d(*[t.to(rushlight.float32) for t in half])
    assert rushlight.equal(functional.conv2d(*half), exact.to(rushlight.bfloat16))


@pytest.mark.parametrize(
    ("name", "shape", "weight", "settings", "message"),
    [
        ("conv2d", (1, 3, 4, 4), (2, 2, 3, 3), {}, "to have 2 channels, but got 3 channels"),
        ("conv2d", (1, 3, 4, 4), (2, 3, 5, 5), {}, "Kernel size can't be greater"),
        ("conv2d", (1, 3, 4, 4), (2, 3, 3), {}, "Expected 3-dimensional input for 3-dimensional weight"),
        ("conv2d", (4, 4), (2, 3, 3, 3), {}, r"Expected 3D \(unbatched\) or 4D"),
        ("conv2d", (1, 4, 4, 4), (3, 2, 3, 3), {"groups": 2}, "divisible"),
        ("conv2d", (1, 3, 4, 4), (2, 3, 3, 3), {"stride": 0}, "non-positive stride"),
        ("conv2d", (1, 3, 4, 4), (2, 3, 3, 3), {"padding": -1}, "negative padding"),
        ("conv2d", (1, 3, 4, 4), (2, 3, 3, 3), {"dilation": 0}, "dilation"),
        ("conv2d", (1, 3, 4, 4), (2, 3, 3, 3), {"groups": 0}, "groups"),
        ("conv2d", (1, 3, 4, 4), (2, 3, 3, 3), {"padding": "same", "stride": 2}, "strided"),
        ("conv2d", (1, 3, 4, 4), (2, 3, 3, 3), {"padding": "full"}, "Invalid padding string"),
        ("conv2d", (1, 3, 4, 4), (2, 3, 3, 3), {"padding": (1, 1, 1)}, "padding"),
        ("conv_transpose2d", (1, 3, 4, 4), (3, 2, 3, 3), {"output_padding": 1}, "smaller than either stride"),
        ("conv_transpose1d", (1, 3, 1), (3, 2, 1), {"padding": 2}, "Output size is too small"),
    ],
)
def test_errors(name: str, shape: Any, weight: Any, settings: Any, message: str) -> None:
    args = np.ones(shape), np.ones(weight)
    with pytest.raises(RuntimeError, match=message):
        getattr(functional, name)(*[rushlight.tensor(a) for a in args], **settings)
    with pytest.raises(RuntimeError):
        getattr(torch.nn.functional, name)(*[torch.tensor(a) for a in args], **settings)


def test_dtypes_must_agree() -> None:
    x, weight = rushlight.ones(1, 1, 3), rushlight.ones(1, 1, 3, dtype=rushlight.float64)
    with pytest.raises(RuntimeError, match="should be the same"):
        functional.conv1d(x, weight)
    with pytest.raises(RuntimeError, match="bias to be 1-dimensional with 1 elements"):
        functional.conv1d(x, x, rushlight.ones(2))
    with pytest.raises(NotImplementedError):
        functional.conv1d(x.bool(), x.bool())
    with pytest.raises(NotImplementedError):
        functional.conv_transpose1d(x.int(), x.int())


def test_time_batch_channels() -> None:
    close("conv_tbc", values(5, 2, 3), values(2, 3, 4), values(4), 1)
    with pytest.raises(RuntimeError, match="Bias size"):
        functional.conv_tbc(rushlight.ones(5, 2, 3), rushlight.ones(2, 3, 4), rushlight.ones(3))


@pytest.mark.parametrize(
    "settings",
    list(itertools.product(((2, 3), (1, 2)), ((1, 1), (2, 1)), ((0, 0), (1, 2)), ((1, 1), (2, 3)))),
)
def test_columns(settings: Any) -> None:
    x = values(2, 3, 6, 7)
    close("unfold", x, *settings)
    close("unfold", x[0], *settings)
    columns = torch.nn.functional.unfold(torch.tensor(x), *settings).numpy()
    close("fold", columns, (6, 7), *settings)
    for name, args in (("im2col", (x, *settings)), ("col2im", (columns, (6, 7), *settings))):
        given = (rushlight.tensor(args[0]), *args[1:])
        op = REGISTRY[name]
        assert op.decomposition is not None
        np.testing.assert_allclose(
            op.decomposition(given).numpy(), rushlight.core.dispatch.call(op, given).numpy(), rtol=1e-12
        )


@pytest.mark.parametrize(
    ("name", "shape", "args", "message"),
    [
        ("unfold", (1, 0, 4, 4), (2,), "Expected 3D or 4D"),
        ("unfold", (1, 1, 2, 2), (3,), "at least one"),
        ("unfold", (1, 1, 4, 4), (0,), "greater than zero"),
        ("fold", (1, 3, 9), ((4, 4), 2), "divisible"),
        ("fold", (1, 4, 8), ((4, 4), 2), "number of sliding blocks"),
    ],
)
def test_errors_of_columns(name: str, shape: Any, args: Any, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        getattr(functional, name)(rushlight.ones(*shape), *args)
    with pytest.raises(RuntimeError):
        getattr(torch.nn.functional, name)(torch.ones(*shape), *args)
