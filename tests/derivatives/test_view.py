"""Derivatives of views: unused parts, shared memory, tangents that are laid out unlike their primals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import rushlight
from rushlight.autograd import forward_ad, gradcheck, gradgradcheck
from rushlight.core.dispatch import run_name

GRID = [[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0], [9.0, 10.0, 11.0, 12.0]]
COMPLEX = [[1 + 2j, 3 - 1j], [2j, -1 + 0j]]

POINTS: list[tuple[str, Any]] = [
    ("x.view(())", [3.0]),
    ("x.view(2, 6)", GRID),
    ("x.t().reshape(12)", GRID),
    ("x.view(0, 4)", []),
    ("x.squeeze()", [[[1.0], [2.0]]]),
    ("x.squeeze(0).squeeze(0)", [[[1.0], [2.0]]]),
    ("x.squeeze((0, -1))", [[[1.0], [2.0]]]),
    ("x.squeeze(0)", 3.0),
    ("x.unsqueeze(-1)", 3.0),
    ("x.expand(2, 3, 4)", GRID),
    ("x.expand(4)", 3.0),
    ("x.expand(0)", [3.0]),
    ("x.permute(1, 0)", GRID),
    ("x.permute(-1, 0, 1)", [GRID, GRID]),
    ("x.t()", [1.0, 2.0]),
    ("x.transpose(0, -1)", 3.0),
    ("x.select(-1, -2)", GRID),
    ("x[1]", GRID),
    ("x[:, 1:3]", GRID),
    ("x[::2, 1::2]", GRID),
    ("x[5:]", GRID),
    ("x[-2:100]", GRID),
    ("x[2:1]", GRID),
    ("x.narrow(1, -3, 2)", GRID),
    ("x.diagonal()", GRID),
    ("x.diagonal(1, 1, 0)", GRID),
    ("x.diagonal(-7)", GRID),
    ("x.unfold(1, 3, 1)", GRID),
    ("x.unfold(0, 1, 2)", GRID),
    ("x.unfold(1, 0, 1)", GRID),
    ("x.unfold(0, 1, 1)", 3.0),
    ("x.unfold(0, 0, 1)", 3.0),
    ("x.unbind(1)", GRID),
    ("x.unbind(-1)[2]", GRID),
    ("x.split(3, -1)[1]", GRID),
    ("x.split((1, 0, 3), 1)[2]", GRID),
    ("x.split(0)", []),
    ("lib.unsafe_split(x, 2)[0]", GRID),
    ("lib.unsafe_split_with_sizes(x, [1, 2])[0]", GRID),
    ("x.chunk(2)", GRID),
    ("x.tensor_split(3, 1)[0]", GRID),
    ("lib.view_as_real(x)", COMPLEX),
    ("lib.view_as_real(x.t())", COMPLEX),
    ("lib.view_as_complex(x[:, 1:3].contiguous())", GRID),
    ("x.real", COMPLEX),
    ("x.imag", COMPLEX),
    ("x.conj().imag", COMPLEX),
    ("x.conj()", COMPLEX),
    ("x.mH", COMPLEX),
    ("lib._neg_view(x)", GRID),
    ("x.as_strided((3,), (2,), 1)", GRID),
    ("x.as_strided((2, 3), (1, 1))", GRID),
    ("x.as_strided((2, 0), (1, 1))", GRID),
    ("x.as_strided((), (), 5)", GRID),
    ("x.expand(3, 2).as_strided((2, 2), (0, 1))", [1.0, 2.0]),
    ("x.t().as_strided((5,), (2,), 1)", GRID),
    ("x.select_scatter(x[:, 0] * 2, 1, -1)", GRID),
    ("x.slice_scatter(x[:, :2] * 2, 1, 0, None, 2)", GRID),
    ("x.diagonal_scatter(x[0, :3] * 2, 1)", GRID),
    ("x.movedim(0, 1)", GRID),
    ("lib.slice_copy(x, 1, 0, 3, 2)", GRID),
    ("lib.split_copy(x, 2)[1]", GRID),
    ("lib.unbind_copy(x)[1]", GRID),
    ("lib.unfold_copy(x, 1, 2, 1)", GRID),
    ("lib.expand_copy(x, (2, 3, 4))", GRID),
    ("lib.as_strided_copy(x, (3,), (2,), 1)", GRID),
    ("lib.view_as_real_copy(x)", COMPLEX),
]


@pytest.mark.parametrize(("expression", "value"), POINTS)
def test_special_points(first_order: Callable[..., None], expression: str, value: Any) -> None:
    first_order(expression, value)


@pytest.mark.parametrize(
    "expression",
    [
        "x[:, 1:3] ** 2",
        "x[::2] ** 2",
        "x.select(1, -2) ** 2",
        "x.diagonal(1) ** 2",
        "x.unfold(1, 3, 1) ** 2",
        "x.unbind(1)[1] ** 2",
        "x.split(3, 1)[1] ** 2",
        "x.as_strided((2, 3), (1, 1)) ** 2",
        "x.select_scatter(x[:, 0] ** 2, 1, 2) ** 2",
        "x.slice_scatter(x[:, :2] ** 2, 1, 0, None, 2)",
        "x.diagonal_scatter(x[0, :3] ** 2, 1)",
        "rushlight.as_strided_scatter(x, x[0, :2] ** 2, (2,), (3,), 1) ** 2",
    ],
)
def test_derivatives_of_second_order(expression: str) -> None:
    x = rushlight.tensor(GRID, dtype=rushlight.float64, requires_grad=True)
    assert gradgradcheck(lambda x: eval(expression, {"x": x, "rushlight": rushlight}), x)


def test_a_view_of_another_dtype_has_no_derivative() -> None:
    x = rushlight.ones(2, dtype=rushlight.float64, requires_grad=True)
    assert not x.view(rushlight.complex128).requires_grad


@pytest.mark.parametrize("offset", [0, 1, None])
def test_as_strided_scatter_keeps_the_gradient_of_what_it_does_not_overwrite(offset: int | None) -> None:
    """PyTorch gives `self` the gradient of exactly those elements that were overwritten."""
    x = rushlight.randn(3, 3, dtype=rushlight.float64).requires_grad_()
    src = rushlight.randn(2, 2, dtype=rushlight.float64).requires_grad_()

    def scatter(x: Any, src: Any) -> Any:
        return rushlight.as_strided_scatter(x.t(), src, (2, 2), (1, 2), offset)

    assert gradcheck(scatter, (x, src), check_forward_ad=True)
    assert gradgradcheck(scatter, (x, src))


def test_as_strided_of_elements_that_share_memory_divides_the_gradient() -> None:
    def gradient(lib: Any) -> Any:
        x = lib.ones(2, dtype=lib.float64).expand(3, 2).requires_grad_()
        weights = lib.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=lib.float64)
        return lib.autograd.grad(x.as_strided((2, 2), (0, 1)), x, weights)[0].tolist()

    assert gradient(rushlight) == gradient(torch)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.as_strided((2, 3), (1, 1), 1),
        lambda x: x.unfold(1, 2, 1),
        lambda x: x.diagonal(),
        lambda x: rushlight.as_strided_scatter(x, x[0, :2], (2,), (3,), 1),
        lambda x: x.expand(2, 3, 4)[:, ::2],
    ],
)
def test_gradients_without_data(function: Callable[[Any], Any]) -> None:
    x = rushlight.empty(3, 4, device="meta", requires_grad=True)
    (gradient,) = rushlight.autograd.grad(function(x).sum(), x)
    assert gradient.is_meta
    assert gradient.shape == x.shape


def test_as_strided_beyond_the_elements_of_its_tensor() -> None:
    """Elements of the storage that the tensor lacks have no gradient, and disturb no other of any order."""
    base = rushlight.arange(6.0).to(rushlight.float64)
    x = base[:2].expand(3, 2).requires_grad_()
    (gradient,) = rushlight.autograd.grad((x.as_strided((4,), (1,)) ** 2).sum(), x, create_graph=True)
    assert gradient.tolist() == [[0.0, 2 / 3]] * 3
    (second,) = rushlight.autograd.grad(gradient.sum(), x)
    assert second.isfinite().all()


def test_the_tangent_of_as_strided_does_not_depend_on_the_layout_of_the_tangent() -> None:
    x = rushlight.randn(4, 3, dtype=rushlight.float64).t()
    tangent = rushlight.randn(3, 4, dtype=rushlight.float64)

    def strided(x: Any) -> Any:
        return x.as_strided((2, 5), (2, 2), 1)

    with forward_ad.dual_level():
        found = forward_ad.unpack_dual(strided(forward_ad.make_dual(x, tangent))).tangent
    same_layout = tangent.t().contiguous().t()
    assert same_layout.stride() == x.stride()
    assert found.tolist() == strided(same_layout).tolist()


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.view(12)[3:6],
        lambda x: x[:, 1],
        lambda x: x.t()[1:],
        lambda x: x.unsqueeze(0)[0, 0],
        lambda x: x.as_strided((2, 2), (4, 1), 1),
        lambda x: x.unfold(1, 2, 2)[0],
        lambda x: x.diagonal(),
        lambda x: x.unbind(1)[2],
        lambda x: x.split(2)[1],
    ],
)
def test_the_tangent_of_a_view_is_a_view_of_the_tangent(view: Callable[[Any], Any]) -> None:
    x, tangent = (rushlight.randn(3, 4, dtype=rushlight.float64) for _ in range(2))
    expected = tangent.clone()
    view(expected).mul_(3)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, tangent)
        view(dual).mul_(3)
        found = forward_ad.unpack_dual(dual).tangent
    assert found.tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("name", "shape", "arguments"),
    [
        ("select_backward", (3,), ((3, 4), 1, -2)),
        ("slice_backward", (3, 2), ((3, 4), 1, 1, 3, 1)),
        ("slice_backward", (3, 2), ((3, 4), -1, 0, 9223372036854775807, 2)),
        ("slice_backward", (0, 4), ((3, 4), 0, 2, 1, 1)),
        ("diagonal_backward", (3,), ((3, 4), 1, 0, 1)),
        ("unfold_backward", (3, 2, 3), ((3, 4), 1, 3, 1)),
        ("unfold_backward", (3, 2, 2), ((3, 5), 1, 2, 3)),
    ],
)
def test_backward_operators(name: str, shape: tuple[int, ...], arguments: tuple[Any, ...]) -> None:
    grad = torch.randn(shape, dtype=torch.float64)
    expected = getattr(torch.ops.aten, name)(grad, *arguments)
    ours = rushlight.tensor(grad.tolist(), dtype=rushlight.float64).reshape(shape).requires_grad_()

    def run(x: Any) -> Any:
        return run_name(name, x, *arguments)

    assert run(ours).tolist() == expected.tolist()
    assert gradcheck(run, ours, check_forward_ad=True)
