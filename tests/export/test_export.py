"""torch.export: programs as graphs, with the values of torch's, in calls that differ from the example."""

from __future__ import annotations

import dataclasses
import io
import operator

import numpy as np
import pytest
import torch
import torch.export

import rushlight as rl
from rushlight._dynamo.exc import Unsupported, UserError
from rushlight.export import Dim, ShapesCollection, dims, export, load, save

LIBRARIES = (rl, torch)
pytestmark = pytest.mark.filterwarnings("ignore")


def fill(lib, module):
    with lib.no_grad():
        for i, p in enumerate(module.parameters()):
            p.copy_(lib.linspace(-1, 1 + 0.1 * i, p.numel()).reshape(p.shape))
    return module


def ramp(lib, *shape, dtype="float32"):
    count = int(np.prod(shape))
    return (lib.arange(count).reshape(shape) * 0.37 - 1).to(getattr(lib, dtype))


def plain(value):
    if isinstance(value, rl.Tensor | torch.Tensor):
        return np.asarray(value.detach().tolist()).astype(float)
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    return [plain(part) for part in value] if isinstance(value, tuple | list) else value


def same(a, b):
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    return np.allclose(a, b, rtol=1e-4, atol=1e-5) if isinstance(a, np.ndarray) else a == b


# name -> (module, arguments by sizes, dynamic_shapes, sizes of other calls)
PROGRAMS = {}


def program(sizes, shapes=None):
    def note(make):
        PROGRAMS[make.__name__] = (make, sizes, shapes)
        return make

    return note


