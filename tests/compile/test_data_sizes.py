"""Sizes that are data: one compilation with fullgraph=True serves every count, with the results of eager code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import rushlight as rl
import rushlight.nn.functional as F
from rushlight import nn, optim
from rushlight.capture.errors import CaptureError, Problem
from rushlight.compiler import pipeline
from rushlight.core.marks import mark_unbacked
from rushlight.runtime import redzones

COUNT = 48
Program = Callable[[Any], Any]


def inputs() -> list[rl.Tensor]:
    """Of which many, all, one and none are positive."""
    generator = rl.Generator().manual_seed(0)
    random = [rl.randn(COUNT, generator=generator) for _ in range(2)]
    one = rl.cat([-rl.ones(5), rl.full((1,), 1.5), -rl.ones(COUNT - 6)])
    return [*random, rl.ones(COUNT), one, -rl.ones(COUNT)]


def matrices() -> list[rl.Tensor]:
    return [x.reshape(6, 8) for x in inputs()]


def positive(x: rl.Tensor) -> int:
    found: int = (x > 0).sum().item()
    return found


def filled(x: rl.Tensor, part: slice, value: float) -> rl.Tensor:
    y = x.clone()
    y[part] = value
    return y


def doubled_where_positive(x: rl.Tensor) -> rl.Tensor:
    y = x * 1
    y[y > 0] = y[y > 0] * 2
    return y


WEIGHT = rl.linspace(-1, 1, 40).reshape(8, 5)

# Of a vector.
VECTORS: dict[str, Program] = {
    # the operators themselves
    "x[x > 0]": lambda x: x[x > 0],
    "nonzero": lambda x: (x > 0).nonzero(),
    "nonzero as tuple": lambda x: x[(x > 0).nonzero(as_tuple=True)],
    "argwhere": lambda x: rl.argwhere(x > 0) * 2,
    "masked_select": lambda x: x.masked_select(x > 0.3) * 3,
    "masked_scatter": lambda x: x.masked_scatter(x > 0, x[x > 0].flip(0)),
    "item of an int": lambda x: x * positive(x),
    "item of a float": lambda x: x * x.sum().item(),
    "arithmetic with items": lambda x: x * (x.sum().item() * 2 + 1) - x.max().item() / 2,
    "items returned": lambda x: (positive(x), positive(x) * 2 + 1, x),
    "alpha": lambda x: rl.add(x, x, alpha=x.sum().item()),
    "up to": lambda x: x[: positive(x)].sin(),
    "from": lambda x: x[positive(x) :] * 2,
    "from the end": lambda x: x[-positive(x) :] * 2,
    "every second": lambda x: x[1 : positive(x) : 2] * 2,
    "up to a tensor": lambda x: x[: (x > 0).sum()] * 2,
    "at an item": lambda x: x[positive(x) - 1] * 2,
    "at a tensor": lambda x: x[(x > 0).sum() - 1] * 2,
    "arange": lambda x: rl.arange(positive(x)) * 2.5 + x.sum(),
    "arange in steps": lambda x: rl.arange(1, positive(x) + 1, 2) * x.sum(),
    "full": lambda x: rl.full((positive(x),), 3.0) * x.sum(),
    "repeat_interleave": lambda x: x.repeat_interleave((x > 0).long() * 2),
    "repeats alone": lambda x: rl.repeat_interleave((x > 0).long()),
    "tensor_split": lambda x: [p * 2 for p in x.tensor_split((x > 0).sum() // rl.tensor([2, 1]))],
    "split": lambda x: [p * 2 for p in x.split([positive(x), COUNT - positive(x)])],
    "narrow": lambda x: x.narrow(0, positive(x) // 2, 3) * 2,
    "narrow from a tensor": lambda x: x.narrow(0, (x > 0).sum() // 2, 3) * 2,
    "one_hot": lambda x: F.one_hot((x.abs() * 3).long()) * x[:, None],
    "unique": lambda x: (x * 2).round().unique() * 2,
    "unique with inverse and counts": lambda x: (
        (x * 2).round().unique(return_inverse=True, return_counts=True)
    ),
    "unique_consecutive": lambda x: (x * 2).round().unique_consecutive() * 2,
    "tolist": lambda x: x[: (x > 0).sum().reshape(1).tolist()[0]] + 1,
    # what comes after them
    "sum": lambda x: x[x > 0].sum(),
    "pointwise": lambda x: x[x > 0].exp() * 2 + 1,
    "mean": lambda x: x[x > 0].mean(),
    "variance": lambda x: x[x > 0].var(),
    "norm": lambda x: x[x > 0].norm(),
    "product": lambda x: x[x > 0].prod(),
    "softmax": lambda x: x[x > 0].softmax(0),
    "running sum": lambda x: x[x > 0].cumsum(0),
    "logsumexp": lambda x: x[x > 0].logsumexp(0),
    "any": lambda x: (x[x > 0] > 1).any(),
    "number of elements": lambda x: x * x[x > 0].numel(),
    "half of a size": lambda x: x * (x[x > 0].shape[0] / 2),
    "mean by hand": lambda x: x.sum() / (x[x > 0].shape[0] + 1),
    "twice": lambda x: x[x > 0][x[x > 0] < 1],
    "again by positions": lambda x: x[(x > 0).nonzero().squeeze(1)],
    "cat": lambda x: rl.cat([x[x > 0], x[x <= 0]]) * 2,
    "cat with a whole": lambda x: rl.cat([x[x > 0], x]) * 2,
    "stack": lambda x: rl.stack([x[x > 0], x[x > 0] * 2]),
    "pad": lambda x: F.pad(x[x > 0], (1, 2)),
    "flip": lambda x: x[x > 0].flip(0),
    "roll": lambda x: x[x > 0].roll(1) * 2,
    "differences": lambda x: x[x > 0].diff(),
    "repeat": lambda x: x[x > 0].repeat(2),
    "repeat so often": lambda x: x[:4].repeat(positive(x)),
    "expand": lambda x: x[:1].expand(positive(x)) * 2,
    "view": lambda x: x[x > 0].view(-1, 1).expand(-1, 3) + 1,
    "view of pairs": lambda x: x[: 2 * (positive(x) // 2)].view(-1, 2).sum(1),
    "outer product": lambda x: x[x > 0][:, None] * x[x > 0][None, :],
    "where": lambda x: rl.where(x[x > 0] > 0.5, x[x > 0], 0),
    "scatter": lambda x: rl.zeros(COUNT).scatter(0, (x > 0).nonzero()[:, 0], x[x > 0]),
    "index_put": lambda x: x.clone().index_put((x > 0,), x[x > 0] * 2),
    "assignment to a mask": doubled_where_positive,
    "assignment to a slice": lambda x: filled(x, slice(positive(x)), 3.0),
    "loss": lambda x: F.mse_loss(x[x > 0], rl.zeros_like(x[x > 0])),
    "several": lambda x: (x[x > 0] * 2, (x > 0).nonzero(), x.sum()),
}

# Of a matrix.
MATRICES: dict[str, Program] = {
    "mask of all": lambda x: x[x > 0] + 1,
    "positions": lambda x: (x > 0).nonzero(),
    "rows": lambda x: x[x[:, 0] > 0] * 2,
    "columns": lambda x: x[:, x[0] > 0] * 2,
    "rows and a column": lambda x: x[x[:, 0] > 0, 2] * 2,
    "sum of rows": lambda x: x[x[:, 0] > 0].sum(1),
    "sum over rows": lambda x: x[x[:, 0] > 0].sum(0),
    "mean over rows": lambda x: x[x[:, 0] > 0].mean(0),
    "largest of rows": lambda x: x[x[:, 0] > 0].amax(1),
    "softmax of rows": lambda x: x[x[:, 0] > 0].softmax(-1),
    "softmax over rows": lambda x: x[x[:, 0] > 0].softmax(0),
    "layer norm": lambda x: F.layer_norm(x[x[:, 0] > 0], (8,)),
    "linear": lambda x: F.gelu(x[x[:, 0] > 0] @ WEIGHT + 1),
    "product of rows": lambda x: x[x[:, 0] > 0].t() @ x[x[:, 0] > 0],
    "product of columns": lambda x: x[:, x[0] > 0] @ x[:, x[0] > 0].t(),
    "attention": lambda x: F.scaled_dot_product_attention(*[x[None, x[:, 0] > 0]] * 3),
    "cross entropy": lambda x: F.cross_entropy(x[x[:, 0] > -9], rl.arange(6)),
    "cross entropy of some": lambda x: F.cross_entropy(x[x[:, 0] > 0], rl.arange(6)[x[:, 0] > 0]),
    "embedding": lambda x: F.embedding((x > 0).nonzero()[:, 0], x),
    "repeated rows": lambda x: x.repeat_interleave((x[:, 0] > 0).long(), 0) * 2,
    "index_add": lambda x: rl.zeros(6, 8).index_add(0, (x[:, 0] > 0).nonzero()[:, 0], x[x[:, 0] > 0]),
    "halves": lambda x: x[x[:, 0] > 0][:, :4] * x[x[:, 0] > 0][:, 4:],
    "transpose": lambda x: x[x[:, 0] > 0].t() + 1,
    "cat of rows": lambda x: rl.cat([x[x[:, 0] > 0], x]) * 2,
}

# What has no form for every size: a piece of it is compiled for numbers, where the numbers are such.
ANEW = dict.fromkeys(("product of rows", "product of columns", "attention"), "a product without terms")
CASES = [
    *[pytest.param(name, program, inputs, id=name) for name, program in VECTORS.items()],
    *[pytest.param(name, program, matrices, id=name) for name, program in MATRICES.items()],
]


@pytest.fixture
def compiled_graphs(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The programs that are compiled, one after the other."""
    graphs: list[Any] = []
    before = pipeline.compile_graph

    def counted(graph: Any, **options: Any) -> Any:
        graphs.append(graph)
        return before(graph, **options)

    monkeypatch.setattr(pipeline, "compile_graph", counted)
    return graphs


