"""Types that programs write as annotations of scripted functions. Nothing reads them: none are scripted."""

from typing import Any, List  # noqa: UP035  programs import List from here

from ..core.missing import missing_function

_WHY = "functions are not scripted; inspect.signature tells their types"
get_signature = missing_function("jit.annotations", "get_signature", _WHY)
parse_type_line = missing_function("jit.annotations", "parse_type_line", _WHY)

__all__ = [
    "BroadcastingList1",
    "BroadcastingList2",
    "BroadcastingList3",
    "List",
    "get_signature",
    "parse_type_line",
]


class _BroadcastingList:
    """The annotation of a list for which one number may stand: `BroadcastingList2[int]`."""

    def __getitem__(self, types: Any) -> None:
        return None


BroadcastingList1, BroadcastingList2, BroadcastingList3 = (_BroadcastingList() for _ in range(3))
