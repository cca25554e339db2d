"""Graphs of torch.fx: nodes, their users, code, and changing them."""

from __future__ import annotations

import copy
import operator
import pickle

import pytest
import torch
import torch.fx

import rushlight as rl
from rushlight import fx

LIBRARIES = {"rushlight": (rl, fx), "torch": (torch, torch.fx)}


def example(library, graphs):
    """The same graph of either library: every kind of node."""
    graph = graphs.Graph()
    x = graph.placeholder("x")
    y = graph.placeholder("y", default_value=2)
    weight = graph.get_attr("inner.weight")
    inner = graph.call_module("inner", (x,))
    summed = graph.call_function(operator.add, (inner, weight))
    scaled = graph.call_function(library.ops.aten.mul.Tensor, (summed, y))
    relu = graph.call_method("relu", (scaled,))
    total = graph.call_function(library.ops.aten.sum.dim_IntList, (relu, [0]), {"keepdim": True})
    graph.call_function(library.ops.aten.sin.default, (x,))
    part = graph.call_function(operator.getitem, (total, 0))
    graph.output((part, {"all": total}))
    return graph


def root(library):
    module = library.nn.Module()
    module.inner = library.nn.Linear(3, 3, bias=False)
    with library.no_grad():
        module.inner.weight.copy_(library.arange(9.0).reshape(3, 3))
    return module


def test_text_and_code_are_those_of_torch() -> None:
    mine, theirs = (example(*LIBRARIES[name]) for name in ("rushlight", "torch"))
    assert str(mine) == str(theirs)
    assert mine.python_code("self").src == theirs.python_code("self").src
    assert [n.name for n in mine.nodes] == [n.name for n in theirs.nodes]


def test_module_runs_the_graph() -> None:
    results = []
    for library, graphs in LIBRARIES.values():
        module = graphs.GraphModule(root(library), example(library, graphs))
        for run in (module, graphs.Interpreter(module).run):
            part, rest = run(library.ones(3), 3)
            results.append((part.tolist(), rest["all"].tolist()))
        assert module(library.ones(3))[0].tolist() != results[-1][0]  # y has a default
    assert results[0] == results[1] == results[2] == results[3]


def test_users_follow_the_arguments() -> None:
    graph = fx.Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")
    total = graph.call_function(operator.add, (x, [y, {"k": y}]))
    graph.output(total)
    assert list(x.users) == [total]
    assert list(y.users) == [total]
    assert total.all_input_nodes == [x, y]
    total.args = (x, x)
    assert not y.users
    x.replace_all_uses_with(y)
    assert total.args == (y, y)
    with pytest.raises(RuntimeError, match="still had 1 users"):
        graph.erase_node(y)
    graph.erase_node(x)
    graph.lint()
    assert [n.name for n in graph.nodes] == ["y", "add", "output"]


def test_nodes_are_inserted_where_a_context_says() -> None:
    for library, graphs in LIBRARIES.values():
        graph = graphs.Graph()
        x = graph.placeholder("x")
        last = graph.output(x)
        with graph.inserting_before(last):
            a = graph.call_function(operator.neg, (x,))
            graph.call_function(operator.neg, (a,))
        with graph.inserting_after(x):
            graph.call_function(operator.pos, (x,))
            graph.call_method("abs", (x,))
        assert [n.name for n in graph.nodes] == ["x", "abs_1", "pos", "neg", "neg_1", "output"], library
        assert graph.eliminate_dead_code()
        assert [n.name for n in graph.nodes] == ["x", "output"]


def test_writing_operators_are_not_dead() -> None:
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.call_function(rl.ops.aten.add_.Tensor, (x, 1))
    graph.call_function(rl.ops.aten.add.Tensor, (x, 1))
    graph.output(x)
    graph.eliminate_dead_code()
    assert [n.name for n in graph.nodes] == ["x", "add__tensor", "output"]


def test_names() -> None:
    for _, graphs in LIBRARIES.values():
        graph = graphs.Graph()
        names = [graph.placeholder(name).name for name in ("x", "x", "x_7", "x", "sum", "for", "torch")]
        assert names == ["x", "x_1", "x_7", "x_8", "sum_1", "for_1", "torch_1"]


