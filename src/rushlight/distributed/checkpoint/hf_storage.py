"""Checkpoints in the layout of Hugging Face's hub: not available. `filesystem` has the files that there are."""

from ...core.missing import missing_class

__all__ = ["HuggingFaceStorageReader", "HuggingFaceStorageWriter"]

HuggingFaceStorageReader, HuggingFaceStorageWriter = (
    missing_class("distributed.checkpoint.hf_storage", name, "save(dcp) writes files of its own layout")
    for name in __all__
)
