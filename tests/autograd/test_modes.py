"""no_grad, enable_grad, inference_mode and friends, anomaly mode."""

from __future__ import annotations

import warnings

import pytest

import rushlight as rl

from .leaves import leaf


def test_context_managers(same):
    def scenario(m):
        x = leaf(m, 1.0)
        seen = [(x * 2).requires_grad]
        with m.no_grad():
            seen.append((x * 2).requires_grad)
            with m.enable_grad():
                seen.append((x * 2).requires_grad)
            seen.append((x * 2).requires_grad)
        with m.set_grad_enabled(False):
            seen.append(m.is_grad_enabled())
        m.set_grad_enabled(False)
        seen.append(m.is_grad_enabled())
        m.set_grad_enabled(True)
        with m.inference_mode():
            y = x * 2
            seen += [
                y.requires_grad,
                y.is_inference(),
                m.is_inference_mode_enabled(),
                m.zeros(2).is_inference(),
            ]
            with m.inference_mode(False):
                seen += [m.zeros(2).is_inference(), (x * 2).requires_grad]
        return seen

    same(scenario)


def test_decorators(same):
    def scenario(m):
        x = leaf(m, 1.0)

        @m.no_grad()
        def one():
            return (x * 2).requires_grad

        @m.no_grad
        def two():
            return (x * 2).requires_grad

        @m.inference_mode()
        def three():
            return (x * 2).is_inference()

        @m.set_grad_enabled(False)
        def four():
            return (x * 2).requires_grad

        @m.no_grad()
        def several():
            yield m.is_grad_enabled()
            yield m.is_grad_enabled()

        inside = []
        for value in several():
            inside.append((value, m.is_grad_enabled()))
        return one(), two(), three(), four(), inside, m.is_grad_enabled()

    same(scenario)


def test_modes_survive_exceptions():
    with pytest.raises(KeyError), rl.no_grad():
        raise KeyError
    assert rl.is_grad_enabled()
    with pytest.raises(KeyError), rl.inference_mode():
        raise KeyError
    assert not rl.zeros(1).is_inference()


def test_inference_tensors(same):
    def scenario(m):
        with m.inference_mode():
            x = m.ones(2)
            x.add_(1)
            view = x[:1]
        clone = x.clone()
        clone.add_(1)
        seen = [x.is_inference(), view.is_inference(), clone.is_inference(), (x * 2).is_inference()]
        try:
            _ = x._version
        except RuntimeError as error:
            seen.append(str(error))
        return seen

    same(scenario)


@pytest.mark.parametrize("name", ["require grad outside", "write outside", "save outside", "view outside"])
def test_inference_refusals(same, name):
    def scenario(m):
        w = leaf(m, 1.0, 2.0)
        plain = m.ones(2)
        with m.inference_mode():
            x = m.ones(2)
            view = plain[:1]
        if name == "require grad outside":
            x.requires_grad_()
        elif name == "write outside":
            x.add_(1)
        elif name == "save outside":
            x * w
        else:
            view.mul_(w[:1])

    messages = {
        "require grad outside": "inference",
        "write outside": "Inplace update to inference tensor",
        "save outside": "Inference tensors cannot be saved",
        "view outside": "created in inference mode",
    }
    same(scenario, message=messages[name])


def test_anomaly_points_at_the_forward_line():
    x = leaf(rl, -1.0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with rl.autograd.detect_anomaly():
            y = x.sqrt()  # the culprit
            with pytest.raises(RuntimeError, match=r"'SqrtBackward0' returned nan values in its 0th output"):
                y.backward()
    text = "".join(str(w.message) for w in caught)
    assert "x.sqrt()  # the culprit" in text
    assert "rushlight/autograd" not in text


def test_anomaly_without_nan_check():
    x = leaf(rl, -1.0)
    with pytest.warns(UserWarning, match="Anomaly"):
        mode = rl.autograd.detect_anomaly(check_nan=False)
    with mode:
        x.sqrt().backward()
    assert x.grad.isnan().all()


def test_anomaly_mode_is_switched_back():
    with rl.autograd.set_detect_anomaly(True):
        assert rl.autograd.is_anomaly_enabled()
    assert not rl.autograd.is_anomaly_enabled()
