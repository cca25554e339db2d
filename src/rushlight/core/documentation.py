"""Docstrings of the public functions that are made from the registry.

`documentation/FAMILY.txt` has a section for each name: a heading `## name`, what it does in a sentence, and an
example as in a Python session, with what it prints. Nothing is read before somebody asks for a docstring.
`python -m rushlight.cli.documentation` runs the examples and writes what they print.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from .registry import INPLACE, INPLACE_METHOD, METHOD, OUT, OpDef

if TYPE_CHECKING:
    from pathlib import Path

    from .resolve import Packet


class Section(NamedTuple):
    """What is written about one public name."""

    text: str
    example: str  # of a Python session, with >>> and what is printed


def folder() -> Path:
    """Where the texts are."""
    from pathlib import Path

    return Path(__file__).parents[1] / "documentation"


def read_sections(text: str) -> dict[str, Section]:
    """The sections of one file, by name."""
    found = {}
    for part in re.split(r"^## ", text, flags=re.M)[1:]:
        name, _, body = part.partition("\n")
        sentence, mark, example = body.partition(">>>")
        found[name.strip()] = Section(sentence.strip(), (mark + example).strip())
    return found


@functools.cache
def sections() -> dict[str, Section]:
    """Everything that is written, by public name: `sin`, `special.erfcx`, `Tensor.view`."""
    found: dict[str, Section] = {}
    for path in sorted(folder().glob("*.txt")):
        found.update(read_sections(path.read_text(encoding="utf-8")))
    return found


def key_of(packet: Packet) -> str:
    """The name under which a public function or method is described."""
    namespace = packet.__module__.removeprefix("rushlight").removeprefix(".")
    return f"{namespace}.{packet.__qualname__}" if namespace else packet.__qualname__


def section_of(packet: Packet) -> Section | None:
    """What is written about a public name; a method that differs from the function may share its section."""
    key = key_of(packet)
    return sections().get(key) or sections().get(key.removeprefix("Tensor."))


def describe(packet: Packet) -> str:
    """The docstring of a public function: what it does, its signatures, forms and dtypes, and an example."""
    section = section_of(packet) or Section("An operator of the registry, under the name it has in ATen.", "")
    signatures = [str(op.schema) for op in packet.overloads]
    parts = [
        section.text,
        "\n".join(f"    {line}" for line in signatures),
        _facts(packet.overloads, inplace=packet.inplace),
        section.example,
    ]
    return "\n\n".join(part for part in parts if part)


def _facts(overloads: Sequence[OpDef], *, inplace: bool) -> str:
    """In a line: the other forms it has, and how dtypes are promoted."""
    name = overloads[0].public_name
    forms = [f"`x.{name}(...)`"] if any(op.api & METHOD for op in overloads) else []
    if any(op.api & (INPLACE | INPLACE_METHOD) for op in overloads):
        forms.append(f"`x.{name}_(...)` in place")
    if any(op.api & OUT for op in overloads):
        forms.append("`out=`")
    said = [] if inplace or not forms else [f"Forms: {', '.join(forms)}."]
    promotion = next((op.promote for op in overloads if op.promote is not None), None)
    if promotion is not None:
        said.append(f"Dtypes: {promotion.value}.")
    return " ".join(said)