def tensors_of(result: Any) -> list[Any]:
    return [part for r in result for part in tensors_of(r)] if isinstance(result, list | tuple) else [result]


def same(found: Any, expected: Any) -> None:
    for a, b in zip(tensors_of(found), tensors_of(expected), strict=True):
        assert type(a) is type(b)
        if not isinstance(b, rl.Tensor):
            assert a == b
            continue
        assert (a.dtype, a.shape, a.requires_grad) == (b.dtype, b.shape, b.requires_grad)
        rl.testing.assert_close(a, b, rtol=1e-4, atol=1e-5, equal_nan=True)
        told = [d for d, n in enumerate(b.shape) if n > 1 and b.numel()]
        assert [a.stride(d) for d in told] == [b.stride(d) for d in told]


def outcome(program: Program, x: rl.Tensor) -> Any:
    """What a program returns, and the gradient of the sum of squares of that; or its error."""
    x = x.clone().requires_grad_()
    try:
        results = program(x)
    except (RuntimeError, IndexError) as error:
        return type(error)
    squares = [(r * r).sum() for r in tensors_of(results) if isinstance(r, rl.Tensor) and r.requires_grad]
    if squares:
        rl.stack([s.float() for s in squares]).sum().backward()
    return results, x.grad


@pytest.mark.filterwarnings("ignore:var.*degrees of freedom")  # of eager code
@pytest.mark.parametrize(("name", "program", "given"), CASES)
def test_values_and_gradients(name: str, program: Program, given: Any, compiled_graphs: list[Any]) -> None:
    compiled = rl.compile(program, fullgraph=True)
    for i, x in enumerate(given()):
        expected, found = outcome(program, x), outcome(compiled, x)
        if isinstance(expected, type):
            assert found is expected
            continue
        same(found[0], expected[0])
        assert (found[1] is None) == (expected[1] is None)
        if expected[1] is not None:
            rl.testing.assert_close(found[1], expected[1], rtol=1e-4, atol=1e-5, equal_nan=True)
        if i == 0:
            first = len(compiled_graphs)
    assert compiled.reasons == ["first call"]
    assert (len(compiled_graphs) > first) == (name in ANEW)


