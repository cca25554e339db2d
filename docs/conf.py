"""The site that `make docs` builds: Sphinx with MyST; reference, plots and atlas are made from the package."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "src")]

import plots  # noqa: E402
import reference  # noqa: E402

from rushlight.version import __version__  # noqa: E402

project, author, copyright = "Rushlight", "the Rushlight authors", "the Rushlight authors"
version = release = __version__
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence", "dollarmath"]
suppress_warnings = ["misc.highlighting_failure"]  # listings that are not quite a language
html_theme = "pydata_sphinx_theme"
html_title = "Rushlight"
html_static_path = ["_static", "_plots"]
html_theme_options = {
    "show_nav_level": 1,
    "navigation_depth": 2,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
}
html_sidebars = {"index": []}
(HERE / "_plots").mkdir(exist_ok=True)
(HERE / "_static").mkdir(exist_ok=True)


def setup(app: Any) -> None:
    """Write the generated pages before Sphinx looks for sources."""
    reference.write(HERE / "api")
    plots.write(HERE / "benchmarks.md", HERE / "_plots")
