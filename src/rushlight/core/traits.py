"""What stages may rely on of an operator: traits are said where it is defined, and read by whoever needs them."""

from __future__ import annotations

import enum


class Trait(enum.Flag):
    """Facts about what an operator computes."""

    NONE = 0
    INVOLUTION = enum.auto()  # f(f(x)) is x
    IDEMPOTENT = enum.auto()  # f(f(x)) is f(x)
    EXACT = enum.auto()  # it gives the same bits wherever it is computed
    PRODUCT = enum.auto()  # it multiplies matrices
    RAISES = enum.auto()  # it refuses some values of its arguments
    DIVIDES = enum.auto()  # among integers it refuses a divisor of zero
    GAPS = enum.auto()  # a view that may leave elements out, however many it has
    STORAGE = enum.auto()  # a view that may reach all memory of its source's storage
    # what it makes is sparse, and of the dtype of its first tensor, so that a capture runs it after the graph
    DEFERRED = enum.auto()
    # other processes wait for it: equal calls are not one
    COLLECTIVE = enum.auto()
    NUMBER_AS_TENSOR = enum.auto()  # PyTorch takes its number for a tensor: x * 2 is recorded as x * y