INSIDE = [
    "x[x > 0]",
    "masked_select",
    "up to",
    "at an item",
    "repeat_interleave",
    "tensor_split",
    "unique",
    "cat",
    "view of pairs",
    "assignment to a mask",
    "softmax",
    "item of a float",
]


@pytest.mark.parametrize("name", INSIDE)
def test_gradients_inside_of_the_program(name: str, compiled_graphs: list[Any]) -> None:
    def gradient(x: rl.Tensor) -> Any:
        loss = rl.stack([(r * r).sum() for r in tensors_of(VECTORS[name](x))]).sum()
        return loss.detach(), rl.autograd.grad(loss, x)[0]

    compiled = rl.compile(gradient, fullgraph=True)
    for i, x in enumerate(inputs()):
        leaf = x.requires_grad_()
        for a, b in zip(compiled(leaf), gradient(leaf), strict=True):
            rl.testing.assert_close(a, b, rtol=1e-4, atol=1e-5, equal_nan=True)
        if i == 0:
            first = len(compiled_graphs)
    assert compiled.reasons == ["first call"]
    assert len(compiled_graphs) == first


def test_a_training_step() -> None:
    """Forward, backward and optimizer over the examples that a mask selects, none of them in some steps."""

    def losses(compiled: bool) -> tuple[list[float], list[rl.Tensor]]:
        rl.manual_seed(0)
        model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
        optimizer = optim.AdamW(model.parameters(), lr=0.05)

        def step(x: rl.Tensor, target: rl.Tensor) -> rl.Tensor:
            optimizer.zero_grad()
            kept = target >= 0
            loss = F.cross_entropy(model(x[kept]), target[kept], reduction="sum") / (kept.sum().item() + 1)
            loss.backward()
            optimizer.step()
            return loss.detach()

        run = rl.compile(step, fullgraph=True) if compiled else step
        found = []
        for k in range(6):
            target = rl.randint(-1 if k % 3 else -3, 3 if k % 3 else 0, (10,))
            found.append(run(rl.randn(10, 6), target).item())
        if compiled:
            assert run.reasons == ["first call"]
        return found, list(model.parameters())

    (found, weights), (expected, others) = losses(True), losses(False)
    assert 0.0 in expected
    assert found == pytest.approx(expected, rel=1e-4)
    for a, b in zip(weights, others, strict=True):
        rl.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["x[x > 0]", "up to", "cat", "tensor_split", "pad"])
