"""What was registered for operators that programs define, by name."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from . import operators


class SimpleLibraryRegistry:
    """Answers questions about operators."""

    def find(self, qualname: str) -> Any:
        """What is known of an operator: its fake kernel, and where that was written."""
        custom = operators.CUSTOM.get(qualname.removesuffix(".default"))
        kernel = (
            None
            if custom is None or custom.fake is None
            else SimpleNamespace(func=custom.fake, source=custom.fake_source)
        )
        return SimpleNamespace(qualname=qualname, fake_impl=SimpleNamespace(kernel=kernel))


singleton = SimpleLibraryRegistry()
