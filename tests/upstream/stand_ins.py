"""Stand-ins for what PyTorch's test helpers read of torch while files are collected and what says nothing
about Rushlight: settings of torch's own compiler, lists of other devices, dtypes that can be written
down. None turns a failure into a pass: a test that uses what Rushlight lacks raises, as `redirect` says."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import sys
from collections.abc import Callable
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any

from . import redirect


def _no(*args: Any, **kwargs: Any) -> bool:
    return False


def _exists(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ImportError:
        return False


class Config(ModuleType):
    """Settings of torch's own compiler: they can be set and read back, and do nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        full = f"{self.__name__}.{name}"
        if full in sys.modules:
            return sys.modules[full]
        if name.startswith("is_"):
            return _no
        if name in ("triton", "cpp", "halide", "aot_inductor", "trace", "cuda", "rocm"):
            self.__dict__[name] = Config(full)
            return self.__dict__[name]
        return False

    class _Patch(contextlib.ContextDecorator):
        def __enter__(self) -> Any:
            return self

        def __exit__(self, *exc: object) -> bool:
            return False

        def __call__(self, function: Any) -> Any:
            return function

    def patch(self, *args: Any, **kwargs: Any) -> Any:
        return self._Patch()

    def load_config(self, *args: Any) -> None:
        pass

    def save_config(self) -> bytes:
        return b""

    def get_config_copy(self) -> dict[str, Any]:
        return {}

    shallow_copy_dict = get_config_copy


CONFIGS = (
    "torch._dynamo.config",
    "torch._inductor.config",
    "torch._functorch.config",
    "torch.fx.experimental._config",
)


def _optimize(
    backend: Any = None, *, nopython: bool = False, dynamic: bool | None = None, **rest: Any
) -> Any:
    """torch._dynamo.optimize: Rushlight's compile, whatever backend of torch the test names."""
    import rushlight

    return lambda function: rushlight.compile(function, fullgraph=nopython, dynamic=dynamic)


def _same(a: Any, b: Any, fp64_ref: Any = None, **rest: Any) -> bool:
    """torch._dynamo.testing.same."""
    import rushlight
    from rushlight.utils import _pytree

    def agree(x: Any, y: Any) -> bool:
        if isinstance(x, rushlight.Tensor):
            return bool(rushlight.allclose(x, y, atol=1e-4, rtol=1e-4, equal_nan=True))
        return bool(x == y)

    left, right = _pytree.tree_leaves(a), _pytree.tree_leaves(b)
    return len(left) == len(right) and all(map(agree, left, right))


def _rand_strided(size: Any, stride: Any, dtype: Any = None, device: str = "cpu", extra_size: int = 0) -> Any:
    """torch._dynamo.testing.rand_strided."""
    import rushlight

    dtype = dtype or rushlight.float32
    length = sum((n - 1) * s for n, s in zip(size, stride, strict=True)) + 1 + extra_size
    drawn = dtype.is_floating_point or dtype.is_complex
    whole = rushlight.randn(length, dtype=dtype) if drawn else rushlight.zeros(length, dtype=dtype)
    return rushlight.as_strided(whole, size, stride)


def _class_with_patches(
    cls: type, prefix: str, suffix: str, *patches: Any, xfail_prop: Any = None, **rest: Any
) -> type:
    """torch._dynamo.testing.make_test_cls_with_patches: the tests again under another name (the settings
    are Dynamo's)."""
    new = type(prefix + cls.__name__, cls.__bases__, {})
    for name in dir(cls):
        method = getattr(cls, name)
        if name.startswith("test_") and callable(method):

            def again(self: Any, *args: Any, _method: Any = method, **kwargs: Any) -> Any:
                return _method(self, *args, **kwargs)

            setattr(new, name + suffix, functools.wraps(method)(again))
        elif not hasattr(new, name):
            setattr(new, name, method)
    return new


def _marked(function: Any) -> Any:
    function._expected_failure_codegen_dynamic = True
    return function


class Functions:
    """torch._C._VariableFunctions: the functions of the package itself."""

    def __getattr__(self, name: str) -> Any:
        import rushlight

        if hasattr(rushlight, name):
            return getattr(rushlight, name)
        if redirect.running():
            raise AttributeError(name)
        return redirect.stub("torch._C._VariableFunctions." + name)

    def __and__(self, other: Any) -> None:  # looked for by name
        pass

    __or__ = __xor__ = __lshift__ = __rshift__ = __and__


