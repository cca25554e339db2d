"""`python -m rushlight.atlas.measure`: accuracy against mpmath and speed against PyTorch, into measured.json.

Accuracy is in units of the last place of float32, the worst and the mean over points that are spread over the
exponents of the function's range; mpmath computes the reference at 50 digits from the same float32 numbers.
Speed is that of one thread over a million elements, the best of rounds in which all take turns.
"""

from __future__ import annotations

import argparse
import importlib
import json
import platform
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import rushlight

from .collect import MEASURED, operators
from .curves import curve_of, function_of
from .references import DOMAINS, references

SAMPLES, ELEMENTS, ROUNDS = 400, 1 << 20, 7
NAMESPACES = ("", "special", "nn.functional", "_C._nn")


def points(name: str) -> np.ndarray:
    """float32 numbers of the domain: spread over exponents, and evenly over the middle."""
    low, high = DOMAINS.get(name, (-np.inf, np.inf))
    random = np.random.default_rng(0)
    sizes = 2.0 ** random.uniform(-20, 6, SAMPLES)
    spread = np.concatenate([sizes, -sizes, random.uniform(-8, 8, SAMPLES)])
    if np.isfinite(low) and np.isfinite(high):
        spread = np.concatenate([random.uniform(low, high, 2 * SAMPLES), spread])
    spread = spread.astype(np.float32)
    return np.unique(spread[(spread > low) & (spread < high)])


def accuracy(name: str) -> dict[str, Any] | None:
    """The distance from the exact value, eagerly, compiled and of PyTorch; None if there is no reference."""
    op, exact = curve_of(name), references().get(name)
    if op is None or exact is None:
        return None
    import mpmath

    x = points(name)
    with mpmath.workdps(50):
        right = [_value(exact, float(number)) for number in x]
    kept = [number for number, value in enumerate(right) if value is not None]
    x, right = x[kept], [right[number] for number in kept]
    function = function_of(op)
    given = rushlight.from_numpy(x)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        ways: dict[str, Any] = {
            "eager": function(given).numpy(),
            "compiled": rushlight.compile(function)(given).numpy(),
        }
        theirs = _torch_function(name)
        if theirs is not None:
            ways["torch"] = theirs(_torch().from_numpy(x)).numpy()
    found: dict[str, Any] = {"points": len(x)}
    for way, values in ways.items():
        ulps, at = _ulps(values, right)
        found[way] = {"max": ulps.max().item(), "mean": float(f"{ulps.mean():.3g}"), "at": float(x[at])}
    return found


def _value(exact: Callable[[Any], Any], number: float) -> Any:
    """The exact value, if it is a real number that float32 can hold without losing digits."""
    import mpmath

    try:
        value = mpmath.mpf(exact(mpmath.mpf(number)))
    except (ValueError, ZeroDivisionError, TypeError, OverflowError):
        return None
    if not mpmath.isfinite(value) or abs(value) > 3e38 or (value != 0 and abs(value) < 2e-38):
        return None
    return value


def _ulps(values: np.ndarray, right: list[Any]) -> tuple[np.ndarray, int]:
    """The distance of each value in units of the last place of the rounded exact one, and where it is largest."""
    rounded = np.array([np.float32(float(value)) for value in right])
    unit = np.maximum(np.spacing(np.abs(rounded)), np.float32(1e-45)).astype(float)
    error = np.array(
        [
            float(value - exact) if np.isfinite(value) else np.inf
            for value, exact in zip(values.tolist(), right, strict=True)
        ]
    )
    ulps = np.round(np.abs(error) / unit, 3)
    return ulps, int(np.argmax(ulps))


def _torch() -> Any:
    return importlib.import_module("torch")


def _torch_function(name: str) -> Callable[[Any], Any] | None:
    """PyTorch's operator of the name."""
    try:
        packet = getattr(_torch().ops.aten, name)
    except (ImportError, AttributeError):
        return None
    return lambda x: packet(x)


def speed(name: str) -> dict[str, float] | None:
    """Microseconds for a million elements, of each way on one thread."""
    op = curve_of(name)
    theirs = _torch_function(name)
    if op is None or theirs is None:
        return None
    x = np.random.default_rng(0).uniform(0.05, 0.95, ELEMENTS).astype(np.float32)
    function, given, other = function_of(op), rushlight.from_numpy(x), _torch().from_numpy(x)
    compiled = rushlight.compile(function)
    ways: dict[str, Callable[[], Any]] = {
        "eager": lambda: function(given),
        "compiled": lambda: compiled(given),
        "torch": lambda: theirs(other),
    }
    best = dict.fromkeys(ways, np.inf)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for way in ways.values():
            way()
        for _ in range(ROUNDS):
            for name_of_way, way in ways.items():
                start = time.perf_counter()
                way()
                best[name_of_way] = min(best[name_of_way], time.perf_counter() - start)
    return {way: float(f"{1e6 * seconds:.4g}") for way, seconds in best.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=("accuracy", "speed"), help="measure one of them, keep the other")
    asked = parser.parse_args().only
    known = json.loads(MEASURED.read_text()) if MEASURED.exists() else {}
    names = [name for name in operators() if curve_of(name) is not None]
    for what, measure in (("accuracy", accuracy), ("speed", speed)):
        if asked in (None, what):
            if what == "speed":
                rushlight.set_num_threads(1)
                _torch().set_num_threads(1)
                known["machine"] = f"{platform.machine()}, torch {_torch().__version__}"
            found = {name: measure(name) for name in names}
            known[what] = {name: value for name, value in found.items() if value is not None}
            print(
                f"{what}: {len(known[what])} of {len(names)} functions of one argument; none of",
                *[n for n in names if found[n] is None],
            )
    MEASURED.write_text(json.dumps(known, separators=(",", ":"), sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
