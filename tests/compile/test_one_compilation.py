"""Programs that one compilation serves at all sizes, and what was wrong with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import rushlight as rl
from rushlight.core.data_sizes import shorter
from rushlight.runtime import redzones

SHAPES = [(9, 31), (5, 7), (8, 8), (2, 40), (33, 2), (16, 3)]


def agree(got: Any, want: Any) -> None:
    assert got.shape == want.shape
    assert got.stride() == want.stride()
    assert got.dtype is want.dtype
    rl.testing.assert_close(got, want, atol=1e-4, rtol=1e-4)


def check(program: Callable[..., Any], inputs: list[tuple[Any, ...]]) -> Any:
    """Run a program, compiled once, on inputs of several sizes, between guard zones too."""
    compiled = rl.compile(program, fullgraph=True, dynamic=True)
    for given in inputs:
        agree(compiled(*given), program(*given))
        with redzones.guarding():
            agree(compiled(*given), program(*given))
    assert compiled.reasons == ["first call"]
    return compiled


# Layouts of arguments.


@pytest.mark.parametrize("dynamic", [True, None])
def test_arguments_with_gaps(dynamic: bool | None) -> None:
    """The strides of a tensor with gaps change with its sizes: they were numbers of the first call."""
    f = rl.compile(lambda x: x.amax(1), fullgraph=True, dynamic=dynamic)
    for rows, width in ((33, 31), (3, 24), (6, 4), (5, 9)):
        x = rl.randn(rows, 2, 2 * width)[..., ::2]
        agree(f(x), x.amax(1))
    assert len(f.reasons) == (1 if dynamic else 2)


def test_arguments_that_are_views() -> None:
    check(lambda x: x + 1, [(rl.randn(n, m).t(),) for n, m in SHAPES])
    check(lambda x: x.sum(0), [(rl.randn(n * m + 3)[3:].view(n, m),) for n, m in SHAPES])
    check(lambda x: x * 2, [(rl.randn(n, 2 * m)[:, :m],) for n, m in SHAPES])


def test_strides_of_arguments_are_put_back() -> None:
    x = rl.randn(6, 8)[:, ::2]
    rl.compile(lambda x: x + 1, fullgraph=True, dynamic=True)(x)
    assert x.stride() == (8, 2)
    assert type(x.stride(0)) is int


def test_the_reason_tells_strides_in_bytes_once() -> None:
    f = rl.compile(lambda x: x + 1, fullgraph=True)
    f(rl.ones(6, 8)[:, ::2])
    f(rl.ones(6, 10)[:, ::2])
    assert f.reasons[1] == "argument 0: shape was (6, 4), is (6, 5)"


# Loops shorter than a vector.


NARROW = {
    "sum": lambda x: x.sum(1),
    "sum of columns": lambda x: x.sum(0),
    "largest": lambda x: x.amax(1),
    "place of the largest": lambda x: x.argmax(1),
    "pointwise": lambda x: x + x,
    "transpose": lambda x: (x.t() + x.t()).contiguous(),
}


@pytest.mark.parametrize("name", NARROW)
@pytest.mark.parametrize("dtype", ["bfloat16", "int8", "float64"])
def test_sizes_below_at_and_above_a_vector(name: str, dtype: str) -> None:
    """Also of dtypes that have no masked loads: the last vector overlaps, if there is a whole one."""
    kind = getattr(rl, dtype)
    shapes = [(40, 100), (3, 5), (8, 64), (65, 2), (2, 33), (7, 7)]
    check(NARROW[name], [(rl.randint(-4, 5, shape).to(kind),) for shape in shapes])


def test_transposes_in_squares() -> None:
    check(lambda x: x.t().contiguous(), [(rl.randn(*s),) for s in [(70, 90), (3, 90), (90, 3), (8, 8)]])


# Parts and shapes.

PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "from the end": lambda x: x.select(0, -2) * 2,
    "sections": lambda x: rl.cat([part.sum(1) for part in rl.cat((x, x), 1).tensor_split(2, 1)]),
    "a returned transpose": lambda x: x.t(),
    "padding of a matrix": lambda x: rl.constant_pad_nd(x + 1, (1, 2), 3.0),
    "the diagonal": lambda x: x.diagonal() * 2,
    "another diagonal": lambda x: rl.diag(rl.cat((x, x), 1), 1).sum() + x.t().sum(),
    "triangular factor": lambda x: rl.linalg.qr(x)[1].abs(),
    "singular values": lambda x: rl.linalg.svd(x, full_matrices=False)[1],
    "degrees of freedom": lambda x: x.sum(0) / (x.shape[0] - 1),
    "weights": lambda x: x * x.shape[0] + x.shape[1],
    "copies": lambda x: x[:, None].expand(-1, 3, -1).sum(1),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_guard_on_what_happens_to_be_so(name: str) -> None:
    check(PROGRAMS[name], [(rl.randn(*shape),) for shape in SHAPES])


def test_a_gradient_of_another_rank() -> None:
    """A gradient of shape (2, n, 1) was compared with (n, 1), which asks whether n is 2."""
    f = rl.compile(lambda x: rl.stack((x, x)).maximum(x.atan()).sum(), fullgraph=True, dynamic=True)
    for n in (33, 2, 5):
        x, y = (rl.ones(n, 1).requires_grad_() for _ in range(2))
        f(x).backward()
        rl.stack((y, y)).maximum(y.atan()).sum().backward()
        agree(x.grad, y.grad)
    assert f.reasons == ["first call"]


def test_shorter_of_two_sizes() -> None:
    assert shorter(3, 5) == 3

    def program(x: rl.Tensor) -> rl.Tensor:
        n, m = x.shape
        nothing = (shorter(n, n + 1) - n) + (shorter(n + m, m) - m)
        return x.new_ones(shorter(n, m) + nothing)

    compiled = check(program, [(rl.ones(n, m),) for n, m in SHAPES])
    (form,) = next(iter(compiled.specializations.values()))
    assert not form.live.guards
    assert not form.live.symbols.remembered  # arithmetic is forgotten when all is compiled


def test_the_same_shape_with_other_strides() -> None:
    """A call whose shape was met before may have other strides."""
    f = rl.compile(lambda x: x * 2 + 1, fullgraph=True, dynamic=True)
    wide = rl.randn(6, 40)
    for part in (wide[:, :8], wide[:, ::5], wide[:, :16:2], wide[:, :8], wide[:, 0:16:2]):
        for _ in range(3):
            agree(f(part), part * 2 + 1)


def test_no_elements_beside_sizes_that_change() -> None:
    """A tensor without elements is dense, whatever its other sizes are."""
    for program in (lambda x: x.softmax(1), lambda x: rl.linalg.qr(x)[1]):
        f = rl.compile(program, fullgraph=True, dynamic=True)
        for shape in ((5, 0, 7), (6, 0, 3), (0, 5, 7)):
            agree(f(rl.ones(shape)), program(rl.ones(shape)))


def test_a_size_of_one_that_is_computed() -> None:
    """What is computed into memory of its own fills it, also where a size is known to be 1 by a guard alone."""
    f = rl.compile(lambda x, w: rl.nn.functional.conv3d(x, w, padding="same"), fullgraph=True, dynamic=True)
    g = rl.compile(lambda x: (x[:, ::2].sort(0).values + 1).sum(0), fullgraph=True, dynamic=True)
    for n in (2, 3, 4):
        x, w = rl.randn(1, 2, n, 3, 4), rl.randn(2, 2, 2, 2, 3)
        agree(f(x, w), rl.nn.functional.conv3d(x, w, padding="same"))
        agree(g(x[0, 0]), (x[0, 0][:, ::2].sort(0).values + 1).sum(0))


# Random numbers.


@pytest.mark.parametrize("dtype", [rl.int64, rl.float32, rl.uint8])
def test_bounds_of_random_integers_are_symbols(dtype: rl.dtype) -> None:
    """2**64, by which the first one was reduced, is no number of 64 bits: it became 0."""

    def program(low: int, high: int, size: int) -> rl.Tensor:
        return rl.randint(low, high, (size,), dtype=dtype)

    compiled = rl.compile(program, fullgraph=True, dynamic=True)
    first = 3 if dtype is rl.uint8 else -7
    for low, high, size in ((first, 9, 40), (first + 2, 6, 3), (first + 1, 200, 17)):
        rl.manual_seed(4)
        want = program(low, high, size)
        rl.manual_seed(4)
        assert rl.equal(compiled(low, high, size), want)
    assert compiled.reasons == ["first call"]


# Questions that need not be asked.


def test_reshapes_that_are_copies_at_all_sizes() -> None:
    """Whether the shape was the new one by accident was a guard, though the answer changed nothing."""
    inputs = [(rl.randn(n, 2, m),) for n, m in ((7, 7), (8, 2), (24, 5))]
    check(lambda x: x.transpose(0, 2).reshape(2, -1), inputs)


def test_parts_of_one_row() -> None:
    """Where a part has one row for some sizes, the order of its memory is the same."""
    check(
        lambda x: x.transpose(0, 2).amax(1).roll(1, 0).erf(),
        [(rl.randn(*s),) for s in ((31, 5, 9), (7, 3, 2))],
    )


def test_the_trace_of_wide_and_tall_matrices() -> None:
    check(lambda x: x.trace(), [(rl.randn(n, m),) for n, m in SHAPES])
    f = rl.compile(lambda x: rl.autograd.grad(x.trace(), x)[0], fullgraph=True, dynamic=True)
    for n, m in SHAPES:
        assert rl.equal(f(rl.randn(n, m, requires_grad=True)), rl.eye(n, m))
    assert f.reasons == ["first call"]


def test_numbers_of_sizes_are_filled_in() -> None:
    inputs = [(rl.randn(5, 5), rl.ones(n)) for n in (3, 5, 9)]
    check(lambda x, v: x.masked_fill(x > 0, v.shape[0] - 1.0), inputs)
    check(lambda x, v: x.where(x > 0, v.shape[0] / 2), inputs)
    check(lambda x, v: x + rl.scalar_tensor(v.shape[0] * 0.5), inputs)


def test_convolutions_in_groups_whose_strides_are_arguments() -> None:
    """A tensor put together from parts was not known to be dense where its strides have quotients."""
    inputs = [(rl.randn(3, 9, n, 2, 9), rl.randn(3, 3, 3, 2, 9), rl.randn(3)) for n in (3, 8, 5)]
    f = rl.compile(rl.nn.functional.conv3d, fullgraph=True, dynamic=True)
    for given in inputs:
        for options in (
            {"stride": (2, 2, 2), "dilation": 1, "groups": 3},
            {"stride": (1, 2, 1), "groups": 3},
        ):
            agree(f(*given, **options), rl.nn.functional.conv3d(*given, **options))


def test_pooling_of_random_regions_of_two_places() -> None:
    def pooled(x: Any, samples: Any) -> Any:
        return rl.nn.functional.fractional_max_pool3d(x, 2, output_ratio=0.5, _random_samples=samples)

    check(pooled, [(rl.randn(2, 3, n, n + 1, n + 2), rl.rand(2, 3, 3)) for n in (8, 4, 12, 5)])


@pytest.mark.parametrize("mode", ["border", "reflection"])
def test_places_in_boxes(mode: str) -> None:
    """What stands for NaN is the last place, a number that follows from the size."""

    def sampled(x: Any, places: Any) -> Any:
        return rl.nn.functional.grid_sample(x, places, padding_mode=mode, align_corners=False)

    check(sampled, [(rl.randn(2, 3, n, n + 2, n + 1), 3 * rl.rand(2, 4, n, 2, 3) - 1) for n in (4, 9, 6)])


@pytest.mark.parametrize(
    "part", [slice(-2, None), slice(None, 2), slice(-2, -1), slice(1, -1), slice(2, None)]
)
def test_gradients_of_parts_whose_borders_may_be_empty(part: slice) -> None:
    """The sign of what is padded, and whether anything is, were guards."""

    def gradient(x: Any) -> Any:
        return rl.autograd.grad((x[part] * x[part]).sum(), x)[0]

    f = rl.compile(gradient, fullgraph=True, dynamic=True)
    # parts of 0 or 1 elements are cases of their own
    for n in (15, 5, 4) if part in (slice(1, -1), slice(2, None)) else (15, 5, 3, 2):
        x = rl.randn(n, n, requires_grad=True)
        agree(f(x), gradient(x))
    assert f.reasons == ["first call"]
