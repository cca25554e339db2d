"""Calls of operators that run natively do what those in Python do, and keep nothing.

Native calls cannot be taken back: test_native_dispatch.py runs these tests in a process of their own.
"""

from __future__ import annotations

import contextlib
import gc
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import rushlight
from rushlight._api.link import API
from rushlight.core import dispatch
from rushlight.core.function_modes import TorchFunctionMode
from rushlight.core.registry import REGISTRY
from rushlight.core.resolve import Packet
from rushlight.core.tensor import Tensor
from rushlight.runtime import native_dispatch
from rushlight.runtime.native_views import MOST_MISSES

UFUNCS: dict[str, Any] = {
    "__add__": np.add,
    "__sub__": np.subtract,
    "__mul__": np.multiply,
    "__truediv__": np.true_divide,
    "__eq__": np.equal,
    "__ne__": np.not_equal,
    "__lt__": np.less,
    "__le__": np.less_equal,
    "__gt__": np.greater,
    "__ge__": np.greater_equal,
}
SPECIAL = [0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan, 1e-40, 5e-324, 3e38, 1e300, 2**-24]
WHOLE = [0, 1, -1, 7, 2**62, -(2**63), 2**63 - 1]


@pytest.fixture(autouse=True, scope="module")
def native() -> None:
    if not native_dispatch.install({**API.methods, **API.functions[""]}):
        pytest.skip("Python or NumPy is laid out in another way")


def values(dtype: str, count: int, shift: int) -> np.ndarray:
    given = WHOLE if dtype == "int64" else SPECIAL
    with np.errstate(all="ignore"):
        return np.array([given[(i * (shift + 2) + shift) % len(given)] for i in range(count)]).astype(dtype)


def same_bits(found: np.ndarray, expected: np.ndarray) -> bool:
    if found.dtype != expected.dtype or found.shape != expected.shape:
        return False
    if found.dtype.kind != "f":
        return bool((found == expected).all())
    nan = np.isnan(expected)
    unsigned = f"u{found.itemsize}"
    return bool(
        (np.isnan(found) == nan).all() and (found.view(unsigned) == expected.view(unsigned))[~nan].all()
    )


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize("method", UFUNCS)
def test_arithmetic_has_the_bits_of_numpy(method: str, dtype: str) -> None:
    if method == "__truediv__" and dtype == "int64":
        return
    for count in (1, 2, 3, 4, 5, 7, 8, 9, 16, 31, 33, 4096, 4097):
        a, b = values(dtype, count, 0), values(dtype, count, 1)
        numbers: list[Any] = [2, -3, 2**40 + 1] + (
            [] if dtype == "int64" else [0.1, -2.5, float("inf"), 1e300]
        )
        with np.errstate(all="ignore"):
            for _ in range(2):  # the first call of its kind goes through Python
                found = getattr(rushlight.from_numpy(a.copy()), method)(rushlight.from_numpy(b.copy()))
                assert same_bits(found.numpy(), UFUNCS[method](a, b)), count
            for number in numbers:
                for _ in range(2):
                    found = getattr(rushlight.from_numpy(a.copy()), method)(number)
                    assert same_bits(found.numpy(), UFUNCS[method](a, a.dtype.type(number))), (count, number)
    negated = [-rushlight.from_numpy(values(dtype, 9, 0)) for _ in range(2)]
    assert all(same_bits(t.numpy(), np.negative(values(dtype, 9, 0))) for t in negated)


@contextlib.contextmanager
def in_python() -> Iterator[None]:
    """Calls run as if there were no native ones."""
    plain, dispatch.run_call = dispatch.run_call, dispatch.call_operator
    paused = native_dispatch._installed.paused  # type: ignore[union-attr]
    paused[0] = 1
    try:
        yield
    finally:
        dispatch.run_call, paused[0] = plain, 0


LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "whole": lambda t: t,
    "transposed": lambda t: t.transpose(-1, -2),
    "columns": lambda t: t[..., 1:3],
    "rows": lambda t: t[..., ::2, :],
    "every other": lambda t: t[..., ::2],
    "first": lambda t: t[0],
    "column": lambda t: t[..., :1],
    "row": lambda t: t[..., :1, :],
    "expanded": lambda t: t[:1].expand(t.shape),
    "permuted": lambda t: t.permute(1, 0, 2),
    "one": lambda t: t[1, 1, 1],
    "empty": lambda t: t[..., 4:],
    "unsqueezed": lambda t: t[0].unsqueeze(0),
}


