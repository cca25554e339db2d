"""Checking derivatives against finite differences: gradcheck and gradgradcheck.

Everything is compared as a real linear map: a complex number counts as its real and imaginary part. Slow mode
compares whole Jacobians, fast mode their action on one random direction.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..batching.vmap import Vmap
from ..core.construct import from_numpy
from ..core.dispatch import run_name
from ..core.modes import MODES
from ..core.sparse import with_values
from ..core.tensor import Tensor
from ..kernels.sparse import structure
from ..kernels.sparse_conversion import filled
from .api import grad
from .forward import set_tangent, tangent_of
from .forward_ad import enter_dual_level, exit_dual_level
from .grad_mode import enable_grad
from .refusing import UndefinedGrad


class GradcheckError(RuntimeError):
    """A derivative disagrees with finite differences, or breaks another rule that gradcheck checks."""


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Whether the derivatives of `func` at `inputs` (double precision) agree with finite differences.

    Of sparse inputs the elements that are stored are variables if `masked`, all elements otherwise. Sparse
    outputs are compared as strided tensors.
    """
    if not (check_forward_ad or check_backward_ad):
        raise AssertionError("Expected at least one of check_forward_ad or check_backward_ad to be True")
    if check_batched_grad and not check_backward_ad:
        raise AssertionError("Setting check_batched_grad=True requires check_backward_ad to be True")
    if check_batched_forward_grad and not check_forward_ad:
        raise AssertionError("Setting check_batched_forward_grad=True requires check_forward_ad to be True")
    given = _as_tuple(inputs)
    check = _Check(_strided_outputs(func), given if masked else _filled(given), eps, atol, rtol, nondet_tol)
    try:
        check.inputs_are_usable()
        if check.outputs_are_constant():
            return True
        numeric = check.numeric_slow() if not fast_mode else None
        if check_backward_ad:
            check.backward(numeric)
            check.deterministic()
            if check_undefined_grad:
                check.undefined_gradients()
            if check_grad_dtypes:
                check.gradient_dtypes()
            if check_batched_grad:
                check.batched_gradients()
        if check_forward_ad:
            check.forward(numeric)
            if check_batched_forward_grad:
                check.batched_tangents()
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


