"""Rows for sizes that change from call to call: the same function called with 24 lengths in turn.

Three groups: all first calls together, with how often we compile in them; the calls after that; and our code
for sizes that change against our code for one size, at that size. Whoever has an option `dynamic` gets it.
"""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from compiled import (
    INDUCTOR,
    JAX,
    TORCH,
    JaxNames,
    Program,
    forget_compiled,
    layer_norm_gelu,
    linear_gelu,
    peers,
    random_arrays,
    softmax,
    warm_up,
)
from timing import BEST, OURS, Row, seconds_of, timed
from training import HEADS, TEXTS, WIDTH, gpt, library, tensor, texts, training_step

COUNT = 24
MOST_COMPILATIONS = 3
STATIC = "rushlight, static"
LAYERS, LONGEST = 2, 256

Arrays = Sequence[np.ndarray]
Compiled = Callable[..., Any]


def _lengths(first: int, step: int) -> list[int]:
    """So many lengths, in no order."""
    return [int(n) for n in np.random.default_rng(0).permutation(first + step * np.arange(COUNT))]


# --- programs --------------------------------------------------------------------------------------


def stats(lib: Any) -> Program:
    if isinstance(lib, JaxNames):
        return lambda x: (lib.softmax(x, 1), lib.var(x, axis=1, ddof=1), lib.cumsum(x, axis=1))
    return lambda x: (lib.softmax(x, 1), lib.var(x, 1), lib.cumsum(x, 1))


