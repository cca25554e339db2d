"""Hooks: their order, what they may change, and saved-tensor hooks."""

from __future__ import annotations

import pytest

import rushlight as rl
import rushlight.autograd.graph

from .leaves import leaf


def values(tensor):
    return None if tensor is None else tensor.tolist()


def test_order_of_all_hooks(same):
    def scenario(m):
        log = []
        x = leaf(m, 1.0, 2.0)
        y = x * 2
        z = (y * y).sum()
        y.retain_grad()
        x.register_hook(lambda g: log.append(("leaf", values(g))))
        y.register_hook(lambda g: (log.append(("first", values(g))), g * 2)[1])
        y.register_hook(lambda g: log.append(("second", values(g))))
        y.grad_fn.register_prehook(lambda grads: log.append(("pre", values(grads[0]))))
        y.grad_fn.register_hook(lambda ins, outs: log.append(("post", values(ins[0]), values(outs[0]))))
        x.register_post_accumulate_grad_hook(lambda t: log.append(("accumulated", values(t.grad))))
        z.backward()
        return log, y.grad, x.grad

    same(scenario)


def test_hooks_run_for_grad_too(same):
    def scenario(m):
        log = []
        x = leaf(m, 1.0, 2.0)
        y = x * 3
        y.register_hook(lambda g: (log.append(values(g)), g * 10)[1])
        x.register_hook(lambda g: log.append(values(g)))
        return m.autograd.grad(y.sum(), [x, y]), log

    same(scenario)


def test_node_hooks_may_replace_gradients(same):
    def scenario(m):
        x = leaf(m, 1.0, 2.0)
        y = x * 3
        y.grad_fn.register_prehook(lambda grads: (grads[0] * 2,))
        y.grad_fn.register_hook(lambda ins, outs: (ins[0] + 1, None))
        y.sum().backward()
        return x.grad

    same(scenario)


def test_removed_hooks_do_not_run(same):
    def scenario(m):
        x = leaf(m, 1.0)
        log = []
        handle = x.register_hook(lambda g: log.append(1))
        with x.register_hook(lambda g: log.append(2)):
            (x * 2).sum().backward(retain_graph=True)
        handle.remove()
        (x * 2).sum().backward()
        return log

    same(scenario)


def test_hooks_stay_with_the_value_they_were_registered_on(same):
    def scenario(m):
        x = leaf(m, 1.0, 2.0)
        y = x * 2
        log = []
        y.register_hook(lambda g: log.append(("before", values(g))))
        y.mul_(5)
        y.register_hook(lambda g: log.append(("after", values(g))))
        y.sum().backward()
        return log, x.grad

    same(scenario)


@pytest.mark.parametrize("name", ["size", "type", "constant", "retain constant", "post on non-leaf"])
def test_refusals(same, name):
    def scenario(m):
        x = leaf(m, 1.0, 2.0)
        if name == "size":
            x.register_hook(lambda g: m.ones(3))
            x.sum().backward()
        elif name == "type":
            x.register_hook(lambda g: 3)
            x.sum().backward()
        elif name == "constant":
            m.ones(2).register_hook(lambda g: g)
        elif name == "retain constant":
            m.ones(2).retain_grad()
        else:
            (x * 2).register_post_accumulate_grad_hook(lambda t: None)

    messages = {
        "size": "has changed the size of value",
        "type": "expected Variable, but hook returned 'int'",
        "constant": "doesn't require gradient",
        "retain constant": "requires_grad=False",
        "post on non-leaf": "non-leaf",
    }
    same(scenario, message=messages[name])


def test_post_accumulate_hook_as_an_optimizer(same):
    def scenario(m):
        x = leaf(m, 1.0, 2.0)

        def step(tensor):
            with m.no_grad():
                tensor -= 0.1 * tensor.grad
            tensor.grad = None

        x.register_post_accumulate_grad_hook(step)
        (x * x).sum().backward()
        (x * x).sum().backward()
        return x, x.grad

    same(scenario)


def test_multi_grad_hook(same):
    def scenario(m):
        log = []
        x, y = leaf(m, 1.0), leaf(m, 2.0)
        z = x * y
        w = z * x
        hook = m.autograd.graph.register_multi_grad_hook(
            (x, z), lambda grads: log.append([values(g) for g in grads])
        )
        w.backward(retain_graph=True)
        hook.remove()
        w.backward()
        return log

    same(scenario)


def test_any_grad_hook_runs_once(same):
    def scenario(m):
        log = []
        x, y = leaf(m, 1.0), leaf(m, 2.0)
        z = x * y
        m.autograd.graph.register_multi_grad_hook((x, y), lambda grad: log.append(1), mode="any")
        z.backward(retain_graph=True)
        z.backward()
        return log

    same(scenario)


def test_saved_tensor_hooks(same):
    def scenario(m):
        log = []
        x = leaf(m, 1.0, 2.0)

        def pack(t):
            log.append("pack")
            return t.tolist()

        def unpack(packed):
            log.append("unpack")
            return m.tensor(packed)

        with m.autograd.graph.saved_tensors_hooks(pack, unpack):
            y = x * x
            z = y.exp()
        (z * 2).sum().backward()
        return log, x.grad

    same(scenario)


def test_innermost_hooks_hold(same):
    def scenario(m):
        x = leaf(m, 1.0, 2.0)
        hooks = m.autograd.graph.saved_tensors_hooks
        with hooks(lambda t: t * 2, lambda t: t):
            with hooks(lambda t: t * 10, lambda t: t):
                y = x * x
            z = y * y
        z.sum().backward()
        return x.grad

    same(scenario)


def test_hooks_keep_the_graph_for_double_backward(same):
    def scenario(m):
        x = leaf(m, 1.0, 2.0)
        with m.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
            y = x * 3
            z = (y * y * y).sum()
        (g,) = m.autograd.grad(z, x, create_graph=True)
        return g, m.autograd.grad(g.sum(), x)

    same(scenario)


def test_pack_hooks_must_not_write(same):
    def scenario(m):
        x = leaf(m, 1.0, 2.0)
        y = x * 2
        with m.autograd.graph.saved_tensors_hooks(lambda t: t.mul_(2), lambda t: t):
            (y * y).sum().backward()

    same(scenario, message="modifying its input in place")


def test_disabled_hooks(same):
    def scenario(m):
        with m.autograd.graph.disable_saved_tensors_hooks("not here"):
            with m.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
                pass

    same(scenario, message="not here")


def test_mutation_may_be_allowed(same):
    def scenario(m):
        x = leaf(m, 1.0, 2.0)
        with m.autograd.graph.allow_mutation_on_saved_tensors():
            y = x * 2
            z = y * y
            y.zero_()
            z.sum().backward()
        return x.grad

    same(scenario)


def test_save_on_cpu():
    x = leaf(rl, 1.0, 2.0)
    with rl.autograd.graph.save_on_cpu():
        y = x * x
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]


def test_gradient_edges(same):
    def scenario(m):
        x = leaf(m, 1.0, 2.0)
        y = x * 3
        edge = m.autograd.graph.get_gradient_edge(y)
        z = (y * y).sum()
        return m.autograd.grad(z, edge), edge.output_nr

    same(scenario)
