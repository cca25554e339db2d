"""Models in the ONNX format: what onnxruntime makes of them is what the program gives."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="of the extra `onnx`")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    pytest.importorskip("onnxruntime", reason="of the extra `onnx`")

import rushlight as torch
import rushlight.nn.functional as F
from rushlight import nn
from rushlight.export import Dim


class Function(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def results(found: Any) -> list[Any]:
    return [found] if isinstance(found, torch.Tensor) else list(found)


def check(model: Any, *args: Any, others: tuple[Any, ...] = (), **settings: Any) -> Any:
    """Export it, and compare what onnxruntime gives for the example, and for other arguments."""
    if not isinstance(model, nn.Module):
        model = Function(model)
    program = torch.onnx.export(model.eval(), args, **settings)
    for given in (args, *others):
        wanted = results(model(*given))
        found = program(*given)
        assert len(found) == len(wanted)
        for a, b in zip(found, wanted, strict=True):
            if not isinstance(b, torch.Tensor):
                assert int(a) == b
                continue
            assert a.dtype == b.dtype
            assert a.shape == b.shape
            np.testing.assert_allclose(a.numpy(), b.detach().numpy(), rtol=1e-4, atol=1e-5)
    return program


def randn(*shape: int) -> Any:
    return torch.randn(*shape)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


# Models.


def test_convolutions() -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, stride=2),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3, groups=2, padding="same"),
        nn.AvgPool2d(2, stride=1),
        nn.ConvTranspose2d(8, 4, 2, stride=2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4, 5),
    )
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    others = ((randn(5, 3, 16, 16),),)
    program = check(model, randn(2, 3, 16, 16), others=others, dynamic_shapes=({0: Dim("batch")},))
    dims = program.model_proto.graph.input[0].type.tensor_type.shape.dim
    assert [d.dim_param or d.dim_value for d in dims] == ["batch", 3, 16, 16]


def test_a_transformer_with_changing_sizes() -> None:
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2)
    sizes = ({0: Dim("batch"), 1: Dim("length")},)
    check(model, randn(2, 5, 16), others=((randn(3, 7, 16),),), dynamic_shapes=sizes)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_networks(kind: Any) -> None:
    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inside = kind(4, 6, num_layers=2, batch_first=True)

        def forward(self, x: Any) -> Any:
            return self.inside(x)[0]

    check(Last(), randn(2, 5, 4))


def test_embeddings_and_causal_attention() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.norm = nn.Embedding(11, 8), nn.LayerNorm(8)
            self.out = nn.Linear(8, 11, bias=False)

        def forward(self, ids: Any) -> Any:
            x = self.words(ids)
            heads = x.unflatten(2, (2, 4)).transpose(1, 2)
            found = F.scaled_dot_product_attention(heads, heads, heads, is_causal=True)
            x = self.norm(x + found.transpose(1, 2).flatten(2))
            return self.out(F.silu(x)).log_softmax(-1)

    ids, more = torch.randint(0, 11, (2, 5)), torch.randint(0, 11, (3, 9))
    check(Model(), ids, others=((more,),), dynamic_shapes=({0: Dim.AUTO, 1: Dim.AUTO},))


def test_images() -> None:
    model = nn.Sequential(
        nn.Upsample(scale_factor=2, mode="bilinear"),
        nn.GroupNorm(2, 4),
        nn.PixelShuffle(2),
        nn.ReflectionPad2d(1),
        nn.MaxPool2d(3, stride=2, padding=1),
        nn.Upsample(scale_factor=2, mode="nearest"),
    )
    check(model, randn(2, 4, 6, 6))


# Operators.

UNARY = (
    "abs acos asin asinh atan atanh ceil cos cosh erf erfc exp exp2 expm1 floor frac isfinite isinf isnan log "
    "log10 log1p log2 logical_not neg reciprocal relu round rsqrt "
    "sigmoid sign sin sinh sqrt square tan tanh trunc"
)


@pytest.mark.parametrize("name", UNARY.split())
def test_unary_operators(name: str) -> None:
    x = torch.linspace(0.05, 0.95, 12) if name != "round" else torch.linspace(-2.5, 2.5, 11)
    check(lambda x: getattr(torch, name)(x), x)


ACTIVATIONS = (
    "celu elu gelu hardsigmoid hardswish hardtanh leaky_relu logsigmoid mish relu6 selu silu softplus softsign "
    "tanhshrink hardshrink softshrink"
)


@pytest.mark.parametrize("opset", [18, 20, 23])
@pytest.mark.parametrize("name", ACTIVATIONS.split())
def test_activations(name: str, opset: int) -> None:
    check(lambda x: getattr(F, name)(x), torch.linspace(-4, 4, 23), opset_version=opset)


BINARY = "add sub mul div maximum minimum pow fmod remainder eq ne lt le gt ge hypot fmax fmin"


@pytest.mark.parametrize("name", BINARY.split())
def test_binary_operators(name: str) -> None:
    check(lambda a, b: getattr(torch, name)(a, b), randn(3, 4).abs() + 0.5, randn(4) + 2)


@pytest.mark.parametrize(
    "name", ["bitwise_and", "bitwise_or", "bitwise_xor", "floor_divide", "remainder", "fmod"]
)
def test_operators_on_integers(name: str) -> None:
    a, b = torch.tensor([7, -7, 5, 12]), torch.tensor([3, 3, -2, 5])
    check(lambda a, b: getattr(torch, name)(a, b), a, b)


def together(x: Any, y: Any) -> Any:
    return torch.cat([x, y], 1), torch.stack([x, x]), x.expand(2, 3, 4)


def writes(x: Any, i: Any) -> Any:
    return x.index_put((i,), torch.ones(4)), x.index_add(0, i, x[:2]), x.index_copy(0, i, x[:2])


def pads(x: Any) -> Any:
    return F.pad(x, (1, 2)), F.pad(x, (1, 0, 2, 1), value=3.0), F.pad(x[None], (1, 1), mode="replicate")


def new(x: Any) -> Any:
    return torch.zeros(2, 3), torch.full_like(x, 2.0), torch.arange(1, 7, 2), torch.eye(3), x.new_ones(2)


def losses(x: Any, t: Any) -> Any:
    return F.cross_entropy(x, t), F.mse_loss(x, x * 2), F.smooth_l1_loss(x, x * 3)


def parts(x: Any) -> Any:
    return *x.split(2, 1), *x.chunk(3), *x.unbind(0), x[1, :, 2], x.narrow(1, 1, 2)


def views(x: Any) -> Any:
    return x[1:, ::2].reshape(-1), x.permute(2, 0, 1), x.mT, x[..., None].squeeze(-1)


def scatter(x: Any, i: Any) -> Any:
    return x.scatter(1, i, 2.0), x.scatter_add(1, i, x), x.scatter(0, i[:2], x)


ENDS, PLACES = torch.tensor([2, 0]), torch.tensor([[0, 1], [2, 0], [1, 2]])
OTHERS: dict[str, tuple[Any, ...]] = {
    "promotion": (lambda x, i: (x + i, i / 2, i * True, i > 1.5, x.double() + 1), randn(3), torch.arange(3)),
    "where": (lambda x: torch.where(x > 0, x, 0.5), randn(4)),
    "clamp": (lambda x: x.clamp(-0.5, 0.5) + x.clamp(min=0), randn(4)),
    "masked_fill": (lambda x: x.masked_fill(x < 0, -1.0), randn(4)),
    "lerp": (lambda x, y: torch.lerp(x, y, 0.3) + torch.addcmul(x, x, y, value=2), randn(3), randn(3)),
    "softmax": (lambda x: (x.softmax(0), x.log_softmax(-1), x.logsumexp(1)), randn(3, 4)),
    "sums": (lambda x: (x.sum(), x.mean(1), x.sum((0, 2), keepdim=True), x.prod(0)), randn(2, 3, 4)),
    "extremes": (lambda x: (x.amax(1), x.amin((0, 1)), x.max(), *x.max(1), *x.min(0)), randn(3, 4)),
    "moments": (lambda x: (x.var(1), x.std(), x.var(0, correction=0, keepdim=True)), randn(3, 4)),
    "norms": (lambda x: (x.norm(), x.norm(3, 1), x.norm(torch.inf, 0), F.normalize(x)), randn(3, 4)),
    "truth": (lambda x: ((x > 0).any(), (x > 0).all(1), (x > 1).any(0, keepdim=True)), randn(3, 4)),
    "places": (lambda x: (x.argmax(), x.argmin(1), x.argmax(0, keepdim=True)), randn(3, 4)),
    "order": (lambda x: (*x.sort(1), *x.topk(2, dim=0), x.argsort(0, descending=True)), randn(4, 3)),
    "cumsum": (lambda x: x.cumsum(1), randn(3, 4)),
    "products": (lambda a, b: (a @ b, torch.einsum("ij,jk->ki", a, b), a.mv(b[:, 0])), randn(3, 4), randn(4, 2)),
    "batched": (lambda a, b: torch.baddbmm(a[..., :2], a, b, alpha=2, beta=0.5), randn(5, 3, 4), randn(5, 4, 2)),
    "views": (views, randn(3, 4, 5)),
    "parts": (parts, randn(3, 5, 4)),
    "together": (together, randn(3, 4), randn(3, 2)),
    "moved": (lambda x: (x.flip(0), x.roll(1, 1), x.roll(2), x.repeat(2, 1, 3), x.tile(2)), randn(3, 4)),
    "pads": (pads, randn(3, 4)),
    "triangles": (lambda x: (x.tril(), x.triu(1)), randn(4, 4)),
    "new": (new, randn(3)),
    "indices": (lambda x, i: (x[i], x[:, i], x[i, i], x.index_select(1, i), x[:, i, i]), randn(3, 3, 3), ENDS),
    "gather": (lambda x, i: (x.gather(1, i), torch.take_along_dim(x, i, 1)), randn(3, 4), PLACES),
    "scatter": (scatter, randn(3, 4), PLACES),
    "writes": (writes, randn(3, 4), ENDS),
    "in place": (lambda x: x.clone().add_(1).mul_(x), randn(3)),
    "one_hot": (lambda i: F.one_hot(i, 5), torch.tensor([1, 4])),
    "dtypes": (lambda x: (x.to(torch.int32), x.double().float(), x.bool(), x.half() + 1), randn(3)),
    "losses": (losses, randn(3, 4), torch.tensor([1, 0, 3])),
    "distances": (lambda x, y: (torch.cdist(x, y), F.cosine_similarity(x, y[:3])), randn(3, 4), randn(5, 4)),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_operators(name: str) -> None:
    function, *args = OTHERS[name]
    check(function, *args)


def test_sizes_that_change_in_results_and_shapes() -> None:
    def function(x: Any) -> Any:
        n = x.shape[0]
        return (
            x.reshape(-1),
            torch.arange(n),
            x.sum() / n,
            n * 2,
            torch.zeros(n + 1, x.shape[1] // 2),
            x[: n - 1],
        )

    others = ((randn(5, 8),), (randn(2, 4),))
    check(function, randn(3, 6), others=others, dynamic_shapes=({0: Dim("n"), 1: Dim.AUTO},))


# What is around the model.


def test_names_and_dynamic_axes(tmp_path: Path) -> None:
    import onnx
    import onnxruntime

    path = tmp_path / "model.onnx"
    torch.onnx.export(
        nn.Linear(3, 2),
        (randn(4, 3),),
        path,
        input_names=["x"],
        output_names=["y"],
        dynamic_axes={"x": {0: "rows"}, "y": {0: "rows"}},
        dynamo=False,
    )
    model = onnx.load(path)
    assert [v.name for v in (*model.graph.input, *model.graph.output)] == ["x", "y"]
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "rows"
    session = onnxruntime.InferenceSession(path)
    assert session.run(None, {"x": np.ones((7, 3), np.float32)})[0].shape == (7, 2)


def test_weights_beside_the_file(tmp_path: Path) -> None:
    import onnxruntime

    path, model, x = tmp_path / "model.onnx", nn.Linear(64, 64), randn(2, 64)
    for _ in range(2):  # also over an older one
        torch.onnx.export(model, (x,), path)
    assert (tmp_path / "model.onnx.data").stat().st_size >= 64 * 64 * 4
    assert (tmp_path / "model.onnx.data").stat().st_size < 2 * 64 * 64 * 4
    found = onnxruntime.InferenceSession(path).run(None, {"input": x.numpy()})[0]
    np.testing.assert_allclose(found, model(x).detach().numpy(), rtol=1e-5, atol=1e-5)
    torch.onnx.export(model, (x,), tmp_path / "whole.onnx", external_data=False)
    assert not (tmp_path / "whole.onnx.data").exists()


def test_a_file_object_and_weights_as_inputs() -> None:
    import onnx

    memory = io.BytesIO()
    assert torch.onnx.export(nn.Linear(3, 2), (randn(1, 3),), memory, dynamo=False) is None
    onnx.checker.check_model(onnx.load_model_from_string(memory.getvalue()))
    kept = torch.onnx.export(
        nn.Linear(3, 2), (randn(1, 3),), keep_initializers_as_inputs=True
    ).model_proto.graph
    assert {v.name for v in kept.input} == {"input", "weight", "bias"}
    assert {v.name for v in kept.initializer} >= {"weight", "bias"}
    left = torch.onnx.export(nn.Linear(3, 2), (randn(1, 3),), export_params=False).model_proto.graph
    assert {v.name for v in left.input} == {"input", "weight", "bias"}
    assert not {v.name for v in left.initializer} & {"weight", "bias"}


def test_modes_of_a_module() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5))
    torch.onnx.export(model, (randn(1, 2),), io.BytesIO(), dynamo=False)  # in the mode of evaluation
    assert model.training and model[1].training
    with pytest.raises(torch.onnx.errors.UnsupportedOperatorError, match="random"):
        torch.onnx.export(model, (randn(1, 2),))
    with pytest.warns(UserWarning, match="does not write to .*running_mean"):
        torch.onnx.export(nn.BatchNorm1d(2), (randn(3, 2),))


def test_is_in_onnx_export() -> None:
    class Model(nn.Module):
        def forward(self, x: Any) -> Any:
            return x * 2 if torch.onnx.is_in_onnx_export() else x * 3

    program = torch.onnx.export(Model(), (torch.ones(1),))
    assert program(torch.ones(1))[0].item() == 2
    assert not torch.onnx.is_in_onnx_export()


def test_exported_programs_and_verification() -> None:
    model, x = nn.Linear(3, 2), randn(4, 3)
    program = torch.onnx.export(torch.export.export(model, (x,)), verify=True)
    np.testing.assert_allclose(program(x)[0].numpy(), model(x).detach().numpy(), rtol=1e-5)
    assert "inputs ['input']" in repr(program)


def test_what_is_not_there_is_said() -> None:
    with pytest.raises(
        torch.onnx.OnnxExporterError, match=r"aten\.linalg_qr.*test_onnx.py:\d+.*no form in ONNX"
    ):
        torch.onnx.export(Function(lambda x: torch.linalg.qr(x)[0]), (randn(3, 3),))
    with pytest.raises(torch.onnx.OnnxExporterError, match="complex64"):
        torch.onnx.export(Function(lambda x: x * 2j), (randn(3),))
    with pytest.raises(ValueError, match="opset_version must be in 18 to 23, not 9"):
        torch.onnx.export(nn.Linear(1, 1), (randn(1, 1),), opset_version=9)
    with pytest.raises(NotImplementedError, match="report=True is not available"):
        torch.onnx.export(nn.Linear(1, 1), (randn(1, 1),), report=True)
    with pytest.raises(TypeError, match="not function"):
        torch.onnx.export(lambda x: x, (randn(1),))
    with pytest.raises(ValueError, match="no place for the names"):
        torch.onnx.export(nn.Linear(1, 1), (randn(1, 1),), input_names=["a", "b"])


# Operators of libraries.


@pytest.fixture
def library() -> Any:
    defined = torch.library.Library("onnx_test", "DEF")
    defined.define("lifted(Tensor x, float by, int[] axes, str mode='up') -> Tensor")
    defined.define("parts(Tensor x, int n) -> (Tensor, Tensor)")
    defined.impl(
        "lifted", lambda x, by, axes, mode="up": x.unsqueeze(axes[0]) * by, "CompositeExplicitAutograd"
    )
    defined.impl("parts", lambda x, n: (x[:, :n] * 1, x[:, n:] * 1), "CompositeExplicitAutograd")
    yield torch.ops.onnx_test
    for name, opset in (("lifted", 11), ("lifted", 16), ("lifted", 23), ("parts", 9)):
        torch.onnx.unregister_custom_op_symbolic(f"onnx_test::{name}", opset)
    defined._destroy()


def test_operators_of_libraries_are_written_by_their_functions(library: Any) -> None:
    from rushlight.onnx import symbolic_opset11 as opset11
    from rushlight.onnx.symbolic_helper import parse_args

    @parse_args("v", "f", "is", "s")
    def lifted(g: Any, x: Any, by: float, axes: list[int], mode: str) -> Any:
        assert (by, axes, mode) == (2.5, [1], "up")
        factor = g.op("Constant", value_t=torch.tensor([by]))
        return g.op("Mul", opset11.unsqueeze(g, x, axes[0]), factor)

    def parts(g: Any, x: Any, n: int) -> Any:
        return tuple(g.op("Split", x, torch.tensor([n, 4 - n]), outputs=2, axis_i=1))

    def other(g: Any, *args: Any) -> Any:
        raise AssertionError("a function for another opset")

    with pytest.raises(torch.onnx.OnnxExporterError, match="lifted"):
        torch.onnx.export(Function(lambda x: library.lifted(x, 2.5, [1])), (randn(3, 4),))
    for opset, function in ((11, other), (16, lifted), (23, other)):
        torch.onnx.register_custom_op_symbolic("onnx_test::lifted", function, opset)
    torch.onnx.register_custom_op_symbolic("onnx_test::parts", parts, 9)
    check(lambda x: library.lifted(x.relu(), 2.5, [1]) + 1, randn(3, 4))
    check(lambda x: library.parts(x, 1), randn(3, 4))


def test_nodes_that_functions_add(library: Any) -> None:
    from rushlight.onnx import symbolic_opset11 as opset11

    def lifted(g: Any, x: Any, by: float, axes: list[int], mode: str) -> Any:
        first = opset11.select(g, x, 1, torch.tensor([0]))  # (3, 1)
        total = opset11.add(g, opset11.cat(g, [first, first], 1), first, 2)  # (3, 2), three times the first
        column = opset11.squeeze(g, opset11.select(g, total, 1, torch.tensor([1])), 1)
        scaled = g.op("Mul", opset11.unsqueeze(g, column, 1), by)
        found = g.op("Cast", scaled, to_i=torch.onnx.TensorProtoDataType.FLOAT)
        return opset11.unsqueeze(g, found, 1)

    torch.onnx.register_custom_op_symbolic("onnx_test::lifted", lifted, 11)
    x = randn(3, 4)
    program = torch.onnx.export(Function(lambda x: library.lifted(x, 2.0, [1])), (x,))
    np.testing.assert_allclose(program(x)[0].numpy(), 6 * x.numpy()[:, :1, None], rtol=1e-5)


def test_nodes_of_other_domains(library: Any) -> None:
    def lifted(g: Any, x: Any, by: float, axes: list[int], mode: str) -> Any:
        return g.op("mine::Lift", x, by_f=by, axes_i=axes, mode_s=mode)

    torch.onnx.register_custom_op_symbolic("onnx_test::lifted", lifted, 11)
    model = torch.onnx.export(Function(lambda x: library.lifted(x, 2.0, [1])), (randn(3, 4),)).model_proto
    (node,) = (node for node in model.graph.node if node.domain == "mine")
    assert node.op_type == "Lift"
    assert {a.name for a in node.attribute} == {"by", "axes", "mode"}
    assert {each.domain for each in model.opset_import} == {"", "mine"}


def test_functions_that_cannot_be_registered_or_used(library: Any) -> None:
    from rushlight.onnx.symbolic_helper import parse_args

    for name in ("lifted", "onnx::Add", "prim::Constant", "a::b c"):
        with pytest.raises(ValueError, match="Failed to register operator"):
            torch.onnx.register_custom_op_symbolic(name, lambda g, x: x, 11)
    with pytest.raises(ValueError, match="'w'"):
        parse_args("w")
    for function, message in (
        (lambda g, x, *rest: (x, x), "does not give 1 results"),
        (parse_args("v", "i", "is", "s")(lambda g, x, *rest: x), "the same in every call"),
    ):
        torch.onnx.register_custom_op_symbolic("onnx_test::lifted", function, 11)
        with pytest.raises(torch.onnx.OnnxExporterError, match=message):
            torch.onnx.export(Function(lambda x: library.lifted(x, 2.5, [1])), (randn(3, 4),))
