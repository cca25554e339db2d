"""Tensors as text, character for character as PyTorch prints them (with `rushlight.` for `torch.`).

In:  an object with shape, dtype, device, requires_grad, grad_fn and numpy_array(); the print options.
Out: its repr, such as `tensor([[1., 2.], [3., 4.]], dtype=rushlight.float64)`.

Invariants
- Only the elements that are shown are read: a large tensor costs no more than a small one.
- `numpy_array()` is not called for meta tensors.
- The only state is the print options.

The layout rules: every number is padded to the width of the widest nonzero finite one that is shown. Floats
are written in scientific notation if they span more than three decades or leave [1e-4, 1e8], as `1.` if all
are integers, else with a fixed number of digits. Beyond `threshold` elements, dimensions longer than twice
`edgeitems` show their ends only. Lines are filled up to `linewidth`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from . import dtypes
from .dtypes import DType
from .shown_name import SHOWN

if TYPE_CHECKING:
    import numpy.typing as npt


class Printable(Protocol):
    """What `format_tensor` needs of a tensor."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> DType: ...
    @property
    def device(self) -> Any: ...
    @property
    def requires_grad(self) -> bool: ...
    @property
    def grad_fn(self) -> Any: ...
    def numpy_array(self) -> npt.NDArray[Any]: ...


# --- options ---------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class PrintOptions:
    """How tensors are printed.

    precision   digits after the point
    threshold   a tensor of more elements is abridged
    edgeitems   elements shown at either end of a dimension of an abridged tensor
    linewidth   columns
    sci_mode    scientific notation: always (True), never (False) or as the values suggest (None)
    """

    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


