"""autograd.Function: context, dirty and non-differentiable outputs, views, once_differentiable, jvp, vmap"""

from __future__ import annotations

import pytest

import rushlight as rl
import rushlight.func

from .leaves import leaf


def square(m):
    class Square(m.autograd.Function):
        @staticmethod
        def forward(ctx, x, factor):
            ctx.save_for_backward(x)
            ctx.factor = factor
            return x * x * factor

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return 2 * x * grad * ctx.factor, None

    return Square


def modern(m, rule=False):
    class Modern(m.autograd.Function):
        generate_vmap_rule = rule

        @staticmethod
        def forward(x, y):
            return x * x * y, x + 1

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)

        @staticmethod
        def backward(ctx, first, second):
            x, y = ctx.saved_tensors
            return 2 * x * y * first + second, x * x * first

        @staticmethod
        def jvp(ctx, x_t, y_t):
            x, y = ctx.saved_for_forward
            return 2 * x * y * x_t + x * x * y_t, x_t

    return Modern


def test_first_and_second_derivatives(same):
    def scenario(m):
        x = leaf(m, 1.0, 2.0)
        y = square(m).apply(x, 3.0)
        (g,) = m.autograd.grad(y.sum(), x, create_graph=True)
        (h,) = m.autograd.grad(g.sum(), x)
        return y, g, h, y.grad_fn.name(), type(y.grad_fn).__name__, y.grad_fn.needs_input_grad

    same(scenario)


