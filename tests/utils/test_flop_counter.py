"""torch.utils.flop_counter and module_tracker: what they count and call things is what PyTorch's do."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.utils.flop_counter
import torch.utils.module_tracker

import rushlight as rl
import rushlight.utils.flop_counter
import rushlight.utils.module_tracker

LIBRARIES = (rl, torch)


def network(lib: Any) -> Callable[[], Any]:
    nn = lib.nn
    inner = nn.Sequential(nn.Conv2d(2, 4, 3, padding=1, stride=2), nn.ReLU(), nn.Conv2d(4, 4, 3, groups=2))
    model = nn.Sequential(inner, nn.Flatten(), nn.Linear(4 * 4, 5), nn.Linear(5, 3))
    x = lib.randn(3, 2, 7, 7, requires_grad=True)
    return lambda: model(x).square().sum().backward()


def first_layer_of_inputs(lib: Any) -> Callable[[], Any]:
    model = lib.nn.Sequential(lib.nn.Conv1d(2, 4, 3), lib.nn.ConvTranspose1d(4, 3, 2, stride=2))
    return lambda: model(lib.randn(3, 2, 7)).square().sum().backward()


def products(lib: Any) -> Callable[[], Any]:
    a, b, c = (lib.randn(*shape, requires_grad=True) for shape in ((2, 3, 4), (2, 4, 5), (2, 3, 5)))

    def run() -> None:
        found = lib.bmm(a, b) + lib.baddbmm(c, a, b) + lib.einsum("bij,bjk->bik", a, b) + a @ b
        (found.sum() + lib.addmm(c[0], a[0], b[0]).sum() + (a[0] @ b[0][:, 0]).sum()).backward()

    return run


def recurrent(lib: Any) -> Callable[[], Any]:
    layer = lib.nn.GRUCell(3, 4)
    return lambda: layer(lib.randn(2, 3), lib.randn(2, 4)).sum().backward()


def attention(lib: Any) -> Callable[[], Any]:
    layer = lib.nn.MultiheadAttention(8, 2, batch_first=True)
    x = lib.randn(2, 5, 8)
    return lambda: layer(x, x, x)[0].sum().backward()


PROGRAMS = (network, first_layer_of_inputs, products, recurrent, attention)
TOTALS = (attention,)  # a product with a bias is one operator here and two there


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_counts_are_those_of_torch(program: Callable[[Any], Any]) -> None:
    found = []
    for lib in LIBRARIES:
        run = program(lib)
        with lib.utils.flop_counter.FlopCounterMode(display=False) as counter:
            run()
        counts = {
            module: sum(ops.values()) if program in TOTALS else {str(op): n for op, n in ops.items()}
            for module, ops in counter.get_flop_counts().items()
        }
        found.append((counts, counter.get_total_flops()))
    assert found[0] == found[1]
    assert found[0][1] > 0


def attention_core(lib: Any, dims: tuple[int, int]) -> None:
    q, k, v = (lib.randn(2, 3, n, d) for n, d in ((4, dims[0]), (6, dims[0]), (6, dims[1])))
    lib.nn.functional.scaled_dot_product_attention(q, k, v)


def test_attention_counts_its_products() -> None:
    """PyTorch counts none of its operator for the processor; ours is two products."""
    with rl.utils.flop_counter.FlopCounterMode(display=False) as counter:
        attention_core(rl, (8, 5))
    counted = rl.utils.flop_counter.sdpa_flop_count((2, 3, 4, 8), (2, 3, 6, 8), (2, 3, 6, 5))
    assert counter.get_total_flops() == counted
    theirs = torch.utils.flop_counter.sdpa_flop_count((2, 3, 4, 8), (2, 3, 6, 8), (2, 3, 6, 5))
    assert counted == theirs


def test_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    model = rl.nn.Sequential(rl.nn.Linear(4, 3), rl.nn.Sequential(rl.nn.Linear(3, 3000)))
    counter = rl.utils.flop_counter.FlopCounterMode(depth=1)
    with counter:
        model(rl.ones(5, 4))
    assert capsys.readouterr().out == (
        "Module            FLOP    % Total\n"
        "-------------  -------  ---------\n"
        "Sequential     90.120K    100.00%\n"
        " - aten.addmm  90.120K    100.00%\n"
    )
    assert counter.get_table(3).splitlines()[4:6] == [
        " Sequential.0      0.120K      0.13%",
        "  - aten.addmm     0.120K      0.13%",
    ]
    with counter:  # begins anew
        rl.ones(2, 2) @ rl.ones(2, 2)
    assert counter.get_total_flops() == 16
    assert "Global" in capsys.readouterr().out
    with counter:
        pass
    assert capsys.readouterr().out.splitlines()[2].split() == ["Global", "0.000", "0%"]


def test_formulas_of_users() -> None:
    module = rl.utils.flop_counter
    for lib in LIBRARIES:
        counted = lib.utils.flop_counter.FlopCounterMode(
            display=False, custom_mapping={lib.ops.aten.exp: lambda x, out_shape=None: 10 * out_shape[0]}
        )
        with counted:
            lib.ones(3).exp()
        assert counted.get_total_flops() == 30
        formula = lib.utils.flop_counter.register_flop_formula
        with pytest.raises(RuntimeError, match="duplicate registrations"):
            formula(lib.ops.aten.mm)(lambda *args: 1)
        with pytest.raises(ValueError, match="expected each target to be"):
            formula(lib.ops.aten.mm.default)(lambda *args: 1)
    try:
        module.register_flop_formula(rl.ops.aten.sin, get_raw=True)(lambda x, out_val=None: out_val.numel())
        with module.FlopCounterMode(display=False) as counter:
            rl.ones(3, 2).sin()
        assert counter.get_flop_counts() == {"Global": {rl.ops.aten.sin: 6}}
    finally:
        del module.flop_registry[rl.ops.aten.sin]
    with pytest.warns(UserWarning, match="mods argument is not needed"):
        module.FlopCounterMode(rl.nn.Linear(1, 1))


def test_compiled_functions_are_counted_operator_by_operator() -> None:
    layer = rl.nn.Linear(4, 3)
    compiled = rl.compile(layer)
    compiled(rl.ones(5, 4))
    with rl.utils.flop_counter.FlopCounterMode(display=False) as counter:
        compiled(rl.ones(5, 4))
    assert counter.get_total_flops() == 120


def test_modules_that_run() -> None:
    found = []
    for lib in LIBRARIES:
        seen: list[Any] = []
        tracker = lib.utils.module_tracker.ModuleTracker()

        class Probe(lib.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Any, tracker: Any = tracker, seen: Any = seen) -> Any:
                seen.append((sorted(tracker.parents), tracker.is_bw))
                return x * 1

            @staticmethod
            def backward(ctx: Any, grad: Any, tracker: Any = tracker, seen: Any = seen) -> Any:
                seen.append((sorted(tracker.parents), tracker.is_bw))
                return grad

        class Layer(lib.nn.Module):
            def forward(self, x: Any, probe: Any = Probe) -> Any:
                return probe.apply(x)

        class Outer(lib.nn.Module):
            def __init__(self, layer: Any = Layer) -> None:
                super().__init__()
                self.first, self.rest = layer(), lib.nn.Sequential(layer(), layer())

            def forward(self, x: Any) -> Any:
                return self.rest(self.first(x))

        with tracker:
            Outer()(lib.ones(2, requires_grad=True)).sum().backward()
        seen.append((sorted(tracker.parents), tracker.is_bw))
        found.append([(parents, bool(backward)) for parents, backward in seen])
    assert found[0] == found[1]
    assert re.fullmatch(r"Outer\.rest\.\d", found[0][1][0][-1])
