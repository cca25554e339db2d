"""Modules as functions of their parameters: functional_call and stack_module_state."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..core.dispatch import run_name
from ..core.errors import check
from ..core.tensor import Tensor


def replace_all_batch_norm_modules_(root: Any) -> Any:
    """Let every batch norm in `root` use the statistics of its batch alone, in place; `vmap` needs that.

    >>> rl.func.replace_all_batch_norm_modules_(nn.BatchNorm1d(2)).running_mean
    """
    for module in root.modules():
        if hasattr(module, "track_running_stats") and hasattr(module, "num_batches_tracked"):
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root


def functional_call(
    module: Any,
    parameter_and_buffer_dicts: Any,
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call `module` with some of its parameters and buffers replaced, without changing the module.

    >>> state = {"weight": rl.ones(1, 1), "bias": rl.zeros(1)}
    >>> rl.func.functional_call(nn.Linear(1, 1), state, rl.tensor([[3.0]]))
    tensor([[3.]])
    """
    if isinstance(parameter_and_buffer_dicts, dict):
        state = parameter_and_buffer_dicts
    else:
        check(
            isinstance(parameter_and_buffer_dicts, Sequence),
            "Expected parameter_and_buffer_dicts to be a "
            f"dict, or a list/tuple of dicts, but got {type(parameter_and_buffer_dicts)}",
            ValueError,
        )
        check(
            all(isinstance(d, dict) for d in parameter_and_buffer_dicts),
            "Expected all elements of parameter_and_buffer_dicts to be dictionaries",
            ValueError,
        )
        keys = [key for d in parameter_and_buffer_dicts for key in d]
        repeated = {key for key in keys if keys.count(key) > 1}
        check(
            not repeated,
            f"{sorted(repeated)} appeared in multiple dictionaries; behavior of functional call is ambiguous",
            ValueError,
        )
        state = {key: value for d in parameter_and_buffer_dicts for key, value in d.items()}
    positional = () if args is None else args if isinstance(args, tuple) else (args,)
    with replaced(module, _tied(module, state) if tie_weights else state, strict=strict):
        return module(*positional, **(kwargs or {}))


def _named_tensors(module: Any) -> dict[str, Any]:
    found = dict(module.named_parameters(remove_duplicate=False))
    found.update(module.named_buffers(remove_duplicate=False))
    return found


def _tied(module: Any, state: dict[str, Any]) -> dict[str, Any]:
    """`state` extended to the other names of tensors that the module holds under several."""
    by_identity: dict[int, list[str]] = {}
    for name, tensor in _named_tensors(module).items():
        by_identity.setdefault(id(tensor), []).append(name)
    result = dict(state)
    for names in by_identity.values():
        given = [name for name in names if name in state]
        if not given:
            continue
        values = {id(state[name]) for name in given}
        check(
            len(values) == 1,
            f"functional_call got multiple values for keys {given}, which are tied. "
            "Consider using tie_weights=False",
            ValueError,
        )
        result.update(dict.fromkeys(names, state[given[0]]))
    return result


@contextmanager
def replaced(module: Any, state: dict[str, Any], *, strict: bool) -> Iterator[None]:
    """The module with the tensors of `state` in place of its own."""
    own = _named_tensors(module)
    unknown = [name for name in state if name not in own]
    missing = [name for name in own if name not in state]
    if strict and (unknown or missing):
        parts = ([f"Unexpected key(s): {', '.join(map(repr, unknown))}."] if unknown else []) + (
            [f"Missing key(s): {', '.join(map(repr, missing))}."] if missing else []
        )
        raise RuntimeError("Error in reparametrizing: " + " ".join(parts))
    saved = []
    try:
        for name, tensor in state.items():
            if name not in own:
                continue
            path, _, leaf = name.rpartition(".")
            owner = module.get_submodule(path) if path else module
            table = owner._parameters if leaf in owner._parameters else owner._buffers
            saved.append((table, leaf, table[leaf]))
            table[leaf] = tensor
        yield
    finally:
        for table, leaf, tensor in reversed(saved):
            table[leaf] = tensor


def check_alike(models: Sequence[Any], what: str) -> None:
    """Refuse models that cannot be stacked."""
    check(len(models) > 0, f"{what}: Expected at least one model, got 0.")
    check(
        all(m.training for m in models) or not any(m.training for m in models),
        f"{what}: Expected all models to have the same training/eval mode.",
    )
    check(
        all(type(m) is type(models[0]) for m in models),
        f"{what}: Expected all models to be of the same class.",
    )


def stack_module_state(models: Sequence[Any]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The parameters and buffers of models of the same kind, each stacked along a new first dimension.

    >>> parameters, buffers = rl.func.stack_module_state([nn.Linear(2, 3), nn.Linear(2, 3)])
    >>> parameters["weight"].shape
    rushlight.Size([2, 3, 2])
    """
    check_alike(models, "stack_module_state")
    parameters = _stacked([dict(m.named_parameters()) for m in models])
    buffers = _stacked([dict(m.named_buffers()) for m in models])
    return parameters, buffers


def _stacked(tables: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    return {name: _stack([table[name] for table in tables]) for name in tables[0]}


def _stack(tensors: Sequence[Tensor]) -> Tensor:
    requires = [t.requires_grad for t in tensors]
    check(
        all(requires) or not any(requires), "Expected params from each model to have the same .requires_grad"
    )
    if not tensors[0].is_leaf:
        return run_name("stack", tuple(tensors), 0)
    return run_name("stack", tuple(t.detach() for t in tensors), 0)._set_requires_grad(requires[0])
