"""Convolutions as products whose left operand is read through windows.

Inside, channels come last. Input and gradients are stored so, with their borders of zeros; then the elements
under one tap of the kernel are rows of a strided matrix, and a whole convolution, its gradient by the input
and its gradient by the weight are each one product, without a copy for every tap. What computes the input is
fused with its storing, and what follows is fused with the product where it keeps the order of the elements.

    result[n, p, o] = sum over taps t and channels c of  x[n, stride p + dilation t, c] * weight[t, c, o]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import gcd, prod

from ..core.dtypes import Category, DType
from ..core.registry import REGISTRY
from ..core.shapes import Spec, contiguous_strides
from ..core.symbols import hint
from ..loops.expr import Expr
from ..loops.kernels import Product
from ..loops.nest import Buffer, Combine
from ..loops.product import Matrix, ProductShape, Windows
from .assemble import Part, assembled, write_part
from .cost import FEW_POSITIONS, FEW_PRODUCTS, LONG_SUM
from .declare import lowering
from .lowered import Indices, Lowered, Lowerer
from .matmul import compute_dtype
from .shape import sliced

Sizes = Sequence[int]


# The products.


def correlated(
    low: Lowerer,
    x: Lowered,
    weight: Lowered,
    stride: Sizes,
    before: Sizes,
    result: Sizes,
    dilation: Sizes,
    groups: int,
) -> Lowered:
    """x [n, c, *space] under weight [o, c / groups, *kernel], as [n, o, *result].

    `before` are zeros in front of x, which may be negative; behind it there are as many as it takes.
    """
    kernel, inside = weight.shape[2:], weight.shape[1]
    sizes = _seen(result, stride, dilation, kernel)
    images, outside = x.shape[0], weight.shape[0] // groups
    if (groups > 1 and inside * outside < FEW_PRODUCTS) or x.dtype.category is Category.INTEGRAL:
        return _summed(low, x, weight, stride, before, result, dilation, groups)
    source = bordered(low, _channels_last(x), before, sizes)
    image, *space, channel = source.strides
    matrix = _stored(
        weight.reindex(
            (groups, *kernel, inside, outside),
            lambda index: (index[0] * outside + index[-1], index[-2], *index[1:-2]),
        )
    )
    taps = [(k, d * along) for k, d, along in zip(kernel, dilation, space, strict=True)]
    depth = inside
    if groups == 1 and dilation[-1] == 1:
        depth, taps = depth * kernel[-1], taps[:-1]  # the last taps and the channels lie one after the other
    positions = [(r, s * along) for r, s, along in zip(result, stride, space, strict=True)]
    points, batch = prod(result), images
    if groups > 1 or points < FEW_POSITIONS:
        positions, points, batch = [(images, image), *positions], points * images, groups
    left = Matrix(0, inside if groups > 1 else image if batch > 1 else 0, 0, channel)
    right = Matrix(0, prod(kernel) * inside * outside if groups > 1 else 0, outside, 1)
    windows = _windows(positions, taps)
    out = _product(
        low,
        source,
        matrix,
        ProductShape(batch, points, outside, prod(kernel) * inside, left, right, x.dtype, windows),
        depth,
    )
    if groups == 1:
        low.permuted.add(out)
        return _channels_first(low.stored(out, (images, *result, outside)))
    found = low.stored(out, (groups, images, *result, outside))
    return found.reindex(
        (images, groups * outside, *result),
        lambda index: (index[1] // outside, index[0], *index[2:], index[1] % outside),
    )


def weight_gradient(
    low: Lowerer,
    x: Lowered,
    grad: Lowered,
    kernel: Sizes,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    groups: int,
) -> Lowered:
    """The gradient by a weight [o, c / groups, *kernel], of x [n, c, *space] and grad [n, o, *result]."""
    result = grad.shape[2:]
    sizes = _seen(result, stride, dilation, kernel)
    images, inside, outside = x.shape[0], x.shape[1] // groups, grad.shape[1] // groups
    if groups > 1 and inside * outside < FEW_PRODUCTS:
        return _summed_weight(low, x, grad, kernel, stride, padding, dilation, groups)
    source = bordered(low, _channels_last(x), padding, sizes)
    image, *space, channel = source.strides
    gradient = _stored(_channels_last(grad))
    steps = [(r, s * along) for r, s, along in zip(result, stride, space, strict=True)]
    rows = [*((k, d * along) for k, d, along in zip(kernel, dilation, space, strict=True)), (inside, channel)]
    batch, taps, terms = groups, [(images, image), *steps[:-1]], images * prod(result)
    left, right = Matrix(0, inside * channel, 0, steps[-1][1]), Matrix(0, outside, grad.shape[1], 1)
    partial = groups == 1 and hint(terms) > LONG_SUM and images > 1
    if partial:
        batch, taps, terms = images, steps[:-1], prod(result)
        left = Matrix(0, image, 0, steps[-1][1])
        right = Matrix(0, terms * outside, outside, 1)
    out = _product(
        low,
        source,
        gradient,
        ProductShape(
            batch, prod(kernel) * inside, outside, terms, left, right, x.dtype, _windows(rows, taps)
        ),
        result[-1],
    )
    found = low.stored(out, (batch, *kernel, inside, outside))
    if partial:
        found = found.reduce((0,), Combine.SUM, True)
    return found.reindex(
        (groups * outside, inside, *kernel),
        lambda index: (index[0] // outside, *index[2:], index[1], index[0] % outside),
    )


def _product(low: Lowerer, left: Lowered, right: Lowered, p: ProductShape, segment: int) -> Buffer:
    """Define a product; `segment` is how many columns of its left operand have one stride."""
    assert left.buffer is not None
    assert right.buffer is not None
    assert p.windows is not None
    assert p.windows.segments * segment == p.depth
    out = low.fresh_buffer(p.dtype, (p.size,))
    low.definitions.append(Product(f"matmul{len(low.definitions)}", p, left.buffer, right.buffer, out))
    return out


def _windows(positions: Sequence[tuple[int, int]], taps: Sequence[tuple[int, int]]) -> Windows:
    return Windows(tuple(positions), tuple(taps) or ((1, 0),))


def _summed(
    low: Lowerer,
    x: Lowered,
    weight: Lowered,
    stride: Sizes,
    before: Sizes,
    result: Sizes,
    dilation: Sizes,
    groups: int,
) -> Lowered:
    """Groups of few channels: a sum for each element, with vectors along the last dimension of space."""
    kernel, inside = weight.shape[2:], weight.shape[1]
    outside, rank = weight.shape[0] // groups, len(kernel)
    sizes = _seen(result, stride, dilation, kernel)
    source = _channels_first(bordered(low, _channels_last(x), before, sizes, channels_last=False))

    def term(index: Indices) -> Expr:
        image, channel, taps = index[0], index[1], index[3 + rank :]
        group = channel // outside
        places = [
            p * s + t * d for p, s, t, d in zip(index[2 : 2 + rank], stride, taps, dilation, strict=True)
        ]
        inner = index[2 + rank]
        return low.recorder.mul(
            source.load((image, group * inside + inner, *places)), weight.load((channel, inner, *taps))
        )

    shape = (x.shape[0], weight.shape[0], *result, inside, *kernel)
    return low.generated(shape, x.dtype, term).reduce(tuple(range(2 + rank, len(shape))), Combine.SUM, False)


def _summed_weight(
    low: Lowerer,
    x: Lowered,
    grad: Lowered,
    kernel: Sizes,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    groups: int,
) -> Lowered:
    result, rank = grad.shape[2:], len(kernel)
    inside, outside = x.shape[1] // groups, grad.shape[1] // groups
    sizes = _seen(result, stride, dilation, kernel)
    source = _channels_first(bordered(low, _channels_last(x), padding, sizes, channels_last=False))
    gradient = grad.cheap()

    def term(index: Indices) -> Expr:
        channel, inner, taps = index[0], index[1], index[2 : 2 + rank]
        image, points = index[2 + rank], index[3 + rank :]
        places = [p * s + t * d for p, s, t, d in zip(points, stride, taps, dilation, strict=True)]
        return low.recorder.mul(
            source.load((image, channel // outside * inside + inner, *places)),
            gradient.load((image, channel, *points)),
        )

    shape = (grad.shape[1], inside, *kernel, x.shape[0], *result)
    return low.generated(shape, x.dtype, term).reduce(tuple(range(2 + rank, len(shape))), Combine.SUM, False)


def _seen(result: Sizes, stride: Sizes, dilation: Sizes, kernel: Sizes) -> list[int]:
    """How much of the input, with its borders, a result of a size is computed from."""
    sizes = zip(result, stride, dilation, kernel, strict=True)
    return [(r - 1) * s + d * (k - 1) + 1 for r, s, d, k in sizes]


# Layout.


def _channels_last(x: Lowered) -> Lowered:
    shape = (x.shape[0], *x.shape[2:], x.shape[1])
    return x.reindex(shape, lambda index: (index[0], index[-1], *index[1:-1]))


def _channels_first(x: Lowered) -> Lowered:
    """[n, *space, c] as [n, c, *space], where it lies."""
    shape = (x.shape[0], x.shape[-1], *x.shape[1:-1])
    if x.buffer is not None:
        return x.owner.stored(x.buffer, shape, (x.strides[0], x.strides[-1], *x.strides[1:-1]))
    return x.reindex(shape, lambda index: (index[0], *index[2:], index[1]))


def _together(x: Lowered) -> Lowered:
    """x [n, c, *space], stored with its channels last."""
    last = _stored(_channels_last(x))
    assert last.buffer is not None
    x.owner.permuted.add(last.buffer)
    return _channels_first(last)


def _stored(x: Lowered) -> Lowered:
    """In a buffer of its own, or where it lies if that is in row-major order from the start of a buffer."""
    placed = x.placed()
    if placed is not None and placed[1] == contiguous_strides(x.shape) and placed[2] == 0:
        return x.owner.stored(placed[0], x.shape)
    return Lowered(x.owner, x.shape, x.dtype, x.load).realize()


def bordered(low: Lowerer, x: Lowered, before: Sizes, sizes: Sizes, *, channels_last: bool = True) -> Lowered:
    """x [n, *space, c] with zeros around it, of `sizes`; stored."""
    starts = [max(0, -b) for b in before]  # of the elements that are not cut off
    places = [max(0, b) for b in before]
    counts = [
        max(0, min(n - start, size - place))
        for n, start, size, place in zip(x.shape[1:-1], starts, sizes, places, strict=True)
    ]
    shape = (x.shape[0], *sizes, x.shape[-1])
    if channels_last and shape == x.shape and not any(places):
        return _stored(x)
    key = ((*shape, *starts, *places, *counts, channels_last), x.example())
    known = low.operands.get(key)
    if known is not None:  # of the forward pass, which the gradient by the weight needs again
        return low.stored(known[0], shape, known[1])
    inner = sliced(x, (0, *starts, 0), (x.shape[0], *counts, x.shape[-1]))
    dense = contiguous_strides(shape if channels_last else (shape[0], shape[-1], *shape[1:-1]))
    strides = dense if channels_last else (dense[0], *dense[2:], dense[1])
    parts = [(inner, (0, *places, 0)), *_borders(low, shape, places, counts, x.dtype)]
    result = assembled(low, shape, strides, parts)
    assert result.buffer is not None
    low.operands[key] = result.buffer, result.strides, 0
    return result


def _borders(
    low: Lowerer, shape: Sizes, places: Sizes, counts: Sizes, dtype: DType
) -> list[tuple[Lowered, Sizes]]:
    """Zeros around `counts` elements from `places` on, and where they begin: what is before and behind along
    each dimension of space, of the elements that no dimension before has filled."""
    found: list[tuple[Lowered, Sizes]] = []
    first, sizes = [0] * len(shape), list(shape)
    for d, (place, count) in enumerate(zip(places, counts, strict=True), 1):
        for start, size in ((0, place), (place + count, shape[d] - place - count)):
            if size > 0:
                zeros = low.full((*sizes[:d], size, *sizes[d + 1 :]), 0, dtype)
                found.append((zeros, (*first[:d], start, *first[d + 1 :])))
        first[d], sizes[d] = place, count
    return found


def _flipped(weight: Lowered, groups: int) -> Lowered:
    """weight [i, o / groups, *kernel] of a transposed convolution as that of a plain one,
    [o, i / groups, *kernel]."""
    inside, outside, kernel = weight.shape[0] // groups, weight.shape[1], weight.shape[2:]
    return weight.reindex(
        (groups * outside, inside, *kernel),
        lambda index: (
            index[0] // outside * inside + index[1],
            index[0] % outside,
            *[k - 1 - i for k, i in zip(kernel, index[2:], strict=True)],
        ),
    )


def spread(
    low: Lowerer,
    x: Lowered,
    weight: Lowered,
    stride: Sizes,
    padding: Sizes,
    result: Sizes,
    dilation: Sizes,
    groups: int,
) -> Lowered:
    """The transposed convolution: every element of x adds its multiple of the kernel to the result.

    Elements of the result with the same remainder by the stride see the same taps: each remainder is a plain
    convolution with these.
    """
    flipped = _flipped(weight, groups)
    channels = (x.shape[0], flipped.shape[0])
    if max(stride) == 1:
        return _phase(
            low,
            x,
            flipped,
            [_taps(0, *sizes) for sizes in zip(weight.shape[2:], stride, padding, dilation, strict=True)],
            result,
            groups,
        )
    dense = contiguous_strides((channels[0], *result, channels[1]))
    target = low.fresh_buffer(x.dtype, (*channels, *result))
    for starts in product(*[range(min(s, r)) for s, r in zip(stride, result, strict=True)]):
        taps = [
            _taps(start, *sizes)
            for start, *sizes in zip(starts, weight.shape[2:], stride, padding, dilation, strict=True)
        ]
        counts = [-(-(r - start) // s) for r, start, s in zip(result, starts, stride, strict=True)]
        if all(tap.count for tap in taps):
            found = _channels_last(_phase(low, x, flipped, taps, counts, groups))
        else:
            found = low.full((channels[0], *counts, channels[1]), 0, x.dtype)
        offset = sum(start * along for start, along in zip(starts, dense[1:-1], strict=True))
        apart = [s * along for s, along in zip(stride, dense[1:-1], strict=True)]
        write_part(low, target, Part(found, (dense[0], *apart, dense[-1]), offset))
    return _channels_first(low.stored(target, (channels[0], *result, channels[1])))


@dataclass(frozen=True)
class Taps:
    """Every `step`-th tap from `first` on, `count` of them; in x they are `apart`, and start `before` it."""

    first: int
    count: int
    step: int
    apart: int
    before: int


def _taps(start: int, kernel: int, stride: int, padding: int, dilation: int) -> Taps:
    """Which taps of a flipped kernel reach elements of the result with remainder `start` by the stride."""
    step = stride // gcd(stride, dilation)
    reached = (k for k in range(min(step, kernel)) if (start + padding - k * dilation) % stride == 0)
    first = next(reached, kernel)
    count = -(-(kernel - first) // step)
    apart = max(1, step * dilation // stride)
    last = first + (count - 1) * step
    before = (count - 1) * (step * dilation // stride) - (start + padding - first * dilation) // stride
    return Taps(kernel - 1 - last, count, step, apart, before)


def _phase(
    low: Lowerer, x: Lowered, flipped: Lowered, taps: Sequence[Taps], result: Sizes, groups: int
) -> Lowered:
    kernel = [tap.count for tap in taps]
    chosen = flipped.reindex(
        (*flipped.shape[:2], *kernel),
        lambda index: (
            *index[:2],
            *[tap.first + i * tap.step for tap, i in zip(taps, index[2:], strict=True)],
        ),
    )
    return correlated(
        low,
        x,
        chosen,
        [1] * len(kernel),
        [tap.before for tap in taps],
        result,
        [tap.apart for tap in taps],
        groups,
    )


# The operators.


def convolution(
    input: Lowered,
    weight: Lowered,
    bias: Lowered | None,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    transposed: bool,
    groups: int,
    low: Lowerer,
    out: Spec,
) -> Lowered:
    shape, dtype = out.known_shape(), compute_dtype(input.dtype)
    if 0 in shape or 0 in input.shape or 0 in weight.shape:
        found = low.full(shape, 0, dtype)
    else:
        run = spread if transposed else correlated
        steps, borders, apart = (_each(given, shape) for given in (stride, padding, dilation))
        found = run(low, input.cast(dtype), weight.cast(dtype), steps, borders, shape[2:], apart, groups)
    if bias is not None:
        added = bias.cast(dtype).reindex(shape, lambda index: (index[1],))
        product = found.buffer
        found = found.map(lambda ops, x, b: ops.add(x, b), dtype, added)
        if product in low.permuted:
            found = _together(found)  # in the epilogue of the product
    return found.cast(out.dtype)


def convolution_backward(
    grad_output: Lowered,
    input: Lowered,
    weight: Lowered,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    transposed: bool,
    groups: int,
    output_mask: Sequence[bool],
    low: Lowerer,
    out: Sequence[Spec],
) -> tuple[Lowered, ...]:
    dtype = compute_dtype(input.dtype)
    grad, x, w = (t.cast(dtype) for t in (grad_output, input, weight))
    steps, borders, apart = (_each(given, x.shape) for given in (stride, padding, dilation))
    empty = 0 in x.shape or 0 in grad.shape or 0 in w.shape
    if groups == 1 and sum(output_mask) > 1 and grad.buffer is None and not empty:
        grad = _together(grad)  # once for all results
    results = []
    for number, spec in enumerate(out):
        if not output_mask[number] or empty:
            found = low.full(spec.known_shape(), 0, dtype)
        elif number == 0:
            run = correlated if transposed else spread
            found = run(low, grad, w, steps, borders, x.shape[2:], apart, groups)
        elif number == 1:
            source, other = (grad, x) if transposed else (x, grad)
            found = weight_gradient(low, source, other, w.shape[2:], steps, borders, apart, groups)
        else:
            found = grad.reduce((0, *range(2, grad.ndim)), Combine.SUM, False)
        results.append(found.cast(spec.dtype))
    return tuple(results)


def _each(given: Sizes, shape: Sizes) -> tuple[int, ...]:
    """One number for each dimension of space."""
    return tuple(given) if len(given) == len(shape) - 2 else tuple(given) * (len(shape) - 2)


for _name, _rule in (("convolution", convolution), ("convolution_backward", convolution_backward)):
    if _name in REGISTRY:
        lowering(_name)(_rule)
