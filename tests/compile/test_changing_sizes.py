"""Sizes that change from call to call: one compilation serves them all, with the results of eager code."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

import rushlight as rl
import rushlight.nn.functional as F
from rushlight import nn, optim
from rushlight.core.marks import mark_dynamic, mark_static, maybe_mark_dynamic
from rushlight.runtime import redzones

SHAPES = [(5, 70), (9, 71), (11, 33), (100, 40), (64, 512), (300, 300), (2, 3)]

PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "pointwise": lambda x: (x * 2 + 1).exp(),
    "sum of rows": lambda x: x.sum(1),
    "sum of columns": lambda x: x.sum(0),
    "sum": lambda x: x.sum(),
    "softmax of rows": lambda x: x.softmax(1),
    "softmax of columns": lambda x: x.softmax(0),
    "mean": lambda x: x.mean(1),
    "variance": lambda x: x.var(1),
    "layer norm": lambda x: F.gelu(F.layer_norm(x, (x.shape[1],))),
    "running sums": lambda x: x.cumsum(1) + x.cumsum(0),
    "transpose": lambda x: x.t() + 1,
    "view": lambda x: (x + 1).view(-1) * 2,
    "concatenation": lambda x: rl.cat([x, x * 2], 1),
    "slices": lambda x: x[1:, 1:-1] * 2,
    "flip": lambda x: x.flip(0),
    "largest": lambda x: x.amax(1),
    "place of the largest": lambda x: x.argmax(1),
    "several reductions": lambda x: x.softmax(-1).var(0).cumsum(0),
    "numbers of rows": lambda x: x + rl.arange(x.shape[0])[:, None],
    "triangle": lambda x: rl.tril(x),
    "padding": lambda x: F.pad(x, (1, 2)),
    "mask": lambda x: x.masked_fill(x > 0, 3.0),
    "expansion": lambda x: x[:, None].expand(x.shape[0], 3, x.shape[1]).sum(2),
    "indices": lambda x: x[rl.arange(x.shape[0] - 1, -1, -1)],
    "new tensors": lambda x: rl.ones(x.shape[0], 3) * x.mean(),
    "number of elements": lambda x: x / x.numel(),
    "product": lambda x: x @ x.t(),
    "product with more": lambda x: (x @ x.t()).relu() + 1,
    "sort": lambda x: x.sort(1).values,
    "python": lambda x: x.view(x.shape[0], -1, 1) * (x.shape[1] // 2 + max(x.shape[0], 4)),
}


def agree(got: Any, want: Any) -> None:
    assert got.shape == want.shape
    assert got.stride() == want.stride()
    assert got.dtype is want.dtype
    rl.testing.assert_close(got, want, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_agree_for_all_sizes(name: str) -> None:
    program = PROGRAMS[name]
    compiled = rl.compile(program, fullgraph=True, dynamic=True)
    for shape in SHAPES:
        x = rl.randn(*shape)
        agree(compiled(x), program(x))
    with redzones.guarding():
        for shape in SHAPES:
            x = rl.randn(*shape)
            agree(compiled(x), program(x))


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in ("sort", "place of the largest")])
def test_gradients_agree_for_all_sizes(name: str) -> None:
    program = PROGRAMS[name]
    compiled = rl.compile(program, fullgraph=True)
    for shape in SHAPES:
        ours, theirs = (rl.randn(*shape).requires_grad_() for _ in range(2))
        ours.data.copy_(theirs.data)
        compiled(ours).sum().backward()
        program(theirs).sum().backward()
        rl.testing.assert_close(ours.grad, theirs.grad, atol=1e-3, rtol=1e-3)


# Policy.


def test_static_first_then_exactly_what_changed() -> None:
    f = rl.compile(lambda x: x * 2)
    for n in (4, 5, 6, 7, 8):
        assert f(rl.ones(n, 3)).shape == (n, 3)
    assert len(f.reasons) == 2
    assert f.reasons[1] == "argument 0: shape was (4, 3), is (5, 3)"
    f(rl.ones(4, 9))
    assert f.reasons[2] == "argument 0: shape was (any size, 3), is (any size, 9)"
    f(rl.ones(40, 90))
    assert len(f.reasons) == 3


def test_dynamic_from_the_start_and_never() -> None:
    f = rl.compile(lambda x: x.sum(0), dynamic=True)
    g = rl.compile(lambda x: x.sum(0), dynamic=False)
    for n in (4, 5, 6):
        for function in (f, g):
            function(rl.ones(n, n + 1))
    assert len(f.reasons) == 1
    assert len(g.reasons) == 3


def test_sizes_zero_and_one_are_cases_of_their_own() -> None:
    f = rl.compile(lambda x: x.sum(0) + 1, dynamic=True, fullgraph=True)
    for n in (3, 1, 0, 7, 2):
        agree(f(rl.ones(n, 4)), rl.ones(n, 4).sum(0) + 1)
    assert len(f.reasons) == 3


def test_a_relation_is_a_guard() -> None:
    f = rl.compile(lambda x: x * 2 if x.shape[0] > 4 else x * 3, dynamic=True, fullgraph=True)
    assert f(rl.ones(8)).tolist() == [2.0] * 8
    assert f(rl.ones(9)).tolist() == [2.0] * 9
    assert f(rl.ones(3)).tolist() == [3.0] * 3
    assert len(f.reasons) == 2
    assert "argument 0.shape[0]" in f.reasons[1]


def test_sizes_that_must_be_equal() -> None:
    f = rl.compile(lambda x, y: x + y, dynamic=True, fullgraph=True)
    for n in (4, 5):
        agree(f(rl.ones(n, 3), rl.ones(n, 3)), rl.full((n, 3), 2.0))
    assert len(f.reasons) == 1
    with pytest.raises(RuntimeError, match="broadcast"):
        f(rl.ones(4, 3), rl.ones(5, 3))


def test_text_of_a_size_compiles_for_it() -> None:
    f = rl.compile(lambda x: (x + 1, f"{x.shape[0]} rows"), dynamic=True, fullgraph=True)
    assert [f(rl.ones(n))[1] for n in (4, 5, 4)] == ["4 rows", "5 rows", "4 rows"]


def test_numbers_that_are_sizes() -> None:
    f = rl.compile(lambda x, n: x[:n].sum() + rl.zeros(n, 2).sum(), fullgraph=True)
    for n in (4, 5, 6, 7):
        assert f(rl.ones(9), n).item() == n
    assert len(f.reasons) == 2


def test_marks() -> None:
    x = rl.ones(5, 6)
    mark_dynamic(x, 0)
    f = rl.compile(lambda x: x + 1, fullgraph=True)
    f(x)
    f(rl.ones(7, 6))
    assert len(f.reasons) == 1
    fixed = rl.ones(5, 6)
    g = rl.compile(lambda x: x + 1, fullgraph=True)
    g(fixed)
    other = rl.ones(7, 6)
    mark_static(other, 0)
    g(other)
    last = rl.ones(8, 6)
    mark_static(last, 0)
    g(last)
    assert len(g.reasons) == 3


def test_marks_with_a_range() -> None:
    x = rl.ones(5, 6)
    mark_dynamic(x, 0, min=4, max=10)
    f = rl.compile(lambda x: x * 2 if x.shape[0] >= 4 else x * 3, fullgraph=True)
    f(x)
    f(rl.ones(10, 6))
    assert len(f.reasons) == 1
    assert f(rl.ones(3, 6))[0, 0] == 3
    assert len(f.reasons) == 2
    small = rl.ones(2, 6)
    mark_dynamic(small, 0, min=4)
    with pytest.raises(RuntimeError, match="not in the range"):
        rl.compile(lambda x: x + 1, fullgraph=True)(small)


def test_a_dimension_that_must_change() -> None:
    x = rl.ones(5, 6)
    mark_dynamic(x, 0)
    with pytest.raises(RuntimeError, match=r"argument 0.shape\[0\] == 5"):
        rl.compile(lambda x: x * int(x.shape[0]), fullgraph=True)(x)
    y = rl.ones(5, 6)
    maybe_mark_dynamic(y, 0)
    assert rl.compile(lambda x: x * int(x.shape[0]), fullgraph=True)(y)[0, 0] == 5


def test_returned_sizes_and_views() -> None:
    def program(x: rl.Tensor) -> Any:
        return x.shape[0] * 2, x[1:], x.t()

    f = rl.compile(program, dynamic=True, fullgraph=True)
    for n in (4, 9):
        x = rl.randn(n, 3)
        count, part, turned = f(x)
        assert count == 2 * n
        assert type(count) is int
        agree(part, x[1:])
        agree(turned, x.t())
        part.zero_()
        assert x[1:].eq(0).all()


def test_a_program_that_breaks_goes_on_eagerly() -> None:
    def program(x: rl.Tensor) -> Any:
        y = (x * 2).view(-1)
        scale = 2.0 if float(y.sum()) > 0 else 3.0
        return y[: x.shape[0]] * scale

    f = rl.compile(program, dynamic=True)
    for n in (4, 9, 5):
        x = rl.randn(n, 3)
        agree(f(x), program(x))


# Training.


class Block(nn.Module):
    def __init__(self, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: rl.Tensor) -> rl.Tensor:
        batch, length, width = x.shape
        parts = self.qkv(self.norms[0](x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norms[1](x))


class Model(nn.Module):
    def __init__(self, words: int = 64, width: int = 32) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(256, width)
        self.block, self.head = Block(width), nn.Linear(width, words)

    def forward(self, words: rl.Tensor, targets: rl.Tensor) -> rl.Tensor:
        x = self.block(self.words(words) + self.places(rl.arange(words.shape[1])))
        return F.cross_entropy(self.head(x).view(-1, 64), targets.view(-1))


def losses(compiled: bool, lengths: list[int]) -> tuple[list[float], Any]:
    rl.manual_seed(0)
    model = Model()
    optimizer = optim.AdamW(model.parameters(), lr=1e-2)

    def step(words: rl.Tensor, targets: rl.Tensor) -> rl.Tensor:
        optimizer.zero_grad()
        loss = model(words, targets)
        loss.backward()
        optimizer.step()
        return loss.detach()

    function = rl.compile(step, fullgraph=True) if compiled else step
    rl.manual_seed(1)
    found = [function(rl.randint(0, 64, (2, n)), rl.randint(0, 64, (2, n))).item() for n in lengths]
    return found, function


def test_a_training_step_with_texts_of_other_lengths() -> None:
    lengths = [20, 24, 40, 33, 64, 18, 100]
    found, function = losses(True, lengths)
    wanted, _ = losses(False, lengths)
    rl.testing.assert_close(rl.tensor(found), rl.tensor(wanted), atol=2e-3, rtol=1e-3)
    assert len(function.reasons) <= 3


def test_a_server_holds_memory_and_compiles_few_times() -> None:
    layer = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8))
    f = rl.compile(lambda x: layer(x).softmax(1), fullgraph=True)
    rl.manual_seed(0)
    sizes = rl.randint(1, 513, (1000,)).tolist()
    with rl.no_grad():
        for n in sizes:
            assert f(rl.ones(n, 16)).shape == (n, 8)
    assert len(f.reasons) <= 4
    assert not f.eager
    (general,) = (s for known in f.specializations.values() for s in known if s.live.sizes)
    assert len(general.artifact.executable._known) <= 256


NUMBERS_OF_SIZES = {
    "square root": lambda x: x * math.sqrt(x.shape[0]),
    "logarithm": lambda x: x / math.log(x.shape[0], 2),
    "power": lambda x: x * math.pow(x.shape[0], 0.5),
    "common divisor": lambda x: x * math.gcd(x.shape[0], 4),
    "whole root": lambda x: rl.ones(math.isqrt(x.shape[0])),
    "rounded up": lambda x: rl.ones(math.ceil(x.shape[0] / 3)),
    "rounded down": lambda x: rl.ones(math.floor(x.shape[0] * 0.7)) + x[: math.floor(x.shape[0] * 0.7)],
    "rounded": lambda x: x[: round(x.shape[0] / 2)],
    "rounded to digits": lambda x: x * round(x.shape[0] / 7, 2),
    "sym_int": lambda x: rl.ones(rl.sym_int(x.shape[0] / 2)),
    "sym_float": lambda x: x * rl.sym_float(x.shape[0]),
    "sym_max": lambda x: rl.ones(rl.sym_max(x.shape[0], 8)),
    "sym_min": lambda x: x[: rl.sym_min(x.shape[0], 14)],
    "sym_ite": lambda x: rl.ones(rl.sym_ite(x.shape[0] > 8, x.shape[0], 2)),
    "sym_sum": lambda x: rl.ones(rl.sym_sum([x.shape[0], 2, x.shape[0]])),
    "shifts": lambda x: rl.ones(x.shape[0] >> 1) * (x.shape[0] << 2),
    "last bits": lambda x: x * (x.shape[0] & 3),
    "tensor": lambda x: x * rl.tensor(x.shape[0]),
    "tensor of a float": lambda x: x + rl.tensor(x.shape[0] ** 0.5),
}


@pytest.mark.parametrize("name", NUMBERS_OF_SIZES)
def test_numbers_that_python_computes_of_sizes(name):
    program = NUMBERS_OF_SIZES[name]
    compiled = rl.compile(program, dynamic=True, fullgraph=True)
    for n in (12, 16, 20, 33):
        x = rl.arange(float(n))
        expected, found = program(x), compiled(x)
        assert expected.dtype is found.dtype
        assert rl.allclose(found, expected)
    assert len(compiled.reasons) == 1, compiled.reasons


def test_functions_of_math_are_their_own_again_after_a_capture():
    before = math.sqrt
    rl.compile(NUMBERS_OF_SIZES["square root"], dynamic=True)(rl.ones(5))
    assert math.sqrt is before
    with pytest.raises(ValueError, match="math domain error"):
        rl.compile(lambda x: x * math.log(x.shape[0] - 5), dynamic=True)(rl.ones(5))


def test_explain_and_reasons_tell_symbols_relations_and_the_line():
    def program(x):
        return x * 2 if x.shape[0] > 4 else x

    compiled = rl.compile(program, dynamic=True)
    line = f"{__file__}:{program.__code__.co_firstlineno + 1}"
    told = rl.explain(compiled, rl.ones(6, 3))
    assert told.symbols == [
        "s0 is argument 0.shape[0], 6 here, from 2",
        "s1 is argument 0.shape[1], 3 here, from 2",
    ]
    relation = "the number ((argument 0.shape[0] + -5) >= 0): value"
    assert f"{relation} True ({line})" in told.guards
    assert "== symbols\n  s0 is" in str(told)
    compiled(rl.ones(6, 3))
    compiled(rl.ones(3, 3))
    assert compiled.reasons[-1] == f"{relation} was True, is False ({line})"
    assert rl.explain(program, rl.ones(6, 3)).symbols == []


def test_sizes_that_are_computed_of_a_size_and_a_live_number():
    compiled = rl.compile(lambda x, ratio: x[: math.ceil(x.shape[0] * ratio)] * 2, dynamic=True)
    for n, ratio in ((9, 0.5), (12, 0.5), (16, 0.7), (33, 0.3)):
        x = rl.randn(n)
        assert rl.equal(compiled(x, ratio), x[: math.ceil(n * ratio)] * 2)
    assert len(compiled.reasons) == 1, compiled.reasons
