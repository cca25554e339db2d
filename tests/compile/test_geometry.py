"""In-place views of the caller's tensors: they have the new shape after the call, over the same memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import rushlight as rl
from rushlight.capture.errors import CaptureError

Program = Callable[..., Any]


def looks(tensors: Any) -> list[tuple[Any, ...]]:
    tensors = tensors if isinstance(tensors, tuple) else (tensors,)
    return [(t.tolist(), tuple(t.shape), tuple(t.stride()), t.storage_offset()) for t in tensors]


def matrix(library: Any) -> tuple[Any, ...]:
    return (library.arange(6.0).reshape(2, 3).clone(),)


def matrix_and_rows(library: Any) -> tuple[Any, ...]:
    whole = library.arange(12.0).reshape(3, 4)
    return whole, whole[1:]


def transposed(x: Any) -> Any:
    x.t_()
    return x + 1


def returned(x: Any) -> Any:
    return x.t_()


def written_after(x: Any) -> Any:
    x.t_()
    x.add_(1)
    return x[0], x


def written_before_and_after(x: Any) -> Any:
    row = x[0]
    x.add_(1)
    x.t_()
    x[1].mul_(2)
    return row, x.sum(0)


def unsqueezed(x: Any) -> Any:
    x.unsqueeze_(1)
    return x.shape[1] * x


def squeezed(x: Any) -> Any:
    x.unsqueeze_(0).unsqueeze_(2)
    x.squeeze_(0)
    return x.squeeze_() * 2


def squeezed_dims(x: Any) -> Any:
    return x.unsqueeze_(0).unsqueeze_(0).squeeze_((0, 1)) * 2


def strided(x: Any) -> Any:
    x.as_strided_((2, 2), (1, 2), 1)
    x.add_(3)
    return x, x[1:]


def detached(x: Any) -> Any:
    x.detach_()
    return x * 2


def there_and_back(x: Any) -> Any:
    x.t_()
    x.t_()
    return x + 1


def swapped(x: Any) -> Any:
    x.swapaxes_(0, 1)
    x.transpose_(0, 1)
    x.swapdims_(1, 0)
    return x + 1


def own_tensor(x: Any) -> Any:
    y = x * 2
    y.t_()
    y.add_(1)
    return y


def own_view(x: Any) -> Any:
    y = x[:, 1:]
    y.t_()
    y.add_(1)
    return y, x


def view_changes(whole: Any, rows: Any) -> Any:
    rows.t_()
    rows.add_(1)
    whole.mul_(2)
    return rows * 1, whole[0]


def base_changes(whole: Any, rows: Any) -> Any:
    whole.t_()
    rows.add_(1)
    whole.mul_(2)
    return rows * 1, whole[0], rows


def both_change(whole: Any, rows: Any) -> Any:
    rows.squeeze_()
    whole.t_()
    row = rows[0]
    rows.as_strided_((2,), (3,), 5)
    rows.mul_(2)
    return row, whole, rows


@pytest.mark.parametrize(
    ("program", "make"),
    [
        (program, matrix)
        for program in (
            transposed,
            returned,
            written_after,
            written_before_and_after,
            unsqueezed,
            squeezed,
            squeezed_dims,
            strided,
            detached,
            there_and_back,
            swapped,
            own_tensor,
            own_view,
        )
    ]
    + [(program, matrix_and_rows) for program in (view_changes, base_changes, both_change)],
    ids=lambda thing: thing.__name__,
)
def test_as_in_pytorch(program: Program, make: Callable[[Any], tuple[Any, ...]]) -> None:
    compiled = rl.compile(program, fullgraph=True)
    for _ in range(2):  # compiled, and found again
        mine, theirs = make(rl), make(torch)
        assert looks(compiled(*mine)) == looks(program(*theirs))
        assert looks(mine) == looks(theirs)
        assert [t._version for t in mine] == [t._version for t in theirs]
    assert compiled.reasons == ["first call"]


def test_the_returned_tensor_is_the_argument() -> None:
    x = rl.arange(6.0).reshape(2, 3).clone()
    assert rl.compile(returned, fullgraph=True)(x) is x


def test_a_tensor_from_outside_changes_with_every_call() -> None:
    whole = rl.arange(6.0).reshape(2, 3)
    seen = whole.view(2, 3)

    def program(x: rl.Tensor) -> rl.Tensor:
        seen.t_()
        return seen * x + whole.sum()

    compiled = rl.compile(program, fullgraph=True)
    assert [tuple(compiled(rl.ones(1)).shape) for _ in range(4)] == [(3, 2), (2, 3), (3, 2), (2, 3)]


def test_a_view_keeps_its_place_in_the_history_of_its_base() -> None:
    def program(x: Any) -> None:
        x.t_()

    def gradient(run: Program, library: Any) -> Any:
        base = library.zeros(2, 3)
        x = base[:, 1:]
        run(x)
        w = library.ones(2, 2, requires_grad=True)
        x.mul_(0).add_(w * library.tensor([[1.0, 2.0], [3.0, 4.0]]))
        (base * library.arange(6.0).reshape(2, 3)).sum().backward()
        return w.grad.tolist()

    assert gradient(rl.compile(program, fullgraph=True), rl) == gradient(program, torch)


def test_nothing_of_a_capture_stays() -> None:
    def program(x: rl.Tensor) -> float:
        x.t_()
        x.add_(1)
        return float(x.sum())

    x = rl.arange(6.0).reshape(2, 3).clone()
    with pytest.raises(CaptureError, match="reads a value"):
        rl.compile(program, fullgraph=True)(x)
    assert looks(x) == looks(rl.arange(6.0).reshape(2, 3))
    assert x._version == 0
    compiled = rl.compile(program)  # the capture ends where the value is read; nothing happens twice
    assert [compiled(x), compiled(x)] == [21.0, 27.0]
    assert tuple(x.shape) == (2, 3)
    assert x.tolist() == [[2.0, 3.0, 4.0], [5.0, 6.0, 7.0]]


def test_a_tensor_that_requires_grad_is_changed_eagerly() -> None:
    def program(x: rl.Tensor) -> rl.Tensor:
        y = x.t_()
        return y * 2

    x = rl.ones(2, 3, requires_grad=True) * 1
    with pytest.raises(CaptureError, match="changes the shape of a tensor of the caller"):
        rl.compile(program, fullgraph=True)(x)
    assert tuple(rl.compile(program)(x).shape) == (3, 2) == tuple(x.shape)