@program([4, 7, 1], lambda lib: {"x": {0: lib.export.Dim("batch")}})
def mlp(lib):
    class Net(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = lib.nn.Sequential(lib.nn.Linear(3, 4), lib.nn.GELU(), lib.nn.Linear(4, 2))
            self.scale = lib.arange(2.0) + 1

        def forward(self, x):
            return self.layers(x).softmax(-1) * self.scale + x.mean() / x.shape[0]

    return fill(lib, Net()), lambda n: ((ramp(lib, n, 3),), {})


@program([3, 5], lambda lib: {"x": {0: lib.export.Dim.AUTO, 2: lib.export.Dim.DYNAMIC}})
def convolution(lib):
    class Net(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = lib.nn.Conv2d(2, 3, 3, padding=1)
            self.norm = lib.nn.BatchNorm2d(3)
            self.drop = lib.nn.Dropout(0.5)

        def forward(self, x):
            y = lib.nn.functional.max_pool2d(self.norm(self.conv(x)).relu(), 2)
            return lib.flatten(self.drop(y), 1).sum(1)

    return fill(lib, Net()).eval(), lambda n: ((ramp(lib, n, 2, 2 * n, 4) / 10,), {})


@program(
    [4, 6, 9],
    lambda lib: {"x": {0: lib.export.Dim.AUTO, 1: lib.export.Dim("length", min=2, max=64)}, "mask": None},
)
def transformer(lib):
    class Net(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = lib.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)
            self.positions = lib.nn.Embedding(64, 8)

        def forward(self, x, *, mask=None):
            places = lib.arange(x.shape[1])
            return self.layer(x + self.positions(places))

    return fill(lib, Net()), lambda n: ((ramp(lib, 2, n, 8) / 20,), {"mask": None})


@program([2, 2])
def containers(lib):
    class Net(lib.nn.Module):
        def forward(self, pair, named, k, flag=True):
            a, b = pair
            return {"sum": a + named["c"] * k, "rest": [b, (a @ b.t(), k, flag, None)]}

    def inputs(n):
        return ([ramp(lib, n, 3), ramp(lib, 4, 3)], {"c": ramp(lib, 3)}, 3), {"flag": False}

    return Net(), inputs


@program([3, 3], lambda lib: ({0: lib.export.Dim.DYNAMIC}, None))
def writes(lib):
    class Net(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", lib.zeros(2))
            self.register_buffer("calls", lib.zeros((), dtype=lib.int64), persistent=False)

        def forward(self, x, y):
            self.total += x.sum(0)
            self.calls.add_(1)
            y[0] = x[0]
            return self.total * 2, y.t(), self.calls + 0

    return Net(), lambda n: ((ramp(lib, n, 2), lib.ones(2, 2)), {})


@program(
    [4, 8, 6],
    lambda lib: (
        {0: lib.export.Dim("n", min=4), 1: lib.export.Dim("m", min=4)},
        {0: lib.export.Dim("n", min=4)},
    ),
)
def sizes(lib):
    class Net(lib.nn.Module):
        def forward(self, x, y):
            n, m = x.shape
            z = x.reshape(m, n).t()[: n - 1] * (n * m + 3) / (n - 0.5)
            return z, lib.cat([x, x]).view(-1), lib.zeros(n // 2, m % 3 + 2), n * 2 + m, y + n

    return Net(), lambda n: ((ramp(lib, n, n + 1), ramp(lib, n)), {})


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("way", ["as it is", "from a file"])
def test_values_are_those_of_torch(name: str, way: str) -> None:
    make, calls, shapes = PROGRAMS[name]
    found = []
    for lib in LIBRARIES:
        module, inputs = make(lib)
        args, kwargs = inputs(calls[0])
        exported = lib.export.export(module, args, kwargs, dynamic_shapes=shapes and shapes(lib))
        if way == "from a file":
            file = io.BytesIO()
            lib.export.save(exported, file)
            file.seek(0)
            exported = lib.export.load(file)
        run = exported.module()
        rows = []
        for n in calls[1:]:
            args, kwargs = inputs(n)
            rows.append(
                [plain(run(*args, **kwargs)), plain(args), {k: plain(v) for k, v in run.named_buffers()}]
            )
        if lib is rl and way == "as it is":  # what the module itself does, and the graph after compilation
            module, inputs = make(lib)
            compiled = rl.compile(make_module(exported))
            for n, row in zip(calls[1:], rows, strict=True):
                for other in (module, compiled) if name != "writes" else (module,):
                    args, kwargs = inputs(n)
                    assert same(plain(other(*args, **kwargs)), row[0])
        found.append((rows, list(exported.state_dict), exported.graph_signature.parameters))
    assert all(map(same, found[0][0], found[1][0]))
    assert found[0][1:] == found[1][1:]


def make_module(exported):
    return exported.module()


def test_what_is_known_of_a_program() -> None:
    module, inputs = PROGRAMS["mlp"][0](rl)
    args, kwargs = inputs(4)
    exported = export(module, args, dynamic_shapes={"x": {0: Dim("batch", max=16)}})
    assert exported.graph_signature.user_inputs == ("x",)
    assert exported.graph_signature.inputs_to_parameters["p_layers_0_weight"] == "layers.0.weight"
    assert exported.graph_signature.lifted_tensor_constants == ("scale",)
    assert [name for name, _ in exported.named_parameters()] == [
        name for name, _ in module.named_parameters()
    ]
    assert all(a is b for a, b in zip(exported.parameters(), module.parameters(), strict=True))
    assert list(map(str, exported.range_constraints.values())) == ["VR[2, 16]"]
    assert exported.example_inputs == (args, kwargs)
    assert "torch.ops.aten.addmm" in exported.graph_module.code and "PARAMETER target=" in str(exported)
    with pytest.raises(RuntimeError, match=r"exported_program\.module"):
        exported(*args)
    exported.validate()


def test_modules_of_programs_are_differentiable() -> None:
    results = []
    for lib in LIBRARIES:
        module, inputs = PROGRAMS["mlp"][0](lib)
        run = lib.export.export(module, *inputs(4)).module()
        run(*inputs(4)[0]).square().sum().backward()
        results.append([plain(p.grad) for p in run.parameters()])
    assert same(results[0], results[1])


def test_calls_of_another_kind_are_refused() -> None:
    for lib in LIBRARIES:
        module, inputs = PROGRAMS["mlp"][0](lib)
        run = lib.export.export(
            module, *inputs(4), dynamic_shapes=({0: lib.export.Dim("b", min=3, max=9)},)
        ).module()
        for args, error, text in [
            ((ramp(lib, 10, 3),), AssertionError, "<= 9"),
            ((ramp(lib, 2, 3),), AssertionError, ">= 3"),
            ((ramp(lib, 4, 2),), AssertionError, r"size\(\)\[1\] == 3"),
            ((), ValueError, "same number and type"),
            ((ramp(lib, 4, 3), 1), ValueError, "same number and type"),
        ]:
            with pytest.raises(error, match=text):
                run(*args)


def test_numbers_are_constants() -> None:
    for lib in LIBRARIES:

        class Net(lib.nn.Module):
            def forward(self, x, k):
                return x * k

        run = lib.export.export(Net(), (ramp(lib, 2), 3)).module()
        assert plain(run(ramp(lib, 2), 3)).tolist() == plain(ramp(lib, 2) * 3).tolist()
        with pytest.raises(AssertionError, match="k == 3"):
            run(ramp(lib, 2), 4)


class Looks(rl.nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x


class Keeps(rl.nn.Module):
    def forward(self, x):
        self.last = x * 2
        return x


class Fixed(rl.nn.Module):
    def forward(self, x):
        return x.view(2, 3)


def test_programs_that_cannot_be_exported() -> None:
    x = rl.ones(2, 3)
    with pytest.raises(Unsupported, match=r"test_export.py:\d+: the program reads a value"):
        export(Looks(), (x,))
    with pytest.raises(Unsupported, match="changes"):
        export(Keeps(), (x,))
    for said in (Dim("b"), Dim.DYNAMIC):
        with pytest.raises(UserError, match=r"Constraints violated .*\n.*constant \(2\)"):
            export(Fixed(), (x,), dynamic_shapes=({0: said},))
    assert export(Fixed(), (x,), dynamic_shapes=({0: Dim.AUTO},)).range_constraints == {}
    with pytest.raises(ValueError, match=r"torch\.nn\.Module"):
        export(lambda x: x, (x,))
    with pytest.raises(UserError, match="tuple"):
        export(Fixed(), x)
    with pytest.raises(UserError, match="example inputs do not fit"):
        export(Fixed(), (x, x))


@pytest.mark.parametrize(
    "shapes, text",
    [
        ({"y": {0: Dim("b")}}, "must be the arg names"),
        ([{5: Dim("b")}], "names the dimension 5"),
        ([(Dim("b"),)], "same length"),
        ([{0: 3}], "does not match input size"),
        ([{0: "b"}], "a Dim is expected"),
        ([None, None], "one entry for each"),
        ([{0: Dim("b", min=5)}], "not in the range"),
        ([{0: Dim("b"), 1: Dim("b")}], "not equal"),
    ],
)
def test_dynamic_shapes_that_do_not_fit(shapes, text: str) -> None:
    with pytest.raises(UserError, match=text):
        export(rl.nn.ReLU(), (rl.ones(2, 3),), dynamic_shapes=shapes)


def test_relations_of_sizes_are_checked() -> None:
    class Net(rl.nn.Module):
        def forward(self, x, y):
            return x + y if x.shape[0] > 3 else x - y

    n, m = dims("n", "m")
    run = export(Net(), (rl.ones(5), rl.ones(5)), dynamic_shapes=({0: n}, {0: m})).module()
    assert run(rl.ones(7), rl.ones(7)).tolist() == [2.0] * 7
    with pytest.raises(AssertionError, match=r"Guard failed: .*size"):
        run(rl.ones(7), rl.ones(6))
    with pytest.raises(AssertionError, match="Guard failed"):
        run(rl.ones(3), rl.ones(3))


def test_sizes_said_by_tensor() -> None:
    x, shapes = rl.ones(4, 2), ShapesCollection()
    shapes[x] = {0: Dim.AUTO}
    run = export(rl.nn.ReLU(), (x,), dynamic_shapes=shapes).module()
    assert run(-rl.ones(6, 2)).shape == (6, 2)


@dataclasses.dataclass
class Batch:
    x: rl.Tensor
    scale: float = 2.0


def test_data_classes() -> None:
    class Net(rl.nn.Module):
        def forward(self, batch):
            return Batch(batch.x * batch.scale, 1.0)

    with pytest.raises(UserError, match="register_dataclass"):
        export(Net(), (Batch(rl.ones(2)),))
    rl.export.register_dataclass(Batch)
    exported = export(Net(), (Batch(rl.ones(2)),), dynamic_shapes=(None,))
    made = exported.module()(Batch(rl.arange(2.0)))
    assert isinstance(made, Batch) and made.x.tolist() == [0, 2] and made.scale == 1
    assert exported.graph_signature.user_inputs == ("batch_0", 2.0)
    with pytest.raises(ValueError, match="here is a Batch"):
        save(exported, io.BytesIO())
    with pytest.raises(AssertionError, match="Only dataclasses"):
        rl.export.register_dataclass(int)


def test_sizes_that_are_data() -> None:
    class Net(rl.nn.Module):
        def forward(self, x, n):
            return x[x > 0].sum(), x[: n.item()] * 2, x * x.sum().item()

    run = export(Net(), (rl.tensor([1.0, -1.0, 2.0]), rl.tensor(2))).module()
    x = rl.tensor([3.0, 4.0, -1.0])
    assert plain(run(x, rl.tensor(1)))[0] == 7
    assert [plain(v).tolist() for v in run(x, rl.tensor(1))] == [7, [6], [18, 24, -6]]


def test_random_programs_draw_in_every_run() -> None:
    run = export(rl.nn.Dropout(0.5), (rl.ones(1000),)).module()
    rl.manual_seed(0)
    a, b = run(rl.ones(1000)), run(rl.ones(1000))
    assert set(a.tolist()) == {0.0, 2.0} and a.tolist() != b.tolist()


def test_decompositions() -> None:
    exported = export(
        rl.nn.Sequential(rl.nn.Linear(2, 2), rl.nn.GELU()), (rl.ones(3, 2),), dynamic_shapes=({0: Dim("n")},)
    )

    def gelu(x, approximate="none"):
        return x * 0.5 * (1 + rl.erf(x * 0.5**0.5))

    changed = exported.run_decompositions({rl.ops.aten.gelu.default: gelu})
    assert "gelu" not in changed.graph_module.code and "erf" in changed.graph_module.code
    x = ramp(rl, 5, 2)
    assert same(plain(changed.module()(x)), plain(exported.module()(x)))
    assert exported.run_decompositions().graph_module.code == exported.graph_module.code


# Files.


def test_files_run_no_code(tmp_path) -> None:
    exported = export(rl.nn.Linear(2, 2), (rl.ones(1, 2),))
    path = tmp_path / "linear.pt2"
    extra = {"note.txt": "weights of a test"}
    save(exported, path, extra_files=extra)
    asked = {"note.txt": ""}
    again = load(path, extra_files=asked)
    assert asked == extra
    assert again.graph_module.code == exported.graph_module.code
    assert str(again.graph_signature) == str(exported.graph_signature)
    assert all(isinstance(p, rl.nn.Parameter) and p.requires_grad for p in again.parameters())
    data = rl.load(path)
    for target in ("os::system.default", "system", "aten::no_such.default", "aten::add"):
        next(row for row in data["nodes"] if row["op"] == "call_function")["target"] = target
        rl.save(data, path)
        with pytest.raises(ValueError, match="operator"):
            load(path)
    rl.save({"a": 1}, path)
    with pytest.raises(ValueError, match="does not hold an exported program"):
        load(path)
    with pytest.raises(TypeError, match="ExportedProgram"):
        save(rl.nn.Linear(2, 2), path)


def test_graphs_can_be_changed() -> None:
    exported = export(rl.nn.ReLU(), (rl.ones(2),))
    node = exported.graph.find_nodes(op="call_function", target=rl.ops.aten.relu.default)[0]
    with exported.graph.inserting_after(node):
        made = exported.graph.call_function(operator.mul, (node, 3))
    node.replace_all_uses_with(made, lambda user: user is not made)
    assert exported.module()(rl.ones(2)).tolist() == [3, 3]
