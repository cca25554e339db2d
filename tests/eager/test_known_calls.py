"""What a program has used is there when it starts again."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from rushlight.core import heap
from rushlight.eager import known_calls
from rushlight.runtime import machine
from rushlight.runtime.engine import engine


def test_what_a_program_used_is_bound_ahead_when_it_starts_again(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent("""
        import sys
        import rushlight as rl
        from rushlight.eager import calls, worker
        calls.WORTH = calls.WORTH_LOOKING = 0.0
        wanted = {"exp", "_softmax", "clone", "add.Scalar", "native_layer_norm", "mm"}
        x = rl.linspace(-1, 1, 3000).view(50, 60)
        a, b = rl.linspace(-1, 1, 20000).view(200, 100), rl.linspace(-1, 1, 28000).view(200, 140)
        def work():
            copied = (x.t() + 1.5).clone(memory_format=rl.contiguous_format)
            # products by one kernel, which is made for other sizes than those that it is bound to first
            products = {id(y): a.t() @ y for y in ((a, b) if "mm" in unbound() else (b, a))}
            return [x.exp(), rl.layer_norm(x, (60,)), x.softmax(1), copied, products[id(a)], products[id(b)]]
        def unbound():
            return wanted - {op.name for op, c in calls._calls.items() if c.kinds and any(
                kind.kernels for kind in c.kinds.values())}
        first = rl.ones(3)  # with which the background begins
        ahead = "1" in sys.argv
        if ahead:
            assert worker.wait(200)
            print(wanted <= {op.name for op, c in calls._calls.items() if c.natives})
            print([len(c.natives) for op, c in calls._calls.items() if op.name == "mm"])
        with rl.eager.use("reference"):
            expected = work()
        for _ in range(4):
            found = work()
            rl.testing.assert_close(found, expected)
            assert worker.wait(200)
        natives = {op.name for op, c in calls._calls.items() if c.natives}
        assert wanted <= natives, natives
        print("rushlight.eager.compiling" in sys.modules)
        """)
    )
    ahead = "True\n[2]\nFalse\n"
    for arguments, expected in ([], "True\n"), (["1"], ahead), (["1"], ahead):
        done = subprocess.run(
            [sys.executable, str(program), *arguments],
            env=os.environ | {"RUSHLIGHT_EAGER": "auto", "RUSHLIGHT_CACHE_DIR": str(tmp_path / "cache")},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, expected, "")
        if arguments:  # all that is needed is in one file as well
            for path in (tmp_path / "cache").iterdir():
                if not path.name.startswith("calls-"):
                    path.unlink()


@pytest.mark.skipif(sys.platform != "linux", reason="advice to Linux")
def test_pages_are_made_for_the_heap_of_the_last_process(tmp_path: Path) -> None:
    """By the third process: the first one compiles, the second one is measured."""
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent("""
        import rushlight as rl
        from rushlight.core import heap
        from rushlight.eager import calls, known_calls, worker
        calls.WORTH = calls.WORTH_LOOKING = 0.0
        made, make_pages = [], heap.make_pages
        heap.make_pages = lambda start, end: made.append(end - start) or make_pages(start, end)
        x = rl.ones(1 << 20)
        kept = [x]
        for _ in range(4):
            kept += [(x.exp() * 2).tanh() for _ in range(3)]
            assert worker.wait(200)
        print(max(made, default=0) >> 20)
        """)
    )
    known = {k: v for k, v in os.environ.items() if k not in heap.SETTINGS}
    found = [
        subprocess.run(
            [sys.executable, str(program), *arguments],
            env=known | {"RUSHLIGHT_EAGER": "auto", "RUSHLIGHT_CACHE_DIR": str(tmp_path / "cache")},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for arguments in ([], [], [], ["another"])
    ]
    assert found[:2] == ["0\n", "0\n"]
    if heap.end_of_heap() and len(os.sched_getaffinity(0)) > 1:
        assert 52 <= int(found[2]) <= 64  # MiB, of 13 results of 4 and what is freed meanwhile
    assert found[3] == "0\n"


def test_workers_expect_nothing() -> None:
    program = f"x {__file__}"
    assert known_calls._stamp(program) is not None or sys.platform != "linux"
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(known_calls._stamp, (program,)) is None


def test_another_machine_expects_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels are taken by the keys that they had: code for a CPU that has more than this one would end the
    process."""
    here = known_calls._version("program")
    assert known_calls._version("program") == here
    for name in ("_cpu", "_library"):
        with monkeypatch.context() as patch:
            patch.setattr(machine, name, lambda: "another")
            assert known_calls._version("program") != here
            patch.setattr(machine, name, lambda: None)
            assert engine().identity() in known_calls._version("program")
