"""What the small examples share: their options, and the line that says what came of them."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence


def options(about: str | None, steps: int) -> argparse.Namespace:
    """`--steps` and `--seed`, as given on the command line."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=steps)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def classify(
    about: str | None, steps: int, run: Callable[..., tuple[Sequence[float], float]], what: str
) -> None:
    """Run an example that learns to classify, and tell how well it does on data not seen."""
    chosen = options(about, steps)
    losses, accuracy = run(chosen.steps, seed=chosen.seed)
    print(f"loss {losses[0]:.3f} at first, {losses[-1]:.3f} at last; {accuracy:.1%} of new {what} right")
