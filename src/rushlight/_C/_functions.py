"""The nodes that are not operators, under the names of `torch._C._functions`."""

from ..autograd.refusing import DelayedError, Error, UndefinedGrad
from ..autograd.tape import AccumulateGrad
from ..autograd.views import CopySlices

__all__ = ["AccumulateGrad", "CopySlices", "DelayedError", "Error", "UndefinedGrad"]
