"""Checkpointing with and without re-entry."""

from __future__ import annotations

import pytest

import rushlight as rl
import rushlight.utils.checkpoint as checkpoints

from .leaves import leaf


def utilities(m):
    import torch.utils.checkpoint as theirs

    return theirs if m.__name__ == "torch" else checkpoints


@pytest.mark.parametrize("reentrant", [True, False])
def test_gradients_and_number_of_runs(same, reentrant):
    def scenario(m):
        runs = []

        def part(a, b):
            runs.append(1)
            return (a * b).sigmoid() * a.exp()

        x, y = leaf(m, 1.0, 2.0), leaf(m, 3.0, -1.0)
        z = utilities(m).checkpoint(part, x * 2, y, use_reentrant=reentrant)
        (z * z).sum().backward()
        return x.grad, y.grad, len(runs)

    same(scenario)


def test_early_stop(same):
    def scenario(m):
        runs = []

        def part(a):
            b = a.sin().exp()
            runs.append("middle")
            c = b + 1
            runs.append("end")
            return c

        x = leaf(m, 1.0)
        utilities(m).checkpoint(part, x, use_reentrant=False).sum().backward()
        with utilities(m).set_checkpoint_early_stop(False):
            utilities(m).checkpoint(part, x, use_reentrant=False).sum().backward()
        return runs, x.grad

    same(scenario)


def test_nested(same):
    def scenario(m):
        ck = utilities(m).checkpoint
        x = leaf(m, 0.5, 1.0)

        def inner(a):
            return (a * a).sin()

        def outer(a):
            return ck(inner, a.exp(), use_reentrant=False) * a

        ck(outer, x, use_reentrant=False).sum().backward()
        return x.grad

    same(scenario)


def test_double_backward(same):
    def scenario(m):
        x = leaf(m, 0.5, 1.0)
        y = utilities(m).checkpoint(lambda a: (a * a * a).sin(), x, use_reentrant=False)
        (g,) = m.autograd.grad(y.sum(), x, create_graph=True)
        return g, m.autograd.grad(g.sum(), x)

    same(scenario)


def test_random_numbers_are_drawn_again():
    x = rl.ones(100, requires_grad=True)

    def part(a):
        return a * rl.rand(100) * a

    rl.manual_seed(3)
    y = checkpoints.checkpoint(part, x, use_reentrant=False)
    expected = y.detach() * 2
    y.sum().backward()
    assert rl.allclose(x.grad, expected)


def test_saves_nothing_inside():
    saved = []
    x = leaf(rl, 1.0, 2.0)
    with rl.autograd.graph.saved_tensors_hooks(lambda t: (saved.append(1), t)[1], lambda t: t):
        y = checkpoints.checkpoint(lambda a: (a * a).sin().exp(), x, use_reentrant=False)
    assert not saved
    y.sum().backward()


@pytest.mark.parametrize(
    "name", ["metadata", "count", "grad with re-entry", "keyword with re-entry", "no gradient"]
)
def test_refusals(same, name):
    def scenario(m):
        ck = utilities(m).checkpoint
        x = leaf(m, 1.0, 2.0)
        runs = []

        def part(a):
            runs.append(1)
            if name == "metadata" and len(runs) == 2:
                return (a[:1] * a[:1]).sin()
            if name == "count" and len(runs) == 2:
                return a + 1
            return (a * a).sin()

        if name in ("metadata", "count"):
            ck(part, x, use_reentrant=False).sum().backward()
        elif name == "grad with re-entry":
            m.autograd.grad(ck(part, x, use_reentrant=True).sum(), x)
        elif name == "keyword with re-entry":
            ck(part, x, use_reentrant=True, other=3)
        else:
            ck(lambda a: a.detach(), x, use_reentrant=True).sum().backward()

    messages = {
        "metadata": "different metadata",
        "count": "different number of tensors",
        "grad with re-entry": "incompatible",
        "keyword with re-entry": "Unexpected keyword arguments",
        "no gradient": "none of output has requires_grad",
    }
    same(scenario, message=messages[name])


def test_sequential(same):
    def scenario(m):
        x = leaf(m, 0.1, 0.2)
        steps = [lambda a: a.sin(), lambda a: a * a, lambda a: a.exp(), lambda a: a + 1, lambda a: a.cos()]
        y = utilities(m).checkpoint_sequential(steps, 2, x, use_reentrant=False)
        y.sum().backward()
        return y, x.grad

    same(scenario)


@pytest.mark.parametrize("early_stop", [True, False])
def test_more_is_saved_in_the_second_run(same, early_stop):
    def scenario(m):
        runs, x = [], leaf(m, 0.5)

        def part(a):
            runs.append(1)
            return a.sin().exp() if len(runs) == 1 else a.sin().exp().sin()

        with utilities(m).set_checkpoint_early_stop(early_stop):
            utilities(m).checkpoint(part, x, use_reentrant=False).sum().backward()
        return x.grad

    same(scenario, message=None if early_stop else "trying to save more tensors during recomputation")


def test_a_recomputed_value_is_given_out_once(same):
    """So that it lives no longer than the node that needs it."""

    def scenario(m):
        class Twice(m.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x * x

            @staticmethod
            def backward(ctx, g):
                (_,) = ctx.saved_tensors
                (again,) = ctx.saved_tensors
                return 2 * g * again

        utilities(m).checkpoint(Twice.apply, leaf(m, 1.0), use_reentrant=False).sum().backward()

    same(scenario, message="already unpacked once")


@pytest.mark.parametrize("debug", [True, False])
@pytest.mark.parametrize("enabled", [True, False, None])
def test_debugging_shows_what_ran(debug, enabled):
    runs, x = [], leaf(rl, 0.5)

    def part(a):
        runs.append(1)
        return a.sin().exp() if len(runs) == 1 else a.sin() * rl.tensor([1.0, 2.0])

    with (
        pytest.raises(checkpoints.CheckpointError) as raised,
        checkpoints.set_checkpoint_debug_enabled(enabled),
    ):
        checkpoints.checkpoint(part, x, use_reentrant=False, debug=debug).sum().backward()
    shown = debug if enabled is None else enabled
    assert ("passed `debug=True`" in str(raised.value)) == shown
    assert ("aten.exp.default" in str(raised.value)) == shown
    with pytest.raises(ValueError, match="incompatible with non-default context_fn"):
        checkpoints.checkpoint(part, x, use_reentrant=False, debug=True, context_fn=lambda: ())


def test_a_backward_pass_inside_of_the_part(same):
    """It comes before the first run has saved all that the second run saves."""

    def scenario(m):
        x = leaf(m, 0.5)

        def part(a):
            (inner,) = m.autograd.grad(a.sin().exp().sum(), a, create_graph=True)
            return inner.sin()

        with utilities(m).set_checkpoint_early_stop(False):
            utilities(m).checkpoint(part, x, use_reentrant=False).sum().backward()
        return x.grad

    same(scenario)
