"""Public names of PyTorch that are not here, each with its reason; everything else is."""

from __future__ import annotations

import re
import types
from typing import Any

import pytest
import torch

import rushlight

# Reason -> the names that it explains, as a regular expression.
NOT_HERE: dict[str, dict[str, str]] = {
    "functions": {
        "names a kernel of another library": r"quantized_(batch_norm|gru.*|lstm.*|rnn.*)|fbgemm_.*",
        "belongs to TorchScript": r"fork|wait|parse_.*|import_ir_.*|merge_type_.*|unify_type_list|"
        r"get_file_path|"
        r"prepare_multiprocessing_environment|init_num_threads|compiled_with_cxx11_abi|classproperty|typename",
        "concerns devices that are not the processor": r".*_(gpu|ipu|xla)_.*|batch_norm_(backward_|elemt|"
        r"gather|stats|"
        r"update).*|cudnn_is_acceptable|is_vulkan_available|profiler_.*|get_device(_module)?|is_distributed",
        "removed from PyTorch, where it raises": r"eig|lstsq|matrix_rank|solve|symeig",
        "sizes are numbers, there are no symbols to constrain": r"sym_(constrain_range.*|fresh_size)",
        "sparse layouts under older names": r"dsmm|hsmm|saddmm|spmm|resize_as_sparse_",
        "copies of what a sparse tensor holds": r"(c?col|c?row)?_?(indices|values)_copy",
        "not written yet": r"from_file|native_norm|set_anomaly_enabled|thread_safe_generator",
    },
    "methods": {
        "concerns devices that are not the processor": r"ipu|mtia|is_(ipu|maia|mtia|vulkan|xla)|"
        r"is_distributed|record_stream|share_memory_",
        "removed from PyTorch, where it raises": r"eig|lstsq|solve|symeig|reinforce|volatile",
        "deprecated: untyped_storage, resize_": r"storage_type|resize|resize_as",
        "an attribute of PyTorch's own machinery": r"const_data_ptr|module_load|name|grad_dtype",
        "an operator of named dimensions": r"index",
    },
    "special": {"no function, but a part of the documentation": r"common_args|multi_dim_common|Tensor"},
    "linalg": {"no function, but a part of the documentation": r"common_notes|Tensor|LinAlgError"},
    "fft": {"no function, but a part of the documentation": r"common_args|factory_common_args|Tensor"},
    "signal.windows": {},
}


def inside(library: Any, path: str) -> Any:
    for part in path.split("."):
        library = getattr(library, part)
    return library


def names_of(kind: str) -> tuple[Any, Any, list[str]]:
    if kind == "methods":
        return (
            torch.Tensor,
            rushlight.Tensor,
            [name for name in dir(torch.Tensor) if not name.startswith("_")],
        )
    theirs, ours = (
        library if kind == "functions" else inside(library, kind) for library in (torch, rushlight)
    )
    names = [
        name
        for name in dir(theirs)
        if not name.startswith("_") and not isinstance(getattr(theirs, name), types.ModuleType)
    ]
    if kind == "functions":
        names = [
            name
            for name in names
            if callable(getattr(theirs, name)) and not isinstance(getattr(theirs, name), type)
        ]
    return theirs, ours, names


@pytest.mark.parametrize("kind", NOT_HERE)
@pytest.mark.filterwarnings("ignore")
def test_every_name_is_here_or_has_a_reason(kind: str) -> None:
    _, ours, names = names_of(kind)
    reasons = "|".join(f"(?:{pattern})" for pattern in NOT_HERE[kind].values())
    missing = [name for name in names if not hasattr(ours, name)]
    assert [name for name in missing if not reasons or not re.fullmatch(reasons, name)] == []


@pytest.mark.parametrize("kind", NOT_HERE)
@pytest.mark.filterwarnings("ignore")
def test_every_reason_is_needed(kind: str) -> None:
    _, ours, names = names_of(kind)
    missing = [name for name in names if not hasattr(ours, name)]
    idle = [
        reason
        for reason, pattern in NOT_HERE[kind].items()
        if not any(re.fullmatch(pattern, name) for name in missing)
    ]
    assert idle == []


# What is here for the sake of these names.


def test_switches_answer_what_they_were_told() -> None:
    assert rushlight.get_deterministic_debug_mode() == torch.get_deterministic_debug_mode() == 0
    try:
        for mode, number in (("warn", 1), ("error", 2), (0, 0)):
            rushlight.set_deterministic_debug_mode(mode)
            assert rushlight.get_deterministic_debug_mode() == number
            assert rushlight.are_deterministic_algorithms_enabled() == (number > 0)
            assert rushlight.is_deterministic_algorithms_warn_only_enabled() == (number == 1)
        rushlight.set_float32_matmul_precision("high")
        assert rushlight.get_float32_matmul_precision() == "high"
    finally:
        rushlight.use_deterministic_algorithms(False)
        rushlight.set_float32_matmul_precision("highest")
    with pytest.raises(RuntimeError, match="highest"):
        rushlight.set_float32_matmul_precision("low")
    with pytest.raises(RuntimeError, match="debug_mode"):
        rushlight.set_deterministic_debug_mode("never")
    assert rushlight.set_flush_denormal(False) is False and rushlight.is_warn_always_enabled() is False


@pytest.mark.parametrize(
    "name, args",
    [
        ("sym_int", (3.7,)),
        ("sym_int", (-3.7,)),
        ("sym_float", (3,)),
        ("sym_max", (3, 4.0)),
        ("sym_min", (3, 4.0)),
        ("sym_max", (3, 4)),
        ("sym_not", (True,)),
        ("sym_ite", (False, 1, 2)),
        ("sym_sqrt", (2,)),
        ("sym_sum", ([1, 2],)),
    ],
)
def test_functions_of_numbers(name: str, args: tuple[Any, ...]) -> None:
    found, expected = getattr(rushlight, name)(*args), getattr(torch, name)(*args)
    assert found == expected and type(found) is type(expected)


