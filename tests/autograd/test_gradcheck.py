"""gradcheck and gradgradcheck say what torch's say."""

from __future__ import annotations

import importlib
import warnings

import pytest

import rushlight as rl
from rushlight.autograd import GradcheckError, gradcheck, gradgradcheck
from rushlight.autograd.jacobians import get_numerical_jacobian


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


# Rules beside finite differences: what comes of zeros and of nothing.


def forms(m, name):
    """A function whose gradient breaks one rule, and its input."""

    def replaced(of):
        class Replaced(m.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.clone()

            @staticmethod
            def backward(ctx, g):
                return of(g)

        return Replaced.apply

    x = m.ones(2, 2, dtype=m.float64, requires_grad=True)
    if name == "not multiplied":
        return replaced(lambda g: g + 1e-2), x
    if name == "layout":
        return replaced(lambda g: g.to_sparse()), x
    sparse = m.ones((2, 2), dtype=m.float64).to_sparse().requires_grad_()

    def densified(x):
        y = x.clone()
        y.register_hook(lambda g: None if g is None else g.to_dense().to_sparse(1))
        return y.to_dense()

    return densified, sparse


@pytest.mark.parametrize("fast_mode", [False, True])
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("not multiplied", "backward not multiplied by grad_output"),
        ("layout", "grad is incorrect layout"),
        ("sparse_dim", "grad is sparse tensor, but has incorrect sparse_dim"),
    ],
)
def test_gradients_of_zeros(same, name, message, fast_mode):
    def scenario(m):
        function, x = forms(m, name)
        return m.autograd.gradcheck(
            function, (x,), atol=0.1, masked=name == "sparse_dim", fast_mode=fast_mode
        )

    same(scenario, message=message)


@pytest.mark.parametrize("both", [True, False])
@pytest.mark.parametrize(
    "options", [{}, {"check_undefined_grad": False}, {"check_batched_forward_grad": True}], ids=str
)
def test_how_often_forward_mode_runs(same, both, options):
    """Once for each direction, each missing tangent and each batch, of inputs that require grad alone."""

    def scenario(m):
        calls = []

        class Counted(m.autograd.Function):
            @staticmethod
            def forward(ctx, x, y):
                return x.clone(), y.clone()

            @staticmethod
            def jvp(ctx, x, y):
                calls.append(1)
                return x, y

        x = m.ones(1, dtype=m.float64, requires_grad=True)
        y = m.ones(1, dtype=m.float64, requires_grad=both)
        m.autograd.gradcheck(Counted.apply, (x, y), check_forward_ad=True, check_backward_ad=False, **options)
        return len(calls)

    same(scenario)


def test_a_missing_tangent_is_zero(same):
    def scenario(m):
        class Wrong(m.autograd.Function):
            @staticmethod
            def forward(ctx, x, y):
                ctx.set_materialize_grads(False)
                return x + y

            @staticmethod
            def jvp(ctx, x, y):
                return y + 1 if x is None else x if y is None else x + y

        return m.autograd.gradcheck(
            Wrong.apply,
            [m.ones(2, dtype=m.float64, requires_grad=True) for _ in range(2)],
            check_forward_ad=True,
            check_backward_ad=False,
            raise_exception=False,
        )

    same(scenario)


def wrapper(m):
    """A class that holds a tensor and passes operators on to it."""

    class Wrapper(m.Tensor):
        @staticmethod
        def __new__(cls, inner):
            self = m.Tensor._make_wrapper_subclass(
                cls, inner.shape, strides=inner.stride(), dtype=inner.dtype, device=inner.device
            )
            self.inner = inner
            return self

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            def unwrapped(tree):
                if isinstance(tree, (tuple, list)):
                    return type(tree)(unwrapped(item) for item in tree)
                return tree.inner if isinstance(tree, cls) else tree

            result = func(*unwrapped(args), **{k: unwrapped(v) for k, v in (kwargs or {}).items()})
            return cls(result) if isinstance(result, m.Tensor) else result

    return Wrapper


@pytest.mark.parametrize("options", [{}, {"fast_mode": True}], ids=str)
def test_wrapper_subclasses(same, options):
    def scenario(m, dtype="float64"):
        kind = wrapper(m)
        x = kind(m.tensor([1.0, 2.0, -1.0], dtype=getattr(m, dtype))).requires_grad_()
        right = m.autograd.gradcheck(lambda a: a * a, (x,), **options)
        second = m.autograd.gradgradcheck(lambda a: a * a * a, (x,), **options)
        return right, second, x.inner, type(x.data) is kind

    same(scenario)
    assert scenario(rl, "complex128")[:2] == (True, True)
    x = wrapper(rl)(rl.ones(2, dtype=rl.float64)).requires_grad_()
    assert not gradcheck(wrong(rl, "backward"), (x,), raise_exception=False, **options)


def test_jacobians_under_their_old_names(same):
    def scenario(m):
        x, y = inputs(m)
        outputs = x @ y, x.exp()
        module = importlib.import_module(f"{m.__name__}.autograd.gradcheck")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            numeric = module.get_numerical_jacobian(lambda given: given[0] @ given[1], (x, y), eps=1e-6)
            analytic = module.get_analytical_jacobian((x, y), outputs[0])
        return numeric, analytic, [w.category.__name__ for w in caught]

    same(scenario)
    with pytest.warns(FutureWarning), pytest.raises(ValueError, match=r"grad_out to be 1\.0"):
        get_numerical_jacobian(lambda given: given[0], inputs(rl)[:1], grad_out=2.0)


def test_a_random_backward_is_told(same):
    def scenario(m):
        runs = []

        class Unsteady(m.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.clone()

            @staticmethod
            def backward(ctx, g):
                runs.append(1)
                return g * len(runs)

        x = inputs(m)[0]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = importlib.import_module(f"{m.__name__}.autograd.gradcheck")
            return module.get_analytical_jacobian((x,), Unsteady.apply(x))[1:]

    same(scenario)
