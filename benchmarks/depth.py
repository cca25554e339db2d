"""How the time of a compilation grows with the depth of a model: training steps of GPTs of equal layers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from compiled import first_call
from timing import OURS, Row
from training import gpt, tensor, texts, training_step

DEEP, DEPTHS = 32, (8, 2)  # layers
BAR = 2.5  # the time of the deep one over that of two layers
WIDTH, CONTEXT, TEXTS = 64, 64, 2


def training_call(layers: int) -> Callable[[], Any]:
    """A call of a compiled training step of a new model, which has not run yet."""
    step = training_step(OURS, *gpt(layers, CONTEXT, WIDTH))
    text, target = (tensor(OURS, array) for array in texts(CONTEXT, TEXTS))
    return lambda: step(text, target)


def depth_row(name: str, quick: bool) -> Row:
    """The first call of a deep model beyond the next ones, against that of shallow ones; nothing is cached."""
    contestants: dict[str, Any] = {OURS: first_call(functools.partial(training_call, DEEP))}
    for layers in DEPTHS:
        contestants[f"{layers} layers"] = first_call(functools.partial(training_call, layers))
    return Row(name, contestants, {"2 layers": BAR}, 1 if quick else 6)
