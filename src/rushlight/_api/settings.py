"""Switches of PyTorch's: deterministic mode, and those that change nothing here, kept and answered; and
functions of numbers named sym_*.

A product of float32 is computed in float32.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ..core.data_sizes import chosen_size, derived_size
from ..core.determinism import DETERMINISM, set_determinism
from ..core.errors import WARNINGS
from ..core.symbols import SizeTruth, is_size, number_of_size

__all__ = [
    "are_deterministic_algorithms_enabled",
    "get_deterministic_debug_mode",
    "get_float32_matmul_precision",
    "get_num_interop_threads",
    "is_deterministic_algorithms_warn_only_enabled",
    "is_warn_always_enabled",
    "set_deterministic_debug_mode",
    "set_float32_matmul_precision",
    "set_flush_denormal",
    "set_num_interop_threads",
    "set_warn_always",
    "sym_float",
    "sym_int",
    "sym_ite",
    "sym_max",
    "sym_min",
    "sym_not",
    "sym_sqrt",
    "sym_sum",
    "use_deterministic_algorithms",
]


@dataclass
class _Settings:
    precision: str = "highest"
    interop_threads: int = 1


_settings = _Settings()
_MODES = ("default", "warn", "error")


def _flag(value: Any, name: str) -> bool:
    if not isinstance(value, bool):
        raise TypeError(
            f"_set_deterministic_algorithms(): argument {name} must be bool, not {type(value).__name__}"
        )
    return value


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Refuse operators that PyTorch has no deterministic implementation of, or warn of them with `warn_only`,
    and fill uninitialised memory (utils.deterministic). Results are the same in every run in any case.

    >>> rl.use_deterministic_algorithms(False)
    """
    set_determinism(enabled=_flag(mode, "'mode' (position 1)"), warn_only=_flag(warn_only, "'warn_only'"))


def are_deterministic_algorithms_enabled() -> bool:
    """Whether operators that are not deterministic are refused.

    >>> rl.are_deterministic_algorithms_enabled()
    False
    """
    return DETERMINISM.enabled


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Whether operators that are not deterministic only warn.

    >>> rl.is_deterministic_algorithms_warn_only_enabled()
    False
    """
    return DETERMINISM.warn_only


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """Sets what `get_deterministic_debug_mode` tells, as number or "default", "warn", "error".

    >>> rl.set_deterministic_debug_mode("default")
    """
    if not isinstance(debug_mode, int | str):
        raise TypeError(f"debug_mode must be str or int, but got {type(debug_mode)}")
    if debug_mode not in (0, 1, 2, *_MODES):
        raise RuntimeError(
            f"invalid value of debug_mode, expected `default`, `warn`, `error` or 0, 1, 2, but got "
            f"{debug_mode}"
        )
    number = _MODES.index(debug_mode) if isinstance(debug_mode, str) else int(debug_mode)
    use_deterministic_algorithms(number > 0, warn_only=number == 1)


def get_deterministic_debug_mode() -> int:
    """0, 1 or 2: operators that are not deterministic run, warn or are refused.

    >>> rl.get_deterministic_debug_mode()
    0
    """
    return 0 if not DETERMINISM.enabled else 1 if DETERMINISM.warn_only else 2


def set_float32_matmul_precision(precision: str) -> None:
    """Whatever is allowed, products of float32 have all of its digits.

    >>> rl.set_float32_matmul_precision("highest")
    """
    if precision not in ("highest", "high", "medium"):
        raise RuntimeError(
            f"Float32MatmulPrecision should be one of 'highest', 'high', 'medium', but got {precision!r}"
        )
    _settings.precision = precision


def get_float32_matmul_precision() -> str:
    """The precision of float32 products: "highest" unless it was changed.

    >>> rl.get_float32_matmul_precision()
    'highest'
    """
    return _settings.precision


def set_flush_denormal(mode: bool) -> bool:
    """Denormal numbers are kept: flushing them is not supported, which False says.

    >>> rl.set_flush_denormal(False)
    False
    """
    return False


def set_warn_always(b: bool) -> None:
    """Whether warnings shall come every time rather than once.

    >>> rl.set_warn_always(False)
    """
    WARNINGS.always = bool(b)


def is_warn_always_enabled() -> bool:
    """Whether warnings come every time rather than once.

    >>> rl.is_warn_always_enabled()
    False
    """
    return WARNINGS.always


def set_num_interop_threads(number: int) -> None:
    """Operators do not run beside each other; the number is kept.

    >>> rl.set_num_interop_threads(1)
    """
    if number <= 0:
        raise RuntimeError(f"Expected a positive number of threads, but got {number}")
    _settings.interop_threads = int(number)


def get_num_interop_threads() -> int:
    """How many operators may run beside each other.

    >>> rl.get_num_interop_threads() >= 1
    True
    """
    return _settings.interop_threads


# Functions of numbers, and of the sizes of a program that is captured (core/symbols.py), of which they make
# expressions where there is a form for them.


def sym_int(a: Any) -> int:
    """A number as int, also where it is symbolic.

    >>> rl.sym_int(2.7)
    2
    """
    return a if is_size(a) else math.trunc(a)


def sym_float(a: Any) -> float:
    """A number as float, also where it is symbolic.

    >>> rl.sym_float(2)
    2.0
    """
    return a * 1.0 if is_size(a) else float(a)


def sym_not(a: Any) -> Any:
    """The opposite of a truth value, also where it is symbolic.

    >>> rl.sym_not(True)
    False
    """
    return a.negated() if type(a) is SizeTruth else not a


def sym_max(a: Any, b: Any) -> Any:
    """The larger number, a float if one of them is.

    >>> rl.sym_max(1, 2.0)
    2.0
    """
    if isinstance(a, float) or isinstance(b, float):
        return float(max(a, b))
    return derived_size("max", a, b)


def sym_min(a: Any, b: Any) -> Any:
    """The smaller number, a float if one of them is.

    >>> rl.sym_min(1, 2.0)
    1.0
    """
    if isinstance(a, float) or isinstance(b, float):
        return float(min(a, b))
    return derived_size("min", a, b)


def sym_ite(b: Any, t: Any, f: Any) -> Any:
    """The second argument if the first holds, else the third.

    >>> rl.sym_ite(True, 1, 2)
    1
    """
    if type(b) is SizeTruth:
        return chosen_size(b, t, f)
    return t if b else f


def sym_sqrt(a: Any) -> float:
    """Square root of a number, also where it is symbolic.

    >>> rl.sym_sqrt(9)
    3.0
    """
    return number_of_size(math.sqrt, "math.sqrt({})", a) if is_size(a) else math.sqrt(a)


def sym_sum(args: Iterable[Any]) -> Any:
    """Sum of numbers, also where they are symbolic.

    >>> rl.sym_sum([1, 2, 3])
    6
    """
    return sum(args)
