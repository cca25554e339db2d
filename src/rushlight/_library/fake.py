"""What a fake kernel may ask for while it runs."""

from __future__ import annotations

from typing import Any

from ..core.errors import check


class DataDependentShape(RuntimeError):
    """A shape that is known only when an operator has run."""


class FakeImplCtx:
    """The context of a fake kernel."""

    def new_dynamic_size(self, *, min: int = 0, max: int | None = None) -> Any:
        """The size of a dimension that depends on data: there is none before the operator has run."""
        check(
            isinstance(min, int) and (max is None or isinstance(max, int)),
            "ctx.new_dynamic_size(min, max): expected min and max to be static ints, not SymInt",
            ValueError,
        )
        check(
            min >= 0,
            f"ctx.new_dynamic_size(min={min}): expected min to be greater than or equal to 0",
            ValueError,
        )
        raise DataDependentShape(
            "ctx.new_dynamic_size: an operator with a data-dependent shape cannot run "
            "on tensors without data; in a compiled function it ends the graph"
        )

    create_unbacked_symint = new_dynamic_size


AbstractImplCtx = FakeImplCtx
_context = FakeImplCtx()


def get_ctx() -> FakeImplCtx:
    """The context of the fake kernel that runs.

    >>> @rl.library.custom_op("docs::places", mutates_args=())
    ... def places(x: rl.Tensor) -> rl.Tensor:
    ...     return x.nonzero()
    >>> @places.register_fake
    ... def _(x):
    ...     return x.new_empty((rl.library.get_ctx().new_dynamic_size(), x.ndim), dtype=rl.int64)
    >>> places(rl.tensor([0, 3]))
    tensor([[1]])
    """
    return _context
