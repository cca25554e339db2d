"""With `--compile auto`, tensors that hooks and functions keep of a module's call are those of the call."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.programs import automatic

CALLS = automatic.WARM + 5


@pytest.fixture(autouse=True)
def compiled_automatically() -> Iterator[None]:
    automatic.enable()
    yield
    automatic.disable()


STORE: dict[Any, Any] = {}
QUEUE: deque[Any] = deque(maxlen=4)


def appended(module: Any, x: Any) -> None:
    module.kept.append(x * 1)


def appended_in_a_list(module: Any, x: Any) -> None:
    module.kept.append([x.detach()])


def extended(module: Any, x: Any) -> None:
    module.kept.extend(part * 1 for part in (x,))


def inserted(module: Any, x: Any) -> None:
    module.kept.insert(0, x * 1)


def sliced(module: Any, x: Any) -> None:
    module.kept[:] = [x * 1]


def assigned(module: Any, x: Any) -> None:
    module.last = x * 1


def itself(module: Any, x: Any) -> None:
    module.last = x


def made_when_needed(module: Any, x: Any) -> None:
    if not hasattr(module, "later"):
        module.later = []
    module.later.append(x.detach())


def by_name(module: Any, x: Any) -> None:
    setattr(module, "la" + "st", x * 1)


def in_the_dictionary(module: Any, x: Any) -> None:
    module.__dict__["last"] = x * 1


def of_a_parameter(module: Any, x: Any) -> None:
    module.weight.last = x * 1


def elsewhere(module: Any, x: Any) -> None:
    STORE.setdefault(module, []).append(x * 1)


def queued(module: Any, x: Any) -> None:
    QUEUE.append(x * 1)


# what keeps a tensor, and where it is then
KEEPERS: list[tuple[Callable[[Any, Any], None], Callable[[Any], Any]]] = [
    (appended, lambda module: module.kept.pop()),
    (appended_in_a_list, lambda module: module.kept.pop()[0]),
    (extended, lambda module: module.kept.pop()),
    (inserted, lambda module: module.kept.pop()),
    (sliced, lambda module: module.kept[0]),
    (assigned, lambda module: module.last),
    (itself, lambda module: module.last),
    (made_when_needed, lambda module: module.later.pop()),
    (by_name, lambda module: module.last),
    (in_the_dictionary, lambda module: module.last),
    (of_a_parameter, lambda module: module.weight.last),
    (elsewhere, lambda module: STORE[module].pop()),
    (queued, lambda module: QUEUE.pop()),
]


class Calling(nn.Linear):
    """Hands itself to a function."""

    def __init__(self, keep: Callable[[Any, Any], None]) -> None:
        super().__init__(4, 2)
        self.keep = keep

    def forward(self, x: Any) -> Any:
        self.keep(self, x)
        return super().forward(x)


def check(model: Any, keeping: Any, take: Callable[[Any], Any]) -> None:
    keeping.kept = []
    for number in range(CALLS):
        x = rl.full((3, 4), float(number + 1))
        model(x)
        kept = take(keeping)
        assert rl.equal(kept, x), f"call {number}"


@pytest.mark.parametrize(("keep", "take"), KEEPERS, ids=lambda f: f.__name__)
def test_by_a_hook(keep: Callable[[Any, Any], None], take: Callable[[Any], Any]) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    model[0].register_forward_hook(lambda module, args, out: keep(module, args[0]))
    check(model, model[0], take)


@pytest.mark.parametrize(("keep", "take"), KEEPERS, ids=lambda f: f.__name__)
def test_by_a_function(keep: Callable[[Any, Any], None], take: Callable[[Any], Any]) -> None:
    model = nn.Sequential(Calling(keep), nn.ReLU())
    check(model, model[0], take)


def test_backward_hooks_find_what_forward_hooks_kept() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    found = []
    for layer in model:
        layer.kept = []
        layer.register_forward_hook(lambda module, args, out: module.kept.append(args[0].detach()))
        layer.register_full_backward_hook(lambda module, grads, outs: found.append(module.kept.pop()))
    for number in range(CALLS):
        x = rl.full((3, 4), float(number + 1), requires_grad=True)
        model(x).sum().backward()
        assert rl.equal(found[-1], x)
        assert not model[0].kept and not model[1].kept
