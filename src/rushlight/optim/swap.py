"""An optimizer that works on other tensors for a while."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..core.errors import check
from ..core.tensor import Tensor
from .optimizer import Optimizer

__all__ = ["swap_in_optimizer_params_and_state"]


@contextmanager
def swap_in_optimizer_params_and_state(
    optimizer: Optimizer, swapin_parameters: dict[str, Tensor], swapin_optim_state: dict[str, Any]
) -> Iterator[None]:
    """A region in which `optimizer` has these parameters, in its order, and the state and options of a state
    dict. Its own are back afterwards; tensors of the given state that it writes in place stay written.

    >>> model, other = nn.Linear(1, 1, bias=False), {"weight": rl.ones(1, 1, requires_grad=True)}
    >>> optimizer = rl.optim.SGD(model.parameters(), lr=0.5)
    >>> state = optimizer.state_dict()
    >>> with rl.optim.swap_in_optimizer_params_and_state(optimizer, other, state):
    ...     other["weight"].grad = rl.ones(1, 1)
    ...     optimizer.step()
    >>> other["weight"]
    tensor([[0.5000]], requires_grad=True)
    """
    packed, states = swapin_optim_state["param_groups"], swapin_optim_state["state"]
    groups = optimizer.param_groups
    sizes, others = ([len(group["params"]) for group in each] for each in (groups, packed))
    check(
        sizes == others,
        f"the groups of the state dict have {others} parameters, those of the optimizer {sizes}",
        ValueError,
    )
    check(
        sum(sizes) == len(swapin_parameters),
        f"the optimizer has {sum(sizes)} parameters, but {len(swapin_parameters)} were given",
        ValueError,
    )
    own_state, own_groups = optimizer.state, [dict(group) for group in groups]
    state: defaultdict[Any, Any] = defaultdict(dict)
    given = iter(swapin_parameters.values())
    try:
        for group, saved in zip(groups, packed, strict=True):
            group.update({key: value for key, value in saved.items() if key != "params"})
            group["params"] = [next(given) for _ in saved["params"]]
            for param, number in zip(group["params"], saved["params"], strict=True):
                state[param] = dict(states.get(number, {}))
        optimizer.state = state
        yield
    finally:
        for group, own in zip(groups, own_groups, strict=True):
            group.clear()
            group.update(own)
        optimizer.state = own_state
