"""Operators of a program's own, beside PyTorch's."""

from __future__ import annotations

import typing
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


def test_a_compiled_program_keeps_an_operator_with_a_fake_kernel() -> None:
    operator = differentiable(rushlight, "kept_sine")
    operator.register_fake(lambda x, factor=1.0: rushlight.empty_like(x))
    step = rushlight.compile(lambda x: operator(x * 2).sum() + 1, fullgraph=True)
    for value in (0.5, 0.25):
        x = rushlight.full((3,), value, requires_grad=True)
        result = step(x)
        result.backward()
        assert abs(result.item() - (3 * np.sin(2 * value) + 1)) < 1e-5
        np.testing.assert_allclose(x.grad.numpy(), [2 * np.cos(2 * value)] * 3, rtol=1e-5)
    assert not step.eager


def test_a_compiled_program_keeps_an_operator_that_writes() -> None:
    with rushlight.library._scoped_library("tests", "FRAGMENT") as library:
        library.define("grow(Tensor(a!) x, Tensor y) -> Tensor")

        def grow(x, y):  # type: ignore[no-untyped-def]
            x.numpy()[...] += y.numpy()
            return rushlight.from_numpy(x.numpy() * 2)

        library.impl("grow", grow, "CPU")
        rushlight.library.register_fake("tests::grow", lambda x, y: rushlight.empty_like(x), lib=library)

        def program(x, y):  # type: ignore[no-untyped-def]
            z = rushlight.ops.tests.grow(x, y * 2)
            return x + z

        compiled = rushlight.compile(program, fullgraph=True)
        for _ in range(2):
            x, other = rushlight.ones(3), rushlight.ones(3)
            y = rushlight.arange(3.0)
            assert compiled(x, y).tolist() == program(other, y).tolist()
            assert x.tolist() == other.tolist() == [1.0, 3.0, 5.0]
    assert not hasattr(rushlight.ops.tests, "grow")


@pytest.mark.parametrize("library", LIBRARIES)
def test_libraries(library: Any) -> None:
    with library.library._scoped_library("tests_scoped", "FRAGMENT") as scope:
        scope.define("double(Tensor x, int by=2, *, float bias=0.) -> Tensor")
        scope.impl("double", lambda x, by=2, *, bias=0.0: x * by + bias, "CompositeExplicitAutograd")
        operators = library.ops.tests_scoped
        x = library.ones(2)
        assert operators.double(x).tolist() == [2.0, 2.0]
        assert operators.double.default(x, 3, bias=1.0).tolist() == [4.0, 4.0]
        assert operators.double.default.name() == "tests_scoped::double"
        assert [a.name for a in operators.double.default._schema.arguments] == ["x", "by", "bias"]
        with pytest.raises(RuntimeError):
            scope.define("double(Tensor x) -> Tensor")
        with pytest.raises(RuntimeError):
            operators.double("x")
    assert not hasattr(library.ops.tests_scoped, "double")


@pytest.mark.parametrize("library", LIBRARIES)
def test_lists_and_several_results(library: Any) -> None:
    def split(xs, factor):  # type: ignore[no-untyped-def]
        return xs[0] * factor, xs[1].clone()

    split.__annotations__ = {
        "xs": list[library.Tensor],
        "factor": float,
        "return": tuple[library.Tensor, library.Tensor],
    }
    operator = library.library.custom_op("tests::split_list", split, mutates_args=())
    operator.register_autograd(
        lambda ctx, first, second: ([first * ctx.factor, second], None),
        setup_context=lambda ctx, inputs, output: setattr(ctx, "factor", inputs[1]),
    )
    xs = [library.ones(2, requires_grad=True), library.ones(3, requires_grad=True)]
    first, second = operator(xs, 3.0)
    (first.sum() * 2 + second.sum()).backward()
    assert xs[0].grad.tolist() == [6.0, 6.0] and xs[1].grad.tolist() == [1.0] * 3


def test_schemas_of_functions() -> None:
    def function(x: Any, sizes: Any, scale: Any = 1.5, mode: Any = None) -> None:
        pass

    for library in LIBRARIES:
        function.__annotations__ = {
            "x": library.Tensor,
            "sizes": list[int],
            "scale": float,
            "mode": str | None,
            "return": None,
        }
        assert (
            library.library.infer_schema(function, mutates_args={"x"})
            == "(Tensor(a0!) x, SymInt[] sizes, float scale=1.5, str? mode=None) -> ()"
        )


@pytest.mark.parametrize("lists", [list, typing.List])  # noqa: UP006  the two are different types
def test_schemas_of_functions_that_return_lists(lists: Any) -> None:
    def function(x: Any) -> None:
        pass

    for library in LIBRARIES:
        function.__annotations__ = {"x": lists[library.Tensor], "return": lists[library.Tensor]}
        assert library.library.infer_schema(function, mutates_args=()) == "(Tensor[] x) -> Tensor[]"


