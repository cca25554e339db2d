"""The default generator: seeding it, and saving and restoring its state."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

from ..core.generator import Generator, default_generator
from ..core.tensor import Tensor

__all__ = [
    "Generator",
    "default_generator",
    "fork_rng",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "seed",
    "set_rng_state",
]


def manual_seed(seed: int) -> Generator:
    """Start the stream of `seed`, an integer in [-2**63, 2**64); returns the default generator.

    >>> _ = rl.manual_seed(0)
    >>> a = rl.rand(2)
    >>> _ = rl.manual_seed(0)
    >>> rl.equal(a, rl.rand(2))
    True
    """
    return default_generator.manual_seed(
        seed if hasattr(seed, "__index__") and not isinstance(seed, bool) else int(seed)
    )


def seed() -> int:
    """Seed with randomness of the operating system; returns the seed.

    >>> rl.seed() == rl.initial_seed()
    True
    """
    return default_generator.seed()


def initial_seed() -> int:
    """The seed of the current stream.

    >>> _ = rl.manual_seed(7)
    >>> rl.initial_seed()
    7
    """
    return default_generator.initial_seed()


def get_rng_state() -> Tensor:
    """The state of the default generator as a tensor of bytes.

    >>> rl.get_rng_state().dtype
    rushlight.uint8
    """
    return default_generator.get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Take over a state from `get_rng_state`.

    >>> state = rl.get_rng_state()
    >>> a = rl.rand(2)
    >>> rl.set_rng_state(state)
    >>> rl.equal(a, rl.rand(2))
    True
    """
    default_generator.set_state(new_state)


@contextlib.contextmanager
def fork_rng(
    devices: Iterable[object] | None = None,
    enabled: bool = True,
    _caller: str = "fork_rng",
    _devices_kw: str = "devices",
    device_type: str = "cuda",
) -> Iterator[None]:
    """Restore the state of the default generator on leaving; there are no other devices to name here.

    >>> with rl.fork_rng():
    ...     _ = rl.manual_seed(0)
    """
    state = get_rng_state() if enabled else None
    try:
        yield
    finally:
        if state is not None:
            set_rng_state(state)
