"""Calls with sizes that came before take the native path, as calls of a program with fixed sizes do."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.compiler.at_sizes import MOST_SIZES
from rushlight.compiler.specialization import CallPath
from rushlight.runtime import redzones


def row_sums(a: Any, b: Any) -> Any:
    return (a * b).sum(-1) + 1


def given(rows: int, columns: int = 16, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed + rows)
    return tuple(rl.tensor(rng.standard_normal((rows, columns)).astype("float32")) for _ in range(2))


def fixed_forms(function: Any) -> list[Any]:
    return [form for form in function._at_sizes._known.values() if form]


def test_repeated_sizes_run_natively() -> None:
    function = rl.compile(row_sums, dynamic=True)
    for _ in range(3):
        for rows in (5, 9, 33):
            args = given(rows)
            assert rl.allclose(function(*args), row_sums(*args), atol=1e-5)
    assert len(function.reasons) == 1
    forms = fixed_forms(function)
    assert len(forms) == 3 and all(form.path is CallPath.NATIVE and form.native_entry for form in forms)
    last = given(33)
    native, _ = function._fast
    assert rl.allclose(native(*last), row_sums(*last), atol=1e-5)
    assert native(*given(32)) is NotImplemented  # other sizes than those that it is for
    assert function._at_sizes.native(given(9)) and not function._at_sizes.native(given(10))


def test_several_results_strides_and_views() -> None:
    def program(x: Any) -> Any:
        return x.t().contiguous().t() * 2, x.sum(0), {"rows": x.shape[0]}

    function = rl.compile(program, dynamic=True)
    for rows in (3, 8, 3, 8, 3, 8):
        x, _ = given(rows)
        found, expected = function(x), program(x)
        assert found[2] == expected[2] == {"rows": rows}
        for mine, other in zip(found[:2], expected[:2], strict=True):
            assert rl.allclose(mine, other, atol=1e-5) and mine.stride() == other.stride()


def test_results_that_are_views_of_outputs() -> None:
    """Which the native callable does not make: the program itself is called natively."""
    weight = rl.ones(16, 4)

    def program(x: Any) -> Any:
        return (x.reshape(-1, 16) @ weight).reshape(x.shape[0], -1, 4)

    function = rl.compile(program, dynamic=True)
    for rows in (3, 8, 3, 8, 3, 8):
        x = given(rows * 5)[0].reshape(rows, 5, 16)
        assert rl.allclose(function(x), program(x), atol=1e-5)
    assert len(fixed_forms(function)) == 2 and len(function.reasons) == 1


def test_a_program_that_asks_for_sizes_and_numbers() -> None:
    scale = [2.0]

    def program(x: Any) -> Any:
        return x * scale[0] if x.shape[0] > 4 else x + x.shape[0]

    function = rl.compile(program, dynamic=True)
    for rows in (3, 6, 3, 6, 3, 6):
        scale[0] += 1.0
        x, _ = given(rows)
        assert rl.allclose(function(x), program(x))


def test_an_int_among_the_arguments_is_a_size() -> None:
    def program(x: Any, n: int) -> Any:
        return x[:n].sum() + rl.zeros(n, 2).sum()

    function = rl.compile(program, fullgraph=True)
    for n in (4, 5, 6, 7, 5, 6, 7, 5, 6, 7):
        assert function(rl.ones(9), n).item() == n
    assert len(function.reasons) == 2


def test_writes_reach_the_caller() -> None:
    def program(x: Any, y: Any) -> Any:
        x += y
        return x.sum()

    function = rl.compile(program, dynamic=True)
    for rows in (3, 6, 3, 6, 3, 6):
        (x, y), (a, b) = given(rows), given(rows)
        assert rl.allclose(function(x, y), program(a, b), atol=1e-5)
        assert rl.equal(x, a) and x._version == a._version


def test_training_steps_run_natively() -> None:
    """Gradients of calls before are in the way of nobody: a call keeps nothing but what it returns."""
    layer = rl.nn.Linear(16, 4)
    optimizer = rl.optim.AdamW(layer.parameters())

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = layer(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    function = rl.compile(step, dynamic=True)
    x = given(6)[0]
    gc.disable()
    try:
        function(x)
        before = weakref.ref(layer.weight.grad._array)
        function(x)
        assert before() is None
    finally:
        gc.enable()
    for _ in range(3):
        function(x)
    (form,) = fixed_forms(function)
    native, specialization = function._fast
    assert specialization is form and form.native_call and native(x) is not NotImplemented


def test_it_looks_at_what_it_knows_from_elsewhere() -> None:
    weight = rl.ones(16)
    function = rl.compile(lambda x: x * weight, dynamic=True)
    x, _ = given(6)
    for _ in range(3):
        function(x)
    assert fixed_forms(function)
    weight = rl.full((16,), 3.0)
    assert rl.equal(function(x), x * 3)
    assert rl.equal(function(x.double()), x.double() * 3)


def test_no_more_than_so_many_are_kept() -> None:
    function = rl.compile(row_sums, dynamic=True)
    for rows in range(2, MOST_SIZES + 40):
        args = given(rows)
        assert rl.allclose(function(*args), function(*args), atol=1e-5)
    assert len(function._at_sizes._known) == MOST_SIZES
    rl.compiler.reset()
    assert not function._at_sizes._known


def test_zones_are_looked_at() -> None:
    function = rl.compile(row_sums, dynamic=True)
    args = given(7)
    for _ in range(3):
        function(*args)
    with redzones.guarding():
        assert rl.allclose(function(*args), row_sums(*args), atol=1e-5)


@pytest.mark.parametrize("grad", [False, True])
def test_gradients_are_recorded(grad: bool) -> None:
    function = rl.compile(row_sums, dynamic=True)
    for rows in (5, 9, 5, 9, 5):
        a, b = given(rows)
        a.requires_grad_(grad)
        result = function(a, b)
        assert result.requires_grad == grad
        if grad:
            result.sum().backward()
            assert rl.allclose(a.grad, b)


def test_threads() -> None:
    function = rl.compile(row_sums, dynamic=True)
    wrong: list[int] = []

    def work(seed: int) -> None:
        for turn in range(60):
            args = given(2 + (turn * 7 + seed) % 40, seed=seed)
            if not rl.allclose(function(*args), row_sums(*args), atol=1e-5):
                wrong.append(turn)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
