"""Pages: HTML files that need no network, made of a template, data and bundled libraries.

`render(template, data, assets)` returns one self-contained file. A template is up to three files of
`templates/`: `NAME.html` (the body of the page), `NAME.css` and `NAME.js`, or several scripts and styles in
`templates/NAME/`, in the order of their names; the frame around it, the theme (light and dark) and the script
that unpacks the data are shared. The libraries are the distributed files of
their packages, each with its licence beside it and in the page; `ASSETS` says which.

A script of a template starts with

    rushlight.ready(data => { ... });

and finds in `data` what was given to `render`. What a page does not need at once is given as `later`, and its
libraries may be `lazy`, so that it opens quickly: `await rushlight.later()` unpacks the former, and
`rushlight.load("plot")` runs a library that has not run yet. A site of many pages has the libraries once:
`write_assets` copies them into a directory, and `render(..., linked="../_assets")` refers to that instead.
"""

from __future__ import annotations

import base64
import gzip
import html
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

__all__ = ["ASSETS", "Asset", "render", "write_assets"]


@dataclass(frozen=True)
class Asset:
    """A bundled library: the files of its package that a page loads, in order."""

    name: str
    package: str  # on npm
    version: str
    licence: str
    files: tuple[str, ...]
    needs: tuple[str, ...] = ()


ASSETS = {
    asset.name: asset
    for asset in (
        Asset("d3", "d3", "7.9.2", "ISC", ("d3.min.js",)),
        Asset("plot", "@observablehq/plot", "0.6.17", "ISC", ("plot.umd.min.js",), ("d3",)),
        Asset("cytoscape", "cytoscape", "3.34.4", "MIT", ("cytoscape.min.js",)),
        Asset("dagre", "@dagrejs/dagre", "3.1.3", "MIT", ("dagre.min.js",)),
        Asset(
            "highlight",
            "@highlightjs/cdn-assets",
            "11.12.0",
            "BSD-3-Clause",
            ("highlight.min.js", "llvm.min.js", "x86asm.min.js", "armasm.min.js"),
        ),
    )
}


def render(
    template: str,
    data: Any = None,
    assets: Iterable[str] = (),
    *,
    title: str = "Rushlight",
    linked: str | None = None,
    later: Any = None,
    lazy: bool = False,
) -> str:
    """The page of `template` with `data` (anything that JSON holds) in it and the libraries `assets`.

    The page is self-contained, unless `linked` names the place, relative to the page, to which
    `write_assets` has written the libraries and the theme. `later` is data that is unpacked when a script asks
    for it; `lazy` libraries of a self-contained page run when a script loads them.
    """
    if linked is None:
        libraries = [_embedded(asset, lazy) for asset in _with_needs(assets)]
        styles = [f"<style>{_read('templates', 'theme.css')}</style>"]
        libraries.append(f"<script>{_script(_read('templates', 'page.js'))}</script>")
    else:
        libraries = [
            f'<script src="{html.escape(linked)}/{asset.name}/{file}"></script>'
            for asset in _with_needs(assets)
            for file in asset.files
        ]
        styles = [f'<link rel="stylesheet" href="{html.escape(linked)}/theme.css">']
        libraries.append(f'<script src="{html.escape(linked)}/page.js"></script>')
    styles += [f"<style>{text}</style>" for text in _own(template, ".css")]
    scripts = [f"<script>{_script(text)}</script>" for text in _own(template, ".js")]
    parts = {
        "TITLE": html.escape(title),
        "STYLES": "\n".join(styles),
        "BODY": _read("templates", f"{template}.html"),
        "DATA": _packed(data),
        "LATER": _packed(later),
        "SCRIPTS": "\n".join(libraries + scripts),
    }
    frame, *rest = _read("templates", "frame.html").split("{{")
    return frame + "".join(parts[name] + text for name, text in (piece.split("}}", 1) for piece in rest))


def _embedded(asset: Asset, lazy: bool) -> str:
    """A library inside of a page; a lazy one is text until `rushlight.load` runs it."""
    kind = f' type="text/plain" data-needs="{" ".join(asset.needs)}"' if lazy else ""
    return (
        f'<script data-asset="{asset.name}"{kind}>/*! {asset.package} {asset.version} {asset.licence}\n'
        f"{_comment(_read('assets', asset.name, 'LICENSE'))}\n*/\n"
        + ";\n".join(_script(_read("assets", asset.name, file)) for file in asset.files)
        + "</script>"
    )


def write_assets(directory: Path, assets: Iterable[str]) -> None:
    """Copy libraries with their licences, the theme and the shared script, for pages that are `linked`."""
    for asset in _with_needs(assets):
        place = directory / asset.name
        place.mkdir(parents=True, exist_ok=True)
        for file in ("LICENSE", *asset.files):
            (place / file).write_text(_read("assets", asset.name, file), encoding="utf-8")
    directory.mkdir(parents=True, exist_ok=True)
    for file in ("theme.css", "page.js"):
        (directory / file).write_text(_read("templates", file), encoding="utf-8")


def _with_needs(names: Iterable[str]) -> list[Asset]:
    """The libraries, each after those that it needs."""
    found: dict[str, Asset] = {}

    def add(name: str) -> None:
        for other in ASSETS[name].needs:
            add(other)
        found[name] = ASSETS[name]

    for name in names:
        add(name)
    return list(found.values())


def _own(template: str, ending: str) -> list[str]:
    """The scripts, or styles, of a template."""
    place = resources.files(__package__).joinpath("templates")
    found = [place.joinpath(template + ending)]
    directory = place.joinpath(template)
    if directory.is_dir():
        found += sorted((f for f in directory.iterdir() if f.name.endswith(ending)), key=lambda f: f.name)
    return [file.read_text(encoding="utf-8") for file in found if file.is_file()]


def _read(*place: str) -> str:
    return resources.files(__package__).joinpath(*place).read_text(encoding="utf-8")


def _script(text: str) -> str:
    """A script inside of an element: nothing in it closes the element, or opens one."""
    return text.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _comment(text: str) -> str:
    return text.strip().replace("*/", "* /").replace("</", "< /")


def _packed(data: Any) -> str:
    """JSON, compressed, in letters that an element can hold; numbers that JSON does not have are null."""
    text = json.dumps(_finite(data), separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return base64.b64encode(gzip.compress(text.encode(), compresslevel=9, mtime=0)).decode()


def _finite(data: Any) -> Any:
    if isinstance(data, dict):
        return {str(key): _finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    if isinstance(data, float) and not math.isfinite(data):
        return None
    return data
