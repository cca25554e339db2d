"""The thread that makes kernels: forks, the end of the interpreter, Ctrl-C, and the environment variable."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

BUSY = """
    import os, sys, time
    import rushlight as rl
    from rushlight.eager import calls, worker
    assert rl.eager.get() == "auto"
    calls.WORTH = 0.0  # everything that is met is compiled
    x = rl.randn(50, 60)
    def work():
        for function in (rl.exp, rl.tanh, rl.sin, rl.erf, rl.sigmoid, rl.softmax):
            function(x, 1) if function is rl.softmax else function(x)
    work()
"""


def run(program: str, tmp_path: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"RUSHLIGHT_EAGER": "auto", "RUSHLIGHT_CACHE_DIR": str(tmp_path), **variables}
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(BUSY) + textwrap.dedent(program)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def test_exit_while_kernels_are_made(tmp_path: Path) -> None:
    done = run("print('end')", tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_fork_while_kernels_are_made(tmp_path: Path) -> None:
    done = run(
        """
        child = os.fork()
        expected = [float(x.exp().sum()), float(x.softmax(1).sum())]
        for _ in range(3):
            work()
        assert worker.wait(200)
        work()
        found = [float(x.exp().sum()), float(x.softmax(1).sum())]
        assert all(abs(a - b) < 1e-2 for a, b in zip(expected, found)), (expected, found)
        assert any(c.natives for c in calls._calls.values())
        if child == 0:
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        print("both")
        """,
        tmp_path,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "both\n", "")


def test_ctrl_c_while_kernels_are_made(tmp_path: Path) -> None:
    done = run(
        f"""
        import signal, threading
        signal.signal(signal.SIGINT, signal.default_int_handler)  # where it is ignored, children ignore it, too
        end = time.monotonic() + 100
        threading.Timer(0.2, lambda: os.kill(os.getpid(), {int(signal.SIGINT)})).start()
        try:
            while time.monotonic() < end:
                work()
                time.sleep(0.001)
        except KeyboardInterrupt:
            work()
            print("interrupted")
        """,
        tmp_path,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "interrupted\n", "")


def test_threads_while_kernels_are_made(tmp_path: Path) -> None:
    done = run(
        """
        import threading
        def results():
            return [float(f(x).sum()) for f in (rl.exp, rl.tanh, rl.sin, rl.erf, rl.sigmoid)]
        with rl.eager.use("reference"):
            expected = results()
        wrong = []
        def loop():
            for _ in range(40):
                found = results()
                if not all(abs(a - b) < 1e-2 for a, b in zip(expected, found)):
                    wrong.append(found)
        threads = [threading.Thread(target=loop) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert worker.wait(200)
        loop()
        assert any(c.natives for c in calls._calls.values())
        print(wrong)
        """,
        tmp_path,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_fork_while_a_step_is_compiled(tmp_path: Path) -> None:
    """The programs of an optimizer come in the background; a child makes its own, with the same steps."""
    done = run(
        """
        from rushlight.optim import _native
        _native.WORTH = 0.0
        def train(steps, param, optimizer):
            for _ in range(steps):
                param.grad = param.detach() * 0.5
                optimizer.step()
        def start():
            param = rl.nn.Parameter(rl.linspace(-1, 1, 30).view(5, 6))
            return param, rl.optim.Adam([param], lr=0.1)
        with rl.eager.use("reference"):
            expected, optimizer = start()
            train(9, expected, optimizer)
        param, optimizer = start()
        train(3, param, optimizer)
        child = os.fork()
        train(3, param, optimizer)
        assert worker.wait(200)
        train(3, param, optimizer)
        assert [k._program is not None for k in optimizer._native._kinds.values()] == [True]
        rl.testing.assert_close(param, expected)
        if child == 0:
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        print("both")
        """,
        tmp_path,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "both\n", "")


def test_modes_of_the_environment(tmp_path: Path) -> None:
    program = """
import rushlight as rl
from rushlight.eager import calls
rl.ones(3) + 1
print(rl.eager.get(), sum(len(c.natives) for c in calls._calls.values()))
"""
    for mode, expected in (
        ("reference", "reference 0\n"),
        ("native", "native 1\n"),
        ("auto", "auto 0\n"),
        ("", "reference 0\n"),
    ):
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"RUSHLIGHT_EAGER": mode, "RUSHLIGHT_CACHE_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout == expected
    failed = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"RUSHLIGHT_EAGER": "quick"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert failed.returncode
    assert "RUSHLIGHT_EAGER must be one of auto, native, reference, but it is 'quick'" in failed.stderr
