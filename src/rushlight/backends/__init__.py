"""Switches of libraries that PyTorch calls; none of them is called here.

Programs set them before they start (`backends.cudnn.deterministic = True`), so they are there, keep what they
are told and change nothing: results do not depend on the run, and products of float32 have all its digits.
"""

from . import cpu, cuda, cudnn, mkl, mkldnn, mps, openmp, opt_einsum

__all__ = ["cpu", "cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp", "opt_einsum"]
