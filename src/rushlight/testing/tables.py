"""The exceptions of the harness, all of them, each with its reason.

Everything that is not compared value by value with torch, or not run at all, is declared here by the name of
its OpInfo entry ("name" or "name.variant"). A test checks that every name exists in the database, so that no
exception outlives its cause.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .compare import Tolerance

# --- entries that cannot apply on a CPU --------------------------------------------------------------

_JITERATOR = "compiles CUDA source text; PyTorch itself has no CPU implementation"

EXCLUDED: dict[str, str] = {
    "jiterator_unary": _JITERATOR,
    "jiterator_binary": _JITERATOR,
    "jiterator_4inputs_with_extra_args": _JITERATOR,
    "jiterator_binary_return_by_ref": _JITERATOR,
    "jiterator_2inputs_2outputs": _JITERATOR,
    "torch.ops.aten._flash_attention_forward": "CUDA only: PyTorch supports no dtype of it on the CPU",
    "torch.ops.aten._efficient_attention_forward": "CUDA only: PyTorch supports no dtype of it on the CPU",
    "nn.functional.batch_norm.without_cudnn": "CUDA only: it switches cuDNN off",
}


# --- entries that are compiled more than once for sizes that change -----------------------------------

_UNROLLED = "its decomposition has a step for each column"
_SPARSE = "sizes of sparse tensors are no symbols"
_TALL = "tall and wide matrices go through other steps: which it is, is a guard"

# Entries that are compiled more than once for samples that differ in sizes alone, if all sizes are symbols.
COMPILED_AGAIN: dict[str, str] = {
    "_chunk_cat": "chunks of one row, as every size of 1, are a case of their own",
    "combinations": "how many there are follows from the size by no expression",
    "geqrf": _UNROLLED,
    "linalg.multi_dot": "the order of fewest multiplications follows from the sizes",
    "isin": "few values are compared one by one, many are sorted",
    "sparse.mm.reduce": _SPARSE,
    "linalg.householder_product": _UNROLLED,
    "ormqr": _UNROLLED,
    "svd_lowrank": _TALL,
    "pca_lowrank": _TALL,
    "linalg.lstsq": _TALL,
    "linalg.lstsq.grad_oriented": _TALL,
    "multinomial": "how many random words it takes follows from the data, for numbers of rows that are known",
}


# --- random and uninitialised results ----------------------------------------------------------------


@dataclass(frozen=True)
class Sanity:
    """What must hold of a result whose values cannot be compared: bounds, finiteness, and some variety."""

    reason: str
    low: float = -np.inf
    high: float = np.inf
    finite: bool = True
    varied: bool = True  # where torch's values differ from one another, ours must too
    values: bool = True  # False: uninitialised memory, nothing can be said of the values
    kept: bool = False  # as many leading elements as the input had are compared all the same
    applies: Callable[[Mapping[str, Any]], bool] = lambda kwargs: (
        True
    )  # whether a sample, by its kwargs, is random


_SEEDED = "draws random numbers; generators differ, so only range, finiteness and variety are compared"
_DROPS = "keeps a random subset of the input; generators differ"
_BLANK = "uninitialised memory: shape and dtype are all there is"
_BEYOND = "elements beyond the old ones are uninitialised; the old ones are compared"
_PROJECTS = "starts from a random projection; the factors are compared by shape and dtype only"

UNPREDICTABLE: dict[str, Sanity] = {
    "cauchy": Sanity(_SEEDED),
    "exponential": Sanity(_SEEDED, low=0.0),
    "geometric": Sanity(_SEEDED, low=1.0),
    "log_normal": Sanity(_SEEDED, low=0.0),
    "normal": Sanity(_SEEDED),
    "normal.in_place": Sanity(_SEEDED),
    "normal.number_mean": Sanity(_SEEDED),
    "uniform": Sanity(_SEEDED),
    "randn": Sanity(_SEEDED),
    "randn_like": Sanity(_SEEDED),
    "rand_like": Sanity(_SEEDED),  # this entry of the database calls randn_like
    "randint": Sanity(_SEEDED),
    "randint_like": Sanity(_SEEDED),
    "multinomial": Sanity(_SEEDED, low=0.0),
    "bernoulli": Sanity(_SEEDED, low=0.0, high=1.0, varied=False),
    "nn.functional.dropout": Sanity(_DROPS),
    "nn.functional.dropout2d": Sanity(_DROPS, varied=False),
    "nn.functional.dropout3d": Sanity(_DROPS, varied=False),
    "nn.functional.alpha_dropout": Sanity(_DROPS),
    "nn.functional.feature_alpha_dropout.with_train": Sanity(_DROPS, varied=False),
    "nn.functional.rrelu": Sanity(
        "random slopes where training=True; generators differ",
        applies=lambda kwargs: bool(kwargs.get("training")),
    ),
    "nn.functional.fractional_max_pool2d": Sanity("pools random regions; generators differ"),
    "nn.functional.fractional_max_pool3d": Sanity("pools random regions; generators differ"),
    "nn.functional.scaled_dot_product_attention": Sanity(
        _DROPS, applies=lambda kwargs: kwargs.get("dropout_p", 0.0) > 0.0
    ),
    "nn.functional.multi_head_attention_forward": Sanity(
        _DROPS,
        varied=False,
        applies=lambda kwargs: bool(kwargs.get("training", True)),  # its samples drop only then
    ),
    "svd_lowrank": Sanity(_PROJECTS),
    "pca_lowrank": Sanity(_PROJECTS),
    "empty": Sanity(_BLANK, values=False),
    "empty_like": Sanity(_BLANK, values=False),
    "empty_strided": Sanity(_BLANK, values=False),
    "empty_permuted": Sanity(_BLANK, values=False),
    "new_empty": Sanity(_BLANK, values=False),
    "new_empty_strided": Sanity(_BLANK, values=False),
    "resize_": Sanity(_BEYOND, values=False, kept=True),
    "resize_as_": Sanity(_BEYOND, values=False, kept=True),
}

# --- results that are defined only up to a choice ----------------------------------------------------

_VECTORS = (
    "singular and eigenvectors are defined up to sign or phase; both sides are compared after the sample's "
    "own output_process_fn_grad, which removes that freedom"
)

GAUGE: dict[str, str] = {
    "svd": _VECTORS,
    "linalg.svd": _VECTORS,
    "linalg.eig": _VECTORS,
    "linalg.eigh": _VECTORS,
}

# --- indices of equal elements -----------------------------------------------------------------------


@dataclass(frozen=True)
class Ties:
    """Where an entry returns indices last, and among equal elements may return any: where `dim` stands."""

    reason: str
    dim_position: int  # among the arguments after the input; -1 if left out
    applies: Callable[[Mapping[str, Any]], bool] = lambda kwargs: not kwargs.get("stable")


_ANY_OF_EQUALS = (
    "PyTorch's documentation leaves open which of equal elements is meant; other indices are right if they "
    "pick equal elements, each at most once"
)

TIES: dict[str, Ties] = {
    "sort": Ties(_ANY_OF_EQUALS, 0),
    "argsort": Ties(_ANY_OF_EQUALS, 0),
    "topk": Ties(_ANY_OF_EQUALS, 1),
    "kthvalue": Ties(_ANY_OF_EQUALS, 1),
    "median": Ties(_ANY_OF_EQUALS, 0),
    "nanmedian": Ties(_ANY_OF_EQUALS, 0),
    "mode": Ties(_ANY_OF_EQUALS, 0),
}

# --- half precision ----------------------------------------------------------------------------------

_ONE_ROUNDING = (
    "half types are computed in float32 and rounded once; some of torch's kernels round in between, so a "
    "result that agrees with torch's float32 result for the same inputs, rounded, is right too"
)

HALF: dict[str, str] = {"bfloat16": _ONE_ROUNDING, "float16": _ONE_ROUNDING}

# --- tolerances looser than torch's own --------------------------------------------------------------

_COMPLEX_SUMS = "sums of ten complex64 products: both sides are 6e-5 from the exact result, each its own way"

_JUST_ABOVE_FIVE = (
    "torch's kernel is off by up to 4e-7 for |x| just above 5 (by arbitrary-precision values, with "
    "which ours agrees to 1e-15)"
)

_CANCELLING_SPECTRA = (
    "sums over hundreds of terms of size ten that cancel: scipy's and oneMKL's orders of summation differ "
    "by a few "
    "units in the last place of the largest term, not of the result"
)

_SEQUENCE_LOGS = (
    "torch's float32 gradient is 1.3e-4 from its own float64 one, being a difference of logarithms of size "
    "a hundred; ours, computed in double precision, agrees with the float64 gradient"
)

_STEEP_SOFTMAX = (
    "scores of several hundred: the exponential makes a relative error of the weights out of the rounding of "
    "a score, which depends on the order of a dot product's sum"
)

LOOSER: dict[str, tuple[dict[str, Tolerance], str]] = {
    "matmul": ({"complex64": Tolerance(1.3e-6, 6e-5)}, _COMPLEX_SUMS),
    "__rmatmul__": ({"complex64": Tolerance(1.3e-6, 6e-5)}, _COMPLEX_SUMS),
    "nn.functional.ctc_loss": ({"float32": Tolerance(1.3e-6, 2e-4)}, _SEQUENCE_LOGS),
    "fft.hfft2": ({"float32": Tolerance(1.3e-6, 6e-5)}, _CANCELLING_SPECTRA),
    "nn.functional.multi_head_attention_forward": ({"float32": Tolerance(1.2e-4, 0.005)}, _STEEP_SOFTMAX),
    "special.bessel_j0": ({"float64": Tolerance(1e-7, 5e-7)}, _JUST_ABOVE_FIVE),
    "special.bessel_y1": ({"float64": Tolerance(1e-7, 5e-7)}, _JUST_ABOVE_FIVE),
}