def attention(lib: Any) -> Program:
    """Causal attention between two linear layers, whose weights it has."""
    contestant = JAX if isinstance(lib, JaxNames) else lib.__name__
    qkv, project = (tensor(contestant, a) for a in random_arrays((3 * WIDTH, WIDTH), (WIDTH, WIDTH)))
    functional = (
        None if isinstance(lib, JaxNames) else importlib.import_module(f"{lib.__name__}.nn.functional")
    )

    def run(x: Any) -> Any:
        batch, length, width = x.shape
        parts = (x @ qkv.T).reshape(batch, length, 3, HEADS, width // HEADS)
        if functional is None:
            q, k, v = lib.transpose(parts, (2, 0, 3, 1, 4))
            scores = q @ lib.swapaxes(k, -1, -2) / math.sqrt(width // HEADS)
            weights = lib.softmax(lib.where(lib.tril(lib.ones((length, length), bool)), scores, -lib.inf), -1)
            mixed = lib.swapaxes(weights @ v, 1, 2)
        else:
            q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
            mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)
        return mixed.reshape(batch, length, width) @ project.T

    return run


def _pure(program: Callable[[Any], Program], contestant: str, **options: Any) -> Compiled:
    if contestant == JAX:
        import jax

        jitted = jax.jit(program(JaxNames()))
        return lambda *args: jax.block_until_ready(jitted(*args))
    lib = library(contestant)
    function = program(lib)
    return function if contestant == TORCH else lib.compile(function, fullgraph=True, **options)


def _gpt_step(longest: int, contestant: str, **options: Any) -> Compiled:
    return training_step(contestant, *gpt(LAYERS, longest), **options)


# --- cases: a compiled function of a contestant, and its arguments for each length -----------------

Case = tuple[Callable[..., Compiled], list[Arrays]]


def _stats_case() -> Case:
    return functools.partial(_pure, stats), [random_arrays((n, 3 * n)) for n in _lengths(40, 17)]


def _attention_case() -> Case:
    return functools.partial(_pure, attention), [random_arrays((TEXTS, n, WIDTH)) for n in _lengths(33, 7)]


def _gpt_case() -> Case:
    return functools.partial(_gpt_step, LONGEST), [texts(n) for n in _lengths(33, 7)]


# (the case, bars for calls after the first)
CASES: dict[str, tuple[Callable[[], Case], dict[str, float]]] = {
    "softmax, var, cumsum": (_stats_case, {BEST: 1.0}),
    "attention block": (_attention_case, {BEST: 1.0}),
    "GPT training step of 2 layers": (_gpt_case, {BEST: 1 / 1.3}),
}

# (the compiled function, its arguments)
FIXED: dict[str, Callable[[], tuple[Callable[..., Compiled], Arrays]]] = {
    "softmax 4096x1024": lambda: (functools.partial(_pure, softmax), random_arrays((4096, 1024))),
    "layer_norm+gelu 4096x768": lambda: (
        functools.partial(_pure, layer_norm_gelu),
        random_arrays((4096, 768), (768,), (768,)),
    ),
    "linear+gelu 1024x512x2048": lambda: (
        functools.partial(_pure, linear_gelu),
        random_arrays((1024, 512), (2048, 512), (2048,)),
    ),
    "attention block, 192 tokens": lambda: (
        functools.partial(_pure, attention),
        random_arrays((TEXTS, 192, WIDTH)),
    ),
    "GPT training step of 2 layers": lambda: (functools.partial(_gpt_step, LONGEST), texts(128)),
}


# --- rows ------------------------------------------------------------------------------------------


def _in_turn(case: Case, contestant: str) -> tuple[Compiled, Callable[[], None]]:
    """The function of a contestant, and what calls it with each length once."""
    make, lengths = case
    function = make(contestant) if contestant == JAX else make(contestant, dynamic=True)
    arguments = [[tensor(contestant, array) for array in arrays] for arrays in lengths]

    def run() -> None:
        for each in arguments:
            function(*each)

    return function, run


def first_row(case: str, name: str, quick: bool) -> Row:
    """The first call of each length, with nothing in our object cache."""
    data = CASES[case][0]()

    def first_calls(contestant: str) -> Callable[[], float]:
        @functools.cache  # once: that of most peers takes long
        def run() -> float:
            warm_up(contestant)
            forget_compiled(contestant)
            return seconds_of(_in_turn(data, contestant)[1])

        return run

    contestants = {each: first_calls(each) for each in (OURS, *peers(quick))}
    return Row(name, contestants, {INDUCTOR: 1 / 10}, 1)


def compilations_row(case: str, name: str, quick: bool) -> Row:
    """How often we compile for all lengths together."""

    def compilations() -> float:
        function, run = _in_turn(CASES[case][0](), OURS)
        run()
        return float(len(function.reasons))  # type: ignore[attr-defined]

    contestants = {OURS: compilations, "allowed": lambda: float(MOST_COMPILATIONS)}
    return Row(name, contestants, {"allowed": 1.0}, 1, unit="")


def next_row(case: str, name: str, quick: bool) -> Row:
    """A call of each length, after the first."""
    make, bars = CASES[case]
    data = make()
    contestants = {each: timed(_in_turn(data, each)[1]) for each in (OURS, *peers(quick))}
    return Row(name, contestants, bars, 3 if quick else 20)


def static_row(case: str, name: str, quick: bool) -> Row:
    """Our code for all sizes against that for one."""
    make, arrays = FIXED[case]()
    arguments = [tensor(OURS, array) for array in arrays]

    def contestant(dynamic: bool) -> Callable[[], float]:
        function = make(OURS, dynamic=dynamic)
        return timed(lambda: function(*arguments))

    return Row(name, {OURS: contestant(True), STATIC: contestant(False)}, {STATIC: 1.1}, 5 if quick else 50)


def _named(make: Callable[[str, str, bool], Row], case: str) -> Callable[[str, bool], Row]:
    return functools.partial(make, case)


CHANGING_SIZES: dict[str, Callable[[str, bool], Row]] = {
    **{
        f"changing sizes, {title}{case}": _named(make, case)
        for title, make in (
            (f"{COUNT} first calls, ", first_row),
            ("compilations, ", compilations_row),
            (f"{COUNT} calls, ", next_row),
        )
        for case in CASES
    },
    **{f"changing sizes, against fixed ones, {case}": _named(static_row, case) for case in FIXED},
}
