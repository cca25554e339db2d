"""Joining, reordering, repeating, padding: special shapes, layouts, dtypes, error types, against PyTorch."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
import torch

import rushlight
from rushlight.core.dispatch import run_name
from rushlight.ops.shape import lower_count
from rushlight.testing.side_by_side import assert_same


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # meshgrid without indexing=, out= of another size
        yield


def ramp(T, *shape, dtype="float32"):
    return T.from_numpy(np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype).copy())


JOINED = [
    "T.cat([x, x])",
    "T.cat([x, x], 1)",
    "T.cat([x, x], -1)",
    "T.cat([x, x], 5)",
    "T.cat([])",
    "T.cat([x])",
    "T.cat([x, T.zeros(0)])",
    "T.cat([T.zeros(0), x], -1)",
    "T.cat([T.zeros(0), T.zeros(0)], 3)",
    "T.cat([x, x.long()])",
    "T.cat([x.bool(), x.half()])",
    "T.cat([x, x * 1j])",
    "T.cat([x, T.zeros(5, 5)])",
    "T.cat([x, T.tensor(1.)])",
    "T.cat((x, x), dim=0)",
    "T.concat([x, x])",
    "T.concatenate([x, x], axis=0)",
    "T.stack([x, x])",
    "T.stack([x, x], -1)",
    "T.stack([x, x], 6)",
    "T.stack([])",
    "T.stack([x, T.zeros(7)])",
    "T.hstack([x, x])",
    "T.vstack([x, x])",
    "T.row_stack([x, x])",
    "T.dstack([x, x])",
    "T.column_stack([x, x])",
    "T.hstack([])",
    "T.column_stack([x, T.zeros(3, 3)])",
    "T.block_diag(x, x)",
    "T.block_diag(x, T.ones(2).long())",
    "T.cat([x, x], out=T.empty(0))",
    "T.cat([x, x], out=T.empty(0, dtype=T.float64))",
    "T.stack([x, x], out=T.empty(0))",
]
REORDERED = [
    "x.flip(0)",
    "x.flip((0, -1))",
    "x.flip(())",
    "x.flip(0, 0)",
    "x.flip(5)",
    "x.fliplr()",
    "x.flipud()",
    "x.roll(1)",
    "x.roll(-1, 0)",
    "x.roll((1, 2), (0, 1))",
    "x.roll(100, -1)",
    "x.roll((1, 2))",
    "x.roll((1,), (0, 1))",
    "x.roll(1, 5)",
    "x.roll((), ())",
    "x.rot90()",
    "x.rot90(2)",
    "x.rot90(3, (0, -1))",
    "x.rot90(-1)",
    "x.rot90(1, (0, 0))",
    "x.rot90(1, (0, 5))",
    "x.rot90(4)",
    "x.rot90(1, (0,))",
    "x.tril()",
    "x.triu()",
    "x.tril(1)",
    "x.triu(-1)",
    "x.tril(10**12)",
    "x.triu(-10**12)",
    "x.clone().tril_(-1)",
    "x.clone().triu_()",
]
REPEATED = [
    "x.repeat(2)",
    "x.repeat(2, 3)",
    "x.repeat(1, 2, 1, 2)",
    "x.repeat(0, 1, 1)",
    "x.repeat(-1, 1, 1)",
    "x.repeat(())",
    "x.tile(2)",
    "x.tile((2, 1))",
    "x.tile(())",
    "x.tile((1, 1, 1, 2))",
    "x.repeat_interleave(2)",
    "x.repeat_interleave(2, 0)",
    "x.repeat_interleave(0, -1)",
    "x.repeat_interleave(-1)",
    "x.repeat_interleave(2, 5)",
    "x.repeat_interleave(T.tensor([2]), 0)",
    "x.repeat_interleave(T.tensor(3))",
    "x.repeat_interleave(T.tensor([1, 2]), 0)",
    "x.repeat_interleave(T.tensor([1, 2, 3]), dim=0)",
    "x.repeat_interleave(T.tensor([[1, 2]]), 0)",
    "x.repeat_interleave(T.tensor([1., 2.]), 0)",
    "x.repeat_interleave(T.tensor([1, -2]), 0)",
    "x.repeat_interleave(2, 0, output_size=4)",
    "x.repeat_interleave(2, 0, output_size=5)",
    "x.repeat_interleave(T.tensor([1, 2]), 0, output_size=3)",
]
DIAGONALS = [
    "x.diag()",
    "x.diag(1)",
    "x.diag(-1)",
    "x.diag(9)",
    "x.diagflat()",
    "x.diagflat(-1)",
    "T.diag_embed(x)",
    "T.diag_embed(x, 1)",
    "T.diag_embed(x, -1, 0, 2)",
    "T.diag_embed(x, 0, 1, 1)",
    "T.diag_embed(x, 0, 0, 9)",
    "T.diag(x, out=T.empty(0))",
]
GRIDS = [
    "T.meshgrid(x, x)",
    "T.meshgrid(x, indexing='ij')",
    "T.meshgrid([x, x], indexing='xy')",
    "T.meshgrid(x, T.tensor(1.), indexing='xy')",
    "T.meshgrid(x, x, x, indexing='xy')",
    "T.meshgrid(x, x.long())",
    "T.meshgrid(x, indexing='no')",
    "T.meshgrid()",
    "T.cartesian_prod(x)",
    "T.cartesian_prod(x, x)",
    "T.combinations(x)",
    "T.combinations(x, 3)",
    "T.combinations(x, 0)",
    "T.combinations(x, -1)",
    "T.combinations(x, 2, True)",
    "T.combinations(x, 9)",
    "T.broadcast_tensors(x, x.unsqueeze(0))",
    "T.broadcast_tensors(x, T.zeros(7))",
    "T.broadcast_tensors(x)",
    "T.unravel_index(x.long(), (3, 2, 5))",
    "T.unravel_index(x.long(), 7)",
    "T.unravel_index(x, 7)",
    "T.unravel_index(x.long(), (2.0,))",
    "T.unravel_index(x.long(), (-2,))",
    "T.unravel_index(x.long(), 'a')",
]
SHUFFLED = [
    "T.pixel_shuffle(x, 2)",
    "T.pixel_shuffle(x, 1)",
    "T.pixel_shuffle(x, 0)",
    "T.pixel_unshuffle(x, 2)",
    "T.pixel_unshuffle(x, 1)",
    "T.pixel_unshuffle(x, 3)",
    "T.channel_shuffle(x, 2)",
    "T.channel_shuffle(x, 1)",
    "T.channel_shuffle(x, 3)",
    "T.channel_shuffle(x, 0)",
]
BASES = {
    "0-d": lambda T: T.tensor(3.0),
    "vector": lambda T: ramp(T, 4),
    "pair": lambda T: ramp(T, 2),
    "matrix": lambda T: ramp(T, 2, 3),
    "transposed": lambda T: ramp(T, 3, 2).t(),
    "cube": lambda T: ramp(T, 2, 3, 4),
    "part": lambda T: ramp(T, 4, 4, 6)[::2, 1:3, ::2],
    "empty": lambda T: T.zeros(2, 0),
    "nothing": lambda T: T.zeros(0),
    "expanded": lambda T: ramp(T, 3).expand(2, 3),
}
IMAGES = {
    "image": lambda T: ramp(T, 2, 4, 4, 6),
    "channels last": lambda T: ramp(T, 2, 4, 4, 6).contiguous(memory_format=T.channels_last),
    "one channel": lambda T: ramp(T, 2, 1, 4, 4),
    "unbatched": lambda T: ramp(T, 4, 2, 4),
    "flat": lambda T: ramp(T, 4, 2),
    "no images": lambda T: T.zeros(0, 4, 4, 4),
}


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("expression", JOINED + REORDERED + REPEATED + DIAGONALS + GRIDS)
def test_same_as_torch(expression, base):
    assert_same(lambda T: eval(expression, {"T": T, "x": BASES[base](T)}), fresh=True)


@pytest.mark.parametrize("base", IMAGES)
@pytest.mark.parametrize(
    "expression",
    SHUFFLED
    + [
        "T.cat([x, x], 1)",
        "T.stack([x, x])",
        "x.flip(1)",
        "x.roll(1, 1)",
        "x.roll(1)",
        "x.rot90()",
        "T.cat([x, x.contiguous()])",
    ],
)
def test_images(expression, base):
    if expression == "T.pixel_unshuffle(x, 2)" and base == "no images":
        return  # PyTorch returns the shape of the input
    assert_same(lambda T: eval(expression, {"T": T, "x": IMAGES[base](T)}), fresh=True)


# --- padding -----------------------------------------------------------------------------------------


def padded(T, x, pad, mode, value):
    if T is torch:
        return torch.nn.functional.pad(x, pad, mode, value)
    return run_name("pad", x, pad, mode, value)


PADS = [
    (1, 2),
    (0, 0),
    (-1, 2),
    (2, -1),
    (-1, -1),
    (3, 3),
    (1, 1, 2, 0),
    (1, 0, -1, 2),
    (0, 1, 1, 1, 1, 1),
    (9, 0),
    (-3, -3),
    (1,),
    (),
]
PADDED = ["cube", "matrix", "part", "vector", "empty", "image", "channels last", "one channel"]


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular", "nonsense"])
@pytest.mark.parametrize("pad", PADS, ids=str)
@pytest.mark.parametrize("base", PADDED)
def test_padding(base, pad, mode):
    make = {**BASES, **IMAGES}[base]
    assert_same(lambda T: padded(T, make(T), pad, mode, None), fresh=True)


@pytest.mark.parametrize("value", [0, 1.5, float("nan"), float("inf"), -3])
@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "uint8", "float16"])
def test_padding_value(dtype, value):
    assert_same(lambda T: T.constant_pad_nd(ramp(T, 2, 3).to(getattr(T, dtype)), (1, 0, 0, 1), value))


@pytest.mark.parametrize("mode", ["reflection", "replication"])
@pytest.mark.parametrize(
    "pad", [(1, 2), (-1, 2), (0, 0), (2, 1, 1, 1), (1, -1, 0, 2), (1, 1, 1, 0, 1, 1)], ids=str
)
def test_border_padding_backward(pad, mode):
    dims = len(pad) // 2
    name = f"{mode}_pad{dims}d"
    shape = (2, 3, 4, 3, 4)[-dims - 2 :]
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    given = torch.from_numpy(x).requires_grad_()
    out = getattr(torch.ops.aten, name)(given, pad)
    grad = torch.arange(out.numel(), dtype=torch.float32).reshape(out.shape)
    out.backward(grad)
    mine = run_name(f"{name}_backward", rushlight.from_numpy(grad.numpy()), rushlight.from_numpy(x), pad)
    np.testing.assert_allclose(mine.numpy(), given.grad.numpy(), rtol=1e-6)


@pytest.mark.parametrize("side", ["left", "right", "up"])
@pytest.mark.parametrize("batch_first", [True, False])
def test_pad_sequence(batch_first, side):
    def run(T):
        sequences = [ramp(T, 3, 2), ramp(T, 1, 2), ramp(T, 0, 2)]
        if T is torch:
            return torch.nn.utils.rnn.pad_sequence(sequences, batch_first, 7.5, side)
        return run_name("pad_sequence", tuple(sequences), batch_first, 7.5, side)

    assert_same(run, fresh=True)


# --- triangles ---------------------------------------------------------------------------------------


def test_triangle_indices():
    for rows, cols, offset in itertools.product((0, 1, 3, 5), (0, 1, 4), range(-6, 7)):
        for name in ("tril_indices", "triu_indices"):
            expected = getattr(torch, name)(rows, cols, offset)
            assert getattr(rushlight, name)(rows, cols, offset).tolist() == expected.tolist()
            meta = getattr(rushlight, name)(rows, cols, offset, device="meta")
            assert tuple(meta.shape) == tuple(expected.shape)


def test_lower_count_counts():
    for rows, cols, offset in itertools.product(range(6), range(6), range(-8, 9)):
        counted = sum(j <= i + offset for i in range(rows) for j in range(cols))
        assert lower_count(rows, cols, offset) == counted


@pytest.mark.parametrize("arguments", ["(-1, 2)", "(2, -1)", "(2, 2, dtype=T.int32)", "(2, 2, 0)"])
def test_triangle_indices_arguments(arguments):
    assert_same(lambda T: eval(f"T.tril_indices{arguments}", {"T": T}))
    assert_same(lambda T: eval(f"T.triu_indices{arguments}", {"T": T}))


# --- others ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "shapes", [((2,), (3, 1), (1, 1, 1)), (), ((2,), (3,)), (4, (3, 1)), ((0,), (1,)), ((-1,), (2,))]
)
def test_broadcast_shapes(shapes):
    assert_same(lambda T: tuple(T.broadcast_shapes(*shapes)))


def test_chunk_cat():
    for dim, chunks in itertools.product((0, 1), (1, 2, 3)):
        assert_same(lambda T: T._chunk_cat([ramp(T, 4, 5), ramp(T, 4, 2, 3)], dim, chunks))
    assert_same(lambda T: T._chunk_cat([], 0, 1))
    assert_same(lambda T: T._chunk_cat([ramp(T, 2), ramp(T, 2).long()], 0, 1))
    assert_same(lambda T: T._chunk_cat([ramp(T, 2)], 0, 0))


DTYPES = ["bool", "uint8", "int16", "int64", "float16", "bfloat16", "float64", "complex64"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "expression",
    [
        "T.cat([x, x])",
        "x.flip(0)",
        "x.roll(1, 0)",
        "x.tril()",
        "x.repeat(2, 1)",
        "T.constant_pad_nd(x, (1, 1), 1)",
        "T.diag_embed(x)",
        "T.stack([x, x])",
        "x.repeat_interleave(2, 1)",
        "T.select_scatter(x, x[0], 0, 1)",
    ],
)
def test_dtypes(expression, dtype):
    assert_same(lambda T: eval(expression, {"T": T, "x": ramp(T, 3, 3).to(getattr(T, dtype))}))


def test_results_share_no_memory():
    x = ramp(rushlight, 3, 3)
    for result in (
        rushlight.cat([x]),
        x.flip(()),
        x.roll(0, 0),
        x.tril(9),
        x.repeat(1, 1),
        x.tile(()),
        x.repeat_interleave(1, 0),
        rushlight.constant_pad_nd(x, (0, 0)),
        x.rot90(0),
        x.diag(),
        run_name("pad", x, (0, 0), "circular", None),
        rushlight.pixel_shuffle(x.view(1, 3, 3), 1),
    ):
        result.fill_(-1)
    assert x.sum().item() == 36


def test_error_messages_say_what_is_allowed():
    x = ramp(rushlight, 2, 3)
    with pytest.raises(RuntimeError, match=r"cat: Sizes .* except in dimension 1\. Expected size 2 but got"):
        rushlight.cat([x, rushlight.zeros(4, 3)], 1)
    with pytest.raises(RuntimeError, match=r"stack expects each tensor .* got \[2, 3\] .* \[3\]"):
        rushlight.stack([x, rushlight.zeros(3)])
    with pytest.raises(RuntimeError, match="reflection_pad1d: Padding size should be less than"):
        run_name("reflection_pad1d", x, (3, 0))
