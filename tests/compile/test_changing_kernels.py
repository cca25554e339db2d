"""Kernels for sizes that change have what those for fixed sizes have, and one compilation serves all sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

import rushlight as rl
import rushlight.nn.functional as F
from rushlight.loops.kernels import Product
from rushlight.loops.plans import LoopPlan
from rushlight.loops.product import Side
from rushlight.runtime import redzones


def check(function: Callable[..., Any], arguments: Sequence[Sequence[Any]], compilations: int = 1) -> Any:
    """Run a function with each of the arguments, compiled and eagerly, also in guard mode."""
    compiled = rl.compile(function, fullgraph=True, dynamic=True)
    with redzones.guarding():
        for each in arguments:
            agree(compiled(*each), function(*each))
    assert len(compiled.reasons) == compilations, compiled.reasons
    compiled = rl.compile(function, fullgraph=True, dynamic=True)
    for each in arguments:
        agree(compiled(*each), function(*each))
    return compiled


def agree(got: Any, want: Any) -> None:
    if isinstance(want, tuple):
        assert len(got) == len(want)
        for a, b in zip(got, want, strict=True):
            agree(a, b)
        return
    assert (got.shape, got.stride(), got.dtype) == (want.shape, want.stride(), want.dtype)
    rl.testing.assert_close(got, want, atol=1e-4, rtol=1e-4)


def with_gradients(function: Callable[..., Any]) -> Callable[..., Any]:
    """The results of a function and the gradients of its arguments."""

    def run(*args: Any) -> Any:
        args = tuple(arg.detach().requires_grad_() if arg.dtype is rl.float32 else arg for arg in args)
        out = function(*args)
        wanted = [arg for arg in args if arg.requires_grad]
        return out.detach(), *rl.autograd.grad((out * out).sum(), wanted)

    return run


def steps_of(compiled: Any) -> Any:
    (entry,) = (entry for known in compiled.specializations.values() for entry in known)
    return entry.artifact.schedule.steps


# Causal attention.

LENGTHS = (33, 64, 7, 17, 100, 255, 2, 32)


def causal(q: Any, k: Any, v: Any) -> Any:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def causal_by_hand(q: Any, k: Any, v: Any) -> Any:
    mask = rl.ones(q.shape[-2], q.shape[-2]).tril()
    return (q @ k.transpose(-1, -2)).masked_fill(mask == 0, float("-inf")).softmax(-1) @ v


@pytest.mark.parametrize("function", [causal, causal_by_hand])
def test_causal_attention_computes_triangles(function: Callable[..., Any]) -> None:
    arguments = [[rl.randn(3, 2, 3, n, 16)] for n in LENGTHS]
    steps = steps_of(check(with_gradients(lambda x: function(*x.unbind(0))), arguments))
    sides = [s.shape.triangle.side for s in steps if isinstance(s, Product) and s.shape.triangle is not None]
    assert {Side.RESULT, Side.LEFT_LOWER} <= set(sides)
    assert any(isinstance(s, LoopPlan) and s.limit is not None for s in steps)


def test_attention_in_blocks_compiles_once_for_a_number_of_blocks() -> None:
    """The size of the heads may change, too; 257 to 512 queries are two blocks."""

    def function(q: Any, k: Any, v: Any) -> Any:
        return rl.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, True)

    shapes = [(2, 2, 5, 8), (4, 3, 40, 4), (2, 2, 300, 8), (3, 2, 260, 4)]
    check(function, [[rl.randn(*shape) for _ in range(3)] for shape in shapes], compilations=2)


def test_causal_attention_with_other_numbers_of_queries_and_keys() -> None:
    sizes = [(20, 33), (64, 20), (3, 100), (100, 3)]
    arguments = [[rl.randn(2, n, 16), rl.randn(2, m, 16), rl.randn(2, m, 16)] for n, m in sizes]
    check(with_gradients(causal), arguments)


# Rows.


@pytest.mark.parametrize("shape", [(3, 5), (2, 2), (40, 31), (7, 1000), (4, 17)])
def test_rows_may_have_fewer_points_than_a_vector(shape: tuple[int, int]) -> None:
    shapes = [(9, 70), shape, (5, 64)]
    check(lambda x: (x.softmax(1), x.amax(1), x.var(1)), [[rl.randn(*each)] for each in shapes])
    check(lambda x: x * 2 + x.mean(1, keepdim=True), [[rl.randn(*each).double()] for each in shapes])


# Scatters.


def test_gradients_of_an_embedding() -> None:
    def step(words: Any, weight: Any) -> Any:
        weight = weight.detach().requires_grad_()
        out = F.embedding(words, weight)
        return rl.autograd.grad((out * out).sum(), weight)[0]

    weight = rl.randn(50, 64)
    shapes = [(2, 3), (8, 400), (4, 50), (16, 900)]
    check(step, [[rl.randint(0, 50, shape), weight] for shape in shapes])


def test_scatters_to_rows_of_changing_size() -> None:
    def add(x: Any, places: Any, rows: Any) -> Any:
        return x.index_add(0, places, rows)

    sizes = [(5, 4, 3), (300, 200, 100), (40, 100, 64), (100, 1000, 65)]
    check(add, [[rl.randn(n, m), rl.randint(0, n, (k,)), rl.randn(k, m)] for n, k, m in sizes])


# Transposes and padding.


def test_transposes() -> None:
    shapes = [(3, 4), (64, 100), (200, 9), (33, 31)]
    check(lambda x: x.t().contiguous() * 2, [[rl.randn(*each)] for each in shapes])


def test_padding_beside_other_sizes() -> None:
    def pad(x: Any) -> Any:
        return F.pad(x, (0, 0, 0, 256 - x.shape[0]))

    check(pad, [[rl.randn(n, 128)] for n in (100, 130, 200, 3)])


def test_pseudo_inverses_of_wide_and_tall_matrices() -> None:
    shapes = [(3, 6), (6, 3), (4, 4), (9, 2)]
    check(rl.linalg.pinv, [[rl.randn(*each)] for each in shapes])
    check(rl.linalg.matrix_rank, [[rl.randn(*each)] for each in shapes])


# Calls.


def test_calls_are_native_for_sizes_that_come_again() -> None:
    scale = [2.0]
    f = rl.compile(lambda x, y: (x * scale[0] + y).softmax(1), dynamic=True, fullgraph=True)
    sizes = [(3, 5), (40, 70), (9, 64)]
    given = {size: (rl.randn(*size), rl.randn(*size)) for size in sizes}
    for _ in range(4):
        for x, y in given.values():
            agree(f(x, y), (x * 2 + y).softmax(1))
    forms = [f._at_sizes.native(args) for args in given.values()]
    for (x, y), form in zip(given.values(), forms, strict=True):
        assert form is not None
        agree(form[0](x, y), (x * 2 + y).softmax(1))
    assert forms[0] is not None
    native = forms[0][0]
    x, y = given[3, 5]
    assert native(x, rl.randn(5, 3).t()) is NotImplemented  # other strides
    assert native(x.double(), y) is NotImplemented
    assert native(x, y[:, :4]) is NotImplemented
    assert native(x, 1.0) is NotImplemented
    agree(f(x, rl.ones(5, 3).t()), (x * 2 + 1).softmax(1))
    scale[0] = 3.0
    agree(f(x, y), (x * 3 + y).softmax(1))


def test_native_calls_of_many_sizes() -> None:
    f = rl.compile(lambda x: (x @ x.t()).softmax(1) @ x, dynamic=True, fullgraph=True)
    for n in [*range(2, 40), *range(2, 40), *range(39, 1, -1)]:
        x = rl.ones(n, 8)
        rl.testing.assert_close(f(x), x)
    assert len(f.reasons) == 1


# Large reductions.


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.sum(),
        lambda x: x.argmax(),
        lambda x: x.sum(0),
        lambda x: x.var(0),
        lambda x: x.amax((0, 1)),
    ],
)
def test_large_reductions_are_cut_into_parts(function: Callable[..., Any]) -> None:
    shapes = [(1500, 700), (2000, 64), (70, 9000), (3, 5), (40_000, 3)]
    compiled = check(function, [[rl.randn(*each)] for each in shapes], 2)  # few rows have no parts
    large, *_ = (entry for known in compiled.specializations.values() for entry in known)
    assert any(buffer.name.endswith("_parts") for s in large.artifact.schedule.steps for buffer in s.outputs)


@pytest.mark.parametrize(
    "function",
    [lambda x: (3 * x).sum(), lambda x: (3 * x).sum(0), lambda x: (3 * x).mean(), lambda x: (3 * x).norm()],
)
def test_reductions_that_were_small_are_cut_where_they_are_large(function: Callable[..., Any]) -> None:
    """Each kind of sizes, small and large, is compiled once, and the error does not grow with the size."""
    compiled = rl.compile(function, fullgraph=True, dynamic=True)
    for rows in (7, 40, 300_000, 400_000, 9):
        x = rl.rand(rows, 5)
        expected = function(x.double())
        rl.testing.assert_close(compiled(x).double(), expected, rtol=2e-6, atol=0)
    assert len(compiled.reasons) == 2


# Random numbers.

DRAWS: dict[str, Callable[[Any], Any]] = {
    "dropout": lambda x: F.dropout(x, 0.3) + F.dropout(x.sum(0), 0.5),
    "uniform": lambda x: rl.rand_like(x) + x,
    "normal": lambda x: rl.randn(x.shape[0], 3) + x[:, :1] + rl.randn_like(x).sum(),
    "bernoulli": lambda x: rl.bernoulli(x.sigmoid()),
    "integers": lambda x: rl.randint(0, 10, (x.shape[0],)) + x[:, 0],
    "permutation": lambda x: rl.randperm(x.shape[0]) + x[:, 0],
    "exponential": lambda x: x.clone().exponential_(),
}


@pytest.mark.parametrize("name", DRAWS)
def test_draws_are_those_of_eager_code(name: str) -> None:
    function = DRAWS[name]
    compiled = rl.compile(function, fullgraph=True, dynamic=True)
    for shape in [(5, 7), (9, 64), (40, 33), (2, 3), (9, 64)]:
        x = rl.randn(*shape)
        found = []
        for each in (compiled, function):
            rl.manual_seed(3)
            rl.rand(3)
            found.append((each(x), rl.rand(4)))  # which goes on where the draws have ended
        agree(*found)
    assert len(compiled.reasons) == 1


def test_draws_that_follow_from_the_data_are_for_one_size() -> None:
    compiled = rl.compile(lambda x: rl.poisson(x.exp()), fullgraph=True, dynamic=True)
    for shape in [(5, 7), (9, 64)]:
        x = rl.randn(*shape)
        found = []
        for each in (compiled, lambda x: rl.poisson(x.exp())):
            rl.manual_seed(3)
            found.append((each(x), rl.rand(4)))
        agree(*found)


def test_a_training_step_with_dropout() -> None:
    def losses(compiled: bool) -> tuple[list[float], Any]:
        rl.manual_seed(0)
        model = rl.nn.Sequential(rl.nn.Linear(16, 32), rl.nn.Dropout(0.2), rl.nn.ReLU(), rl.nn.Linear(32, 4))
        optimizer = rl.optim.AdamW(model.parameters(), lr=1e-2)

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        function = rl.compile(step, fullgraph=True) if compiled else step
        return [function(rl.randn(n, 16)).item() for n in (8, 12, 33, 5, 64, 12)], function

    (found, function), (wanted, _) = losses(True), losses(False)
    rl.testing.assert_close(rl.tensor(found), rl.tensor(wanted), atol=1e-5, rtol=1e-5)
    assert len(function.reasons) == 2


# Convolutions.

WINDOWS: dict[str, Callable[..., Any]] = {
    "convolution": lambda x, w: F.conv2d(x, w, padding=1),
    "strides": lambda x, w: F.conv2d(x, w, stride=2),
    "pooling": lambda x, w: F.max_pool2d(F.conv2d(x, w).relu(), 2),
    "normalization": lambda x, w: F.batch_norm(F.conv2d(x, w), None, None, training=True),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_convolutions_of_any_number_of_images(name: str) -> None:
    function, weight = with_gradients(WINDOWS[name]), rl.randn(8, 3, 3, 3)
    compiled = rl.compile(function, fullgraph=True)
    with redzones.guarding():
        for images in (4, 6, 9, 2, 33):
            x = rl.randn(images, 3, 12, 12)
            for got, want in zip(compiled(x, weight), function(x, weight), strict=True):
                assert got.stride() == want.stride()
                rl.testing.assert_close(got, want, atol=1e-2, rtol=1e-3)
    assert len(compiled.reasons) == 2, compiled.reasons


def test_convolutions_of_images_of_any_size() -> None:
    function, weight = with_gradients(WINDOWS["convolution"]), rl.randn(8, 3, 3, 3)
    compiled = rl.compile(function, fullgraph=True)
    for shape in [(4, 3, 16, 16), (6, 3, 20, 17), (9, 3, 17, 30), (2, 3, 9, 8)]:
        x = rl.randn(*shape)
        for got, want in zip(compiled(x, weight), function(x, weight), strict=True):
            rl.testing.assert_close(got, want, atol=1e-2, rtol=1e-3)
    assert len(compiled.reasons) == 2, compiled.reasons


SORTS = {
    "sort": lambda x: x.sort(-1),
    "descending": lambda x: x.sort(0, descending=True),
    "stable positions": lambda x: x.argsort(dim=-1, stable=True),
    "some": lambda x: x.topk(3, -1),
    "half": lambda x: x.topk(x.shape[-1] // 2, -1, largest=False),
    "one": lambda x: x.kthvalue(2, 0),
    "median": lambda x: x.median(-1),
    "all": lambda x: x.flatten().sort(),
    "of a view": lambda x: x.t()[1:].sort(0),
}


@pytest.mark.parametrize("dtype", [rl.float32, rl.float64, rl.int16, rl.int64])
@pytest.mark.parametrize("name", SORTS)
def test_sorts_of_rows_whose_number_and_length_change(name, dtype):
    program = SORTS[name]
    compiled = rl.compile(program, dynamic=True, fullgraph=True)
    rl.manual_seed(0)
    for rows, length in ((9, 12), (3, 7), (40, 100), (17, 3000), (1200, 6), (5, 5)):
        x = rl.randint(-20, 20, (rows, length)).to(dtype)
        expected, found = program(x), compiled(x)
        both = zip(expected, found, strict=True) if isinstance(expected, tuple) else [(expected, found)]
        for a, b in both:
            assert rl.equal(a, b), (rows, length)
    assert len(compiled.reasons) == 1, compiled.reasons


def test_sorts_of_few_rows_are_compiled_once_when_many_come():
    compiled = rl.compile(lambda x: x.sort(-1).values, dynamic=True)
    for rows, length in ((400, 300), (2, 2), (3, 900), (999, 31)):
        x = rl.randn(rows, length)
        assert rl.equal(compiled(x), x.sort(-1).values)
    assert len(compiled.reasons) == 1