def test_beside_sizes_that_change(name: str) -> None:
    compiled = rl.compile(VECTORS[name], fullgraph=True, dynamic=True)
    for n in (48, 17, 300, 49):
        for x in (rl.randn(n), -rl.ones(n)):
            same(compiled(x), VECTORS[name](x))
    assert compiled.reasons == ["first call"]


@pytest.mark.parametrize("name", ["x[x > 0]", "nonzero", "up to", "cat", "pad", "running sum", "one_hot"])
def test_memory_is_left_alone(name: str) -> None:
    compiled = rl.compile(VECTORS[name], fullgraph=True)
    with redzones.guarding():
        for x in inputs():
            same(compiled(x), VECTORS[name](x))


def test_large_inputs_run_in_several_tasks() -> None:
    compiled = rl.compile(lambda x: (x[x > 0] * 2).exp().sum() + x[x > 0].softmax(0).max(), fullgraph=True)
    for seed, shift in enumerate((0.0, 3.0, -3.0, -9.0)):
        rl.manual_seed(seed)
        x = rl.randn(300_000) + shift
        chosen = x[x > 0]
        if chosen.numel():
            expected = (chosen * 2).exp().sum() + chosen.softmax(0).max()
            rl.testing.assert_close(compiled(x), expected, rtol=1e-3, atol=1e-3)
        else:
            with pytest.raises(RuntimeError, match="max"):
                compiled(x)
    assert compiled.reasons == ["first call"]


