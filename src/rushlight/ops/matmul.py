"""Matrix and tensor products, distances: schemas and shape rules.

The operands of a product must have one dtype; only `addr`, which is an elementwise sum, promotes.
"""

from __future__ import annotations

from typing import Any

from ..core.dtypes import DTYPES, Category, DType
from ..core.errors import check, fail
from ..core.promotion import common
from ..core.registry import FUNCTION, INPLACE, INPLACE_METHOD, INTERNAL, METHOD, OUT, Api, define
from ..core.shapes import Shape, Spec, broadcast_shapes, wrap_dim, wrap_dims
from ..core.symbols import exact
from ..core.tensor import Tensor
from ..core.traits import Trait

_UNSUPPORTED = frozenset(DTYPES[name] for name in ("bool", "uint16", "uint32", "uint64"))
_FLOAT8 = frozenset(dtype for name, dtype in DTYPES.items() if name.startswith("float8"))
_DISTANCES = frozenset(DTYPES[name] for name in ("float32", "float64"))
_INT8, _UINT8, _INT32 = DTYPES["int8"], DTYPES["uint8"], DTYPES["int32"]
_OUT = OUT | Api.EXACT  # a product writes its own dtype only
_PRODUCT = FUNCTION | METHOD | _OUT
_PLUS = _PRODUCT | INPLACE_METHOD


# What several products have in common.


def common_dtype(name: str, float8: bool = False, **operands: Tensor) -> DType:
    """The dtype of all `operands`; RuntimeError if they differ, NotImplementedError if it has no products."""
    tensors = list(operands.values())
    dtype = tensors[0].dtype
    for tensor in tensors:
        if tensor.dtype is not dtype:
            listed = ", ".join(f"{key} is {operand.dtype.name}" for key, operand in operands.items())
            first, second = list(operands)[:2]
            fail(
                f"{name}: expected {first} and {second} to have the same dtype, but got: "
                f"{dtype.name} != {tensor.dtype.name} ({listed}); convert with .to(dtype)"
            )
    if dtype in _UNSUPPORTED or (dtype in _FLOAT8 and not float8):
        fail(f"\"{name}\" not implemented for '{dtype.torch_name}'", NotImplementedError)
    return dtype


def check_rank(name: str, rank: int, **operands: Tensor) -> None:
    for key, operand in operands.items():
        if operand.ndim != rank:
            fail(f"{name}: {key} must be {rank}-dimensional, but its shape is {tuple(operand.shape)}")


def check_scalars(name: str, dtype: DType, beta: Any, alpha: Any) -> None:
    for key, value in (("beta", beta), ("alpha", alpha)):
        if isinstance(value, complex) and value.imag != 0 and not dtype.is_complex:
            fail(f"{name}: {key}={value} is complex and cannot be converted to {dtype.name} without overflow")


def check_addend(name: str, self: Tensor, shape: Shape) -> None:
    """`self`, which is added to a product of `shape`, must expand to it."""
    own = tuple(self.shape)
    lead = len(shape) - len(own)
    if exact(own) != exact(shape) and (
        lead < 0 or any(size not in (1, shape[lead + i]) for i, size in enumerate(own))
    ):
        fail(f"{name}: input of shape {own} cannot be expanded to the shape of the product, {shape}")


def matrix_product(name: str, left: Tensor, right: Tensor, names: tuple[str, str]) -> Shape:
    first, second = names
    check_rank(name, 2, **{first: left, second: right})
    (rows, inside), (depth, columns) = left.shape, right.shape
    if inside != depth:
        fail(
            f"{name}: {first} and {second} cannot be multiplied: {first} is {tuple(left.shape)}, {second} "
            f"is {tuple(right.shape)}; {first}.shape[1] must equal {second}.shape[0]"
        )
    return rows, columns


def batch_product(
    name: str, left: Tensor, right: Tensor, names: tuple[str, str] = ("batch1", "batch2")
) -> Shape:
    first, second = names
    check_rank(name, 3, **{first: left, second: right})
    (batch, rows, inside), (count, depth, columns) = left.shape, right.shape
    if batch != count or inside != depth:
        fail(
            f"{name}: {first} and {second} cannot be multiplied: {first} is {tuple(left.shape)}, {second} "
            f"is {tuple(right.shape)}; {first}.shape[0] must equal {second}.shape[0], and {first}.shape[2] "
            f"must equal {second}.shape[1]"
        )
    return batch, rows, columns


