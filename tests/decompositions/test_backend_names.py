"""Networks, products and attention under the names of libraries: equal to the generic ones, forwards and
back."""

from __future__ import annotations

import pytest
import torch

import rushlight as rl
from rushlight.core.dispatch import run_name

GATES = {0: 1, 1: 1, 2: 4, 3: 3}


def leaves(*shapes: tuple[int, ...]) -> list[rl.Tensor]:
    rl.manual_seed(3)
    return [rl.randn(*shape, dtype=rl.float64, requires_grad=True) for shape in shapes]


def network(mode: int, layers: int, directions: int) -> tuple[list[rl.Tensor], list[rl.Tensor]]:
    shapes: list[tuple[int, ...]] = []
    for layer in range(layers):
        rows, width = 5 * GATES[mode], 4 if layer == 0 else 5 * directions
        shapes += [(rows, width), (rows, 5), (rows,), (rows,)] * directions
    state = (layers * directions, 3, 5)
    hx, cx, *weights = leaves(state, state, *shapes)
    return [hx, cx], weights


def equal(found: rl.Tensor, expected: rl.Tensor | torch.Tensor) -> None:
    torch.testing.assert_close(
        torch.from_numpy(found.detach().numpy()), torch.from_numpy(expected.detach().numpy())
    )


@pytest.mark.parametrize("mode", [0, 1, 2, 3])
@pytest.mark.parametrize(
    "layers, directions, sizes", [(1, 1, ()), (2, 2, ()), (2, 2, (3, 3, 1)), (1, 1, (3, 2, 1))]
)
def test_networks_and_their_backward(mode: int, layers: int, directions: int, sizes: tuple[int, ...]) -> None:
    (hx, cx), weights = network(mode, layers, directions)
    cell = cx if mode == 2 else None
    x = rl.randn(*((sum(sizes), 4) if sizes else (6, 3, 4)), dtype=rl.float64, requires_grad=True)
    rest = (mode, 5, 0, layers, False, 0.0, True, directions == 2, sizes, None)
    output, hy, cy, reserve, buffer = run_name("_cudnn_rnn", x, weights, 4, None, hx, cell, *rest)

    kinds = {0: torch.rnn_relu, 1: torch.rnn_tanh, 2: torch.lstm, 3: torch.gru}
    as_torch = [torch.from_numpy(t.detach().numpy()) for t in (x, hx, cx, *weights)]
    hidden = as_torch[1:3] if mode == 2 else as_torch[1]
    options = (as_torch[3:], True, layers, 0.0, True, directions == 2)
    expected = (
        kinds[mode](as_torch[0], torch.tensor(sizes), hidden, *options)
        if sizes
        else kinds[mode](as_torch[0], hidden, *options, False)
    )
    for found, wanted in zip((output, hy, cy), expected, strict=False):
        equal(found, wanted)

    grads = [rl.randn_like(t) for t in (output, hy, cy)][: 3 if mode == 2 else 2]
    inputs = [x, hx, *([cx] if mode == 2 else []), *weights]
    wanted = rl.autograd.grad([output, hy, cy][: len(grads)], inputs, grads)
    given = (*grads, None)[:3]
    to_x, to_hx, to_cx, to_weights = run_name(
        "_cudnn_rnn_backward", x, weights, 4, buffer, hx, cell, output, *given, *rest, reserve, (True,) * 4
    )
    found = [to_x, to_hx, *([to_cx] if mode == 2 else []), *to_weights]
    for mine, theirs in zip(found, wanted, strict=True):
        equal(mine, theirs)


@pytest.mark.parametrize("reverse", [False, True])
def test_one_layer(reverse: bool) -> None:
    x, w_ih, w_hh, b_ih, b_hh, hx, cx = leaves((6, 3, 4), (20, 4), (20, 5), (20,), (20,), (3, 5), (3, 5))
    settings = (5, 1, True)
    output, hy, cy, workspace = run_name(
        "mkldnn_rnn_layer", x, w_ih, w_hh, b_ih, b_hh, hx, cx, reverse, (), 2, *settings, False, False, True
    )
    t = {
        name: torch.from_numpy(v.detach().numpy())
        for name, v in {"x": x, "w0": w_ih, "w1": w_hh, "w2": b_ih, "w3": b_hh, "h": hx, "c": cx}.items()
    }
    data = t["x"].flip(0) if reverse else t["x"]
    theirs, h, c = torch.lstm(
        data,
        [t["h"][None], t["c"][None]],
        [t["w0"], t["w1"], t["w2"], t["w3"]],
        True,
        1,
        0.0,
        True,
        False,
        False,
    )
    equal(output, theirs.flip(0) if reverse else theirs)
    equal(hy, h[0])
    equal(cy, c[0])
    grads = [rl.randn_like(t) for t in (output, hy, cy)]
    wanted = rl.autograd.grad([output, hy, cy], [x, w_ih, w_hh, b_ih, b_hh, hx, cx], grads)
    found = run_name(
        "mkldnn_rnn_layer_backward",
        x,
        w_ih,
        w_hh,
        b_ih,
        b_hh,
        hx,
        cx,
        output,
        hy,
        cy,
        *grads,
        reverse,
        2,
        *settings,
        True,
        False,
        (),
        False,
        workspace,
    )
    for mine, expected in zip(found, wanted, strict=True):
        equal(mine, expected)


