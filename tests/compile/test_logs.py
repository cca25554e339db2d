"""RUSHLIGHT_LOG and `set_logs`."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from rushlight.logs import TOPICS, set_logs

PROGRAM = (
    "import rushlight as rl\nf = rl.compile(lambda x: x.softmax(0) * 2)\n"
    "f(rl.ones(5)); f(rl.ones(6))\n"
    "rl.compile(lambda x: x + x.sum().item())(rl.ones(2))\n"
    "rl.eager.use('native')\nrl.linalg.qr(rl.ones(2, 2))"  # there is no kernel of it
)


def told(topics: str) -> str:
    environment = {**os.environ, "RUSHLIGHT_LOG": topics, "RUSHLIGHT_CACHE_DIR": ""}
    return subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True
    ).stderr


def test_every_topic() -> None:
    text = told("all")
    for topic in TOPICS:
        assert f"[rushlight.{topic}]" in text, topic
    assert "_softmax" in text
    assert "joined" in text
    assert "define" in text
    assert "argument 0: shape was (5,)" in text
    assert "reads a value" in text
    assert "bytes" in text


def test_chosen_topics_and_unknown_ones() -> None:
    text = told("recompile, nonsense")
    assert "[rushlight.recompile]" in text
    assert "[rushlight.graph]" not in text
    assert "there is no topic nonsense" in text
    assert told("") == ""


def test_set_logs_rejects_unknown_topics() -> None:
    with pytest.raises(ValueError, match="the topics are graph"):
        set_logs("nonsense")
