"""The thread pool: every task runs once, from any thread, nested, after a fork and at exit."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import time

import llvmlite.ir as ir
import numpy as np
import pytest

from rushlight.runtime.engine import engine
from rushlight.runtime.threads import ThreadPool

PARALLEL_FOR = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)


def counting_task() -> str:
    """`task(counters, i)`: counters[i] += 1, not atomically: two runs of one task would be seen."""
    module = ir.Module("task")
    i64 = ir.IntType(64)
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [ir.PointerType(), i64]), "task")
    b = ir.IRBuilder(function.append_basic_block())
    place = b.gep(function.args[0], [function.args[1]], source_etype=i64)
    b.store(b.add(b.load(place, typ=i64), i64(1)), place)
    b.ret_void()
    return str(module)


@pytest.fixture(scope="module")
def task():
    library = engine().build(counting_task(), ["task"])
    yield library.addresses["task"]
    del library


@pytest.fixture(params=[1, 2, 5])
def pool(request: pytest.FixtureRequest):
    pool = ThreadPool(request.param)
    yield pool
    pool.close()


def run(pool: ThreadPool, task: int, counters: np.ndarray) -> None:
    PARALLEL_FOR(pool.parallel_for_address)(pool.address, task, counters.ctypes.data, counters.size)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 1000])
def test_each_task_runs_once(pool: ThreadPool, task: int, count: int) -> None:
    counters = np.zeros(count, np.int64)
    for _ in range(300):
        run(pool, task, counters)
    assert (counters == 300).all()


def test_the_caller_runs_the_first_tasks() -> None:
    """One thread has the same part of the data in one job after the other."""

    def run_by(array: int, number: int) -> None:
        ran[number] = threading.get_ident()
        time.sleep(1e-4)

    callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(run_by)
    address = ctypes.cast(callback, ctypes.c_void_p).value
    pool = ThreadPool(2)
    try:
        shared = 0
        for _ in range(20):
            ran = [0] * 50
            PARALLEL_FOR(pool.parallel_for_address)(pool.address, address, None, len(ran))
            mine = [ident == threading.get_ident() for ident in ran]
            assert mine == sorted(mine, reverse=True)
            shared += not all(mine)
        assert shared  # the worker had its share at least once
    finally:
        pool.close()


def test_jobs_from_several_threads(pool: ThreadPool, task: int) -> None:
    arrays = [np.zeros(64, np.int64) for _ in range(4)]

    def work(counters: np.ndarray) -> None:
        for _ in range(200):
            run(pool, task, counters)

    threads = [threading.Thread(target=work, args=(a,)) for a in arrays]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all((a == 200).all() for a in arrays)


def test_resize(task: int) -> None:
    pool = ThreadPool(1)
    counters = np.zeros(100, np.int64)
    for size in (3, 1, 2, 2, 4):
        pool.resize(size)
        run(pool, task, counters)
    assert (counters == 5).all()
    with pytest.raises(RuntimeError, match="positive"):
        pool.resize(0)
    pool.close()


def test_work_goes_on_after_close(task: int) -> None:
    pool = ThreadPool(2)
    pool.close()
    counters = np.zeros(10, np.int64)
    run(pool, task, counters)
    assert (counters == 1).all()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_has_its_own_workers(task: int) -> None:
    pool = ThreadPool(2)
    counters = np.zeros(100, np.int64)
    child = os.fork()
    if child == 0:
        for _ in range(50):
            run(pool, task, counters)
        os._exit(0 if (counters == 50).all() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    run(pool, task, counters)
    assert (counters == 1).all()
    pool.close()


def test_the_interpreter_exits_with_workers_asleep_or_spinning() -> None:
    code = "from rushlight.runtime.threads import pool; pool(); pool().resize(3); print('made')"
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
        )
        assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "made", "")
