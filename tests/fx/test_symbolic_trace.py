"""symbolic_trace: the graphs, their code and their values are those of torch.fx."""

from __future__ import annotations

import copy
import importlib.util
import inspect
import math
import operator
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.fx
import torch.fx.passes.shape_prop

import rushlight as rl
import rushlight.fx.passes.shape_prop
from rushlight import fx
from rushlight.fx import proxy

LIBRARIES = ((rl, fx), (torch, torch.fx))


def _load(name: str):
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PROGRAMS = _load("trace_programs").PROGRAMS


def plain(value):
    """A result as Python objects, tensors with their dtypes."""
    if isinstance(value, rl.Tensor | torch.Tensor):
        numbers = np.asarray(value.detach().tolist())
        numbers = numbers if numbers.dtype.kind in "bi" else numbers.round(4)
        return (str(value.dtype).rpartition(".")[2], numbers.tolist())
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    return [plain(part) for part in value] if isinstance(value, tuple | list) else value


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.filterwarnings("ignore")
def test_code_and_values_are_those_of_torch(name: str) -> None:
    found = []
    for library, graphs in LIBRARIES:
        program = PROGRAMS[name](library)
        module = graphs.symbolic_trace(program.root, concrete_args=program.concrete)
        module.graph.lint()
        values = [plain(module(*program.inputs)), plain(graphs.Interpreter(module).run(*program.inputs))]
        if name != "a_module":  # whose gain goes by name alone
            values.append(plain(program.root(*program.inputs)))
        copies = [copy.deepcopy(module), graphs.GraphModule(module, module.graph)]
        values += [plain(made(*program.inputs)) for made in copies]
        assert all(v == values[0] for v in values)
        text = [module.code, str(module), str(module.graph), module.print_readable(print_output=False)]
        text += [made.code for made in copies]
        nodes = [str((n.op, n.name, n.args, n.kwargs)) for n in module.graph.nodes]
        found.append(([line.replace("rushlight.", "torch.") for line in text + nodes], values[0]))
    assert found[0] == found[1]


@pytest.mark.parametrize("name", sorted(set(PROGRAMS) - {"constants"}))
@pytest.mark.filterwarnings("ignore")
def test_pickles(name: str) -> None:
    program = PROGRAMS[name](rl)
    module = fx.symbolic_trace(program.root, concrete_args=program.concrete)
    again = pickle.loads(pickle.dumps(module))
    assert again.code == module.code
    assert plain(again(*program.inputs)) == plain(module(*program.inputs))


def refuses(graphs, function):
    with pytest.raises(Exception) as caught:
        graphs.symbolic_trace(function)
    return type(caught.value).__name__, str(caught.value)[:60]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: 1 if x > 0 else 2,
        lambda x: list(x),
        lambda x: len(x),
        lambda x: not x,
        lambda x: x in [1, 2],
        lambda x: 3 in x,
        lambda x: int(x),
        lambda x: range(x),
        lambda x: object(),
        lambda x: {x: 1},
    ],
)
def test_what_cannot_be_recorded(function) -> None:
    assert refuses(fx, function) == refuses(torch.fx, function)


def test_unpacking_says_how_many_parts_there_are() -> None:
    def function(x):
        (a, b), c = x
        return a + b, c

    mine, theirs = (graphs.symbolic_trace(function).code for _, graphs in LIBRARIES)
    assert mine == theirs


FUNCTIONS = [
    name
    for name in dir(torch.nn.functional)
    if not name.startswith("_")
    and inspect.isroutine(getattr(torch.nn.functional, name))
    and hasattr(rl.nn.functional, name)
    and name not in ("threshold", "scaled_mm", "scaled_grouped_mm", "grouped_mm")
    and not name.startswith("upsample")  # which calls interpolate
]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_one_node(name: str) -> None:
    """Every function of nn.functional, called with a proxy in the place of each argument without default."""
    codes = []
    for library, graphs in LIBRARIES:

        def call(x):
            return getattr(library.nn.functional, name)(*[x] * count)

        count = arity(name)
        codes.append(graphs.Tracer().trace(call).python_code("self").src)
    order = "multi_head_attention_forward"  # where PyTorch names is_causal earlier
    assert codes[0] == codes[1] if name != order else sorted(codes[0]) == sorted(codes[1])


def arity(name: str) -> int:
    """How many arguments of a function have no default."""
    if name.startswith(
        ("conv1", "conv2", "conv3", "conv_t", "max_pool", "adaptive", "fractional", "avg_pool")
    ):
        return 3 if name == "conv_tbc" else 2
    known = {"bilinear": 3, "scaled_dot_product_attention": 3, "pdist": 1}
    try:
        parameters = inspect.signature(getattr(rl.nn.functional, name)).parameters.values()
    except (TypeError, ValueError):
        return known.get(name, 2)
    return (
        known.get(name)
        or sum(p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters)
        or 2
    )


