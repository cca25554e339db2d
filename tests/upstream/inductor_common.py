"""For test/inductor: the base class's `common`, and the compiler it asks for. On torch, programs are
captured and run by the "eager" backend, which tells whether a test makes sense without Inductor's code;
on Rushlight they are compiled."""

from __future__ import annotations

import copy
from types import ModuleType
from typing import Any


def _clone(x: Any, torch: ModuleType) -> Any:
    """A copy with the same strides, a leaf if it was one."""
    if not isinstance(x, torch.Tensor) or x.layout != torch.strided:
        return x
    span = sum((n - 1) * s for n, s in zip(x.shape, x.stride(), strict=True)) + 1 if x.numel() else 0
    fits = x.storage_offset() + span <= x.untyped_storage().size() // x.element_size()
    if x.numel() and fits and not x.is_conj() and not x.is_neg():
        whole = torch.as_strided(x.detach(), (span,), (1,)).clone()
        out = torch.as_strided(whole, tuple(x.shape), tuple(x.stride()))
    else:
        out = x.detach().clone()
    return out.requires_grad_() if x.requires_grad else out


def common(
    self: Any,
    model: Any,
    example_inputs: Any,
    kwargs: dict[str, Any] | None = None,
    *,
    atol: float | None = None,
    rtol: float | None = None,
    grad_atol: float | None = None,
    grad_rtol: float | None = None,
    exact_dtype: bool = True,
    nopython: bool = True,
    reference_in_float: bool = True,
    assert_equal: bool = True,
    check_gradient: bool = False,
    output_process_fn_grad: Any = lambda x: x,
    **rest: Any,
) -> None:
    """Compile `model`, call it, and compare results, changed inputs and, if asked, derivatives with a plain
    call (in float32 for halves)."""
    import torch
    from torch.utils import _pytree

    half = (torch.float16, torch.bfloat16)
    kwargs = kwargs or {}

    def is_half(x: Any) -> bool:
        return isinstance(x, torch.Tensor) and x.dtype in half

    def clones() -> tuple[list[Any], dict[str, Any]]:
        return [_clone(x, torch) for x in example_inputs], {k: _clone(v, torch) for k, v in kwargs.items()}

    def dtypes_of_plain_call() -> list[Any] | None:
        args, named = clones()
        try:
            leaves = _pytree.tree_leaves(model(*args, **named))
        except RuntimeError:
            return None
        return [x.dtype if isinstance(x, torch.Tensor) else None for x in leaves]

    def fit(expected: Any, actual: Any) -> Any:
        floats = (
            isinstance(expected, torch.Tensor)
            and isinstance(actual, torch.Tensor)
            and expected.dtype.is_floating_point
        )
        return expected.to(actual.dtype) if reference_in_float and floats else expected

    torch.manual_seed(0)
    plain = dtypes_of_plain_call()
    reference, named = clones()
    target, low = model, False
    if reference_in_float:
        low = any(map(is_half, [*example_inputs, *kwargs.values()]))
        reference = [x.float() if is_half(x) else x for x in reference]
        named = {k: v.float() if is_half(v) else v for k, v in named.items()}
        if low and hasattr(model, "to"):
            target = copy.deepcopy(model).to(torch.float)
    torch.manual_seed(0)
    expected = target(*reference, **named)

    def run(*args: Any, **named: Any) -> Any:
        return model(*args, **named)

    dynamic = True if "Dynamic" in type(self).__name__ else None
    compiled = torch.compile(run, fullgraph=nopython, dynamic=dynamic)
    torch.manual_seed(0)
    actual = compiled(*example_inputs, **kwargs)
    assert type(actual) is type(expected), (type(actual), type(expected))
    got, want = _pytree.tree_leaves(actual), _pytree.tree_leaves(expected)
    assert len(got) == len(want)
    if exact_dtype and plain is not None and reference_in_float:
        for dtype, x in zip(plain, got, strict=True):
            assert dtype is None or x.dtype == dtype, f"dtype mismatch: eager {dtype}, compiled {x.dtype}"
    if assert_equal:
        close = {"atol": atol, "rtol": rtol, "equal_nan": True}
        self.assertEqual(  # noqa: PT009
            got, [fit(e, a) for e, a in zip(want, got, strict=True)], exact_dtype=exact_dtype, **close
        )
        inputs = list(example_inputs)
        changed = [fit(e, a) for e, a in zip(reference, inputs, strict=True)]
        self.assertEqual(inputs, changed, exact_dtype=False, **close)  # noqa: PT009
    else:
        for e, a in zip(want, got, strict=True):
            if isinstance(e, torch.Tensor):
                assert (
                    e.shape == a.shape
                    and e.device == a.device
                    and (not exact_dtype or e.dtype == a.dtype or low)
                )
    if check_gradient:
        outs = [
            (a, e)
            for a, e in zip(
                _pytree.tree_leaves(output_process_fn_grad(actual)),
                _pytree.tree_leaves(output_process_fn_grad(expected)),
                strict=True,
            )
            if isinstance(e, torch.Tensor) and e.requires_grad
        ]
        seeds = [torch.rand(e.shape, dtype=e.dtype) for _, e in outs]

        def gradients(results: list[Any], inputs: Any, seeds: list[Any]) -> list[Any]:
            leaves = [
                x for x in _pytree.tree_leaves(inputs) if isinstance(x, torch.Tensor) and x.requires_grad
            ]
            return list(torch.autograd.grad(results, leaves, seeds, allow_unused=True, retain_graph=True))

        wanted = gradients([e for _, e in outs], (reference, named), seeds)
        cast = [s.to(a.dtype) for (a, _), s in zip(outs, seeds, strict=True)]
        found = gradients([a for a, _ in outs], (list(example_inputs), kwargs), cast)
        close = {
            "atol": grad_atol or atol,
            "rtol": grad_rtol or rtol,
            "equal_nan": True,
            "exact_dtype": exact_dtype,
        }
        self.assertEqual(found, [fit(w, g) for w, g in zip(wanted, found, strict=True)], **close)  # noqa: PT009


def capture_only() -> None:
    """On torch: Dynamo's capture with the "eager" backend in place of Inductor."""
    import torch
    import torch._dynamo

    compile_, optimize, optimize_assert = torch.compile, torch._dynamo.optimize, torch._dynamo.optimize_assert

    def compiled(model: Any = None, **options: Any) -> Any:
        if options.get("backend", "inductor") == "inductor":
            options["backend"] = "eager"
            options.pop("mode", None)
            options.pop("options", None)
        return compile_(model, **options) if model is not None else lambda m: compiled(m, **options)

    def eager(backend: Any) -> Any:
        is_inductor = backend == "inductor" or "compile_fx" in getattr(backend, "__name__", "")
        return "eager" if is_inductor else backend

    torch.compile = compiled
    torch._dynamo.optimize = lambda backend="inductor", *a, **k: optimize(eager(backend), *a, **k)
    torch._dynamo.optimize_assert = lambda backend="inductor", *a, **k: optimize_assert(
        eager(backend), *a, **k
    )


def adapt(module: ModuleType) -> None:
    """Give a test module's classes this `common`."""
    for value in list(vars(module).values()):
        if isinstance(value, type) and "common" in vars(value):
            value.common = common
    for name in "check_model", "check_model_gpu", "check_model_cuda":
        if hasattr(module, name):
            setattr(module, name, common)
