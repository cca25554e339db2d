"""Eager operators by native kernels: the same values, layouts, errors and gradients as by NumPy's."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.registry import REGISTRY
from rushlight.eager import calls, worker
from rushlight.nn import functional as F
from rushlight.runtime.redzones import guarding


@pytest.fixture(autouse=True)
def native() -> Iterator[None]:
    with rl.eager.use("native"):
        yield


def reference(function: Callable[[], Any]) -> Any:
    with rl.eager.use("reference"):
        return function()


def kernels_of(name: str) -> int:
    """How many signatures of an operator have a native callable."""
    found = calls._calls.get(REGISTRY[name])
    return 0 if found is None else len(found.natives)


def bits(tensor: Any) -> bytes:
    array = tensor.detach().clone(memory_format=rl.contiguous_format)
    array = array.float().numpy() if tensor.dtype is rl.bfloat16 else array.numpy()
    if array.dtype.kind in "fc":
        array = np.where(np.isnan(array), np.nan, array).astype(array.dtype)  # of NaN, only that it is one
    return array.tobytes()


def check_same(function: Callable[[], Any], *, exact: bool = True) -> None:
    expected, found = reference(function), function()
    pairs = zip(*(r if isinstance(r, tuple) else (r,) for r in (found, expected)), strict=True)
    for mine, theirs in pairs:
        assert (mine.dtype, mine.shape, mine.stride()) == (theirs.dtype, theirs.shape, theirs.stride())
        if exact:
            assert bits(mine) == bits(theirs)
        else:
            rl.testing.assert_close(mine, theirs, equal_nan=True)


SPECIAL = [0.0, -0.0, 1.0, -1.5, float("nan"), float("inf"), -float("inf"), 3e38, 1e-42, 0.1]
DTYPES = [
    rl.float32,
    rl.float64,
    rl.bfloat16,
    rl.float16,
    rl.int64,
    rl.int32,
    rl.uint8,
    rl.bool,
    rl.complex64,
]


def values(shape: tuple[int, ...], dtype: Any, start: int = 0) -> Any:
    count = int(np.prod(shape))
    if dtype.is_floating_point or dtype.is_complex:
        wave = [SPECIAL[(start + i) % len(SPECIAL)] for i in range(count)]
        return rl.tensor(wave, dtype=rl.float64).to(dtype).reshape(shape)
    return ((rl.arange(count) * 7 + start) % 11 - (0 if dtype is rl.uint8 else 5)).to(dtype).reshape(shape)


# Pairs of layouts of pointwise operands.
LAYOUTS: dict[str, Callable[[Any], tuple[Any, Any]]] = {
    "contiguous": lambda make: (make((6, 10)), make((6, 10))),
    "of rank 4": lambda make: (make((2, 3, 5, 7)), make((2, 3, 5, 7))),
    "transposed": lambda make: (make((6, 10)), make((10, 6)).t()),
    "both transposed": lambda make: (make((6, 10)).t(), make((6, 10)).t()),
    "a row": lambda make: (make((6, 10)), make((10,))),
    "a column": lambda make: (make((6, 10)), make((6, 1))),
    "row and column": lambda make: (make((1, 10)), make((6, 1))),
    "a scalar": lambda make: (make((6, 10)), make(())),
    "one element": lambda make: (make((6, 10)), make((1, 1))),
    "scalars": lambda make: (make(()), make(())),
    "single": lambda make: (make((1,)), make((1, 1, 1))),
    "slices": lambda make: (make((6, 20))[:, 3:13], make((12, 10))[::2]),
    "expanded": lambda make: (make((1, 10)).expand(6, 10), make((6, 10))),
    "permuted": lambda make: (make((4, 5, 6)).permute(2, 0, 1), make((6, 4, 5))),
    "channels last": lambda make: (
        make((2, 3, 4, 5)).contiguous(memory_format=rl.channels_last),
        make((2, 3, 4, 5)).contiguous(memory_format=rl.channels_last),
    ),
    "sizes of one": lambda make: (make((6, 1, 10)), make((6, 1, 10)).transpose(0, 1).transpose(0, 1)),
    "empty": lambda make: (make((0, 4)), make((0, 4))),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_pointwise_layouts(layout: str) -> None:
    starts = itertools.count()
    x, y = LAYOUTS[layout](lambda shape: values(shape, rl.float32, next(starts)))
    check_same(lambda: x + y)
    check_same(lambda: rl.maximum(y, x))
    check_same(lambda: x < y)
    check_same(lambda: rl.where(x > 0, x, y))


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: str(dtype).rpartition(".")[2])
def test_pointwise_dtypes(dtype: Any) -> None:
    x, y = values((7, 9), dtype), values((7, 9), dtype, 3)
    check_same(lambda: x + y)
    check_same(lambda: x * y, exact=dtype is not rl.complex64)
    check_same(lambda: x == y)
    check_same(lambda: x.to(rl.float32) + y if not dtype.is_complex else x + 1)
    if not dtype.is_complex:
        check_same(lambda: rl.minimum(x, y))
        check_same(lambda: x.clone())
    if dtype is not rl.bool:
        check_same(lambda: -x)
        check_same(lambda: x.sum(0), exact=not dtype.is_floating_point and not dtype.is_complex)


@pytest.mark.parametrize("number", [0.0, -0.0, 1.5, float("nan"), 2, 0, -3, True, 2**40, 1 + 2j], ids=repr)
def test_numbers_are_inputs(number: Any) -> None:
    x = values((5, 8), rl.float32)
    check_same(lambda: x * number, exact=not isinstance(number, complex))
    check_same(lambda: x + number)
    if type(number) in (int, float):
        check_same(lambda: rl.add(x, x, alpha=number))
    i = values((5, 8), rl.int64)
    check_same(lambda: i * number, exact=not isinstance(number, complex))


def test_a_kernel_serves_other_sizes_and_numbers() -> None:
    """Of tensors that are not small: arithmetic on small ones is native from end to end, without a kernel."""
    op = REGISTRY["mul.Scalar"]
    x = rl.randn(150, 200)
    x * 0.25
    kinds = len(calls._calls[op].kinds)
    for shape in ((130, 130), (20_000,), (20, 30, 40), (1, 30_000)):
        y = rl.randn(shape)
        check_same(lambda y=y: y * 0.75)
    assert len(calls._calls[op].kinds) == kinds
    assert sum(len(kind.kernels) for kind in calls._calls[op].kinds.values()) <= kinds


ROWS: dict[str, Callable[[Any], Any]] = {
    "softmax": lambda x: x.softmax(1),
    "log_softmax": lambda x: x.log_softmax(0),
    "sum": lambda x: x.sum(),
    "mean": lambda x: x.mean(1, keepdim=True),
    "var_mean": lambda x: rl.var_mean(x, 1),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[1:]),
    "batch_norm": lambda x: F.batch_norm(x, None, None, training=True),
    "matmul": lambda x: x @ x.t(),
    "linear": lambda x: F.linear(x, x, x[:, 0]),
    "cumsum": lambda x: x.cumsum(1),
    "gelu": F.gelu,
    "logsumexp": lambda x: x.logsumexp(1),
    "norm": lambda x: x.norm(dim=1),
}
EXACT_ROWS: dict[str, Callable[[Any], Any]] = {
    "amax": lambda x: x.amax(1),
    "argmax": lambda x: x.argmax(1),
    "topk": lambda x: tuple(x.topk(3, 1)),
    "sort": lambda x: tuple(x.sort(0)),
    "cat": lambda x: rl.cat([x, x[:2]], 0),
    "gather": lambda x: x.gather(1, rl.zeros(x.shape[0], 2, dtype=rl.int64)),
    "index_select": lambda x: x.index_select(0, rl.tensor([1, 0, 1])),
    "tril": lambda x: x.tril(),
    "flip": lambda x: x.flip(0),
    "clone": lambda x: x.t().clone(memory_format=rl.contiguous_format),
    "masked_fill": lambda x: x.masked_fill(x > 0, 2.0),
    "any": lambda x: x.gt(1).any(1),
    "any of no dimensions": lambda x: x.gt(1).any(dim=()),
    "all of no dimensions": lambda x: x.gt(-1).all(dim=(), keepdim=True),
    "std of large numbers": lambda x: x.mul(1e30).std(1),
}


@pytest.mark.parametrize("name", [*ROWS, *EXACT_ROWS])
@pytest.mark.parametrize("shape", [(6, 6), (40, 33), (2, 300)], ids=str)
def test_operators_over_rows(name: str, shape: tuple[int, ...]) -> None:
    rl.manual_seed(0)
    x = rl.randn(shape)
    function = (ROWS | EXACT_ROWS)[name]
    for given in (x, x.t().contiguous().t(), rl.cat([x, x], 1)[:, ::2]):
        check_same(lambda given=given: function(given), exact=name in EXACT_ROWS)


def test_gradients_through_kernels() -> None:
    def gradients() -> tuple[Any, ...]:
        rl.manual_seed(1)
        x, w, b = (rl.randn(shape, requires_grad=True) for shape in ((8, 16), (16,), (16,)))
        loss = F.gelu(F.layer_norm(x, (16,), w, b)).softmax(1).pow(2).sum()
        first = rl.autograd.grad(loss, (x, w, b), create_graph=True)
        return (*first, *rl.autograd.grad(first[0].pow(2).sum(), (x, w, b)))

    check_same(gradients, exact=False)
    assert kernels_of("native_layer_norm")
    assert kernels_of("gelu_backward")


def test_results_own_their_memory() -> None:
    x = rl.randn(6, 6)
    for function in (lambda: x.clone(), lambda: x + 0, lambda: x.relu(), lambda: x.sum(1)):
        first, second = function(), function()
        before = second.clone()
        first.fill_(7)
        assert first.data_ptr() not in (x.data_ptr(), second.data_ptr())
        assert rl.equal(second, before)


def test_errors_are_those_of_the_reference() -> None:
    x, table = rl.randn(4, 5), rl.randn(3, 2)
    wrong: list[Callable[[], Any]] = [
        lambda: x + rl.randn(3, 5),
        lambda: x @ x,
        lambda: x.gather(1, rl.tensor([[9]])),
        lambda: F.embedding(rl.tensor([5]), table),
        lambda: x.index_select(0, rl.tensor([7])),
        lambda: rl.tensor([1, 2]) // rl.tensor([1, 0]),
        lambda: x.softmax(4),
        lambda: x.bitwise_and(1),
        lambda: rl.cat([x, table]),
    ]
    for function in wrong:
        for _ in range(2):
            with pytest.raises(Exception) as expected:
                reference(function)
            with pytest.raises(type(expected.value)):
                function()


def test_dtype_of_numbers_follows_the_default() -> None:
    x = rl.arange(4)
    assert (x * 1.5).dtype is rl.float32
    rl.set_default_dtype(rl.float64)
    try:
        assert (x * 1.5).dtype is rl.float64
    finally:
        rl.set_default_dtype(rl.float32)
    assert (x * 1.5).dtype is rl.float32


def test_modes_around_kernels() -> None:
    x = rl.randn(8, 8, requires_grad=True)
    with rl.no_grad():
        assert not (x + x).requires_grad
    with rl.inference_mode():
        y = x * 2
        assert y.is_inference()
        assert F.layer_norm(x, (8,)).is_inference()
    assert (x + x).requires_grad
    with rl.autocast("cpu", dtype=rl.bfloat16):
        assert F.linear(x, x).dtype is rl.bfloat16
    with rl.no_grad(), rl.autocast("cpu", dtype=rl.bfloat16):
        assert F.linear(x, x).dtype is rl.bfloat16
    z, tangent = rl.randn(4), rl.ones(4)
    assert rl.allclose(rl.func.jvp(lambda t: F.gelu(t) * t, (z,), (tangent,))[1],
                       rl.func.vmap(rl.func.grad(lambda t: F.gelu(t) * t))(z), atol=1e-6)  # fmt: skip
    assert rl.equal((x.detach() + 1j).conj() + 0, (x.detach() - 1j) + 0)


def test_red_zones() -> None:
    with guarding():
        x = rl.randn(7, 9)
        check_same(lambda: x + x.t().contiguous().t())
        check_same(lambda: x.softmax(1), exact=False)
        check_same(lambda: x.t() * 2)


def test_same_bits_for_any_number_of_threads() -> None:
    rl.manual_seed(2)
    x, y = rl.randn(700, 900), rl.randn(900, 300)
    functions = [
        lambda: x.exp(),
        lambda: x.sum(),
        lambda: x.sum(0),
        lambda: x.softmax(1),
        lambda: x @ y,
        lambda: F.layer_norm(x, (900,)),
        lambda: x.cumsum(1),
    ]
    before, found = rl.get_num_threads(), []
    try:
        for count in (1, 2):
            rl.set_num_threads(count)
            found.append([bits(function()) for function in functions])
    finally:
        rl.set_num_threads(before)
    assert found[0] == found[1]


def test_threads_share_kernels() -> None:
    rl.manual_seed(3)
    inputs = [rl.randn(40 + i, 50) for i in range(8)]
    expected = reference(lambda: [(x.softmax(1) @ x.t(), x * float(i)) for i, x in enumerate(inputs)])
    wrong: list[str] = []

    def work(i: int) -> None:
        with rl.no_grad():
            for _ in range(20):
                x = inputs[i]
                product, scaled = x.softmax(1) @ x.t(), x * float(i)
                if not (rl.allclose(product, expected[i][0], atol=1e-5) and rl.equal(scaled, expected[i][1])):
                    wrong.append(f"thread {i}")

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_kernel_arrives_in_the_background() -> None:
    x = rl.randn(300, 300)
    op = REGISTRY["asinh"]
    expected = reference(lambda: x.asinh())
    with rl.eager.use("auto"):
        for _ in range(2000):
            rl.testing.assert_close(x.asinh(), expected)
            if kernels_of("asinh"):
                break
            worker.wait(60)
        assert kernels_of("asinh"), [kind.seconds for kind in calls._calls[op].kinds.values()]
        rl.testing.assert_close(x.asinh(), expected)


def test_unknown_mode() -> None:
    with pytest.raises(ValueError, match="must be one of auto, native, reference, but it is 'fast'"):
        rl.eager.use("fast")
    assert rl.eager.get() == "native"


@pytest.mark.parametrize(
    ("length", "options"),
    [(5, {}), (1, {"bias": False}), (4, {"bidirectional": True, "num_layers": 2, "batch_first": True})],
)
def test_layers_of_lstm_cells(length: int, options: dict[str, Any]) -> None:
    """A layer and its way back are one kernel each, a loop over all steps."""
    with rl.eager.use("reference"):
        rl.manual_seed(0)
        network = rl.nn.LSTM(6, 8, **options)
        shape = (3, length, 6) if options.get("batch_first") else (length, 3, 6)
        x = rl.randn(shape).requires_grad_()

    def run() -> tuple[Any, ...]:
        output, (h, c) = network(x)
        leaves = [x, *network.parameters()]
        return output, h, c, *rl.autograd.grad((output * output).sum() + h.sum() + c.prod(), leaves)

    before = kernels_of("mkldnn_rnn_layer"), kernels_of("mkldnn_rnn_layer_backward")
    check_same(run, exact=False)
    after = kernels_of("mkldnn_rnn_layer"), kernels_of("mkldnn_rnn_layer_backward")
    assert after[0] > before[0] and after[1] > before[1]
    with guarding():
        check_same(run, exact=False)


STORED: dict[str, Callable[[Any], Any]] = {
    "pointwise": lambda x: x * 1.5 + x.t(),
    "rows": lambda x: F.layer_norm(x, x.shape[1:]),
    "several results": lambda x: x.sort(1),
    "a product": lambda x: x[:, :7] @ x[:7],
}


@pytest.mark.parametrize("function", STORED.values(), ids=STORED.keys())
def test_kernels_come_from_disk(function: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that finds a kernel there captures nothing."""
    x = rl.arange(225.0).reshape(15, 15).sin()
    expected = function(x)

    def no_capture(*given: Any) -> Any:
        raise AssertionError("captured again")

    calls.forget()
    monkeypatch.setattr("rushlight.eager.compiling.capture_own", no_capture)
    found = function(x)
    assert all(c.natives for c in calls._calls.values() if c.kinds)
    for mine, theirs in zip(*(r if isinstance(r, tuple) else (r,) for r in (found, expected)), strict=True):
        assert bits(mine) == bits(theirs)


