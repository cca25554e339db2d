"""A part as programs, each for the sizes that its guards admit, run over PyTorch's memory without a copy."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch.fx import GraphModule

from ..compiler.pipeline import compile_graph
from ..core.dtypes import BY_NUMPY
from ..core.garbage import uncollected
from ..core.index_data import guard_from_data
from ..core.shapes import Spec, contiguous_strides
from ..logs import logger
from ..runtime.addressed import EMPTY, AddressedCall
from ..runtime.executable import Executable
from .sizes import Bindings, numbers, symbols_of
from .steps import PartStep
from .translate import Result, TranslatedPart, Translation
from .types import TO_TORCH

MOST_SIZES = 256  # of which what depends on them is kept

new_tensor = torch._C._dynamo.guards._empty_strided_cpu
address_of = torch.Tensor.data_ptr
Tensors = Sequence[torch.Tensor]


class PartProgram:
    """A part compiled for sizes of one kind."""

    def __init__(self, translated: TranslatedPart, *, use_cache: bool) -> None:
        self.translated, self.live = translated, translated.live
        self.executable: Any = None
        if translated.graph.outputs:
            artifact = compile_graph(translated.graph, use_cache=use_cache)
            self.executable = artifact.executable
            named = {dim.name: dim for dim in self.live.sizes}
            self.live.assume([guard_from_data(guard, named) for guard in artifact.guards])
        symbols = self.live.symbols
        self.live.assume(symbols.guards)
        symbols.remembered.clear()
        self.dtypes = [value.dtype.numpy for value in translated.graph.inputs]

    def admits(self, bindings: Bindings) -> bool:
        return not self.live.guarded or self.live.holds(self.live.read(bindings))

    def at(self, bindings: Bindings, part: PartStep, sure: Sequence[bool]) -> PartAtSizes:
        """What runs it for the sizes of a call."""
        values = self.live.read(bindings)
        sizes = self.live.sizes_of(values)
        executable = self.executable
        if executable is not None and not isinstance(executable, Executable):
            executable = executable.at(sizes)
        filled = {
            i: self.live.fill(kind, values)
            for i, kind in enumerate(self.translated.inputs)
            if isinstance(kind, type)
        }
        sized = dict(zip(self.live.sizes, sizes, strict=True))
        return PartAtSizes(self, executable, part, bindings, filled, sized, sure)


class PartAtSizes:
    """A part for the sizes of a call: tensors in, tensors out."""

    def __init__(
        self,
        program: PartProgram,
        executable: Executable | None,
        part: PartStep,
        bindings: Bindings,
        filled: dict[int, np.ndarray],
        sizes: dict[Any, int],
        sure: Sequence[bool],
    ) -> None:
        translated = program.translated
        layouts = [_layout(node.meta["val"], bindings) for node in part.inputs]
        self._lazy = [
            i for i, n in enumerate(part.inputs) if n.meta["val"].is_conj() or n.meta["val"].is_neg()
        ]
        self._unsure = [(i, *layouts[i]) for i in range(len(layouts)) if not sure[i]]
        self._made: list[tuple[Any, Any, torch.dtype]] = []
        self._call: AddressedCall | None = None
        self._writes: list[tuple[int, int]] = []
        if executable is not None:
            self._prepare(program, executable, filled, layouts)
        self._results = [
            self._result(result, node.meta["val"], bindings, sizes, layouts, executable)
            for result, node in zip(translated.results, part.outputs, strict=True)
        ]
        plain = all(how is None and made >= 0 for made, _, how in self._results)
        self._plain = [made for made, _, _ in self._results] if plain else None

    def _prepare(
        self,
        program: PartProgram,
        executable: Executable,
        filled: dict[int, np.ndarray],
        layouts: Sequence[tuple[Any, Any]],
    ) -> None:
        """What a call of the program needs."""
        translated = program.translated
        self._call = AddressedCall(executable, program.dtypes)
        self._keep = filled
        self._taken: list[int] = []  # the inputs whose addresses it takes
        fixed: list[tuple[int, int]] = []  # places among these addresses, and what is there in every call
        for place, i in enumerate(self._call.used):
            given = translated.inputs[i]
            if isinstance(given, type):
                fixed.append((place, filled[i].__array_interface__["data"][0]))
            elif 0 in layouts[given][0]:
                fixed.append((place, EMPTY.__array_interface__["data"][0]))
            else:
                self._taken.append(given)
        self._fixed = fixed
        for output in executable.output_slots:
            strides = output.strides
            steps = (
                contiguous_strides(output.shape)
                if strides is None
                else tuple([step // output.dtype.itemsize for step in strides])
            )
            self._made.append((output.shape, steps, TO_TORCH[BY_NUMPY[output.dtype]]))
        new = [k for k in range(len(translated.graph.outputs)) if k not in executable.updates]
        self._place = {output: k for k, output in enumerate(new)}  # of outputs among the new tensors
        self._writes = [(self._place[k], given) for k, given in translated.writes if k in self._place]

    def _result(
        self,
        result: Result,
        fake: Any,
        bindings: Bindings,
        sizes: dict[Any, int],
        layouts: Sequence[tuple[Any, Any]],
        executable: Executable | None,
    ) -> tuple[int, int, Any]:
        """(number of a new tensor or -1, number of an input, what is made of it if it is not the result)."""
        shape, strides = _layout(fake, bindings)
        if result.kind == "input":
            assert result.spec is not None
            spec = result.spec.sized(sizes)
            same = (
                (shape, strides) == layouts[result.index]
                and not spec.offset
                and not spec.conj
                and not spec.neg
            )
            return -1, result.index, None if same else _view(spec, shape, strides)
        made = self._place[result.index]
        if result.spec is not None:
            return made, -1, _view(result.spec.sized(sizes), shape, strides)
        _, own, dtype = self._made[made]
        if 0 in shape or all(a == b or n == 1 for a, b, n in zip(own, strides, shape, strict=True)):
            self._made[made] = (shape, strides, dtype)  # also strides that no element depends on
        return made, -1, None

    def __call__(self, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        if self._lazy or self._unsure:
            inputs = self._checked(inputs)
        new = [new_tensor(shape, strides, dtype) for shape, strides, dtype in self._made]
        if self._call is not None:
            addresses = [address_of(inputs[i]) for i in self._taken]
            for place, address in self._fixed:
                addresses.insert(place, address)
            self._call(addresses + list(map(address_of, new)))
            for made, given in self._writes:
                inputs[given].copy_(new[made])
        if self._plain is not None:
            return [new[made] for made in self._plain]
        results = []
        for made, given, view in self._results:
            base = new[made] if made >= 0 else inputs[given]
            results.append(base if view is None else view(base))
        return results

    def _checked(self, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        """The inputs with the layouts that the program relies on."""
        inputs = list(inputs)
        for i in self._lazy:
            inputs[i] = inputs[i].resolve_conj().resolve_neg()
        for i, shape, strides in self._unsure:
            given = inputs[i]
            if given.stride() != strides and given.numel():
                inputs[i] = torch.empty_strided(shape, strides, dtype=given.dtype).copy_(given)
        return inputs


def _layout(fake: Any, bindings: Bindings) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return numbers(fake.shape, bindings), numbers(fake.stride(), bindings)


def _view(spec: Spec, shape: Any, strides: Any) -> Callable[[torch.Tensor], torch.Tensor]:
    """What makes the tensor that `spec` describes of the one that it is a view of."""
    offset, conj, neg, dtype = spec.offset, spec.conj, spec.neg, TO_TORCH[spec.dtype]

    def view(base: torch.Tensor) -> torch.Tensor:
        start = base.storage_offset() * base.itemsize // dtype.itemsize + offset
        if base.dtype is dtype:
            found = torch.as_strided(base, shape, strides, start)
        else:
            found = torch.empty(0, dtype=dtype).set_(base.untyped_storage(), start, shape, strides)
        if conj:
            found = found.conj()
        return torch._neg_view(found) if neg else found

    return view


class NativePart:
    """The programs of a part."""

    def __init__(self, module: GraphModule, part: PartStep, *, checks: bool, use_cache: bool) -> None:
        self._module, self._part = module, part
        self._checks, self._use_cache = checks, use_cache
        mentioned = set().union(*(symbols_of(n.meta.get("val")) for n in self._mentioned()))
        self.symbols = sorted(mentioned, key=str)
        # inputs whose strides PyTorch's guards do not vouch for
        self._sure = [n.op != "call_function" and not n.name.startswith("tangents") for n in part.inputs]
        self.programs: list[PartProgram] = []
        self._known: OrderedDict[tuple[Any, ...], PartAtSizes] = OrderedDict()

    def _mentioned(self) -> Any:
        for node in self._part.nodes:
            yield node
            yield from node.all_input_nodes

    def at(self, bindings: Bindings) -> PartAtSizes:
        """What runs the part for the sizes of a call."""
        key = tuple([bindings[symbol] for symbol in self.symbols])
        found = self._known.get(key)
        if found is None:
            own = dict(zip(self.symbols, key, strict=True))
            program = next((p for p in self.programs if p.admits(own)), None) or self._compiled(own)
            found = self._known[key] = program.at(own, self._part, self._sure)
            if len(self._known) > MOST_SIZES:
                self._known.popitem(last=False)
        return found

    @uncollected()
    def _compiled(self, bindings: Bindings) -> PartProgram:
        if self.programs:
            logger("recompile").info("no program for the sizes %s", dict(bindings))
        translated = Translation(self._module, self._part, bindings).run(checks=self._checks)
        program = PartProgram(translated, use_cache=self._use_cache)
        self.programs.append(program)
        return program
