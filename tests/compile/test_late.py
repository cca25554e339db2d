"""Results that are computed after the graph: selections whose shape depends on data, and items."""

from __future__ import annotations

import pytest

import rushlight as rl
from rushlight import nn, optim
from rushlight.capture.errors import CaptureError


def tensor(*shape: int, seed: int = 0, **options) -> rl.Tensor:
    return rl.randn(*shape, generator=rl.Generator().manual_seed(seed), **options)


def same(found, expected) -> None:
    if isinstance(expected, rl.Tensor):
        assert found.dtype is expected.dtype
        assert found.requires_grad == expected.requires_grad
        rl.testing.assert_close(found, expected)
    elif isinstance(expected, tuple | list):
        assert type(found) is type(expected)
        for a, b in zip(found, expected, strict=True):
            same(a, b)
    else:
        assert type(found) is type(expected)
        assert found == pytest.approx(expected, rel=1e-5)


INDICES = rl.tensor([1, 3])

PROGRAMS = {
    "mask": lambda x: (x * 2)[x > 0],
    "of an argument": lambda x: x[x > 0],
    "masked_select": lambda x: x.exp().masked_select(x > 0.5),
    "nonzero": lambda x: (x > 0).nonzero(),
    "where": lambda x: rl.where(x.sin() > 0),
    "argwhere": lambda x: rl.argwhere(x.relu()),
    "unique": lambda x: rl.unique(x.round(), return_inverse=True, return_counts=True),
    "bincount": lambda x: rl.bincount((x.flatten() * 2).abs().long()),
    "one_hot": lambda x: nn.functional.one_hot(x.abs().long()),
    "repeat_interleave": lambda x: (x * 2).repeat_interleave((x[:, 0] > 0).long() + 1, 0),
    "narrow": lambda x: (x * 2).narrow(0, x.argmax().remainder(3), 2),
    "tensor_split": lambda x: rl.tensor_split(x * 2, INDICES),
    "item": lambda x: x.sum().item(),
    "items": lambda x: [x.sum().item(), (x > 0).sum().item(), (x > 0).any().item()],
    "equal": lambda x: rl.equal(x * 2, x + x),
    "allclose": lambda x: rl.allclose(x.exp().log(), x, atol=1e-5),
    "beside others": lambda x: (x.cumsum(0), x[x > 0], x.mean(0).exp()),
    "without history": lambda x: x.detach()[x > 0],
}


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_results(program, requires_grad: bool) -> None:
    compiled = rl.compile(program, fullgraph=True)
    for seed in range(3):
        x = tensor(4, 5, seed=seed).requires_grad_(requires_grad)
        same(compiled(x), program(x))
    assert compiled.reasons == ["first call"]


@pytest.mark.parametrize("fullgraph", [False, True])
def test_gradients(fullgraph: bool) -> None:
    def program(x: rl.Tensor) -> tuple[rl.Tensor, rl.Tensor]:
        y = (x * x).exp()
        return y, y[y > 1.5]

    compiled = rl.compile(program, fullgraph=fullgraph)
    for seed in range(2):
        grads = []
        for function in (program, compiled):
            x = tensor(4, 5, seed=seed, requires_grad=True)
            whole, some = function(x)
            (whole.sum() + (some * some).sum()).backward()
            grads.append(x.grad)
        rl.testing.assert_close(*grads)
    assert not compiled.eager


def test_a_view_of_a_result_shares_its_memory() -> None:
    def program(x: rl.Tensor, start: rl.Tensor) -> tuple[rl.Tensor, rl.Tensor]:
        y = x * 2
        return y, y.narrow(0, start, 1)

    whole, part = rl.compile(program, fullgraph=True)(tensor(3, 2), rl.tensor(1))
    part.zero_()
    assert whole[1].tolist() == [0, 0]


def test_a_training_step_may_return_its_loss_as_a_number() -> None:
    def losses(compiled: bool) -> list[float]:
        rl.manual_seed(0)
        model = nn.Linear(4, 1)
        optimizer = optim.AdamW(model.parameters(), lr=0.1)

        def step(x: rl.Tensor, y: rl.Tensor) -> float:
            optimizer.zero_grad()
            loss = ((model(x) - y) ** 2).mean()
            loss.backward()
            optimizer.step()
            return loss.item()

        function = rl.compile(step) if compiled else step
        found = [function(tensor(8, 4, seed=k), tensor(8, 1, seed=k + 9)) for k in range(4)]
        assert not compiled or (function.specializations and not function.eager)
        return found

    assert losses(True) == pytest.approx(losses(False), rel=1e-5)


# What needs the data while the program runs.

KEPT: list[float] = []

BROKEN = {
    "computes with a selection": lambda x: x.round().unique(dim=0).sum(),
    "asks for a shape": lambda x: len((x > 0).nonzero()),
    "compares a number": lambda x: x.sum().item() > 0,
    "formats a number": lambda x: float(f"{x.sum().item():.3f}"),
    "a number of a number": lambda x: int(x.sum().item()),
    "writes to what was selected from": lambda x: ((y := x * 2).unique(dim=0), y.zero_()),
}
# What breaks a graph that may break, and has its place in one that must not (test_data_sizes.py).
WHOLE = {
    "computes with a selection of elements": lambda x: x[x > 0].sum(),
    "computes with a number": lambda x: x * x.sum().item(),
    "writes to what elements were selected from": lambda x: ((y := x * 2).nonzero(), y.zero_()),
}


@pytest.mark.parametrize("program", BROKEN.values(), ids=BROKEN)
def test_the_graph_breaks(program) -> None:
    with pytest.raises(CaptureError, match=r"test_late\.py:\d+"):
        rl.compile(program, fullgraph=True)(tensor(4, 5))
    compiled = rl.compile(program)
    for seed in range(3):
        same(compiled(tensor(4, 5, seed=seed)), program(tensor(4, 5, seed=seed)))


@pytest.mark.parametrize("program", WHOLE.values(), ids=WHOLE)
@pytest.mark.parametrize("fullgraph", [False, True])
def test_the_graph_need_not_break(program, fullgraph: bool) -> None:
    compiled = rl.compile(program, fullgraph=fullgraph)
    for seed in range(3):
        same(compiled(tensor(4, 5, seed=seed)), program(tensor(4, 5, seed=seed)))
    assert bool(compiled.eager) is not fullgraph


def test_history_of_a_selection_after_a_break() -> None:
    compiled = rl.compile(lambda x: ((x * x)[x > 0] * 3).sum())
    for seed in range(2):
        x = tensor(4, 5, seed=seed, requires_grad=True)
        compiled(x).backward()
        rl.testing.assert_close(x.grad, (6 * x * (x > 0)).detach())


def test_a_number_may_not_be_kept() -> None:
    def program(x: rl.Tensor) -> rl.Tensor:
        KEPT.append(x.sum().item())
        return x * 2

    with pytest.raises(CaptureError, match="keeps"):
        rl.compile(program, fullgraph=True)(tensor(3))
    KEPT.clear()
    compiled = rl.compile(program)  # runs eagerly
    for _ in range(3):
        compiled(rl.ones(3))
    assert KEPT == [3.0, 3.0, 3.0]
    assert all(type(number) is float for number in KEPT)


def test_explain_tells() -> None:
    assert "then, eagerly: bincount" in str(rl.explain(lambda x: (x * 2).long().bincount(), rl.ones(3)))