def test_functions_that_were_imported_by_name() -> None:
    from rushlight.nn.functional import relu, softmax  # noqa: F401

    space = {"relu": relu, "__name__": "program"}
    exec("def function(x):\n    return relu(x)", space)
    assert "torch.nn.functional.relu(x, inplace = False)" in fx.symbolic_trace(space["function"]).code
    assert space["relu"] is relu and rl.nn.functional.relu is relu  # all is as it was


def test_operators_of_the_registry() -> None:
    for library, graphs in LIBRARIES:
        module = graphs.symbolic_trace(lambda x: library.ops.aten.add.Tensor(x, 1))
        assert "torch.ops.aten.add.Tensor(x, 1)" in module.code
        assert module(library.ones(2)).tolist() == [2, 2]


# Tracers of one's own.


class Block(rl.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = rl.nn.Sequential(rl.nn.Linear(2, 2), rl.nn.ReLU())
        self.weight = rl.nn.Parameter(rl.ones(2, 2))

    def forward(self, x):
        return self.inner(x) @ self.weight.reshape(self.weight.shape[0], -1)


def test_leaves_are_what_the_tracer_says() -> None:
    class Whole(fx.Tracer):
        def is_leaf_module(self, m, module_qualified_name):
            return isinstance(m, rl.nn.Sequential)

    class Nothing(fx.Tracer):
        def is_leaf_module(self, m, module_qualified_name):
            return False

    block, x = Block(), rl.ones(1, 2)
    for kind, called in ((Whole, ["inner"]), (fx.Tracer, ["inner.0", "inner.1"]), (Nothing, [])):
        tracer = kind()
        graph = tracer.trace(block)
        assert [n.target for n in graph.nodes if n.op == "call_module"] == called
        assert fx.GraphModule(tracer.root, graph)(x).tolist() == block(x).tolist()
    stack = next(n for n in graph.nodes if n.target is rl.nn.functional.linear).meta["nn_module_stack"]
    assert [path for path, _ in stack.values()] == ["inner", "inner.0"]


def test_shapes_of_parameters_may_be_constants() -> None:
    graph = fx.Tracer(param_shapes_constant=True).trace(Block())
    assert "reshape(2, -1)" in graph.python_code("self").src


def test_calls_of_modules_can_be_counted() -> None:
    seen = []

    class Counting(fx.Tracer):
        def call_module(self, m, forward, args, kwargs):
            seen.append(self.path_of_module(m))
            return super().call_module(m, forward, args, kwargs)

    Counting().trace(Block())
    assert seen == ["inner", "inner.0", "inner.1"]
    with pytest.raises(NameError, match="not installed as a submodule"):
        fx.Tracer().trace(lambda x: rl.nn.Linear(2, 2)(x))


def noted(x, factor):
    """A function whose calls are recorded."""
    return x * factor if x.sum() > 0 else x


fx.wrap("noted")
fx.wrap("abs")


@fx.wrap
def decorated(x):
    return float(x.sum())


def test_wrapped_functions_are_calls() -> None:
    module = fx.symbolic_trace(
        lambda x: noted(x, 2) + decorated(x) * abs(x) + math.sqrt(4) * math.floor(x[0])
    )
    assert 'test_symbolic_trace_noted")' in module.code and "torch.fx._symbolic_trace.wrap(" in module.code
    assert "abs(x)" in module.code and "math_floor(" in module.code
    x = rl.tensor([1.5, 2.0])
    assert module(x).tolist() == [3 + 3.5 * 1.5 + 2, 4 + 3.5 * 2 + 2]
    assert fx.symbolic_trace(module)(x).tolist() == module(x).tolist()  # a recorded module can be recorded
    with pytest.raises(NotImplementedError, match="top level"):
        fx.wrap("noted")
    with pytest.raises(RuntimeError, match="callable or string"):
        fx.wrap(3)


# What is done with graphs.


def test_transformer() -> None:
    for library, graphs in LIBRARIES:

        class Changed(graphs.Transformer):
            def call_function(self, target, args, kwargs):
                if target is operator.add:
                    return super().call_function(operator.mul, args, kwargs)
                return super().call_function(target, args, kwargs)

            def call_method(self, target, args, kwargs):
                return super().call_method("cos" if target == "sin" else target, args, kwargs)

        module = graphs.symbolic_trace(lambda x, y=3.0: (x + y).sin() - library.relu(x))
        made = Changed(module).transform()
        x = library.arange(3.0)
        assert made(x).tolist() == ((x * 3.0).cos() - library.relu(x)).tolist()
        assert made(x, 2.0).tolist() == ((x * 2.0).cos() - library.relu(x)).tolist()


def test_shapes_of_nodes() -> None:
    rows = []
    for library, graphs in LIBRARIES:
        module = graphs.symbolic_trace(lambda x: ((x @ x.t()).relu().to(library.float64), x.shape[0]))
        properties = graphs.passes.shape_prop.ShapeProp(module)
        properties.propagate(library.ones(2, 3))
        found = [(n.name, n.meta.get("tensor_meta"), n.meta["type"].__name__) for n in module.graph.nodes]
        rows.append(str(found).replace("rushlight", "torch"))
    assert rows[0] == rows[1]
    fake = fx.passes.shape_prop.ShapeProp(module_of(lambda x: x @ x.t()), rl._subclasses.FakeTensorMode())
    assert tuple(fake.propagate(rl.ones(2, 3)).shape) == (2, 2)


def module_of(function):
    return fx.symbolic_trace(function)


def test_patterns_are_replaced() -> None:
    for library, graphs in LIBRARIES:

        def program(x, w1, w2):
            a = library.cat([w1, w2]).sum()
            b = library.cat([w2, w1]).sum()
            return x + a + library.max(b), library.cat([w1, w2])

        def pattern(w1, w2):
            return library.cat([w1, w2]).sum()

        def replacement(w1, w2):
            return library.stack([w1, w2]).mean() * 2

        module = graphs.symbolic_trace(program)
        matches = graphs.replace_pattern(module, pattern, replacement)
        assert len(matches) == 2
        assert module.code.count("torch.stack") == 2 and module.code.count("torch.cat") == 1
        x, w1, w2 = library.ones(2), library.arange(2.0), library.ones(2)
        mean = library.stack([w1, w2]).mean() * 2
        assert module(x, w1, w2)[0].tolist() == (x + 2 * mean).tolist()


def test_patterns_leave_what_others_use() -> None:
    module = fx.symbolic_trace(lambda x: (x.neg().relu(), x.neg().relu(), x.sin().cos()))
    assert len(fx.replace_pattern(module, lambda x: x.neg().relu(), lambda x: x.abs())) == 2

    def shared(x):
        y = x.neg()
        return y.relu() + y

    module = fx.symbolic_trace(shared)
    before = module.code
    assert fx.replace_pattern(module, lambda x: x.neg().relu(), lambda x: x.abs()) == []
    assert module.code == before


def test_a_chain_of_patterns() -> None:
    module = fx.symbolic_trace(lambda x: x.neg().neg().neg().neg().relu())
    assert len(fx.replace_pattern(module, lambda x: x.neg().neg(), lambda x: x + 0)) == 2
    assert "neg" not in module.code and module(rl.ones(1)).tolist() == [1]


def test_replacements_bring_their_modules() -> None:
    inner = fx.symbolic_trace(rl.nn.Sequential(rl.nn.Linear(2, 2)))
    module = fx.symbolic_trace(lambda x: x.relu())
    fx.replace_pattern(module, lambda x: x.relu(), inner)
    assert "0.weight" in module.state_dict()
    assert module(rl.ones(1, 2)).shape == (1, 2)


def test_proxies_extend_a_graph() -> None:
    for _, graphs in LIBRARIES:
        graph = graphs.Graph()
        x = graphs.Proxy(graph.placeholder("x"))
        graph.output((x.relu() + x.shape[0]).node)
        assert [n.name for n in graph.nodes] == ["x", "relu", "getattr_1", "getitem", "add", "output"]


def test_arguments_of_nodes_cannot_be_changed_in_place() -> None:
    for library, graphs in LIBRARIES:
        module = graphs.symbolic_trace(lambda x: library.cat([x, x]))
        node = module.graph.find_nodes(op="call_function", target=library.cat)[0]
        with pytest.raises(TypeError, match="does not support mutation"):
            node.args[0].append(1)
        assert type(node.args[0]).__name__ == "immutable_list" and node.args[0] == [node.prev, node.prev]


def test_tracing_ends_where_an_error_is_raised() -> None:
    call, read = rl.nn.Module.__call__, rl.nn.Module.__getattr__
    with pytest.raises(proxy.TraceError):
        fx.symbolic_trace(lambda x: bool(x))
    assert rl.nn.Module.__call__ is call and rl.nn.Module.__getattr__ is read
    with pytest.raises(NotImplementedError, match="concrete_args"):
        fx.symbolic_trace(lambda x, y: x, concrete_args={"y": (1, 2)})
