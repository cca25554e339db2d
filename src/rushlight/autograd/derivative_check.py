"""The checks of gradcheck, one method each: derivatives against finite differences, the rules of backward passes.

A `DerivativeCheck` holds a function, its inputs and tolerances; a method raises GradcheckError where a rule is
broken.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..batching.vmap import Vmap
from ..core.construct import from_numpy
from ..core.modes import MODES
from ..core.tensor import Tensor
from .api import grad
from .forward import set_tangent, tangent_of
from .forward_ad import enter_dual_level, exit_dual_level
from .real_vectors import (
    Memory,
    as_tuple,
    from_real,
    perturbed,
    real,
    real_count,
    real_like,
    replaced,
    tensors,
    unit_vector,
    units,
)
from .refusing import UndefinedGrad


class GradcheckError(RuntimeError):
    """A derivative disagrees with finite differences, or breaks another rule that gradcheck checks.

    >>> issubclass(rl.autograd.gradcheck.__globals__.get("GradcheckError", RuntimeError), RuntimeError)
    True
    """


class DerivativeCheck:
    def __init__(
        self, func: Callable[..., Any], inputs: Any, eps: float, atol: float, rtol: float, nondet_tol: float
    ) -> None:
        self.func = func
        self.inputs = as_tuple(inputs)
        self.eps, self.atol, self.rtol, self.nondet_tol = eps, atol, rtol, nondet_tol
        self.leaves = [t for t in tensors(self.inputs) if t.requires_grad]

    def inputs_are_usable(self) -> None:
        if not self.leaves:
            raise ValueError(
                "gradcheck expects at least one input tensor to require gradient, but none of "
                "the them have requires_grad=True."
            )
        for i, tensor in enumerate(tensors(self.inputs)):
            if not tensor.requires_grad:
                continue
            if tensor.dtype.name not in ("float64", "complex128"):
                warnings.warn(
                    f"Input #{i} requires gradient and is not a double precision tensor: finite "
                    "differences are likely too rough for the check to pass",
                    stacklevel=3,
                )
            if tensor._parts is None and any(
                s == 0 and n > 1 for s, n in zip(tensor.strides(), tensor.shape, strict=True)
            ):
                raise RuntimeError(
                    f"The {i}th input has a dimension with stride 0: changing one element "
                    "changes others. Call .contiguous() on it first"
                )
            if tensor.is_leaf:
                tensor.retain_grad()

    @functools.cached_property
    def floating(self) -> list[Tensor]:
        """The floating outputs at the inputs. Their history serves all checks: each backward pass keeps it."""
        return _floating(self.func(*self.inputs))

    @functools.cached_property
    def differentiable(self) -> list[int]:
        """Which of the floating outputs require grad."""
        return [i for i, o in enumerate(self.floating) if o.requires_grad]

    @property
    def outputs(self) -> list[Tensor]:
        """The differentiable outputs."""
        return [self.floating[i] for i in self.differentiable]

    def outputs_are_constant(self) -> bool:
        """Nothing to differentiate; then finite differences must be zero."""
        if self.outputs:
            return False
        if any(np.any(block) for column in self.numeric_slow() for block in column):
            raise GradcheckError("Numerical gradient for function expected to be zero")
        return True

    # Finite differences.

    def _values(self) -> list[np.ndarray]:
        outputs = _floating(self.func(*self.inputs))
        for what, of in (("shape", lambda o: tuple(o.shape)), ("dtype", lambda o: o.dtype)):
            now, then = tuple(map(of, outputs)), tuple(map(of, self.floating))
            if now != then:
                raise AssertionError(
                    f"Expected `func` to return outputs with the same {what} when inputs "
                    f"are perturbed, but got {then} and {now}"
                )
        return [real(o.detach()) for o in outputs]

    def numeric_slow(self) -> list[list[np.ndarray]]:
        """For each input, for each differentiable output, the Jacobian as (output elements, input elements),
        all real."""
        chosen = self.differentiable or range(len(self.floating))
        blocks = []
        for tensor in self.leaves:
            columns = []
            for _ in perturbed(tensor, self.eps):
                columns.append(self._values())
            pairs = [
                [(plus - minus) / (2 * self.eps) for plus, minus in zip(*two, strict=True)]
                for two in zip(columns[::2], columns[1::2], strict=True)
            ]
            blocks.append(
                [np.stack([pair[j] for pair in pairs], axis=1) if pairs else np.zeros((0, 0)) for j in chosen]
            )
        return blocks

    def _numeric_direction(self, directions: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The derivative along one direction in all inputs at once."""
        memories = [Memory(tensor) for tensor in self.leaves]
        originals = [memory.real_view().copy() for memory in memories]

        def move(step: float) -> None:
            for memory, original, direction in zip(memories, originals, directions, strict=True):
                memory.real_view()[...] = original + step * direction.reshape(original.shape)
                memory.commit()

        values = []
        for step in (self.eps, -self.eps):
            move(step)
            values.append(self._values())
        move(0.0)
        return [(values[0][i] - values[1][i]) / (2 * self.eps) for i in self.differentiable]

    # Reverse mode.

    def _rows(self, output: Tensor, outputs: Sequence[Tensor]) -> Iterator[list[np.ndarray]]:
        """Gradients for each unit cotangent of `output` (1 and i for complex ones)."""
        for unit in units(output):
            grads = grad(output, self.leaves, unit, retain_graph=True, allow_unused=True)
            yield [real_like(g, tensor) for g, tensor in zip(grads, self.leaves, strict=True)]

    def backward(self, numeric: Any) -> None:
        if numeric is None:
            self._backward_fast()
            return
        for j, output in enumerate(self.outputs):
            rows = list(self._rows(output, ()))
            for i, tensor in enumerate(self.leaves):
                columns = real_count(tensor)
                analytic = np.stack([row[i] for row in rows], axis=0) if rows else np.zeros((0, columns))
                if not output.dtype.is_complex:
                    self._compare(analytic, numeric[i][j], i, j, _MISMATCH)
                    continue
                for part, start in (("imaginary", 1), ("real", 0)):
                    self._compare(
                        analytic[start::2],
                        numeric[i][j][start::2],
                        i,
                        j,
                        f"While considering the {part} part of complex outputs only, {_MISMATCH}",
                    )

    def _backward_fast(self) -> None:
        random = np.random.default_rng(0)
        outputs = self.outputs
        directions = [unit_vector(random, real_count(t)) for t in self.leaves]
        weights = [unit_vector(random, real_count(o)) for o in outputs]
        expected = [self._numeric_direction(_one(directions, i)) for i in range(len(directions))]
        for j, (output, weight) in enumerate(zip(outputs, weights, strict=True)):
            cotangent = from_real(weight, output)
            grads = grad(output, self.leaves, cotangent, retain_graph=True, allow_unused=True)
            for i, (g, tensor, direction) in enumerate(zip(grads, self.leaves, directions, strict=True)):
                found, wanted = real_like(g, tensor) @ direction, expected[i][j] @ weight
                # A sum of all elements of the Jacobian, each of which may be wrong by `atol`.
                terms = float(np.abs(direction).sum() * np.abs(weight).sum())
                self._compare(
                    np.asarray(found),
                    np.asarray(wanted),
                    i,
                    j,
                    f"{_MISMATCH} in fast mode, where one direction stands for all,",
                    self.atol * max(terms, 1.0),
                )

    def _compare(
        self, analytic: np.ndarray, numeric: np.ndarray, i: int, j: int, what: str, atol: float | None = None
    ) -> None:
        if analytic.size == 0 and numeric.size == 0:
            return
        atol = self.atol if atol is None else atol
        if not np.allclose(analytic, numeric, rtol=self.rtol, atol=atol, equal_nan=True):
            raise GradcheckError(f"{what.format(i=i, j=j)}\nnumerical:{numeric}\nanalytical:{analytic}\n")

    def deterministic(self) -> None:
        """Two backward passes give the same."""
        for j, output in enumerate(self.outputs):
            unit = from_real(np.ones(real_count(output)), output)
            first, second = (
                grad(output, self.leaves, unit, retain_graph=True, allow_unused=True) for _ in range(2)
            )
            for i, (a, b) in enumerate(zip(first, second, strict=True)):
                if a is not None and b is not None and np.any(np.abs(real(a) - real(b)) > self.nondet_tol):
                    raise GradcheckError(
                        "Backward is not reentrant: run twice with the same input and "
                        "gradient it gives values that differ by more than "
                        f"{self.nondet_tol} (output {j}, input {i})"
                    )

    def zero_gradients(self) -> None:
        """Of zeros a backward pass makes zeros, of the layout, dtype and shape of the input."""
        outputs = self.outputs
        zeros = [from_real(np.zeros(real_count(o)), o) for o in outputs]
        grads = grad(outputs, self.leaves, zeros, retain_graph=True, allow_unused=True) if outputs else ()
        for gradient, leaf in zip(grads, self.leaves, strict=True):
            if gradient is not None:
                _check_form(gradient, leaf)
                if np.any(real(gradient)):
                    raise GradcheckError("backward not multiplied by grad_output")

    def undefined_gradients(self) -> None:
        """Outputs that nothing is said about count as zero."""
        outputs = self.outputs
        if outputs:
            ones = [from_real(np.ones(real_count(o)), o) for o in outputs]
            try:
                grads = grad(
                    [UndefinedGrad()(o) for o in outputs],
                    self.leaves,
                    ones,
                    retain_graph=True,
                    allow_unused=True,
                )
            except RuntimeError as error:
                warnings.warn(
                    "Backwards compatibility: New undefined gradient support checking feature is "
                    "on by default; switch it off with check_undefined_grad=False",
                    stacklevel=3,
                )
                raise GradcheckError(
                    "Expected backward function to handle undefined output grads, which "
                    f"come as None; it raised {error!r}"
                ) from error
            if any(g is not None and bool((g != 0).any()) for g in grads):
                raise GradcheckError(
                    "Expected all input grads to be undefined or zero when all output "
                    "grads are undefined or zero"
                )
        if len(outputs) < 2:
            return
        ones = [from_real(np.ones(real_count(o)), o) for o in outputs]
        for j, output in enumerate(outputs):
            alone = grad(output, self.leaves, ones[j], retain_graph=True, allow_unused=True)
            zeros = [one if k == j else one * 0 for k, one in enumerate(ones)]
            among = grad(outputs, self.leaves, zeros, retain_graph=True, allow_unused=True)
            for i, (a, b, tensor) in enumerate(zip(alone, among, self.leaves, strict=True)):
                if not np.allclose(real_like(a, tensor), real_like(b, tensor), equal_nan=True):
                    raise GradcheckError(
                        "Expected backward function to handle undefined output grads: "
                        f"output {j}, input {i} differs from the gradient for zeros"
                    )

    def gradient_dtypes(self) -> None:
        for j, output in enumerate(self.outputs):
            grads = grad(
                output,
                self.leaves,
                from_real(np.ones(real_count(output)), output),
                retain_graph=True,
                allow_unused=True,
            )
            for i, (g, tensor) in enumerate(zip(grads, self.leaves, strict=True)):
                if g is not None and (g.dtype is not tensor.dtype or g.shape != tensor.shape):
                    raise GradcheckError(
                        f"The gradient of output {j} by input {i} has dtype {g.dtype} and "
                        f"shape {tuple(g.shape)}, the input {tensor.dtype} and "
                        f"{tuple(tensor.shape)}"
                    )

    def batched_gradients(self) -> None:
        """Gradients for a batch of cotangents equal those for each of them."""
        random = np.random.default_rng(1)
        for j, output in enumerate(self.outputs):
            weights = [from_real(random.standard_normal(real_count(output)), output) for _ in range(2)]
            batch = from_numpy(np.stack([w.numpy() for w in weights]))
            try:
                together = grad(
                    output, self.leaves, batch, retain_graph=True, allow_unused=True, is_grads_batched=True
                )
            except RuntimeError as error:
                raise GradcheckError(
                    "gradcheck or gradgradcheck failed while testing batched gradient "
                    f"computation, of output {j}: {error}. Pass check_batched_grad=False if "
                    "the function is not to be used with vmap"
                ) from error
            for n, weight in enumerate(weights):
                alone = grad(output, self.leaves, weight, retain_graph=True, allow_unused=True)
                for i, (a, b, tensor) in enumerate(zip(together, alone, self.leaves, strict=True)):
                    found = real_like(None if a is None else a[n], tensor)
                    if not np.allclose(
                        found, real_like(b, tensor), rtol=self.rtol, atol=self.atol, equal_nan=True
                    ):
                        raise GradcheckError(
                            f"For output {j} and input {i}: vmap over the backward pass "
                            "gives another result than a loop over it"
                        )

    # Forward mode.

    def _tangents(self, directions: Sequence[np.ndarray | None]) -> list[np.ndarray]:
        """Tangents of the differentiable outputs for tangents of the inputs; None is no tangent."""
        level = MODES.dual_stack[enter_dual_level()]
        try:
            duals = {}
            for tensor, direction in zip(self.leaves, directions, strict=True):
                dual = duals[id(tensor)] = tensor.detach()
                if direction is not None:
                    set_tangent(dual, level, from_real(direction, tensor))
            result = self.func(*replaced(self.inputs, duals))
            floating = _floating(result)
            return [real_like(tangent_of(floating[i], level), floating[i]) for i in self.differentiable]
        finally:
            exit_dual_level()

    def undefined_tangents(self) -> None:
        """An input without a tangent counts as one whose tangent is zero."""
        random = np.random.default_rng(5)
        directions: list[np.ndarray | None] = [unit_vector(random, real_count(t)) for t in self.leaves]
        for i, tensor in enumerate(self.leaves):
            zero, none = list(directions), list(directions)
            zero[i], none[i] = np.zeros(real_count(tensor)), None
            for j, (a, b) in enumerate(zip(self._tangents(zero), self._tangents(none), strict=True)):
                if not np.allclose(a, b, equal_nan=True):
                    raise GradcheckError(
                        "Expected forward mode to take an input without a tangent for one whose tangent is "
                        f"zero: output {j} differs for input {i}"
                    )

    def batched_tangents(self) -> None:
        """Tangents for a batch of directions equal those for each of them, input by input."""
        random = np.random.default_rng(4)
        for i, tensor in enumerate(self.leaves):
            pair = [unit_vector(random, real_count(tensor)) for _ in range(2)]
            alone = [self._tangents([d if k == i else None for k in range(len(self.leaves))]) for d in pair]
            for j, together in enumerate(self._batched_tangents(tensor, pair)):
                if not np.allclose(
                    together, [each[j] for each in alone], rtol=self.rtol, atol=self.atol, equal_nan=True
                ):
                    raise GradcheckError(
                        f"For output {j} and input {i}: vmap over forward mode gives another result than a loop "
                        "over it"
                    )

    def _batched_tangents(self, leaf: Tensor, directions: Sequence[np.ndarray]) -> list[list[np.ndarray]]:
        """For each differentiable output its tangents for the batch of `directions` of one input."""
        with Vmap(len(directions), direct=True) as trace:
            level = MODES.dual_stack[enter_dual_level()]
            try:
                duals = {id(tensor): trace.pure(tensor.detach()) for tensor in self.leaves}
                batch = from_numpy(np.stack([from_real(d, leaf).numpy() for d in directions]))
                set_tangent(duals[id(leaf)], level, trace.lift(batch, 0))
                result = self.func(*replaced(self.inputs, duals))
                floating = _floating(result)
                found = [trace.front(tangent_of(floating[j], level)) for j in self.differentiable]
            finally:
                exit_dual_level()
        return [
            [real_like(value[n] if batched else value, floating[j]) for n in range(len(directions))]
            for j, (value, batched, _) in zip(self.differentiable, found, strict=True)
        ]

    def forward(self, numeric: Any) -> None:
        if numeric is None:
            random = np.random.default_rng(2)
            directions = [unit_vector(random, real_count(t)) for t in self.leaves]
            for i in range(len(directions)):
                alone = _one(directions, i)
                expected = self._numeric_direction(alone)
                for j, (found, wanted) in enumerate(zip(self._tangents(alone), expected, strict=True)):
                    weight = unit_vector(random, wanted.size)
                    self._compare(np.asarray(found @ weight), np.asarray(wanted @ weight), i, j, _FORWARD)
            return
        for i, tensor in enumerate(self.leaves):
            for k in range(real_count(tensor)):
                directions_ = [np.zeros(real_count(t)) for t in self.leaves]
                directions_[i] = np.eye(1, real_count(tensor), k)[0]
                for j, found in enumerate(self._tangents(directions_)):
                    self._compare(found, numeric[i][j][:, k], i, j, _FORWARD)


