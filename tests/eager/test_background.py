"""The thread that makes kernels: forks, the end of the interpreter, Ctrl-C, and the environment variable."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import rushlight as rl
from rushlight.core.registry import REGISTRY
from rushlight.eager import calls

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


LONG = """
    from rushlight.core.giving_up import go_on
    counted = []
    def long():
        counted.append(len(counted))
        end = time.monotonic() + 100
        while time.monotonic() < end and "enough" not in counted:
            go_on()
    worker.submit(long)
    while not counted:
        time.sleep(0.001)
    began = time.monotonic()
"""


def test_the_end_of_a_process_gives_up_what_takes_long(tmp_path: Path) -> None:
    """It waited for minutes, until a kernel of pooling was compiled."""
    program = """
    import atexit
    atexit.unregister(worker._stop)
    atexit.register(lambda: print(time.monotonic() - began < 50))
    atexit.register(worker._stop)  # runs first
    """
    done = run(textwrap.dedent(LONG) + textwrap.dedent(program), tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_begins_what_takes_long_anew(tmp_path: Path) -> None:
    program = """
    child = os.fork()
    assert time.monotonic() - began < 50
    if child == 0:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    while len(counted) < 2:
        time.sleep(0.001)
    counted.append("enough")
    assert worker.wait(200)
    print(counted)
    """
    done = run(textwrap.dedent(LONG) + textwrap.dedent(program), tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[0, 1, 'enough']\n", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_waits_for_work_that_logs(tmp_path: Path) -> None:
    """Each waited for the other: logging holds its lock from before a fork, and was imported after the hooks of
    this library had been registered, which were called behind its own."""
    program = """
    import logging
    from rushlight import logs
    begun = []
    def telling():
        begun.append(time.monotonic())
        while time.monotonic() < begun[0] + 0.1:
            logging.getLogger(f"other.{time.monotonic()}").debug("something")
            logs.logger.cache_clear()
            logs.wanted("passes")
    worker.submit(telling)
    while not begun:
        time.sleep(0.001)
    child = os.fork()
    if child == 0:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert worker.wait(200)
    print("both")
    """
    done = run(textwrap.dedent(program), tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "both\n", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_waits_for_work_that_submits_more(tmp_path: Path) -> None:
    """Each waited for the other: the fork held the queue while it waited for the end of the work."""
    program = """
    begun = []
    def submitting():
        begun.append(time.monotonic())
        while time.monotonic() < begun[0] + 0.1:
            worker.submit(int)
    worker.submit(submitting)
    while not begun:
        time.sleep(0.001)
    child = os.fork()
    if child == 0:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert worker.wait(200)
    print("both")
    """
    done = run(textwrap.dedent(program), tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "both\n", "")


def test_a_kernel_that_takes_too_long_is_given_up(tmp_path: Path) -> None:
    done = run(
        """
        worker.LONGEST = 0.0
        work()
        assert worker.wait(200)
        kinds = [kind for c in calls._calls.values() for kind in c.kinds.values()]
        print(any(kind.refused for kind in kinds), any(kind.kernels for kind in kinds))
        work()
        """,
        tmp_path,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "True False\n", "")


def test_code_that_is_too_long_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pooling to many places is a slice for each of them, and took minutes to compile."""
    monkeypatch.setattr("rushlight.eager.compiling.MOST_NODES", 0)
    monkeypatch.setattr("rushlight.eager.compiling.stored_kernel", lambda op, form, given: None)
    calls.forget()
    x = rl.linspace(0, 1, 30)
    with rl.eager.use("reference"):
        expected = x.acosh()
    with rl.eager.use("native"):
        rl.testing.assert_close(x.acosh(), expected, rtol=0, atol=0, equal_nan=True)
        assert [kind.refused for kind in calls._calls[REGISTRY["acosh"]].kinds.values()] == [True]
    calls.forget()


def test_ranks_of_a_job_run_the_same_kernels() -> None:
    distributed = rl.distributed
    with rl.eager.use("auto"):
        distributed.init_process_group("fake", world_size=2, rank=1)
        try:
            assert rl.eager.get() == "reference"
            with rl.eager.use("native"):
                assert rl.eager.get() == "native"
        finally:
            distributed.destroy_process_group()
        assert rl.eager.get() == "auto"


