"""Operators: what is written where, forms of calls, and sizes near the end of 64 bits."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import rushlight as rl
from rushlight.core.errors import WARNINGS

Program = Callable[[Any], Any]


def plain(value: Any) -> Any:
    if isinstance(value, rl.Tensor | torch.Tensor):
        # as text, since -0.0 is not 0.0
        return str(value.dtype).rpartition(".")[2], tuple(value.shape), str(value.tolist())
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    return value


def outcome(lib: Any, program: Program) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return plain(program(lib))
        except Exception as error:
            return type(error).__name__


def same(program: Program) -> None:
    expected = outcome(torch, program)
    assert outcome(rl, program) == expected


def steps(*sources: str) -> Any:
    """Programs given as statements that leave what is compared in `r`; `m` is the library."""

    def program(source: str) -> Program:
        def run(lib: Any) -> Any:
            names: dict[str, Any] = {"m": lib}
            exec(source, names)
            return names["r"]

        return run

    return pytest.mark.parametrize("program", [pytest.param(program(s), id=s) for s in sources])


# out= into a view: nothing outside of it is written.

OUT = [
    f"x = m.full((2, 4), 9.); m.{call}, out=x.narrow(1, 1, 2)); r = x"
    for call in (
        "arange(0, 4",
        "arange(4",
        "arange(0, 8, 2",
        "linspace(0, 3, 4",
        "logspace(0, 3, 4",
        "range(0, 3",
        "linspace(m.tensor(0.), 3, 4",
        "linspace(m.tensor(0.), m.tensor(3.), 4",
        "logspace(0, m.tensor(3.), 4",
        "eye(2",
        "zeros(2, 2",
        "ones(2, 2",
        "full((2, 2), 3.",
    )
]


@steps(
    *OUT,
    *[source.replace("x.narrow(1, 1, 2)", "x[:, ::2]") for source in OUT],
    "x = m.full((4, 2), 9.).t(); m.arange(8, out=x); r = x",
    "x = m.zeros(1, 1); m.arange(0, 4, out=x.expand(2, 2)); r = x",
    "x = m.zeros(1, 1); m.linspace(0, 3, 4, out=x.expand(2, 2)); r = x",
    "x = m.zeros(2, 4); y = x.narrow(1, 1, 2); m.linspace(0, 3, 5, out=y); r = x, y",
    "x = m.empty(0); m.arange(0, 4, out=x); r = x",
    "x = m.zeros(2); m.linspace(0, 4, 3, dtype=m.float64, out=x); r = x",
)
def test_d17_out_into_a_view(program: Program) -> None:
    same(program)


def test_d17_linspace_resizes_without_a_warning() -> None:
    x = rl.zeros(2)
    rl.linspace(0, 3, 4, out=x)
    assert x.tolist() == [0, 1, 2, 3]
    with pytest.warns(UserWarning, match="resized"):
        rl.arange(5, out=x)


@steps(
    "x = m.zeros(4); m.randperm(4, out=x); r = x.dtype == m.float32, x.sort().values",
    "x = m.empty(3, dtype=m.int8); m.randint(2, 3, (3,), out=x); r = x",
)
def test_d17_the_output_decides_the_dtype_of_a_factory(program: Program) -> None:
    same(program)


# Overlapping operands.


@steps(
    "x = m.arange(6.); x[:] = x[3]; r = x",
    "x = m.arange(6.).view(2, 3); x[:] = x[1]; r = x",
    "x = m.arange(6.).view(2, 3); x[:, 1:] = x[0, 0]; r = x",
    "x = m.arange(6.); x.fill_(x[3]); r = x",
    "x = m.arange(6.).view(2, 3); x.masked_fill_(x > 3, x[0, 1]); r = x",
    "x = m.arange(6.).view(2, 3); x.index_fill_(0, m.tensor([1]), x[0, 1]); r = x",
    "x = m.arange(6.).view(2, 3); x[x > 3] = x[0, 1]; r = x",
    "x = m.tensor([3., 1., 2.]); i = m.empty(3, dtype=m.int64); m.sort(x, out=(x, i)); r = x, i",
    "x = m.tensor([3., 1.]); i = m.empty(2, dtype=m.int64); m.sort(x, stable=True, out=(x, i)); r = x, i",
    "x = m.empty(3, dtype=m.int64); m.bernoulli(m.ones(3), out=x); r = x",
    "x = m.empty(3, dtype=m.bool); m.bernoulli(m.zeros(3), out=x); r = x",
    "x = m.empty(4, dtype=m.int8); m.bernoulli(m.ones(3), out=x); r = x",
)
def test_d20_operands_that_share_memory(program: Program) -> None:
    same(program)


@steps(
    "x = m.arange(6.); x[1:] += x[:-1]; r = x",
    "x = m.arange(6.); x[1:] = x[:-1]; r = x",
    "x = m.arange(6.); x[1:].copy_(x[:-1]); r = x",
    "x = m.arange(6.); x[::2] = x[1::2]; r = x",
    "x = m.arange(6.); x.add_(x[3]); r = x",
    "x = m.arange(6.); x.copy_(x[1]); r = x",
    "x = m.arange(6.); x.addcmul_(x[3], x); r = x",
    "x = m.arange(6.).view(2, 3); x.add_(x[1]); r = x",
    "x = m.arange(9.).view(3, 3); x.add_(x.t()); r = x",
    "x = m.arange(9.).view(3, 3); x.float_power_(x); r = x",
    "x = m.arange(9.).view(3, 3); x.scatter_(0, m.zeros(3, 3, dtype=m.int64), x); r = x",
    "x = m.arange(9.).view(3, 3); x.scatter_add_(0, m.zeros(3, 3, dtype=m.int64), x); r = x",
    "x = m.arange(9.).view(3, 3); x.index_add_(0, m.arange(3), x); r = x",
    "x = m.arange(9.).view(3, 3); x.index_copy_(0, m.arange(3), x); r = x",
    "x = m.arange(9.).view(3, 3); x.index_add_(0, m.tensor([0, 1]), x[1:]); r = x",
    "x = m.arange(9.).view(3, 3); m.index_select(x, 0, m.tensor([2, 1, 0]), out=x); r = x",
    "x = m.tensor([3., 1., 2., 5.]); m.sort(x[1:], out=(x[:-1], m.empty(3, dtype=m.int64))); r = x",
    "x = m.arange(3.).expand(3, 3); x.add_(1); r = x",
    "x = m.arange(3.).expand(3, 3); m.zeros(3, 3, out=x); r = x",
    "x = m.arange(3.).expand(3, 3); m.add(x, 1, out=x); r = x",
)
def test_a13_overlap_is_allowed_and_refused_as_by_torch(program: Program) -> None:
    same(program)


# Forms of calls.


@steps(
    "r = list(reversed(m.arange(3.)))",
    "r = reversed(m.arange(6.).view(2, 3))",
    "r = reversed(m.tensor(1.))",
    "r = m.arange(4.).roll(1, dims=None)",
    "r = m.roll(m.arange(4.).view(2, 2), 1, None)",
    "r = m.add(True, True)",
    "r = m.add(1, 2)",
    "r = m.add(1.5, 2)",
    "r = m.add(1, 2, alpha=3)",
    "r = m.mul(True, False)",
    "r = m.sub(3, 1)",
    "r = m.div(3, 2)",
    "r = m.floor_divide(7, 2)",
    "r = m.maximum(1, 2)",
    "r = m.eq(1, 1)",
    "r = m.ones(2).new(size=(2, 3)).shape",
    "r = m.FloatTensor(2, device='cpu').shape",
    "r = m.FloatTensor(device='cuda')",
    "r = m.FloatTensor(m.ones(2), device='cpu')",
    "r = m.Tensor((2.0, 3.0), device='cuda')",
    "r = m.Tensor(2, 3, device='meta')",
    "r = m.Tensor(2, 3, device='cpu').shape",
    "r = m.Tensor(m.ones(2), device='cpu')",
    "r = m.Tensor([1.0], dtype=m.float64)",
    "r = m.Tensor([1.0], requires_grad=True)",
    "r = m.Tensor(data=[1.0, 2.0])",
    "r = m.Tensor(size=(2, 3)).shape",
    "r = m.Tensor(other=m.ones(2))",
    "r = m.ones(2).new((2.0, 3.0), device='cuda')",
    "r = m.ones(2).new(m.ones(2), device='cpu')",
    "r = m.ones(2).new(2, device='meta')",
    "r = m.ones(2, device='meta').new(2, device='cpu')",
)
def test_d22_forms_of_calls(program: Program) -> None:
    same(program)


@pytest.mark.parametrize("function", ["add", "sub"])
def test_d22_a_number_before_the_tensors(function: str) -> None:
    same(lambda m: getattr(m, function)(m.ones(2), 3, m.ones(2)))
    same(lambda m: getattr(m.ones(2), function)(3, m.ones(2)))
    same(lambda m: getattr(m.ones(2), function + "_")(3, m.ones(2)))


@steps(
    "r = m.addcmul(m.ones(2), 2, m.ones(2), m.ones(2))",
    "r = m.addcdiv(m.ones(2), 2, m.ones(2), m.ones(2))",
    "r = m.ones(2).addcmul_(2, m.ones(2), m.ones(2))",
    "r = m.ones(2, 2).addbmm_(1, m.ones(3, 2, 2), m.ones(3, 2, 2))",
    "r = m.ones(2, 2).addbmm_(2, 3, m.ones(3, 2, 2), m.ones(3, 2, 2))",
    "r = m.addbmm(2, m.ones(2, 2), m.ones(3, 2, 2), m.ones(3, 2, 2))",
    "r = m.addmm(2, m.ones(2, 2), 3, m.ones(2, 2), m.ones(2, 2))",
    "r = m.addmv(2, m.ones(2), 3, m.ones(2, 2), m.ones(2))",
    "r = m.addr(2, m.ones(2, 2), 3, m.ones(2), m.ones(2))",
    "r = m.baddbmm(2, m.ones(3, 2, 2), 3, m.ones(3, 2, 2), m.ones(3, 2, 2))",
    "r = m.addmm(m.ones(2, 2), m.ones(2, 2), m.ones(2, 2), 3)",
    "r = m.lerp(2, m.ones(2), m.ones(2), m.ones(2))",
)
def test_d22_deprecated_positions_of_numbers(program: Program) -> None:
    same(program)


def test_d22_the_deprecated_form_warns_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WARNINGS, "given", set())
    with pytest.warns(UserWarning, match="This overload of addcmul is deprecated"):
        rl.addcmul(rl.ones(2), 2, rl.ones(2), rl.ones(2))
    rl.addcmul(rl.ones(2), 2, rl.ones(2), rl.ones(2))


@pytest.mark.parametrize("kind", [list, tuple])
@pytest.mark.parametrize(
    "call",
    [
        lambda m, a: m._foreach_add_(a, 1),
        lambda m, a: m._foreach_mul_(a, a),
        lambda m, a: m._foreach_exp_(a),
        lambda m, a: m._foreach_copy_(a, [m.zeros(2)]),
    ],
)
def test_foreach_in_place_returns_the_list_it_was_given(kind: Any, call: Any) -> None:
    for _ in range(3):  # the second call takes the short way
        given = kind([rl.ones(2)])
        assert call(rl, given) is given


@steps(
    "r = m.tensor([1.5, 3., -1.5, 0., -0., 1.]) % -1.5",
    "r = m.tensor([1.5, 3., -1.5, 0., -0., 1.]) % 1.5",
    "r = m.remainder(m.tensor([3.]), m.tensor([-1.5]))",
    "r = 2 / (m.tensor([3.]) % -1.5)",
    "r = m.tensor([-3.]).remainder_(1.5)",
    "r = m.remainder(m.tensor(-3.), 1.5)",
    "r = m.tensor([-3.], dtype=m.bfloat16) % 1.5",
)
def test_d11_the_sign_of_a_remainder_of_zero(program: Program) -> None:
    same(program)


# Sizes near the end of 64 bits.


@steps(
    "r = m.tril_indices(3, 2**62, 0)",
    "r = m.tril_indices(3, 3, -2**63)",
    "r = m.triu_indices(3, 3, 2**62)",
    "r = m.tril_indices(2, 2**63)",
    "r = m.tril_indices(4, 3, 1)",
    "r = m.tril_indices(4, 3, -2)",
    "r = m.tril_indices(3, 0)",
    "r = m.triu_indices(0, 3)",
    "r = m.triu_indices(4, 3, -1)",
    "r = m.triu_indices(3, 5, 2)",
    "r = m.conv2d(m.ones(1, 1, 3, 3), m.ones(1, 1, 1, 1), stride=2**62)",
    "r = m.conv2d(m.ones(1, 1, 3, 3), m.ones(1, 1, 2, 2), stride=2**63 - 1)",
    "r = m.conv2d(m.ones(1, 1, 3, 3), m.ones(1, 1, 1, 1), padding=2**62)",
    "r = m.conv1d(m.ones(1, 1, 3), m.ones(1, 1, 2), dilation=2**62)",
    "r = m.conv1d(m.ones(1, 1, 3), m.ones(1, 1, 2), stride=2**63)",
    "r = m.nn.functional.max_pool1d(m.ones(1, 1, 3), 2, stride=2**62)",
    "r = m.nn.functional.unfold(m.ones(1, 1, 3, 3), 2, stride=2**62)",
    "r = m.arange(3)[::2**62]",
    "r = m.arange(3).unfold(0, 2, 2**62)",
    "r = m.tril(m.ones(3, 3), 2**63 - 1)",
    "r = m.triu(m.ones(3, 3), -2**63)",
)
def test_a11_sizes_near_the_end_of_64_bits(program: Program) -> None:
    same(program)


def test_a11_offsets_that_overflow_in_torch_are_answered() -> None:
    assert rl.tril_indices(3, 3, 2**63 - 1).shape == (2, 9)
    assert rl.triu_indices(3, 3, 2**63 - 1).shape == (2, 0)
    assert math.prod(rl.triu_indices(3, 3, -(2**63)).shape) == 18


@pytest.mark.filterwarnings("ignore:.*Received a 0-D input")
@pytest.mark.parametrize("name", ["dropout2d", "dropout3d", "feature_alpha_dropout"])
def test_feature_dropout_of_everything_takes_any_dimensions(name: str) -> None:
    assert getattr(rl.nn.functional, name)(rl.tensor(3.0), 1.0, training=True).item() == 0.0
    with pytest.raises(RuntimeError, match="at least 2 dimensions"):
        rl.feature_dropout(rl.tensor(3.0), 0.5, True)


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        ([1, 2], list[int], True),
        ([1, "a"], list[int], False),
        ([[1], [2]], list[list[int]], True),
        ({"a": 1}, dict[str, int], True),
        ({"a": 1}, dict[str, str], False),
        ((1, "a"), tuple[int, str], True),
        ((1,), tuple[int, str], False),
        (None, int | None, True),
        ([None, 1], list[int | None], True),
        ([1], (list[str], list[int]), True),
        (3, list[int], False),
    ],
)
def test_jit_isinstance_looks_at_elements(value: object, kind: object, expected: bool) -> None:
    assert rl.jit.isinstance(value, kind) is expected
    assert torch.jit.isinstance(value, kind) is expected


def test_compiled_function_without_a_module() -> None:
    made = eval("lambda x: x + 1", {})
    made.__module__ = None
    assert rl.compile(made)(rl.ones(2)).tolist() == [2.0, 2.0]
