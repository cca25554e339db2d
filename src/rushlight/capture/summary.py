"""What a program did that was captured, as a `CapturedCall`.

In:  a capture whose program has run, and what that returned. Out: the captured call. The graph's outputs are, in
order: the tensors the call returns that are new, the new contents of the caller's storages that it wrote to,
and the gradients it left on leaves. Where a returned tensor requires grad, the graph of its gradients is captured
with it (`backward`): the joint graph.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from ..autograd.edges import current_node
from ..autograd.engine import gradients
from ..autograd.inner import ASKED
from ..autograd.saved import OpNode
from ..autograd.tape import FREED
from ..core.autocast import autocast_off
from ..core.modes import MODES
from ..core.pytree import flatten
from ..core.registry import REGISTRY
from ..core.shapes import Spec, is_dense, numel
from ..core.symbols import SymInt
from ..core.tensor import Tensor, shapeless
from ..graph.ir import Value
from .captured_call import CapturedCall, Leaf
from .deferred import DeferredCall, DeferredNumber
from .effects import StoredValue
from .errors import CaptureError, Problem, user_line
from .live_inputs import LiveInputs
from .memory import same_layout, spec_of
from .numbers import LiveNumber, formula
from .program_tensors import Lifted
from .results import taken_apart
from .trace import Capture


class Summary:
    """Summarizes one capture."""

    def __init__(self, capture: Capture) -> None:
        self.capture = capture
        self.graph = capture.graph
        self.outputs: dict[tuple[Value, bool], int] = {}  # (value, whether it is differentiable)
        self.kept: set[Value] = set()
        self.views: set[int] = set()  # identities of results over memory of others, none differentiable
        self.shared: dict[int, Tensor] = {}  # of a storage that several results show: who has its history
        self.inner: frozenset[int] = frozenset()  # outputs that other differentiable ones are computed from
        self.deferred: list[DeferredCall] = []  # of which something is returned

    def summarize(self, returned: Any, stores: Sequence[tuple[StoredValue, Any]] = ()) -> CapturedCall:
        tree = (returned, [value for _, value in stores]) if stores else returned
        tree = taken_apart(tree, self.capture)
        flat, structure = flatten(tree, records=True)
        self._find_shared(flat)
        once: dict[int, Leaf] = {}  # a tensor that is returned twice is one leaf
        leaves = [
            once.setdefault(id(t), self._leaf(t)) if isinstance(t, Tensor) else self._leaf(t) for t in flat
        ]
        late = self._deferred()
        writes = self._writes()
        gradients = self._gradients()
        for value in self.capture.kept:
            self._output(value)
        inputs, tangents, backward = self._joint(
            [*leaves, *(leaf for call in late for leaf in call.among(Leaf))],
            [*flat, *(tensor for call in self.deferred for tensor in call.among(Tensor))],
        )
        replaced = [(tensor, self._leaf(value)) for tensor, value in self.capture.replaced.values()]
        changes = self.capture.geometries.changes()
        results = [
            *leaves,
            *(leaf for _, leaf in (*gradients, *replaced)),
            *(leaf for call in late for leaf in call.among(Leaf)),
        ]
        self.capture.numbers.use_places_in(self.graph, [leaf.spec for leaf in results])
        live = self.capture.numbers.finish()  # formulas of gradients may use numbers, too
        call = CapturedCall(self.graph, self._sources(live), leaves, structure, writes, gradients, live)
        call.deferred = late
        call.draws = list(self.capture.draws.values())
        call.versions = self._versions()
        call.changes = changes
        call.replaced = replaced
        call.flags = [
            (tensor, tensor._requires_grad)
            for tensor, before in self.capture.flags.values()
            if id(tensor) in self.capture.arguments and tensor._requires_grad is not before
        ]
        call.leaves_used = [
            (used.tensor, used.before) for used in self.capture.gradients.values() if used.looked
        ]
        call.differentiable, call.tangents, call.backward = inputs, tangents, backward
        call.kept, call.inner = self.kept, self.inner
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
        if type(leaf) in (LiveNumber, SymInt):
            return Leaf("number", python=formula(leaf))
        if type(leaf) is DeferredNumber:
            return self._deferred_leaf(leaf.call, None)
        if not isinstance(leaf, Tensor):
            return Leaf("python", python=leaf)
        capture = self.capture
        if leaf._has_graph:
            return self._holder(leaf)
        if leaf._trace is not capture:
            if leaf._trace is not None:
                return Leaf("python", python=leaf)
            known = id(leaf) in capture.lifted or id(leaf) in capture.copies
            itself = not known or id(leaf) in capture.replaced
            return Leaf("given", python=leaf) if itself else self._alias(leaf)
        if shapeless(leaf):
            return self._deferred_leaf(*leaf._deferred)  # type: ignore[attr-defined]
        if leaf.requires_grad and current_node(leaf) is None:
            raise CaptureError(
                "the program returns a leaf that it made (requires_grad_(), Parameter)",
                user_line(),
                Problem.OWN_LEAF,
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

    def _holder(self, leaf: Any) -> Leaf:
        """A tensor of a class that runs operators on a tensor that it holds."""
        held = leaf._local_tensor
        if held._trace is not self.capture:
            return Leaf("given", python=leaf)
        if leaf.requires_grad:
            raise CaptureError(
                f"the program returns a differentiable {type(leaf).__name__}",
                user_line(),
                Problem.TENSOR_CLASS,
            )
        return Leaf("holder", python=leaf._holding, held=self._leaf(held))

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
                        "it returns tensors that share memory but not their history",
                        user_line(),
                        Problem.RETURNED_MEMORY,
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

    def _deferred_leaf(self, call: DeferredCall, position: int | None) -> Leaf:
        if call not in self.deferred:
            self.deferred.append(call)
        return Leaf("deferred", self.deferred.index(call), python=position)

    def _deferred(self) -> list[DeferredCall]:
        """The deferred calls, with leaves in place of tensors."""
        return [replace(call, args=call.mapped(Tensor, self._leaf)) for call in self.deferred]

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
                    "the program returns a differentiable view of one of its inputs",
                    user_line(),
                    Problem.RETURNED_MEMORY,
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
        number = {value: i for i, value in enumerate(self.graph.inputs)}
        for state in self.capture.states.values():
            if state.source is not None and state.writes and id(state) not in seen:
                seen.add(id(state))
                found.append((number[state.input], self._output(state.value)))
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
            before = used.before
            holder = before is not None and before._has_graph
            if holder and used.looked and id(before._local_tensor) in self.capture.lifted:
                raise CaptureError(
                    f"the program reads a gradient from before it that is a {type(before).__name__}",
                    user_line(),
                    Problem.TENSOR_CLASS,
                )
            if current is used.before and used.looked:
                continue
            if isinstance(current, Tensor) and current.requires_grad:
                raise CaptureError(
                    "the program leaves a gradient that is itself differentiable",
                    user_line(),
                    Problem.DIFFERENTIATED,
                )
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
        if self.capture.environment.all_gradients:
            self._look_at_inner(by_output)
        tangents = []
        for root in roots:
            tangent = self.capture.new_input(Spec(tuple(root.shape), root.dtype, None), "tangent")
            tangents.append(tangent)
        if not inputs:
            raise CaptureError(
                "the program returns a result that depends on a leaf of its own making",
                user_line(),
                Problem.OWN_LEAF,
            )
        self.kept = self._kept(roots)
        self.capture.joint = True
        late = len(self.capture.deferred)
        try:
            with autocast_off():  # as where the caller would run it: after the region
                grads = gradients(roots, inputs, tangents, retain_graph=True, stop=True)
        except CaptureError:
            raise
        except Exception as error:
            raise CaptureError(
                f"the gradients of its results raise {type(error).__name__}: {error}",
                user_line(),
                Problem.DIFFERENTIATED,
            ) from error
        finally:
            self.capture.joint = False
            reads = len(self.capture.deferred) > late
            del self.capture.deferred[late:]  # there is no data for gradients that are to come
        if reads:
            raise CaptureError(
                "a value is read when its results are differentiated", user_line(), Problem.READS_VALUE
            )
        return (
            inputs,
            [self.capture.value_of(t) for t in tangents],
            [None if g is None else self._dense(self.capture.value_of(g)) for g in grads],
        )

    def _look_at_inner(self, by_output: dict[int, Tensor]) -> None:
        """Find results that others are computed from, whose gradients the program may ask for."""
        self.inner = _inner(by_output)
        if self.inner and ASKED.yet:
            raise CaptureError(
                "the program asks for gradients of tensors that are no leaves, and some results of this are "
                "computed from others",
                "",
                Problem.DIFFERENTIATED,
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


def _inner(by_output: dict[int, Tensor]) -> frozenset[int]:
    """The outputs that others are computed from."""
    roots = {number: (current_node(tensor), tensor._output_nr) for number, tensor in by_output.items()}
    if len(roots) < 2:
        return frozenset()
    read = {
        (id(node), number)
        for following in _history(list(by_output.values()))
        for node, number in following.next_functions
    }
    return frozenset(i for i, (node, number) in roots.items() if (id(node), number) in read)


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
