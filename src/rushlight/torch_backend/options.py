"""What users may ask of the backend: `torch.compile(model, backend="rushlight", options={...})`."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Options:
    use_cache: bool = True  # use what was compiled before, by this process or on disk
    fallback: bool = True  # let PyTorch run, with a warning, what could not be compiled; else raise the error


OPTIONS = tuple(field.name for field in fields(Options))
