"""Derivatives of running reductions.

Those of products and of sums of exponentials are linear recurrences. They are solved without division, so
they are exact at zeros, and with differentiable operators, so they have derivatives of every order.
"""

from __future__ import annotations

from ..core.data_sizes import is_data
from ..core.dispatch import run_name
from ..core.dtypes import DType
from ..core.shapes import Shape
from ..core.tensor import Tensor
from .declare import AUTO_LINEAR, derivative
from .helpers import conj


def head(x: Tensor, dim: int, shift: int = 1) -> Tensor:
    """All but the last `shift` elements."""
    return x.narrow(dim, 0, x.shape[dim] - shift)


def tail(x: Tensor, dim: int, shift: int = 1) -> Tensor:
    """All but the first `shift` elements."""
    return x.narrow(dim, shift, x.shape[dim] - shift)


def recurrence(links: Tensor, values: Tensor, dim: int, reverse: bool = False) -> Tensor:
    """h[i] = values[i] + links[i - 1] * h[i - 1], or, in reverse, h[i] = values[i] + links[i] * h[i + 1].

    There is one link between each two neighbours. Doubling: after each step, h sums over windows of twice the
    length, and the links lead across such a window.
    """
    size, step = values.shape[dim], 1
    near, far = (head, tail) if reverse else (tail, head)
    while step < size:
        reached = near(values, dim, step) + links * far(values, dim, step)
        edge = values.narrow(dim, size - step if reverse else 0, step)
        values = run_name("cat", (reached, edge) if reverse else (edge, reached), dim)
        if 2 * step < size:
            links = near(links, dim, step) * far(links, dim, step)
        step *= 2
    return values


def shifted(x: Tensor, dim: int, first: float) -> Tensor:
    """`x` moved on by one element, with `first` in front."""
    inner = x.ndim - 1 - dim % x.ndim
    if is_data(x.shape[dim]):  # which may be 0
        places: Tensor = run_name("arange", x.shape[dim], None, None, None, None)
        return x.roll(1, dim).masked_fill((places == 0).reshape((-1,) + (1,) * inner), first)
    return run_name("constant_pad_nd", head(x, dim), (0, 0) * inner + (1, 0), first)


def products_of_others(x: Tensor, dim: int) -> Tensor:
    """For each element the product of all others along `dim`."""
    if x.ndim == 0:
        return products_of_others(x.reshape(1), 0).reshape(())
    if x.shape[dim] == 0:
        return x
    before = shifted(x.cumprod(dim), dim, 1)
    after = shifted(x.flip(dim).cumprod(dim), dim, 1).flip(dim)
    return before * after


# Sums and products.

derivative("cumsum", self=lambda grad, dim: grad.flip(dim).cumsum(dim).flip(dim), result=AUTO_LINEAR)


def cumprod_backward(grad: Tensor, self: Tensor, dim: int, dtype: DType | None, result: Tensor) -> Tensor:
    """An element counts in the products from its own on: those are the product before it times a sum of
    products."""
    if self.ndim == 0 or self.shape[dim] <= 1:
        return grad
    x = self if dtype is None else self.to(dtype)
    return conj(shifted(result, dim, 1)) * recurrence(conj(tail(x, dim)), grad, dim, reverse=True)


def cumprod_tangent(self_t: Tensor, self: Tensor, dim: int, dtype: DType | None, result: Tensor) -> Tensor:
    """The product rule: p[i]' = p[i - 1] x[i]' + x[i] p[i - 1]'."""
    x, tangent = (self, self_t) if dtype is None else (self.to(dtype), self_t.to(dtype))
    if self.ndim == 0 or self.shape[dim] <= 1:
        return tangent
    return recurrence(tail(x, dim), shifted(result, dim, 1) * tangent, dim)


derivative("cumprod", self=cumprod_backward, result=cumprod_tangent)


# Extremes: the gradient goes to the elements that were selected.

def selected_backward(grad: Tensor, self_shape: Shape, dim: int, indices: Tensor) -> Tensor:
    return grad.new_zeros(self_shape).scatter_add(dim, indices, grad) if self_shape else grad


derivative(["cummax", "cummin"], self=selected_backward,
           result0=lambda self_t, dim, indices: self_t.gather(dim, indices) if self_t.ndim else self_t)


# Exponentials.

def running_sums(self: Tensor, dim: int) -> tuple[Tensor, Tensor, Tensor]:
    """exp(self - m), the links exp(m[i - 1] - m[i]), and the sums of the exponentials so far, where m is the
    largest element so far: none of them overflows, or loses digits where all elements are large. Nothing
    depends on m, which is a constant to derivatives; a sum of nothing is 1, so that it can be divided by."""
    largest = (self.real if self.dtype.is_complex else self).detach().cummax(dim)[0]
    nothing = largest == float("-inf")
    powers = (self - largest.masked_fill(nothing, 0)).exp()
    links = (head(largest, dim) - tail(largest, dim)).exp().masked_fill(head(nothing, dim), 0)
    sums = recurrence(links, powers, dim)
    return powers, links, sums.masked_fill(sums == 0, 1)


def logcumsumexp_backward(grad: Tensor, self: Tensor, dim: int) -> Tensor:
    """An element's exponential, times what the gradients from there on pass back along the sums."""
    if self.ndim == 0 or self.shape[dim] <= 1:
        return grad
    powers, links, sums = running_sums(self, dim)
    return conj(powers) * recurrence(links, grad / conj(sums), dim, reverse=True)


def logcumsumexp_tangent(self_t: Tensor, self: Tensor, dim: int) -> Tensor:
    if self.ndim == 0 or self.shape[dim] <= 1:
        return self_t
    powers, links, sums = running_sums(self, dim)
    return recurrence(links, powers * self_t, dim) / sums


derivative("logcumsumexp", self=logcumsumexp_backward, result=logcumsumexp_tangent)
