"""The atlas in a browser: search, plots, dark theme, no error in the console."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rushlight import atlas

NAMES = ["sigmoid", "sin", "sinh", "cumsum", "_softmax", "special_bessel_j0"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("atlas")
    assert atlas.write(folder, NAMES) == len(NAMES)
    return folder


def test_search_finds_names_and_words(site: Path, visit: Callable[..., Any]) -> None:
    page = visit(site / "index.html")
    assert page.locator("#list li").count() == len(NAMES)
    page.keyboard.press("/")
    page.keyboard.type("sin")
    assert page.locator("#list .name").all_text_contents()[:2] == ["sin", "sinh"]
    page.locator("#search").fill("running sum")
    assert page.locator("#list .name").all_text_contents() == ["cumsum"]
    assert page.locator("#count").inner_text() == f"1 of {len(NAMES)}"
    page.locator("#search").press("Enter")
    page.wait_for_selector("body.ready", state="attached")
    assert page.locator("#name").inner_text() == "cumsum"
    page.locator("#home").click()
    page.wait_for_selector("#list li")


def test_families_can_be_chosen(site: Path, visit: Callable[..., Any]) -> None:
    page = visit(site / "index.html")
    page.locator("#family").select_option("special")
    assert page.locator("#list .name").all_text_contents() == ["special_bessel_j0"]


def test_a_function_is_drawn_with_its_derivatives(site: Path, visit: Callable[..., Any]) -> None:
    page = visit(site / "operators" / "sigmoid.html")
    assert page.locator("#curve svg g[aria-label=line]").count() == 3
    assert page.locator("#curve .key").count() == 3
    text = page.locator("main").inner_text()
    said_of_conformance = ("Conformance by variant and dtype", "bwd", "bfloat16")
    for said in (
        "exp(-x)", 'derivative("sigmoid"', "for i0 in 1024", "worst, ulp", "against torch", *said_of_conformance
    ):  # fmt: skip
        assert said in text
    assert page.locator("a.place").first.get_attribute("href").endswith(".py")


def test_the_theme_changes_the_plot(site: Path, visit: Callable[..., Any]) -> None:
    page = visit(site / "operators" / "sin.html", dark=True)

    def seen() -> tuple[str, str]:
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        line = page.locator("#curve svg g[aria-label=line] path").first
        return background, line.evaluate("path => getComputedStyle(path).stroke")

    dark = seen()
    page.keyboard.press("t")
    light = seen()
    assert dark[0] != light[0] and dark[1] != light[1]


def test_pages_fit_a_phone(site: Path, visit: Callable[..., Any]) -> None:
    for path in (site / "index.html", site / "operators" / "sigmoid.html"):
        page = visit(path, width=390)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
