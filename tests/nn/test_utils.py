"""nn.utils against PyTorch's: clipping, vectors, fusion, sequences, normalizations, parametrizations,
pruning."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
import torch.nn.utils.prune

import rushlight as rl
from rushlight import nn
from rushlight._api import link

from .conftest import ours, theirs

LIBRARIES = pytest.mark.parametrize("lib", [torch, rl], ids=["torch", "rushlight"])
EAGER_LINALG = "qr" in link.API.functions.get("linalg", {})


def params(lib):
    made = [lib.nn.Parameter(lib.arange(n, dtype=lib.float32) - 1) for n in (2, 3)]
    for i, p in enumerate(made):
        p.grad = lib.arange(p.numel(), dtype=lib.float32) * (i + 1) - 1.5
    return made


@pytest.mark.parametrize(("limit", "kind"), [(1.0, 2.0), (100.0, 2.0), (1.0, float("inf")), (0.5, 1.0)])
def test_clip_grad_norm(limit, kind):
    def scenario(lib):
        p = params(lib)
        norm = lib.nn.utils.clip_grad_norm_(p, limit, kind)
        return [
            norm.item(),
            *p[0].grad.tolist(),
            *p[1].grad.tolist(),
            lib.nn.utils.get_total_norm(p, kind).item(),
        ]

    np.testing.assert_allclose(scenario(rl), scenario(torch), rtol=1e-6)


def test_clipping_by_value_and_nothing():
    p = params(rl)
    nn.utils.clip_grad_value_(p, 0.6)
    assert p[1].grad.tolist() == pytest.approx([-0.6, 0.5, 0.6])
    assert nn.utils.clip_grad_norm_([], 1.0).item() == 0
    p[0].grad = rl.tensor([float("inf"), 0.0])
    with pytest.raises(RuntimeError, match="non-finite"):
        nn.utils.clip_grad_norm_(p, 1.0, error_if_nonfinite=True)


def test_parameters_as_a_vector():
    model = nn.Linear(2, 3)
    vector = nn.utils.parameters_to_vector(model.parameters())
    assert vector.shape == (9,)
    nn.utils.vector_to_parameters(rl.arange(9.0), model.parameters())
    assert model.bias.tolist() == [6, 7, 8]
    assert nn.utils.parameters_to_vector(model.parameters()).tolist() == list(range(9))


def test_fused_linear_and_batch_norm():
    linear, norm = nn.Linear(3, 4).eval(), nn.BatchNorm1d(4).eval()
    for value in (norm.running_mean, norm.running_var, norm.weight, norm.bias):
        value.data = rl.rand(4) + 0.5
    fused = nn.utils.fuse_linear_bn_eval(linear, norm)
    x = rl.randn(5, 3)
    assert rl.allclose(fused(x), norm(linear(x)), atol=1e-5)


def test_skip_init():
    made = nn.utils.skip_init(nn.Linear, 3, 4)
    assert made.weight.shape == (4, 3)
    assert made.weight.device.type == "cpu"
    with pytest.raises(RuntimeError, match="device"):
        nn.utils.skip_init(nn.ReLU)


# Sequences.


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("side", ["left", "right"])
def test_pad_sequence(batch_first, side):
    parts = [torch.randn(n, 2) for n in (3, 1, 4)]
    a = torch.nn.utils.rnn.pad_sequence(parts, batch_first, 7.0, side)
    b = nn.utils.rnn.pad_sequence(ours(parts), batch_first, 7.0, side)
    torch.testing.assert_close(theirs(b), a)
    if side == "right":
        back = nn.utils.rnn.unpad_sequence(b, rl.tensor([3, 1, 4]), batch_first)
        assert all(rl.equal(x, ours(y)) for x, y in zip(back, parts, strict=True))


@pytest.mark.skipif("_pack_padded_sequence" not in link.API.functions[""], reason="no operator yet")
@pytest.mark.parametrize("batch_first", [False, True])
def test_packed_sequences(batch_first):
    parts = [torch.randn(n, 2) for n in (3, 1, 4)]
    padded = torch.nn.utils.rnn.pad_sequence(parts, batch_first)
    a = torch.nn.utils.rnn.pack_padded_sequence(padded, [3, 1, 4], batch_first, enforce_sorted=False)
    b = nn.utils.rnn.pack_padded_sequence(ours(padded), [3, 1, 4], batch_first, enforce_sorted=False)
    for x, y in zip(a, b, strict=True):
        torch.testing.assert_close(theirs(y), x)
    out, lengths = nn.utils.rnn.pad_packed_sequence(b, batch_first, total_length=5)
    expected, expected_lengths = torch.nn.utils.rnn.pad_packed_sequence(a, batch_first, total_length=5)
    torch.testing.assert_close(theirs(out), expected)
    assert lengths.tolist() == expected_lengths.tolist()
    again = nn.utils.rnn.unpack_sequence(nn.utils.rnn.pack_sequence(ours(parts), enforce_sorted=False))
    assert all(rl.equal(x, ours(y)) for x, y in zip(again, parts, strict=True))


# Normalizations and parametrizations.


@LIBRARIES
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_weight_norm_by_hook(lib):
    model = lib.nn.Linear(3, 4)
    before = model.weight.detach().clone()
    lib.nn.utils.weight_norm(model)
    assert [n for n, _ in model.named_parameters()] == ["bias", "weight_g", "weight_v"]
    assert lib.allclose(model.weight, before, atol=1e-6)
    model(lib.ones(3)).sum().backward()
    assert model.weight_g.grad is not None
    lib.nn.utils.remove_weight_norm(model)
    assert lib.allclose(model.weight, before, atol=1e-6)
    assert isinstance(model.weight, lib.nn.Parameter)


@LIBRARIES
def test_weight_norm(lib):
    model = lib.nn.utils.parametrizations.weight_norm(lib.nn.Linear(3, 4))
    assert list(model.state_dict()) == [
        "bias",
        "parametrizations.weight.original0",
        "parametrizations.weight.original1",
    ]
    state = model.state_dict()
    former = {"bias": state["bias"], "weight_g": lib.ones(4, 1), "weight_v": lib.ones(4, 3)}
    model.load_state_dict(former)
    assert lib.allclose(model.weight, lib.full((4, 3), 3**-0.5))


@pytest.mark.parametrize("form", ["hook", "parametrization"])
def test_spectral_norm(form):
    model = nn.Linear(6, 4)
    wrap = nn.utils.spectral_norm if form == "hook" else nn.utils.parametrizations.spectral_norm
    wrap(model)
    for _ in range(50):
        model(rl.ones(6))
    singular = np.linalg.svd(model.weight.detach().numpy(), compute_uv=False)
    assert singular[0] == pytest.approx(1, rel=1e-3)
    model(rl.ones(6)).sum().backward()
    if form == "hook":
        nn.utils.remove_spectral_norm(model)
        assert list(model.state_dict()) == ["bias", "weight"]


def symmetric(lib):
    class Symmetric(lib.nn.Module):
        def forward(self, x):
            return x.triu() + x.triu(1).mT

        def right_inverse(self, value):
            return value.triu()

    return Symmetric()


def test_parametrization():
    def scenario(lib):
        tool = lib.nn.utils.parametrize
        model = lib.nn.Linear(2, 2, bias=False)
        with lib.no_grad():
            model.weight.copy_(lib.tensor([[1.0, 2.0], [3.0, 4.0]]))
        tool.register_parametrization(model, "weight", symmetric(lib))
        log = [
            repr(model),
            model.weight.tolist(),
            list(model.state_dict()),
            tool.is_parametrized(model, "weight"),
            type(model).__name__,
            tool.type_before_parametrizations(model).__name__,
        ]
        model.weight = lib.tensor([[5.0, 6.0], [6.0, 7.0]])
        log.append(model.parametrizations.weight.original.tolist())
        model(lib.ones(2)).sum().backward()
        log.append(model.parametrizations.weight.original.grad.tolist())
        with tool.cached():
            log.append(model.weight is model.weight)
        twin = copy.deepcopy(model)
        log.append(twin.weight.tolist())
        tool.register_parametrization(model, "weight", lib.nn.Softmax(-1))
        log.append(len(model.parametrizations.weight))
        tool.remove_parametrizations(model, "weight")
        last = lib.nn.Linear(2, 2)
        tool.register_parametrization(last, "weight", symmetric(lib))
        last.weight = lib.tensor([[5.0, 6.0], [6.0, 7.0]])
        tool.remove_parametrizations(last, "weight", leave_parametrized=False)
        log += [
            type(model).__name__,
            [[round(v, 4) for v in row] for row in model.weight.tolist()],
            last.weight.tolist(),
            isinstance(model.weight, lib.nn.Parameter),
        ]
        return log

    assert scenario(rl) == scenario(torch)


@pytest.mark.parametrize(
    "action",
    [
        lambda lib, m: lib.nn.utils.parametrize.register_parametrization(m, "nothing", lib.nn.ReLU()),
        lambda lib, m: lib.nn.utils.parametrize.register_parametrization(m, "weight", lib.nn.Flatten(0)),
        lambda lib, m: lib.nn.utils.parametrize.remove_parametrizations(m, "weight"),
        lambda lib, m: lib.nn.utils.parametrizations.spectral_norm(m, "nothing"),
        lambda lib, m: lib.nn.utils.parametrizations.orthogonal(m, "bias"),
    ],
)
def test_parametrization_errors(action):
    with pytest.raises(Exception) as error:
        action(torch, torch.nn.Linear(2, 3))
    with pytest.raises(type(error.value)):
        action(rl, nn.Linear(2, 3))


@pytest.mark.skipif(not EAGER_LINALG, reason="no linear algebra yet")
@pytest.mark.parametrize("kind", ["matrix_exp", "cayley"])
@pytest.mark.parametrize("shape", [(4, 4), (3, 5), (5, 3)])
def test_orthogonal(kind, shape):
    model = nn.utils.parametrizations.orthogonal(nn.Linear(*shape), orthogonal_map=kind)
    weight = model.weight
    product = weight @ weight.T if weight.shape[0] <= weight.shape[1] else weight.T @ weight
    assert rl.allclose(product, rl.eye(product.shape[0]), atol=1e-5)
    model(rl.ones(shape[0])).sum().backward()


# Pruning.


def test_pruning():
    def scenario(lib):
        prune = lib.nn.utils.prune if lib is rl else torch.nn.utils.prune
        model = lib.nn.Linear(3, 4)
        with lib.no_grad():
            model.weight.copy_(lib.arange(12.0).reshape(4, 3) - 5)
        prune.l1_unstructured(model, "weight", 3)
        log = [model.weight.tolist(), sorted(model.state_dict()), prune.is_pruned(model)]
        prune.ln_structured(model, "weight", 0.25, n=2, dim=0)
        log.append(model.weight_mask.tolist())
        prune.custom_from_mask(model, "bias", lib.tensor([1.0, 0.0, 1.0, 0.0]))
        model(lib.ones(3)).sum().backward()
        log.append(model.weight_orig.grad.tolist())
        prune.remove(model, "weight")
        log += [model.weight.tolist(), sorted(model.state_dict())]
        other = lib.nn.Linear(2, 2, bias=False)
        with lib.no_grad():
            other.weight.copy_(lib.tensor([[0.1, 9.0], [8.0, 7.0]]))
        prune.global_unstructured([(other, "weight"), (model, "weight")], prune.L1Unstructured, amount=5)
        return [*log, other.weight_mask.tolist(), model.weight_mask.tolist()]

    assert scenario(rl) == scenario(torch)


def test_random_pruning():
    model = nn.utils.prune.random_unstructured(nn.Linear(10, 10), "weight", 0.3)
    assert model.weight_mask.sum().item() == 70
    nn.utils.prune.random_structured(model, "weight", 2, dim=1)
    assert (model.weight_mask.sum(0) == 0).sum().item() >= 2
    with pytest.raises(ValueError, match="amount"):
        nn.utils.prune.l1_unstructured(nn.Linear(2, 2), "weight", 1.5)
