"""The reference of all public names, as pages of Markdown made from their docstrings."""

from __future__ import annotations

import inspect
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rushlight.core.resolve import Packet
from rushlight.testing.public_names import MODULES, docstring, names_of, public_names

LONG = "rushlight"  # the module whose names are listed by family, a page each


def write(folder: Path) -> None:
    """Write a page a module, and an index of them."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    made = public_names()
    pages: dict[str, tuple[str, dict[str, Any]]] = {}
    for module, title in MODULES.items():
        names = {
            f"{module}.{name}": value
            for name, value in names_of(module).items()
            if f"{module}.{name}" in made
        }
        if module == LONG:
            pages |= _by_family(names)
        elif names:
            pages[module.removeprefix("rushlight.")] = (f"{title} (`{module}`)", names)
    for page, (title, names) in pages.items():
        (folder / f"{page}.md").write_text(_page(title, names), encoding="utf-8")
    listing = "\n".join(pages)
    head = (
        f"# Reference\n\nAll {len(made)} public functions and classes, from their docstrings; every example is\n"
        "run by the tests (`tests/test_docstrings.py`). `help(rushlight.sin)` shows the same.\n"
    )
    (folder / "index.md").write_text(
        f"{head}\n```{{toctree}}\n:maxdepth: 1\n\n{listing}\n```\n", encoding="utf-8"
    )


def _by_family(names: dict[str, Any]) -> dict[str, tuple[str, dict[str, Any]]]:
    families: dict[str, dict[str, Any]] = {}
    for name, value in names.items():
        family = value.overloads[0].family if isinstance(value, Packet) else "package"
        families.setdefault(family, {})[name] = value
    titles = {"package": "Tensors, devices and settings"}
    return {
        f"rushlight.{family}": (titles.get(family, f"{family.capitalize()} operators"), families[family])
        for family in sorted(families, key=lambda family: (family != "package", family))
    }


def _page(title: str, names: dict[str, Any]) -> str:
    rows = [
        f"| {{py:obj}}`{name.rpartition('.')[2]} <{name}>` | {_cell(docstring(value))} |"
        for name, value in sorted(names.items())
    ]
    parts = [f"# {title}", "| name | |\n| --- | --- |\n" + "\n".join(rows)]
    parts += [_entry(name, value) for name, value in sorted(names.items())]
    return "\n\n".join(parts) + "\n"


def _cell(text: str) -> str:
    """The first sentence of a docstring, for a table."""
    first = " ".join(text.partition("\n\n")[0].split())
    return first.replace("|", "\\|")


def _entry(name: str, value: Any) -> str:
    kind = "class" if inspect.isclass(value) else "function"
    text, mark, example = docstring(value).partition(">>> ")
    body = text.strip()
    if mark:
        body += f"\n\n```python\n{(mark + example).strip()}\n```"
    return f"````{{py:{kind}}} {name}{_signature(value)}\n\n{body}\n````"


def _signature(value: Any) -> str:
    if isinstance(value, Packet):
        return _of_schema(value)
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return "()"
    return _shown(found.parameters.values())


def _of_schema(packet: Packet) -> str:
    schema = packet.overloads[0].schema
    text = str(schema)
    inner = text[text.index("(") + 1 : text.index(") ->")]
    shown = []
    for argument in re.split(r",\s*(?![^\[(]*[\])])", inner):
        if argument.strip() == "*":
            shown.append("*")
        elif argument.strip():
            shown.append(argument.strip().split(" ", 1)[-1])
    return f"({', '.join(shown)})"


def _shown(parameters: Iterable[inspect.Parameter]) -> str:
    """Names and defaults, without annotations; long defaults are left out."""
    shown, keywords = [], False
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            keywords = True
            shown.append(f"*{parameter.name}")
        elif parameter.kind is parameter.VAR_KEYWORD:
            shown.append(f"**{parameter.name}")
        else:
            if parameter.kind is parameter.KEYWORD_ONLY and not keywords:
                keywords = True
                shown.append("*")
            default = "" if parameter.default is parameter.empty else f"={_default(parameter.default)}"
            shown.append(parameter.name + default)
    return f"({', '.join(shown)})"


def _default(value: Any) -> str:
    text = repr(value)
    return text if re.fullmatch(r"[\w.'\"+-]+|\(\)", text) else "..."
