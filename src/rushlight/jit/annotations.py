"""Types of scripted functions: not available, since functions are not scripted."""

from ..core.missing import missing_function

__all__ = ["get_signature", "parse_type_line"]

_WHY = "functions are not scripted; inspect.signature tells their types"
get_signature, parse_type_line = (missing_function("jit.annotations", name, _WHY) for name in __all__)