def outcome(call: Callable[[], Any]) -> Any:
    try:
        found = call()
    except Exception as error:
        return type(error), str(error)
    return found.numpy(), found.stride(), found.shape, found.dtype


@pytest.mark.parametrize("right", LAYOUTS)
@pytest.mark.parametrize("left", LAYOUTS)
def test_layouts(left: str, right: str) -> None:
    for dtype in ("float32", "int64"):
        a = rushlight.from_numpy(values(dtype, 64, 0).reshape(4, 4, 4))
        b = rushlight.from_numpy(values(dtype, 64, 1).reshape(4, 4, 4))
        a, b = LAYOUTS[left](a), LAYOUTS[right](b)
        for method in ("__add__", "__mul__", "__lt__"):
            for other in (b, 3):
                with in_python():
                    expected = outcome(lambda other=other, method=method: getattr(a, method)(other))
                for _ in range(2):
                    found = outcome(lambda other=other, method=method: getattr(a, method)(other))
                    assert found[1:] == expected[1:], (dtype, method)
                    assert found[0] is expected[0] or same_bits(found[0], expected[0]), (dtype, method)


@pytest.mark.parametrize("right", LAYOUTS)
@pytest.mark.parametrize("left", LAYOUTS)
def test_writes(left: str, right: str) -> None:
    def written(shared: bool, method: str, number: bool) -> Any:
        base = rushlight.from_numpy(values("float32", 64, 0).reshape(4, 4, 4)).clone()
        other = base if shared else rushlight.from_numpy(values("float32", 64, 1).reshape(4, 4, 4)).clone()
        a, b = LAYOUTS[left](base), LAYOUTS[right](other)
        found = outcome(lambda: getattr(a, method)(2.5 if number else b))
        return base.numpy(), base._version, a._version, b._version, found[1:]

    for shared in (False, True):
        for method in ("add_", "mul_", "__isub__"):
            for number in (False, True):
                with in_python():
                    expected = written(shared, method, number)
                for _ in range(2):
                    found = written(shared, method, number)
                    assert found[1:] == expected[1:] and same_bits(found[0], expected[0]), (shared, method)


def test_writes_to_memory_that_is_read() -> None:
    for shift in (0, 1, 5, 8, 9):
        for _ in range(2):
            array = np.arange(24, dtype=np.float32)
            a, b = array[shift : shift + 8], array[8:16]
            expected = a + b
            rushlight.from_numpy(a).add_(rushlight.from_numpy(b))
            assert a.tolist() == expected.tolist(), shift


x, y, m = rushlight.ones(4), rushlight.ones(4), rushlight.ones(4, 6)
g, h = rushlight.ones(4, requires_grad=True), rushlight.ones(4, 6, requires_grad=True)
part = m[1:3]

CALLS: dict[str, Callable[[], Any]] = {
    "add": lambda: x + y,
    "number": lambda: x * 2.0,
    "reflected": lambda: 3 - x,
    "compare": lambda: x > y,
    "negate": lambda: -x,
    "broadcast": lambda: m + rushlight.ones(6),
    "recorded": lambda: g * x,
    "recorded twice": lambda: (g * g).sin() + 1,
    "number recorded": lambda: g * 2.0,
    "result saved": lambda: g.exp(),
    "view": lambda: m.view(24),
    "transpose": lambda: m.t(),
    "slice": lambda: m[1:3],
    "select": lambda: m[1, 2],
    "view of a view": lambda: part.t()[0],
    "view recorded": lambda: h.view(2, 12),
    "view of a view recorded": lambda: h.t()[1:3].unsqueeze(0),
    "reduction": lambda: m.sum(1),
    "reduction recorded": lambda: h.sum(1),
    "product recorded": lambda: h @ m.t(),
    "backward": lambda: (g * 2.0 + x).sum().backward(),
    "written": lambda: x.add_(y),
    "written by a number": lambda: x.mul_(1.0),
    "rows": lambda: m[:, 1:3] + m[:, 2:4],
    "spread": lambda: m * m[0].clone(),
    "refused": lambda: x + rushlight.ones(4, dtype=rushlight.int32),
    "detached": lambda: g.detach(),
}