# By full name; each serves only where Rushlight has nothing of that name.
VALUES: dict[str, Any] = {
    "torch._C._VariableFunctions": Functions(),
    "torch._C._get_privateuse1_backend_name": lambda: "privateuseone",
    "torch._C._is_privateuse1_backend_available": _no,
    "torch._C.has_lapack": True,
    "torch._C._has_lapack": True,
    "torch._C.has_spectral": True,
    "torch._C._has_mkldnn": False,
    "torch._C.has_openmp": True,
    "torch._C._debug_only_are_vmap_fallback_warnings_enabled": _no,
    "torch._C._debug_only_display_vmap_fallback_warnings": _no,
    "torch._C._functorch._is_vmap_fallback_enabled": _no,
    "torch._C._functorch._set_vmap_fallback_enabled": _no,
    "torch._C._TorchFunctionState": SimpleNamespace(ENABLED=0, SUBCLASSES_DISABLED=1, ALL_DISABLED=2),
    "torch._C._len_torch_function_stack": lambda: 0,
    "torch._C._get_torch_function_state": lambda: 0,
    "torch._C._DisableFuncTorch": contextlib.nullcontext,
    "torch._C._functorch.DisableFuncTorch": contextlib.nullcontext,
    "torch._utils._is_privateuse1_backend_available": _no,
    "torch._utils._element_size": lambda dtype: dtype.itemsize,
    "torch._utils_internal.get_writable_path": lambda path: path,
    "torch._utils_internal.get_file_path_2": os.path.join,
    "torch._logging.scribe.open_source_signpost": _no,
    "torch._prims_common.is_integer_dtype": lambda dtype: not (dtype.is_floating_point or dtype.is_complex),
    "torch.utils._import_utils._check_module_exists": _exists,
    "torch.utils._foreach_utils._get_foreach_kernels_supported_devices": lambda: ["cuda", "xpu", "mtia"],
    "torch.utils._foreach_utils._get_fused_kernels_supported_devices": lambda: [
        "cuda",
        "xpu",
        "mps",
        "hpu",
        "cpu",
        "mtia",
    ],
    "torch.backends.quantized.supported_engines": [],
    "torch._inductor.utils.GPU_TYPES": ["cuda", "mps", "xpu", "mtia"],
    "torch._inductor.utils.has_torchvision_roi_align": _no,
    "torch._inductor.metrics.reset": _no,
    "torch._dynamo.config.error_on_nested_jit_trace": False,
    "torch._dynamo.disable": lambda f=None, **rest: f if f is not None else (lambda g: g),
    "torch._dynamo.reset": _no,
    "torch._dynamo.optimize": _optimize,
    "torch._dynamo.optimize_assert": lambda backend=None, **rest: _optimize(backend, nopython=True),
    "torch._dynamo.testing.same": _same,
    "torch._dynamo.testing.rand_strided": _rand_strided,
    "torch._dynamo.testing.expectedFailureCodegenDynamic": _marked,
    "torch._dynamo.testing.expectedFailureDynamic": lambda f: f,
    "torch._dynamo.testing.skipIfPy312": lambda f: f,
    "torch._dynamo.testing.make_test_cls_with_patches": _class_with_patches,
    "torch._dynamo.utils.ifdynstaticdefault": lambda static, dynamic: static,
}

# What only torch.testing._internal may see.
FOR_HELPERS: dict[str, Any] = {
    "torch.cuda.is_tf32_supported": _no,
    "torch.mtia": SimpleNamespace(is_available=_no, device_count=lambda: 0),
    "torch.utils._mode_utils": SimpleNamespace(no_dispatch=contextlib.nullcontext),
    "torch.utils.deterministic": SimpleNamespace(fill_uninitialized_memory=True),
    "torch.compiler": SimpleNamespace(set_stance=_no, is_compiling=_no, is_dynamo_compiling=_no),
    **{f"torch.compiler.{name}": _no for name in ("set_stance", "is_compiling", "is_dynamo_compiling")},
}
DTYPES = (
    "bits16", "bits1x8", "bits2x4", "bits4x2", "bits8", "complex32", "float4_e2m1fn_x2", "float8_e4m3fnuz",
    "float8_e5m2fnuz", "float8_e8m0fnu", "quint2x4", "quint4x2",
    *(f"{sign}int{bits}" for bits in range(1, 8) for sign in ("", "u")),
)  # fmt: skip
TRANSFORMS = (
    "vmap", "grad", "vjp", "jvp", "jacrev", "jacfwd", "hessian", "grad_and_value", "functional_call",
    "linearize", "functionalize", "stack_module_state",
)  # fmt: skip


