"""Modules as functions of tuples of their parameters and buffers: functorch's older way.

`functional_call` does the same with dictionaries and without copies of the module.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

from ..core.dispatch import run_name
from ..core.tensor import Tensor
from .modules import check_alike, replaced

State = tuple[Tensor, ...]


class FunctionalModuleWithBuffers:
    """A module without state of its own: call it with parameters, buffers, and the arguments it takes."""

    def __init__(self, model: Any) -> None:
        self.stateless_model = copy.deepcopy(model)
        self.param_names = tuple(name for name, _ in model.named_parameters())
        self.buffer_names = tuple(name for name, _ in model.named_buffers())
        # all names of each tensor, since the module may hold one under several
        self._names: dict[str, list[str]] = {}
        for named in (model.named_parameters, model.named_buffers):
            first: dict[int, str] = {}
            for name, tensor in named(remove_duplicate=False):
                self._names.setdefault(first.setdefault(id(tensor), name), []).append(name)

    def __call__(self, params: Sequence[Tensor], buffers: Sequence[Tensor], *args: Any, **kwargs: Any) -> Any:
        given = (*zip(self.param_names, params, strict=True), *zip(self.buffer_names, buffers, strict=True))
        state = {name: tensor for first, tensor in given for name in self._names[first]}
        with replaced(self.stateless_model, state, strict=False):
            return self.stateless_model(*args, **kwargs)


class FunctionalModule(FunctionalModuleWithBuffers):
    """A module without parameters of its own: call it with them and the arguments of the module."""

    def __call__(self, params: Sequence[Tensor], *args: Any, **kwargs: Any) -> Any:
        buffers = tuple(dict(self.stateless_model.named_buffers()).values())
        return super().__call__(params, buffers, *args, **kwargs)


def make_functional(model: Any, disable_autograd_tracking: bool = False) -> tuple[FunctionalModule, State]:
    """A function of parameters and inputs that does what `model` does, and its parameters."""
    if list(model.buffers()):
        raise RuntimeError(
            "make_functional(model): `model` has buffers. Please use "
            "make_functional_with_buffers(model) instead."
        )
    return FunctionalModule(model), _copies(model.parameters(), disable_autograd_tracking)


def make_functional_with_buffers(
    model: Any, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModuleWithBuffers, State, State]:
    """A function of parameters, buffers and inputs that does what `model` does, and both of these."""
    return (
        FunctionalModuleWithBuffers(model),
        _copies(model.parameters(), disable_autograd_tracking),
        _copies(model.buffers(), disable_autograd_tracking),
    )


def _copies(tensors: Any, without_history: bool) -> State:
    made = [copy.deepcopy(tensor) for tensor in tensors]
    for tensor in made if without_history else ():
        tensor.requires_grad_(False)
    return tuple(made)


def combine_state_for_ensemble(models: Sequence[Any]) -> tuple[FunctionalModuleWithBuffers, State, State]:
    """A function for all of some models of one kind, for vmap, and their parameters and buffers, stacked."""
    check_alike(models, "combine_state_for_ensemble")
    made = [make_functional_with_buffers(model) for model in models]
    return made[0][0], _stacked([params for _, params, _ in made]), _stacked([b for _, _, b in made])


def _stacked(states: list[State]) -> State:
    found = []
    for tensors in zip(*states, strict=True):
        whole = run_name("stack", tuple(tensor.detach() for tensor in tensors), 0)
        found.append(whole.requires_grad_(tensors[0].requires_grad))
    return tuple(found)


def functional_init(
    model_class: Callable[..., Any], ensemble_shape: Any = (), device: Any = None
) -> Callable[..., Any]:
    """A function of the arguments of `model_class` that makes models, at most one dimension of them; gives
    (parameters, function, names of parameters). The function takes parameters and the tuple of a model's
    arguments."""

    def init(*args: Any, **kwargs: Any) -> Any:
        function, params, buffers = _ensemble(model_class, ensemble_shape, device, args, kwargs)
        if buffers:
            raise RuntimeError("functional_init: the model has buffers; use functional_init_with_buffers")
        fn = FunctionalModule(function.stateless_model)
        return params, lambda weights, data: fn(weights, *data), function.param_names

    return init


def functional_init_with_buffers(
    model_class: Callable[..., Any], ensemble_shape: Any = (), device: Any = None
) -> Callable[..., Any]:
    """As `functional_init`, for models with buffers: (parameters, buffers, function, names of both)."""

    def init(*args: Any, **kwargs: Any) -> Any:
        function, params, buffers = _ensemble(model_class, ensemble_shape, device, args, kwargs)
        fn = lambda weights, buffers, data: function(weights, buffers, *data)  # noqa: E731
        return params, buffers, fn, function.param_names, function.buffer_names

    return init


def _ensemble(model_class: Callable[..., Any], shape: Any, device: Any, args: Any, kwargs: Any) -> Any:
    if len(shape) > 1:
        raise ValueError("NYI: ensemble_shape with more than 1 element")
    if not shape:
        return make_functional_with_buffers(model_class(*args, **kwargs).to(device))
    if shape[0] <= 0:
        raise ValueError(f"num_models {shape[0]} should be > 0")
    return combine_state_for_ensemble([model_class(*args, **kwargs).to(device) for _ in range(shape[0])])
