"""GradScaler against PyTorch's: the scale over many steps, skipped steps, state dicts, errors, compiled."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
import torch

import rushlight as rl

INF = float("inf")


def make(m, optimizer="SGD", **options):
    w = m.tensor([[0.5, -1.0], [2.0, 0.25]], requires_grad=True)
    made = {
        "SGD": lambda: m.optim.SGD([w], lr=0.1, momentum=0.9),
        "AdamW": lambda: m.optim.AdamW([w], lr=0.05),
        "Adagrad": lambda: m.optim.Adagrad([w], lr=0.05),
    }[optimizer]()
    return w, made, m.amp.GradScaler("cpu", **options)


def steps(m, factors, optimizer="SGD", clip=False, half=False, **options):
    """Losses whose gradients overflow where the factor is infinite or too large."""
    w, made, scaler = make(m, optimizer, **options)
    history = []
    for factor in factors:
        made.zero_grad()
        with m.autocast("cpu", dtype=m.float16, enabled=half):
            loss = (m.ones(3, 2) @ w).float().square().mean() * factor
        scaler.scale(loss).backward()
        if clip:
            scaler.unscale_(made)
            m.nn.utils.clip_grad_norm_([w], 0.5)
        scaler.step(made)
        scaler.update()
        history.append((scaler.get_scale(), scaler._get_growth_tracker(), w.detach().tolist()))
    return history


FACTORS = [1.0, 2.0, INF, 1.0, float("nan"), 1.0, 1e-3, 1.0, 3.0, 1e38, 1.0, 1.0]


@pytest.mark.parametrize("optimizer", ["SGD", "AdamW", "Adagrad"])
@pytest.mark.parametrize("clip", [False, True])
def test_many_steps(optimizer, clip):
    options = {"init_scale": 1024.0, "growth_interval": 3}
    mine, theirs = (steps(m, FACTORS, optimizer, clip, **options) for m in (rl, torch))
    for (scale, count, w), (their_scale, their_count, their_w) in zip(mine, theirs, strict=True):
        assert (scale, count) == (their_scale, their_count)
        np.testing.assert_allclose(w, their_w, rtol=1e-5)
    scales = [entry[0] for entry in mine]
    assert min(scales) < 1024.0 < max(scales) or scales[2] == 512.0


def test_with_autocast():
    options = {"init_scale": 64.0, "growth_interval": 2}
    mine, theirs = (steps(m, [1.0, INF, 1.0, 1.0, 1e6, 1.0], half=True, **options) for m in (rl, torch))
    for (scale, count, w), (their_scale, their_count, their_w) in zip(mine, theirs, strict=True):
        assert (scale, count) == (their_scale, their_count)
        np.testing.assert_allclose(w, their_w, rtol=0.01)


def test_the_scale_does_not_grow_to_infinity():
    mine, theirs = (steps(m, [1e-30] * 4, init_scale=2.0**127, growth_interval=1) for m in (rl, torch))
    assert [entry[:2] for entry in mine] == [entry[:2] for entry in theirs]


@pytest.mark.parametrize("optimizer", ["SGD", "AdamW"])
def test_compiled_steps_equal_eager_ones(optimizer):
    """One graph for steps that are made and steps that are skipped."""
    w, made, scaler = make(rl, optimizer, init_scale=1024.0, growth_interval=3)

    @rl.compile(fullgraph=True)
    def step(factor):
        made.zero_grad()
        loss = (rl.ones(3, 2) @ w).square().mean() * factor
        scaler.scale(loss).backward()
        scaler.step(made)
        scaler.update()

    want = steps(rl, FACTORS, optimizer, init_scale=1024.0, growth_interval=3)
    for factor, (scale, count, values) in zip(FACTORS, want, strict=True):
        step(rl.tensor(factor))
        assert (scaler.get_scale(), scaler._get_growth_tracker()) == (scale, count)
        np.testing.assert_allclose(w.detach().numpy(), values, rtol=1e-5)
    assert len(step.reasons) <= 2  # with and without a gradient from before


def test_state_dict():
    _, _, scaler = make(rl, init_scale=8.0, growth_factor=3.0, backoff_factor=0.25, growth_interval=7)
    _, _, theirs = make(torch, init_scale=8.0, growth_factor=3.0, backoff_factor=0.25, growth_interval=7)
    assert scaler.state_dict() == theirs.state_dict()
    scaler.scale(rl.ones(1))
    other = rl.amp.GradScaler("cpu")
    other.scale(rl.ones(1))
    other.load_state_dict(scaler.state_dict())
    assert other.state_dict() == scaler.state_dict()
    assert pickle.loads(pickle.dumps(scaler)).state_dict() == scaler.state_dict()
    with pytest.raises(RuntimeError, match="empty"):
        other.load_state_dict({})


def test_disabled_it_does_nothing():
    w, made, scaler = make(rl, enabled=False)
    loss = w.sum()
    assert scaler.scale(loss) is loss
    loss.backward()
    scaler.unscale_(made)
    scaler.step(made)
    scaler.update()
    assert scaler.state_dict() == {} and scaler.get_scale() == 1.0
    np.testing.assert_allclose(w.detach().numpy(), [[0.4, -1.1], [1.9, 0.15]], rtol=1e-6)
    with pytest.warns(UserWarning, match="Disabling"):
        assert not rl.amp.GradScaler().is_enabled()


def test_several_outputs():
    _, _, scaler = make(rl, init_scale=4.0)
    a, b = scaler.scale((rl.ones(1), rl.ones(2)))
    assert (a.tolist(), b.tolist()) == ([4.0], [4.0, 4.0])
    assert [t.item() for t in scaler.scale(rl.ones(()) * i for i in range(3))] == [0.0, 4.0, 8.0]
    scaler.update(16.0)
    assert scaler.get_scale() == 16.0
    scaler.update(rl.tensor([32.0]))
    assert scaler.get_scale() == 32.0


ERRORS = [
    lambda m, w, o, s: s.update(),
    lambda m, w, o, s: s.step(o),
    lambda m, w, o, s: s.unscale_(o),
    lambda m, w, o, s: s.scale(3),
    lambda m, w, o, s: (s.scale(w.sum()).backward(), s.unscale_(o), s.unscale_(o)),
    lambda m, w, o, s: (s.scale(w.sum()).backward(), s.step(o), s.step(o)),
    lambda m, w, o, s: (s.scale(w.sum()).backward(), s.step(o), s.unscale_(o)),
    lambda m, w, o, s: (s.scale(w.sum()).backward(), s.step(o, closure=lambda: None)),
    lambda m, w, o, s: (s.scale(w.sum()), s.update()),
    lambda m, w, o, s: m.amp.GradScaler("cpu", growth_factor=1.0),
    lambda m, w, o, s: m.amp.GradScaler("cpu", backoff_factor=1.0),
    lambda m, w, o, s: (s.scale(w.sum()).backward(), pickle.dumps((s.unscale_(o), s))),
    lambda m, w, o, s: (s.scale(w.sum()), s.update(m.ones(2))),
]


@pytest.mark.parametrize("number", range(len(ERRORS)))
def test_errors(number):
    with pytest.raises(Exception) as theirs:
        ERRORS[number](torch, *make(torch))
    with pytest.raises(type(theirs.value)):
        ERRORS[number](rl, *make(rl))


def test_half_precision_gradients_are_refused():
    for m in (torch, rl):
        w = m.ones(2, dtype=m.float16, requires_grad=True)
        made, scaler = m.optim.SGD([w], lr=0.1), m.amp.GradScaler("cpu")
        scaler.scale(w.float().sum()).backward()
        with pytest.raises(ValueError, match="FP16"):
            scaler.unscale_(made)


# The operators.


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
@pytest.mark.parametrize("bad", [None, INF, -INF, float("nan")])
def test_unscale(dtype, bad):
    results = []
    for m in (rl, torch):
        tensors = [m.tensor(v).to(getattr(m, dtype)) for v in ([1.0, 2.0, 3.0], [[4.0], [5.0]])]
        if bad is not None:
            tensors[1][0, 0] = bad
        found, inverse = m.zeros(1), m.tensor(0.25)
        new, flag = m.ops.aten._amp_foreach_non_finite_check_and_unscale(tensors, found, inverse)
        before = found.item()
        assert m._amp_foreach_non_finite_check_and_unscale_(tensors, found, inverse) is None
        results.append([before, *[t.float().tolist() for t in (*new, flag, *tensors, found)]])
    np.testing.assert_equal(*results)


@pytest.mark.parametrize("found", [0.0, 1.0, 3.0])
@pytest.mark.parametrize("count", [0, 1, 2])
@pytest.mark.parametrize("scale", [4.0, 3e38])
def test_update_scale(found, count, scale):
    results = []
    for m in (rl, torch):
        now, tracker = m.tensor(scale), m.tensor(count, dtype=m.int32)
        new = m.ops.aten._amp_update_scale(now, tracker, m.tensor(found), 2.0, 0.5, 3)
        assert (now.item(), tracker.item()) == (np.float32(scale), count)
        out = m._amp_update_scale_(now, tracker, m.tensor(found), 2.0, 0.5, 3)
        assert out is now
        results.append((now.item(), tracker.item(), new[0].item(), new[1].item()))
    assert results[0] == results[1]


@pytest.mark.parametrize("unscaled", [True, False])
@pytest.mark.parametrize("takes", ["scaler", "attributes"])
def test_optimizers_that_unscale_themselves(same, takes, unscaled):
    def scenario(m):
        seen = []

        class Own(m.optim.Optimizer):
            _step_supports_amp_scaling = True

        class TakesScaler(Own):
            def step(self, closure=None, *, grad_scaler=None):
                seen.append(
                    (type(grad_scaler).__name__, hasattr(self, "grad_scale"), hasattr(self, "found_inf"))
                )

        class TakesAttributes(Own):
            def step(self, closure=None):
                seen.append((self.grad_scale, self.found_inf))

        w = m.ones(2, requires_grad=True)
        optimizer = (TakesScaler if takes == "scaler" else TakesAttributes)([w], {})
        scaler = m.amp.GradScaler("cpu", init_scale=4.0)
        scaler.scale(w.sum()).backward()
        if unscaled:
            scaler.unscale_(optimizer)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            scaler.step(optimizer)
        left = hasattr(optimizer, "grad_scale"), hasattr(optimizer, "found_inf")
        return seen, left, [w.category.__name__ for w in caught], w.grad

    same(scenario)
