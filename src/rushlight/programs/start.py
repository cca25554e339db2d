"""A script or a module runs as the main program, as `python script.py` and `python -m module` run it.

`sys.argv`, `sys.path[0]`, the module `__main__` and tracebacks are those that Python makes; what the program
exits with is what the process exits with.
"""

from __future__ import annotations

import io
import os
import runpy
import sys
import zipfile
from collections.abc import Callable, Sequence
from importlib.machinery import SourceFileLoader
from types import ModuleType, TracebackType

_INTERRUPTED = 130


def run_script(path: str, arguments: Sequence[str]) -> int:
    """Run a file, or a directory or archive with a `__main__.py`; gives the exit status."""
    sys.argv = [path, *arguments]
    whole = os.path.join(os.getcwd(), path)
    if os.path.isdir(path) or zipfile.is_zipfile(path):
        if not sys.flags.safe_path:
            del sys.path[0]  # where it is put in the place of what is there now
        return _run(lambda: runpy.run_path(whole, run_name="__main__"))
    _set_first_path(os.path.dirname(os.path.realpath(path)))
    return _run(lambda: _run_file(whole))


def run_module(name: str, arguments: Sequence[str]) -> int:
    """Run a module, or the `__main__` of a package; gives the exit status."""
    sys.argv = [name, *arguments]
    _set_first_path(os.getcwd())
    return _run(lambda: runpy.run_module(name, run_name="__main__", alter_sys=True))


def _set_first_path(directory: str) -> None:
    """Replace what is there for the sake of this command, unless Python was told to put nothing there."""
    if not sys.flags.safe_path:
        sys.path[0] = directory


def _run_file(path: str) -> None:
    main = ModuleType("__main__")
    main.__file__, main.__loader__ = path, SourceFileLoader("__main__", path)
    vars(main).update(__builtins__=sys.modules["builtins"], __annotations__={}, __cached__=None)
    sys.modules["__main__"] = main
    with io.open_code(path) as file:
        code = compile(file.read(), path, "exec", dont_inherit=True)
    exec(code, vars(main))


def _run(program: Callable[[], object]) -> int:
    try:
        program()
    except SystemExit:
        raise
    except BaseException as error:
        trace = _of_program(error.__traceback__)
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        return _INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1
    return 0


def _of_program(trace: TracebackType | None) -> TracebackType | None:
    """A traceback without the frames that have started the program."""
    ours = {__file__, runpy.__file__, "<frozen runpy>"}
    while trace is not None and trace.tb_frame.f_code.co_filename in ours:
        trace = trace.tb_next
    return trace
