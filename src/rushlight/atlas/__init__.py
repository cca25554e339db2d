"""The atlas: a page for every registered operator, made from the registry and measured data.

`operators()` groups overloads by name, `facts(name)` collects what a page shows, `write(folder)` makes the site.
Accuracy and speed are measured by `python -m rushlight.atlas.measure` and kept in `measured.json`.
"""

from __future__ import annotations

from .collect import facts, operators
from .site import one_page, write

__all__ = ["facts", "one_page", "operators", "write"]