def test_no_kernel_arrives_while_derivatives_are_checked() -> None:
    """They are compared bit by bit: one that arrived between two calls looked like a random result."""
    seen = []

    def function(x: rl.Tensor) -> rl.Tensor:
        seen.append(rl.eager.get())
        return x.sin()

    with rl.eager.use("auto"):
        x = rl.ones(3, dtype=rl.float64, requires_grad=True)
        assert rl.autograd.gradcheck(function, x)
        assert rl.autograd.gradgradcheck(function, x)
        assert rl.eager.get() == "auto"
    assert set(seen) == {"reference"}


def test_nothing_of_the_process_changes_while_kernels_are_made(tmp_path: Path) -> None:
    """Captures put functions of their own in the place of `print`, clocks and `math`, for all threads to see."""
    done = run(
        """
        import builtins, gc, math, random
        import numpy as np
        clock, finish = time.perf_counter, time.perf_counter() + 200
        def present():
            names = {f"{m.__name__}.{n}": id(v) for m in (builtins, math, time) for n, v in vars(m).items()}
            names |= {f"sys.{n}": id(getattr(sys, n)) for n in ("stdin", "stdout", "stderr", "excepthook")}
            return names | {
                "collector": (gc.isenabled(), gc.get_threshold()),
                "recursion": sys.getrecursionlimit(),
                "trace": (sys.gettrace(), sys.getprofile()),
                "environment": dict(os.environ),
                "errors of NumPy": np.geterr(),
                "random": (random.getstate(), np.random.get_state()[1].tolist(), rl.get_rng_state().tolist()),
                "default": (rl.get_default_dtype(), rl.is_grad_enabled()),
            }
        before, seen, done = present(), set(), False
        while not done and clock() < finish:
            work()
            done = sum(len(c.natives) for c in calls._calls.values()) >= 6
            now = present()
            seen |= {name for name in now if now[name] != before.get(name)}
        for name in sorted(seen):
            print(name)
        print("looked", done)
        """,
        tmp_path,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "looked True\n", "")


def test_tables_that_threads_share(tmp_path: Path) -> None:
    """While kernels are made, other threads compile, define operators, and have all kernels forgotten."""
    done = run(
        """
        import threading
        from rushlight.runtime import known_programs
        known_programs.MOST = 4  # so that programs are dropped all the time
        sys.setswitchinterval(1e-5)
        wrong, finish = [], time.monotonic() + 20
        refuse = calls.CallKind.refuse
        def noted(kind, op, error):
            if type(error).__name__ != "Unsuitable":
                wrong.append((op.name, repr(error)))
            refuse(kind, op, error)
        calls.CallKind.refuse = noted
        def repeat(function):
            def loop():
                number = 0
                try:
                    while time.monotonic() < finish:
                        function(number)
                        number += 1
                except Exception as error:
                    wrong.append((function.__name__, repr(error)))
            return threading.Thread(target=loop)
        def call(number):
            y = rl.ones(3 + number % 40, 5)
            assert rl.equal(y * 2.0 + number, y + y + number)
            assert y.sum(0).tolist() == [3.0 + number % 40] * 5
            work()
        def compile(number):
            assert rl.compile(lambda x: x * number - 1)(rl.ones(4)).tolist() == [number - 1.0] * 4
        library = rl.library.Library("shared", "DEF")
        def define(number):
            library.define(f"twice{number}(Tensor x) -> Tensor")
            library.impl(f"twice{number}", lambda x: x * 2, "CPU")
            assert getattr(rl.ops.shared, f"twice{number}")(rl.ones(2)).tolist() == [2.0, 2.0]
            time.sleep(0.01)
        def forget(number):
            calls.forget()
            assert rl.compiler.reset() is None
            time.sleep(0.3)
        threads = [repeat(f) for f in (call, call, compile, define, forget)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert worker.wait(200)
        for line in wrong:
            print(line)
        """,
        tmp_path,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


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
        ("", "auto 0\n"),
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


def test_an_import_and_an_operator_load_no_compiler() -> None:
    """A process that does little needs little memory: NumPy, the operators, and nothing of native code."""
    program = """
    import sys, threading
    import rushlight as rl
    assert threading.active_count() == 1
    assert not {"logging", "pathlib"} & sys.modules.keys()
    rl.ones(3) + 1
    own = ("compiler", "codegen", "lowering", "capture.program", "eager.kernels", "runtime.engine")
    heavy = ["llvmlite", "scipy", "json", "hashlib", *(f"rushlight.{name}" for name in own)]
    print([name for name in heavy if name in sys.modules], threading.active_count())
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        env=os.environ | {"RUSHLIGHT_EAGER": "auto"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "[] 1\n", "")
