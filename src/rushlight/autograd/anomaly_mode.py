"""Anomaly mode: backward errors point at the line of the forward pass, and NaN gradients are refused."""

from __future__ import annotations

import warnings
from typing import Any

from ..core.modes import MODES


class detect_anomaly:
    """Inside, each recorded operator remembers where it was called.

    >>> with rl.autograd.detect_anomaly():
    ...     rl.is_anomaly_enabled()
    True
    """

    def __init__(self, check_nan: bool = True) -> None:
        self.check_nan = check_nan
        warnings.warn("Anomaly Detection has been enabled: it is slow and meant for debugging.", stacklevel=2)

    def __enter__(self) -> None:
        self._saved = MODES.anomaly, MODES.check_nan
        MODES.anomaly, MODES.check_nan = True, self.check_nan

    def __exit__(self, *exception: Any) -> None:
        MODES.anomaly, MODES.check_nan = self._saved


class set_detect_anomaly:
    """Switch anomaly mode on or off: for good when called, inside when used with `with`.

    >>> with rl.autograd.set_detect_anomaly(True):
    ...     rl.is_anomaly_enabled()
    True
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self._saved = MODES.anomaly, MODES.check_nan
        MODES.anomaly, MODES.check_nan = mode, check_nan

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: Any) -> None:
        MODES.anomaly, MODES.check_nan = self._saved


def is_anomaly_enabled() -> bool:
    """Whether anomaly detection is on.

    >>> rl.is_anomaly_enabled()
    False
    """
    return MODES.anomaly


def is_anomaly_check_nan_enabled() -> bool:
    """Whether anomaly detection looks for NaN.

    >>> rl.is_anomaly_check_nan_enabled()
    True
    """
    return MODES.check_nan