def test_a_node_used_before_it_runs_is_found() -> None:
    graph = fx.Graph()
    x = graph.placeholder("x")
    first = graph.call_function(operator.neg, (x,))
    graph.output(first)
    first.append(x)
    with pytest.raises(RuntimeError, match="used before it has been defined"):
        graph.lint()


def test_targets_are_checked() -> None:
    graph = fx.Graph()
    with pytest.raises(ValueError, match="Callable is expected"):
        graph.create_node("call_function", "neg")
    graph.get_attr("w")
    with pytest.raises(RuntimeError, match="was not provided"):
        fx.GraphModule({}, graph)
    other = fx.Graph()
    with pytest.raises(RuntimeError, match="different Graph"):
        graph.call_function(operator.neg, (other.placeholder("x"),))


def test_change_and_recompile() -> None:
    module = fx.GraphModule(root(rl), example(rl, fx))
    before = module(rl.ones(3), 1)[1]["all"]
    node = module.graph.find_nodes(op="call_method", target="relu")[0]
    with module.graph.inserting_after(node):
        doubled = module.graph.call_function(rl.ops.aten.mul.Tensor, (node, 2))
    node.replace_all_uses_with(doubled, lambda user: user is not doubled)
    module.recompile()
    assert "mul_tensor_1" in module.code
    assert module(rl.ones(3), 1)[1]["all"].tolist() == (2 * before).tolist()


def test_copies_and_pickles() -> None:
    module = fx.GraphModule(root(rl), example(rl, fx))
    expected = module(rl.ones(3), 1)[1]["all"].tolist()
    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert other.code == module.code
        assert other.graph is not module.graph
        assert other(rl.ones(3), 1)[1]["all"].tolist() == expected
        with rl.no_grad():
            other.inner.weight.zero_()
        assert module(rl.ones(3), 1)[1]["all"].tolist() == expected


def test_code_of_values() -> None:
    """Dtypes, devices, infinities and slices are written so that the code runs."""
    graph = fx.Graph()
    x = graph.placeholder("x")
    cast = graph.call_method("to", (x, rl.float64))
    item = graph.call_function(operator.getitem, (cast, (slice(None, 2), None, ...)))
    clamped = graph.call_function(rl.ops.aten.clamp.default, (item, -float("inf"), float("inf")))
    made = graph.call_function(
        rl.ops.aten.ones.default, ([1],), {"dtype": rl.float64, "device": rl.device("cpu")}
    )
    graph.output([clamped, made, rl.contiguous_format])
    found = fx.GraphModule({}, graph)(rl.ones(3))
    assert found[0].shape == (2, 1)
    assert found[0].dtype is rl.float64
    assert found[2] is rl.contiguous_format


def test_errors_name_the_node() -> None:
    graph = fx.Graph()
    graph.output(graph.call_function(rl.ops.aten.mm.default, (graph.placeholder("x"), 1)))
    with pytest.raises(TypeError) as caught:
        fx.Interpreter(fx.GraphModule({}, graph)).run(rl.ones(2))
    assert any("mm_default" in note for note in caught.value.__notes__)


def test_interpreter_can_be_derived_from() -> None:
    class Counting(fx.Interpreter):
        def call_function(self, target, args, kwargs):
            counted.append(target)
            return super().call_function(target, args, kwargs)

    counted: list[object] = []
    Counting(fx.GraphModule(root(rl), example(rl, fx))).run(rl.ones(3), 1)
    assert len(counted) == 5


def _halved(x):
    return x / 2


def test_functions_of_the_caller_and_any_number_of_arguments() -> None:
    """What the code calls is not hidden by a result of the same name."""
    graph = fx.Graph()
    args = graph.placeholder("*args")
    named = graph.create_node("call_function", operator.getitem, (args, 0), name=f"{__name__}__halved")
    graph.output(graph.call_function(_halved, (named,)))
    assert fx.GraphModule({}, graph)(3.0, 4.0) == 1.5