def test_no_recording_inside_forward(same):
    def scenario(m):
        seen = []

        class F(m.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                seen.append((m.is_grad_enabled(), (x * 2).requires_grad, x.requires_grad))
                return x.clone()

            @staticmethod
            def backward(ctx, g):
                seen.append(m.is_grad_enabled())
                return g

        F.apply(leaf(m, 1.0)).sum().backward()
        return seen

    same(scenario)


def test_setup_context_and_undefined_gradients(same):
    def scenario(m):
        x, y = leaf(m, 1.0, 2.0), leaf(m, 3.0, 4.0)
        first, second = modern(m).apply(x, y)
        return m.autograd.grad(first.sum(), [x, y], retain_graph=True), m.autograd.grad(second.sum(), [x, y])

    same(scenario)


def test_unmaterialised_gradients(same):
    def scenario(m):
        seen = []

        class F(m.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.set_materialize_grads(False)
                return x * 1, x * 2

            @staticmethod
            def backward(ctx, a, b):
                seen.append((a is None, b is None))
                return b

        x = leaf(m, 1.0)
        F.apply(x)[1].sum().backward()
        return seen, x.grad

    same(scenario)


def test_dirty(same):
    def scenario(m, view):
        class Double(m.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.mark_dirty(x)
                return x.mul_(2)

            @staticmethod
            def backward(ctx, g):
                return g * 2

        x = leaf(m, 1.0, 2.0)
        y = x * 3
        target = y[:1] if view else y
        z = Double.apply(target)
        y.sum().backward()
        return z is target, y._version, y, x.grad

    same(scenario, False)
    same(scenario, True)


@pytest.mark.parametrize(
    "name",
    [
        "dirty leaf",
        "dirty not returned",
        "dirty view with two outputs",
        "write to a returned view",
        "write to a returned input",
        "too many gradients",
        "too few gradients",
        "gradient of a number",
        "twice",
        "keywords",
        "no backward",
        "instance",
    ],
)
def test_refusals(same, name):
    def scenario(m):
        class F(m.autograd.Function):
            @staticmethod
            def forward(ctx, x, other=None):
                if name.startswith("dirty"):
                    ctx.mark_dirty(x)
                    x.mul_(2)
                    if name == "dirty not returned":
                        return x.clone()
                    return (x, x.clone()) if "two" in name else x
                if name == "write to a returned view":
                    return x[:1]
                return x if name == "write to a returned input" else x * 2

        if name != "no backward":

            def backward(ctx, *grads):
                return {
                    "too many gradients": (grads[0], None, grads[0]),
                    "too few gradients": (grads[0],),
                    "gradient of a number": (grads[0], grads[0]),
                }.get(name, (grads[0] * 2, None))

            F.backward = staticmethod(
                m.autograd.function.once_differentiable(backward) if name == "twice" else backward
            )
        x = leaf(m, 1.0, 2.0)
        if name == "dirty leaf":
            F.apply(x)
        elif name.startswith("dirty"):
            F.apply((x * 1)[:1] if "view" in name else x * 1)
        elif name.startswith("write"):
            F.apply(x * 1).mul_(2)
        elif name == "keywords":
            F.apply(x, other=3)
        elif name == "instance":
            F()(x)
        elif name == "twice":
            y = F.apply(x, 3.0)
            (g,) = m.autograd.grad((y * y).sum(), x, create_graph=True)
            g.sum().backward()
        else:
            F.apply(x, 3.0).sum().backward()

    messages = {
        "dirty leaf": "a leaf Variable that requires grad",
        "dirty not returned": "were not returned as output",
        "dirty view with two outputs": "cannot return more than one Tensor",
        "write to a returned view": "created inside a custom Function",
        "write to a returned input": "created inside a custom Function",
        "too many gradients": "incorrect number of gradients",
        "too few gradients": "incorrect number of gradients",
        "gradient of a number": "different than None",
        "twice": "marked with @once_differentiable",
    }
    same(scenario, message=messages.get(name))


def test_non_differentiable_outputs(same):
    def scenario(m):
        class F(m.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                rounded = x.round() if hasattr(x, "round") else x
                index = x > 1
                ctx.mark_non_differentiable(rounded)
                return x * 2, rounded, index

            @staticmethod
            def backward(ctx, g, *others):
                return g * 2

        x = leaf(m, 1.0, 2.0)
        a, b, c = F.apply(x)
        a.sum().backward()
        return [t.requires_grad for t in (a, b, c)], x.grad

    same(scenario)


def test_saved_input_is_version_checked(same):
    def scenario(m):
        x = leaf(m, 1.0, 2.0)
        y = x * 1
        z = square(m).apply(y, 2.0)
        y.zero_()
        z.sum().backward()

    same(scenario, message="modified by an inplace operation")


def test_saved_tensors_are_freed(same):
    def scenario(m):
        x = leaf(m, 1.0)
        y = square(m).apply(x, 2.0)
        y.sum().backward()
        return y.grad_fn.saved_tensors

    same(scenario, message="a second time")


def test_saved_output(same):
    def scenario(m):
        class Exp(m.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                result = x.exp()
                ctx.save_for_backward(result)
                return result

            @staticmethod
            def backward(ctx, g):
                (result,) = ctx.saved_tensors
                return g * result

        x = leaf(m, 0.5, 1.0)
        (g,) = m.autograd.grad(Exp.apply(x).sum(), x, create_graph=True)
        return g, m.autograd.grad(g.sum(), x)

    same(scenario)


def test_forward_mode(same):
    def scenario(m):
        fwd = m.autograd.forward_ad
        with fwd.dual_level():
            x = fwd.make_dual(m.tensor([1.0, 2.0]), m.tensor([1.0, 0.5]))
            y = m.tensor([3.0, 4.0])
            return [fwd.unpack_dual(t).tangent for t in modern(m).apply(x, y)]

    same(scenario)


def test_func_transforms(same):
    def scenario(m):
        f = modern(m)
        x, y = m.tensor([1.0, 2.0]), m.tensor([3.0, 4.0])
        one = m.func.grad(lambda x, y: f.apply(x, y)[0].sum())(x, y)
        two = m.func.grad(lambda x, y: m.func.grad(lambda a: f.apply(a, y)[0].sum())(x).sum())(x, y)
        return one, two, m.func.jvp(lambda x: f.apply(x, y)[0], (x,), (y,))

    same(scenario)


@pytest.mark.parametrize("in_dims", [(0, None), (None, 0), (0, 0), (1, 0)])
def test_generated_vmap_rule(same, in_dims):
    def scenario(m):
        f = modern(m, rule=True)
        x = m.arange(1.0, 5.0).reshape(2, 2) if in_dims[0] is not None else m.tensor([1.0, 2.0])
        y = m.arange(2.0, 6.0).reshape(2, 2) if in_dims[1] is not None else m.tensor([3.0, 4.0])
        x.requires_grad_()
        y.requires_grad_()
        out = m.func.vmap(lambda a, b: f.apply(a, b)[0], in_dims=in_dims)(x, y)
        per_sample = m.func.vmap(m.func.grad(lambda a, b: f.apply(a, b)[0].sum()), in_dims=in_dims)(x, y)
        return out, per_sample, m.autograd.grad(out.sum(), [x, y])

    same(scenario)


def test_vmap_method(same):
    def scenario(m):
        class F(m.autograd.Function):
            @staticmethod
            def forward(x):
                return x * x

            @staticmethod
            def setup_context(ctx, inputs, output):
                ctx.save_for_backward(inputs[0])

            @staticmethod
            def backward(ctx, g):
                return 2 * ctx.saved_tensors[0] * g

            @staticmethod
            def vmap(info, in_dims, x):
                return F.apply(x) * 1, in_dims[0]

        x = m.arange(6.0).reshape(2, 3).requires_grad_()
        y = m.func.vmap(F.apply, in_dims=1)(x)
        return y, m.autograd.grad(y.sum(), x)

    same(scenario)


@pytest.mark.parametrize("style", ["old", "no rule"])
def test_vmap_refusals(same, style):
    def scenario(m):
        f = square(m) if style == "old" else modern(m)
        m.func.vmap(lambda x: f.apply(x, x))(m.ones(2, 2))

    same(scenario, message="setup_context" if style == "old" else "vmap staticmethod")


def test_grad_fn_is_the_context():
    x = leaf(rl, 2.0)
    y = square(rl).apply(x, 3.0)
    assert y.grad_fn.factor == 3.0
    assert y.grad_fn.saved_tensors[0] is x
