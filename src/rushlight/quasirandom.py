"""Quasirandom numbers: points that fill the unit cube more evenly than random ones.

The direction numbers are those of Joe and Kuo (2008, "Constructing Sobol sequences with better
two-dimensional projections"), which SciPy has. Points are numbered by their Gray code: x[n] is the exclusive
or of the direction numbers that the bits of n ^ (n >> 1) select, so that x[n + 1] differs from x[n] in one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ._api.link import arange, randint
from .core import dtypes
from .core.dtypes import DType
from .core.errors import check
from .core.generator import Generator
from .core.lazy import LazyModule
from .core.tensor import Tensor, wrap

__all__ = ["SobolEngine"]

_qmc = LazyModule("scipy.stats.qmc")


class SobolEngine:
    """Draws points of a Sobol sequence, scrambled by random linear maps of their bits and a random shift.

    >>> rl.quasirandom.SobolEngine(2).draw(3)
    tensor([[0.0000, 0.0000],
            [0.5000, 0.5000],
            [0.7500, 0.2500]])
    """

    MAXBIT = 30
    MAXDIM = 21201

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        check(
            1 <= dimension <= self.MAXDIM,
            f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}]",
            ValueError,
        )
        self.seed, self.scramble, self.dimension = seed, scramble, dimension
        directions = _qmc.Sobol(dimension, scramble=False, bits=self.MAXBIT)._sv
        self.sobolstate = wrap(np.ascontiguousarray(directions, np.int64))
        self.shift = wrap(np.zeros(dimension, np.int64))
        if scramble:
            self._scramble()
        self.quasi = self.shift.clone()  # the point with the number max(num_generated - 1, 0)
        self._first_point = (self.quasi / 2**self.MAXBIT).reshape(1, -1)
        self.num_generated = 0

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: DType | None = None) -> Tensor:
        """The next `n` points, as the rows of a matrix."""
        dtype = dtypes.get_default_dtype() if dtype is None else dtype
        first = 0 if self.num_generated else 1
        check(n >= first, f"SobolEngine: cannot draw {n} points")
        check(
            dtype in (dtypes.DTYPES["float32"], dtypes.DTYPES["float64"]),
            f"\"_sobol_engine_draw\" not implemented for '{dtype.torch_name}'",
            NotImplementedError,
        )
        start = self.num_generated - 1 + first
        steps = np.arange(start, start + n - first)
        lowest = np.log2(~steps & (steps + 1)).astype(np.int64)  # the lowest bit that is 0
        changes = self.sobolstate.numpy().T[lowest]
        points = np.bitwise_xor.accumulate(np.concatenate([self.quasi.numpy()[None], changes]), 0)
        self.quasi = wrap(points[-1].copy())
        self.num_generated += n
        # what was given out before does not come again
        result = wrap(points[1 - first :].astype(dtype.numpy)) * 2.0**-self.MAXBIT
        return result if out is None else out.resize_as_(result).copy_(result)

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: DType | None = None) -> Tensor:
        """The next 2**m points; with those drawn before they must be a power of two, which keeps balance."""
        n = 2**m
        total = self.num_generated + n
        check(
            total & (total - 1) == 0,
            "The balance properties of Sobol' points require n to be a power of "
            f"2. {self.num_generated} points have been previously generated, then: n={self.num_generated}+"
            f"2**{m}={total}. Use SobolEngine.draw() if that does not matter.",
            ValueError,
        )
        return self.draw(n=n, out=out, dtype=dtype)

    def reset(self) -> SobolEngine:
        """Begin again with the first point."""
        self.quasi.copy_(self.shift)
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> SobolEngine:
        """Leave out `n` points."""
        start = max(self.num_generated - 1, 0)
        stop = max(self.num_generated - 1 + n, start)
        changed = (start ^ start >> 1) ^ (stop ^ stop >> 1)
        columns = [bit for bit in range(self.MAXBIT) if changed >> bit & 1]
        state = self.sobolstate.numpy()[:, columns]
        self.quasi = wrap(self.quasi.numpy() ^ np.bitwise_xor.reduce(state, 1))
        self.num_generated += n
        return self

    def _scramble(self) -> None:
        generator = None if self.seed is None else Generator().manual_seed(self.seed)
        bits = self.MAXBIT
        powers = 2 ** arange(bits)
        self.shift = (randint(2, (self.dimension, bits), generator=generator) * powers).sum(1)
        # for each dimension a lower triangular matrix of bits, ones on the diagonal, the highest bit first
        maps = randint(2, (self.dimension, bits, bits), generator=generator).tril().numpy()
        maps[:, range(bits), range(bits)] = 1
        rows = (maps * powers.numpy()[::-1]).sum(-1)
        products = rows[:, :, None] & self.sobolstate.numpy()[:, None, :]
        parity = np.bitwise_count(products).astype(np.int64) & 1
        self.sobolstate = wrap((parity * powers.numpy()[::-1, None]).sum(1))

    def __repr__(self) -> str:
        told: list[Any] = [f"dimension={self.dimension}"]
        told += [f"scramble={self.scramble}"] * bool(self.scramble)
        told += [f"seed={self.seed}"] * (self.seed is not None)
        return f"{type(self).__name__}({', '.join(told)})"
