"""autocast against PyTorch's: state, nesting, values, gradients, casts of weights, compiled code."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch

import rushlight as rl
from rushlight import amp, nn
from rushlight.core.autocast import AUTOCAST_STATE

LOWER = ["bfloat16", "float16"]


def name(dtype):
    return str(dtype).split(".")[-1]


def both(seed, *shape):
    values = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return torch.from_numpy(values.copy()), rl.from_numpy(values.copy())


def close(mine, theirs, **options):
    assert name(mine.dtype) == name(theirs.dtype)
    torch.testing.assert_close(
        torch.from_numpy(np.array(mine.detach().float().numpy())), theirs.detach().float(), **options
    )


def models(seed=0):
    torch.manual_seed(seed)
    theirs = torch.nn.Sequential(
        torch.nn.Conv2d(2, 4, 3),
        torch.nn.BatchNorm2d(4),
        torch.nn.GELU(),
        torch.nn.Flatten(),
        torch.nn.Linear(4 * 4 * 4, 8),
        torch.nn.LayerNorm(8),
        torch.nn.Linear(8, 3),
    )
    mine = nn.Sequential(
        nn.Conv2d(2, 4, 3),
        nn.BatchNorm2d(4),
        nn.GELU(),
        nn.Flatten(),
        nn.Linear(4 * 4 * 4, 8),
        nn.LayerNorm(8),
        nn.Linear(8, 3),
    )
    mine.load_state_dict(
        {key: rl.from_numpy(np.array(value.numpy())) for key, value in theirs.state_dict().items()}
    )
    return theirs, mine


@pytest.mark.parametrize("lower", LOWER)
def test_a_model(lower):
    """Values within the precision of the lower dtype; the dtypes of output, loss and gradients are equal."""
    theirs, mine = models()
    x, y = both(1, 5, 2, 6, 6)
    target = [0, 1, 2, 1, 0]
    with torch.autocast("cpu", dtype=getattr(torch, lower)):
        out = theirs(x)
        loss = torch.nn.functional.cross_entropy(out, torch.tensor(target))
    with rl.autocast("cpu", dtype=getattr(rl, lower)):
        my_out = mine(y)
        my_loss = nn.functional.cross_entropy(my_out, rl.tensor(target))
    tolerance = {"rtol": 0.05, "atol": 0.05} if lower == "bfloat16" else {"rtol": 0.01, "atol": 0.01}
    close(my_out, out, **tolerance)
    close(my_loss, loss, **tolerance)
    loss.backward()
    my_loss.backward()
    for a, b in zip(mine.parameters(), theirs.parameters(), strict=True):
        close(a.grad, b.grad, **tolerance)
    full = mine(y)
    assert name(full.dtype) == "float32"
    assert not np.array_equal(full.detach().numpy(), my_out.detach().float().numpy())


def test_products_are_rounded_as_in_the_lower_precision():
    x, y = rl.randn(7, 9), rl.randn(9, 4)
    with rl.autocast("cpu"):
        got = x @ y
    want = x.bfloat16() @ y.bfloat16()
    assert got.dtype is rl.bfloat16
    assert rl.equal(got, want)


def test_what_is_left_alone():
    with rl.autocast("cpu"):
        assert (rl.ones(2, 2).double() @ rl.ones(2, 2).double()).dtype is rl.float64
        assert (rl.ones(2, 2).int() @ rl.ones(2, 2).int()).dtype is rl.int32
        assert (rl.ones(2, 2).cfloat() @ rl.ones(2, 2).cfloat()).dtype is rl.complex64
        assert (rl.ones(2, 2) + rl.ones(2, 2)).dtype is rl.float32
        assert rl.empty(2, 2, device="meta").mm(rl.empty(2, 2, device="meta")).dtype is rl.float32


def test_joining():
    x = rl.ones(2, 2)
    with rl.autocast("cpu"):
        assert rl.cat([x, x.bfloat16()]).dtype is rl.float32
        assert rl.stack([x.bfloat16(), x.bfloat16()]).dtype is rl.bfloat16
        assert rl.cat([x.double(), x]).dtype is rl.float64
        assert rl.cat([x.int(), x.int()]).dtype is rl.int32


def test_in_place_and_out_keep_their_precision():
    """What is written to decides: PyTorch has no autocast for these forms."""
    (x, y), out = both(2, 5, 5), rl.empty(5, 5)
    with torch.autocast("cpu"), rl.autocast("cpu"):
        close(y.clone().addmm_(y, y), x.clone().addmm_(x, x))
        close(rl.mm(y, y, out=out), torch.mm(x, x, out=torch.empty(5, 5)))
    assert not rl.equal(out, (y.bfloat16() @ y.bfloat16()).float())


# The state.


def test_nesting():
    x = rl.ones(2, 2)
    assert not rl.is_autocast_enabled("cpu")
    with rl.autocast("cpu"):
        assert (x @ x).dtype is rl.bfloat16
        with rl.autocast("cpu", enabled=False):
            assert not rl.is_autocast_enabled("cpu")
            assert (x @ x).dtype is rl.float32
            with rl.autocast("cpu", dtype=rl.float16):
                assert (x @ x).dtype is rl.float16
                assert rl.get_autocast_dtype("cpu") is rl.float16
            assert rl.get_autocast_dtype("cpu") is rl.bfloat16
        assert (x @ x).dtype is rl.bfloat16
    assert (x @ x).dtype is rl.float32
    assert AUTOCAST_STATE.nesting == 0


def test_one_object_entered_twice():
    region, x = rl.autocast("cpu"), rl.ones(2, 2)
    with region, region:
        assert (x @ x).dtype is rl.bfloat16
    assert (x @ x).dtype is rl.float32


def test_an_error_leaves_the_region():
    with pytest.raises(RuntimeError), rl.autocast("cpu"):
        rl.ones(2, 3) @ rl.ones(2, 3)
    assert not rl.is_autocast_enabled("cpu")
    assert (rl.ones(2, 2) @ rl.ones(2, 2)).dtype is rl.float32


def test_decorator():
    @rl.autocast("cpu", dtype=rl.float16)
    def product(x):
        """Its name and text stay."""
        return x @ x

    assert product(rl.ones(2, 2)).dtype is rl.float16
    assert (product.__name__, product.__doc__) == ("product", "Its name and text stay.")
    assert not rl.is_autocast_enabled("cpu")


def test_other_threads_have_their_own_state():
    found = []
    with rl.autocast("cpu"):
        thread = threading.Thread(target=lambda: found.append((rl.ones(2, 2) @ rl.ones(2, 2)).dtype))
        thread.start()
        thread.join()
    assert found == [rl.float32]


@pytest.mark.parametrize(("device", "dtype"), [("cpu", "float32"), ("cpu", "float64"), ("cuda", "float16")])
def test_what_is_not_supported_warns_and_is_off(device, dtype):
    for m in (torch, rl):
        with pytest.warns(UserWarning, match="Disabling"):
            region = m.autocast(device, dtype=getattr(m, dtype))
        with region:
            assert not m.is_autocast_enabled(device)


def test_unknown_devices():
    for m in (torch, rl):
        with pytest.raises(RuntimeError):
            m.autocast("nope")
        with pytest.raises(ValueError, match="device_type"):
            m.autocast(3)


def test_names():
    for path in (
        "is_autocast_enabled",
        "get_autocast_dtype",
        "is_autocast_cache_enabled",
        "autocast",
        "clear_autocast_cache",
        "autocast_increment_nesting",
        "is_autocast_cpu_enabled",
    ):
        assert hasattr(rl, path) and hasattr(torch, path)
    assert rl.amp.is_autocast_available("cpu") and not rl.amp.is_autocast_available("cuda")
    assert [name(m.get_autocast_dtype(d)) for m in (rl, torch) for d in ("cpu", "cuda")] == [
        "bfloat16",
        "float16",
    ] * 2
    assert {n for n in dir(torch.amp) if not n.startswith("_")} - set(dir(amp)) == set()
    rl.set_autocast_cpu_enabled(True)
    try:
        assert rl.is_autocast_cpu_enabled()
        assert (rl.ones(2, 2) @ rl.ones(2, 2)).dtype is rl.get_autocast_cpu_dtype()
    finally:
        rl.set_autocast_cpu_enabled(False)


# Weights.


def test_weights_are_cast_once_and_forgotten_at_the_end():
    weight = rl.ones(2, 2, requires_grad=True)
    x = rl.ones(2, 2)
    with rl.autocast("cpu"):
        first = x @ weight
        kept = AUTOCAST_STATE.casts[id(weight)][2]
        with rl.autocast("cpu"):
            second = x @ weight
        assert AUTOCAST_STATE.casts[id(weight)][2] is kept
        with rl.no_grad():
            x @ weight
            weight.mul_(2)
        assert (x @ weight)[0, 0].item() == 4.0  # PyTorch would use the cast from before the write
    assert not AUTOCAST_STATE.casts
    (first + second).sum().backward()
    assert weight.grad.tolist() == [[4.0, 4.0], [4.0, 4.0]]


def test_no_cache():
    weight = rl.ones(2, 2, requires_grad=True)
    with rl.autocast("cpu", cache_enabled=False):
        assert not rl.is_autocast_cache_enabled()
        rl.ones(2, 2) @ weight
        assert not AUTOCAST_STATE.casts
    assert rl.is_autocast_cache_enabled()


def test_a_cast_made_without_grad_is_not_used_with_it():
    weight = rl.ones(2, 2, requires_grad=True)
    with rl.autocast("cpu"):
        with rl.no_grad():
            rl.ones(2, 2) @ weight
        (rl.ones(2, 2) @ weight).sum().backward()
    assert weight.grad is not None


# Transforms.


def test_transforms():
    w, x = rl.randn(3, 2), rl.randn(5, 3)

    def loss(w, x):
        with rl.autocast("cpu"):
            return (x @ w).float().square().sum()

    got = rl.func.vmap(rl.func.grad(loss), in_dims=(None, 0))(w, x)
    want = rl.stack([rl.func.grad(loss)(w, row) for row in x])
    assert got.dtype is rl.float32
    np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=2e-2)
    _, tangent = rl.func.jvp(lambda w: loss(w, x), (w,), (rl.ones_like(w),))
    np.testing.assert_allclose(tangent.item(), rl.func.grad(loss)(w, x).sum().item(), rtol=2e-2)


# Functions with a backward of their own.


@pytest.mark.parametrize("cast_inputs", [None, "float32"])
@pytest.mark.parametrize("on", [False, True])
def test_custom_functions(cast_inputs, on):
    def make(m):
        class Product(m.autograd.Function):
            @staticmethod
            @m.amp.custom_fwd(device_type="cpu", cast_inputs=cast_inputs and getattr(m, cast_inputs))
            def forward(ctx, a, b):
                ctx.save_for_backward(a, b)
                seen.append((name(a.dtype), m.is_autocast_enabled("cpu")))
                return a.mm(b)

            @staticmethod
            @m.amp.custom_bwd(device_type="cpu")
            def backward(ctx, grad):
                a, b = ctx.saved_tensors
                seen.append((name(grad.dtype), m.is_autocast_enabled("cpu")))
                return grad.mm(b.t().to(grad.dtype)), a.t().to(grad.dtype).mm(grad)

        return Product.apply

    results = []
    for m, x in zip((torch, rl), both(3, 4, 4), strict=True):
        seen = []
        x = x.requires_grad_()
        with m.autocast("cpu", enabled=on):
            out = make(m)(x.bfloat16() if cast_inputs and on else x, x)
        out.float().sum().backward()
        results.append((name(out.dtype), name(x.grad.dtype), seen))
    assert results[0] == results[1]


# Compiled code.


def test_compiled_inside_and_outside():
    _, mine = models()
    mine.eval()
    _, y = both(1, 5, 2, 6, 6)

    @rl.autocast("cpu")
    def inside(x):
        return mine(x)

    with rl.autocast("cpu"):
        want = mine(y)
        outside = rl.compile(mine)
        got = outside(y)
    assert got.dtype is want.dtype is rl.bfloat16
    for each in (got, rl.compile(inside, fullgraph=True)(y)):
        np.testing.assert_allclose(each.detach().float().numpy(), want.detach().float().numpy(), atol=0.03)
    assert outside(y).dtype is rl.float32  # another mode, another entry
    with rl.autocast("cpu", dtype=rl.float16):
        assert outside(y).dtype is rl.float16
    with rl.autocast("cpu"):
        count = len(outside.reasons)
        assert outside(y).dtype is rl.bfloat16
        assert len(outside.reasons) == count


def test_compiled_training_equals_eager():
    """Five steps of a whole step, compiled: autocast forward, backward, optimizer."""

    def train(compiled):
        _, model = models()
        optimizer = rl.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        _, x = both(4, 8, 2, 6, 6)
        target = rl.arange(8) % 3

        def step(x):
            optimizer.zero_grad()
            with rl.autocast("cpu"):
                loss = nn.functional.cross_entropy(model(x), target)
            loss.backward()
            optimizer.step()
            return loss

        run = rl.compile(step, fullgraph=True) if compiled else step
        losses = [run(x).item() for _ in range(5)]
        return losses, [p.dtype for p in model.parameters()]

    (eager, kinds), (native, others) = train(False), train(True)
    assert kinds == others and set(kinds) == {rl.float32}
    np.testing.assert_allclose(native, eager, rtol=0.02)
    assert eager[-1] < eager[0]


def test_a_backward_pass_of_a_compiled_function_is_not_cast():
    w = rl.randn(4, 4, requires_grad=True)
    x = rl.randn(4, 4, requires_grad=True)
    compiled = rl.compile(lambda x: (x @ w).sum())
    with rl.autocast("cpu"):
        loss = compiled(x)
    loss.backward()
    a, b = x.grad.clone(), w.grad.clone()
    x.grad = w.grad = None
    with rl.autocast("cpu"):
        loss = (x @ w).sum()
    loss.backward()
    np.testing.assert_allclose(a.numpy(), x.grad.numpy(), rtol=0.02, atol=0.02)
    np.testing.assert_allclose(b.numpy(), w.grad.numpy(), rtol=0.02, atol=0.02)
