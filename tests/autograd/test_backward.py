"""backward, grad, leaves and accumulation, as torch has them."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import rushlight as rl

from .leaves import leaf


def test_chain_and_fan_out(same):
    def scenario(m):
        x, y = leaf(m, 1.0, 2.0), leaf(m, 3.0, -1.0)
        z = x * y
        w = z + z * x
        (w * w).sum().backward()
        return x.grad, y.grad

    same(scenario)


def test_gradients_accumulate_in_place(same):
    def scenario(m):
        x = leaf(m, 1.0, 2.0)
        (x * 2).sum().backward()
        first = x.grad
        (x * 3).sum().backward()
        return x.grad, first is x.grad, first

    same(scenario)


def test_leaves_do_not_share_a_gradient():
    x, y = leaf(rl, 1.0, 2.0), leaf(rl, 3.0, 4.0)
    (x + y).sum().backward()
    x.grad.zero_()
    assert y.grad.tolist() == [1.0, 1.0]


def test_the_given_gradient_is_not_kept():
    x, g = leaf(rl, 1.0, 2.0), rl.tensor([1.0, 1.0])
    x.backward(g)
    g.zero_()
    assert x.grad.tolist() == [1.0, 1.0]


def test_broadcast_and_dtype(same):
    def scenario(m):
        x = m.ones(3, 1, dtype=m.float64, requires_grad=True)
        y = m.ones(2, dtype=m.float32, requires_grad=True)
        z = m.tensor(2.0, requires_grad=True)
        (x * y * z).sum().backward()
        return x.grad, y.grad, z.grad

    same(scenario)


def test_complex_result_of_a_real_input(same):
    def scenario(m):
        x = leaf(m, 1.0, 2.0)
        z = x * m.tensor([1 + 2j, 3 - 1j])
        m.autograd.backward(z, m.tensor([1 - 1j, 2 + 1j]))
        return x.grad

    same(scenario)


@pytest.mark.parametrize(
    "name",
    [
        "unused",
        "allow",
        "materialize",
        "contradiction",
        "not scalar",
        "constant",
        "shape",
        "no grad input",
        "empty inputs",
        "complex",
    ],
)
def test_errors_and_options_of_grad(same, name):
    def scenario(m):
        x, y = leaf(m, 1.0, 2.0), leaf(m, 1.0, 2.0)
        out = (x * 2).sum()
        grad = m.autograd.grad
        return {
            "unused": lambda: grad(out, [x, y]),
            "allow": lambda: grad(out, [x, y], allow_unused=True),
            "materialize": lambda: grad(out, [x, y], materialize_grads=True),
            "contradiction": lambda: grad(out, [x, y], materialize_grads=True, allow_unused=False),
            "not scalar": lambda: (x * 2).backward(),
            "constant": lambda: m.ones(2).sum().backward(),
            "shape": lambda: out.backward(m.ones(3)),
            "no grad input": lambda: grad(out, m.ones(2)),
            "empty inputs": lambda: out.backward(inputs=[]),
            "complex": lambda: (x * 1j).sum().backward(),
        }[name]()

    messages = {
        "unused": "Tensor at index 1 appears to not have been used in the graph",
        "contradiction": "allow_unused",
        "not scalar": "only for scalar outputs",
        "constant": "does not require grad and does not have a grad_fn",
        "shape": "Mismatch in shape",
        "no grad input": "does not require grad",
        "empty inputs": "cannot be empty",
        "complex": "only for real scalar outputs",
    }
    same(scenario, message=messages.get(name))


def test_second_backward_needs_the_graph(same):
    def scenario(m):
        x = leaf(m, 1.0, 2.0)
        y = (x * x).sum()
        y.backward()
        y.backward()

    same(scenario, message="backward through the graph a second time")


def test_second_backward_of_what_saved_nothing(same):
    def scenario(m):
        x = leaf(m, 1.0, 2.0)
        y = (x + x).sum()
        y.backward()
        y.backward()
        return x.grad

    same(scenario)


def test_retain_graph(same):
    def scenario(m):
        x = leaf(m, 1.0, 2.0)
        y = (x * x).sum()
        y.backward(retain_graph=True)
        y.backward()
        return x.grad

    same(scenario)


def test_inputs_of_backward(same):
    def scenario(m):
        x, y = leaf(m, 1.0, 2.0), leaf(m, 3.0, 4.0)
        z = x * y
        z.retain_grad()
        (z * z).sum().backward(inputs=[x])
        return x.grad, y.grad

    same(scenario)


def test_gradient_of_an_intermediate(same):
    def scenario(m):
        x = leaf(m, 1.0, 2.0)
        y = x * 3
        z = (y * y).sum()
        return m.autograd.grad(z, [y, x])

    same(scenario)


def test_double_backward(same):
    def scenario(m):
        x = leaf(m, 1.0, 2.0)
        (g,) = m.autograd.grad((x * x * x).sum(), x, create_graph=True)
        (h,) = m.autograd.grad((g * g).sum(), x, create_graph=True)
        (t,) = m.autograd.grad(h.sum(), x)
        return g, h, t, g.requires_grad, t.requires_grad

    same(scenario)


def test_backward_with_create_graph_keeps_the_history_of_grad(same):
    def scenario(m):
        x = leaf(m, 1.0, 2.0)
        m.autograd.grad
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Using backward")
            (x * x * x).sum().backward(create_graph=True)
        first = x.grad
        x.grad = None
        first.sum().backward()
        return first.requires_grad, x.grad

    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns of a reference cycle
        same(scenario)


def test_batched_gradients(same):
    def scenario(m):
        x = leaf(m, 1.0, 2.0, 3.0)
        y = x * x
        return m.autograd.grad(y, x, m.eye(3), is_grads_batched=True)

    same(scenario)


@pytest.mark.parametrize("name", ["dtype", "size", "type", "self", "integer", "non-leaf flag"])
def test_errors_of_attributes(same, name):
    def scenario(m):
        x = leaf(m, 1.0, 2.0)
        if name == "dtype":
            x.grad = m.ones(2, dtype=m.float64)
        elif name == "size":
            x.grad = m.ones(3)
        elif name == "type":
            x.grad = 3
        elif name == "self":
            x.grad = x
        elif name == "integer":
            m.tensor([1]).requires_grad_()
        else:
            (x * 2).requires_grad_(False)

    messages = {
        "dtype": "gradient with dtype",
        "size": "gradient of size",
        "type": "Tensor or None",
        "self": "own grad",
        "integer": "only Tensors of floating point",
        "non-leaf flag": "flags of leaf variables",
    }
    same(scenario, message=messages[name])


def test_grad_of_a_non_leaf_warns():
    y = leaf(rl, 1.0) * 2
    with pytest.warns(UserWarning, match="not a leaf"):
        assert y.grad is None


def test_a_very_long_chain():
    x = rl.ones(2, requires_grad=True)
    y = x
    for _ in range(100_000):
        y = y + x
    y.sum().backward()
    assert x.grad.tolist() == [100_001.0] * 2
    del y


def test_accumulation_order_is_fixed():
    values = np.random.default_rng(0).standard_normal((50, 1000)).astype(np.float32)

    def once():
        x = rl.ones(1000, requires_grad=True)
        total = x * 0
        for row in values:
            total = total + x * rl.tensor(row)
        total.sum().backward()
        return x.grad.numpy()

    first = once()
    assert all(np.array_equal(first, once()) for _ in range(3))


def test_backward_from_several_threads():
    x = rl.ones(100, requires_grad=True)
    w = rl.full((100,), 2.0, requires_grad=True)
    shared = (x * w).sigmoid()
    errors: list[BaseException] = []

    def work():
        try:
            for _ in range(20):
                (x * w + x).sum().backward()
                rl.autograd.grad(shared.sum(), [x, w], retain_graph=True)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert x.grad.tolist() == [3.0 * 80] * 100
    assert w.grad.tolist() == [80.0] * 100


def test_modes_are_of_the_thread():
    seen = []
    with rl.no_grad():
        thread = threading.Thread(target=lambda: seen.append(rl.is_grad_enabled()))
        thread.start()
        thread.join()
    assert seen == [True]


def test_the_order_of_indices_in_a_sum_of_sparse_gradients(same):
    def scenario(m):
        class Given(m.autograd.Function):
            @staticmethod
            def forward(ctx, x, gradient):
                ctx.gradient = gradient
                return x.clone()

            @staticmethod
            def backward(ctx, g):
                return ctx.gradient, None

        x = m.ones(4, requires_grad=True)
        first = m.sparse_coo_tensor([[1, 0, 2]], [1.0, 2.0, 3.0], (4,), check_invariants=True)
        second = m.sparse_coo_tensor([[3, 1, 1]], [4.0, 5.0, 6.0], (4,), check_invariants=True)
        (Given.apply(x, first) + Given.apply(x, second)).sum().backward()
        return x.grad._indices().tolist(), x.grad._values().tolist()

    same(scenario)


@pytest.mark.parametrize("of", [(), (3,), (2, 3)])
@pytest.mark.parametrize("at", [(), (1,), (2,), (2, 2)])
def test_sparse_gradients_of_gather(same, of, at):
    def scenario(m):
        x = m.ones(of, requires_grad=True)
        result = m.gather(x, 0, m.zeros(at, dtype=m.int64), sparse_grad=True)
        result.backward(m.ones_like(result))
        return x.grad.to_dense(), x.grad._values(), tuple(x.grad._indices().shape)

    same(scenario)
