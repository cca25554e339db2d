"""Equal layers are compiled once: the code and the results are those of all layers compiled each."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
import rushlight.nn.functional as F
from rushlight import nn, optim
from rushlight.compiler import pipeline
from rushlight.compiler.explain import explain
from rushlight.compiler.program_cache import _text, program_key
from rushlight.core.marks import mark_dynamic
from rushlight.graph.ir import Graph
from rushlight.lowering.folding import Folded, fold
from rushlight.runtime import known_programs
from rushlight.runtime.cache import ObjectCache
from rushlight.runtime.engine import engine

WIDTH = 8
LAYERS = 19


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Any) -> Any:
        return x + F.gelu(self.linear(self.norm(x)))


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = (
            nn.LayerNorm(WIDTH),
            nn.Linear(WIDTH, 3 * WIDTH),
            nn.Linear(WIDTH, WIDTH),
        )

    def forward(self, x: Any) -> Any:
        q, k, v = self.qkv(self.norm(x)).view(2, 8, 3, 2, 4).permute(2, 0, 3, 1, 4)
        found = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(found.transpose(1, 2).reshape(2, 8, WIDTH))


class Plain(nn.Module):
    """No normalization, no bias: what is left of a layer in a program is little."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x: Any) -> Any:
        return self.linear(x).tanh()


class Gated(nn.Module):
    """Each element of a gate is used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.scale = (
            nn.Linear(WIDTH, WIDTH),
            nn.Linear(WIDTH, WIDTH),
            nn.Parameter(rl.ones(WIDTH)),
        )

    def forward(self, x: Any) -> Any:
        gate = self.two(x).sigmoid()
        return gate * self.one(x).relu() + (1 - gate) * x * self.scale


BLOCKS: dict[str, Callable[[], nn.Module]] = {
    "residual": Residual,
    "attention": Attention,
    "plain": Plain,
    "gated": Gated,
    "pair": lambda: nn.Sequential(Residual(), Plain()),
}
OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "adamw": lambda parameters: optim.AdamW(parameters, lr=1e-2),
    "sgd": lambda parameters: optim.SGD(parameters, lr=1e-2, momentum=0.9),
}


def training(block: Callable[[], nn.Module], layers: int, optimizer: str) -> Callable[[Any], Any]:
    rl.manual_seed(0)
    model = nn.Sequential(*(block() for _ in range(layers)))
    optimizing = OPTIMIZERS[optimizer](model.parameters())

    def step(x: Any) -> Any:
        optimizing.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizing.step()
        return loss

    return step


def data() -> Any:
    return rl.from_numpy(np.random.default_rng(0).standard_normal((2, 8, WIDTH)).astype(np.float32))


@pytest.fixture
def folded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The layers that were left out of each program, and added again."""
    found: list[int] = []
    before = pipeline.unfold

    def unfold(program: Any, of: Folded) -> Any:
        made = before(program, of)
        found.append(0 if made is None else of.layers)
        return made

    monkeypatch.setattr(pipeline, "unfold", unfold)
    return found


def whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "fold", lambda graph, kept: None)


def spelled(text: str) -> str:
    """The text of a module, with the names of kernels by their order."""
    names: dict[str, str] = {}
    return re.sub(
        r"\b(?:kernel|matmul|scatter|part|scan)\d+", lambda m: names.setdefault(m[0], f"k{len(names)}"), text
    )


