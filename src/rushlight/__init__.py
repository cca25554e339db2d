"""Rushlight: a PyTorch-compatible differentiable tensor compiler."""

import importlib
import math
from typing import TYPE_CHECKING, Any

from .core import heap as _heap

with _heap.collector_paused():  # all but everything is read here, and none of it is garbage
    from . import (
        _vmap_internals,  # noqa: F401  programs name it
        amp,
        autograd,
        eager,
        fft,
        func,
        functional,
        linalg,
        masked,
        nested,
        nn,
        random,
        signal,
        sparse,
        special,
        storage,
        utils,
    )
from ._api import indexing as _indexing
from ._api import legacy as _legacy
from ._api import link as _link
from ._api import pointwise as _pointwise
from ._api import reduction as _reduction
from ._api import settings as _settings
from ._api import shape as _shape
from ._api import tensor as _tensor  # noqa: F401  methods of tensors
from ._api.checks import (
    _assert,  # noqa: F401  programs call these
    _assert_async,  # noqa: F401
    _check,  # noqa: F401
    _check_index,  # noqa: F401
    _check_is_size,  # noqa: F401
    _check_not_implemented,  # noqa: F401
    _check_tensor_all,  # noqa: F401
    _check_type,  # noqa: F401
    _check_value,  # noqa: F401
    _debug_has_internal_overlap,  # noqa: F401
)
from ._api.compile import compile, explain, get_num_threads, set_num_threads
from ._api.indexing import *  # noqa: F403
from ._api.legacy import *  # noqa: F403
from ._api.legacy import _shape_as_tensor, _tensor_classes  # noqa: F401
from ._api.link import *  # noqa: F403
from ._api.pointwise import *  # noqa: F403
from ._api.reduction import *  # noqa: F403
from ._api.settings import *  # noqa: F403
from ._api.shape import *  # noqa: F403
from ._api.types import result_type, typename
from .amp import GradScaler
from .amp.autocast_mode import (
    autocast,
    autocast_decrement_nesting,
    autocast_increment_nesting,
    clear_autocast_cache,
    get_autocast_cpu_dtype,
    get_autocast_dtype,
    is_autocast_cache_enabled,
    is_autocast_cpu_enabled,
    is_autocast_enabled,
    set_autocast_cache_enabled,
    set_autocast_cpu_dtype,
    set_autocast_cpu_enabled,
    set_autocast_dtype,
    set_autocast_enabled,
)
from .autograd import (
    enable_grad,
    inference_mode,
    is_anomaly_check_nan_enabled,
    is_anomaly_enabled,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from .core.aten import Tag
from .core.construct import as_tensor, asarray, from_dlpack, from_numpy, frombuffer, tensor, to_dlpack
from .core.dtype_promotion import can_cast, promote_types
from .core.dtypes import DType as dtype  # noqa: N813  torch's name
from .core.dtypes import (
    bfloat16,
    bool_,
    complex32,
    complex64,
    complex128,
    finfo,
    float8_e4m3fn,
    float8_e4m3fnuz,
    float8_e5m2,
    float8_e5m2fnuz,
    float8_e8m0fnu,
    float16,
    float32,
    float64,
    get_default_dtype,
    iinfo,
    int8,
    int16,
    int32,
    int64,
    qint8,
    qint32,
    quint2x4,
    quint4x2,
    quint8,
    set_default_dtype,
    uint8,
    uint16,
    uint32,
    uint64,
)
from .core.errors import AcceleratorError, OutOfMemoryError
from .core.generator import Generator, default_generator
from .core.nested_int import SymBool, SymFloat, SymInt
from .core.printing import set_printoptions
from .core.shown_name import SHOWN as _SHOWN
from .core.tensor import Tensor
from .core.tokens import (
    Size,
    channels_last,
    channels_last_3d,
    contiguous_format,
    device,
    jagged,
    layout,
    memory_format,
    per_channel_affine,
    per_channel_affine_float_qparams,
    per_channel_symmetric,
    per_tensor_affine,
    per_tensor_symmetric,
    preserve_format,
    qscheme,
    sparse_bsc,
    sparse_bsr,
    sparse_coo,
    sparse_csc,
    sparse_csr,
    strided,
)
from .func import vmap
from .functional import *  # noqa: F403
from .linalg._lobpcg import lobpcg
from .linalg._lowrank import lu, pca_lowrank, svd_lowrank
from .random import fork_rng, get_rng_state, initial_seed, manual_seed, seed, set_rng_state
from .sparse import (
    sparse_bsc_tensor,
    sparse_bsr_tensor,
    sparse_compressed_tensor,
    sparse_coo_tensor,
    sparse_csc_tensor,
    sparse_csr_tensor,
)
from .storage import LEGACY_STORAGES as _LEGACY_STORAGES
from .storage import TypedStorage, UntypedStorage, _storage_classes, from_file, is_storage  # noqa: F401
from .storage import TypedStorage as Storage
from .version import __version__

if TYPE_CHECKING:
    from . import optim
    from ._higher_order_ops import cond, while_loop
    from .serialization import load, save

    def as_torch() -> None: ...


half, float, double = float16, float32, float64
short, int, long = int16, int32, int64
chalf, cfloat, cdouble = complex32, complex64, complex128
bool = bool_
e, inf, nan, pi = math.e, math.inf, math.nan, math.pi
newaxis = None
spmm = mm  # noqa: F405  the older name
legacy_contiguous_format = contiguous_format

__all__ = [
    "Tag",
    "AcceleratorError",
    "Generator",
    "GradScaler",
    "OutOfMemoryError",
    "Size",
    "Storage",
    "SymBool",
    "SymFloat",
    "SymInt",
    "Tensor",
    "TypedStorage",
    "UntypedStorage",
    "__version__",
    "amp",
    "as_tensor",
    "as_torch",
    "asarray",
    "autocast",
    "autocast_decrement_nesting",
    "autocast_increment_nesting",
    "autograd",
    "eager",
    "bfloat16",
    "bool",
    "can_cast",
    "cdouble",
    "cfloat",
    "chalf",
    "channels_last",
    "channels_last_3d",
    "clear_autocast_cache",
    "compile",
    "complex128",
    "complex32",
    "complex64",
    "cond",
    "contiguous_format",
    "default_generator",
    "device",
    "double",
    "dtype",
    "e",
    "enable_grad",
    "explain",
    "fft",
    "finfo",
    "float",
    "float16",
    "float32",
    "float64",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
    "fork_rng",
    "from_dlpack",
    "from_file",
    "from_numpy",
    "frombuffer",
    "func",
    "get_autocast_cpu_dtype",
    "get_autocast_dtype",
    "get_default_dtype",
    "get_num_threads",
    "get_rng_state",
    "half",
    "iinfo",
    "inf",
    "inference_mode",
    "initial_seed",
    "int",
    "int16",
    "int32",
    "int64",
    "int8",
    "is_anomaly_check_nan_enabled",
    "is_anomaly_enabled",
    "is_autocast_cache_enabled",
    "is_autocast_cpu_enabled",
    "is_autocast_enabled",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "is_storage",
    "jagged",
    "layout",
    "legacy_contiguous_format",
    "linalg",
    "load",
    "lobpcg",
    "long",
    "lu",
    "manual_seed",
    "masked",
    "memory_format",
    "nan",
    "nested",
    "newaxis",
    "nn",
    "no_grad",
    "pca_lowrank",
    "per_channel_affine",
    "per_channel_affine_float_qparams",
    "per_channel_symmetric",
    "per_tensor_affine",
    "per_tensor_symmetric",
    "optim",
    "pi",
    "preserve_format",
    "promote_types",
    "qint32",
    "qint8",
    "qscheme",
    "quint2x4",
    "quint4x2",
    "quint8",
    "random",
    "result_type",
    "save",
    "seed",
    "set_autocast_cache_enabled",
    "set_autocast_cpu_dtype",
    "set_autocast_cpu_enabled",
    "set_autocast_dtype",
    "set_autocast_enabled",
    "set_default_dtype",
    "set_grad_enabled",
    "set_num_threads",
    "set_printoptions",
    "set_rng_state",
    "short",
    "signal",
    "sparse",
    "sparse_bsc",
    "sparse_bsc_tensor",
    "sparse_bsr",
    "sparse_bsr_tensor",
    "sparse_compressed_tensor",
    "sparse_coo",
    "sparse_coo_tensor",
    "sparse_csc",
    "sparse_csc_tensor",
    "sparse_csr",
    "sparse_csr_tensor",
    "special",
    "storage",
    "strided",
    "svd_lowrank",
    "tensor",
    "to_dlpack",
    "typename",
    "uint16",
    "uint32",
    "uint64",
    "uint8",
    "utils",
    "vmap",
    "while_loop",
]
__all__ += _link.__all__
__all__ += _indexing.__all__
__all__ += _legacy.__all__
__all__ += _pointwise.__all__
__all__ += _reduction.__all__
__all__ += _settings.__all__
__all__ += _shape.__all__
__all__ += functional.__all__
__all__ += list(_LEGACY_STORAGES)
globals().update(_LEGACY_STORAGES)


_heap.keep_freed_memory()

_ON_DEMAND = (
    "_C",
    "__config__",
    "__future__",
    "_custom_op",
    "_custom_ops",
    "_dynamo",
    "_functorch",
    "_inductor",
    "_higher_order_ops",
    "_library",
    "_ops",
    "_prims_common",
    "_subclasses",
    "_tensor_str",
    "_utils",
    "accelerator",
    "ao",
    "backends",
    "compiler",
    "cpu",
    "cuda",
    "distributed",
    "distributions",
    "export",
    "futures",
    "fx",
    "hub",
    "jit",
    "library",
    "mps",
    "multiprocessing",
    "onnx",
    "optim",
    "overrides",
    "profiler",
    "quasirandom",
    "return_types",
    "serialization",
    "testing",
    "torch_version",
    "types",
    "version",
    "xpu",
)


_FUNCTIONS_ON_DEMAND = {
    "as_torch": "programs",
    "cond": "_higher_order_ops",
    "load": "serialization",
    "save": "serialization",
    "PyTorchFileReader": "_serialization.file_reader",
    "ScriptFunction": "jit",
    "ScriptModule": "jit",
    "while_loop": "_higher_order_ops",
}


def __getattr__(name: str) -> Any:
    """Subpackages, and functions of them, that are loaded when they are first asked for."""
    if name in _ON_DEMAND:
        return importlib.import_module(f".{name}", __package__)
    if name in _FUNCTIONS_ON_DEMAND:
        return getattr(importlib.import_module(f".{_FUNCTIONS_ON_DEMAND[name]}", __package__), name)
    raise AttributeError(f"module {_SHOWN.package!r} has no attribute {name!r}")