def test_dropout_between_layers_is_refused_by_the_backward() -> None:
    (hx, cx), weights = network(2, 2, 1)
    x = rl.randn(6, 3, 4, dtype=rl.float64)
    with pytest.raises(RuntimeError, match="dropout"):
        run_name(
            "lstm_mps_backward",
            None,
            None,
            None,
            hx,
            hx,
            x,
            hx,
            [hx, cx],
            weights,
            True,
            2,
            0.5,
            True,
            False,
            False,
        )


@pytest.mark.parametrize("causal", [False, True])
def test_attention(causal: bool) -> None:
    query, key, value, bias = leaves((2, 2, 5, 4), (2, 2, 5, 4), (2, 2, 5, 4), (2, 2, 5, 5))
    as_torch = [torch.from_numpy(t.detach().numpy()) for t in (query, key, value, bias)]
    plain = torch.nn.functional.scaled_dot_product_attention(*as_torch[:3], is_causal=causal)
    scores = as_torch[0] @ as_torch[1].mT / 2
    if causal:
        scores = scores.masked_fill(torch.ones(5, 5).triu(1).bool(), float("-inf"))
    flash = run_name("_scaled_dot_product_flash_attention", query, key, value, 0.0, causal, False, None)
    equal(flash[0], plain)
    equal(flash[1], scores.logsumexp(-1))
    assert flash[4:6] == (5, 5) and not flash[1].requires_grad
    swapped = [t.transpose(1, 2) for t in (query, key, value)]
    rest = (0.0, causal, False, None, None, None, None, None, None, None)
    equal(run_name("_flash_attention_forward", *swapped, None, None, 5, 5, *rest)[0], plain.transpose(1, 2))
    if not causal:
        biased = torch.nn.functional.scaled_dot_product_attention(*as_torch[:3], attn_mask=as_torch[3])
        found = run_name(
            "_scaled_dot_product_efficient_attention", query, key, value, bias, True, 0.0, False, None
        )
        equal(found[0], biased)
        equal(found[1], (scores + as_torch[3]).logsumexp(-1))


def test_sequences_one_after_the_other() -> None:
    query, key, value = leaves((5, 2, 4), (6, 2, 4), (6, 2, 4))
    rest = (0.0, False, False, None, None, None, None, None, None, None)
    found = run_name(
        "_flash_attention_forward", query, key, value, rl.tensor([0, 3, 5]), rl.tensor([0, 2, 6]), 3, 4, *rest
    )[0]
    q, k, v = (torch.from_numpy(t.detach().numpy()).transpose(0, 1) for t in (query, key, value))
    for a, b, c, d in ((0, 3, 0, 2), (3, 5, 2, 6)):
        part = torch.nn.functional.scaled_dot_product_attention(q[:, a:b], k[:, c:d], v[:, c:d])
        equal(found[a:b], part.transpose(0, 1))


def test_linear_and_its_backward() -> None:
    x, weight, bias = leaves((2, 3, 4), (5, 4), (5,))
    output = run_name("mkldnn_linear", x, weight, bias)
    grad = rl.randn_like(output)
    wanted = rl.autograd.grad(output, [x, weight, bias], grad)
    for name in ("linear_backward", "mkldnn_linear_backward"):
        for mine, expected in zip(run_name(name, x, grad, weight, (True,) * 3), wanted, strict=True):
            equal(mine, expected)
    assert run_name("linear_backward", x, grad, weight, (False, True, False))[::2] == (None, None)
    equal(run_name("mkldnn_linear_backward_input", (2, 3, 4), grad, weight), wanted[0])
    equal(run_name("mkldnn_linear_backward_weights", grad, x, weight, True)[0], wanted[1])
