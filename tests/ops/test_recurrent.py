"""Recurrent networks, cells and packed sequences against PyTorch's."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch

import rushlight
from rushlight.core.dispatch import run_name

GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}
LENGTHS = [5, 4, 2, 2, 1]


def torch_of(tensor: Any) -> torch.Tensor:
    return torch.from_numpy(tensor.numpy().copy())


def both(tensor: torch.Tensor) -> tuple[Any, torch.Tensor]:
    """The same leaf in both libraries."""
    grad = tensor.is_floating_point()
    return (rushlight.tensor(tensor.numpy(), requires_grad=grad), tensor.clone().requires_grad_(grad))


def same(actual: Any, expected: Any) -> None:
    torch.testing.assert_close(torch_of(actual.detach()), expected.detach())


def compare(name: str, arguments: list[Any]) -> None:
    """Results, and the gradients of all leaves, which may be in lists."""
    pairs = [
        [both(a) for a in arg]
        if isinstance(arg, list)
        else both(arg)
        if isinstance(arg, torch.Tensor)
        else (arg, arg)
        for arg in arguments
    ]
    ours, theirs = (
        [[p[side] for p in pair] if isinstance(pair, list) else pair[side] for pair in pairs]
        for side in (0, 1)
    )
    got, wanted = getattr(rushlight, name)(*ours), getattr(torch, name)(*theirs)
    got, wanted = ((r if isinstance(r, tuple | list) else (r,)) for r in (got, wanted))
    for a, e in zip(got, wanted, strict=True):
        same(a, e)
    for results in (got, wanted):
        sum((r * r).sum() for r in results if r.is_floating_point()).backward()
    leaves = [leaf for pair in pairs for leaf in (pair if isinstance(pair, list) else [pair])]
    for a, e in leaves:
        if isinstance(e, torch.Tensor) and e.requires_grad:
            same(a.grad, e.grad)


def parameters(name: str, layers: int, both_ways: bool, biases: bool, projected: int) -> list[torch.Tensor]:
    rows, ways, size = GATES[name] * 4, 2 if both_ways else 1, projected or 4
    shapes: list[tuple[int, ...]] = []
    for layer, _ in itertools.product(range(layers), range(ways)):
        shapes += [(rows, size * ways if layer else 3), (rows, size)]
        shapes += [(rows,), (rows,)] if biases else []
        shapes += [(projected, 4)] if projected else []
    return [torch.randn(shape, dtype=torch.float64) for shape in shapes]


NETWORKS = [
    (name, 2, ways, biases, 0) for name in GATES for ways in (False, True) for biases in (False, True)
]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("name", "layers", "both_ways", "biases", "projected"),
    [*NETWORKS, ("lstm", 2, True, True, 2), ("lstm", 1, False, False, 2)],
)
def test_network(name: str, layers: int, both_ways: bool, biases: bool, projected: int, packed: bool) -> None:
    torch.manual_seed(0)
    states = layers * (2 if both_ways else 1)
    hx: Any = torch.randn(states, 5, projected or 4, dtype=torch.float64)
    if name == "lstm":
        hx = [hx, torch.randn(states, 5, 4, dtype=torch.float64)]
    rest = [parameters(name, layers, both_ways, biases, projected), biases, layers, 0.0, True, both_ways]
    if packed:
        sizes = torch.tensor([sum(length > t for length in LENGTHS) for t in range(LENGTHS[0])])
        compare(name, [torch.randn(sum(LENGTHS), 3, dtype=torch.float64), sizes, hx, *rest])
    else:
        for batch_first in (False, True):
            shape = (5, 6, 3) if batch_first else (6, 5, 3)
            compare(name, [torch.randn(shape, dtype=torch.float64), hx, *rest, batch_first])


def test_dropout_between_layers_only() -> None:
    x, hx = rushlight.ones(3, 2, 3), rushlight.zeros(1, 2, 4)
    one = [rushlight.tensor(p.float().numpy()) for p in parameters("gru", 1, False, True, 0)]
    dropped, plain = (rushlight.gru(x, hx, one, True, 1, p, True, False, False)[0] for p in (0.9, 0.0))
    assert dropped.equal(plain)
    two = [rushlight.tensor(p.float().numpy()) for p in parameters("gru", 2, False, True, 0)]
    states = rushlight.zeros(2, 2, 4)
    dropped, evaluated, plain = (
        rushlight.gru(x, states, two, True, 2, p, train, False, False)[0]
        for p, train in ((0.9, True), (0.9, False), (0.0, True))
    )
    assert evaluated.equal(plain)
    assert not dropped.equal(plain)


def lstm_layer(reverse_too: bool) -> tuple[Any, list[Any]]:
    """A network in double precision, as a function of its input and parameters, and values for them."""
    weights = parameters("lstm", 1, reverse_too, True, 0)
    start = [torch.randn(2 if reverse_too else 1, 2, 4) for _ in range(2)]
    values = [rushlight.tensor(t.double().numpy()) for t in (torch.randn(3, 2, 3), *start, *weights)]

    def network(x: Any, h: Any, c: Any, *params: Any) -> Any:
        return rushlight.lstm(x, (h, c), params, True, 1, 0.0, True, reverse_too, False)

    return network, values


@pytest.mark.parametrize("mode", ["reference", "native"])
@pytest.mark.parametrize("both_ways", [False, True])
def test_a_layer_as_one_operator(both_ways: bool, mode: str) -> None:
    """It has the derivatives of the steps that it consists of, of both orders and in both directions."""
    torch.manual_seed(5)
    network, values = lstm_layer(both_ways)
    with rushlight.eager.use(mode):
        leaves = [v.clone().requires_grad_() for v in values]
        if not both_ways:
            assert "MkldnnRnnLayer" in network(*leaves)[0].grad_fn.name()
        assert rushlight.autograd.gradcheck(network, leaves, check_forward_ad=True)
        assert rushlight.autograd.gradgradcheck(network, leaves)
        plain = network(*values)
        for recorded, given in zip(network(*leaves), plain, strict=True):
            assert recorded.requires_grad
            rushlight.testing.assert_close(recorded.detach(), given, rtol=0, atol=0)
        batched = rushlight.vmap(network, in_dims=(0, *[None] * (len(values) - 1)))(
            values[0].unsqueeze(0), *values[1:]
        )
        for many, given in zip(batched, plain, strict=True):
            rushlight.testing.assert_close(many[0], given)


def test_results_of_a_layer_may_be_written_to() -> None:
    network, values = lstm_layer(False)
    leaves = [v.clone().requires_grad_() for v in values]
    grads = []
    for write in (False, True):
        results = network(*leaves)
        if write:
            for result in results:
                result.mul_(2.0)
        total = sum((r if write else r * 2).sum() for r in results)
        grads.append(rushlight.autograd.grad(total, leaves))
    for a, e in zip(*grads, strict=True):
        rushlight.testing.assert_close(a, e)


@pytest.mark.parametrize("biases", [False, True])
@pytest.mark.parametrize("name", GATES)
def test_cell(name: str, biases: bool) -> None:
    torch.manual_seed(1)
    hx: Any = torch.randn(2, 4, dtype=torch.float64)
    if name == "lstm":
        hx = [hx, torch.randn(2, 4, dtype=torch.float64)]
    compare(
        f"{name}_cell", [torch.randn(2, 3, dtype=torch.float64), hx, *parameters(name, 1, False, biases, 0)]
    )


@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("name", ["lstm", "gru"])
def test_backward_of_fused_cells(name: str, has_bias: bool) -> None:
    """The backward operators are the derivatives of the cells, though PyTorch has them on no CPU."""
    rushlight.manual_seed(0)
    gates = GATES[name] * 4
    shapes = [(3, gates), (3, gates), (3, 4)] + [(gates,), (gates,)] * has_bias
    leaves = [rushlight.randn(shape, dtype=rushlight.float64, requires_grad=True) for shape in shapes]
    given = [*leaves, *[None] * (5 - len(leaves))]
    *states, workspace = run_name(f"_thnn_fused_{name}_cell", *given)
    grads = [rushlight.randn_like(state) for state in states]
    wanted = rushlight.autograd.grad(states, leaves, grads)
    if name == "lstm":
        rest = (leaves[2], states[1])
        found = [
            run_name("_thnn_fused_lstm_cell_backward", *grads, *rest, workspace, has_bias),
            run_name("_thnn_differentiable_lstm_cell_backward", *grads, *given[:2], *given[3:], *rest),
        ]
        gates_only = run_name("_thnn_fused_lstm_cell_backward_impl", *grads, *rest, workspace, has_bias)
        assert rushlight.allclose(gates_only[0], wanted[0])
    else:
        found = [
            run_name("_thnn_fused_gru_cell_backward", *grads, workspace, has_bias),
            run_name("_thnn_differentiable_gru_cell_backward", *grads, *given),
        ]
    for results in found:
        assert [r is None for r in results] == [g is None for g in given]
        for result, gradient in zip(results, wanted, strict=False):
            assert rushlight.allclose(result, gradient)


@pytest.mark.parametrize("batch_first", [False, True])
def test_packing(batch_first: bool) -> None:
    x = torch.randn(5, 7, 2, dtype=torch.float64)
    padded = x if batch_first else x.transpose(0, 1).contiguous()
    compare("_pack_padded_sequence", [padded, torch.tensor(LENGTHS), batch_first])
    sizes = torch.tensor([sum(length > t for length in LENGTHS) for t in range(LENGTHS[0])])
    for total in (-1, 5, 8):
        data = torch.randn(14, 2, dtype=torch.float64)
        compare("_pad_packed_sequence", [data, sizes, batch_first, 7.0, total])


def test_packing_twice_differentiable() -> None:
    lengths = rushlight.tensor([3, 1])
    x = rushlight.randn(3, 2, 2, dtype=rushlight.float64, requires_grad=True)
    pack = lambda x: rushlight._pack_padded_sequence(x, lengths, False)[0] ** 3  # noqa: E731
    assert rushlight.autograd.gradcheck(pack, (x,))
    assert rushlight.autograd.gradgradcheck(pack, (x,))


ERRORS = {
    "too few lengths": lambda lib: lib._pack_padded_sequence(lib.ones(3, 2), lib.tensor([3]), False),
    "a length of 0": lambda lib: lib._pack_padded_sequence(lib.ones(3, 2), lib.tensor([3, 0]), False),
    "lengths grow": lambda lib: lib._pack_padded_sequence(lib.ones(3, 2), lib.tensor([2, 3]), False),
    "nothing to pack": lambda lib: lib._pack_padded_sequence(lib.ones(3, 2, 0), lib.tensor([3, 2]), False),
    "short total": lambda lib: lib._pad_packed_sequence(lib.ones(3, 1), lib.tensor([1, 1, 1]), False, 0.0, 2),
    "input size": lambda lib: lib.gru_cell(lib.ones(2, 3), lib.ones(2, 4), lib.ones(12, 5), lib.ones(12, 4)),
    "hidden size": lambda lib: lib.gru_cell(lib.ones(2, 3), lib.ones(2, 5), lib.ones(12, 3), lib.ones(12, 4)),
    "batch": lambda lib: lib.rnn_tanh_cell(lib.ones(2, 3), lib.ones(3, 4), lib.ones(4, 3), lib.ones(4, 4)),
    "one state": lambda lib: lib.lstm_cell(
        lib.ones(2, 3), [lib.ones(2, 4)], lib.ones(16, 3), lib.ones(16, 4)
    ),
    "no parameters": lambda lib: lib.gru(
        lib.ones(2, 1, 3), lib.ones(1, 1, 4), [], True, 1, 0.0, False, False, False
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors(case: str) -> None:
    with pytest.raises(Exception) as expected:
        ERRORS[case](torch)
    with pytest.raises(RuntimeError):
        ERRORS[case](rushlight)
    assert isinstance(expected.value, RuntimeError)
