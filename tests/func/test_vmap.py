"""vmap: dimensions, structures, chunks, randomness, in-place writes, refusals."""

from __future__ import annotations

import warnings

import pytest

import rushlight as rl
import rushlight.func
from rushlight.core.registry import REGISTRY


def numbers(m, *shape):
    count = 1
    for size in shape:
        count *= size
    return (m.arange(float(count)) * 0.7 - 2).reshape(shape)


SCENARIOS = {
    "in and out dims": lambda m, v: v(lambda a, b: a * b, in_dims=(0, 1), out_dims=1)(
        numbers(m, 5, 3), numbers(m, 3, 5)
    ),
    "negative dims": lambda m, v: v(lambda a: a * 2, in_dims=-1, out_dims=-2)(numbers(m, 2, 3, 5)),
    "unmapped input": lambda m, v: v(lambda a, b: a + b, in_dims=(0, None))(numbers(m, 5, 3), numbers(m, 3)),
    "unmapped output": lambda m, v: v(lambda a: (a, m.ones(2)), out_dims=(0, None))(numbers(m, 5)),
    "constant output": lambda m, v: v(lambda a: m.ones(2))(numbers(m, 5)),
    "trees": lambda m, v: v(lambda p, c: {"x": p["a"] + c[0], "y": [c[1]]}, in_dims=({"a": 0}, 1))(
        {"a": numbers(m, 5, 3)}, (numbers(m, 3, 5), numbers(m, 2, 5))
    ),
    "keywords are not mapped": lambda m, v: v(lambda a, k: a * k)(numbers(m, 5), k=numbers(m, 3)),
    "nested": lambda m, v: v(v(lambda a, b: a * b, in_dims=(0, None)), in_dims=(None, 0))(
        numbers(m, 3), numbers(m, 4)
    ),
    "nested deeper": lambda m, v: v(v(v(lambda a: a.sum() * a)))(numbers(m, 2, 3, 4, 5)),
    "chunks": lambda m, v: v(lambda a: (a * 2, a.sum()), chunk_size=2)(numbers(m, 5, 3)),
    "broadcast of ranks": lambda m, v: v(lambda a, b: a + b)(numbers(m, 5), numbers(m, 5, 3, 4)),
    "weak 0-d dtype": lambda m, v: v(lambda a, b: a * b)(numbers(m, 5).double(), numbers(m, 5, 3)),
    "weak 0-d integer": lambda m, v: v(lambda a, b: a + b)(m.arange(5), numbers(m, 5, 3).to(m.float16)),
    "matmul": lambda m, v: v(lambda a, b: a @ b, in_dims=(0, None))(numbers(m, 5, 2, 3), numbers(m, 3, 4)),
    "matmul of vectors": lambda m, v: v(lambda a, b: a @ b)(numbers(m, 5, 3), numbers(m, 5, 3)),
    "reduction": lambda m, v: v(
        lambda a: (a.sum(), a.sum(0), a.sum((0, -1)), a.amax(-1), a.mean()), in_dims=1
    )(numbers(m, 3, 5, 4)),
    "reduction of numbers": lambda m, v: v(lambda a: (a.sum(0), a.sum(), a.cumsum(0), a.softmax(0)))(
        numbers(m, 5)
    ),
    "views": lambda m, v: v(
        lambda a: (
            a.t(),
            a[1:],
            a[:, 0],
            a.unsqueeze(-1),
            a.reshape(-1),
            a.permute(1, 0),
            a.expand(2, 3, 4),
            a.flip(0),
        ),
        in_dims=1,
    )(numbers(m, 3, 5, 4)),
    "split": lambda m, v: v(lambda a: tuple(a.split(2, -1)) + tuple(a.unbind(0)))(numbers(m, 5, 3, 4)),
    "index": lambda m, v: v(
        lambda a, i: (a[i], a[:, i], a[i, :, 0], a[m.tensor([0, 2])], a[m.tensor([[1], [0]]), i])
    )(numbers(m, 5, 3, 3, 2), m.tensor([[0, 1], [1, 1], [2, 0], [0, 0], [1, 2]])),
    "index of an unmapped tensor": lambda m, v: v(lambda a, i: a[i], in_dims=(None, 0))(
        numbers(m, 3, 4), m.tensor([[0, 1], [1, 1]])
    ),
    "mask": lambda m, v: v(lambda a: a[m.tensor([True, False, True])])(numbers(m, 5, 3)),
    "gather": lambda m, v: v(lambda a, i: (a.gather(0, i), a.index_select(1, i[0])))(
        numbers(m, 2, 3, 4), m.tensor([[[0, 1, 2, 0]], [[2, 2, 1, 0]]])
    ),
    "setitem": lambda m, v: v(_assigned)(numbers(m, 5, 3), numbers(m, 5)),
    "in place": lambda m, v: v(lambda a, b: (a * 1).mul_(b).add_(1))(numbers(m, 5, 3), numbers(m, 5, 3)),
    "geometry in place": lambda m, v: v(lambda a: (a * 1).t_().unsqueeze_(0))(numbers(m, 5, 3, 2)),
    "data": lambda m, v: v(lambda a: a.data * 2)(numbers(m, 5, 3)),
    "where": lambda m, v: v(lambda a: m.where(a > 0, a, -a))(numbers(m, 5, 3)),
    "cat and stack": lambda m, v: v(lambda a, b: (m.cat([a, b]), m.stack([a, b], -1)), in_dims=(0, None))(
        numbers(m, 5, 3), numbers(m, 3)
    ),
    "sort": lambda m, v: v(lambda a: (a.sort(-1, descending=True), a.topk(2), a.argmax(), a.max(0)))(
        numbers(m, 5, 3).sin()
    ),
    "new tensors": lambda m, v: v(lambda a: (a.new_zeros(2), m.zeros_like(a), a.new_full((2,), 3.0)))(
        numbers(m, 5, 3)
    ),
    "casts": lambda m, v: v(lambda a: (a.to(m.int64), a.double()))(numbers(m, 5, 3)),
    "same random numbers": lambda m, v: v(lambda a: m.rand(3) * 0 + a, randomness="same")(numbers(m, 5, 3)),
}


