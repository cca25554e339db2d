"""Where checkpoints lie: a directory that all processes see."""

from __future__ import annotations

import os
from typing import Any

from .manifest import Manifest, read_manifest

__all__ = ["FileSystemReader", "FileSystemWriter"]


class _Directory:
    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)


class FileSystemReader(_Directory):
    """Reads the checkpoint `path`."""

    def read_metadata(self) -> Manifest:
        """The manifest."""
        return read_manifest(self.path)


class FileSystemWriter(_Directory):
    """Writes the checkpoint `path`. Every process writes one file, and all files are synchronized with the disk
    before the checkpoint has its name; what asks for less is refused."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        single_file_per_rank: bool = True,
        sync_files: bool = True,
        overwrite: bool = True,
    ) -> None:
        super().__init__(path)
        if not single_file_per_rank or not sync_files:
            raise NotImplementedError(
                "torch.distributed.checkpoint.FileSystemWriter: single_file_per_rank=False and "
                "sync_files=False are "
                "not available"
            )
        self.overwrite = overwrite


def directory_of(checkpoint_id: Any, storage: Any) -> str:
    """The path that a caller has named, by itself or in a reader or writer."""
    if storage is not None and not isinstance(storage, _Directory):
        raise NotImplementedError(
            f"torch.distributed.checkpoint: a storage of the class {type(storage).__name__}; checkpoints lie in "
            "directories (FileSystemWriter, FileSystemReader)"
        )
    if checkpoint_id is None and storage is None:
        raise ValueError(
            "a checkpoint needs a checkpoint_id, or a storage_writer or storage_reader, that names its path"
        )
    path = os.fspath(checkpoint_id) if storage is None or checkpoint_id is not None else storage.path
    return os.path.abspath(path)
