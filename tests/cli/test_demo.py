"""Every stop of the tour runs and prints something."""

from __future__ import annotations

import pytest

from rushlight.cli.demo import STOPS
from rushlight.cli.main import main


@pytest.mark.parametrize("stop", STOPS)
def test_stop(stop, capsys):
    assert main(["demo", stop]) == 0
    assert "tensor(" in capsys.readouterr().out
