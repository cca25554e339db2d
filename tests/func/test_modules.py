"""functional_call and stack_module_state, on a module with nothing but the parts they need."""

from __future__ import annotations

import pytest

import rushlight as rl
from rushlight.func import functional_call, grad, stack_module_state, vmap


class Linear:
    """The part of nn.Module's interface that functional_call uses."""

    def __init__(self, weight, bias, *, tied: bool = False) -> None:
        self._parameters = {"weight": weight, "bias": bias}
        if tied:
            self._parameters["again"] = weight
        self._buffers = {"scale": rl.tensor(2.0)}
        self.training = True

    def named_parameters(self, remove_duplicate: bool = True):
        seen = set()
        for name, tensor in self._parameters.items():
            if not remove_duplicate or id(tensor) not in seen:
                seen.add(id(tensor))
                yield name, tensor

    def named_buffers(self, remove_duplicate: bool = True):
        yield from self._buffers.items()

    def get_submodule(self, path: str):
        raise AttributeError(path)

    def __call__(self, x):
        p = self._parameters
        return (x @ p["weight"] + p["bias"]) * self._buffers["scale"] + (
            x @ p["again"] if "again" in p else 0
        )


def module(**options):
    return Linear(rl.ones(3, 2).requires_grad_(), rl.zeros(2).requires_grad_(), **options)


def test_replaces_and_restores():
    m = module()
    before = dict(m._parameters)
    out = functional_call(m, {"weight": rl.zeros(3, 2), "scale": rl.tensor(3.0)}, (rl.ones(3),))
    assert out.tolist() == [0.0, 0.0]
    assert all(m._parameters[name] is before[name] for name in before)
    assert m._buffers["scale"].item() == 2.0


def test_restores_after_an_error():
    m = module()
    weight = m._parameters["weight"]
    with pytest.raises(RuntimeError):
        functional_call(m, {"weight": rl.zeros(5, 5)}, (rl.ones(3),))
    assert m._parameters["weight"] is weight


def test_tied_weights():
    m = module(tied=True)
    new = {"weight": rl.full((3, 2), 2.0)}
    assert functional_call(m, new, rl.ones(3)).tolist() == [18.0, 18.0]
    assert functional_call(m, new, rl.ones(3), tie_weights=False).tolist() == [15.0, 15.0]
    with pytest.raises(ValueError, match="tied"):
        functional_call(m, {"weight": rl.zeros(3, 2), "again": rl.ones(3, 2)}, rl.ones(3))


def test_strict():
    with pytest.raises(RuntimeError, match=r"Unexpected key\(s\): 'other'. Missing key\(s\): 'weight'"):
        functional_call(module(), {"other": rl.ones(1)}, rl.ones(3), strict=True)


def test_several_dictionaries():
    m = module()
    out = functional_call(m, ({"weight": rl.zeros(3, 2)}, {"bias": rl.ones(2)}), rl.ones(3))
    assert out.tolist() == [2.0, 2.0]
    with pytest.raises(ValueError, match="multiple dictionaries"):
        functional_call(m, ({"bias": rl.ones(2)}, {"bias": rl.ones(2)}), rl.ones(3))


def test_per_sample_gradients():
    m = module()
    state = {name: tensor.detach() for name, tensor in m.named_parameters()}
    x = rl.arange(12.0).reshape(4, 3)

    def loss(parameters, sample):
        out = functional_call(m, parameters, sample)
        return (out * out).sum()

    together = vmap(grad(loss), in_dims=(None, 0))(state, x)
    for n in range(4):
        alone = grad(loss)(state, x[n])
        for name in state:
            assert rl.allclose(together[name][n], alone[name])


def test_ensembles():
    models = [
        Linear(rl.full((3, 2), float(n)).requires_grad_(), rl.zeros(2).requires_grad_()) for n in range(3)
    ]
    parameters, buffers = stack_module_state(models)
    assert parameters["weight"].shape == (3, 3, 2)
    assert parameters["weight"].requires_grad
    assert parameters["weight"].is_leaf
    x = rl.ones(3)
    out = vmap(lambda p, b: functional_call(models[0], (p, b), x))(parameters, buffers)
    assert out.tolist() == [m(x).tolist() for m in models]
    models[0].training = False
    with pytest.raises(RuntimeError, match="training/eval mode"):
        stack_module_state(models)