_PROFILES = {
    "default": PrintOptions(),
    "short": PrintOptions(precision=2, edgeitems=2),
    "full": PrintOptions(threshold=math.inf),
}
_options = PrintOptions()


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Changes the given options, after those of `profile` ('default', 'short' or 'full'); sci_mode always.

    >>> rl.set_printoptions(precision=2)
    >>> rl.tensor([1 / 3])
    tensor([0.33])
    >>> rl.set_printoptions(profile="default")
    """
    global _options
    if profile is not None and profile not in _PROFILES:
        raise ValueError(f"set_printoptions: profile must be one of {', '.join(_PROFILES)}, got {profile!r}")
    base = _options if profile is None else _PROFILES[profile]
    given: dict[str, Any] = {
        "precision": precision,
        "threshold": threshold,
        "edgeitems": edgeitems,
        "linewidth": linewidth,
    }
    changes = {name: value for name, value in given.items() if value is not None}
    _options = dataclasses.replace(base, **changes, sci_mode=sci_mode)


def get_printoptions() -> dict[str, Any]:
    """The current options, as arguments for `set_printoptions`."""
    return dataclasses.asdict(_options)


@contextlib.contextmanager
def printoptions(**options: Any) -> Iterator[None]:
    """Changes the options (as `set_printoptions` does) for the duration of a `with` block."""
    global _options
    before = _options
    set_printoptions(**options)
    try:
        yield
    finally:
        _options = before


# --- one element -----------------------------------------------------------------------------------


class _Style(NamedTuple):
    """How to write an element, and how many columns to count for it when filling a line."""

    width: int
    write: Callable[[Any], str]


def _padded(width: int, text: Callable[[Any], str]) -> _Style:
    return _Style(width, lambda value: text(value).rjust(width))


def _style_of_exact(values: list[Any]) -> _Style:
    """Integers and booleans."""
    return _padded(max(len(str(value)) for value in values), str)


def _style_of_floats(values: list[float], options: PrintOptions) -> _Style:
    shown = [value for value in values if value != 0 and math.isfinite(value)]
    if not shown:
        return _padded(1, _integral_text)
    text: Callable[[Any], str]
    if _is_scientific(shown, options):
        text = f"{{:.{options.precision}e}}".format
    elif all(value == math.ceil(value) for value in shown):
        text = _integral_text
    else:
        text = f"{{:.{options.precision}f}}".format
    return _padded(max(len(text(value)) for value in shown), text)


def _is_scientific(shown: list[float], options: PrintOptions) -> bool:
    if options.sci_mode is not None:
        return options.sci_mode
    sizes = [abs(value) for value in shown]
    smallest, largest = min(sizes), max(sizes)
    return largest / smallest > 1000.0 or largest > 1.0e8 or smallest < 1.0e-4


def _integral_text(value: float) -> str:
    return f"{value:.0f}." if math.isfinite(value) else f"{value:.0f}"


def _style(array: npt.NDArray[Any], dtype: DType, options: PrintOptions) -> _Style:
    """The style for the elements of `array`, which holds those that are shown."""
    values = array.reshape(-1)
    if dtype.is_complex:
        return _style_of_complex(values, options)
    if dtype.is_floating_point:
        return _style_of_floats(values.tolist(), options)
    return _style_of_exact(values.tolist())


def _style_of_complex(values: npt.NDArray[Any], options: PrintOptions) -> _Style:
    """Real and imaginary parts have a style each; what pads the imaginary part is left out."""
    real = _style_of_floats(values.real.tolist(), options)
    imaginary = _style_of_floats(values.imag.tolist(), options)

    def write(value: complex) -> str:
        second = imaginary.write(value.imag).lstrip()
        return f"{real.write(value.real)}{'' if second.startswith('-') else '+'}{second}j"

    return _Style(real.width + imaginary.width + 1, write)


# --- all elements ----------------------------------------------------------------------------------


def format_array(array: npt.NDArray[Any], dtype: DType, indent: int) -> str:
    """The elements in brackets, as they appear after `indent` columns of other text on the first line."""
    if array.size == 0:
        return "[]"
    options = _options
    abridged = array.size > options.threshold
    if abridged and options.edgeitems == 0 and array.ndim:
        return "[...]"
    cut = tuple(abridged and extent > 2 * options.edgeitems for extent in array.shape)
    shown = _widen(_edges(array, cut, options.edgeitems), dtype)
    style = _style(shown, dtype, options)
    if shown.ndim == 0:
        return style.write(shown.item())
    return _nested(shown.tolist(), cut, style, indent, options)


def _edges(array: npt.NDArray[Any], cut: tuple[bool, ...], edgeitems: int) -> npt.NDArray[Any]:
    for axis, is_cut in enumerate(cut):
        if is_cut:
            extent = array.shape[axis]
            ends = [*range(edgeitems), *range(extent - edgeitems, extent)]
            array = np.take(array, ends, axis)
    return array


def _widen(array: npt.NDArray[Any], dtype: DType) -> npt.NDArray[Any]:
    """Narrow numbers in a wide dtype, which holds them exactly and converts to Python numbers."""
    if dtype.is_complex:
        return array.astype(dtype.opmath.numpy, copy=False)
    return array.astype(np.float64) if dtype.is_floating_point else array


def _nested(
    values: list[Any], cut: tuple[bool, ...], style: _Style, indent: int, options: PrintOptions
) -> str:
    if len(cut) == 1:
        return _vector([style.write(value) for value in values], cut[0], style, indent, options)
    rows = [_nested(row, cut[1:], style, indent + 1, options) for row in values]
    if cut[0]:
        rows.insert(options.edgeitems, "...")
    separator = "," + "\n" * (len(cut) - 1) + " " * (indent + 1)
    return f"[{separator.join(rows)}]"


def _vector(items: list[str], is_cut: bool, style: _Style, indent: int, options: PrintOptions) -> str:
    if is_cut:
        items.insert(options.edgeitems, " ...")
    per_line = max(1, (options.linewidth - indent) // (style.width + len(", ")))
    lines = [", ".join(items[start : start + per_line]) for start in range(0, len(items), per_line)]
    separator = ",\n" + " " * (indent + 1)
    return f"[{separator.join(lines)}]"


# --- the whole tensor ------------------------------------------------------------------------------


def format_tensor(
    tensor: Printable, *, prefix: str = "tensor(", tangent: object = None, given: str | None = None
) -> str:
    """The repr of `tensor`; `tangent`, if given, is the tangent of a dual tensor, `given` what to say of the
    values."""
    shape, dtype = tuple(tensor.shape), tensor.dtype
    size = f"size={shape}"
    suffixes = [] if tensor.device.type == "cpu" else [f"device='{tensor.device}'"]
    if given is not None:
        contents = given
        suffixes += _dtype_unless(_is_evident(dtype), dtype)
    elif tensor.device.type == "meta":
        contents = "..."
        suffixes += [size, *_dtype_unless(dtype is dtypes.get_default_dtype(), dtype)]
    elif math.prod(shape) == 0:
        contents = "[]"
        suffixes += [size] if len(shape) != 1 else []
        suffixes += _dtype_unless(dtype is dtypes.get_default_dtype(), dtype)
    else:
        contents = format_array(tensor.numpy_array(), dtype, len(prefix))
        suffixes += [size] if _options.edgeitems == 0 else []
        suffixes += _dtype_unless(_is_evident(dtype), dtype)
    suffixes += _autograd_suffixes(tensor)
    if tangent is not None:
        suffixes.append(f"tangent={tangent}")
    return add_suffixes(prefix + contents, suffixes, len(prefix))


def format_sparse(tensor: Any, *, prefix: str = "tensor(") -> str:
    """The repr of a tensor that is not strided: its members, one below the other."""
    parts, indent = tensor._parts, len(prefix)
    name = tensor.layout.name
    if name == "sparse_coo":
        members = {"indices": parts.indices, "values": parts.values}
    else:
        names = ("crow", "col") if name in ("sparse_csr", "sparse_bsr") else ("ccol", "row")
        members = {
            f"{names[0]}_indices": parts.compressed,
            f"{names[1]}_indices": parts.plain,
            "values": parts.values,
        }
    lines = []
    for label, member in members.items():
        opening = f"{label}=tensor("
        text = format_array(member.numpy_array(), member.dtype, indent + len(opening))
        empty = f", size={tuple(member.shape)}" if member.numel() == 0 else ""
        lines.append(f"{opening}{text}{empty})")
    suffixes = [
        f"size={tuple(tensor.shape)}",
        f"nnz={parts.nnz}",
        *_dtype_unless(_is_evident(tensor.dtype), tensor.dtype),
        f"layout={tensor.layout!r}",
        *_autograd_suffixes(tensor),
    ]
    between = ",\n" + " " * indent
    return add_suffixes(prefix + between.join(lines), suffixes, indent, new_line=name == "sparse_coo")


def format_quantized(tensor: Any, values: Any, *, prefix: str = "tensor(") -> str:
    """The repr of a quantized tensor: the values that its integers stand for, and how they do."""
    grid, indent = tensor._quantizer, len(prefix)
    suffixes = [
        f"size={tuple(tensor.shape)}",
        f"dtype={tensor.dtype!r}",
        f"quantization_scheme={grid.scheme!r}",
    ]
    if hasattr(grid, "axis"):
        suffixes += [f"scale={grid.scales!r}", f"zero_point={grid.zero_points!r}", f"axis={grid.axis}"]
    else:
        suffixes += [f"scale={grid.scale}", f"zero_point={grid.zero_point}"]
    return add_suffixes(prefix + format_array(values.numpy_array(), values.dtype, indent), suffixes, indent)


def _dtype_unless(evident: bool, dtype: DType) -> list[str]:
    return [] if evident else [f"dtype={dtype!r}"]


def _is_evident(dtype: DType) -> bool:
    """Whether the elements as written would be read back as this dtype."""
    default = dtypes.get_default_dtype()
    default_complex = dtypes.complex128 if default is dtypes.float64 else dtypes.complex64
    return dtype in (default, default_complex, dtypes.int64, dtypes.bool_)


def _autograd_suffixes(tensor: Printable) -> list[str]:
    try:
        node = tensor.grad_fn
    except RuntimeError:  # a view whose base was changed in place under no_grad has no valid node
        return ["grad_fn=<Invalid>"]
    shown = (
        [f"grad_fn=<{_node_name(node)}>"]
        if node is not None
        else (["requires_grad=True"] if tensor.requires_grad else [])
    )
    tangents = getattr(tensor, "_tangents", None)
    inner = (
        max((level for level in tangents if level.active), key=lambda level: level.number, default=None)
        if tangents
        else None
    )
    return shown if inner is None else [*shown, f"tangent={tangents[inner]}"]  # type: ignore[index]


def _node_name(node: Any) -> str:
    name = getattr(node, "name", None)
    if callable(name):
        name = name()
    return name.rsplit("::", 1)[-1] if isinstance(name, str) else type(node).__name__


def add_suffixes(text: str, suffixes: list[str], indent: int, *, new_line: bool = False) -> str:
    """`text` with each suffix after a comma, on a new line where the line would become too long, and `)`.

    Lines break where PyTorch breaks them: a dtype counts with the length of PyTorch's name for it.
    """
    column = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        length = len(suffix.replace(f"{SHOWN.package}.", "torch."))
        if new_line or column + length + 2 > _options.linewidth:
            text += ",\n" + " " * indent + suffix
            column, new_line = indent + length, False
        else:
            text += ", " + suffix
            column += length + 2
    return text + ")"
