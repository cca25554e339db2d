"""`python -m rushlight.cli.documentation`: run the examples of documentation/ and write what they print.

The sections of in-place forms follow from those of the functions and are kept in `inplace.txt`; those that do
not follow (the result has another dtype or shape than the tensor that is written) are written by hand.
"""

from __future__ import annotations

import ast
import contextlib
import doctest
import io
import math
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import rushlight
from rushlight._api.link import API
from rushlight.core.documentation import Section, folder, key_of, read_sections

DERIVED = "inplace.txt"


def scope() -> dict[str, Any]:
    """The names that examples use without importing them."""
    libraries = {"rl": rushlight, "nn": rushlight.nn, "F": rushlight.nn.functional, "np": np, "math": math}
    return {"__name__": "example", **libraries}


def transcript(example: str, names: dict[str, Any] | None = None) -> str:
    """An example with what it prints, as a Python session shows it."""
    names = scope() if names is None else names
    lines = []
    for step in doctest.DocTestParser().get_examples(example):
        lines += [
            f"{'>>>' if number == 0 else '...'} {line}".rstrip()
            for number, line in enumerate(step.source.rstrip("\n").split("\n"))
        ]
        with contextlib.redirect_stdout(io.StringIO()) as printed, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(compile(step.source, "<example>", "single"), names)
        lines += [line or "<BLANKLINE>" for line in printed.getvalue().splitlines()]
    return "\n".join(lines)


def in_place(name: str, base: Section) -> Section | None:
    """The section of `name_`, by the example of `name`: the first argument becomes the tensor that is written."""
    steps = doctest.DocTestParser().get_examples(base.example)
    call = ast.parse(steps[0].source).body[0] if len(steps) else None
    if not (isinstance(call, ast.Expr) and isinstance(call.value, ast.Call) and call.value.args):
        return None
    first, rest = call.value.args[0], [*call.value.args[1:], *call.value.keywords]
    short = name.rpartition(".")[2]
    example = f">>> x = {ast.unparse(first)}\n>>> x.{short}_({', '.join(ast.unparse(a) for a in rest)})"
    return Section(f"`{short}` in place: the tensor is written, and given back.", example)


def refresh(path: Path) -> list[str]:
    """Run the examples of a file; returns what failed."""
    text = path.read_text(encoding="utf-8")
    written, failed = [], []
    for name, section in read_sections(text).items():
        try:
            example = transcript(section.example)
        except Exception as error:
            failed.append(f"{path.name}: {name}: {type(error).__name__}: {error}")
            example = section.example
        written.append(f"## {name}\n{section.text}\n{example}\n")
    path.write_text("\n".join(written), encoding="utf-8")
    return failed


def derive() -> list[str]:
    """Write the sections of in-place forms that follow from others; returns the names that need one by hand."""
    known: dict[str, Section] = {}
    for path in folder().glob("*.txt"):
        if path.name != DERIVED:
            known.update(read_sections(path.read_text(encoding="utf-8")))
    written, missing = [], []
    packets = {key_of(p): p for p in [*API.functions[""].values(), *API.methods.values()]}
    for key, packet in packets.items():
        base = key.removesuffix("_")
        if not packet.inplace or key in known or re.search(r"(^|\.)_", key):
            continue
        source = known.get(base) or known.get(base.removeprefix("Tensor."))
        section = in_place(base, source) if source is not None else None
        try:
            example = transcript(section.example) if section is not None else ""
        except Exception:
            example = ""
        if section is None or not example:
            missing.append(key)
        else:
            written.append(f"## {key}\n{section.text}\n{example}\n")
    (folder() / DERIVED).write_text("\n".join(written), encoding="utf-8")
    return missing


if __name__ == "__main__":
    for line in [
        line for path in sorted(folder().glob("*.txt")) if path.name != DERIVED for line in refresh(path)
    ]:
        print(line)
    print("to be written by hand:", " ".join(derive()))
