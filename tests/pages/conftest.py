"""A real browser for pages: the system's chromium, driven by playwright."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """One browser for all tests of a process."""
    found = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("no chromium here: apt-get install chromium, or name one in CHROMIUM")
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with sync_api.sync_playwright() as play:
        opened = play.chromium.launch(executable_path=found, args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[..., Any]]:
    """Opens the page in a file and waits until it is ready.

    The test fails where the page wrote an error to the console, raised one, or asked for anything but files.
    """
    wrong: list[str] = []
    contexts = []

    def opened(path: Path, width: int = 1360, height: int = 900, dark: bool = False) -> Any:
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light"
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on(
            "request",
            lambda request: (
                None
                if request.url.startswith(("file:", "data:", "blob:"))
                else wrong.append(f"asked for {request.url}")
            ),
        )
        page.goto(path.resolve().as_uri())
        page.wait_for_selector("body.complete", state="attached")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert wrong == []