class _Check:
    def __init__(
        self, func: Callable[..., Any], inputs: Any, eps: float, atol: float, rtol: float, nondet_tol: float
    ) -> None:
        self.func = func
        self.inputs = _as_tuple(inputs)
        self.eps, self.atol, self.rtol, self.nondet_tol = eps, atol, rtol, nondet_tol
        self.leaves = [t for t in _tensors(self.inputs) if t.requires_grad]
        self.form: list[tuple[Any, Any]] | None = None  # shape and dtype of each output

    def inputs_are_usable(self) -> None:
        if not self.leaves:
            raise ValueError(
                "gradcheck expects at least one input tensor to require gradient, but none of "
                "the them have requires_grad=True."
            )
        for i, tensor in enumerate(_tensors(self.inputs)):
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

    def outputs(self) -> list[Tensor]:
        """The differentiable outputs."""
        return [
            o for o in _tensors((self.func(*self.inputs),)) if o.requires_grad and o.dtype.is_differentiable
        ]

    def outputs_are_constant(self) -> bool:
        """Nothing to differentiate; then finite differences must be zero."""
        if self.outputs():
            return False
        if any(np.any(block) for column in self.numeric_slow() for block in column):
            raise GradcheckError("Numerical gradient for function expected to be zero")
        return True

    # Finite differences.

    def _values(self) -> list[np.ndarray]:
        outputs = [o for o in _tensors((self.func(*self.inputs),)) if o.dtype.is_differentiable]
        found = [(tuple(o.shape), o.dtype) for o in outputs]
        if self.form is None:
            self.form = found
        for what, now, then in zip(
            ("shape", "dtype"), zip(*found, strict=True), zip(*self.form, strict=True), strict=False
        ):
            if now != then:
                raise AssertionError(
                    f"Expected `func` to return outputs with the same {what} when inputs "
                    f"are perturbed, but got {then} and {now}"
                )
        return [_real(o.detach()) for o in outputs]

    def _differentiable(self) -> list[int]:
        """Which of the floating outputs require grad."""
        floating = [o for o in _tensors((self.func(*self.inputs),)) if o.dtype.is_differentiable]
        return [i for i, o in enumerate(floating) if o.requires_grad]

    def numeric_slow(self) -> list[list[np.ndarray]]:
        """For each input, for each differentiable output, the Jacobian as (output elements, input elements),
        all real."""
        kept = self._differentiable() or None
        self._values()
        blocks = []
        for tensor in self.leaves:
            columns = []
            for _ in _perturbed(tensor, self.eps):
                columns.append(self._values())
            pairs = [
                [(plus - minus) / (2 * self.eps) for plus, minus in zip(*two, strict=True)]
                for two in zip(columns[::2], columns[1::2], strict=True)
            ]
            count = len(self._values())
            chosen = range(count) if kept is None else kept
            blocks.append(
                [np.stack([pair[j] for pair in pairs], axis=1) if pairs else np.zeros((0, 0)) for j in chosen]
            )
        return blocks

    def _numeric_direction(self, directions: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The derivative along one direction in all inputs at once."""
        kept = self._differentiable()
        self._values()
        arrays = [_real_view(tensor) for tensor in self.leaves]
        originals = [array.copy() for array in arrays]
        values = []
        for sign in (1.0, -1.0):
            for array, original, direction in zip(arrays, originals, directions, strict=True):
                array[...] = original + sign * self.eps * direction.reshape(array.shape)
            values.append(self._values())
        for array, original in zip(arrays, originals, strict=True):
            array[...] = original
        return [(values[0][i] - values[1][i]) / (2 * self.eps) for i in kept]

    # Reverse mode.

    def _rows(self, output: Tensor, outputs: Sequence[Tensor]) -> Iterator[list[np.ndarray]]:
        """Gradients for each unit cotangent of `output` (1 and i for complex ones)."""
        for unit in _units(output):
            grads = grad(output, self.leaves, unit, retain_graph=True, allow_unused=True)
            yield [_real_like(g, tensor) for g, tensor in zip(grads, self.leaves, strict=True)]

    def backward(self, numeric: Any) -> None:
        if numeric is None:
            self._backward_fast()
            return
        for j, output in enumerate(self.outputs()):
            rows = list(self._rows(output, ()))
            for i, tensor in enumerate(self.leaves):
                columns = _count(tensor)
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
        outputs = self.outputs()
        directions = [_unit_vector(random, _count(t)) for t in self.leaves]
        weights = [_unit_vector(random, _count(o)) for o in outputs]
        expected = [self._numeric_direction(_one(directions, i)) for i in range(len(directions))]
        for j, (output, weight) in enumerate(zip(outputs, weights, strict=True)):
            cotangent = _from_real(weight, output)
            grads = grad(output, self.leaves, cotangent, retain_graph=True, allow_unused=True)
            for i, (g, tensor, direction) in enumerate(zip(grads, self.leaves, directions, strict=True)):
                found, wanted = _real_like(g, tensor) @ direction, expected[i][j] @ weight
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
        for j, output in enumerate(self.outputs()):
            unit = _from_real(np.ones(_count(output)), output)
            first, second = (
                grad(output, self.leaves, unit, retain_graph=True, allow_unused=True) for _ in range(2)
            )
            for i, (a, b) in enumerate(zip(first, second, strict=True)):
                if a is not None and b is not None and np.any(np.abs(_real(a) - _real(b)) > self.nondet_tol):
                    raise GradcheckError(
                        "Backward is not reentrant: run twice with the same input and "
                        "gradient it gives values that differ by more than "
                        f"{self.nondet_tol} (output {j}, input {i})"
                    )

    def undefined_gradients(self) -> None:
        """Outputs that nothing is said about count as zero."""
        outputs = self.outputs()
        if outputs:
            ones = [_from_real(np.ones(_count(o)), o) for o in outputs]
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
        ones = [_from_real(np.ones(_count(o)), o) for o in outputs]
        for j, output in enumerate(outputs):
            alone = grad(output, self.leaves, ones[j], retain_graph=True, allow_unused=True)
            zeros = [one if k == j else one * 0 for k, one in enumerate(ones)]
            among = grad(outputs, self.leaves, zeros, retain_graph=True, allow_unused=True)
            for i, (a, b, tensor) in enumerate(zip(alone, among, self.leaves, strict=True)):
                if not np.allclose(_real_like(a, tensor), _real_like(b, tensor), equal_nan=True):
                    raise GradcheckError(
                        "Expected backward function to handle undefined output grads: "
                        f"output {j}, input {i} differs from the gradient for zeros"
                    )

    def gradient_dtypes(self) -> None:
        for j, output in enumerate(self.outputs()):
            grads = grad(
                output,
                self.leaves,
                _from_real(np.ones(_count(output)), output),
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
        for j, output in enumerate(self.outputs()):
            weights = [_from_real(random.standard_normal(_count(output)), output) for _ in range(2)]
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
                    found = _real_like(None if a is None else a[n], tensor)
                    if not np.allclose(
                        found, _real_like(b, tensor), rtol=self.rtol, atol=self.atol, equal_nan=True
                    ):
                        raise GradcheckError(
                            f"For output {j} and input {i}: vmap over the backward pass "
                            "gives another result than a loop over it"
                        )

    # Forward mode.

    def _tangents(self, directions: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Tangents of the differentiable outputs for tangents of the inputs."""
        kept = self._differentiable()
        level = MODES.dual_stack[enter_dual_level()]
        try:
            duals = {}
            for tensor, direction in zip(self.leaves, directions, strict=True):
                dual = tensor.detach()
                set_tangent(dual, level, _from_real(direction, tensor))
                duals[id(tensor)] = dual
            result = self.func(*_replaced(self.inputs, duals))
            floating = [o for o in _tensors((result,)) if o.dtype.is_differentiable]
            return [_real_like(tangent_of(floating[i], level), floating[i]) for i in kept]
        finally:
            exit_dual_level()

    def batched_tangents(self) -> None:
        """Tangents for a batch of directions equal those for each of them."""
        random = np.random.default_rng(4)
        directions = [[_unit_vector(random, _count(t)) for t in self.leaves] for _ in range(2)]
        alone = [self._tangents(each) for each in directions]
        kept = self._differentiable()
        with Vmap(2, direct=True) as trace:
            level = MODES.dual_stack[enter_dual_level()]
            try:
                duals = {}
                for tensor, pair in zip(self.leaves, zip(*directions, strict=True), strict=True):
                    batch = from_numpy(np.stack([_from_real(d, tensor).numpy() for d in pair]))
                    dual = trace.pure(tensor.detach())
                    set_tangent(dual, level, trace.lift(batch, 0))
                    duals[id(tensor)] = dual
                floating = [
                    o
                    for o in _tensors((self.func(*_replaced(self.inputs, duals)),))
                    if o.dtype.is_differentiable
                ]
                found = [trace.front(tangent_of(floating[i], level)) for i in kept]
            finally:
                exit_dual_level()
        for j, (value, batched, _) in enumerate(found):
            for n in range(2):
                together = _real_like(value[n] if batched else value, floating[kept[j]])
                if not np.allclose(together, alone[n][j], rtol=self.rtol, atol=self.atol, equal_nan=True):
                    raise GradcheckError(
                        f"For output {j}: vmap over forward mode gives another result than a loop over it"
                    )

    def forward(self, numeric: Any) -> None:
        if numeric is None:
            random = np.random.default_rng(2)
            directions = [_unit_vector(random, _count(t)) for t in self.leaves]
            for i in range(len(directions)):
                alone = _one(directions, i)
                expected = self._numeric_direction(alone)
                for j, (found, wanted) in enumerate(zip(self._tangents(alone), expected, strict=True)):
                    weight = _unit_vector(random, wanted.size)
                    self._compare(np.asarray(found @ weight), np.asarray(wanted @ weight), i, j, _FORWARD)
            return
        for i, tensor in enumerate(self.leaves):
            for k in range(_count(tensor)):
                directions_ = [np.zeros(_count(t)) for t in self.leaves]
                directions_[i] = np.eye(1, _count(tensor), k)[0]
                for j, found in enumerate(self._tangents(directions_)):
                    self._compare(found, numeric[i][j][:, k], i, j, _FORWARD)


_MISMATCH = "Jacobian mismatch for output {j} with respect to input {i},"
_FORWARD = "Jacobian computed with forward mode mismatch for output {j} with respect to input {i},"


def _one(directions: Sequence[np.ndarray], i: int) -> list[np.ndarray]:
    """Of the directions that of input `i` alone."""
    return [d if k == i else np.zeros_like(d) for k, d in enumerate(directions)]


# Tensors as real vectors.


def _tensors(tree: Any) -> list[Tensor]:
    if isinstance(tree, Tensor):
        return [tree]
    if isinstance(tree, tuple | list):
        return [tensor for item in tree for tensor in _tensors(item)]
    return []


def _as_tuple(inputs: Any) -> tuple[Any, ...]:
    return tuple(inputs) if isinstance(inputs, tuple | list) else (inputs,)


def _replaced(tree: Any, by_identity: dict[int, Tensor]) -> Any:
    if isinstance(tree, Tensor):
        return by_identity.get(id(tree), tree)
    if isinstance(tree, tuple | list):
        return type(tree)(_replaced(item, by_identity) for item in tree)
    return tree


def _strided_outputs(func: Callable[..., Any]) -> Callable[..., Any]:
    def strided(tree: Any) -> Any:
        if isinstance(tree, Tensor):
            return tree if tree._parts is None else tree.to_dense()
        return type(tree)(map(strided, tree)) if type(tree) in (tuple, list) else tree

    return lambda *args: strided(func(*args))


def _filled(tree: Any) -> Any:
    """`tree` with sparse tensors that require grad replaced by ones that store all of their elements."""
    if isinstance(tree, Tensor):
        is_variable = tree._parts is not None and tree.requires_grad
        return filled(tree.detach())._set_requires_grad() if is_variable else tree
    return type(tree)(map(_filled, tree)) if type(tree) in (tuple, list) else tree


def _stored(tensor: Tensor) -> Tensor:
    """What of `tensor` is varied: the values of a sparse one."""
    return tensor if tensor._parts is None else tensor._parts.values


def _count(tensor: Tensor) -> int:
    return _stored(tensor).numel() * (2 if tensor.dtype.is_complex else 1)


def _real(tensor: Tensor) -> np.ndarray:
    """The values as a real vector."""
    tensor = tensor if tensor._parts is None else run_name("_to_dense", tensor.detach(), None, None)
    array = np.ascontiguousarray(tensor.detach().numpy(force=True)).reshape(-1)
    return (
        array.view(np.float64 if array.dtype == np.complex128 else np.float32).astype(np.float64)
        if np.iscomplexobj(array)
        else array.astype(np.float64)
    )


def _real_like(tensor: Tensor | None, like: Tensor) -> np.ndarray:
    if tensor is None:
        return np.zeros(_count(like))
    if like._parts is not None:
        tensor = run_name("_sparse_take", tensor.detach(), structure(like))
    return _real(tensor)


def _from_real(values: np.ndarray, like: Tensor) -> Tensor:
    """The tensor like `like` whose real vector is `values`."""
    array = np.ascontiguousarray(values, np.float64)
    if like.dtype.is_complex:
        array = array.view(np.complex128)
    made = from_numpy(array.astype(like.dtype.numpy).reshape(tuple(_stored(like).shape)))
    return made if like._parts is None else with_values(like, made)


def _units(output: Tensor) -> Iterator[Tensor]:
    count = _count(output)
    for k in range(count):
        yield _from_real(np.eye(1, count, k)[0], output)


def _unit_vector(random: np.random.Generator, count: int) -> np.ndarray:
    vector = random.uniform(0.5, 1.0, count) * random.choice([-1.0, 1.0], count)
    return vector / max(float(np.linalg.norm(vector)), 1e-30)


def _real_view(tensor: Tensor) -> np.ndarray:
    """The tensor's own memory as real numbers, to be changed behind autograd's back."""
    array = _stored(tensor).detach().numpy_array()
    if not np.iscomplexobj(array):
        return array
    part = np.float64 if array.dtype == np.complex128 else np.float32
    strides = (*array.strides, array.itemsize // 2)
    return np.lib.stride_tricks.as_strided(array.real.view(part), (*array.shape, 2), strides)


def _perturbed(tensor: Tensor, eps: float) -> Iterator[None]:
    """Change one element of `tensor` at a time, up and then down, by `eps`."""
    array = _stored(tensor).detach().numpy_array()
    steps = (eps, 1j * eps) if np.iscomplexobj(array) else (eps,)
    for index in np.ndindex(*array.shape):
        original = array[index].copy()
        for step in steps:
            for sign in (1, -1):
                array[index] = original + sign * step
                yield
        array[index] = original


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Whether the second derivatives of `func` at `inputs` agree with finite differences of the first."""
    func = _strided_outputs(func)
    if not (check_fwd_over_rev or check_rev_over_rev):
        raise AssertionError("Expected at least one of check_fwd_over_rev or check_rev_over_rev to be True")
    given = _as_tuple(inputs) if masked else _filled(_as_tuple(inputs))
    outputs = [o for o in _tensors((func(*given),)) if o.requires_grad and o.dtype.is_differentiable]
    weights = (
        _weights(outputs, gen_non_contig_grad_outputs) if grad_outputs is None else _tensors((grad_outputs,))
    )
    count = len(given)
    wanted = [isinstance(value, Tensor) and value.requires_grad for value in given]

    def first(*args: Any) -> Any:
        values, cotangents = args[:count], args[count:]
        values = tuple(
            v._set_requires_grad() if needed else v for v, needed in zip(values, wanted, strict=True)
        )
        with enable_grad():
            found = [o for o in _tensors((func(*values),)) if o.requires_grad and o.dtype.is_differentiable]
            leaves = [t for t in _tensors(values) if t.requires_grad]
            grads = grad(found, leaves, cotangents, create_graph=True, allow_unused=True)
        return tuple(g for g in grads if g is not None)

    return gradcheck(
        first,
        (*given, *weights),
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        fast_mode=fast_mode,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
        masked=masked,
    )


def _weights(outputs: Sequence[Tensor], non_contiguous: bool) -> list[Tensor]:
    random = np.random.default_rng(3)
    weights = []
    for output in outputs:
        weight = _from_real(random.standard_normal(_count(output)), output)
        if non_contiguous and weight.ndim:
            weight = weight.unsqueeze(-1).expand(*weight.shape, 2).clone()[..., 0]
        weights.append(weight._set_requires_grad())
    return weights
