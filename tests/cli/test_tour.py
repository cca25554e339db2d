"""Every stop of the tour runs and prints something."""

from __future__ import annotations

import pytest

from rushlight.cli.main import main
from rushlight.cli.tour import STOPS


@pytest.mark.parametrize("stop", STOPS)
def test_stop(stop, capsys):
    assert main(["tour", stop]) == 0
    assert "tensor(" in capsys.readouterr().out
