"""Joining the files of `hf_storage`: not available."""

from ...core.missing import missing_function

__all__ = ["consolidate_safetensors_files"]

consolidate_safetensors_files = missing_function(
    "distributed.checkpoint._consolidate_hf_safetensors",
    "consolidate_safetensors_files",
    "there are no such files, see distributed.checkpoint.hf_storage",
)
