"""Rushlight as a compiler for PyTorch: `torch.compile(model, backend="rushlight")`.

PyTorch imports this package, through an entry point of the group `torch_dynamo_backends`. It is the only code of
the library that imports torch, and nothing else of the library imports it. docs/torch_backend.md says what users
may expect.

    backend     what torch.compile calls: options, and the graphs of forward and backward (AOTAutograd)
    steps       a graph of PyTorch's as steps: native parts, and operators that PyTorch runs
    translate   a native part as a graph of ours
    libraries   operators of libraries of others
    sizes       PyTorch's symbolic sizes, as symbols of ours and as numbers
    program     a compiled part, over PyTorch's memory
    run         a compiled graph: what is called
"""

from .backend import rushlight

__all__ = ["rushlight"]
