"""The harness proves itself: torch against torch passes, and every kind of wrong backend is found out."""

from __future__ import annotations

import types

import numpy as np
import pytest
import torch

from rushlight.testing.backends import TorchBackend
from rushlight.testing.conformance import CHECKS, Task, run_entry, run_task, select
from rushlight.testing.entries import entries, entries_by_name
from rushlight.testing.families import FAMILIES
from rushlight.testing.record import EXCLUDED, FAIL, NOT_APPLICABLE, PASS
from rushlight.testing.tables import COMPILED_AGAIN, GAUGE, LOOSER, TIES, UNPREDICTABLE
from rushlight.testing.tables import EXCLUDED as EXCLUDED_TABLE

# One entry for every way in which the database names its operators and builds their arguments.
SUBSET = (
    "add", "sum", "cumsum", "max.reduction_with_dim", "split.list_args", "where", "einsum", "gather",
    "index_put", "__getitem__", "__rsub__", "__radd__", "bool", "to", "expand", "T", "item",
    "broadcast_shapes", "equal", "as_strided.partial_views", "meshgrid.list_of_tensors", "unique", "resize_",
    "empty_like", "cauchy", "randn", "normal.number_mean", "nn.functional.dropout", "nn.functional.gelu",
    "nn.functional.conv2d", "slice", "nn.functional.triplet_margin_with_distance_loss",
    "torch.ops.aten._safe_softmax.default", "linalg.svd", "linalg.eigh", "fft.fft", "special.ndtr",
    "masked.sum", "signal.windows.hann", "sparse.sampled_addmm", "polygamma.polygamma_n_1", "svd_lowrank",
    "_softmax_backward_data",
)  # fmt: skip


@pytest.mark.parametrize("name", SUBSET)
def test_torch_agrees_with_itself_forward(name):
    for result in run_task(Task(name, ("float32",), ("fwd", "out", "meta", "errors")), TorchBackend()):
        assert result.status in (PASS, NOT_APPLICABLE), result.line()
        assert result.samples or result.status == NOT_APPLICABLE


@pytest.mark.parametrize(
    "name", ["add", "sum", "cumsum", "einsum", "linalg.eigh", "index_put", "prod", "exp"]
)
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_torch_agrees_with_itself_in_derivatives(name, dtype):
    results = run_task(Task(name, (dtype,), ("bwd", "fwad", "gradgrad")), TorchBackend())
    assert [result.status for result in results] == [PASS, PASS, PASS], [r.line() for r in results]


@pytest.mark.parametrize(
    "dtype", ["bfloat16", "float16", "bool", "int64", "uint8", "complex64", "complex128"]
)
def test_other_dtypes_survive_the_journey(dtype):
    assert run_entry("add", "", dtype, "fwd", backend=TorchBackend()).status == PASS


@pytest.mark.slow
def test_torch_agrees_with_itself_everywhere():
    failing = [
        result.line()
        for entry in entries()
        for result in run_task(Task(entry.full_name, ("float32",), ("fwd", "out")), TorchBackend())
        if result.status == FAIL
    ]
    assert failing == []


# --- wrong backends ----------------------------------------------------------------------------


class Wrong(TorchBackend):
    """torch, except that `torch.<name>` is replaced; with None, it is missing."""

    def __init__(self, name, replacement):
        super().__init__()
        shadow = types.ModuleType("wrong")
        shadow.__dict__.update({key: value for key, value in vars(torch).items() if key != name})
        if replacement is not None:
            setattr(shadow, name, replacement)
        self.translate.namespace = shadow


def failure(name, replacement, variant="fwd", dtype="float32", entry=None):
    result = run_entry(entry or name, "", dtype, variant, backend=Wrong(name, replacement))
    assert result.status == FAIL
    return result.failures[0].message


def test_a_missing_operator_is_a_failure():
    assert "sinh is not available" in failure("sinh", None)


def test_a_wrong_value_is_found():
    assert "values differ" in failure("sinh", lambda x: torch.sinh(x) + 1e-3)
    assert "values differ" in failure("argmax", lambda *a, **k: torch.argmax(*a, **k) + 1)


def test_a_wrong_dtype_is_found():
    assert "dtype is float64, expected float32" in failure("sinh", lambda x: torch.sinh(x).double())


def test_a_wrong_shape_is_found():
    assert "shape is" in failure("sinh", lambda x: torch.sinh(x).unsqueeze(0))


def test_a_wrong_structure_is_found():
    assert "expected named tuple" in failure("cummax", lambda *a, **k: tuple(torch.cummax(*a, **k)))
    assert "expected tuple of" in failure("chunk", lambda *a, **k: list(torch.chunk(*a, **k)))
    assert "expected bool" in failure("equal", lambda *a: int(torch.equal(*a)))


