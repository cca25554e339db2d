"""Random programs outside of compiled functions: natively they do what NumPy's kernels and Python do.

    python programs_program.py FIRST COUNT

Native calls cannot be taken back, so test_programs.py runs this in a process of its own: every program first on
the reference, then natively, twice, since what was met before takes a shorter way. Values, strides, classes, what
was written to arguments, and gradients are compared.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

import rushlight as rl
from rushlight._api.link import API
from rushlight.runtime import native_dispatch
from rushlight.testing.program_results import assert_same, results, tolerances
from rushlight.testing.programs import Program, draw_program

KINDS: list[dict[str, Any]] = [
    {},
    {"gradients": True},
    {"kind": "arrays"},
    {"kind": "classes"},
    {"kind": "classes", "gradients": True},
    {"kind": "wrappers"},
]


class Known(NamedTuple):
    """A program, what it gave, and its arguments afterwards."""

    number: int
    program: Program
    arguments: list[Any]
    given: Sequence[Any]
    limits: tuple[list[float], list[float]]


def drawn(number: int) -> Program:
    generator = np.random.default_rng(number)
    kind = KINDS[number % len(KINDS)]
    return draw_program(lambda n: int(generator.integers(n)), shortest=3, longest=9, **kind)


def reference(number: int) -> Known:
    program = drawn(number)
    arguments = program.arguments()
    given = program.run(*arguments)
    return Known(number, program, arguments, given, tolerances(program, results(program, given, arguments)))


def check(known: Known) -> None:
    program = known.program
    arguments = program.arguments()
    given = program.run(*arguments)
    results(program, given, arguments)  # differentiates
    compare(program, known.given, given, known.limits[0])
    before, after = [
        [t.grad for t in inputs] if program.gradients else inputs for inputs in (known.arguments, arguments)
    ]
    compare(program, before, after, known.limits[1])


def compare(program: Program, expected: Sequence[Any], actual: Sequence[Any], limits: list[float]) -> None:
    for a, b, limit in zip(expected, actual, limits, strict=True):
        assert type(a) is type(b), (type(a), type(b))
        if a is None:
            continue
        assert_same(a, b, limit, program)
        if isinstance(a, rl.Tensor):
            assert a.requires_grad == b.requires_grad
            if a.layout == rl.strided:
                assert a.stride() == b.stride(), (a.stride(), b.stride())


def main(first: int, count: int) -> None:
    with rl.eager.use("reference"):
        programs = [reference(number) for number in range(first, first + count)]
    assert native_dispatch.install({**API.methods, **API.functions[""]})
    with rl.eager.use("native"):
        for known in programs:
            for turn in ("first", "second"):
                try:
                    check(known)
                except Exception as error:
                    error.add_note(f"program {known.number}, {turn} time:\n{known.program}")
                    raise
    print(f"{len(programs)} programs agree")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
