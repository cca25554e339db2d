"""What is around the values: errors, options, operators of PyTorch's between native parts, threads."""

from __future__ import annotations

import subprocess
import sys
import threading
import tomllib
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import rushlight.torch_backend
from rushlight.runtime.threads import pool
from rushlight.torch_backend import backend, run, translate

from .compare import check, compiled

ROOT = Path(__file__).parents[2]


def test_the_entry_point_is_declared() -> None:
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    module, _, name = points["torch_dynamo_backends"]["rushlight"].partition(":")
    assert getattr(sys.modules[module], name) is rushlight.torch_backend.rushlight


def test_the_rest_of_the_library_does_not_import_torch() -> None:
    code = "import rushlight, rushlight.compiler.function, sys; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


# Errors.


def test_an_index_out_of_range_raises_as_in_eager_mode() -> None:
    def function(w: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return F.embedding(i, w).sum()

    fast, w = compiled(function), torch.randn(4, 3)
    good, bad = torch.tensor([0, 3]), torch.tensor([0, 4])
    torch.testing.assert_close(fast(w, good), function(w, good))
    for call in (function, fast):
        with pytest.raises(IndexError, match="out of range"):
            call(w, bad)
    torch.testing.assert_close(fast(w, good), function(w, good))  # and the next call is as good as the first


def test_an_index_of_which_a_part_is_used_is_checked_whole() -> None:
    fast = compiled(lambda x, i: x[i][0])
    with pytest.raises(IndexError):
        fast(torch.randn(4), torch.tensor([0, 9]))


def test_a_target_out_of_range_raises() -> None:
    fast = compiled(lambda x, t: F.cross_entropy(x, t))
    with pytest.raises(IndexError):
        fast(torch.randn(2, 3), torch.tensor([0, 3]))


def test_a_failed_call_changes_no_argument() -> None:
    def function(x: torch.Tensor, y: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        z = x[i]
        x.add_(1)
        y.add_(1)
        return z

    x, y = torch.zeros(4), torch.zeros(4)
    with pytest.raises(IndexError):
        compiled(function)(x, y, torch.tensor([9]))
    assert not x.any() and not y.any()


# Options.


@pytest.mark.parametrize("mode", ["default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"])
def test_modes(mode: str) -> None:
    x = torch.randn(3)
    torch.testing.assert_close(torch.compile(torch.sin, backend="rushlight", mode=mode)(x), x.sin())


def test_modes_and_options_that_there_are_not() -> None:
    with pytest.raises(
        RuntimeError, match="Unrecognized mode=fast, should be one of: default, reduce-overhead"
    ):
        backend.checked("fast", None)
    with pytest.raises(RuntimeError, match=r"known options are \['use_cache', 'fallback'\]"):
        backend.checked(None, {"epilogue_fusion": True})
    with pytest.raises(RuntimeError, match="use_cache must be of type bool, got 1"):
        backend.checked(None, {"use_cache": 1})
    fast = torch.compile(torch.sin, backend="rushlight", options={"shape_padding": True})
    with pytest.raises(RuntimeError, match="Unexpected optimization option shape_padding"):
        fast(torch.randn(3))


def test_without_the_cache() -> None:
    x = torch.randn(3)
    fast = torch.compile(torch.cos, backend="rushlight", options={"use_cache": False})
    torch.testing.assert_close(fast(x), x.cos())


def test_what_cannot_be_compiled_runs_in_pytorch_with_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any) -> Any:
        raise NotImplementedError("no form for this")

    monkeypatch.setattr(translate.Translation, "_node", refuse)
    x = torch.randn(3)
    fast = torch.compile(lambda x: x.add_(1).sin() * 2, backend="rushlight")
    with pytest.warns(RuntimeWarning, match="3 operators run in PyTorch.*no form for this"):
        torch.testing.assert_close(fast(x.clone()), (x + 1).sin() * 2)
    y = x.clone()
    fast(y)  # without another warning
    torch.testing.assert_close(y, x + 1)
    with pytest.raises(NotImplementedError, match="no form for this"):
        compiled(lambda x: x.cos() * 2)(x)


# Operators of PyTorch's between native parts.


@torch.library.custom_op("rushlight_tests::halved", mutates_args=())
def halved(x: torch.Tensor) -> torch.Tensor:
    return x.t().contiguous().t() / 2  # with other strides than the fake kernel says


@halved.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return x.new_empty(x.shape)


@torch.library.custom_op("rushlight_tests::count", mutates_args=("counter",))
def count(counter: torch.Tensor) -> None:
    counter.add_(1)


def parts_of(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many native parts each graph had."""
    found: list[int] = []
    split = run.split

    def counted(graph: Any) -> Any:
        steps = split(graph)
        found.append(sum(isinstance(step, run.PartStep) for step in steps))
        return steps

    monkeypatch.setattr(run, "split", counted)
    return found


def test_custom_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = parts_of(monkeypatch)
    check(lambda x: (halved(x * 2 + 1).exp() + x.cos()).sum(0), torch.randn(3, 4))
    assert parts == [2]


def test_operators_that_write() -> None:
    def function(x: torch.Tensor, counter: torch.Tensor) -> torch.Tensor:
        y = x * counter
        count(counter)
        return y + counter

    check(function, torch.randn(3), torch.zeros(3))


def test_random_operators_in_their_order() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        first = torch.rand_like(x.sin().sort()[0])
        return x * first + torch.randn(3) * torch.rand(3).log()

    torch.manual_seed(3)
    x = torch.randn(3)
    torch.manual_seed(0)
    check(function, x)


def test_linear_algebra_and_fourier_transforms() -> None:
    def function(x: torch.Tensor) -> Any:
        return torch.linalg.solve(x @ x.t() + torch.eye(3), x) * 2, torch.fft.rfft(x).abs()

    check(function, torch.randn(3, 3, requires_grad=True))


def test_control_flow() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x * 2, (x + 1,)) * 3

    check(function, torch.ones(3))
    check(function, -3 * torch.ones(3))


def test_views_through_memory_that_is_not_an_arguments_own() -> None:
    check(lambda x: torch.as_strided(x, (2, 2), (2, 1), 1) * 2, torch.randn(9)[2:8])


def test_sparse_gradients_and_checkpointing() -> None:
    from torch.utils.checkpoint import checkpoint

    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return checkpoint(lambda x: (x @ w).relu() @ w.t(), x, use_reentrant=False)

    check(function, torch.randn(3, 4, requires_grad=True), torch.randn(4, 5, requires_grad=True))


# Threads.


def test_the_number_of_threads_is_that_of_pytorch() -> None:
    fast, x = compiled(lambda x: x.exp()), torch.randn(1000)
    for count in (2, 1):
        torch.set_num_threads(count)
        torch.testing.assert_close(fast(x), x.exp())
        assert pool().size == count


def test_calls_from_several_threads() -> None:
    fast = compiled(lambda x: (x @ x).softmax(1).sum(0) * 2)
    inputs = [torch.randn(64, 64) for _ in range(4)]
    expected = [(x @ x).softmax(1).sum(0) * 2 for x in inputs]
    fast(inputs[0])
    wrong: list[int] = []

    def work(i: int) -> None:
        for _ in range(30):
            if not torch.allclose(fast(inputs[i]), expected[i], atol=1e-4):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
