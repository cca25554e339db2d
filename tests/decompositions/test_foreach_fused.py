"""The fused steps of optimizers against PyTorch's, option by option, over several steps."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

import rushlight as rl

SHAPES = [(3, 4), (5,), ()]


def tensors(m, seed, dtype, positive=False):
    random = np.random.default_rng(seed)
    values = [random.standard_normal(shape) for shape in SHAPES]
    return [m.from_numpy(np.array(abs(v) if positive else v)).to(getattr(m, dtype)) for v in values]


def flat(lists):
    return [t for column in lists for t in column]


def agree(mine, theirs, dtype):
    tolerance = {"float32": 2e-5, "float64": 1e-7, "bfloat16": 2e-2}[dtype]
    assert len(mine) == len(theirs)
    for a, b in zip(mine, theirs, strict=True):
        assert str(a.dtype).split(".")[-1] == str(b.dtype).split(".")[-1]
        np.testing.assert_allclose(a.double().numpy(), b.double().numpy(), rtol=tolerance, atol=tolerance)


def run(m, name, columns, counted, dtype, scale, bad, **options):
    """The tensors after three steps, and what the functional operator gives for the last one."""
    lists = [tensors(m, i, dtype, positive=i > 2) if there else [] for i, there in enumerate(columns)]
    steps = [m.tensor(float(i)) for i in range(3)] if counted else None
    extra = {}
    if scale is not None:
        extra["grad_scale"] = m.tensor(scale)
    if bad is not None:
        extra["found_inf"] = m.tensor(bad)
    if options.pop("tensor_lr"):
        options["lr"] = m.tensor(options["lr"], dtype=m.float64)
    for i in range(3):
        if counted:
            for step in steps:
                step += 1
        if name == "_fused_sgd":
            options["is_first_step"] = i == 0
        positional = (*lists, steps) if counted else tuple(lists)
        functional = None
        if m is rl:  # PyTorch's functional form cannot be called on the CPU
            functional = getattr(m.ops.aten, name)(*positional, **options, **extra)
        assert getattr(m, f"{name}_")(*positional, **options, **extra) is None
        if functional is not None:
            agree(flat(functional)[: len(flat(lists))], flat(lists), dtype)
    return flat(lists)


def compare(name, columns, counted, dtype="float32", scale=None, bad=None, **options):
    mine, theirs = (run(m, name, columns, counted, dtype, scale, bad, **dict(options)) for m in (rl, torch))
    agree(mine, theirs, dtype)


ADAM = {"lr": 0.01, "beta1": 0.9, "beta2": 0.99, "eps": 1e-8}


@pytest.mark.parametrize("name", ["_fused_adam", "_fused_adamw"])
@pytest.mark.parametrize(
    ("amsgrad", "maximize", "weight_decay", "tensor_lr"),
    list(itertools.product([False, True], [False, True], [0.0, 0.1], [False, True])),
)
def test_adam(name, amsgrad, maximize, weight_decay, tensor_lr):
    compare(
        name,
        (True, True, True, True, amsgrad),
        True,
        amsgrad=amsgrad,
        maximize=maximize,
        weight_decay=weight_decay,
        tensor_lr=tensor_lr,
        **ADAM,
    )


@pytest.mark.parametrize(
    ("momentum", "dampening", "nesterov"),
    [(0.0, 0.0, False), (0.9, 0.0, False), (0.9, 0.3, False), (0.9, 0.0, True)],
)
@pytest.mark.parametrize(
    ("maximize", "weight_decay", "tensor_lr"),
    list(itertools.product([False, True], [0.0, 0.1], [False, True])),
)
def test_sgd(momentum, dampening, nesterov, maximize, weight_decay, tensor_lr):
    compare(
        "_fused_sgd",
        (True, True, momentum != 0),
        False,
        momentum=momentum,
        dampening=dampening,
        nesterov=nesterov,
        maximize=maximize,
        weight_decay=weight_decay,
        lr=0.1,
        tensor_lr=tensor_lr,
    )


@pytest.mark.parametrize(
    ("maximize", "weight_decay", "lr_decay", "tensor_lr"),
    list(itertools.product([False, True], [0.0, 0.1], [0.0, 0.2], [False, True])),
)
def test_adagrad(maximize, weight_decay, lr_decay, tensor_lr):
    compare(
        "_fused_adagrad",
        (True, True, True),
        True,
        maximize=maximize,
        weight_decay=weight_decay,
        lr_decay=lr_decay,
        lr=0.1,
        eps=1e-8,
        tensor_lr=tensor_lr,
    )


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("scale", [None, 4.0])
@pytest.mark.parametrize("bad", [None, 0.0, 1.0])
def test_scaled_gradients(dtype, scale, bad):
    """Gradients are divided and written back; with infinity or NaN among them nothing is written."""
    compare(
        "_fused_adam",
        (True, True, True, True, False),
        True,
        dtype,
        scale,
        bad,
        amsgrad=False,
        maximize=True,
        weight_decay=0.1,
        tensor_lr=False,
        **ADAM,
    )
    compare(
        "_fused_sgd",
        (True, True, True),
        False,
        dtype,
        scale,
        bad,
        momentum=0.9,
        dampening=0.0,
        nesterov=True,
        maximize=False,
        weight_decay=0.1,
        lr=0.1,
        tensor_lr=False,
    )
    compare(
        "_fused_adagrad",
        (True, True, True),
        True,
        dtype,
        scale,
        bad,
        maximize=False,
        weight_decay=0.1,
        lr_decay=0.1,
        lr=0.1,
        eps=1e-8,
        tensor_lr=False,
    )


def test_schemas():
    for name in ("_fused_adam", "_fused_adamw", "_fused_sgd", "_fused_adagrad"):
        for overload in ("default", "tensor_lr"):
            theirs = getattr(getattr(torch.ops.aten, name), overload)._schema
            mine = getattr(getattr(rl.ops.aten, name), overload).op.schema
            assert str(mine) == str(theirs).removeprefix("aten::")
            assert getattr(getattr(rl.ops.aten, f"{name}_"), overload).inplace


def test_lengths():
    with pytest.raises(RuntimeError, match="same length"):
        rl._fused_sgd_(
            [rl.ones(2)],
            [rl.ones(2), rl.ones(2)],
            [],
            weight_decay=0.0,
            momentum=0.0,
            lr=0.1,
            dampening=0.0,
            nesterov=False,
            maximize=False,
            is_first_step=False,
        )