def test_opcheck_finds_what_is_wrong() -> None:
    operator = differentiable(rushlight, "checked_sine")
    operator.register_fake(lambda x, factor=1.0: rushlight.empty_like(x))
    x = rushlight.rand(3, requires_grad=True)
    assert set(rushlight.library.opcheck(operator, (x,)).values()) == {"SUCCESS"}
    operator.register_fake(lambda x, factor=1.0: x.new_empty(1))
    assert (
        rushlight.library.opcheck(operator, (x,), raise_exception=False, test_utils="test_faketensor")[
            "test_faketensor"
        ]
        != "SUCCESS"
    )


def test_a_mode_is_given_an_operator_and_may_have_a_rule_for_it() -> None:
    operator = sine(rushlight, "seen_sine")
    seen: list[Any] = []

    class Mode(rushlight.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(func)
            return func(*args, **(kwargs or {}))

    x = rushlight.ones(2)
    with Mode():
        operator(x)
    assert seen == [rushlight.ops.tests.seen_sine.default]
    rushlight.library.register_torch_dispatch(
        operator, Mode, lambda mode, func, types, args, kwargs: args[0] + 1
    )
    with Mode():
        assert operator(x).tolist() == [2.0, 2.0]


def test_another_kernel_for_an_operator_of_the_package() -> None:
    with rushlight.library._scoped_library("aten", "IMPL") as library:
        library.impl("erfinv", lambda x: x + 41, "CPU")
        assert rushlight.erfinv(rushlight.ones(1)).tolist() == [42.0]
    assert rushlight.erfinv(rushlight.zeros(1)).tolist() == [0.0]


# What PyTorch has no name for: scalar bodies, formulas, decompositions, lowerings.


def scoped(name: str = "tests_rules") -> Any:
    return rushlight.library._scoped_library(name, "FRAGMENT")


def identity(library: Any, name: str) -> Any:
    library.define(f"{name}(Tensor x) -> Tensor")
    library.impl(name, lambda x: x.clone(), "CPU")
    rushlight.library.register_fake(f"{library.ns}::{name}", rushlight.empty_like, lib=library)
    return getattr(rushlight.ops.tests_rules, name)


def test_a_scalar_body_is_a_whole_operator() -> None:
    with scoped() as library:

        @rushlight.library.pointwise("tests_rules::cube(Tensor self) -> Tensor", lib=library)
        def cube(ops, self):  # type: ignore[no-untyped-def]
            return ops.mul(self, ops.mul(self, self))

        rushlight.library.register_derivative(
            cube, self=lambda grad, self: 3 * grad * self * self, result=rushlight.library.AUTO_ELEMENTWISE
        )
        x = rushlight.linspace(-1, 1, 6, dtype=rushlight.float64).reshape(2, 3).requires_grad_()
        expected = x.detach() ** 3
        program = rushlight.compile(lambda x: cube(x) + 1, fullgraph=True)
        rushlight.testing.assert_close(cube(x).detach(), expected)
        rushlight.testing.assert_close(program(x).detach(), expected + 1)
        rushlight.testing.assert_close(rushlight.vmap(cube, in_dims=1, out_dims=1)(x).detach(), expected)
        assert cube(rushlight.ones(2, 3, dtype=rushlight.int8)).dtype is rushlight.int8
        assert cube(rushlight.ones(2, device="meta")).shape == (2,)
        assert rushlight.autograd.gradcheck(cube, (x,), check_forward_ad=True)
    assert not hasattr(rushlight.ops.tests_rules, "cube")
    with pytest.raises(ValueError, match="namespace::name"):
        rushlight.library.pointwise("cube(Tensor self) -> Tensor")


def test_a_decomposition_stands_for_kernel_and_fake_kernel() -> None:
    with scoped() as library:
        library.define("double(Tensor x) -> Tensor")
        rushlight.library.register_decomposition("tests_rules::double", lambda x: x + x, lib=library)
        double = rushlight.ops.tests_rules.double
        program = rushlight.compile(lambda x: double(x) + 1, fullgraph=True)
        assert double(rushlight.ones(2)).tolist() == [2, 2]
        assert double(rushlight.ones(2, device="meta")).shape == (2,)
        assert program(rushlight.ones(2)).tolist() == [3, 3]
        assert (
            "tests_rules::double"
            not in str(rushlight.explain(lambda x: double(x) + 1, rushlight.ones(2))).partition(
                "== decomposed graph"
            )[2]
        )


def test_a_kernel_that_breaks_the_promise_of_its_fake_kernel() -> None:
    """Compiled code wrote all that the kernel returned, beyond the end of the buffer that was planned."""
    with scoped() as library:
        for name, result in (("long", rushlight.ones(9999)), ("wide", rushlight.ones(2).double())):
            library.define(f"{name}(Tensor x) -> Tensor")
            library.impl(name, lambda x, result=result: result.clone(), "CPU")
            rushlight.library.register_fake(f"tests_rules::{name}", rushlight.empty_like, lib=library)
            operator = getattr(rushlight.ops.tests_rules, name)
            program = rushlight.compile(lambda x, operator=operator: operator(x) + 1, fullgraph=True)
            with pytest.raises(RuntimeError, match="promised"):
                program(rushlight.ones(2))


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (lambda x: x.reindex(x.shape, lambda index: [index[0] + 1]), "may be anything from 1 to 3"),
        (lambda x: x.reindex(x.shape, lambda index: [index[0] - 1]), "may be anything from -1 to 1"),
        (lambda x: x.reindex(x.shape, lambda index: [0, *index]), "at 2 indices"),
        (lambda x: x.reindex((4,), lambda index: [index[0] % 3]), "promised float32"),
        (lambda x: x.cast(rushlight.float64), "promised float32"),
        (lambda x: (x, x), "returned 2 results"),
        (lambda x: 1.0, "not a Lowered"),
    ],
)
def test_lowerings_are_checked(rule: Any, message: str) -> None:
    with scoped() as library:
        same = identity(library, "same")
        rushlight.library.register_lowering(same, rule, lib=library)
        with pytest.raises(RuntimeError, match=message):
            rushlight.compile(lambda x: same(x * 2) + 1, fullgraph=True)(rushlight.ones(3))


