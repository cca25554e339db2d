"""Defects of autograd, found beside PyTorch; the number is that of the finding."""

from __future__ import annotations

import math

import pytest
import torch

import rushlight as rl

from .both import leaf, same

# 2: out= in forward mode.


def test_d2_out_in_forward_mode_is_refused():
    forward = rl.autograd.forward_ad
    with forward.dual_level():
        dual = forward.make_dual(rl.ones(2), rl.ones(2))
        target = rl.zeros(2)
        with pytest.raises(NotImplementedError, match="out= function"):
            rl.add(dual, 1, out=target)
        with pytest.raises(NotImplementedError, match="out= function"):
            rl.add(target, 1, out=dual)
        assert target.tolist() == [0, 0]


# 15: what one example of a batch does not allow.


@pytest.mark.parametrize(
    "name", ["inv", "det", "slogdet", "cholesky", "qr", "svd", "eigh", "eig", "matrix_exp"]
)
def test_d15_vmap_takes_no_batch_dimension_for_that_of_a_matrix(name):
    for m in (torch, rl):
        with pytest.raises(RuntimeError, match=r"dimensions|matrix|matrices"):
            m.func.vmap(getattr(m.linalg, name))(m.eye(3))


# 20: functions of 0-dimensional inputs.


def test_d20_jacobian_and_hessian_of_numbers():
    def scenario(m):
        x = m.tensor(3.0, dtype=m.float64)
        jacobian, hessian = m.autograd.functional.jacobian, m.autograd.functional.hessian
        return [
            jacobian(lambda t: t * t, x),
            jacobian(lambda t: t * t, x, vectorize=True),
            hessian(lambda t: t**3, x),
            hessian(lambda t: t**3, x, vectorize=True),
            jacobian(lambda t: t * t, x, vectorize=True, strategy="forward-mode"),
        ]

    same(scenario)


# 23: a backward function that runs a backward pass, and so on.