def matrix_vector(name: str, mat: Tensor, vec: Tensor) -> Shape:
    check_rank(name, 2, mat=mat)
    check_rank(name, 1, vec=vec)
    rows, inside = mat.shape
    if vec.shape[0] != inside:
        fail(
            f"{name}: size mismatch: the matrix is {tuple(mat.shape)}, vec has {vec.shape[0]} elements; "
            "mat.shape[1] must equal vec.shape[0]"
        )
    return (rows,)


def widened(name: str, dtype: DType, out_dtype: DType) -> DType:
    """The dtype of a product that was asked to return `out_dtype`."""
    if out_dtype not in (dtype, dtype.opmath):
        fail(
            f"{name}: out_dtype must be the operands' dtype, or float32 for float16 and bfloat16 operands; "
            f"got {out_dtype.name} for {dtype.name}"
        )
    return out_dtype


# Products.


def mm(self: Tensor, mat2: Tensor) -> Spec:
    shape = matrix_product("mm", self, mat2, ("self", "mat2"))
    return Spec(shape, common_dtype("mm", float8=True, self=self, mat2=mat2))


def bmm(self: Tensor, mat2: Tensor) -> Spec:
    shape = batch_product("bmm", self, mat2, ("self", "mat2"))
    return Spec(shape, common_dtype("bmm", self=self, mat2=mat2))


def mv(self: Tensor, vec: Tensor) -> Spec:
    return Spec(matrix_vector("mv", self, vec), common_dtype("mv", self=self, vec=vec))


def dot(name: str, self: Tensor, other: Tensor) -> Spec:
    check_rank(name, 1, self=self, other=other)
    if self.shape != other.shape:
        fail(
            f"{name}: inconsistent tensor size: self has {self.numel()} elements, other {other.numel()}; "
            "they must have as many"
        )
    return Spec((), common_dtype(name, self=self, other=other))


define("mm(Tensor self, Tensor mat2) -> Tensor", shape=mm, api=_PRODUCT, traits=Trait.PRODUCT)
define("bmm(Tensor self, Tensor mat2) -> Tensor", shape=bmm, api=_PRODUCT, traits=Trait.PRODUCT)
define("mv(Tensor self, Tensor vec) -> Tensor", shape=mv, api=_PRODUCT)
define(
    "dot(Tensor self, Tensor tensor) -> Tensor",
    shape=lambda self, tensor: dot("dot", self, tensor),
    api=_PRODUCT,
)
define(
    "vdot(Tensor self, Tensor other) -> Tensor",
    shape=lambda self, other: dot("vdot", self, other),
    api=_PRODUCT,
)
define(
    "mm.dtype(Tensor self, Tensor mat2, ScalarType out_dtype) -> Tensor",
    api=FUNCTION | _OUT,
    shape=lambda self, mat2, out_dtype: Spec(mm(self, mat2).shape, widened("mm", self.dtype, out_dtype)),
)
define(
    "bmm.dtype(Tensor self, Tensor mat2, ScalarType out_dtype) -> Tensor",
    api=FUNCTION | _OUT,
    shape=lambda self, mat2, out_dtype: Spec(bmm(self, mat2).shape, widened("bmm", self.dtype, out_dtype)),
)


def int_mm(self: Tensor, mat2: Tensor) -> Spec:
    check(self.dtype in (_INT8, _UINT8), f"_int_mm: self must be int8 or uint8, not {self.dtype.name}")
    check(mat2.dtype is _INT8, f"_int_mm: mat2 must be int8, not {mat2.dtype.name}")
    return Spec(matrix_product("_int_mm", self, mat2, ("self", "mat2")), _INT32)


define("_int_mm(Tensor self, Tensor mat2) -> Tensor", shape=int_mm, api=FUNCTION | _OUT)


