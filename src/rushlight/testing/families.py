"""The family (room) of an OpInfo entry: where its operator is declared, or else where its name belongs."""

from __future__ import annotations

import re
from collections.abc import Mapping

# fmt: off
FAMILIES = (
    "creation", "pointwise", "reduction", "scan", "view", "shape", "indexing", "sorting", "matmul", "conv",
    "pooling", "resample", "activation", "loss", "normalization", "embedding", "attention", "recurrent",
    "linalg", "fft", "special", "random", "quantization", "foreach", "sparse", "masked",
)
# fmt: on

# The first pattern that matches the whole name of the entry (without its variant) decides.
_RULES: tuple[tuple[str, str], ...] = (
    ("masked", r"masked\..*"),
    ("fft", r"fft\..*|stft|istft|signal\..*"),
    ("linalg", r"linalg\.(?!vecdot|diagonal|cross|norm|vector_norm|matrix_norm|vander).*"),
    (
        "linalg",
        r"linalg\..*|cholesky.*|geqrf|ormqr|lu|lu_solve|lu_unpack|matrix_exp|qr|svd|svd_lowrank|pca_lowrank|"
        r"pinverse|triangular_solve|logdet|matrix_.*|norm",
    ),
    ("special", r"special\..*|polygamma|mvlgamma|igammac?|digamma|lgamma|erf.*|i0|sinc"),
    ("sparse", r"sparse\..*|to_sparse"),
    (
        "random",
        r"rand.*|normal|uniform|bernoulli|multinomial|cauchy|exponential|geometric|log_normal|"
        r"(nn\.functional\.)?.*dropout.*",
    ),
    ("loss", r"nn\.functional\.(.*_loss|.*cross_entropy.*|kl_div)"),
    ("pooling", r"nn\.functional\..*pool.*|max_pool2d.*"),
    ("conv", r"nn\.functional\.(conv.*|unfold|fold)"),
    (
        "resample",
        r"nn\.functional\.(interpolate|upsample.*|grid_sample|pixel.*|channel_shuffle)|grid_sampler.*|"
        r"_upsample.*",
    ),
    ("normalization", r"nn\.functional\.(.*_norm|normalize)|.*(batch|group|layer)_norm.*"),
    ("attention", r".*attention.*"),
    ("embedding", r"nn\.functional\.(embedding.*|one_hot)"),
    ("shape", r"nn\.functional\.pad|constant_pad_nd"),
    ("matmul", r"nn\.functional\.(linear|bilinear|pdist)|.*scaled_mm.*"),
    ("reduction", r"nn\.functional\.(cosine_similarity|pairwise_distance)"),
    ("activation", r"nn\.functional\..*|(log_)?softmax.*|_softmax.*|.*softmax.*|sigmoid"),
    (
        "creation",
        r"arange|eye|empty.*|full.*|linspace|logspace|new_.*|ones.*|zeros.*|scalar_tensor|complex|polar|"
        r"tri[lu]_indices",
    ),
    (
        "matmul",
        r"addmm|addmv|addbmm|baddbmm|addr|bmm|mm|mv|dot|vdot|inner|outer|matmul|__rmatmul__|einsum|tensordot|kron|"
        r"cdist|chain_matmul|cross",
    ),
    ("sorting", r"sort|argsort|msort|topk|kthvalue|unique.*|searchsorted|bucketize|isin"),
    ("scan", r"cum.*|logcumsumexp|diff|trapz|trapezoid|gradient"),
    (
        "reduction",
        r"sum|mean|prod|nansum|nanmean|std.*|var.*|amax|amin|aminmax|argmax|argmin|any|all|max|min|median|"
        r"nanmedian|mode|quantile|nanquantile|logsumexp|count_nonzero|hist.*|bincount|dist|cov|corrcoef|equal|"
        r"allclose|trace|hash_tensor|_segment_reduce|renorm|sum_to_size",
    ),
    (
        "indexing",
        r"gather|scatter.*|index_.*|put|take|take_along_dim|nonzero.*|argwhere|masked_.*|__getitem__|"
        r"_unsafe_masked.*|where",
    ),
    (
        "view",
        r".*_copy|.*_scatter|view.*|as_strided.*|expand.*|permute|transpose|t|T|H|mT|mH|squeeze|unsqueeze|select|slice|"
        r"narrow|unfold|diagonal|unbind|split.*|[hvd]split|chunk|tensor_split|movedim|reshape.*|ravel|flatten|"
        r"unflatten|real|imag|conj|resolve_.*|atleast_.*|contiguous|broadcast_.*|unsafe_(chunk|split)|swap.*",
    ),
    (
        "shape",
        r"cat|_chunk_cat|stack|[hvd]stack|column_stack|flip.*|roll|rot90|repeat.*|tile|tril|triu|diag|diagflat|"
        r"diag_embed|block_diag|combinations|cartesian_prod|meshgrid|unravel_index|fill|zero_|resize.*|clone",
    ),
    ("pointwise", r".*"),
)
_COMPILED = tuple((family, re.compile(pattern)) for family, pattern in _RULES)


def family_of(name: str, aten_name: str, registered: Mapping[str, str]) -> str:
    """The family of an entry; `registered` maps the base name of each registered operator to its family."""
    short = name.removeprefix("nn.functional.").removeprefix("torch.ops.aten.").removesuffix(".default")
    for known in (short, aten_name, name.replace(".", "_")):
        if registered.get(known) in FAMILIES and not name.startswith("masked."):  # not a backend's name
            return registered[known]
    return next(family for family, pattern in _COMPILED if pattern.fullmatch(name))


def registered_families() -> dict[str, str]:
    """Base name of every registered operator -> its family; empty while there is no registry."""
    try:
        from rushlight.core.registry import REGISTRY
    except ImportError:
        return {}
    return {name.partition(".")[0]: op.family for name, op in REGISTRY.ops.items()}