def test_d23_backward_nested_2000_deep():
    class Deep(rl.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            with rl.enable_grad():
                ctx.x = x.detach().requires_grad_() - 1
            return ctx.x.detach()

        @staticmethod
        def backward(ctx, grad):
            if ctx.x < 0:
                return grad
            with rl.enable_grad():
                Deep.apply(ctx.x).sum().backward()
            return grad

    v = rl.tensor(2000.0, requires_grad=True)
    Deep.apply(v).sum().backward()
    assert v.grad.item() == 1


# Forward mode at ties and NaN.


def test_forward_mode_of_clamp_at_a_tie_and_of_extremes_of_nan():
    def scenario(m):
        forward = m.autograd.forward_ad
        with forward.dual_level():
            x = forward.make_dual(m.tensor([1.0, 2, 3]), m.tensor([10.0, 20, 30]))
            bound = forward.make_dual(m.tensor([1.0, 2.5, 0]), m.tensor([1.0, 2, 3]))
            found = [
                *forward.unpack_dual(m.clamp(x, min=bound)).tangent,
                *forward.unpack_dual(m.clamp(x, max=bound)).tangent,
                *forward.unpack_dual(m.maximum(x, bound)).tangent,
            ]
            y = forward.make_dual(m.tensor([1.0, math.nan, math.nan]), m.tensor([10.0, 20, 30]))
            return found + [
                forward.unpack_dual(getattr(y, name)()).tangent for name in ("max", "min", "median", "amax")
            ]

    same(scenario)


# What users see of the graph.


def test_nodes_are_named_and_show_what_they_save():
    for m in (torch, rl):
        x = leaf(m, [1.0, 2.0])
        y = x * x
        assert type((x + 1).grad_fn).__name__ == "AddBackward0"
        assert len((x * 2).grad_fn.next_functions) == 2
        assert y.grad_fn._saved_self is x
        assert (x * m.ones(2, dtype=m.float64)).grad_fn._saved_self is None
        assert type(y.grad_fn.next_functions[0][0]).__name__ == "AccumulateGrad"
        assert isinstance(y.grad_fn, m.autograd.graph.Node)
        y.grad_fn._raw_saved_self.register_hooks(lambda t: 2 * t, lambda t: t)
        y.sum().backward()
        assert x.grad.tolist() == [3, 6]
        with pytest.raises(RuntimeError, match="after they have already been freed"):
            _ = y.grad_fn._saved_self


def test_contexts_of_custom_functions_may_have_any_attribute():
    class Twice(rl.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            for name in ("meta", "next", "hooks", "sequence", "trace", "parent", "keep", "release", "saved"):
                setattr(ctx, name, name)
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            assert ctx.meta == "meta"
            return grad * 2

    x = leaf(rl, [1.0])
    Twice.apply(x).backward()
    assert x.grad.tolist() == [2]


# 19: checkpoints under autocast, and policies.


@pytest.mark.parametrize("reentrant", [False, True])
def test_d19_checkpoint_under_autocast(reentrant):
    def scenario(m):
        def part(x, w):
            return m.mm(m.mm(x, w), w).sin()

        x, w = (leaf(m, [[0.5, 0.25], [1.0, -0.5]], "float32") for _ in range(2))
        with m.autocast("cpu", dtype=m.bfloat16):
            y = m.utils.checkpoint.checkpoint(part, x, w, use_reentrant=reentrant)
        y.float().sum().backward()
        return [x.grad, w.grad, m.tensor([float(y.dtype == m.bfloat16)] * 2).expand(2, 2)]

    import torch.utils.checkpoint  # noqa: F401

    same(scenario, rtol=1e-2, atol=1e-2)


def test_d19_selective_checkpoints_keep_what_the_policy_says():
    from rushlight.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

    asked = []

    def policy(ctx, op, *args, **kwargs):
        asked.append((ctx.is_recompute, op.name()))
        return CheckpointPolicy.MUST_SAVE if op.name() == "aten::exp" else CheckpointPolicy.PREFER_RECOMPUTE

    x = leaf(rl, [0.5, 1.0])
    part = lambda t: t.exp().sin().cos()  # noqa: E731
    contexts = lambda: create_selective_checkpoint_contexts(policy)  # noqa: E731
    y = checkpoint(part, x, use_reentrant=False, context_fn=contexts)
    y.sum().backward(retain_graph=True)
    z = leaf(rl, [0.5, 1.0])
    part(z).sum().backward()
    assert x.grad.tolist() == z.grad.tolist()
    assert (False, "aten::exp") in asked
    assert (True, "aten::exp") in asked
    with pytest.raises(RuntimeError, match="Trying to backward an extra time"):
        y.sum().backward()
    with pytest.raises(ValueError, match="Expected op in `op_list`"):
        create_selective_checkpoint_contexts([2])


# 24: misuse inside of transforms, and what forward mode and inference mode refuse.


def test_d24_transforms_refuse_writes_to_captured_tensors():
    captured = rl.randn(3)
    before = captured.tolist()

    def writes(x):
        captured.copy_(x)
        return (x * captured).sum()

    def writes_a_view(x):
        captured[:2].copy_(x[:2])
        return (x * captured).sum()

    x = rl.ones(3)
    for transform in (rl.func.grad, rl.func.grad_and_value, rl.func.jacrev):
        for function in (writes, writes_a_view):
            with pytest.raises(RuntimeError, match="mutate a captured"):
                transform(function)(x)
    assert captured.tolist() == before

    def writes_its_own(x):
        room = rl.zeros(3)
        room.copy_(x)
        room[0] = x[1]
        return (room * room).sum()

    assert rl.func.grad(writes_its_own)(x).tolist() == [0, 4, 2]


def test_d24_transforms_refuse_to_change_what_is_recorded():
    def requires(x):
        x.requires_grad_()
        return x.sin().sum()

    def retains(x):
        y = x.sin()
        y.retain_grad()
        return y.sum()

    for m in (torch, rl):
        x = m.randn(3)
        for transform in (m.func.grad, m.func.vmap, lambda f, m=m: m.func.vmap(m.func.grad(f))):
            with pytest.raises(RuntimeError, match="requires_grad_"):
                transform(requires)(x)
        with pytest.raises(RuntimeError, match="retain_grad"):
            m.func.grad(retains)(x)
        for name in ("jacobian", "vjp"):
            with pytest.raises(RuntimeError, match=r"autograd\.functional"):
                m.func.grad(lambda t, m=m, name=name: getattr(m.autograd.functional, name)(m.sin, t))(x[0])
    made = rl.func.grad(lambda t: (t * rl.ones(3, requires_grad=True)).sum())(rl.ones(3))
    assert made.tolist() == [1, 1, 1]


@pytest.mark.parametrize("aux", [1, 1.0, "abc"])
def test_d24_what_comes_beside_a_result_is_made_of_tensors(aux):
    for m in (torch, rl):
        x = m.ones(3)
        for call in (
            lambda f, m=m, x=x: m.func.grad(f, has_aux=True)(x),
            lambda f, m=m, x=x: m.func.vjp(f, x, has_aux=True),
            lambda f, m=m, x=x: m.func.jvp(f, (x,), (x,), has_aux=True),
            lambda f, m=m, x=x: m.func.jacrev(f, has_aux=True)(x),
        ):
            with pytest.raises(RuntimeError, match="unsupported type"):
                call(lambda t: (t.sum(), [t, aux]))


def test_d24_complex_jacobians_are_refused():
    for m in (torch, rl):
        for name in ("jacrev", "jacfwd"):
            with pytest.raises(RuntimeError, match=f"{name}: Expected all inputs to be real"):
                getattr(m.func, name)(m.conj)(m.ones(1, dtype=m.complex64))


def test_d24_views_of_inference_tensors():
    for m in (torch, rl):
        with m.inference_mode():
            made = m.ones(1, 2, 3)
        view = made.view(-1)
        assert view.is_inference()
        assert not view._is_view()
        assert view.is_leaf
        with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
            m.mul(m.ones(6), m.ones(6), out=view)
        base = m.ones(2)
        with m.inference_mode():
            of_normal = base.view(2)
        assert not of_normal.is_inference()


def test_d24_custom_functions_must_write_tangents_where_they_write():
    class Doubles(rl.autograd.Function):
        in_place = True

        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def jvp(ctx, tangent):
            return tangent.mul_(2) if Doubles.in_place else tangent * 2

    forward = rl.autograd.forward_ad
    with forward.dual_level():
        dual = forward.make_dual(rl.ones(2), rl.ones(2))
        assert forward.unpack_dual(Doubles.apply(dual.clone())).tangent.tolist() == [2, 2]
        Doubles.in_place = False
        with pytest.raises(RuntimeError, match="modify the corresponding gradient inplace"):
            Doubles.apply(dual.clone())
        with pytest.raises(RuntimeError, match="at the same level"):
            forward.make_dual(rl.ones(2), dual)
