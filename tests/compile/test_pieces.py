"""A program that breaks runs eagerly, but its modules and optimizer steps are compiled on their own."""

from __future__ import annotations

import builtins
import copy
import pickle

import pytest

import rushlight as rl
import rushlight.nn.functional as F
from rushlight import nn, optim
from rushlight.capture.errors import CaptureError


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.expand = nn.Linear(width, 2 * width)
        self.contract = nn.Linear(2 * width, width)

    def forward(self, x: rl.Tensor) -> rl.Tensor:
        return x + self.contract(F.gelu(self.expand(self.norm(x))))


class Model(nn.Module):
    def __init__(self, reads: bool = False) -> None:
        super().__init__()
        self.blocks = nn.Sequential(Block(6), Block(6))
        self.head = nn.Linear(6, 3)
        self.reads = reads

    def forward(self, x: rl.Tensor) -> rl.Tensor:
        x = self.blocks(x)
        return self.head(x / float(x.abs().max()) if self.reads else x)


def made(reads: bool = False) -> tuple[Model, optim.Optimizer]:
    rl.manual_seed(0)
    model = Model(reads)
    return model, optim.AdamW(model.parameters(), lr=1e-2)


def step_of(model: nn.Module, optimizer: optim.Optimizer):
    def step(x: rl.Tensor, y: rl.Tensor) -> rl.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        if float(loss) > 1e3:
            raise ArithmeticError("it diverges")
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def pieces(owner) -> list:
    return list(vars(owner).get("_pieces", {}).values())


@pytest.mark.parametrize("reads", [False, True])
def test_training_step(reads: bool) -> None:
    (model, optimizer), (other, same) = made(reads), made(reads)
    compiled, step = rl.compile(step_of(model, optimizer)), step_of(other, same)
    for seed in range(6):
        generator = rl.Generator().manual_seed(seed)
        x, y = rl.randn(5, 6, generator=generator), rl.randint(0, 3, (5,), generator=generator)
        rl.testing.assert_close(compiled(x, y), step(x, y), rtol=1e-4, atol=1e-5)
    for a, b in zip(model.parameters(), other.parameters(), strict=True):
        rl.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)
    assert list(compiled.eager)  # it has no graph
    (whole,), (update,) = pieces(model), pieces(optimizer)
    assert update.specializations and not update.eager
    if reads:  # the model breaks, and what it is made of is compiled
        assert whole.eager and not whole.specializations
        assert pieces(model.blocks)[0].specializations
    else:
        assert whole.specializations and not whole.eager
    assert not pieces(other)


def test_lengths_that_grow_are_compiled_once() -> None:
    model, _ = made()

    @rl.compile
    def grown(x: rl.Tensor) -> int:
        for _ in range(4):
            x = rl.cat([x, model(x)[:1].repeat(1, 2)])
        return int(x.sum() > 0) + len(x)

    with rl.no_grad():
        assert [grown(rl.ones(1, 6)) > 4, grown(rl.ones(1, 6)) > 4] == [True, True]
        grown(rl.ones(1, 6))
    # of the four lengths, the first is a case of its own (one row), and the others are one program
    assert len(pieces(model)[0].specializations) <= 2


def test_other_calls_are_not_touched() -> None:
    model, optimizer = made()
    model(rl.ones(2, 6)).sum().backward()
    optimizer.step()
    assert not pieces(model)
    assert not pieces(optimizer)


def test_copies_have_their_own() -> None:
    model, optimizer = made()
    compiled = rl.compile(step_of(model, optimizer))
    for _ in range(3):
        compiled(rl.ones(4, 6), rl.tensor([0, 1, 2, 0]))
    assert pieces(model)
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert not pieces(twin)
        rl.testing.assert_close(twin(rl.ones(2, 6)), model(rl.ones(2, 6)))


# Printing.


def test_a_program_that_prints_prints_every_time(capsys) -> None:
    def program(x: rl.Tensor) -> rl.Tensor:
        print("shape", tuple(x.shape))
        return x * 2

    before = builtins.print
    compiled = rl.compile(program)
    for _ in range(3):
        assert compiled(rl.ones(2)).tolist() == [2, 2]
    assert capsys.readouterr().out == "shape (2,)\n" * 3
    with pytest.raises(CaptureError, match=r"test_pieces\.py:\d+: .*it prints"):
        rl.compile(program, fullgraph=True)(rl.ones(2))
    assert builtins.print is before