def grouped_mm(
    self: Tensor, mat2: Tensor, offs: Tensor | None, bias: Tensor | None, out_dtype: DType | None
) -> Spec:
    """Groups are dimension 0 of a factor with three dimensions, and ranges, ended by `offs`, of the dimension
    of a matrix that meets it: rows of `self`, columns of `mat2`, or the depth of both."""
    name = "_grouped_mm"
    check(bias is None, f"{name}: bias is not supported; add it to the result")
    check(
        (offs is None) == (self.ndim == 3 and mat2.ndim == 3),
        f"{name}: offs must be given if a factor is a matrix, and only then",
    )
    check(
        self.ndim in (2, 3) and mat2.ndim in (2, 3) and self.shape[-1] == mat2.shape[-2],
        f"{name}: factors of shapes {list(self.shape)} and {list(mat2.shape)} cannot be multiplied",
    )
    rows, columns = self.shape[-2], mat2.shape[-1]
    dtype = common_dtype(name, self=self, mat2=mat2)
    groups = [tensor.shape[0] for tensor in (self, mat2) if tensor.ndim == 3]
    if offs is not None:
        integer = offs.dtype.category is Category.INTEGRAL
        check(offs.ndim == 1 and integer, f"{name}: offs must be a row of integers, not of {offs.dtype.name}")
        groups.append(offs.shape[0])
    check(
        all(count == groups[0] for count in groups),
        f"{name}: the factors and offs have {groups} groups; they must have as many",
    )
    batch = groups[:1] if self.ndim == mat2.ndim else ()
    return Spec((*batch, rows, columns), out_dtype or dtype)


define(
    "_grouped_mm(Tensor self, Tensor mat2, Tensor? offs=None, Tensor? bias=None, ScalarType? out_dtype=None) "
    "-> Tensor",
    shape=grouped_mm,
    api=FUNCTION,
)


# beta * self + alpha * product.


def addmm(self: Tensor, mat1: Tensor, mat2: Tensor, beta: Any, alpha: Any) -> Spec:
    shape = matrix_product("addmm", mat1, mat2, ("mat1", "mat2"))
    check_addend("addmm", self, shape)
    dtype = common_dtype("addmm", float8=True, self=self, mat1=mat1, mat2=mat2)
    check_scalars("addmm", dtype, beta, alpha)
    return Spec(shape, dtype)


def addmv(self: Tensor, mat: Tensor, vec: Tensor, beta: Any, alpha: Any) -> Spec:
    shape = matrix_vector("addmv", mat, vec)
    check_addend("addmv", self, shape)
    dtype = common_dtype("addmv", self=self, mat=mat, vec=vec)
    check_scalars("addmv", dtype, beta, alpha)
    return Spec(shape, dtype)


def baddbmm(self: Tensor, batch1: Tensor, batch2: Tensor, beta: Any, alpha: Any) -> Spec:
    shape = batch_product("baddbmm", batch1, batch2)
    check_addend("baddbmm", self, shape)
    dtype = common_dtype("baddbmm", self=self, batch1=batch1, batch2=batch2)
    check_scalars("baddbmm", dtype, beta, alpha)
    return Spec(shape, dtype)


def addbmm(self: Tensor, batch1: Tensor, batch2: Tensor, beta: Any, alpha: Any) -> Spec:
    shape = batch_product("addbmm", batch1, batch2)[1:]
    check_addend("addbmm", self, shape)
    dtype = common_dtype("addbmm", float8=True, self=self, batch1=batch1, batch2=batch2)
    check_scalars("addbmm", dtype, beta, alpha)
    return Spec(shape, dtype)


def addr(self: Tensor, vec1: Tensor, vec2: Tensor, beta: Any, alpha: Any) -> Spec:
    """Promotes as a sum does; integers refuse floating beta and alpha."""
    check_rank("addr", 1, vec1=vec1, vec2=vec2)
    shape = (vec1.shape[0], vec2.shape[0])
    check_addend("addr", self, shape)
    dtype = common([(t.dtype, t.ndim == 0) for t in (self, vec1, vec2)])
    check(
        dtype not in _FLOAT8 and (dtype.name == "bool" or dtype not in _UNSUPPORTED),
        f"\"addr\" not implemented for '{dtype.torch_name}'",
        NotImplementedError,
    )
    for key, value in (("beta", beta), ("alpha", alpha)):
        check(
            dtype.category > Category.INTEGRAL or not isinstance(value, float | complex),
            "addr: for "
            f"integral input tensors, argument {key} must not be a floating point number, got {value}",
        )
    check_scalars("addr", dtype, beta, alpha)
    return Spec(shape, dtype)


