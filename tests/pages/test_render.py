"""A page is one file that holds its data and its libraries, with their licences."""

from __future__ import annotations

import base64
import gzip
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from rushlight import pages

VOID = ("meta", "link", "input", "br", "img")
HOLE = re.compile(r"""(?:src|href)=["'](?!data:)([^"']*)""")


class Elements(HTMLParser):
    """Which elements are left open, and what the page refers to."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.refers: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        self.refers += [
            value
            for name, value in attrs
            if name in ("src", "href") and value and not value.startswith(("data:", "#"))
        ]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def data_of(page: str) -> Any:
    found = re.search(r'id="rushlight-data">([^<]*)<', page)
    assert found
    return json.loads(gzip.decompress(base64.b64decode(found[1])))


def test_the_page_holds_data_that_would_close_an_element() -> None:
    data = {"text": "</script><!-- é", "numbers": [1, 2.5, float("nan"), float("inf")], "pair": (1, None)}
    page = pages.render("plain", data, title="a < b")
    assert data_of(page) == {"text": "</script><!-- é", "numbers": [1, 2.5, None, None], "pair": [1, None]}
    assert "<title>a &lt; b</title>" in page


def test_a_page_refers_to_nothing_outside() -> None:
    page = pages.render("plain", None, pages.ASSETS)
    parser = Elements()
    parser.feed(page)
    parser.close()
    assert parser.open == [] and parser.refers == []
    for asset in pages.ASSETS.values():
        assert f"{asset.package} {asset.version} {asset.licence}" in page


def test_needed_libraries_come_first() -> None:
    page = pages.render("plain", None, ["plot"])
    assert page.index('data-asset="d3"') < page.index('data-asset="plot"')


def test_a_site_has_the_libraries_once(tmp_path: Path) -> None:
    pages.write_assets(tmp_path / "_assets", ["plot"])
    page = pages.render("plain", [1], ["plot"], linked="_assets")
    assert len(page) < 20_000
    places = HOLE.findall(page)
    assert places
    assert all((tmp_path / place).is_file() for place in places)
    assert (tmp_path / "_assets/d3/LICENSE").read_text().strip()


def test_every_library_says_its_licence() -> None:
    place = Path(pages.__file__).parent / "assets"
    assert {path.name for path in place.iterdir()} == set(pages.ASSETS)
    for asset in pages.ASSETS.values():
        assert {path.name for path in (place / asset.name).iterdir()} == {*asset.files, "LICENSE"}


def test_a_browser_unpacks_the_data_and_loads_every_library(visit: Any, tmp_path: Path) -> None:
    page = pages.render("plain", {"text": "</script> é"}, pages.ASSETS)
    script = "<script>rushlight.ready(data => { main.textContent = data.text; })</script></body>"
    (tmp_path / "page.html").write_text(page.replace("</body>", script), encoding="utf-8")
    shown = visit(tmp_path / "page.html")
    assert shown.text_content("#main") == "</script> é"
    assert shown.evaluate("[d3, Plot, cytoscape, dagre, hljs].every(library => library)")
    assert shown.evaluate("rushlight.dark()") is False
    shown.keyboard.press("t")
    assert shown.evaluate("rushlight.dark()") is True
