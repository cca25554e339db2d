"""A specialization: one compiled form of a function.

It has the programs of a captured call, the guards that say which calls it serves (compiler/guards.py), what
fills each input of its program, and the path that a call takes through it. compiler/build.py makes it,
compiler/run.py runs it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Literal

from ..capture.captured_call import CapturedCall, Leaf
from ..capture.live_inputs import LiveInputs
from ..capture.random import Draws
from ..capture.references import Captured, GradOf, TensorRef
from ..capture.replay import overwritten
from ..core.pytree import LEAF
from ..runtime.invoke import LocationGuards
from .guards import Aspect, Call, Guard, GuardCheck, difference, native_guards, only_locations
from .native_call import NativeCall
from .pipeline import Artifact

Input = TensorRef | Draws | type  # what fills an input: a tensor, random numbers, live numbers of a type


class CallPath(Enum):
    """How a call of plain tensors runs."""

    NATIVE = "the native callable checks every guard, runs the program and wraps its results"
    NATIVE_AFTER_CHECK = (
        "Python checks the guards on its locations and on attributes, the native callable does the rest"
    )
    NATIVE_WITH_NUMBERS = "Python reads the live numbers, the native callable does the rest, effects included"
    PYTHON = "Python checks the guards, fills the inputs, runs the program and does its effects"


@dataclass
class Specialization:
    """One compiled form of a function."""

    call: CapturedCall
    artifact: Artifact  # the forward program
    backward: Artifact | None
    outputs: int  # how many outputs of the forward program are results; the others are saved for backward
    taken: set[int]  # outputs that are nothing but the new contents of one tensor
    inputs: list[Input]  # what fills each input of the forward program
    kept: list[int] = field(default_factory=list)  # inputs that the backward program uses as they are
    guards: list[Guard] = field(default_factory=list)
    fixed: bool = False  # whether it is one whose sizes change, for one set of them (compiler/at_sizes.py)

    def __post_init__(self) -> None:
        call = self.call
        self.live: LiveInputs = call.live
        self.check = GuardCheck(self.guards)
        self.native_guards: LocationGuards | None = native_guards(self.guards)
        # outputs whose gradients the backward program takes, in its order
        self.differentiated = list(
            dict.fromkeys(leaf.index for leaf in call.all_leaves() if leaf.differentiated)
        )
        # inputs that the program itself writes to, if they are in memory that is reached through them alone
        self.updated = self.artifact.executable.updates
        # what is called with plain arguments, made when it is used again; False: there is none
        self.native_entry: Callable[..., Any] | Literal[False] | None = None
        # that of a program with effects; False: there is none
        self.native_call: NativeCall | Literal[False] | None = None
        self.single = call.structure == LEAF and [leaf.kind for leaf in call.leaves] == ["value"]
        self.path = self._call_path()
        # the tensors of the caller that are always the same, in the order of the inputs
        self.constants = [ref.tensor if isinstance(ref, Captured) else None for ref in self.inputs]
        self.found = [  # inputs that every call looks for
            (i, ref) for i, ref in enumerate(self.inputs) if not isinstance(ref, Captured | Draws | type)
        ]
        self.filled = [i for i, ref in enumerate(self.inputs) if isinstance(ref, Draws | type)]
        self.number_types = [ref for ref in self.inputs if isinstance(ref, type)]
        looked_at = {
            guard.ref.owner
            for guard in self.guards
            if isinstance(guard.ref, GradOf) and guard.aspect is Aspect.PRESENCE
        }
        # tensors whose gradients the program replaces without looking at them
        self.dropped = [target for target, _ in call.gradients if target not in looked_at]
        # (input, output): writes that are not done by the program itself
        self.new_contents = [(source, output) for source, output in call.writes if output not in self.updated]
        self.overwritten = overwritten(call) if self.backward is not None else []
        self.repeated = len({id(leaf) for leaf in call.leaves}) < len(call.leaves)

    def _call_path(self) -> CallPath:
        call = self.call
        kinds = {leaf.kind for leaf in call.leaves}
        # what only Python does: objects other than tensors, random numbers, other classes and modes
        special = (
            call.draws,
            call.deferred,
            call.changes,
            call.replaced,
            call.flags,
            call.stores,
            call.kinds,
            call.inference,
        )
        if (
            self.backward is not None
            or call.grad_mode is not None
            or any(special)
            or self.live.sizes
            or not only_locations(self.guards)
        ):
            return CallPath.PYTHON
        effects = call.writes or call.gradients
        if kinds <= {"value"} and not effects and not self.live.fills and not self.live.guarded:
            native = self.native_guards is not None and not self.check.absent
            return CallPath.NATIVE if native else CallPath.NATIVE_AFTER_CHECK
        if kinds <= {"value", "python"} and self.native_guards is not None and not self.check.absent:
            return CallPath.NATIVE_WITH_NUMBERS
        return CallPath.PYTHON

    def numbers(self, leaves: Sequence[Any]) -> list[Any] | None:
        """The live numbers of a call with the right key that this specialization serves; None for others."""
        native, check = self.native_call, self.check
        captured = native.others if native and native.looks_right() else check.every
        if not check.passes(leaves, captured):
            return None
        numbers = self.live.read(leaves) if self.live.roots else []
        return numbers if not self.live.guarded or self.live.holds(numbers) else None

    def sized(self, leaf: Leaf, sizes: Sequence[int]) -> Leaf:
        """A leaf of the result with numbers in place of sizes that change."""
        if not sizes or leaf.spec is None or leaf.kind == "value":
            return leaf
        return replace(leaf, spec=leaf.spec.sized(dict(zip(self.live.sizes, sizes, strict=True))))

    def difference(self, call: Call) -> str | None:
        """Why this specialization does not serve a call, in words; None if it does."""
        return difference(self.guards, call)