@pytest.mark.parametrize(
    ("shape", "dim"),
    [((100_000, 3), 0), ((1 << 20, 2), 0), ((3000, 300), 0), ((3, 100_000), 1), ((100_000,), 0)],
    ids=str,
)
def test_long_sums_keep_their_digits(shape: tuple[int, ...], dim: int) -> None:
    """A kernel that was compiled for few rows added a million of them one by one."""
    array = np.random.default_rng(0).random(shape, np.float32)
    for size in ((40, 20), shape):  # the first kernel serves no long sums
        some = array[tuple(slice(n) for n in size[: len(shape)])].copy()
        found = rl.from_numpy(some).sum(dim).numpy()
        np.testing.assert_allclose(found, some.sum(dim, dtype=np.float64), rtol=1e-6)


def test_numbers_that_need_kernels_of_their_own_take_turns() -> None:
    x = rl.rand(4, 9)
    for _ in range(3):
        check_same(lambda: x**2)
        check_same(lambda: x**3, exact=False)
        check_same(lambda: x**2.5, exact=False)
    found = calls._calls[REGISTRY["pow.Tensor_Scalar"]]
    before, found.reference = found.reference, None  # type: ignore[assignment]
    try:
        for number in (2, 3, 2, 2.5, 3):
            x**number  # none runs on NumPy's
    finally:
        found.reference = before
