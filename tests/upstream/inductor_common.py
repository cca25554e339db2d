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


class Settings:
    """What a test says of its comparison, by the names of PyTorch's own `check_model`; the rest is about code."""

    atol: float | None = None
    rtol: float | None = None
    grad_atol: float | None = None
    grad_rtol: float | None = None
    exact_dtype: bool = True
    nopython: bool = True
    reference_in_float: bool = True
    assert_equal: bool = True
    check_gradient: bool = False

    def __init__(self, given: dict[str, Any]) -> None:
        known = {k: v for k, v in given.items() if k in Settings.__annotations__}
        vars(self).update(known)
        self.shown = given.get("output_process_fn_grad", lambda x: x)


def common(
    self: Any, model: Any, example_inputs: Any, kwargs: dict[str, Any] | None = None, **settings: Any
) -> None:
    """Compile `model`, call it, and compare results, changed inputs and, if asked, derivatives with a plain
    call (in float32 for halves)."""
    _Comparison(self, model, example_inputs, kwargs or {}, Settings(settings)).check()


class _Comparison:
    def __init__(self, test: Any, model: Any, inputs: Any, named: dict[str, Any], settings: Settings) -> None:
        import torch
        from torch.utils import _pytree

        self.torch, self.leaves = torch, _pytree.tree_leaves
        self.test, self.model, self.inputs, self.named, self.settings = test, model, inputs, named, settings

    def check(self) -> None:
        torch, settings = self.torch, self.settings
        torch.manual_seed(0)
        plain = self._dtypes_of_plain_call()
        reference, named, low = self._reference()
        target = (
            copy.deepcopy(self.model).to(torch.float) if low and hasattr(self.model, "to") else self.model
        )
        torch.manual_seed(0)
        expected = target(*reference, **named)
        actual = self._compiled()
        assert type(actual) is type(expected), (type(actual), type(expected))
        got, want = self.leaves(actual), self.leaves(expected)
        assert len(got) == len(want)
        if settings.exact_dtype and plain is not None and settings.reference_in_float:
            for dtype, x in zip(plain, got, strict=True):
                assert dtype is None or x.dtype == dtype, f"dtype mismatch: eager {dtype}, compiled {x.dtype}"
        if settings.assert_equal:
            self._compare_values(got, want, reference)
        else:
            self._compare_kinds(got, want, low)
        if settings.check_gradient:
            self._compare_gradients(actual, expected, (reference, named))

    # Calls.

    def _clones(self) -> tuple[list[Any], dict[str, Any]]:
        return [_clone(x, self.torch) for x in self.inputs], {
            k: _clone(v, self.torch) for k, v in self.named.items()
        }

    def _dtypes_of_plain_call(self) -> list[Any] | None:
        args, named = self._clones()
        try:
            leaves = self.leaves(self.model(*args, **named))
        except RuntimeError:
            return None
        return [x.dtype if isinstance(x, self.torch.Tensor) else None for x in leaves]

    def _is_half(self, x: Any) -> bool:
        return isinstance(x, self.torch.Tensor) and x.dtype in (self.torch.float16, self.torch.bfloat16)

    def _reference(self) -> tuple[list[Any], dict[str, Any], bool]:
        """Copies of the arguments, halves as float32 if the test allows it, and whether there are any."""
        args, named = self._clones()
        if not self.settings.reference_in_float:
            return args, named, False
        low = any(map(self._is_half, [*self.inputs, *self.named.values()]))
        args = [x.float() if self._is_half(x) else x for x in args]
        return args, {k: v.float() if self._is_half(v) else v for k, v in named.items()}, low

    def _compiled(self) -> Any:
        def run(*args: Any, **named: Any) -> Any:
            return self.model(*args, **named)

        dynamic = True if "Dynamic" in type(self.test).__name__ else None
        compiled = self.torch.compile(run, fullgraph=self.settings.nopython, dynamic=dynamic)
        self.torch.manual_seed(0)
        return compiled(*self.inputs, **self.named)

    # Comparisons.

    def _fit(self, expected: Any, actual: Any) -> Any:
        tensor = self.torch.Tensor
        floats = (
            isinstance(expected, tensor) and isinstance(actual, tensor) and expected.dtype.is_floating_point
        )
        return expected.to(actual.dtype) if self.settings.reference_in_float and floats else expected

    def _fitted(self, expected: list[Any], actual: list[Any]) -> list[Any]:
        return [self._fit(e, a) for e, a in zip(expected, actual, strict=True)]

    def _compare_values(self, got: list[Any], want: list[Any], reference: list[Any]) -> None:
        settings = self.settings
        close = {"atol": settings.atol, "rtol": settings.rtol, "equal_nan": True}
        expected = self._fitted(want, got)
        self.test.assertEqual(got, expected, exact_dtype=settings.exact_dtype, **close)  # noqa: PT009
        inputs = list(self.inputs)
        self.test.assertEqual(inputs, self._fitted(reference, inputs), exact_dtype=False, **close)  # noqa: PT009

    def _compare_kinds(self, got: list[Any], want: list[Any], low: bool) -> None:
        for e, a in zip(want, got, strict=True):
            if isinstance(e, self.torch.Tensor):
                assert e.shape == a.shape
                assert e.device == a.device
                assert not self.settings.exact_dtype or e.dtype == a.dtype or low

    def _compare_gradients(self, actual: Any, expected: Any, reference: Any) -> None:
        torch, settings = self.torch, self.settings
        pairs = zip(self.leaves(settings.shown(actual)), self.leaves(settings.shown(expected)), strict=True)
        outs = [(a, e) for a, e in pairs if isinstance(e, torch.Tensor) and e.requires_grad]
        seeds = [torch.rand(e.shape, dtype=e.dtype) for _, e in outs]

        def gradients(results: list[Any], inputs: Any, seeds: list[Any]) -> list[Any]:
            leaves = [x for x in self.leaves(inputs) if isinstance(x, torch.Tensor) and x.requires_grad]
            return list(torch.autograd.grad(results, leaves, seeds, allow_unused=True, retain_graph=True))

        wanted = gradients([e for _, e in outs], reference, seeds)
        cast = [s.to(a.dtype) for (a, _), s in zip(outs, seeds, strict=True)]
        found = gradients([a for a, _ in outs], (list(self.inputs), self.named), cast)
        close = {"atol": settings.grad_atol or settings.atol, "rtol": settings.grad_rtol or settings.rtol}
        fitted = self._fitted(wanted, found)
        self.test.assertEqual(found, fitted, equal_nan=True, exact_dtype=settings.exact_dtype, **close)  # noqa: PT009


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
