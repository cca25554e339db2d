"""Dropout of every kind: means, whole channels, and decompositions that draw the same bits."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

import rushlight
from rushlight.core.dispatch import call, run_name
from rushlight.core.registry import REGISTRY

from .draws import ALPHA, COUNT, FLOATS, seeded, values  # noqa: F401


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_dropout_keeps_the_mean(p, dtype):
    x = rushlight.ones(COUNT, dtype=getattr(rushlight, dtype))
    output, mask = rushlight.native_dropout(x, p, True)
    kept = mask.numpy()
    assert mask.dtype is rushlight.bool
    assert scipy.stats.binomtest(int(kept.sum()), COUNT, 1 - p).pvalue > ALPHA
    scale = rushlight.tensor(1 / (1 - p), dtype=x.dtype).item()
    np.testing.assert_allclose(values(output), kept * scale, rtol=4 * rushlight.finfo(x.dtype).eps)


def test_dropout_without_effect_returns_its_input():
    x = rushlight.ones(3)
    assert rushlight.dropout(x, 0.5, False) is x
    assert rushlight.dropout(x, 0.0, True) is x
    assert rushlight.feature_dropout(x, 0.5, False) is x
    output, mask = rushlight.native_dropout(x, 0.5, False)
    assert output is not x and output.tolist() == [1, 1, 1] and mask.all().item()


def test_dropout_of_everything():
    x = rushlight.tensor([1.0, -2.0])
    for drop in (rushlight.dropout, rushlight.alpha_dropout):
        assert drop(x, 1.0, True).tolist() == [0, 0]
    output, mask = rushlight.native_dropout(x, 1.0, True)
    assert output.tolist() == [0, 0] and not mask.any().item()


def test_dropout_in_place():
    x = rushlight.ones(1000)
    rushlight.manual_seed(1)
    expected = rushlight.dropout(x, 0.5, True).numpy()
    rushlight.manual_seed(1)
    assert rushlight.dropout_(x, 0.5, True) is x
    np.testing.assert_array_equal(x.numpy(), expected)


def test_feature_dropout_drops_whole_channels():
    x = rushlight.ones(50, 40, 3, 2)
    kept = rushlight.feature_dropout(x, 0.3, True).numpy().reshape(2000, 6)
    assert (kept == kept[:, :1]).all()
    assert scipy.stats.binomtest(int((kept[:, 0] > 0).sum()), 2000, 0.7).pvalue > ALPHA
    assert set(np.unique(kept)) == {0, np.float32(1 / 0.7)}
    alpha = rushlight.feature_alpha_dropout(x, 0.3, True).numpy().reshape(2000, 6)
    assert (alpha == alpha[:, :1]).all() and len(np.unique(alpha)) == 2


@pytest.mark.parametrize("p", [0.1, 0.4, 0.8])
def test_alpha_dropout_keeps_mean_and_variance(p):
    x = rushlight.randn(200_000, dtype=rushlight.float64)
    y = rushlight.alpha_dropout(x, p, True).numpy()
    assert abs(y.mean()) < 0.02 and abs(y.var() - 1) < 0.02
    saturated = np.unique(y)[np.unique(y, return_counts=True)[1] > 1]
    assert len(saturated) == 1 and abs((y == saturated).mean() - p) < 0.01


def test_native_dropout_decomposes_to_the_same_bits():
    op = REGISTRY["native_dropout"]
    for dtype in ("float32", "bfloat16"):
        x = rushlight.randn(300, 7).to(getattr(rushlight, dtype)).t()
        for train in (True, False, None):
            rushlight.manual_seed(8)
            kernel = call(op, (x, 0.3, train))
            rushlight.manual_seed(8)
            parts = op.decomposition((x, 0.3, train))
            for a, b in zip(kernel, parts, strict=True):
                np.testing.assert_array_equal(a.numpy(), b.numpy())
                assert a.stride() == b.stride() and a.dtype is b.dtype


def test_dropout_backward_and_fused_forms():
    grad, mask = rushlight.tensor([1.0, 2.0]), rushlight.tensor([True, False])
    assert run_name("native_dropout_backward", grad, mask, 2.0).tolist() == [2, 0]
    assert rushlight._masked_scale(grad, mask.to(rushlight.uint8), 4.0).tolist() == [4, 0]
    output, kept = rushlight._fused_dropout(rushlight.ones(COUNT), 0.25)
    assert kept.dtype is rushlight.uint8 and set(np.unique(output.numpy())) == {0, 4}
    assert scipy.stats.binomtest(int(kept.sum().item()), COUNT, 0.25).pvalue > ALPHA
    with pytest.raises(RuntimeError, match="bool"):
        run_name("native_dropout_backward", grad, grad, 2.0)
