"""L-BFGS, with a line search by the strong Wolfe conditions if asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..autograd.grad_mode import enable_grad, no_grad
from ..core.errors import check
from ..core.tensor import Tensor
from ..core.tokens import contiguous_format
from ._batch import functions
from .optimizer import Optimizer, ParamsT, validate_common

__all__ = ["LBFGS"]


@dataclass
class _Point:
    """A place on the line of a search: how far, the loss there, its gradient and its slope along the line."""

    t: Any
    loss: Any
    grad: Tensor
    slope: Any


def _cubic_minimum(a: _Point, b: _Point, bounds: tuple[Any, Any] | None = None) -> Any:
    """Where the cubic through two points, with their slopes, is smallest; within bounds, by default the
    points."""
    low, high = bounds if bounds is not None else (min(a.t, b.t), max(a.t, b.t))
    bend = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t)
    square = bend**2 - a.slope * b.slope
    if square < 0:
        return (low + high) / 2.0
    root = square.sqrt()
    first, second = (a, b) if a.t <= b.t else (b, a)
    best = second.t - (second.t - first.t) * (
        (second.slope + root - bend) / (second.slope - first.slope + 2 * root)
    )
    return min(max(best, low), high)


class _StrongWolfe:
    """A search for a point along a direction that satisfies the strong Wolfe conditions."""

    DECREASE, CURVATURE = 1e-4, 0.9  # of the two conditions
    TOLERANCE = 1e-9  # a bracket that changes no parameter by more is not searched any further

    def __init__(self, evaluate: Callable[[Any], _Point], start: _Point, most: int) -> None:
        self.evaluate = evaluate
        self.start = start
        self.most = most
        self.rounds = 0
        self.done = False  # the conditions hold

    def search(self, t: Any, direction: Tensor) -> tuple[_Point, int]:
        """The best point that at most `most` rounds of evaluations after the first find; and how many
        evaluations there were."""
        bracket = self._bracket(t)
        if len(bracket) == 1:
            return bracket[0], self.rounds + 1
        return self._zoom(bracket, direction.abs().max()), self.rounds + 1

    def _rises(self, point: _Point) -> bool:
        return bool(point.loss > self.start.loss + self.DECREASE * point.t * self.start.slope)

    def _is_flat(self, point: _Point) -> bool:
        return bool(abs(point.slope) <= -self.CURVATURE * self.start.slope)

    def _bracket(self, t: Any) -> list[_Point]:
        """Two points with a minimum between them, or one that satisfies the conditions."""
        previous, point = self.start, self.evaluate(t)
        while self.rounds < self.most:
            if self._rises(point) or (self.rounds > 1 and point.loss >= previous.loss):
                return [previous, point]
            if self._is_flat(point):
                self.done = True
                return [point]
            if point.slope >= 0:
                return [previous, point]
            bounds = (point.t + 0.01 * (point.t - previous.t), point.t * 10)
            t = _cubic_minimum(previous, point, bounds)
            previous, point = point, self.evaluate(t)
            self.rounds += 1
        return [self.start, point]

    def _zoom(self, bracket: list[_Point], length: Any) -> _Point:
        """The lower end of a bracket that is made smaller and smaller."""
        low, high = _order(bracket)
        stuck = False
        while not self.done and self.rounds < self.most:
            if abs(bracket[1].t - bracket[0].t) * length < self.TOLERANCE:
                break
            t, stuck = _inside(bracket, stuck)
            point = self.evaluate(t)
            self.rounds += 1
            if self._rises(point) or point.loss >= bracket[low].loss:
                bracket[high] = point
                low, high = _order(bracket)
                continue
            if self._is_flat(point):
                self.done = True
            elif point.slope * (bracket[high].t - bracket[low].t) >= 0:
                bracket[high] = bracket[low]
            bracket[low] = point
        return bracket[low]


def _order(bracket: list[_Point]) -> tuple[int, int]:
    """Which end of a bracket is the lower one, and which the higher."""
    return (0, 1) if bracket[0].loss <= bracket[1].loss else (1, 0)


def _inside(bracket: list[_Point], stuck: bool) -> tuple[Any, bool]:
    """Where to look next in a bracket: at the minimum of the cubic, but not close to an end for the second time
    in a row; and whether it is close to one."""
    ends = [bracket[0].t, bracket[1].t]
    t = _cubic_minimum(bracket[0], bracket[1])
    margin = 0.1 * (max(ends) - min(ends))
    close = min(max(ends) - t, t - min(ends)) < margin
    if not close:
        return t, False
    if not stuck and min(ends) < t < max(ends):
        return t, True
    return (max(ends) - margin if abs(t - max(ends)) < abs(t - min(ends)) else min(ends) + margin), False


class LBFGS(Optimizer):
    """Quasi-Newton steps from the differences of recent gradients. `step` needs a closure that returns the
    loss.

    >>> x = rl.tensor([1.0], requires_grad=True)
    >>> optimizer = rl.optim.LBFGS([x])
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = (x - 3).square().sum()
    ...     loss.backward()
    ...     return loss
    >>> _ = optimizer.step(closure)
    >>> x.detach().round(decimals=3)
    tensor([3.])
    """

    _step_is_tensor = False

    def __init__(
        self,
        params: ParamsT,
        lr: Any = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-07,
        tolerance_change: float = 1e-09,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        validate_common(lr)
        super().__init__(
            params,
            {
                "lr": lr,
                "max_iter": max_iter,
                "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
                "tolerance_grad": tolerance_grad,
                "tolerance_change": tolerance_change,
                "history_size": history_size,
                "line_search_fn": line_search_fn,
            },
        )
        check(
            len(self.param_groups) == 1,
            "LBFGS doesn't support per-parameter options (parameter groups)",
            ValueError,
        )

    @property
    def _params(self) -> list[Any]:
        return self.param_groups[0]["params"]

    def _flat_grad(self) -> Tensor:
        parts = []
        for param in self._params:
            grad = functions["zeros_like"](param) if param.grad is None else param.grad
            parts.append((functions["view_as_real"](grad) if grad.is_complex() else grad).reshape(-1))
        return functions["cat"](parts, 0)

    def _move(self, t: Any, direction: Tensor) -> None:
        offset = 0
        for param in self._params:
            target = functions["view_as_real"](param) if param.is_complex() else param
            count = target.numel()
            target.add_(direction[offset : offset + count].view_as(target) * t)
            offset += count

    def _point_at(
        self, closure: Callable[[], Any], values: list[Tensor], t: Any, direction: Tensor
    ) -> _Point:
        """The loss and gradient at `t`; the parameters go back to `values`."""
        self._move(t, direction)
        loss = float(closure())
        grad = self._flat_grad()
        for param, value in zip(self._params, values, strict=True):
            param.copy_(value)
        return _Point(t, loss, grad, grad.dot(direction))

    def _direction(self, state: dict[str, Any], grad: Tensor, history_size: int) -> Tensor:
        """The direction of descent: the gradient, transformed by what recent steps tell of the curvature."""
        if state["n_iter"] == 1:
            state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1)
            return grad.neg()
        change, step = grad.sub(state["prev_flat_grad"]), state["d"].mul(state["t"])
        product = change.dot(step)
        changes, steps, inverses = state["old_dirs"], state["old_stps"], state["ro"]
        if product > 1e-10:
            if len(changes) == history_size:
                for history in (changes, steps, inverses):
                    history.pop(0)
            changes.append(change)
            steps.append(step)
            inverses.append(1.0 / product)
            state["H_diag"] = product / change.dot(change)
        factors = state.setdefault("al", [None] * history_size)
        result = grad.neg()
        for i in reversed(range(len(changes))):
            factors[i] = steps[i].dot(result) * inverses[i]
            result = result - changes[i] * factors[i]
        result = result * state["H_diag"]
        for i in range(len(changes)):
            result = result + steps[i] * (factors[i] - changes[i].dot(result) * inverses[i])
        return result

    @no_grad()
    def step(self, closure: Callable[[], Any]) -> Any:  # type: ignore[override]
        """Up to `max_iter` iterations; `closure` clears the gradients, computes the loss, and returns it."""
        closure = enable_grad()(closure)
        group = self.param_groups[0]
        change_limit = group["tolerance_change"]
        state = self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first_loss = closure()
        loss, evaluations, iterations = float(first_loss), 1, 0
        state["func_evals"] += 1
        grad = self._flat_grad()
        if grad.abs().max() <= group["tolerance_grad"]:
            return first_loss
        while iterations < group["max_iter"]:
            iterations += 1
            state["n_iter"] += 1
            direction = state["d"] = self._direction(state, grad, group["history_size"])
            state["prev_flat_grad"] = grad.clone(memory_format=contiguous_format)
            state["prev_loss"] = loss
            t = group["lr"] * (min(1.0, 1.0 / grad.abs().sum()) if state["n_iter"] == 1 else 1)
            state["t"] = t
            slope = grad.dot(direction)
            if slope > -change_limit:
                break
            used = 0
            if group["line_search_fn"] is not None:
                check(group["line_search_fn"] == "strong_wolfe", "only 'strong_wolfe' is supported")
                point, used = self._search(
                    closure, _Point(0, loss, grad, slope), t, direction, group["max_eval"] - evaluations
                )
                loss, grad, t = point.loss, point.grad, point.t
                state["t"] = t
                self._move(t, direction)
            else:
                self._move(t, direction)
                if iterations != group["max_iter"]:
                    loss, used = float(closure()), 1
                    grad = self._flat_grad()
            evaluations += used
            state["func_evals"] += used
            if (
                iterations == group["max_iter"]
                or evaluations >= group["max_eval"]
                or grad.abs().max() <= group["tolerance_grad"]
                or direction.mul(t).abs().max() <= change_limit
                or abs(loss - state["prev_loss"]) < change_limit
            ):
                break
        return first_loss

    def _search(
        self, closure: Callable[[], Any], start: _Point, t: Any, direction: Tensor, most: int
    ) -> tuple[_Point, int]:
        values = [param.clone(memory_format=contiguous_format) for param in self._params]
        search = _StrongWolfe(lambda at: self._point_at(closure, values, at, direction), start, most)
        return search.search(t, direction)
