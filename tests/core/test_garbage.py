"""The collector is held back inside of `uncollected`, and as it was afterwards."""

from __future__ import annotations

import gc

import pytest

from rushlight.core.garbage import collect_again, uncollected


def test_no_collection_inside() -> None:
    with uncollected():
        assert not gc.isenabled()
        with uncollected():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_collection_goes_on_where_it_is_asked_for() -> None:
    with uncollected():
        collect_again()
        assert gc.isenabled()
        with uncollected():
            assert not gc.isenabled()
        assert gc.isenabled()
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with uncollected():
            collect_again()
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_an_error_inside() -> None:
    with pytest.raises(ZeroDivisionError), uncollected():
        _ = 1 // 0
    assert gc.isenabled()