_SCALARS = "*, Scalar beta=1, Scalar alpha=1"
define(
    f"addmm(Tensor self, Tensor mat1, Tensor mat2, {_SCALARS}) -> Tensor",
    shape=addmm,
    api=_PLUS | Api.LEGACY,
    traits=Trait.PRODUCT,
)
define(
    f"addmv(Tensor self, Tensor mat, Tensor vec, {_SCALARS}) -> Tensor",
    shape=addmv,
    api=_PRODUCT | INPLACE | Api.LEGACY,
)
define(
    f"baddbmm(Tensor self, Tensor batch1, Tensor batch2, {_SCALARS}) -> Tensor",
    shape=baddbmm,
    api=_PLUS | Api.LEGACY,
    traits=Trait.PRODUCT,
)
define(
    f"addbmm(Tensor self, Tensor batch1, Tensor batch2, {_SCALARS}) -> Tensor",
    shape=addbmm,
    api=_PLUS | Api.LEGACY,
)
define(
    f"addr(Tensor self, Tensor vec1, Tensor vec2, {_SCALARS}) -> Tensor",
    shape=addr,
    api=FUNCTION | METHOD | INPLACE_METHOD | OUT | Api.LEGACY,
)


def _with_out_dtype(
    name: str, product: Shape, self: Tensor, beta: Any, alpha: Any, out_dtype: DType, **operands: Tensor
) -> Spec:
    check_addend(name, self, product)
    dtype = common_dtype(name, False, **operands)
    check(
        self.dtype in (dtype, out_dtype),
        f"{name}: self must have the dtype of the operands or out_dtype, "
        f"{out_dtype.name}, not {self.dtype.name}",
    )
    check_scalars(name, dtype, beta, alpha)
    return Spec(product, widened(name, dtype, out_dtype))


define(
    f"addmm.dtype(Tensor self, Tensor mat1, Tensor mat2, ScalarType out_dtype, {_SCALARS}) -> Tensor",
    shape=lambda self, mat1, mat2, out_dtype, beta, alpha: _with_out_dtype(
        "addmm",
        matrix_product("addmm", mat1, mat2, ("mat1", "mat2")),
        self,
        beta,
        alpha,
        out_dtype,
        mat1=mat1,
        mat2=mat2,
    ),
    api=FUNCTION | _OUT,
)
define(
    f"baddbmm.dtype(Tensor self, Tensor batch1, Tensor batch2, ScalarType out_dtype, {_SCALARS}) -> Tensor",
    shape=lambda self, batch1, batch2, out_dtype, beta, alpha: _with_out_dtype(
        "baddbmm",
        batch_product("baddbmm", batch1, batch2),
        self,
        beta,
        alpha,
        out_dtype,
        batch1=batch1,
        batch2=batch2,
    ),
    api=FUNCTION | _OUT,
)


# Products of vectors and of three tensors.


def linalg_cross(self: Tensor, other: Tensor, dim: int) -> Spec:
    check(
        self.ndim == other.ndim,
        "linalg.cross: inputs must have the same number of dimensions, but they "
        f"are {tuple(self.shape)} and {tuple(other.shape)}",
    )
    check(
        self.ndim > 0,
        "linalg.cross: Dimension out of range: 0-dimensional tensors have no dimension of length 3",
        IndexError,
    )
    axis = wrap_dim(dim, self.ndim, name="linalg.cross")
    check(
        self.shape[axis] == 3 and other.shape[axis] == 3,
        f"linalg.cross: inputs dimension {dim} must have "
        f"length 3. Got {self.shape[axis]} and {other.shape[axis]}",
    )
    shape = broadcast_shapes(self.shape, other.shape, name="linalg.cross")
    return Spec(shape, common_dtype("linalg.cross", self=self, other=other))


define(
    "linalg_cross(Tensor self, Tensor other, *, int dim=-1) -> Tensor",
    shape=linalg_cross,
    api=FUNCTION | _OUT,
    namespace="linalg",
    public_name="cross",
)


def trilinear(
    i1: Tensor, i2: Tensor, i3: Tensor, expand1: Shape, expand2: Shape, expand3: Shape, sumdim: Shape
) -> Spec:
    rank = i1.ndim + len(expand1)
    check(
        i2.ndim + len(expand2) == rank and i3.ndim + len(expand3) == rank,
        "_trilinear: the tensors must have the same number of dimensions after expanding them",
    )
    shapes = [
        expanded_shape(t, wrap_dims(e, rank, empty_is_all=False), rank)
        for t, e in ((i1, expand1), (i2, expand2), (i3, expand3))
    ]
    full = broadcast_shapes(*shapes, name="_trilinear")
    summed = wrap_dims(sumdim, rank, name="_trilinear", empty_is_all=False)
    dtype = common_dtype("_trilinear", i1=i1, i2=i2, i3=i3)
    return Spec(tuple(size for dim, size in enumerate(full) if dim not in summed), dtype)


