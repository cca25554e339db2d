"""gradcheck and gradgradcheck say what torch's say."""

from __future__ import annotations

import pytest

import rushlight as rl
from rushlight.autograd import GradcheckError, gradcheck, gradgradcheck


def inputs(m):
    x = m.tensor([[1.0, 2.0], [3.0, -1.0]], dtype=m.float64, requires_grad=True)
    y = m.tensor([0.5, 2.0], dtype=m.float64, requires_grad=True)
    return x, y


def wrong(m, where):
    class Wrong(m.autograd.Function):
        @staticmethod
        def forward(x):
            return x * x

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)

        @staticmethod
        def backward(ctx, g):
            return ctx.saved_tensors[0] * g * (3 if where == "backward" else 2)

        @staticmethod
        def jvp(ctx, t):
            return ctx.saved_for_forward[0] * t * (3 if where == "jvp" else 2)

    return Wrong.apply


OPTIONS = [
    {},
    {"fast_mode": True},
    {"check_forward_ad": True},
    {"check_forward_ad": True, "fast_mode": True},
    {"check_batched_grad": True},
    {"check_forward_ad": True, "check_backward_ad": False},
    {"check_grad_dtypes": True},
    {"check_forward_ad": True, "check_batched_forward_grad": True},
]


@pytest.mark.parametrize("options", OPTIONS)
def test_right_derivatives_pass(same, options):
    same(lambda m: m.autograd.gradcheck(lambda a, b: ((a * b).sin(), a.exp().sum()), inputs(m), **options))


@pytest.mark.parametrize("options", [{}, {"fast_mode": True}])
@pytest.mark.parametrize("where", ["backward", "jvp"])
def test_wrong_derivatives_fail(same, where, options):
    def scenario(m):
        both = {"check_forward_ad": True, **options}
        return m.autograd.gradcheck(wrong(m, where), inputs(m)[:1], raise_exception=False, **both)

    same(scenario)


def test_it_raises():
    with pytest.raises(GradcheckError, match="Jacobian mismatch for output 0 with respect to input 0"):
        gradcheck(wrong(rl, "backward"), inputs(rl)[:1])


@pytest.mark.parametrize("fast_mode", [False, True])
def test_complex(same, fast_mode):
    def scenario(m):
        z = m.tensor([1 + 2j, 3 - 1j], requires_grad=True, dtype=m.complex128)
        x = m.tensor([1.0, 2.0], requires_grad=True, dtype=m.float64)
        return m.autograd.gradcheck(
            lambda z, x: (z * z * x, m.view_as_real(z * z.conj())),
            (z, x),
            fast_mode=fast_mode,
            check_forward_ad=True,
        )

    same(scenario)


def test_inputs_are_left_as_they_were():
    x, y = inputs(rl)
    before = x.tolist(), x._version
    gradcheck(lambda a, b: a * b, (x, y))
    gradcheck(lambda a, b: a * b, (x, y), fast_mode=True)
    assert (x.tolist(), x._version) == before


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"fast_mode": True},
        {"check_fwd_over_rev": True},
        {"check_fwd_over_rev": True, "check_rev_over_rev": False, "fast_mode": True},
    ],
)
def test_second_order(options):
    assert gradgradcheck(lambda a, b: ((a * b).sin(), a.exp().sum()), inputs(rl), **options)


def test_second_order_of_a_wrong_double_backward(same):
    def scenario(m):
        class Once(m.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x * x

            @staticmethod
            def backward(ctx, g):
                return 2 * ctx.saved_tensors[0].detach() * g

        return m.autograd.gradgradcheck(Once.apply, inputs(m)[:1], raise_exception=False)

    same(scenario)


@pytest.mark.parametrize("name", ["no input", "expanded", "nothing to check"])
def test_refusals(same, name):
    def scenario(m):
        if name == "no input":
            m.autograd.gradcheck(lambda a: a, (m.ones(2, dtype=m.float64),))
        elif name == "expanded":
            m.autograd.gradcheck(lambda a: a * 2, (m.ones(1, dtype=m.float64).expand(3).requires_grad_(),))
        else:
            m.autograd.gradcheck(lambda a: a, inputs(m)[:1], check_backward_ad=False)

    same(scenario)


def test_single_precision_warns():
    with pytest.warns(UserWarning, match="not a double precision"):
        gradcheck(lambda a: a * 2, (rl.ones(2, requires_grad=True),), eps=1e-2, atol=1e-2)
