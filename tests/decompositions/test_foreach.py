"""Operators on lists against PyTorch's: every overload, in place and not, and autograd through them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import rushlight as rl
from rushlight.decompositions.foreach import BINARY, UNARY

SHAPES = [(2, 3), (4,), (), (0,)]


def pair(shape, seed):
    values = np.asarray(np.random.default_rng(seed).standard_normal(shape) * 3, np.float32)
    return rl.from_numpy(np.array(values)), torch.from_numpy(np.array(values))


def lists(seed):
    pairs = [pair(shape, seed + i) for i, shape in enumerate(SHAPES)]
    return [a for a, _ in pairs], [b for _, b in pairs]


def argument(kind, seed):
    """(ours, theirs) of one kind: lists, a number, numbers, a 0-d tensor, a tensor of numbers."""
    number, numbers = 2.0, [1.0, 2.0, 3.0, 0.5]
    return {
        "list": lambda: lists(seed),
        "number": lambda: (number, number),
        "numbers": lambda: (numbers, numbers),
        "0-d": lambda: pair((), seed),
        "packed": lambda: pair((4,), seed),
    }[kind]()


CASES = [(name, ()) for name in UNARY]
CASES += [(name, (kind,)) for name in (*BINARY, "pow") for kind in ("list", "number", "numbers")]
CASES += [(name, ("0-d",)) for name in ("add", "mul", "div")]
CASES += [("lerp", ("list", kind)) for kind in ("list", "number", "numbers")]
CASES += [
    (name, ("list", "list", *rest))
    for name in ("addcmul", "addcdiv")
    for rest in ((), ("number",), ("numbers",), ("packed",))
]
CASES += [("copy", ("list",)), ("zero", ())]


def same(mine, theirs):
    assert type(mine) is type(theirs)
    assert len(mine) == len(theirs)
    for a, b in zip(mine, theirs, strict=True):
        torch.testing.assert_close(torch.from_numpy(np.array(a.detach().numpy())), b, equal_nan=True)


@pytest.mark.parametrize("inplace", [False, True], ids=["", "inplace"])
@pytest.mark.parametrize(("name", "kinds"), CASES, ids=lambda v: v if isinstance(v, str) else ",".join(v))
def test_equals_torch(name, kinds, inplace):
    if name in ("copy", "zero") and not inplace:
        pytest.skip("in place alone")
    function = f"_foreach_{name}{'_' if inplace else ''}"
    first, others = lists(0), [argument(kind, 10 * (i + 1)) for i, kind in enumerate(kinds)]
    mine = getattr(rl, function)(first[0], *[a for a, _ in others])
    theirs = getattr(torch, function)(first[1], *[b for _, b in others])
    same(mine, theirs)
    if inplace:
        same(first[0], first[1])


@pytest.mark.parametrize(
    ("name", "args"),
    [("norm", ()), ("norm", (1,)), ("norm", (float("inf"),)), ("powsum", (3,)), ("max", ()), ("clone", ())],
    ids=str,
)
def test_reductions(name, args):
    mine, theirs = zip(*[pair(shape, i) for i, shape in enumerate([(2, 3), (4,)])], strict=True)
    same(
        getattr(rl, f"_foreach_{name}")(list(mine), *args),
        getattr(torch, f"_foreach_{name}")(list(theirs), *args),
    )


def test_number_to_the_power_of_tensors():
    mine, theirs = lists(0)
    same(rl._foreach_pow(2.0, mine), torch._foreach_pow(2.0, theirs))


def test_alpha():
    (a, ta), (b, tb) = lists(0), lists(5)
    same(rl._foreach_add(a, b, alpha=3), torch._foreach_add(ta, tb, alpha=3))
    same(rl._foreach_sub_(a, b, alpha=3), torch._foreach_sub_(ta, tb, alpha=3))


def test_gradients_of_in_place_forms():
    def scenario(lib):
        a, b = (lib.full((3,), v).requires_grad_() for v in (2.0, 3.0))
        values = [a * 1, b * 1]
        lib._foreach_mul_(values, [b, a])
        lib._foreach_exp_(values)
        (values[0] + values[1]).sum().backward()
        return a.grad.tolist(), b.grad.tolist()

    np.testing.assert_allclose(scenario(rl), scenario(torch), rtol=1e-5)


@pytest.mark.parametrize(
    "call",
    [
        lambda lib: lib._foreach_add([], 1),
        lambda lib: lib._foreach_add([lib.ones(1)], [lib.ones(1), lib.ones(1)]),
        lambda lib: lib._foreach_add([lib.ones(1)], [1.0, 2.0]),
        lambda lib: lib._foreach_addcmul([lib.ones(1)], [lib.ones(1)], [lib.ones(1)], lib.ones(2)),
        lambda lib: lib._foreach_mul_([lib.ones(1, dtype=lib.int64)], 0.5),
    ],
)
def test_errors(call):
    with pytest.raises(RuntimeError):
        call(torch)
    with pytest.raises(RuntimeError):
        call(rl)


def test_every_name():
    names = {name for name in dir(torch) if name.startswith("_foreach_")}
    assert names == {name for name in dir(rl) if name.startswith("_foreach_")}


@pytest.mark.parametrize("numbers", [1, True, 1.5, [1, 2], [1.5, 2]], ids=str)
@pytest.mark.parametrize("dtype", ["bool", "int8", "float32"])
@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_numbers_promote_tensors(name, dtype, numbers):
    def scenario(lib):
        tensors = [lib.tensor([1, 0], dtype=getattr(lib, dtype)) for _ in range(2)]
        results = getattr(lib, f"_foreach_{name}")(tensors, numbers)
        return [(r.tolist(), str(r.dtype).rpartition(".")[2]) for r in results]

    if dtype == "bool" and numbers is True:
        pytest.skip("PyTorch has no clamp of bools, which these are there")
    assert scenario(rl) == scenario(torch)
