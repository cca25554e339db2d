"""A captured call: its graph, where its inputs come from, and what its outputs are for.

`capture_call(function, args, kwargs)` runs the function once under a `Capture` and returns a `CapturedCall`.
The graph's outputs are, in order: the tensors the call returns that are new, the new contents of the
caller's storages that it wrote to, and
the gradients it left on leaves. Where a returned tensor requires grad, the graph of its gradients is captured
with it (`backward`): the joint graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from ..autograd.edges import current_node
from ..autograd.engine import gradients
from ..autograd.saved import OpNode
from ..autograd.tape import FREED
from ..core.autocast import autocast_off
from ..core.modes import MODES
from ..core.pytree import TreeSpec, flatten
from ..core.registry import REGISTRY
from ..core.shapes import Spec, extent, is_dense, numel
from ..core.tensor import Tensor, shapeless
from ..graph.ir import Graph, Value
from .deferred import LateCall, LateNumber, plain
from .effects import Changes, Contents, StateError, Store, stores_of, undo
from .geometry import Change
from .locations import NOTHING_KNOWN, Environment, Place
from .memory import same_layout, spec_of
from .numbers import LiveInputs, LiveNumber, formula
from .prints import watched
from .random import Draws
from .references import TensorRef
from .results import taken_apart
from .tentative import TentativeCapture
from .trace import Capture, CaptureError, Lifted, user_line


@dataclass(frozen=True)
class Leaf:
    """One leaf of what the call returns."""

    # "value": a new tensor; "view": a view of a new one; "alias": a view of a tensor of the caller; "given":
    # a tensor of the caller itself; "replayed": a view that its operators make again; "number": a live
    # number; "shared": a differentiable view of a new one, made by the operators in `python` or, without
    # any, by its spec; "late": a result of a late call, or of one of its results the one with the number
    # `python`; "python": anything else
    kind: str
    index: int = 0  # of the graph output, of the source, or of the late call
    spec: Spec | None = None
    python: Any = None  # of an alias: the tensor of the caller that it is, if it is one
    requires_grad: bool = False
    given: TensorRef | None = None  # the caller's tensor that was in `python`
    # of a differentiable view: the tensor of the caller; a reference to it, when the call is compiled
    of: Any = None

    @property
    def differentiated(self) -> bool:
        """Whether the graph output that it is, or shows, has a gradient."""
        return self.requires_grad and self.kind in ("value", "shared")


@dataclass
class CapturedCall:
    """What running the function once has shown.

    A tensor of the caller is named by itself in a call that was captured just now, and by a reference
    (capture/references.py) in one that was compiled; `sources` and `leaves_used` are empty then.
    """

    graph: Graph
    # what is behind each graph input, in order: a tensor of the caller, Draws from a generator, or float or
    # int for the live numbers of that type
    sources: list[Any]
    leaves: list[Leaf]
    structure: TreeSpec
    writes: list[tuple[int, int]]  # (source, graph output)
    gradients: list[tuple[Any, Leaf]]  # (a tensor of the caller, what its .grad becomes)
    live: LiveInputs  # the numbers that stay live
    # tensors of the caller whose .grad the program looks at, with what it was
    leaves_used: list[tuple[Tensor, Any]] = field(default_factory=list)
    draws: list[Draws] = field(default_factory=list)
    versions: list[tuple[Any, int]] = field(default_factory=list)  # (a tensor of the caller, changes counted)
    changes: list[Change] = field(default_factory=list)  # tensors of the caller that get another shape
    replaced: list[tuple[Any, Leaf]] = field(default_factory=list)  # that get other data, and which
    flags: list[tuple[Any, bool]] = field(default_factory=list)  # arguments whose requires_grad changes
    differentiable: list[Any] = field(default_factory=list)  # tensors of the caller that results depend on
    tangents: list[Value] = field(default_factory=list)  # graph inputs for the gradients of returned tensors
    backward: list[Value | None] = field(default_factory=list)  # gradients of `differentiable`
    kept: set[Value] = field(default_factory=set)  # graph inputs that the eager tape keeps for backward
    late: list[LateCall] = field(default_factory=list)  # what runs after the graph, on leaves
    kinds: dict[int, type] = field(default_factory=dict)  # leaves of classes derived from Tensor
    inference: list[int] = field(default_factory=list)  # leaves that were made in inference mode
    grad_mode: bool | None = None  # what it leaves the grad mode as, if it changes that
    # what is put into Python's containers; if any, `structure` is that of the result and a list of the values
    stores: list[Store] = field(default_factory=list)
    # what it may have read of Python's state; a tensor that it only replaces need not be the same one
    locations: list[Place] = field(default_factory=list)

    def all_leaves(self) -> list[Leaf]:
        """Of what it returns, leaves behind and uses afterwards."""
        return [
            *self.leaves,
            *(leaf for _, leaf in (*self.gradients, *self.replaced)),
            *(leaf for call in self.late for leaf in call.among(Leaf)),
        ]


def capture_call(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    environment: Environment = NOTHING_KNOWN,
) -> CapturedCall:
    """Run `function` on abstract tensors and return what it did. Nothing of the caller is changed."""
    capture = Capture(environment=environment)
    try:
        with watched(), watching(capture), capture:
            if environment.refusal is not None:
                raise CaptureError(environment.refusal, "")
            args, kwargs = with_live_numbers(capture, args, kwargs, not environment.asks_types)
            meet_arguments(capture, args, kwargs)
            contents = Contents((args, kwargs))
            for container, key in environment.counters:
                capture.numbers.count(container, key)
            returned = function(*args, **kwargs)
            call = _summary(capture, environment, contents, returned)
            del returned
            if capture.late_numbers.kept():
                raise CaptureError(
                    "it keeps a number from item(), which is known only when it runs, "
                    "elsewhere than in what it returns",
                    "",
                )
            return call
    finally:
        undo(environment)
        capture.numbers.restore_states()
        capture.restore()
        capture.close()


def try_capture(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    environment: Environment = NOTHING_KNOWN,
) -> tuple[CapturedCall | None, Any, CaptureError | None]:
    """As `capture_call`; a program that has no graph is run to its end instead, each part of it once.

    Gives the captured call, or None with what the function has returned and why it could not be captured.
    """
    capture = TentativeCapture(environment=environment)
    live_args, live_kwargs = with_live_numbers(capture, args, kwargs, not environment.asks_types)
    contents = Contents((live_args, live_kwargs))
    try:
        with watched(), watching(capture), capture:
            meet_arguments(capture, live_args, live_kwargs)
            if environment.refusal is not None:
                capture.leave(CaptureError(environment.refusal, ""))
            for container, key in environment.counters if capture.reason is None else ():
                capture.numbers.count(container, key)
            returned = function(*live_args, **live_kwargs)
            if capture.reason is None:
                try:
                    return _summary(capture, environment, contents, returned), None, None
                except CaptureError as error:
                    capture.leave(error)
            return None, plain(returned), capture.reason
    except Exception as error:
        capture.leave(CaptureError(f"the program raised {type(error).__name__}", ""))  # its writes stay
        raise
    finally:
        if capture.reason is None:
            undo(environment)
            capture.numbers.restore_states()
            capture.restore()
        else:
            contents.give_back((args, kwargs))
        capture.close()


def _summary(capture: Capture, environment: Environment, contents: Contents, returned: Any) -> CapturedCall:
    stores = stores_of(capture, environment, contents, returned)
    forward = Changes(environment)
    try:
        call = _Summary(capture).summarize(returned, stores)
    except CaptureError:
        forward.undo_later()
        raise
    changed = forward.undo_later()
    if changed is not None:  # by functions of the user's that ran when the gradients were captured
        raise StateError(f"it changes {changed} when its results are differentiated", "")
    return call


@contextmanager
def watching(capture: Capture) -> Iterator[None]:
    """Let the environment of the capture know of functions that are about to run."""
    saved, MODES.watch = MODES.watch, capture.sees_function
    try:
        yield
    finally:
        MODES.watch = saved


def with_live_numbers(capture: Capture, args: Any, kwargs: Any, live: bool = True) -> Any:
    """The arguments with live numbers for their floats and ints; if not `live`, with guards on them."""
    leaves, structure = flatten((args, kwargs), records=True)
    for i, leaf in enumerate(leaves):
        if type(leaf) in (float, int):
            number = capture.numbers.argument(i, leaf)
            small = type(leaf) is float or -(2**63) <= leaf < 2**63
            leaves[i] = number if live and small else number.specialise()
    return structure.unflatten(leaves)


def meet_arguments(capture: Capture, args: Any, kwargs: Any) -> None:
    """Let the graph know of each storage that several arguments share the widest part first."""
    leaves, _ = flatten((args, kwargs), records=True)
    capture.arguments = {id(leaf) for leaf in leaves if isinstance(leaf, Tensor)}
    shared: dict[int, dict[int, Tensor]] = {}
    for leaf in leaves:
        if isinstance(leaf, Tensor) and leaf._storage is not None and leaf._array is not None:
            shared.setdefault(id(leaf._storage), {})[id(leaf)] = leaf
    for some in shared.values():
        if len(some) > 1:
            capture.abstract(max(some.values(), key=lambda t: (extent(t.shape, t.strides()), -t._offset)))


class _Summary:
    def __init__(self, capture: Capture) -> None:
        self.capture = capture
        self.graph = capture.graph
        self.outputs: dict[tuple[Value, bool], int] = {}  # (value, whether it is differentiable)
        self.kept: set[Value] = set()
        self.views: set[int] = set()  # identities of results over memory of others, none differentiable
        self.shared: dict[int, Tensor] = {}  # of a storage that several results show: who has its history
        self.late: list[LateCall] = []  # of which something is returned

    def summarize(self, returned: Any, stores: Sequence[tuple[Store, Any]] = ()) -> CapturedCall:
        tree = (returned, [value for _, value in stores]) if stores else returned
        tree = taken_apart(tree, self.capture)
        flat, structure = flatten(tree, records=True)
        self._find_shared(flat)
        once: dict[int, Leaf] = {}  # a tensor that is returned twice is one leaf
        leaves = [
            once.setdefault(id(t), self._leaf(t)) if isinstance(t, Tensor) else self._leaf(t) for t in flat
        ]
        late = self._late()
        writes = self._writes()
        gradients = self._gradients()
        for value in self.capture.kept:
            self._output(value)
        inputs, tangents, backward = self._joint(
            [*leaves, *(leaf for call in late for leaf in call.among(Leaf))],
            [*flat, *(tensor for call in self.late for tensor in call.among(Tensor))],
        )
        live = self.capture.numbers.finish()  # formulas of gradients may use numbers, too
        call = CapturedCall(self.graph, self._sources(live), leaves, structure, writes, gradients, live)
        call.late = late
        call.draws = list(self.capture.draws.values())
        call.versions = self._versions()
        call.changes = self.capture.geometries.changes()
        call.replaced = [(tensor, self._leaf(value)) for tensor, value in self.capture.replaced.values()]
        call.flags = [
            (tensor, tensor._requires_grad)
            for tensor, before in self.capture.flags.values()
            if id(tensor) in self.capture.arguments and tensor._requires_grad is not before
        ]
        call.leaves_used = [
            (used.tensor, used.before) for used in self.capture.gradients.values() if used.looked
        ]
        call.differentiable, call.tangents, call.backward = inputs, tangents, backward
        call.kept = self.kept
        own = {i: t for i, t in enumerate(flat) if isinstance(t, Tensor) and t._trace is self.capture}
        call.kinds = {i: type(t) for i, t in own.items() if type(t) is not Tensor}
        call.inference = [i for i, t in own.items() if t._inference]
        call.stores = [store for store, _ in stores]
        call.grad_mode = None if MODES.grad is self.capture.grad_mode else MODES.grad
        self.graph.outputs = [value for value, _ in self.outputs]
        return call

    def _output(self, value: Value, differentiable: bool = False) -> int:
        return self.outputs.setdefault((value, differentiable), len(self.outputs))

    def _leaf(self, leaf: Any) -> Leaf:
        if type(leaf) is LiveNumber:
            return Leaf("number", python=formula(leaf))
        if type(leaf) is LateNumber:
            return self._late_leaf(leaf.call, None)
        if not isinstance(leaf, Tensor):
            return Leaf("python", python=leaf)
        capture = self.capture
        if leaf._trace is not capture:
            if leaf._trace is not None:
                return Leaf("python", python=leaf)
            known = id(leaf) in capture.lifted or id(leaf) in capture.copies
            itself = not known or id(leaf) in capture.replaced
            return Leaf("given", python=leaf) if itself else self._alias(leaf)
        if shapeless(leaf):
            return self._late_leaf(*leaf._late)  # type: ignore[attr-defined]
        if leaf.requires_grad and current_node(leaf) is None:
            raise CaptureError(
                "the program returns a leaf that it made (requires_grad_(), Parameter)", user_line()
            )
        state = capture.states[id(capture.abstract(leaf).storage_object)]
        if state.source is not None:
            return self._alias(leaf)
        differentiable = leaf.requires_grad and not _is_freed(leaf)
        spec = spec_of(leaf)
        root = self.shared.get(id(state))
        if root is not None and root is not leaf:
            steps = None if not differentiable or _reads_plainly(leaf, root) else _steps(leaf)
            return Leaf(
                "shared" if differentiable else "view",
                self._output(self._dense(capture.value_of(root)), True),
                spec,
                steps,
                requires_grad=differentiable,
            )
        whole = same_layout(spec, state.spec) and not spec.conj and not spec.neg
        if not differentiable and (id(leaf) in self.views or not whole):
            return Leaf("view", self._output(state.value), spec)
        value = self._dense(capture.value_of(leaf))
        return Leaf("value", self._output(value, differentiable), value.spec, requires_grad=differentiable)

    def _find_shared(self, returned: list[Any]) -> None:
        """Find the storages that several of the returned tensors show. If some of them are differentiable,
        all are views of the tensor that has the history of the whole storage.
        """
        own: dict[int, dict[int, Tensor]] = {}
        for tensor in returned:
            if isinstance(tensor, Tensor) and tensor._trace is self.capture and not shapeless(tensor):
                state = self.capture.states[id(self.capture.abstract(tensor).storage_object)]
                if state.source is None:
                    own.setdefault(id(state), {})[id(tensor)] = tensor
        for number, tensors in own.items():
            roots = {
                id(root): root
                for t in tensors.values()
                if t.requires_grad and not _is_freed(t)
                for root in (_viewed(t),)
            }
            if not roots:
                if len(tensors) > 1:
                    self.views.update(tensors)
            elif len(tensors) > 1 or any(
                not is_dense(tuple(t.shape), t.strides()) or t._conj or t._neg for t in tensors.values()
            ):
                root = next(iter(roots.values()))
                if len(roots) == 1 and self._holds_all(root):
                    self.shared[number] = root
                elif len(tensors) > 1:
                    raise CaptureError(
                        "it returns tensors that share memory but not their history", user_line()
                    )

    def _holds_all(self, root: Tensor) -> bool:
        """Whether all there is in the storage of `root` is in `root`, without gaps and as it is."""
        spec, held = spec_of(root), self.capture.states[id(root.storage_object)].spec
        return (
            spec.dtype is held.dtype
            and spec.offset == held.offset
            and not spec.conj
            and not spec.neg
            and is_dense(spec.known_shape(), spec.known_strides())
            and current_node(root) is not None
            and numel(spec.known_shape()) == numel(held.known_shape())
        )

    def _late_leaf(self, call: LateCall, position: int | None) -> Leaf:
        if call not in self.late:
            self.late.append(call)
        return Leaf("late", self.late.index(call), python=position)

    def _late(self) -> list[LateCall]:
        """The late calls, with leaves in place of tensors."""
        return [replace(call, args=call.mapped(Tensor, self._leaf)) for call in self.late]

    def _dense(self, value: Value) -> Value:
        """`value`, or a copy of it if it does not fill a run of memory."""
        spec = value.spec
        if is_dense(spec.known_shape(), spec.known_strides()) and not spec.conj and not spec.neg:
            return value
        dense = Spec(spec.shape, spec.dtype, None)
        return self.graph.call(REGISTRY["clone"], (value, None), dense, user_line()).outputs[0]

    def _alias(self, leaf: Tensor) -> Leaf:
        """A view of a tensor that the caller already has."""
        abstract = self.capture.abstract(leaf)
        state = self.capture.states[id(abstract.storage_object)]
        differentiable = leaf.requires_grad and leaf._trace is self.capture
        if differentiable and (state.writes or leaf._conj or leaf._neg or leaf.dtype is not state.spec.dtype):
            steps = None if state.writes or self._viewed(leaf) is None else _steps(leaf)
            if steps is None:
                raise CaptureError(
                    "the program returns a differentiable view of one of its inputs", user_line()
                )
            return Leaf(
                "replayed",
                self.graph.inputs.index(state.input),
                python=steps,
                requires_grad=True,
                of=self._viewed(leaf),
            )
        offset = abstract._offset - state.spec.offset  # from where the graph input begins
        spec = Spec(tuple(leaf.shape), leaf.dtype, leaf.strides(), offset, leaf._conj, leaf._neg)
        return Leaf(
            "alias",
            self.graph.inputs.index(state.input),
            spec,
            python=leaf if leaf._trace is None and id(leaf) not in self.capture.copies else None,
            requires_grad=differentiable,
            of=self._viewed(leaf) if differentiable else None,
        )

    def _viewed(self, view: Tensor) -> Tensor | None:
        """The tensor of the caller that `view` shows; others over its memory have gradients of their own."""
        view = _viewed(view)
        found = (e.tensor for e in self.capture.lifted.values() if self.capture.abstract(e.tensor) is view)
        return next(found, None)

    def _writes(self) -> list[tuple[int, int]]:
        found = []
        seen: set[int] = set()
        for state in self.capture.states.values():
            if state.source is not None and state.writes and id(state) not in seen:
                seen.add(id(state))
                found.append((self.graph.inputs.index(state.input), self._output(state.value)))
        return found

    def _versions(self) -> list[tuple[Any, int]]:
        first: dict[int, Lifted] = {}  # by counter; it knows what the counter was
        for lifted in self.capture.lifted.values():
            first.setdefault(id(lifted.tensor.version_counter), lifted)
        counted = [(e.tensor, e.tensor.version_counter.value - e.version) for e in first.values()]
        return [(tensor, count) for tensor, count in counted if count]

    def _gradients(self) -> list[tuple[Any, Leaf]]:
        found: list[tuple[Any, Leaf]] = []
        for used in self.capture.gradients.values():
            tensor = used.tensor
            current = tensor._grad
            if current is used.before and used.looked:
                continue
            if isinstance(current, Tensor) and current.requires_grad:
                raise CaptureError("the program leaves a gradient that is itself differentiable", user_line())
            found.append((tensor, self._leaf(current)))
        return found

    def _joint(
        self, leaves: list[Leaf], returned: list[Any]
    ) -> tuple[list[Tensor], list[Value], list[Value | None]]:
        """Capture the gradients of the returned tensors with respect to the caller's.

        Gives those tensors of the caller, the graph inputs for the gradients that come in, and for each
        tensor its gradient.
        """
        by_output = {
            leaf.index: tensor if leaf.kind == "value" else _viewed(tensor)
            for leaf, tensor in zip(leaves, returned, strict=True)
            if leaf.differentiated
        }
        roots = list(by_output.values())
        if not roots:
            return [], [], []
        inputs = [e.tensor for e in self.capture.lifted.values() if e.tensor.requires_grad]
        tangents = []
        for root in roots:
            tangent = self.capture.new_input(Spec(tuple(root.shape), root.dtype, None), "tangent")
            tangents.append(tangent)
        if not inputs:
            raise CaptureError(
                "the program returns a result that depends on a leaf of its own making", user_line()
            )
        self.kept = self._kept(roots)
        self.capture.joint = True
        late = len(self.capture.late)
        try:
            with autocast_off():  # as where the caller would run it: after the region
                grads = gradients(roots, inputs, tangents, retain_graph=True, stop=True)
        except CaptureError:
            raise
        except Exception as error:
            raise CaptureError(
                f"the gradients of its results raise {type(error).__name__}: {error}", user_line()
            ) from error
        finally:
            self.capture.joint = False
            reads = len(self.capture.late) > late
            del self.capture.late[late:]  # there is no data for gradients that are to come
        if reads:
            raise CaptureError("a value is read when its results are differentiated", user_line())
        return (
            inputs,
            [self.capture.value_of(t) for t in tangents],
            [None if g is None else self._dense(self.capture.value_of(g)) for g in grads],
        )

    def _kept(self, roots: list[Tensor]) -> set[Value]:
        """The graph inputs that the tape of an eager run would keep, too: whoever writes to one of them
        before the backward pass gets an error there as well.
        """
        found = set()
        for node in _history(roots):
            for tensor in node.kept() if isinstance(node, OpNode) else ():
                if tensor._trace is not self.capture and id(tensor) not in self.capture.lifted:
                    continue
                state = self.capture.states[id(self.capture.abstract(tensor).storage_object)]
                if state.source is not None and not state.writes:
                    found.add(state.input)
        return found

    def _sources(self, live: LiveInputs) -> list[Any]:
        by_input: dict[Value, Any] = {
            state.input: state.source for state in self.capture.states.values() if state.source is not None
        }
        by_input.update((draws.value, draws) for draws in self.capture.draws.values())
        by_input.update((value, kind) for kind, value in live.inputs.items())
        return [by_input[value] for value in self.graph.inputs if value in by_input]


def _viewed(tensor: Tensor) -> Tensor:
    """The tensor that `tensor` is a view of, or itself."""
    while tensor._view_of is not None:
        tensor = tensor._view_of[1][0]
    return tensor


def _steps(view: Tensor) -> list[tuple[Any, tuple[Any, ...]]] | None:
    """The view operators, with their further arguments, that lead to `view` from what it is a view of."""
    steps: list[tuple[Any, tuple[Any, ...]]] = []
    while view._view_of is not None:
        op, (view, *rest) = view._view_of
        steps.append((op, tuple(rest)))
    return None if any(isinstance(a, Tensor) for _, rest in steps for a in rest) else steps[::-1]


def _reads_plainly(view: Tensor, root: Tensor) -> bool:
    """Whether `view` shows elements of `root` as they are."""
    return view.dtype is root.dtype and not view._conj and not view._neg


def _is_freed(tensor: Tensor) -> bool:
    """Whether the program itself has run backward through the history of `tensor`, so that nobody can do so
    again.
    """
    return any(getattr(node, "saved", None) is FREED for node in _history([tensor]))


def _history(tensors: list[Tensor]) -> Iterator[Any]:
    """The nodes of the tape behind `tensors`."""
    seen: set[int] = set()
    stack: list[Any] = [tensor.grad_fn for tensor in tensors]
    while stack:
        node = stack.pop()
        if node is None or id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        stack.extend(following for following, _ in node.next_functions)
