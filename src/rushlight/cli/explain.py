"""`rushlight explain`: runs a program, and writes the page of a function that it compiles or calls."""

from __future__ import annotations

import argparse
import os
import sys
import webbrowser
from pathlib import Path
from types import FrameType, MethodType
from typing import Any

import rushlight
from rushlight.cli.main import UsageError
from rushlight.compiler.function import CompiledFunction
from rushlight.programs.redirect import as_torch
from rushlight.programs.start import run_script


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--function",
        metavar="NAME",
        help="which one, compiled or not; without it, the compiled function that is called most",
    )
    parser.add_argument("--out", type=Path, help="where the page goes (default: NAME.html)")
    parser.add_argument(
        "--no-measure", action="store_true", help="do not call the function once more to measure it"
    )
    parser.add_argument("--calls", type=int, default=10, help="that are measured (default: 10)")
    parser.add_argument("--open", action="store_true", help="show the page in a browser")
    parser.add_argument("program", metavar="SCRIPT", help="a Python file that uses rushlight or torch")
    parser.add_argument("arguments", metavar="...", nargs=argparse.REMAINDER, help="arguments of the program")


class Watch:
    """The calls that a program makes: of compiled functions, and of the plain function `name`."""

    def __init__(self, name: str | None) -> None:
        self.name = name
        self.compiled: dict[CompiledFunction, list[Any]] = {}  # how often each was called, and with what
        self.plain: tuple[Any, tuple[Any, ...], dict[str, Any]] | None = None

    def __enter__(self) -> Watch:
        self._call = call = CompiledFunction.__call__

        def watched(function: CompiledFunction, *args: Any, **kwargs: Any) -> Any:
            seen = self.compiled.setdefault(function, [0, args, kwargs])
            seen[0] += 1
            return call(function, *args, **kwargs)

        setattr(CompiledFunction, "__call__", watched)  # noqa: B010  a method, for as long as the program runs
        if self.name is not None:
            sys.setprofile(self._meet)
        return self

    def __exit__(self, *exception: object) -> None:
        sys.setprofile(None)
        setattr(CompiledFunction, "__call__", self._call)  # noqa: B010

    def _meet(self, frame: FrameType, event: str, _: Any) -> None:
        """The first call of the plain function: what it is called with."""
        code = frame.f_code
        if event != "call" or self.name not in (code.co_name, code.co_qualname):
            return
        sys.setprofile(None)
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        given = dict(frame.f_locals)
        function = frame.f_globals.get(code.co_name)
        values = [given[name] for name in names[: code.co_argcount]]
        if getattr(function, "__code__", None) is not code and names[:1] == ("self",):
            found: Any = getattr(type(values[0]), code.co_name, None)
            if getattr(found, "__code__", None) is code:
                function, values = MethodType(found, values[0]), values[1:]
        if getattr(getattr(function, "__func__", function), "__code__", None) is code:
            self.plain = function, tuple(values), {name: given[name] for name in names[code.co_argcount :]}

    def chosen(self) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        """What the page is of: a function and the arguments of a call."""
        found = {
            function: seen
            for function, seen in self.compiled.items()
            if self.name in (None, *_names(function.function))
        }
        if found:
            function = max(found, key=lambda one: found[one][0])
            return function, found[function][1], found[function][2]
        if self.plain is not None:
            return self.plain
        names = sorted({_names(function.function)[-1] for function in self.compiled})
        known = f"; compiled functions that it calls: {', '.join(names)}" if names else ""
        if self.name is None:
            raise UsageError(
                "the program calls no compiled function; name one of its functions by --function"
            )
        raise UsageError(f"the program calls no function {self.name}{known}")


def _names(function: Any) -> list[str]:
    return [getattr(function, name) for name in ("__name__", "__qualname__") if hasattr(function, name)]


def run(options: argparse.Namespace) -> int:
    if not os.path.exists(options.program):
        raise UsageError(f"can't open file {options.program!r}: there is no such file")
    as_torch()
    with Watch(options.function) as watch:
        status = run_script(options.program, options.arguments)
    if status:
        return status
    function, args, kwargs = watch.chosen()
    told = rushlight.explain(function, *args, **kwargs)
    if told.artifacts and not options.no_measure:
        told = told.measured(options.calls)
    place = told.save(options.out or Path(f"{told.name.rpartition('.')[2].strip('<>')}.html"))
    print(f"{place}: {told.name}, {sum(len(p.kernels) for p in told.programs)} kernels")
    if options.open:
        webbrowser.open(place.resolve().as_uri())
    return 0
