"""The repr of tensors, character for character against PyTorch's."""

from __future__ import annotations

import math
from collections.abc import Iterator

import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rushlight.core import dtypes, printing
from rushlight.core.dtypes import DTYPES
from rushlight.core.printing import format_tensor, get_printoptions, printoptions, set_printoptions

NARROW = {
    torch.bfloat16: (torch.uint16, ml_dtypes.bfloat16),
    torch.float8_e4m3fn: (torch.uint8, ml_dtypes.float8_e4m3fn),
    torch.float8_e5m2: (torch.uint8, ml_dtypes.float8_e5m2),
    torch.float8_e4m3fnuz: (torch.uint8, ml_dtypes.float8_e4m3fnuz),
    torch.float8_e5m2fnuz: (torch.uint8, ml_dtypes.float8_e5m2fnuz),
    torch.float8_e8m0fnu: (torch.uint8, ml_dtypes.float8_e8m0fnu),
    torch.complex32: (torch.int32, ml_dtypes.complex32),
}
NAMES = list(DTYPES)
INTEGERS = [name for name, dtype in DTYPES.items() if dtype.category is dtypes.Category.INTEGRAL]


class Fake:
    """A torch tensor in the clothes of a rushlight tensor."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor
        self.shape = tensor.shape
        self.dtype = DTYPES[str(tensor.dtype).removeprefix("torch.")]
        self.device = tensor.device
        self.requires_grad = tensor.requires_grad
        self.grad_fn = tensor.grad_fn

    def numpy_array(self) -> np.ndarray:
        tensor = self.tensor.detach().resolve_conj().resolve_neg()
        if tensor.dtype in NARROW:
            bits, scalar = NARROW[tensor.dtype]
            return tensor.contiguous().view(bits).numpy().view(scalar)
        return tensor.numpy()


def check(tensor: torch.Tensor) -> None:
    assert format_tensor(Fake(tensor)) == repr(tensor).replace("torch.", "rushlight.")


@pytest.fixture(autouse=True)
def restore() -> Iterator[None]:
    yield
    for module in (printing, torch):
        module.set_printoptions(profile="default")
    dtypes.set_default_dtype(dtypes.float32)
    torch.set_default_dtype(torch.float32)


def both(**options):
    printing.set_printoptions(**options)
    torch.set_printoptions(**options)


def sample(shape, dtype, scale=3.0, seed=0):
    """Values that fit the dtype and are not all of one width."""
    made = torch.Generator().manual_seed(seed)
    if dtype is torch.bool:
        return torch.rand(shape, generator=made) > 0.5
    values = torch.randn(shape, generator=made, dtype=torch.float64) * scale
    if dtype.is_complex:
        values = torch.complex(values, torch.randn(shape, generator=made, dtype=torch.float64))
    elif not dtype.is_signed:
        values = values.abs()
    return values.to(dtype)


# --- values ------------------------------------------------------------------------------------------

NAN, INF = math.nan, math.inf
VECTORS = [
    [0.0],
    [1.0],
    [-1.0],
    [0.5],
    [1.5, 2.0],
    [1.0, 2.0, 3.0],
    [-0.0],
    [-0.0, 1.5],
    [0.0, 0.0],
    [NAN],
    [INF],
    [-INF],
    [NAN, 1.0],
    [INF, -1.0],
    [NAN, 1.5],
    [-INF, 1.5, NAN],
    [0.0, NAN],
    [NAN, INF, -INF],
    [1e8],
    [1e8 + 16],
    [99999999.0],
    [1.0, 1000.0],
    [1.0, 1001.0],
    [1.5, 1000.0],
    [1.5, 1501.0],
    [1e-4],
    [9.9e-5],
    [1e-3, 0.5],
    [1e-5, 1.0],
    [1e10, 1.0],
    [1e-30, 1e30],
    [1e10, NAN],
    [1e-10, INF, 0.0],
    [123456.789],
    [0.12345678],
    [99.99999],
    [0.99999999],
    [1234.5, 0.001],
    [3e38],
    [1e-45],
    [-1e-10, 1.0],
    [12345678.0, 0.0],
    [100000.0, 2.5],
    [-0.00001],
    [0.1, 0.25, 100.0],
    [5e-324, 1.0],
]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("values", VECTORS, ids=str)
def test_special_values(values, dtype):
    tensor = torch.tensor(values, dtype=torch.float64).to(dtype)
    check(tensor)
    check(tensor[0])
    check(torch.stack([tensor, -tensor]))


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
@pytest.mark.parametrize("real", VECTORS[::3], ids=str)
@pytest.mark.parametrize("imaginary", [0.0, -0.0, 1.0, -2.5, NAN, INF, -INF, 1e10, 1e-10])
def test_complex_values(real, imaginary, dtype):
    parts = torch.tensor(real, dtype=torch.float64)
    tensor = torch.complex(parts, torch.full_like(parts, imaginary)).to(dtype)
    check(tensor)
    check(tensor[0])
    check(tensor.conj())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "shape", [(), (1,), (5,), (40,), (2, 3), (3, 30), (2, 3, 4), (1, 1, 1, 1), (2, 1, 2, 3)], ids=str
)
def test_every_dtype(name, shape):
    for scale in (3.0, 100.0, 1e-3):
        check(sample(shape, getattr(torch, name), scale))


@pytest.mark.parametrize("name", INTEGERS)
def test_extreme_integers(name):
    info = torch.iinfo(getattr(torch, name))
    check(torch.tensor([info.min, 0, info.max], dtype=getattr(torch, name)))


@pytest.mark.parametrize(
    "name",
    [
        "float8_e4m3fn",
        "float8_e5m2",
        "float8_e4m3fnuz",
        "float8_e5m2fnuz",
        "float8_e8m0fnu",
        "float16",
        "bfloat16",
    ],
)
def test_all_values_of_narrow_types(name):
    dtype = getattr(torch, name)
    bits = torch.arange(2 ** (8 * dtype.itemsize), dtype=torch.int64).to(
        torch.uint8 if dtype.itemsize == 1 else torch.uint16
    )
    for chunk in bits.view(dtype).split(97)[::17]:
        check(chunk)


# --- shapes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 4), (0, 0)], ids=str)
def test_empty(name, shape):
    check(torch.empty(shape, dtype=getattr(torch, name)))


@pytest.mark.parametrize(
    "name", ["float32", "int64", "bool", "complex64", "bfloat16", "float64", "float8_e5m2"]
)
@pytest.mark.parametrize(
    "shape",
    [
        (1000,),
        (1001,),
        (5000,),
        (7, 200),
        (200, 6),
        (6, 6, 40),
        (7, 7, 40),
        (2, 3, 500),
        (1, 2000),
        (2000, 1),
        (1, 1, 1, 1001),
        (3, 4, 10, 20),
    ],
    ids=str,
)
def test_abridged(name, shape):
    check(sample(shape, getattr(torch, name)))


def test_abridged_style_comes_from_what_is_shown():
    tensor = torch.ones(2000)
    tensor[1000] = 1e20
    check(tensor)
    tensor[1] = 0.5
    check(tensor)
    tensor[-1] = 1e20
    check(tensor)


def test_abridging_reads_only_the_edges():
    class Guarded(np.ndarray):
        def astype(self, *args, **kwargs):
            assert self.size < 100
            return super().astype(*args, **kwargs)

    fake = Fake(torch.zeros(10))
    fake.shape = (500, 500)
    fake.numpy_array = lambda: np.zeros((500, 500), np.float32).view(Guarded)
    assert format_tensor(fake) == repr(torch.zeros(500, 500))


def test_views():
    tensor = sample((6, 8), torch.float32)
    for view in (tensor.T, tensor[::2, ::3], tensor[1], tensor[:, 1], tensor.expand(2, 6, 8), tensor.flip(0)):
        check(view)


@settings(deadline=None, max_examples=200)
@given(st.sampled_from(NAMES), st.lists(st.integers(0, 9), max_size=4), st.floats(-8, 8), st.integers(0, 100))
def test_random_tensors(name, shape, decades, seed):
    dtype = getattr(torch, name)
    limit = 10.0 if name in INTEGERS else math.inf
    check(sample(shape, dtype, min(limit, 10.0**decades), seed))


@settings(deadline=None, max_examples=300)
@given(st.lists(st.floats(allow_subnormal=True), min_size=1, max_size=12), st.integers(1, 4))
def test_random_floats(values, rows):
    tensor = torch.tensor(values, dtype=torch.float64)
    check(tensor)
    check(tensor.expand(rows, -1))


# --- suffixes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("default", ["float16", "bfloat16", "float32", "float64"])
def test_the_default_dtype_is_not_shown(default):
    dtypes.set_default_dtype(DTYPES[default])
    torch.set_default_dtype(getattr(torch, default))
    for name in NAMES:
        dtype = getattr(torch, name)
        check(sample((2,), dtype))
        check(torch.empty(0, dtype=dtype))
        check(torch.empty(2, dtype=dtype, device="meta"))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", [(), (0,), (2,), (2, 3)], ids=str)
def test_meta(name, shape):
    check(torch.empty(shape, dtype=getattr(torch, name), device="meta"))


def test_meta_tensors_are_not_read():
    fake = Fake(torch.empty(2, device="meta"))
    fake.numpy_array = None
    assert format_tensor(fake) == "tensor(..., device='meta', size=(2,))"


@pytest.mark.parametrize("name", ["float32", "float64", "complex64", "bfloat16"])
@pytest.mark.parametrize("width", range(60, 80, 2))
def test_suffixes_wrap(name, width):
    both(linewidth=width)
    for count in (1, 5, 6, 7, 8, 9):
        leaf = sample((count,), getattr(torch, name)).requires_grad_()
        check(leaf)
        check(leaf + 1)
        check((leaf * 2).reshape(count, 1).expand(count, 3))
        check(torch.empty(count, 0, dtype=leaf.dtype, requires_grad=True))
        check(torch.empty(count, 2, dtype=leaf.dtype, requires_grad=True, device="meta"))


def test_grad_fn():
    leaf = torch.ones(2, requires_grad=True)
    for tensor in (leaf, leaf.exp(), leaf.sum(), leaf.view(1, 2), leaf[0], leaf.detach(), leaf @ leaf):
        check(tensor)


def test_grad_fn_of_python_functions_and_other_nodes():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    tensor = Double.apply(torch.ones(1, requires_grad=True))
    check(tensor)

    class PlainBackward:
        pass

    fake = Fake(tensor)
    fake.grad_fn = PlainBackward()
    assert format_tensor(fake) == "tensor([2.], grad_fn=<PlainBackward>)"
    fake.grad_fn.name = "MulBackward0"
    assert format_tensor(fake) == "tensor([2.], grad_fn=<MulBackward0>)"


def test_invalid_grad_fn():
    base = torch.zeros(4, requires_grad=True)
    with torch.no_grad():
        view = base[:2]
        view.add_(1)

    class Invalid(Fake):
        @property
        def grad_fn(self):
            raise RuntimeError("a view that was changed in place")

        @grad_fn.setter
        def grad_fn(self, value):
            pass

    assert "grad_fn=<Invalid>" in repr(view)
    assert format_tensor(Invalid(torch.ones(2))) == repr(view)


def test_tangent_and_prefix():
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(torch.ones(2), torch.tensor([0.5, 2.0]))
        found = format_tensor(Fake(torch.ones(2)), tangent="tensor([0.5000, 2.0000])")
        assert found == repr(dual)
    assert format_tensor(Fake(torch.ones(2, 2)), prefix="Thing(") == "Thing([[1., 1.],\n       [1., 1.]])"


# --- options -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"precision": 0},
        {"precision": 2},
        {"precision": 10},
        {"threshold": 5},
        {"threshold": 0},
        {"threshold": INF},
        {"threshold": 5, "edgeitems": 1},
        {"threshold": 5, "edgeitems": 2},
        {"threshold": 5, "edgeitems": 0},
        {"edgeitems": 0},
        {"edgeitems": 10},
        {"linewidth": 20},
        {"linewidth": 5},
        {"linewidth": 200},
        {"sci_mode": True},
        {"sci_mode": False},
        {"sci_mode": True, "precision": 1},
        {"profile": "short"},
        {"profile": "full"},
        {"profile": "default", "precision": 3},
    ],
    ids=str,
)
def test_options(options):
    both(**options)
    assert get_printoptions() == torch._tensor_str.get_printoptions()
    for shape in ((), (1,), (3,), (7,), (30,), (3, 3), (2, 7), (8, 9), (2, 3, 8), (2, 0), (1, 1200)):
        for dtype in (torch.float32, torch.float64, torch.int64, torch.bool, torch.complex64, torch.bfloat16):
            check(sample(shape, dtype))
            large = sample(shape, dtype, 1000.0)
            check(large.round() if dtype.is_floating_point else large)


@settings(deadline=None, max_examples=200)
@given(
    st.fixed_dictionaries(
        {
            "precision": st.integers(0, 8),
            "threshold": st.integers(0, 60),
            "edgeitems": st.integers(0, 5),
            "linewidth": st.integers(1, 120),
            "sci_mode": st.sampled_from([None, True, False]),
        }
    ),
    st.lists(st.integers(1, 12), max_size=3),
    st.sampled_from(["float32", "int16", "complex128", "bool"]),
)
def test_random_options(options, shape, name):
    both(**options)
    check(sample(shape, getattr(torch, name), 30.0))


def test_options_are_kept_and_sci_mode_is_not():
    set_printoptions(precision=2, sci_mode=True)
    set_printoptions(edgeitems=1)
    assert get_printoptions() == {
        "precision": 2,
        "threshold": 1000,
        "edgeitems": 1,
        "linewidth": 80,
        "sci_mode": None,
    }


def test_printoptions_are_restored():
    def fail():
        with printoptions(precision=1, sci_mode=True):
            assert get_printoptions()["precision"] == 1
            assert format_tensor(Fake(torch.tensor([1.25]))) == "tensor([1.2e+00])"
            raise KeyError

    before = get_printoptions()
    with pytest.raises(KeyError):
        fail()
    assert get_printoptions() == before


def test_unknown_profiles_are_refused():
    with pytest.raises(ValueError, match="default, short, full, got 'long'"):
        set_printoptions(profile="long")
