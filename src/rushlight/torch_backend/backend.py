"""What torch.compile calls: `rushlight(graph module, example inputs, mode=..., options=...)`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from functorch.compile import min_cut_rematerialization_partition
from torch._dynamo.backends.common import aot_autograd
from torch.fx import GraphModule

from .._api.compile import MODES
from .options import OPTIONS, Options
from .run import compiled_function


def rushlight(
    module: GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """Compile a graph of Dynamo's.

    `mode`: PyTorch's names. There is one way to compile here, which every mode means.
    `options`: those of `Options`.
    """
    chosen = checked(mode, options)

    def compiler(backward: bool) -> Callable[..., Any]:
        return lambda graph, _: compiled_function(graph, chosen, backward=backward)

    compiled = aot_autograd(
        fw_compiler=compiler(False),
        bw_compiler=compiler(True),
        inference_compiler=compiler(False),
        partition_fn=min_cut_rematerialization_partition,
        keep_inference_input_mutations=True,
    )
    return compiled(module, example_inputs)


def checked(mode: str | None, options: Mapping[str, Any] | None) -> Options:
    """The options that were asked for. RuntimeError, as torch.compile's own, for those that there are not."""
    if mode is not None and mode not in MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(MODES)}")
    for name, value in (options or {}).items():
        if name not in OPTIONS:
            raise RuntimeError(f"Unexpected optimization option {name}, known options are {list(OPTIONS)}")
        if not isinstance(value, bool):
            raise RuntimeError(f"option {name} must be of type bool, got {value!r}")
    return Options(**(options or {}))
