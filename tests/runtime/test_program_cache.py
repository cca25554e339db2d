"""Compiled programs on disk: found again by another process, never trusted when damaged."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

import rushlight as rl
from rushlight.capture.partition import extract
from rushlight.capture.program import capture_call
from rushlight.compiler import pipeline
from rushlight.compiler.program_cache import program_key
from rushlight.runtime.known_programs import pack, unpack

PROGRAM = """
import rushlight as rl
f = rl.compile(lambda x, w: ((x @ w).softmax(1) + rl.rand(3)).sort(1)[0], fullgraph=True)
rl.manual_seed(0)
x, w = rl.ones(4, 5) / 3, rl.arange(15.).view(5, 3)
print(f(x, w).tolist())
specialization, = next(iter(f.specializations.values()))
print("lower" in specialization.artifact.seconds)
"""


def run(directory: Path) -> list[str]:
    environment = {**os.environ, "RUSHLIGHT_CACHE_DIR": str(directory)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def test_another_process_finds_it(tmp_path: Path) -> None:
    first, second = run(tmp_path), run(tmp_path)
    assert first[0] == second[0]
    assert (first[1], second[1]) == ("True", "False")
    files = sorted(tmp_path.glob("*.o.rl"))
    assert files
    assert all(file.stat().st_mode & 0o077 == 0 for file in files)
    for file in files:
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 1
        file.write_bytes(bytes(data))
    assert run(tmp_path) == [first[0], "True"]


def graph_of(program, *args):
    call = capture_call(program, args, {})
    return extract(call.graph, list(call.graph.inputs), list(call.graph.outputs))


def test_keys_tell_graphs_apart() -> None:
    x = rl.ones(3, 4)
    programs = [
        lambda x: x + 1,
        lambda x: x + 1.0,
        lambda x: x + True,
        lambda x: x * 0.0,
        lambda x: x * -0.0,
        lambda x: x.sum(0),
        lambda x: x.sum(1),
        lambda x: x.t() + 1,
        lambda x: x.double(),
        lambda x: x.half(),
    ]
    keys = [program_key(graph_of(program, x), None) for program in programs]
    keys += [
        program_key(graph_of(programs[0], rl.ones(4, 3)), None),
        program_key(graph_of(programs[0], x.t()), None),
        program_key(graph_of(programs[0], x.double()), None),
    ]
    assert None not in keys
    assert len(set(keys)) == len(keys)
    assert program_key(graph_of(programs[0], x), None) == keys[0]


def test_description_is_plain_data() -> None:
    description = {"segments": ["entry0", {"node": 1}], "inputs": [2, None]}
    assert unpack(pack(description, b"code")) == (description, b"code")


def test_equal_graphs_are_compiled_once(monkeypatch) -> None:
    made = []
    original = pipeline.link
    monkeypatch.setattr(pipeline, "link", lambda *args: made.append(1) or original(*args))
    x = rl.from_numpy(np.full((5, 7), 0.125, np.float32))
    factor = 0.7310584 + np.random.default_rng().random()  # not in the cache on disk
    first = rl.compile(lambda x: x * float(factor) + 2)(x)
    second = rl.compile(lambda y: y * float(factor) + 2)(x)
    assert first.tolist() == second.tolist()
    assert len(made) == 1


def test_the_stages_of_a_cached_program_can_be_seen(monkeypatch) -> None:
    x = rl.ones(6, 7)
    functions = [rl.compile(lambda x: x.softmax(1) * 3) for _ in range(2)]
    for function in functions:
        function(x)
    (specialization,) = next(iter(functions[1].specializations.values()))
    assert "lower" not in specialization.artifact.seconds
    assert len(specialization.artifact.schedule.steps) == 1
    assert "define" in specialization.artifact.module.text