def test_an_exception_is_a_failure_with_its_type():
    assert failure("sinh", lambda x: 1 / 0).startswith("ZeroDivisionError")


def test_writing_to_an_input_is_found():
    assert "an input was written to" in failure("sinh", lambda x: torch.sinh_(x))


def test_ignoring_out_is_found():
    assert failure("sinh", lambda x, out=None: torch.sinh(x), variant="out") == "out= must be returned itself"


def test_wrong_gradients_are_found():
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.sinh()

        @staticmethod
        def backward(ctx, grad):
            return 2 * grad * ctx.saved_tensors[0].cosh()

    assert "gradient 0" in failure("sinh", Twice.apply, "bwd", "float64")


def test_a_constant_random_number_is_found():
    assert "constant" in failure("randn", lambda *a, **k: torch.zeros(*a, **k))


def test_a_wrong_exception_type_is_found():
    def cat(*args, **kwargs):
        raise KeyError("cat")

    assert "KeyError was raised, expected" in failure("cat", cat, "errors", "any")
    assert "nothing was raised" in failure("cat", lambda *a, **k: None, "errors", "any")


def test_a_missing_method_and_a_wrong_inplace_are_found():
    class Tensorish:
        sinh = torch.Tensor.sinh

    message = run_entry("sinh", "", "float32", "fwd", backend=Wrong("Tensor", Tensorish)).failures[0]
    assert message.check == "inplace"
    assert "Tensor.sinh_ is not available" in message.message


# --- the database and the tables --------------------------------------------------------------


def test_every_entry_of_the_database_is_there():
    assert len(entries()) == 702
    assert len(entries_by_name()) == 702
    assert {entry.family for entry in entries()} <= set(FAMILIES)


@pytest.mark.parametrize("table", [EXCLUDED_TABLE, UNPREDICTABLE, GAUGE, TIES, LOOSER, COMPILED_AGAIN])
def test_every_exception_names_an_entry_and_a_reason(table):
    for name, value in table.items():
        assert name in entries_by_name()
        reason = value if isinstance(value, str) else value[1] if isinstance(value, tuple) else value.reason
        assert reason


def test_excluded_entries_do_not_run_on_a_cpu():
    for name in EXCLUDED_TABLE:
        entry = entries_by_name()[name]
        assert not entry.dtypes or name.startswith("jiterator")
        assert (
            run_entry(entry.name, entry.variant_name, "float32", "fwd", backend=TorchBackend()).status
            == EXCLUDED
        )


def test_selection_is_by_search_in_name_or_name_and_variant():
    assert [entry.full_name for entry in select("^(sum|mean)$")] == ["mean", "sum"]
    assert [entry.full_name for entry in select(r"^std\.unb")] == ["std.unbiased"]
    assert len(select("^max$")) == 3
    assert all(entry.family == "fft" for entry in select(family="fft"))


def test_unsupported_variants_do_not_apply():
    assert run_entry("argmax", "", "float32", "bwd", backend=TorchBackend()).status == NOT_APPLICABLE
    assert run_entry("bitwise_and", "", "float32", "fwd", backend=TorchBackend()).status == NOT_APPLICABLE
    assert set(CHECKS) == {
        "fwd",
        "out",
        "meta",
        "bwd",
        "fwad",
        "gradgrad",
        "vmap",
        "adjoint",
        "jacobian",
        "hessian",
        "decomposed",
        "compiled",
        "compiled_dynamic",
        "compiled_bwd",
        "compiled_writes",
        "compiled_writes_bwd",
        "native",
        "operands",
        "out_views",
        "errors",
    }


def test_samples_keep_strides_offsets_and_sharing():
    from rushlight.testing import snapshot

    base = torch.arange(12.0).reshape(3, 4)
    one, two = base.t()[1:], base[1]
    picture = snapshot.take([one, {"x": (two, slice(0, two.sum()))}])
    base.zero_()
    left, rest = TorchBackend().build(picture)
    right = rest["x"][0]
    assert left.stride() == one.stride()
    assert left.storage_offset() == 1
    assert left.untyped_storage().data_ptr() == right.untyped_storage().data_ptr()
    assert right.tolist() == [4.0, 5.0, 6.0, 7.0]
    assert rest["x"][1].stop == 22.0


def test_rebuilt_functions_use_the_backend():
    spy = types.ModuleType("spy")
    spy.__dict__.update(vars(torch))
    spy.einsum = lambda equation, tensors: ("spied", equation)
    backend = TorchBackend()
    backend.translate.namespace = spy
    function = backend.translate(entries_by_name()["einsum"].info.op)
    assert function([np.eye(2)], "ii") == ("spied", "ii")
