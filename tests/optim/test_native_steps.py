"""Steps of optimizers by native code give what the list operators give, and write where they write."""

from __future__ import annotations

import copy
import gc
import weakref
from pathlib import Path
from typing import Any

import pytest

import rushlight as rl
from rushlight.runtime import known_programs
from rushlight.runtime.cache import ObjectCache
from rushlight.runtime.engine import engine
from rushlight.runtime.redzones import guarding

SHAPES = ((3, 4), (17,), (1,), (1, 1), (33, 70), ())
CASES: list[tuple[str, dict[str, Any]]] = [
    ("Adam", {}),
    ("Adam", {"weight_decay": 0.1, "amsgrad": True}),
    ("Adam", {"maximize": True}),
    ("AdamW", {}),
    ("Adamax", {"weight_decay": 0.1}),
    ("NAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RAdam", {}),
    ("SGD", {}),
    ("SGD", {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    ("SGD", {"momentum": 0.9, "dampening": 0.5}),
    ("RMSprop", {}),
    ("RMSprop", {"centered": True, "momentum": 0.5}),
    ("Adagrad", {"lr_decay": 0.1}),
    ("Adadelta", {}),
    ("Rprop", {}),
    ("ASGD", {}),
]
TOLERANCES = {rl.float32: 3e-7, rl.float64: 1e-7, rl.bfloat16: 1e-2}  # counts of states are single precision


def parameters(dtype: Any) -> list[Any]:
    generator = rl.Generator().manual_seed(0)
    return [rl.nn.Parameter(rl.randn(shape, generator=generator).to(dtype)) for shape in SHAPES]


def train(mode: str, name: str, options: dict[str, Any], dtype: Any) -> tuple[Any, list[Any]]:
    """An optimizer after some steps, and all its tensors."""
    with rl.eager.use(mode):
        params = parameters(dtype)
        optimizer = getattr(rl.optim, name)(params, lr=0.01, **options)
        for k in range(7):
            optimizer.param_groups[0]["lr"] = 0.01 if k < 4 else 0.02
            for i, param in enumerate(params):
                param.grad = param.detach() * 0.5 + 0.3 * (k - i)
            optimizer.step()
        states = [t for p in params for t in optimizer.state[p].values() if isinstance(t, rl.Tensor)]
        return optimizer, [*(p.detach() for p in params), *states]


def programs(optimizer: Any) -> list[Any]:
    return [] if optimizer._native is None else [k._program for k in optimizer._native._kinds.values()]


@pytest.mark.parametrize("dtype", [rl.float32, rl.float64, rl.bfloat16], ids=str)
@pytest.mark.parametrize(("name", "options"), CASES, ids=lambda case: str(case))
def test_as_list_operators(name: str, options: dict[str, Any], dtype: Any) -> None:
    _, expected = train("reference", name, options, dtype)
    optimizer, found = train("native", name, options, dtype)
    assert None not in programs(optimizer)
    assert len(programs(optimizer)) == (0 if options.get("dampening") else 2)  # one element, and more
    for a, b in zip(found, expected, strict=True):
        rl.testing.assert_close(a, b, rtol=TOLERANCES[dtype], atol=TOLERANCES[dtype])


@pytest.mark.parametrize("name", ["Adam", "SGD"])
def test_between_red_zones(name: str) -> None:
    _, expected = train("reference", name, {}, rl.float32)
    with guarding():
        _, found = train("native", name, {}, rl.float32)
    for a, b in zip(found, expected, strict=True):
        rl.testing.assert_close(a, b)


def test_versions_are_counted_and_memory_stays() -> None:
    with rl.eager.use("native"):
        param = rl.nn.Parameter(rl.ones(5, 6))
        optimizer = rl.optim.Adam([param])
        param.grad = rl.ones(5, 6)
        optimizer.step()
        address, version = param.data_ptr(), param._version
        saved = (param * param).sum()
        optimizer.step()
        assert (param.data_ptr(), param._version > version) == (address, True)
        assert optimizer.state[param]["step"].item() == 2.0
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            saved.backward()


def test_hyperparameters_that_change_the_program() -> None:
    """Weight decay that begins, a flag that turns, a rate that becomes a tensor: as the list operators do."""
    results = []
    for mode in ("reference", "native"):
        with rl.eager.use(mode):
            param = rl.nn.Parameter(rl.linspace(-1, 1, 20))
            optimizer = rl.optim.Adam([param], lr=0.1)
            changes: list[dict[str, Any]] = [
                {},
                {"weight_decay": 0.5},
                {"decoupled_weight_decay": True},
                {"maximize": True},
                {"lr": rl.tensor(0.05)},
                {"lr": 1},
            ]
            for change in changes:
                optimizer.param_groups[0].update(change)
                param.grad = param.detach() + 1
                optimizer.step()
            results.append(param.detach())
    rl.testing.assert_close(*results)


def test_rows_that_are_not_plain() -> None:
    """Views, gradients with gaps, memory that is shared: as the list operators do."""
    results = []
    for mode in ("reference", "native"):
        with rl.eager.use(mode):
            whole = rl.arange(24.0)
            shared = rl.ones(6)
            params = [whole[:12].view(3, 4), whole[12:], rl.ones(4, 3).t(), shared.clone(), rl.ones(6)]
            for param in params:
                param.requires_grad_()
            optimizer = rl.optim.SGD(params, lr=0.1, momentum=0.5)
            for _ in range(3):
                params[0].grad = rl.ones(4, 3).t()
                params[1].grad = rl.ones(1).expand(12)
                params[2].grad = rl.ones(3, 4)
                params[3].grad = params[4].detach()  # that the same step writes to
                params[4].grad = rl.ones(6)
                optimizer.step()
            results.append([p.detach().clone() for p in params])
    for a, b in zip(*results, strict=True):
        rl.testing.assert_close(a, b)


def test_copies_and_ends() -> None:
    with rl.eager.use("native"):
        optimizer, _ = train("native", "Adam", {}, rl.float32)
        twin = copy.deepcopy(optimizer)
        assert twin._native is None
        grad = weakref.ref(optimizer.param_groups[0]["params"][0].grad)
        optimizer.zero_grad()
        assert grad() is None  # programs keep no gradient
        gone = weakref.ref(optimizer)
        del optimizer
        gc.collect()
        assert gone() is None


def test_every_declared_update_is_tested() -> None:
    declared = {
        name
        for name in dir(rl.optim)
        if isinstance(kind := getattr(rl.optim, name), type)
        and issubclass(kind, rl.optim.Optimizer)
        and getattr(kind._update, "by_elements", False)
    }
    assert declared == {name for name, _ in CASES}


@pytest.mark.parametrize(("name", "options"), CASES, ids=lambda case: str(case))
def test_programs_come_from_disk(
    name: str, options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An optimizer like one of an earlier process compiles nothing, whatever the values of its numbers."""
    monkeypatch.setattr(engine(), "cache", ObjectCache(tmp_path))
    known_programs.forget()
    first, _ = train("native", name, options, rl.float32)
    known_programs.forget()
    options = {k: v * 0.75 if type(v) is float else v for k, v in options.items()}
    _, expected = train("reference", name, options, rl.float32)
    monkeypatch.setattr("rushlight.eager.compiling.capture_own", lambda *args: pytest.fail("it was captured"))
    second, found = train("native", name, options, rl.float32)
    assert None not in programs(second)
    assert len(programs(second)) == len(programs(first))
    for a, b in zip(found, expected, strict=True):
        rl.testing.assert_close(a, b, rtol=3e-7, atol=3e-7)
