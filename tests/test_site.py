"""The site of `make docs`: it builds without a warning, and no link inside of it is dead."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
NEEDED = ("sphinx", "myst_parser", "pydata_sphinx_theme", "matplotlib")


class Page(HTMLParser):
    """The links of a page, and the places in it that links can point to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.places.add(value)
            elif name in ("href", "src") and value:
                self.links.append(value)


def dead_links(site: Path) -> Iterator[str]:
    found = [path for path in site.rglob("*.html") if "_static" not in path.relative_to(site).parts]
    pages = {
        path: Page(path.read_text(encoding="utf-8")) for path in found
    }  # templates of the theme are none
    for path, page in pages.items():
        for link in page.links:
            if re.match(r"[a-z]+:|//", link):
                continue
            target, place = urldefrag(link)
            target = target.partition("?")[0]
            there = (path.parent / unquote(target)).resolve() if target else path.resolve()
            if not there.exists():
                yield f"{path.relative_to(site)}: {link}"
            elif place and there in pages and unquote(place) not in pages[there].places:
                yield f"{path.relative_to(site)}: no place {link}"


def test_links_between_pages_of_the_sources() -> None:
    pages = [*DOCS.glob("*.md"), *DOCS.glob("tutorials/*.md"), *ROOT.glob("*.md")]
    made = ("api/", "atlas/", "_plots/")  # by the build
    dead = [
        f"{page.name}: {link}"
        for page in pages
        for link in re.findall(r"\]\(([^)#\s:]+)(?:#[^)]*)?\)", re.sub(r"`[^`]*`", "", page.read_text()))
        if not link.startswith(made) and not (page.parent / link).exists()
    ]
    assert len(pages) > 30
    assert not dead


def test_dead_links_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<a href="b.html#there">b</a> <a href="b.html#gone">c</a> <a href="c.html">d</a>'
    )
    (tmp_path / "b.html").write_text('<p id="there">b</p> <a href="https://example.org">elsewhere</a>')
    (tmp_path / "_static").mkdir()
    (tmp_path / "_static" / "macros.html").write_text('<a href="{{ pathto() }}">a template of the theme</a>')
    assert sorted(dead_links(tmp_path)) == ["a.html: c.html", "a.html: no place b.html#gone"]


@pytest.mark.slow
def test_the_site_builds_without_warnings_or_dead_links(tmp_path: Path) -> None:
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"the extra docs is not installed: {', '.join(missing)}")
    site = tmp_path / "html"
    build = [sys.executable, "-m", "sphinx", "-W", "-n", "--keep-going", "-q", "-b", "html"]
    done = subprocess.run([*build, str(DOCS), str(site)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    dead = [
        link for link in dead_links(site) if "atlas/" not in link
    ]  # `make docs` writes the atlas after this
    assert not dead
