"""Defects of modules, their functions and optimizers that were found once; each test names its entry."""

from __future__ import annotations

import copy
import gc
import pickle
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import rushlight as rl

LIBRARIES = pytest.mark.parametrize("lib", [torch, rl], ids=["torch", "rushlight"])


@pytest.fixture
def swapping() -> Iterator[None]:
    """Conversions swap parameters, in both libraries."""
    for lib in (torch, rl):
        lib.__future__.set_swap_module_params_on_conversion(True)
    yield
    for lib in (torch, rl):
        lib.__future__.set_swap_module_params_on_conversion(False)


@LIBRARIES
def test_d12_data_of_a_leaf_stays_floating(lib: Any) -> None:
    x = lib.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="floating point or complex"):
        x.data = lib.ones(2, dtype=lib.int32)
    with pytest.raises(RuntimeError, match="incompatible tensor type"):
        x.data = lib.ones(2, device="meta")
    assert x.dtype == lib.float32
    y = lib.ones(2)
    y.data = lib.ones(3, dtype=lib.int32)
    assert y.dtype == lib.int32 and y.shape == (3,)


@LIBRARIES
def test_d12_dropout3d_drops_channels_without_a_batch(lib: Any) -> None:
    lib.manual_seed(0)
    dropped = lib.nn.Dropout3d(0.5)(lib.ones(64, 2, 3, 4)).flatten(1)
    assert set(dropped.amax(1).tolist()) == {0.0, 2.0}
    assert (dropped == dropped[:, :1]).all()


@LIBRARIES
def test_d22_materialize_takes_a_number(lib: Any) -> None:
    param = lib.nn.UninitializedParameter()
    param.materialize(10)
    assert param.shape == (10,) and type(param) is lib.nn.Parameter


@LIBRARIES
def test_d22_uninitialized_parameters_are_refused(lib: Any) -> None:
    param = lib.nn.UninitializedParameter()
    for use in (lambda: param + 1, lambda: lib.empty_like(param), lambda: param.sum()):
        with pytest.raises(ValueError, match="uninitialized parameter"):
            use()
    assert type(pickle.loads(pickle.dumps(param))) is lib.nn.UninitializedParameter


def test_d23_load_state_dict_leaves_no_cycles() -> None:
    module = rl.nn.LSTM(4, 4, bidirectional=True)
    state = copy.deepcopy(module).state_dict()
    module.load_state_dict(state)
    gc.collect()
    module.load_state_dict(state)
    assert gc.collect() == 0


@LIBRARIES
def test_d24_a_plain_backward_hook_returns_as_many(lib: Any) -> None:
    for hook, text in ((lambda module, grads, outputs: grads[:-1], "got 0, but expected 1"),
                       (lambda module, grads, outputs: (*grads, grads[0]), "got 2, but expected 1")):
        module = lib.nn.Sigmoid()
        module.register_backward_hook(hook)
        with pytest.raises(RuntimeError, match=text):
            module(lib.ones(2, requires_grad=True) * 2).sum().backward()


@LIBRARIES
def test_plain_backward_hooks_warn_of_what_they_miss(lib: Any) -> None:
    module = lib.nn.Sequential(lib.nn.Sigmoid(), lib.nn.Tanh())
    module.register_backward_hook(lambda *arguments: None)
    with pytest.warns(FutureWarning, match="multiple autograd Nodes"):
        module(lib.ones(2, requires_grad=True))
    single = lib.nn.Sigmoid()
    single.register_backward_hook(lambda *arguments: None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        single(lib.ones(2, requires_grad=True) * 2)


# Conversions that swap (`__future__`).


@LIBRARIES
def test_swapped_parameters_stay_the_objects_they_are(lib: Any, swapping: None) -> None:
    module = lib.nn.Linear(2, 3)
    weight, out = module.weight, module(lib.ones(1, 2))
    module.double()
    assert module.weight is weight and weight.dtype == lib.float64
    with pytest.raises(RuntimeError, match="poisoned by swap_tensors"):
        out.sum().backward()
    module(lib.ones(1, 2, dtype=lib.float64)).sum().backward()
    grad = weight.grad
    module.float()
    assert weight.grad is grad and grad.dtype == lib.float32 and weight.grad.tolist() == [[1, 1]] * 3


@LIBRARIES
def test_loading_swaps(lib: Any, swapping: None) -> None:
    module, other = lib.nn.Linear(2, 3), lib.nn.Linear(2, 3)
    weight = module.weight
    module.load_state_dict(other.state_dict())
    assert module.weight is weight and weight.requires_grad and bool((weight == other.weight).all())
    meta = lib.nn.Linear(2, 3, device="meta")
    weight = meta.weight
    meta.load_state_dict(other.state_dict(), assign=True)
    assert meta.weight is weight and bool((weight == other.weight).all())


@LIBRARIES
def test_overwriting_makes_new_parameters(lib: Any) -> None:
    module = lib.nn.Linear(2, 3)
    weight = module.weight
    lib.__future__.set_overwrite_module_params_on_conversion(True)
    try:
        module.double()
    finally:
        lib.__future__.set_overwrite_module_params_on_conversion(False)
    assert module.weight is not weight
    assert weight.dtype == lib.float32 and module.weight.dtype == lib.float64


@LIBRARIES
def test_swap_tensors_exchanges_everything(lib: Any) -> None:
    a, b = lib.ones(2, requires_grad=True), lib.zeros(3, dtype=lib.int64)
    b.name_of_mine = "b"
    lib.utils.swap_tensors(a, b)
    assert a.dtype == lib.int64 and a.shape == (3,) and a.name_of_mine == "b" and not a.requires_grad
    assert b.requires_grad and b.tolist() == [1.0, 1.0] and not hasattr(b, "name_of_mine")


@LIBRARIES
def test_swap_tensors_refuses_views(lib: Any) -> None:
    a, b = lib.ones(2), lib.zeros(2)
    view = a[:1]
    with pytest.raises(RuntimeError):
        lib.utils.swap_tensors(a, b)
    assert a.tolist() == [1.0, 1.0] and view.tolist() == [1.0]


def test_a_saved_tensor_that_was_swapped_is_refused() -> None:
    x, w = rl.ones(2), rl.ones(2, requires_grad=True)
    y = x * w
    rl.utils.swap_tensors(x, rl.zeros(2))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


@LIBRARIES
def test_conversion_keeps_the_gradient_object(lib: Any) -> None:
    module = lib.nn.Linear(2, 1)
    module(lib.ones(1, 2)).sum().backward()
    grad = module.weight.grad
    module.double()
    assert module.weight.grad is grad and grad.dtype == lib.float64


@LIBRARIES
def test_methods_of_a_class_between_are_kept(lib: Any) -> None:
    """A class derived from a class of tensors inherits that class's methods, not Tensor's."""

    class Base(lib.Tensor):
        def cpu(self) -> str:  # type: ignore[override]
            return "mine"

    class Derived(Base):
        pass

    assert lib.ones(2).as_subclass(Derived).cpu() == "mine"
