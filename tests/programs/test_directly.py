"""Models of Hugging Face's transformers under `rushlight run`: logits, gradients and text are PyTorch's."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("transformers") is None, reason="needs transformers, of the extra `programs`"
)
PROGRAM = Path(__file__).parent / "directly.py"


def printed(*command: str) -> dict[str, Any]:
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, timeout=550, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    if "run" in command:
        found["report"] = done.stderr
    return found


def check(*names: str) -> None:
    wanted = printed(str(PROGRAM), *names)
    found = printed("-m", "rushlight", "run", "--report", str(PROGRAM), *names)
    report = found.pop("report")
    assert "compiled, " in report, report
    for name in names:
        assert found[name].get("text") == wanted[name].get("text")
        assert found[name]["loss"] == pytest.approx(wanted[name]["loss"], rel=1e-5)
        assert flat(found[name]["logits"]) == pytest.approx(flat(wanted[name]["logits"]), rel=1e-4, abs=1e-5)
        assert found[name]["gradients"] == pytest.approx(wanted[name]["gradients"], rel=1e-4, abs=1e-5)


def flat(values: Any) -> list[float]:
    return [number for part in values for number in flat(part)] if isinstance(values, list) else [values]


def test_language_models() -> None:
    check("gpt2", "llama", "bert", "t5")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["vit", "mamba", "whisper", "clip", "qwen", "gemma", "mixtral"])
def test_others(name: str) -> None:
    check(name)