@pytest.mark.parametrize("shape", [(3, 3), (7, 3), (3, 7), (9, 2), (8, 1), (2, 2, 2)])
@pytest.mark.parametrize("wrap", [False, True])
def test_filling_the_diagonal(shape: tuple[int, ...], wrap: bool) -> None:
    assert (
        rushlight.zeros(shape).fill_diagonal_(5, wrap).tolist()
        == torch.zeros(shape).fill_diagonal_(5, wrap).tolist()
    )


def test_filling_the_diagonal_of_views_and_what_has_none() -> None:
    mine, theirs = rushlight.zeros(4, 5).t()[1:], torch.zeros(4, 5).t()[1:]
    assert mine.fill_diagonal_(2).tolist() == theirs.fill_diagonal_(2).tolist()
    for library in (rushlight, torch):
        with pytest.raises(RuntimeError):
            library.zeros(3).fill_diagonal_(1)
        with pytest.raises(RuntimeError):
            library.zeros(2, 3, 2).fill_diagonal_(1)


def test_writing_by_functions() -> None:
    for library in (rushlight, torch):
        x = library.arange(6.0).reshape(2, 3).t()
        assert x.apply_(lambda v: v * v).tolist() == [[0, 9], [1, 16], [4, 25]]
        assert x.map_(library.ones(3, 2), lambda a, b: a - b).tolist() == [[-1, 8], [0, 15], [3, 24]]
    with pytest.raises(RuntimeError, match="requires grad"):
        rushlight.ones(2, requires_grad=True).apply_(abs)


def test_the_order_of_dimensions() -> None:
    for build in (
        lambda lib: lib.ones(2, 3, 4),
        lambda lib: lib.ones(2, 3, 4).permute(2, 0, 1),
        lambda lib: lib.empty(2, 3, 4, 5).to(memory_format=lib.channels_last),
    ):
        assert build(rushlight).dim_order() == build(torch).dim_order()


def test_a_tensor_of_a_class() -> None:
    class Named(rushlight.Tensor):
        pass

    x = rushlight.ones(2)
    y = x.as_subclass(Named)
    y.add_(1)
    assert type(y) is Named and x.tolist() == [2, 2]
    with pytest.raises(TypeError):
        x.as_subclass(int)


@pytest.mark.parametrize("dtype", ["bool", "int32", "float32", "complex64"])
@pytest.mark.parametrize("n, increasing", [(None, False), (4, True), (0, False)])
def test_vander(dtype: str, n: int | None, increasing: bool) -> None:
    values = [1, 0, 1] if dtype == "bool" else [2, 0, -3]
    mine, theirs = (
        lib.vander(lib.tensor(values).to(getattr(lib, dtype)), N=n, increasing=increasing)
        for lib in (rushlight, torch)
    )
    assert (
        mine.tolist() == theirs.tolist() and str(mine.dtype).split(".")[1] == str(theirs.dtype).split(".")[1]
    )


# lobpcg.


def symmetric(n: int, *batch: int) -> rushlight.Tensor:
    rushlight.manual_seed(1)
    a = rushlight.randn(*batch, n, n, dtype=rushlight.float64)
    return a @ a.mT + rushlight.eye(n, dtype=rushlight.float64)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("batch", [(), (2,)])
@pytest.mark.parametrize("general", [False, True])
def test_extreme_eigenpairs(largest: bool, batch: tuple[int, ...], general: bool) -> None:
    a = symmetric(30, *batch)
    b = symmetric(30) + 30 * rushlight.eye(30, dtype=rushlight.float64) if general else None
    values, vectors = rushlight.lobpcg(a, k=2, B=b, largest=largest, tol=1e-10)
    image = vectors if b is None else b @ vectors
    assert (a @ vectors - image * values.unsqueeze(-2)).abs().max().item() < 1e-7
    assert (vectors.mT @ image - rushlight.eye(2, dtype=a.dtype)).abs().max().item() < 1e-9
    rows = [
        (torch.from_numpy(m.numpy()), None if b is None else torch.from_numpy(b.numpy()))
        for m in (a if batch else [a])
    ]
    whole = [
        torch.linalg.eigvals(m if n is None else torch.linalg.solve(n, m)).real.sort().values for m, n in rows
    ]
    wanted = torch.stack([w.flip(0)[:2] if largest else w[:2] for w in whole]).reshape(*batch, 2)
    torch.testing.assert_close(torch.from_numpy(values.numpy()), wanted, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("general", [False, True])
def test_gradients_of_extreme_eigenpairs(general: bool) -> None:
    a, b = symmetric(6), symmetric(6) + 6 * rushlight.eye(6, dtype=rushlight.float64)

    def function(x: rushlight.Tensor, y: rushlight.Tensor) -> Any:
        # neither is made symmetric here: as a function of all elements lobpcg has the symmetric derivative
        values, vectors = rushlight.lobpcg(x, k=2, B=y if general else None, niter=5, tol=0.0)
        return values, vectors.abs()

    assert rushlight.autograd.gradcheck(function, (a.requires_grad_(), b.requires_grad_(general)))


def test_what_lobpcg_refuses() -> None:
    for library in (rushlight, torch):
        with pytest.raises(ValueError, match="3 x the number"):
            library.lobpcg(library.eye(5), k=2)
    with pytest.raises(ValueError, match="method"):
        rushlight.lobpcg(rushlight.eye(9), k=1, method="other")
    with pytest.raises(ValueError, match="square"):
        rushlight.lobpcg(rushlight.ones(9, 8), k=1)