# What a program may ask, and say.


def test_a_question_that_data_decides() -> None:
    def chosen(x: rl.Tensor) -> rl.Tensor:
        n = (x > 0).sum().item()
        if n > 2:  # <-
            return x
        return -x

    with pytest.raises(CaptureError, match=r"u0 is the number that item\(\) reads") as found:
        rl.compile(chosen, fullgraph=True)(rl.ones(3))
    assert found.value.problem is Problem.SIZE_FROM_DATA
    assert "_check" in str(found.value)
    assert "# <-" in str(found.value)
    compiled = rl.compile(chosen)  # runs eagerly
    assert compiled(rl.ones(3)).tolist() == [1, 1, 1]
    assert compiled(rl.ones(2)).tolist() == [-1, -1]


@pytest.mark.parametrize(
    "question",
    [
        lambda n: n == 0,
        lambda n: n < 2,
        lambda n: list(range(n)),
        lambda n: int(n) + 1,
        lambda n: {n: 1},
        lambda n: [1, 2, 3][n],
    ],
)
def test_no_answer_is_made_up(question: Callable[[int], Any]) -> None:
    with pytest.raises(CaptureError, match="known only when it runs"):
        rl.compile(lambda x: (bool(question(x[x > 0].shape[0])), x)[1], fullgraph=True)(rl.ones(3))


def test_what_follows_is_answered() -> None:
    def program(x: rl.Tensor) -> rl.Tensor:
        chosen = x[x > 0]
        n = chosen.shape[0]
        answers.append((n >= 0, n <= x.shape[0], n * 2 == n + n, n != n + 1, 2 * n < n))
        return chosen.reshape(n, 1).expand(n, 2).reshape(2 * n)

    answers: list[Any] = []
    for x in inputs():
        program(x)
    assert set(answers) == {(True, True, True, True, False)}
    rl.compile(program, fullgraph=True)(inputs()[0])
    assert answers[-1] == (True, True, True, True, False)


def test_check_narrows_and_is_checked() -> None:
    def program(x: rl.Tensor, n: rl.Tensor) -> rl.Tensor:
        k = n.item()
        rl._check_is_size(k)
        rl._check(k <= x.shape[0], lambda: f"{k} is too many")
        return x[:k] + rl.arange(k) if x[:k].shape[0] == k else x  # which is known now

    compiled = rl.compile(program, fullgraph=True)
    x = rl.randn(5)
    for k in (3, 0, 5, 1):
        same(compiled(x, rl.tensor(k)), program(x, rl.tensor(k)))
    for k in (-1, 6):
        with pytest.raises(RuntimeError) as expected:
            program(x, rl.tensor(k))
        with pytest.raises(RuntimeError) as found:
            compiled(x, rl.tensor(k))
        assert str(found.value).partition(";")[0] == str(expected.value).partition(";")[0]
    assert compiled.reasons == ["first call"]


def test_an_error_leaves_nothing_behind() -> None:
    def program(x: rl.Tensor, n: rl.Tensor) -> rl.Tensor:
        x.mul_(2)
        return x[n.item()]

    compiled = rl.compile(program, fullgraph=True)
    x = rl.ones(4)
    assert compiled(x, rl.tensor(-4)).item() == 2
    with pytest.raises(IndexError, match="index 4 is out of bounds for dimension 0 with size 4"):
        compiled(x, rl.tensor(4))
    assert x.tolist() == [2, 2, 2, 2]