def install(rushlight: ModuleType) -> None:
    for name in "torch._inductor.test_case", "torch._dynamo.test_case":
        redirect.special_modules[name] = functools.partial(_test_case_module, name)
    for name in CONFIGS:
        redirect.special_modules[name] = functools.partial(_config_module, name)
    redirect.stubs.update(VALUES)
    redirect.for_helpers.update(FOR_HELPERS)
    redirect.stubs["torch._C.TensorBase"] = redirect.stubs["torch._C._TensorBase"] = rushlight.Tensor
    for name in TRANSFORMS:  # where torch.func's functions live
        for module in "eager_transforms", "apis", "vmap":
            if hasattr(rushlight.func, name):
                redirect.stubs[f"torch._functorch.{module}.{name}"] = getattr(rushlight.func, name)
    rushlight.dtype.__repr__ = lambda self: "torch." + self.name  # tests compare how it prints
    for name in DTYPES:
        if not hasattr(rushlight, name):
            _name_dtype(rushlight.dtype, name)
    _tolerate_operators(rushlight)
    _tolerate_custom_operators(rushlight)


def _test_case_module(name: str) -> ModuleType:
    """torch._inductor.test_case and its like: the plain TestCase."""
    from torch.testing._internal import common_utils

    module = ModuleType(name)
    module.TestCase = type("TestCase", (common_utils.TestCase,), {})
    module.TestCaseWithNestedGraphBreaks = module.CPythonTestCase = module.TestCase
    module.run_tests = _no
    return module


def _config_module(name: str) -> ModuleType:
    module = Config(name)
    module.__path__ = []
    return module


def _name_dtype(kind: type, name: str) -> None:
    """A dtype that can be put into lists of dtypes; using it fails, for it has no storage."""
    dtype = object.__new__(kind)
    fields = {
        "name": name,
        "torch_name": name,
        "is_complex": name.startswith("complex"),
        "is_floating_point": name.startswith("float"),
        "is_quantized": name.startswith("quint"),
        "is_signed": not name.startswith("u"),
    }
    for field, value in fields.items():
        object.__setattr__(dtype, field, value)
    names = [name, "chalf"] if name == "complex32" else [name]
    for each in names:
        redirect.stubs["torch." + each] = redirect.for_helpers["torch." + each] = dtype


def _while_collecting(function: Callable[..., Any], otherwise: Callable[[], Any]) -> Callable[..., Any]:
    """The function, whose failures do not keep a file from being collected."""

    @functools.wraps(function)
    def tolerant(*args: Any, **kwargs: Any) -> Any:
        if redirect.running():
            return function(*args, **kwargs)
        try:
            return function(*args, **kwargs)
        except Exception:
            return otherwise()

    return tolerant


def _tolerate_operators(rushlight: ModuleType) -> None:
    """Operators that are not there may be named in tables while files are collected."""
    from rushlight.core import aten

    for cls in aten.OpNamespace, aten.OpOverloadPacket:

        def lenient(self: Any, name: str, _first: Any = cls.__getattr__) -> Any:
            try:
                return _first(self, name)
            except AttributeError:
                if redirect.running() or name.startswith("__") or redirect._asked_by_us(sys._getframe(1)):
                    raise
                return redirect.stub(
                    f"torch.ops.{self.__dict__.get('_namespace', self.__dict__.get('_name', ''))}.{name}"
                )

        cls.__getattr__ = lenient


def _tolerate_custom_operators(rushlight: ModuleType) -> None:
    """What custom operators and `save` refuse must not keep a file from being collected."""
    from rushlight import library

    for name, value in list(vars(library).items()):
        if (
            isinstance(value, FunctionType)
            and not name.startswith("_")
            and value.__module__ == library.__name__
        ):
            setattr(
                library,
                name,
                _while_collecting(value, functools.partial(redirect.stub, f"torch.library.{name}()")),
            )
    rushlight.save = _while_collecting(rushlight.save, lambda: None)
