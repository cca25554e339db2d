"""Running NumPy code without floating-point warnings."""

from __future__ import annotations

import threading
import warnings

import numpy as np
import pytest

from rushlight.core.quiet import quietly


def test_no_warning_inside_and_the_callers_state_afterwards():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert quietly(np.log, np.float32(0)) == -np.inf
        with pytest.raises(RuntimeWarning):
            np.log(np.float32(0))


def test_nested_calls_are_quiet_too():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert quietly(lambda: quietly(np.log, np.float32(0)) + np.log(np.float32(0))) == -np.inf


def test_errors_come_through():
    def refuse():
        raise RuntimeError("ZeroDivisionError")

    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        quietly(refuse)
    assert quietly(np.log, np.float32(0)) == -np.inf


def test_threads_have_their_own_context():
    results = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        inside = threading.Event()
        done = threading.Event()

        def wait_inside():
            inside.set()
            done.wait(10)
            return np.log(np.float32(0))

        thread = threading.Thread(target=lambda: results.append(quietly(wait_inside)))
        thread.start()
        inside.wait(10)
        results.append(quietly(np.log, np.float32(0)))
        done.set()
        thread.join()
    assert results == [-np.inf, -np.inf]
