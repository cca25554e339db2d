"""Checkpoints of several processes: not available; `rushlight.save` and `load` write and read those of one."""

from ..core.missing import missing_class, missing_function

__all__ = ["FileSystemReader", "FileSystemWriter", "load", "save"]

_WHY = "checkpoints are those of one process: torch.save and torch.load"
FileSystemReader, FileSystemWriter = (
    missing_class("distributed.checkpoint", name, _WHY) for name in ("FileSystemReader", "FileSystemWriter")
)
save, load = (missing_function("distributed.checkpoint", name, _WHY) for name in ("save", "load"))
