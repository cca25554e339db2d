"""Native kernels for operators outside of compiled functions.

    RUSHLIGHT_EAGER=auto        native kernels when they are there, NumPy's until then (the default)
    RUSHLIGHT_EAGER=native      every call waits for its kernel: results do not depend on when that arrives
    RUSHLIGHT_EAGER=reference   NumPy's kernels alone

`rushlight.eager.use("native")` says the same for what follows, or as a context manager for what is inside.
"""

from . import calls  # noqa: F401  installs itself in dispatch
from .settings import get, use

__all__ = ["get", "use"]