def expanded_shape(tensor: Tensor, expand: Shape, rank: int) -> Shape:
    """The shape of `tensor` with a dimension of size 1 at each place in `expand`."""
    sizes = iter(tensor.shape)
    return tuple(1 if dim in expand else next(sizes) for dim in range(rank))


define(
    "_trilinear(Tensor i1, Tensor i2, Tensor i3, int[] expand1, int[] expand2, int[] expand3, int[] "
    "sumdim, int unroll_dim=1) -> Tensor",
    shape=trilinear,
    api=FUNCTION | _OUT,
)


# Distances.


def distances(name: str, x1: Tensor, x2: Tensor, p: float) -> Spec:
    """Distances between the rows of x1 and of x2, whose leading dimensions broadcast."""
    for key, tensor in (("x1", x1), ("x2", x2)):
        check(
            tensor.ndim >= 2,
            f"{name}: {key} must have at least 2 dimensions, but its shape is {tuple(tensor.shape)}",
        )
    check(
        x1.shape[-1] == x2.shape[-1],
        f"{name}: x1 and x2 must have the same number of columns, but x1 is "
        f"{tuple(x1.shape)} and x2 is {tuple(x2.shape)}",
    )
    check(p >= 0, f"{name} only supports non-negative p values, got {p}")
    for key, tensor in (("x1", x1), ("x2", x2)):
        check(
            tensor.dtype.is_floating_point,
            f"{name} only supports floating-point dtypes, {key} got: {tensor.dtype.torch_name}",
        )
    dtype = common_dtype(name, x1=x1, x2=x2)
    batch = broadcast_shapes(x1.shape[:-2], x2.shape[:-2], name=name)
    return Spec((*batch, x1.shape[-2], x2.shape[-2]), dtype)


def check_distance_dtype(name: str, dtype: DType) -> None:
    check(dtype in _DISTANCES, f"\"{name}\" not implemented for '{dtype.torch_name}'", NotImplementedError)


def cdist_forward(x1: Tensor, x2: Tensor, p: float, compute_mode: int | None) -> Spec:
    spec = distances("cdist", x1, x2, p)
    check_distance_dtype("cdist", spec.dtype)
    check(compute_mode in (None, 0, 1, 2), f"cdist: possible modes: None, 0, 1, 2, but was: {compute_mode}")
    return spec


def pdist_forward(self: Tensor, p: float) -> Spec:
    check(self.ndim == 2, f"pdist only supports 2D tensors, got: {self.ndim}D")
    check(
        self.dtype.is_floating_point,
        f"pdist only supports floating-point dtypes, got: {self.dtype.torch_name}",
    )
    check(p >= 0, f"pdist only supports non-negative p values, got {p}")
    check_distance_dtype("pdist", self.dtype)
    rows = self.shape[0]
    return Spec((rows * (rows - 1) // 2,), self.dtype)


define(
    "_cdist_forward(Tensor x1, Tensor x2, float p, int? compute_mode) -> Tensor",
    shape=cdist_forward,
    api=INTERNAL,
)
define(
    "_euclidean_dist(Tensor x1, Tensor x2) -> Tensor",
    api=FUNCTION,
    shape=lambda x1, x2: distances("_euclidean_dist", x1, x2, 2.0),
)
define("_pdist_forward(Tensor self, float p=2.) -> Tensor", shape=pdist_forward, api=INTERNAL)
define(
    "_cdist_backward(Tensor grad, Tensor x1, Tensor x2, float p, Tensor cdist) -> Tensor",
    api=INTERNAL,
    shape=lambda x1, x2: Spec((*broadcast_shapes(x1.shape[:-2], x2.shape[:-2]), *x1.shape[-2:]), x1.dtype),
)
define(
    "_pdist_backward(Tensor grad, Tensor self, float p, Tensor pdist) -> Tensor",
    api=INTERNAL,
    shape=lambda self: Spec(tuple(self.shape), self.dtype),
)