def _assigned(a, b):
    y = a * 1
    y[0] = b
    y[1:] += b
    return y


@pytest.mark.parametrize("name", SCENARIOS)
def test_as_torch(same, name):
    same(lambda m: SCENARIOS[name](m, m.func.vmap))


REFUSALS = {
    "in_dims type": lambda m, v: v(lambda a: a, in_dims=[0])(numbers(m, 3)),
    "no inputs": lambda m, v: v(lambda: 1)(),
    "structure": lambda m, v: v(lambda a, b: a, in_dims=(0,))(numbers(m, 3), numbers(m, 3)),
    "not an int": lambda m, v: v(lambda a: a, in_dims=("0",))(numbers(m, 3)),
    "not a tensor": lambda m, v: v(lambda a: a)(3.0),
    "out of range": lambda m, v: v(lambda a: a, in_dims=2)(numbers(m, 3)),
    "nothing mapped": lambda m, v: v(lambda a: a, in_dims=(None,))(numbers(m, 3)),
    "sizes": lambda m, v: v(lambda a, b: a)(numbers(m, 3), numbers(m, 4)),
    "output type": lambda m, v: v(lambda a: 3)(numbers(m, 3)),
    "batched output without dim": lambda m, v: v(lambda a: a, out_dims=None)(numbers(m, 3)),
    "out_dims structure": lambda m, v: v(lambda a: (a, a), out_dims=(0, 0, 0))(numbers(m, 3)),
    "out_dims range": lambda m, v: v(lambda a: a, out_dims=3)(numbers(m, 3)),
    "randomness": lambda m, v: v(lambda a: a, randomness="maybe")(numbers(m, 3)),
    "random": lambda m, v: v(lambda a: a + m.rand(3))(numbers(m, 3)),
    "chunk size": lambda m, v: v(lambda a: a, chunk_size=0)(numbers(m, 3)),
    "item": lambda m, v: v(lambda a: a * a.item())(numbers(m, 3)),
    "control flow": lambda m, v: v(lambda a: a if a > 0 else -a)(numbers(m, 3)),
    "dynamic shape": lambda m, v: v(lambda a: a.nonzero())(numbers(m, 3, 4)),
    "write to an unmapped tensor": lambda m, v: v(lambda a: m.zeros(3).add_(a))(numbers(m, 5, 3)),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals(same, name):
    same(lambda m: REFUSALS[name](m, m.func.vmap))


def test_an_empty_batch():
    assert rl.func.vmap(lambda a: a * 2 + a.sum())(rl.zeros(0, 3)).shape == (0, 3)


def test_different_random_numbers():
    rl.manual_seed(0)
    drawn = rl.func.vmap(lambda a: a + rl.rand(4), randomness="different")(rl.zeros(3, 4))
    assert len({tuple(row) for row in drawn.tolist()}) == 3
    drawn = rl.func.vmap(lambda a: a + rl.rand(4), randomness="same")(rl.zeros(3, 4))
    assert len({tuple(row) for row in drawn.tolist()}) == 1
    nested = rl.func.vmap(rl.func.vmap(lambda a: a + rl.rand(()), randomness="different"), randomness="same")(
        rl.zeros(2, 3)
    )
    assert nested[0].tolist() == nested[1].tolist()
    assert len(set(nested[0].tolist())) == 3


def test_scalars_of_integer_products_are_integers(same):
    def scenario(m):
        x = m.arange(24).reshape(2, 3, 4)
        return [
            m.func.vmap(lambda a: m.addmm(a, a, a[:, :3].t() @ a, alpha=2.6, beta=1.9))(x),
            m.func.vmap(lambda a: m.addmv(a[:, 0], a, a[0], alpha=0.6, beta=2.5))(x),
            m.func.vmap(lambda a: m.linspace(a, 7.9, 5, dtype=m.int64))(m.tensor([-3.7, 0.9])),
        ]

    same(scenario)


QUIET = {
    "dropout": lambda m, x: m.nn.functional.dropout(x, training=False),
    "dropout1d": lambda m, x: m.nn.functional.dropout1d(x, training=False),
    "alpha dropout": lambda m, x: m.nn.functional.alpha_dropout(x, training=False),
    "feature alpha dropout": lambda m, x: m.nn.functional.feature_alpha_dropout(x, training=False),
    "nothing dropped": lambda m, x: m.nn.functional.dropout(x, 0.0),
    "module": lambda m, x: m.nn.Dropout(0.5).eval()(x),
}


@pytest.mark.parametrize("name", QUIET)
def test_what_draws_nothing_is_not_random(same, name):
    same(lambda m: m.func.vmap(lambda a: QUIET[name](m, a))(numbers(m, 3, 2, 4, 5)))


def test_what_draws_is_random(same):
    same(lambda m: m.func.vmap(m.nn.functional.dropout)(numbers(m, 3, 2)))  # refused


def test_the_loop_warns_with_the_name():
    op = REGISTRY["cumsum"]
    saved, op.batching = op.batching, None
    try:
        with pytest.warns(UserWarning, match="cumsum has no batching rule"):
            result = rl.func.vmap(lambda a: a.cumsum(0))(numbers(rl, 3, 4))
    finally:
        op.batching = saved
    assert result.tolist() == numbers(rl, 3, 4).cumsum(1).tolist()


def test_batched_tensors_can_be_printed():
    shown = []
    rl.func.vmap(lambda a: (shown.append(repr(a)), a)[1])(rl.zeros(2, 3))
    assert shown[0].startswith("BatchedTensor(lvl=")
    assert "bdim=0" in shown[0]


def test_writes_reach_the_caller(same):
    def scenario(m):
        x = numbers(m, 5, 3)
        m.func.vmap(lambda a: a.mul_(2))(x)
        return x

    same(scenario)


def test_gradients_flow_through(same):
    def scenario(m):
        x, w = numbers(m, 5, 3).requires_grad_(), numbers(m, 3, 2).requires_grad_()
        y = m.func.vmap(lambda a: (a @ w).sigmoid())(x)
        return m.autograd.grad(y.sum(), [x, w])

    same(scenario)


def test_vmap_over_autograd(same):
    def scenario(m):
        x = numbers(m, 3).requires_grad_()
        y = x * x
        return m.func.vmap(lambda v: m.autograd.grad(y, x, v, retain_graph=True)[0])(m.eye(3))

    same(scenario)


def test_nothing_is_left_behind():
    with pytest.raises(ZeroDivisionError):
        rl.func.vmap(lambda a: 1 / 0)(rl.zeros(3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert rl.rand(3).shape == (3,)
