"""What a program sees of the transforms around it: levels, misuse that is refused, writes, custom functions."""

from __future__ import annotations

import pytest
import torch

import rushlight as rl
import rushlight._C
import rushlight._functorch
import rushlight._ops
import rushlight.func


def point(m):
    return m.tensor([0.5, -1.0, 2.0])


# Printing and levels.

SHOWN = {
    "grad": lambda f, show: f.grad(show),
    "grad of what is computed": lambda f, show: f.grad(lambda x: show(x * 2)),
    "grad of grad": lambda f, show: f.grad(lambda x: f.grad(show)(x).sum()),
    "vmap": lambda f, show: f.vmap(show),
    "vmap of grad": lambda f, show: f.vmap(f.grad(show)),
    "grad of vmap": lambda f, show: f.grad(lambda x: f.vmap(show)(x).sum()),
    "jvp": lambda f, show: lambda x: f.jvp(show, (x,), (x,)),
    "captured": lambda f, show: lambda x: f.vjp(lambda y: show(x) + y.sum(), x),
}


@pytest.mark.parametrize("name", SHOWN)
@pytest.mark.parametrize("requires_grad", [False, True])
def test_tensors_show_their_levels(name, requires_grad):
    def shown(m):
        texts = []

        def show(x):
            texts.append(repr(x))
            return x.sum()

        SHOWN[name](m.func, show)(point(m).requires_grad_(requires_grad))
        # the tensor itself, or an alias of it that is the input of a level
        return [text.replace("grad_fn=<AliasBackward0>", "requires_grad=True") for text in texts]

    assert shown(rl) == shown(torch)


def test_what_escapes_from_grad_has_ended():
    def levels(m):
        kept = []

        def keep(x):
            kept.extend((x, x.sin(), m._C._functorch.dlevel(x)))
            return kept[1]

        m.func.grad(keep)(m.tensor(2.0))
        return kept[2], [m._C._functorch.dlevel(t) for t in (kept[1], kept[1] * 2, m.ones(2))]

    assert levels(rl) == levels(torch) == (1, [-1, 0, 0])


# Misuse.

REFUSED = {
    "hooks around": lambda m, f, x: _with_hooks(m, lambda: f.grad(lambda v: v.sum())(x)),
    "hooks inside": lambda m, f, x: f.vjp(lambda v: _with_hooks(m, lambda: v * v), x),
    "hooks inside jvp": lambda m, f, x: f.jvp(lambda v: _with_hooks(m, lambda: v * v), (x,), (x,)),
    "hooks around vjp_fn": lambda m, f, x: _with_hooks(m, lambda v=f.vjp(lambda v: v * v, x)[1]: v(x)),
    "complex inputs": lambda m, f, x: f.jacfwd(lambda v: v)(x * 1j),
    "complex outputs": lambda m, f, x: f.jacfwd(lambda v: v * 1j)(x),
    "dual in vmap": lambda m, f, x: f.vmap(lambda v: _dual(m, v))(x),
    "jacobian in vmap": lambda m, f, x: f.vmap(
        lambda v: m.autograd.functional.jacobian(m.sin, v, strategy="forward-mode", vectorize=True)
    )(x),
    "requires_grad_ in jvp": lambda m, f, x: f.jvp(lambda v: v * m.ones(3).requires_grad_(), (x,), (x,)),
    "captured in grad": lambda m, f, x: f.grad(lambda v, y=x.clone(): y.copy_(v).sum())(x),
    "captured in jvp": lambda m, f, x: f.jvp(_writes(x.clone()), (x,), (x,)),
    "captured in jacfwd": lambda m, f, x: f.jacfwd(_writes(x.clone()))(x),
}


def _with_hooks(m, function):
    with m.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        return function()


def _dual(m, x):
    with m.autograd.forward_ad.dual_level():
        return m.autograd.forward_ad.make_dual(x, x)


def _writes(y):
    return lambda x: y.copy_(x)


@pytest.mark.parametrize("name", REFUSED)
def test_misuse(same, name):
    same(lambda m: REFUSED[name](m, m.func, point(m)))


# Writes to arguments.