@pytest.mark.parametrize(
    ("program", "error"),
    [
        (lambda x: x[x > 9].amax(), RuntimeError),
        (lambda x: x[x > 9].argmax(), IndexError),
        (lambda x: x[x > 9].reshape(-1, 2).amax(0), IndexError),
        (lambda x: x[x > 9].norm(float("inf")), RuntimeError),
        (lambda x: x[x > 9][0], IndexError),
        (lambda x: x[x > 9] + rl.ones(3), RuntimeError),
        (lambda x: x.repeat_interleave(-(x > -9).long()), RuntimeError),
        (lambda x: rl.arange(-(x > -9).sum().item()), RuntimeError),
        (lambda x: rl.zeros(-(x > -9).sum().item()), RuntimeError),
        (lambda x: 1 / x[x > 9].shape[0], ZeroDivisionError),
    ],
)
def test_errors_of_empty_and_negative_sizes(program: Program, error: type[Exception]) -> None:
    for run in (program, rl.compile(program, fullgraph=True)):
        with pytest.raises(error):
            run(rl.arange(4.0))


def test_sym_functions() -> None:
    def program(x: rl.Tensor, y: rl.Tensor) -> Any:
        a, b, n = x.shape[0], y.shape[0], (x > 0).sum().item()
        return (
            rl.ones(rl.sym_max(a, b), rl.sym_min(a, b)) * x.sum(),
            rl.arange(rl.sym_max(n, 2)) + rl.sym_min(n, 2),
            rl.sym_ite(n > 2, n, 2) + rl.sym_sum([n, a, 1]),
            rl.sym_ite(rl.sym_not(n > 2), n, 2),
            x * rl.sym_float(n) + rl.sym_sqrt(a),
            rl.sym_int(n),
            rl.ops.aten.sym_size.int(x, 0) * 2,
        )

    compiled = rl.compile(program, fullgraph=True, dynamic=True)
    for a, b in ((40, 50), (50, 40), (20, 90), (90, 20)):
        for sign in (1, -1):
            x, y = sign * rl.ones(a), rl.ones(b)
            same(compiled(x, y), program(x, y))
    assert compiled.reasons == ["first call"]


def test_mark_unbacked() -> None:
    def program(x: rl.Tensor) -> rl.Tensor:
        return (x * 2).sum(0) + x.shape[0]

    compiled = rl.compile(program, fullgraph=True)
    for n in (4, 0, 1, 7):
        x = rl.randn(n, 3)
        mark_unbacked(x, 0, max=7)
        same(compiled(x), program(x))
    assert compiled.reasons == ["first call"]
    x = rl.randn(8, 3)
    mark_unbacked(x, 0, max=7)
    with pytest.raises(RuntimeError, match="must not be more than 7"):
        compiled(x)
    with pytest.raises(CaptureError, match=r"argument 0.shape\[0\]"):
        rl.compile(lambda x: x if x.shape[0] > 3 else -x, fullgraph=True)(x)


def test_the_same_program_comes_from_the_cache(compiled_graphs: list[Any]) -> None:
    def program(x: rl.Tensor) -> rl.Tensor:
        return x[x > 0].sin() * 3

    for _ in range(2):  # the second finds what the first compiled
        compiled = rl.compile(program, fullgraph=True)
        for x in inputs():
            same(compiled(x), program(x))
    assert len(compiled_graphs) == 4  # two pieces each


def test_views_of_arguments_share_their_memory() -> None:
    compiled = rl.compile(lambda x, n: x[: n.item()], fullgraph=True)
    x = rl.zeros(5)
    for n in (3, 0, 5):
        view = compiled(x, rl.tensor(n))
        assert view.shape == (n,)
        view += 1
    assert x.tolist() == [2, 2, 2, 1, 1]


def test_a_mask_over_one_element() -> None:
    program = rl.compile(lambda x: x[x > 0].sum(), fullgraph=True)
    for given in ([1.0, -1.0, 2.0], [-1.0], [3.0], [1.0, 2.0]):
        x = rl.tensor(given)
        assert program(x) == x[x > 0].sum()
