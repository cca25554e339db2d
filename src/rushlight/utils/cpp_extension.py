"""Extensions in C++ or CUDA: not available, since there is no C++ interface to build against."""

from ..core.missing import missing_class, missing_function

__all__ = ["CUDA_HOME", "BuildExtension", "CUDAExtension", "CppExtension", "load", "load_inline"]

CUDA_HOME = None
_WHY = (
    "extensions are built against PyTorch's C++ interface; torch.library.custom_op adds operators in Python"
)
BuildExtension, CppExtension, CUDAExtension = (
    missing_class("utils.cpp_extension", name, _WHY)
    for name in ("BuildExtension", "CppExtension", "CUDAExtension")
)
load, load_inline = (missing_function("utils.cpp_extension", name, _WHY) for name in ("load", "load_inline"))
