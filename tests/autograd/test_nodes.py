"""Nodes of the graph: their names, edges and hooks, what they save, and when it is freed."""

from __future__ import annotations

import gc
import weakref

import pytest

import rushlight as rl
from rushlight.autograd.tape import Node
from rushlight.core.modes import MODES

from .leaves import leaf


def test_names_and_edges(same):
    def scenario(m):
        x = leaf(m, 1.0, 2.0)
        y = (x * 2 + x).sum()
        node = y.grad_fn
        after = node.next_functions[0][0]
        kinds = [None if f is None else f.name().rpartition("::")[2] for f, _ in after.next_functions]
        return (
            node.name(),
            after.name(),
            kinds,
            [number for _, number in after.next_functions],
            x.is_leaf,
            y.is_leaf,
            y.output_nr,
            node.metadata,
        )

    same(scenario)


NAMES = (
    "x + 1",
    "1 + x",
    "x + y",
    "x - 1",
    "1 - x",
    "x - y",
    "x * 2",
    "2 * x",
    "x * y",
    "x / 2",
    "2 / x",
    "x / y",
    "x ** 2",
    "2 ** x",
    "x ** y",
    "-x",
    "x.add(2, alpha=3)",
    "x.sub(2)",
    "x.true_divide(2)",
    "m.rsub(x, 2)",
    "m.rsub(x, y)",
    "x.div(2, rounding_mode='floor')",
    "x.div(y, rounding_mode='trunc')",
    "x.remainder(2)",
    "x.remainder(y)",
    "x.fmod(2)",
    "x.fmod(y)",
    "m.copysign(x, 1.)",
    "m.copysign(x, y)",
    "x.xlogy(2)",
    "x.xlogy(y)",
    "m.xlogy(2, x)",
    "x.lerp(y, 0.5)",
    "x.lerp(y, y)",
    "x.clamp(0, 1)",
    "x.clamp(min=y)",
    "x.clamp_min(0)",
    "x.clamp_max(y)",
    "x.masked_fill(x > 0, 1.)",
    "x.masked_fill(x > 0, y[0, 0])",
    "x.sum()",
    "x.sum(0)",
    "x.mean()",
    "x.mean(0)",
    "x.prod()",
    "x.prod(0)",
    "x.var()",
    "x.var(0)",
    "x.std(0)",
    "x.max()",
    "x.max(0)[0]",
    "x.min()",
    "x.min(0)[0]",
    "x.median()",
    "x.median(0)[0]",
    "x.nanmedian()",
    "x.nanmedian(0)[0]",
    "x.mode(0)[0]",
    "x.amax(0)",
    "x.norm()",
    "x.norm(p=3)",
    "x.logsumexp(0)",
    "x.cumsum(0)",
    "x.cumprod(0)",
    "x.sort()[0]",
    "x.topk(1)[0]",
    "x.kthvalue(1)[0]",
    "x.squeeze()",
    "x.squeeze(0)",
    "x.unsqueeze(0)",
    "x.view(-1)",
    "x.t()",
    "x.transpose(0, 1)",
    "x.permute(1, 0)",
    "x[0]",
    "x[0:1]",
    "x[m.tensor([0])]",
    "x.expand(2, 2)",
    "x.unbind()[0]",
    "x.split(1)[0]",
    "x.diagonal()",
    "x @ y",
    "x.mv(y[0])",
    "x[0].dot(y[0])",
    "m.addmm(x, x, y)",
    "m.cat([x, y])",
    "m.stack([x, y])",
    "x.softmax(0)",
    "x.log_softmax(0)",
    "x.sigmoid()",
    "x.relu()",
    "m.where(x > 0, x, y)",
    "x.gather(0, m.tensor([[0, 0]]))",
    "x.scatter(0, m.tensor([[0, 0]]), y)",
    "x.scatter(0, m.tensor([[0, 0]]), 1.)",
    "x.index_fill(0, m.tensor([0]), 1.)",
    "m.normal(x, y)",
    "m.normal(x, 1.)",
    "m.normal(0., x)",
    "x.clone()",
    "x.to(m.float64)",
    "m.complex(x, y).abs()",
    "x.atan2(y)",
    "x.add_(y)",
    "x.mul_(2)",
    "x.sigmoid_()",
)


@pytest.mark.parametrize("expression", NAMES)
def test_names_of_nodes(same, expression):
    """As PyTorch numbers overloads: a number is recorded as a tensor where PyTorch takes it for one."""

    def scenario(m):
        x, y = ((m.arange(4.0).reshape(2, 2) / 5 + start).requires_grad_() * 1 for start in (0.1, 0.3))
        return eval(expression, {"m": m, "x": x, "y": y}).grad_fn.name()

    same(scenario)


def test_saved_values_are_freed():
    x = rl.ones(3, requires_grad=True)
    y = x * 2
    z = y.sigmoid()
    kept = weakref.ref(z.grad_fn)
    loss = z.sum()
    loss.backward()
    with pytest.raises(RuntimeError, match="second time"):
        z.grad_fn._saved_result
    del z, loss, y
    assert kept() is None


def test_graphs_are_not_cyclic():
    gc.collect()
    gc.disable()
    try:
        x = rl.ones(3, requires_grad=True)
        node = weakref.ref((x.sigmoid() * x).grad_fn)
        assert node() is None
    finally:
        gc.enable()


def test_saved_attributes(same):
    def scenario(m):
        x = leaf(m, 1.0, 2.0)
        node = (x * m.tensor([3.0, 4.0])).grad_fn
        return node._saved_self, node._saved_other

    # torch saves only what the gradient of `self` needs: the other factor
    def mine(m):
        node = (leaf(m, 1.0, 2.0) * m.tensor([3.0, 4.0])).grad_fn
        return node._saved_other

    same(mine)
    with pytest.raises(AttributeError):
        scenario(rl)._saved_self


def test_a_hook_added_while_its_node_runs(same):
    def scenario(m):
        seen = []

        def unpack(tensor):
            node = m._C._current_autograd_node()
            node.register_hook(lambda outputs, inputs: seen.append([i is None for i in inputs]))
            return tensor

        x = m.ones(2, requires_grad=True)
        with m.autograd.graph.saved_tensors_hooks(lambda t: t, unpack):
            y = x * m.tensor([2.0, 3.0])
        y.sum().backward()
        return seen, x.grad

    same(scenario)


@pytest.mark.parametrize("renumbered", [False, True])
@pytest.mark.parametrize("create_graph", [False, True])
def test_a_pass_to_an_input_looks_at_nothing_before_it(
    renumbered: bool, create_graph: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Node, "renumbered", False)
    x = rl.tensor([1.0, 2.0], requires_grad=True)
    inner = (x * x).exp()
    outer = (inner * inner + x).sum()
    if renumbered:  # an edge to a higher number, which only a program makes
        inner.grad_fn._set_sequence_nr(10**9)
    seen: list[bool] = []
    before = inner.grad_fn.next_functions[0][0]
    inner.register_hook(lambda grad: seen.append(before in MODES.run.visited))
    (found,) = rl.autograd.grad(outer, inner, create_graph=create_graph, retain_graph=True)
    assert found.tolist() == (2 * inner).tolist()
    assert seen == [renumbered]
    both = rl.autograd.grad(outer, (inner, x), retain_graph=True)
    assert both[0].tolist() == found.tolist()
    assert rl.allclose(both[1], 2 * inner * inner * 2 * x + 1)