ROUNDS = 5  # in one of which nothing comes from the background, as kernels do under RUSHLIGHT_EAGER=auto


@pytest.mark.parametrize("name", CALLS)
def test_a_call_keeps_nothing(name: str) -> None:
    call = CALLS[name]
    watched = [
        x,
        y,
        m,
        g,
        h,
        x._array,
        g._array,
        rushlight.float32,
        rushlight.float32.numpy,
        Tensor,
        None,
        0,
        1,
    ]
    for _ in range(200):
        call()
    for rounds in range(1, ROUNDS + 1):
        g.grad = None
        gc.collect()
        references, blocks = [sys.getrefcount(thing) for thing in watched], sys.getallocatedblocks()
        for _ in range(2000):
            call()
        g.grad = None
        gc.collect()
        if sys.getallocatedblocks() - blocks < 500:
            break
        assert rounds < ROUNDS
    for before, thing in zip(references, watched, strict=True):
        assert abs(sys.getrefcount(thing) - before) < 100, type(thing)


ERRORS: dict[str, Callable[[], Any]] = {
    "shapes": lambda: x + rushlight.ones(3),
    "shapes recorded": lambda: g * rushlight.ones(3),
    "view": lambda: m.view(5, 5),
    "view recorded": lambda: h.view(5, 5),
    "index": lambda: m[7],
    "dimension": lambda: m.transpose(0, 5),
    "too large": lambda: m.select(0, 2**70),
    "kind": lambda: x + "a",
}


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_keeps_nothing(name: str) -> None:
    def fail() -> None:
        with pytest.raises((RuntimeError, IndexError, TypeError, ValueError, OverflowError)):
            ERRORS[name]()

    for _ in range(20):
        fail()
    gc.collect()
    before = sys.getallocatedblocks()
    for _ in range(100):
        fail()
    gc.collect()
    assert sys.getallocatedblocks() - before < 300


def test_modes_of_functions_see_operators() -> None:
    seen = []

    class Mode(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(func.__name__)
            return func(*args, **(kwargs or {}))

    x + y
    with Mode():
        x + y
        x.exp()
    x + y
    assert seen == ["add", "exp"] and isinstance(Tensor.exp, Packet)


def test_a_class_that_decides_is_asked() -> None:
    class Mine(Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return func.__name__

    mine = Mine([1.0, 2.0])
    for _ in range(3):
        assert x + y is not None
        assert mine + mine == "add" and x[:2] * mine == "mul" and -mine == "neg"


def test_modes_of_autograd() -> None:
    for _ in range(2):
        with rushlight.no_grad():
            assert not (g * 2.0).requires_grad and h.t()._creation == "no_grad"
        with rushlight.inference_mode():
            assert (x + y).is_inference() and not (g * 2.0).requires_grad
        with rushlight.enable_grad():
            assert type((g + x).grad_fn).__name__ == "AddBackward0"
        packed: list[Any] = []
        with rushlight.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t) or t, lambda t: t):
            g * g
        assert len(packed) == 2
        with rushlight.autograd.set_detect_anomaly(True, check_nan=False):
            assert (g * 2.0).grad_fn._trace is not None
    assert (g * 2.0).grad_fn._trace is None


def test_a_saved_tensor_that_was_written_is_refused() -> None:
    for _ in range(3):
        a = g * 1.0
        product = a * x
        saved = product * a
        a.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            saved.sum().backward()