@pytest.mark.parametrize(("name", "optimizer"), [*((name, "adamw") for name in BLOCKS), ("residual", "sgd")])
def test_the_code_is_that_of_the_whole_graph(
    name: str, optimizer: str, folded: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def code() -> str:
        return spelled(explain(training(BLOCKS[name], LAYERS, optimizer), data()).llvm)

    few = code()
    assert folded[-1]
    whole(monkeypatch)
    assert few == code()


@pytest.mark.parametrize("name", ["attention", "plain", "pair"])
def test_results_are_those_of_the_whole_graph(
    name: str, folded: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def losses() -> list[float]:
        step = rl.compile(
            training(BLOCKS[name], LAYERS + 1, "adamw"), fullgraph=True, options={"use_cache": False}
        )
        return [float(step(data())) for _ in range(3)]

    few = losses()
    assert folded[-1]
    whole(monkeypatch)
    assert few == losses()


class _Captured(Exception):
    """The graph of a program, in place of all that comes after."""


def captured(step: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch) -> Graph:
    """The graph as it is before its passes."""

    def stop(graph: Graph, kept: int) -> None:
        raise _Captured(graph)

    with monkeypatch.context() as patched:
        patched.setattr(pipeline, "fold", stop)
        with pytest.raises(_Captured) as found:
            explain(step, data())
    graph: Graph = found.value.args[0]
    return graph


@pytest.mark.parametrize("name", ["residual", "attention", "gated"])
def test_a_folded_graph_is_that_of_fewer_layers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = fold(captured(training(BLOCKS[name], 16, "adamw"), monkeypatch), 4)
    assert made is not None
    fewer = captured(training(BLOCKS[name], 16 - made.layers, "adamw"), monkeypatch)
    assert _text(made.graph) == _text(fewer)


def chain(layers: int, factors: dict[int, float], extra: Callable[[Any], Any] = lambda x: x) -> Any:
    """A program of equal layers, some of which may have another number in them."""
    weights = [rl.full((WIDTH, WIDTH), 0.125) for _ in range(layers)]

    def run(x: Any) -> Any:
        for number, weight in enumerate(weights):
            x = extra((x @ weight).tanh() + x).sin() * factors.get(number, 1.25)
        return x

    return run


def test_the_key_of_a_folded_graph_tells_it_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    def key(layers: int, factors: dict[int, float]) -> str | None:
        graph = captured(chain(layers, factors), monkeypatch)
        made = fold(graph, 4)
        assert made is not None
        return program_key(graph, None, made)

    keys = [key(20, {}), key(21, {}), key(20, {0: 2.0}), key(20, {19: 2.0}), key(20, {1: 2.0}), key(22, {})]
    assert None not in keys
    assert len(set(keys)) == len(keys)
    assert key(20, {}) == keys[0]


def test_layers_with_calls_of_libraries_come_from_the_cache(
    folded: list[int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Kernels with such calls between them are not unfolded; a program from the cache calls the same."""
    monkeypatch.setattr(engine(), "cache", ObjectCache(tmp_path))
    program = chain(
        12, {}, lambda x: rl.linalg.inv(x.transpose(1, 2) @ x + 4 * rl.eye(WIDTH)).sum(1, True) + x
    )
    found = []
    for _ in range(2):
        known_programs.forget()
        found.append(rl.compile(program, fullgraph=True)(data()).tolist())
    assert folded == [0] * len(folded)
    assert len(folded) > 0
    assert found[0] == found[1]
    np.testing.assert_allclose(found[0], program(data()).numpy(), rtol=1e-5, atol=1e-6)


def test_few_kernels_are_planned_for_many_layers(folded: list[int]) -> None:
    some, many = (explain(training(Attention, layers, "adamw"), data()) for layers in (12, 32))
    assert folded[1] - folded[0] == 20
    for name in ("lower", "fuse", "store past caches", "share code"):
        assert len(some.after(name).splitlines()) == len(many.after(name).splitlines())


# Programs whose layers are not all alike, or that look at single ones.


class Looking(nn.Module):
    """Layers whose outputs `look` takes."""

    def __init__(self, layers: int, look: Callable[[list[Any]], Any]) -> None:
        super().__init__()
        self.layers, self.look = nn.ModuleList([Residual() for _ in range(layers)]), look

    def forward(self, x: Any) -> Any:
        states = [x]
        for layer in self.layers:
            states.append(layer(states[-1]))
        return self.look(states)


def _skips(states: list[Any]) -> Any:
    """Each state of the first half meets the one that is as far from the end."""
    found, half = states[-1], len(states) // 2
    for n in range(half):
        found = (found * states[half - 1 - n]).tanh()
    return found


LOOKS: dict[str, Callable[[list[Any]], Any]] = {
    "all": lambda states: rl.stack(states).mean(0),
    "sum": lambda states: sum(state.square() for state in states),
    "one in the middle": lambda states: states[-1] * states[len(states) // 2],
    "first and last": lambda states: states[-1] * states[1] + states[-2],
    "every second": lambda states: sum(states[::2]),
    "scaled by its number": lambda states: sum(n * state for n, state in enumerate(states)),
    "skips": _skips,
    "list": lambda states: states[-1],
}


@pytest.mark.parametrize("name", LOOKS)
def test_programs_that_look_at_single_layers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def results() -> list[Any]:
        rl.manual_seed(0)
        model = Looking(18, LOOKS[name])

        def step(x: Any) -> list[Any]:
            model.zero_grad()
            loss = model(x).sum()
            loss.backward()
            return [loss, *(p.grad for p in model.parameters())]

        compiled = rl.compile(step, fullgraph=True, options={"use_cache": False})
        return [np.array(found.detach().numpy()) for found in compiled(data())]

    few = results()
    whole(monkeypatch)
    for one, other in zip(few, results(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_layers_that_share_their_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    def losses() -> list[float]:
        rl.manual_seed(0)
        layer = Residual()
        step = rl.compile(
            training(lambda: layer, LAYERS, "sgd"), fullgraph=True, options={"use_cache": False}
        )
        return [float(step(data())) for _ in range(3)]

    few = losses()
    whole(monkeypatch)
    assert few == losses()


def test_forward_and_backward_as_two_programs(folded: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    def results() -> list[Any]:
        rl.manual_seed(0)
        model = nn.Sequential(*(Attention() for _ in range(LAYERS)))
        compiled = rl.compile(model, fullgraph=True, options={"use_cache": False})
        x = data().requires_grad_()
        compiled(x).square().sum().backward()
        return [x.grad.numpy().copy(), *(p.grad.numpy().copy() for p in model.parameters())]

    few = results()
    assert any(folded)
    whole(monkeypatch)
    for one, other in zip(few, results(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_sizes_that_change(folded: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    def results() -> list[float]:
        step = rl.compile(training(Residual, LAYERS, "adamw"), fullgraph=True, options={"use_cache": False})
        found = []
        for rows in (4, 6, 4, 9):
            x = rl.full((rows, 8, WIDTH), 0.5)
            mark_dynamic(x, 0)
            found.append(float(step(x)))
        return found

    few = results()
    assert folded[-1]
    whole(monkeypatch)
    assert few == results()


# Random layers.


def _random_layer(choices: random.Random, depth: int) -> Callable[[Any, Any, Any, list[Any]], Any]:
    """A layer of random operators: a function of its input, the one before, the first one, and its parameters."""
    unary = [
        rl.tanh,
        rl.sigmoid,
        F.gelu,
        rl.exp,
        lambda x: x.softmax(-1),
        lambda x: x - x.mean(-1, keepdim=True),
    ]
    plan = [
        (choices.choice("upabm"), choices.randrange(len(unary)), choices.randrange(3)) for _ in range(depth)
    ]

    def layer(x: Any, before: Any, first: Any, parameters: list[Any]) -> Any:
        values = [x, before, first]
        for kind, function, other in plan:
            last = values[-1] if len(values) > 3 else x
            match kind:
                case "u":
                    last = unary[function](last.clamp(-2, 2))
                case "p":
                    last = last @ parameters[0]
                case "a":
                    last = last + values[other]
                case "b":
                    last = last * parameters[1] + values[other]
                case "m":
                    last = last * values[other].tanh()
            values.append(last)
        return values[-1].tanh() @ parameters[2]

    return layer


@pytest.mark.parametrize(
    "seed", [*range(5), *(pytest.param(n, marks=pytest.mark.slow) for n in range(5, 60))]
)
def test_random_layers(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    choices = random.Random(seed)
    layer, layers = _random_layer(choices, choices.randrange(3, 9)), choices.randrange(9, 20)

    def step(x: Any, parameters: list[list[Any]]) -> list[Any]:
        states = [x, x]
        for own in parameters:
            states.append(layer(states[-1], states[-2], x, own))
        loss = states[-1].square().sum()
        wanted = [p for own in parameters for p in own]
        return [loss, *rl.autograd.grad(loss, wanted, allow_unused=True, materialize_grads=True)]

    generator = np.random.default_rng(seed)

    def tensor(*shape: int) -> Any:
        return rl.from_numpy(generator.standard_normal(shape).astype(np.float32) / 3).requires_grad_()

    x, parameters = (
        tensor(4, WIDTH),
        [[tensor(WIDTH, WIDTH), tensor(WIDTH), tensor(WIDTH, WIDTH)] for _ in range(layers)],
    )

    def results() -> list[Any]:
        compiled = rl.compile(step, fullgraph=True, options={"use_cache": False})
        return [found.detach().numpy().copy() for found in compiled(x, parameters)]

    few = results()
    with monkeypatch.context() as patched:
        whole(patched)
        for one, other in zip(few, results(), strict=True):
            np.testing.assert_array_equal(one, other)
