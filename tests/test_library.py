"""Operators of a program's own, beside PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import rushlight

LIBRARIES = [torch, rushlight]


def sine(library: Any, name: str) -> Any:
    def numpy_sine(x, factor=1.0):  # type: ignore[no-untyped-def]
        return library.from_numpy(np.sin(x.numpy()) * factor)

    numpy_sine.__annotations__ = {"x": library.Tensor, "factor": float, "return": library.Tensor}
    return library.library.custom_op(f"tests::{name}", numpy_sine, mutates_args=())


def differentiable(library: Any, name: str) -> Any:
    operator = sine(library, name)

    def setup(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0])
        ctx.factor = inputs[1]

    operator.register_autograd(
        lambda ctx, grad: (grad * ctx.saved_tensors[0].cos() * ctx.factor, None), setup_context=setup
    )
    return operator


@pytest.mark.parametrize("library", LIBRARIES)
def test_values_and_gradients(library: Any) -> None:
    operator = differentiable(library, "differentiable_sine")
    x = library.tensor([0.5, 1.0], requires_grad=True)
    y = operator(x, factor=2.0)
    np.testing.assert_allclose(y.detach().numpy(), 2 * np.sin([0.5, 1.0]), rtol=1e-6)
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * np.cos([0.5, 1.0]), rtol=1e-6)
    by_name = library.ops.tests.differentiable_sine
    np.testing.assert_allclose(by_name(x.detach(), 1.0).numpy(), by_name.default(x.detach(), 1.0).numpy())


@pytest.mark.parametrize("library", LIBRARIES)
def test_what_is_not_registered(library: Any) -> None:
    operator = sine(library, "plain_sine")
    y = operator(library.ones(2, requires_grad=True))
    assert y.requires_grad
    for call in (
        y.sum().backward,
        lambda: operator(library.ones(2, device="meta")),
        lambda: operator(3),
        operator,
        lambda: library.library.register_fake("tests::missing", lambda x: x),
    ):
        with pytest.raises(RuntimeError):
            call()
    library.library.register_fake("tests::plain_sine", lambda x, factor=1.0: library.empty_like(x))
    assert operator(library.ones(2, device="meta")).is_meta


@pytest.mark.parametrize("library", LIBRARIES)
def test_writes_are_counted_and_outputs_are_new(library: Any) -> None:
    def fill(x):  # type: ignore[no-untyped-def]
        x.numpy()[...] = 5

    fill.__annotations__ = {"x": library.Tensor, "return": None}
    operator = library.library.custom_op("tests::fill", fill, mutates_args={"x"})
    x = library.zeros(2)
    before = x._version
    assert operator(x) is None and x.tolist() == [5, 5] and x._version == before + 1

    def same(x):  # type: ignore[no-untyped-def]
        return x

    with pytest.raises(ValueError):
        library.library.custom_op("tests::unannotated", same, mutates_args=())
    same.__annotations__ = {"x": library.Tensor, "return": library.Tensor}
    with pytest.raises(RuntimeError):
        library.library.custom_op("tests::same", same, mutates_args=())(library.ones(1))


@pytest.mark.parametrize("library", LIBRARIES)
def test_batches(library: Any) -> None:
    operator = sine(library, "batched_sine")

    @operator.register_vmap
    def batched(info: Any, in_dims: Any, x: Any, factor: float = 1.0) -> Any:
        return operator(x, factor), in_dims[0]

    x = library.linspace(0, 1, 6).reshape(2, 3)
    np.testing.assert_allclose(library.vmap(operator, in_dims=1)(x).numpy(), np.sin(x.numpy().T), rtol=1e-6)


def test_in_a_compiled_function() -> None:
    operator = differentiable(rushlight, "compiled_sine")
    step = rushlight.compile(lambda x: operator(x * 2).sum() + 1)
    for value in (0.5, 0.25):
        x = rushlight.full((3,), value, requires_grad=True)
        result = step(x)
        result.backward()
        assert abs(result.item() - (3 * np.sin(2 * value) + 1)) < 1e-5
        np.testing.assert_allclose(x.grad.numpy(), [2 * np.cos(2 * value)] * 3, rtol=1e-5)