def test_a_new_lowering_is_not_taken_for_the_last_one() -> None:
    """The program cache knows a graph by the names of its operators."""
    for factor in (2.0, 3.0):
        with scoped() as library:
            same = identity(library, "scaled")
            rushlight.library.register_lowering(same, scaling(factor), lib=library)
            program = rushlight.compile(lambda x, same=same: same(x) + 1, fullgraph=True)
            assert program(rushlight.ones(2)).tolist() == [factor + 1] * 2


def scaling(factor: float) -> Any:
    def rule(x: Any, low: Any) -> Any:
        return x.map(lambda ops, a, b: ops.mul(a, b), x.dtype, low.full(x.shape, factor, x.dtype))

    return rule


def test_registrations_that_are_refused() -> None:
    refused = rushlight.core.errors.RegistrationError
    api = rushlight.library
    with scoped() as library:
        same = identity(library, "strict")
        api.register_lowering(same, lambda x: x, lib=library)
        library.define("both(Tensor(a!) x) -> Tensor")
        library.define("made(Tensor x) -> Tensor")
        library.impl("made", lambda x: x + 1)
        for error, call in (
            (refused, lambda: api.register_lowering(same, lambda x: x)),
            (refused, lambda: api.register_lowering(same, lambda y: y)),
            (refused, lambda: api.register_derivative(same, y=lambda grad: grad)),
            (refused, lambda: api.register_derivative(same, x=lambda grad, missing: grad)),
            (refused, lambda: api.register_derivative("aten::sin", self=lambda grad: grad)),
            (RuntimeError, lambda: api.register_derivative("tests_rules::nothing", x=lambda grad: grad)),
            (RuntimeError, lambda: api.register_lowering("tests_rules::both", lambda x: x)),
            (RuntimeError, lambda: api.register_decomposition("tests_rules::made", lambda x: x)),
        ):
            with pytest.raises(error):
                call()
        api.register_derivative(same, x=lambda grad: grad, lib=library)
        with pytest.raises(refused):
            api.register_autograd("tests_rules::strict", lambda ctx, grad: grad)


def test_own_kernels_stay_when_those_in_force_change() -> None:
    """Operators forgot the functions that alone run them when the default dtype, or the mode of eager kernels,
    changed."""
    own, aten = rushlight.library.Library("kept", "DEF"), rushlight.library.Library("aten", "IMPL")
    own.define("twice(Tensor x) -> Tensor")
    own.impl("twice", lambda x: x * 2, "CPU")
    aten.impl("sin", lambda x: x + 100, "CPU")

    @rushlight.library.custom_op("kept::thrice", mutates_args=())
    def thrice(x: rushlight.Tensor) -> rushlight.Tensor:
        return x * 3

    def results() -> list[float]:
        x = rushlight.ones(())
        return [f(x).item() for f in (rushlight.ops.kept.twice, thrice, rushlight.sin)]

    try:
        assert results() == [2, 3, 101]
        rushlight.set_default_dtype(rushlight.float64)
        rushlight.set_default_dtype(rushlight.float32)
        assert results() == [2, 3, 101]
        for mode in ("native", "reference"):
            with rushlight.eager.use(mode):
                assert results() == [2, 3, 101]
    finally:
        rushlight.set_default_dtype(rushlight.float32)
        aten._destroy()
        own._destroy()
    assert rushlight.sin(rushlight.zeros(())).item() == 0