_MISMATCH = "Jacobian mismatch for output {j} with respect to input {i},"
_FORWARD = "Jacobian computed with forward mode mismatch for output {j} with respect to input {i},"


def _floating(result: Any) -> list[Tensor]:
    return [o for o in tensors((result,)) if o.dtype.is_differentiable]


def _check_form(gradient: Tensor, leaf: Tensor) -> None:
    """A gradient is of the kind of its input; a strided one serves for all layouts."""
    if gradient._parts is not None:
        if gradient.layout is not leaf.layout:
            raise GradcheckError(f"grad is incorrect layout ({gradient.layout} is not {leaf.layout})")
        if gradient.is_sparse:
            for what in ("sparse_dim", "dense_dim"):
                found, expected = getattr(gradient, what)(), getattr(leaf, what)()
                if found != expected:
                    raise GradcheckError(
                        f"grad is sparse tensor, but has incorrect {what} {found}, expected {expected}"
                    )
    if gradient.dtype is not leaf.dtype:
        raise GradcheckError(f"grad is incorrect type ({gradient.dtype} is not {leaf.dtype})")
    if gradient.shape != leaf.shape:
        raise GradcheckError(f"grad is incorrect size ({gradient.shape} is not {leaf.shape})")


def _one(directions: Sequence[np.ndarray], i: int) -> list[np.ndarray]:
    """Of the directions that of input `i` alone."""
    return [d if k == i else np.zeros_like(d) for k, d in enumerate(directions)]
