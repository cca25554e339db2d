"""Short ways for what most calls are give what the general way gives."""

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.sequence import array_from

NUMBERS = [
    0,
    -1,
    2**24 + 1,
    2**53,
    2**53 + 1,
    2**63 - 1,
    -(2**63),
    -0.0,
    0.1,
    1e-45,
    3.4e38,
    1e39,
    float("nan"),
    float("-inf"),
]
DTYPES = [None, rl.float32, rl.float64, rl.int64, rl.int32, rl.float16, rl.bool, rl.complex64]


def outcome(data, dtype):
    try:
        return array_from(data, dtype)
    except (RuntimeError, OverflowError, ValueError, TypeError) as error:
        return type(error)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("number", NUMBERS, ids=repr)
def test_a_number_is_what_it_is_in_a_list(number, dtype):
    alone, listed = outcome(number, dtype), outcome([number], dtype)
    if isinstance(listed, type):
        assert alone is listed
    else:
        assert alone.dtype == listed.dtype
        assert alone.tobytes() == listed.tobytes()


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("dims", [(0,), (1,), (2,), (0, 1), (1, 2), (0, 1, 2)], ids=str)
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)], ids=str)
def test_a_mask_selects_what_its_positions_select(share, dims, order):
    x = rl.arange(60).reshape(3, 4, 5).permute(*order)
    shape = [x.shape[d] for d in dims]
    mask = rl.from_numpy(np.random.default_rng(0).random(shape) < share)
    whole = (slice(None),) * dims[0]
    found, wanted = x[(*whole, mask)], x[(*whole, *mask.nonzero(as_tuple=True))]
    assert found.stride() == wanted.contiguous().stride()
    assert found.tolist() == wanted.tolist()


def test_a_view_in_order_is_reshaped_as_a_view():
    x = rl.arange(24)[4:20]
    assert x.reshape(4, 4).data_ptr() == x.data_ptr()
    assert x.reshape(2, -1)[:, ::2].reshape(-1).tolist() == [4, 6, 8, 10, 12, 14, 16, 18]
    assert x[::2].reshape(8) is not x
    with pytest.raises(RuntimeError, match="invalid for input of size 16"):
        x.reshape(3, 5)


@pytest.mark.parametrize("rows", [64, 40])
@pytest.mark.parametrize("dynamic", [False, True])
def test_an_expanded_index_adds_whole_rows(rows, dynamic):
    generator = np.random.default_rng(1)
    index = rl.from_numpy(generator.integers(0, 7, 90))
    source, target = (rl.from_numpy(generator.integers(0, 9, (n, 64)).astype(np.float32)) for n in (90, 7))
    wanted = target.clone()
    wanted[:, :rows] = wanted[:, :rows].index_add(0, index, source[:, :rows])
    add = rl.compile(lambda t, i, s: t.scatter_add(0, i, s), dynamic=dynamic)
    for _ in range(2):
        found = add(target, index.view(-1, 1).expand(90, rows), source)
        assert found.tolist() == wanted.tolist()