WRITTEN = {
    "grad": lambda f: f.grad(lambda x, y: y.copy_(x * x).sum()),
    "jacrev": lambda f: f.jacrev(lambda x, y: y.copy_(x * x)),
    "jacfwd": lambda f: f.jacfwd(lambda x, y: y.copy_(x * x)),
    "view": lambda f: f.grad(lambda x, y: y[1:].mul_(x[1:]).sum()),
    "vmap of grad": lambda f: f.vmap(f.grad(lambda x, y: y.mul_(x))),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_other_arguments_may_be_written(same, name):
    def scenario(m):
        x, y = point(m), m.tensor([3.0, 4.0, 5.0])
        found = WRITTEN[name](m.func)(x, y)
        return found, y, y.requires_grad, x

    same(scenario)


def test_keyword_arguments_may_be_written(same):
    def scenario(m):
        y = m.zeros(3)
        return m.func.grad(lambda x, *, y: y.copy_(x * x).sum())(point(m), y=y), y, y.requires_grad

    same(scenario)


def test_vjp_keeps_the_history_that_no_grad_hides(same):
    def scenario(m):
        x = point(m).requires_grad_()
        with m.no_grad():
            out, vjp_fn = m.func.vjp(lambda v: v * v, x)  # torch keeps no history of intermediate values
        (y,) = vjp_fn(m.ones(3))
        return out.requires_grad, y, m.autograd.grad(y.sum(), x)

    same(scenario)


# Custom functions.


def sine(m, **fields):
    methods = {
        "forward": lambda x: x.sin(),
        "setup_context": lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
        "backward": lambda ctx, grad: grad * ctx.saved_tensors[0].cos(),
        "jvp": lambda ctx, tangent: tangent,
    }
    return type("Sine", (m.autograd.Function,), {n: staticmethod(f) for n, f in methods.items()} | fields)


OLDER = {
    "vmap": lambda f, g, x: f.vmap(g)(x),
    "grad": lambda f, g, x: f.grad(lambda v: g(v).sum())(x),
    "jacrev": lambda f, g, x: f.jacrev(g)(x),
    "jvp": lambda f, g, x: f.jvp(g, (x,), (x,)),
    "functional_call": lambda f, g, x: g(x),
}


@pytest.mark.parametrize("name", OLDER)
def test_older_functions_are_refused(same, name):
    def scenario(m):
        class Older(m.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 1

            @staticmethod
            def backward(ctx, grad):
                return grad

            @staticmethod
            def jvp(ctx, tangent):
                return tangent

        return OLDER[name](m.func, Older.apply, point(m))

    same(scenario)


def test_nodes_of_functions_have_another_name_inside():
    def names(m):
        found = []

        def f(x):
            y = sine(m).apply(x)
            found.append(type(y.grad_fn).__name__)
            return y.sum()

        m.func.grad(f)(point(m))
        f(point(m).requires_grad_())
        return found

    assert names(rl) == names(torch) == ["SineGeneratedBackward", "SineBackward"]


def test_vmap_takes_no_keyword_tensors(same):
    def scenario(m):
        function = sine(
            m,
            forward=staticmethod(lambda x, *, y: x * y),
            vmap=staticmethod(lambda info, in_dims, x, *, y: (x * y, 0)),
        )
        return m.func.vmap(function.apply)(point(m), y=point(m))

    same(scenario)


REDUCED = [
    ((2, 3, 4), 0, None, None),
    ((3, 2, 4), 1, None, (3,)),
    ((3, 4), None, 1, None),
    ((3, 4), None, 1, (4,)),
    ((3, 4), None, None, None),
    ((2, 3, 4), 0, 1, None),
    ((3, 4, 5, 2), 3, 0, (5,)),
    ((2, 3, 1, 4), 0, 2, (1, 4)),
]


@pytest.mark.parametrize("case", REDUCED, ids=str)
def test_reductify_leaf(same, case):
    shape, bdim, input_bdim, target = case

    def scenario(m):
        reductify = m._functorch.autograd_function.reductify_leaf
        size = 1
        for n in shape:
            size *= n
        assert reductify(None, None, input_bdim, 2) is None
        return reductify(m.arange(float(size)).reshape(shape), bdim, input_bdim, 2, target)

    same(scenario)


def test_context_with_other_saved_tensors():
    class Double(rl.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            other = rl._functorch.autograd_function.CtxWithSavedTensors(ctx, (1, 2))
            other.note = "kept"
            inner = rl._functorch.autograd_function.CtxWithSavedTensors(other, (3,))
            assert (other.saved_tensors, inner.saved_tensors, ctx.note) == ((1, 2), (3,), "kept")
            assert other.needs_input_grad == ctx.needs_input_grad == (True,)
            ctx._pt_inner_ctx = 1
            with pytest.raises(RuntimeError, match="name collision"):
                rl._functorch.autograd_function.CtxWithSavedTensors(ctx, ())
            return grad * 2

    x = rl.ones(2, requires_grad=True)
    Double.apply(x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


# Dispatch keys and operators of higher order.


def test_excluded_dispatch_keys(same):
    def scenario(m):
        key, keys = m._C.DispatchKey, m._C.DispatchKeySet
        x, found = point(m).requires_grad_(), []
        for name in ("FuncTorchBatched", "Autograd", "AutogradCPU"):
            with m._C._ExcludeDispatchKeyGuard(keys(getattr(key, name))):
                excluded = m._C._dispatch_tls_local_exclude_set()
                found += [
                    m.func.vmap(m.sin)(x),
                    m.func.grad(lambda v: (v * v).sum())(x),
                    (x * 2).requires_grad,
                ]
                found += [excluded.has(getattr(key, name)), excluded.has(key.Meta)]
        return [*found, m._C._dispatch_tls_local_exclude_set().has(key.AutogradCPU), (x * 2).requires_grad]

    same(scenario)


def test_keys_that_cannot_be_excluded_are_refused():
    keys = rl._C.DispatchKeySet(rl._C.DispatchKey.CPU).add(rl._C.DispatchKey.Python)
    assert repr(keys) == "DispatchKeySet(Python, CPU)"
    with pytest.raises(NotImplementedError, match="CPU"):
        rl._C._ExcludeDispatchKeyGuard(keys)


def total(m):
    """A sum with rules for vmap, for reverse mode and for tensors outside of all transforms."""

    class Total(m._ops.HigherOrderOperator):
        def __init__(self):
            super().__init__(f"total_{m.__name__}")

        def __call__(self, *args):
            return super().__call__(*args)

    operator, functorch = Total(), m._C._functorch

    @operator.py_impl(functorch.TransformType.Vmap)
    def batched(interpreter, x):
        if not functorch.is_batchedtensor(x):
            with interpreter.lower():
                return operator(x)
        bdim, value = functorch.maybe_get_bdim(x), functorch.get_unwrapped(x)
        with interpreter.lower():
            parts = [operator(part) for part in value.unbind(bdim)]
            result = m.stack(parts)
        return functorch._add_batch_dim(result, 0, interpreter.level())

    @operator.py_impl(functorch.TransformType.Grad)
    def recorded(interpreter, x):
        level = interpreter.level()

        class Rule(m.autograd.function._SingleLevelFunction):
            @staticmethod
            def forward(ctx, x):
                ctx.shape = x.shape
                inner = functorch._unwrap_for_grad(x, level)
                with m.enable_grad(), interpreter.lower():
                    result = operator(inner)
                return functorch._wrap_for_grad(result, level)

            @staticmethod
            def backward(ctx, grad):
                return grad.expand(ctx.shape) * 3  # not the derivative, so that it is seen to be used

        with m._functorch.utils.enable_single_level_autograd_function():
            return Rule.apply(x)

    operator.py_impl(m._C.DispatchKey.AutogradCPU)(lambda x: x.sum())
    return operator


HIGHER = {
    "outside": lambda f, g, x: g(x),
    "vmap": lambda f, g, x: f.vmap(g)(x),
    "vmap of vmap": lambda f, g, x: f.vmap(f.vmap(g))(x.reshape(3, 1, 1)),
    "vmap of what is captured": lambda f, g, x: f.vmap(lambda y: g(x) * y)(x),
    "grad": lambda f, g, x: f.grad(g)(x),
    "grad of grad": lambda f, g, x: f.grad(lambda v: f.grad(lambda u: g(u.sin()))(v).sum())(x),
    "vmap of grad": lambda f, g, x: f.vmap(f.grad(g))(x.reshape(3, 1)),
    "no rule": lambda f, g, x: f.jvp(g, (x,), (x,)),
}


@pytest.mark.parametrize("name", HIGHER)
def test_operators_of_higher_order(name):
    def found(m):
        try:
            return HIGHER[name](m.func, TOTALS[m], point(m)).flatten().tolist()
        except NotImplementedError:
            return "refused"
        except KeyError:  # torch's own word for a rule that is missing
            return "refused"

    assert found(rl) == pytest.approx(found(torch))


TOTALS = {m: total(m) for m in (rl, torch)}


def test_rules_are_registered_once():
    with pytest.raises(RuntimeError, match="override"):
        TOTALS[rl].py_impl(rl._C.DispatchKey.AutogradCPU)
    with pytest.raises(RuntimeError, match="subclass"):
        rl._ops.HigherOrderOperator("bare")


# Modules of functorch's older way.


def test_functional_init_takes_the_arguments_of_a_model_as_a_tuple():
    make = rl._functorch.make_functional
    weights, fn, names = make.functional_init(rl.nn.Linear, (4,))(2, 3)
    x = rl.ones(4, 5, 2)
    assert names == ("weight", "bias")
    expected = rl.stack([x[i] @ weights[0][i].T + weights[1][i] for i in range(4)])
    rl.testing.assert_close(rl.func.vmap(fn)(weights, (x,)), expected)
    weights, buffers, fn, _, kept = make.functional_init_with_buffers(rl.nn.BatchNorm1d, ())(2)
    assert fn(weights, buffers, (rl.ones(3, 2),)).shape == (3, 2)
    assert kept == ("running_mean", "running_var", "num_batches_tracked")