@pytest.mark.parametrize("requires_grad", [False, True])
def test_views_are_those_of_python(requires_grad: bool) -> None:
    fields = (
        "dtype",
        "_strides",
        "_offset",
        "_keys",
        "_creation",
        "_seen_version",
        "_inference",
        "_output_nr",
    )
    base = rushlight.arange(24.0).view(4, 6).clone()
    source = (base.requires_grad_() * 1.0) if requires_grad else base
    views = {
        "t": lambda t: t.t(),
        "view": lambda t: t.reshape(24).view(2, 3, 4),
        "tuple": lambda t: t.view((8, 3)),
        "select": lambda t: t.select(1, -2),
        "slice": lambda t: t[1:, ::2],
        "last": lambda t: t[-1],
        "permute": lambda t: t.unsqueeze(1).permute(2, 0, 1),
        "expand": lambda t: t.unsqueeze(1).expand(4, 5, 6),
        "squeeze": lambda t: t[:1].squeeze(0),
        "detach": lambda t: t.detach(),
        "diagonal": lambda t: t.diagonal(1),
        "none": lambda t: t[3:3],
        "no sizes": lambda t: t[1, 2:3].view(()),
        "no steps": lambda t: t.as_strided((), (), 7),
    }
    for name, make in views.items():
        with in_python():
            expected = make(source)
        for _ in range(3):
            found = make(source)
            assert [getattr(found, f) for f in fields] == [getattr(expected, f) for f in fields], name
            assert found._base is expected._base and found._versions is expected._versions, name
            assert found._storage is expected._storage and found.shape == expected.shape, name
            assert found._array.strides == expected._array.strides, name
            assert found._array.flags.writeable and found.requires_grad is expected.requires_grad, name
            assert bool((found == expected).all()), name
            assert (found._view_of is None) is (expected._view_of is None), name
            if found._view_of is not None:
                assert found._view_of[0] is expected._view_of[0], name
                assert found._view_of[1][1:] == expected._view_of[1][1:], name


def test_views_of_tensors_with_strides_of_their_own_are_known() -> None:
    """Equal strides in other tuples, as views that are made one by one have them."""
    assert x[1:3].shape == (2,)
    assert native_dispatch._installed is not None
    table = native_dispatch._installed.operators[REGISTRY["slice.Tensor"]]
    before = table.misses
    for _ in range(50):
        source = rushlight.ones(11)[:]
        source._strides = (int("1"),)
        assert source[2:9].shape == (7,)
    assert table.misses <= before + 2


def test_views_of_ever_new_sizes() -> None:
    for n in range(1, MOST_MISSES // 4, 7):
        t = rushlight.arange(2.0 * n).view(2, n)
        assert t.t().shape == (n, 2) and t[1, -1].item() == 2 * n - 1


def test_a_number_in_place_of_a_list_is_saved_as_a_list() -> None:
    for _ in range(3):
        leaf = rushlight.ones(3, requires_grad=True)
        leaf.roll(1).sum().backward()
        assert leaf.grad.tolist() == [1, 1, 1]


def test_another_derivative_is_used_at_once() -> None:
    entry = REGISTRY["mul.Tensor"].derivative
    leaf = rushlight.ones(3, requires_grad=True)

    def gradient() -> Any:
        return rushlight.autograd.grad((leaf * x[:3]).sum(), leaf)[0].tolist()

    before = [gradient() for _ in range(3)]
    formula = entry.formulas[0]
    right = formula.function
    try:
        formula.function = lambda grad, other: grad * 5
        entry.plans.clear()
        gc.collect()
        assert [gradient() for _ in range(3)] == [[5, 5, 5]] * 3
    finally:
        formula.function = right
        entry.plans.clear()
    assert [gradient() for _ in range(3)] == before


def test_threads_that_make_views_of_many_sizes() -> None:
    wrong: list[Any] = []

    def work(seed: int) -> None:
        for i in range(400):
            n = 1 + (i * 7 + seed * 13) % 300
            t = rushlight.arange(3.0 * n).view(3, n)
            if t.t()[n - 1, 2].item() != 3 * n - 1 or t[1].shape != (n,) or (t + t)[2, 0].item() != 4 * n:
                wrong.append((seed, n))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not wrong


def run(program: str) -> str:
    environment = {**os.environ, "RUSHLIGHT_EAGER": "auto"}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    return done.stdout


WARM = """
    import os, sys
    import rushlight
    x = rushlight.ones(4)
    for _ in range(1100):
        y = x + x
"""


def test_calls_become_native_in_the_background() -> None:
    program = """
    from rushlight.eager import worker
    assert worker.wait(240)
    print(type(rushlight.Tensor.__add__).__name__, (x + x).tolist())
    """
    assert run(WARM + program) == "method_descriptor [2.0, 2.0, 2.0, 2.0]\n"


def test_the_end_of_the_process_while_they_become_so() -> None:
    assert run(WARM + "    print('done')\n") == "done\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes do not fork here")
def test_a_fork_while_they_become_so() -> None:
    program = """
    child = os.fork()
    for _ in range(1100):
        y = (x + x) * 2
    if child == 0:
        os._exit(int(y[0].item() != 4))
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    assert run(WARM + program) == "0\n"
