"""Every pass of the compiler, in the order in which they run: its table of contents.

A Python call becomes a captured call, that becomes one program or two (forward and backward), and each program
becomes native code:

    CALL_PASSES     once for a call: capture, decompose, keep data checks, partition
    PROGRAM_PASSES  once for each of its programs: fold layers, graph passes, compile bodies, lower, schedule,
                    plan, emit, assemble, link

A program that was compiled before comes from the cache and skips all between the graph passes and linking. Times,
verification, `RUSHLIGHT_LOG` and `explain` are views of these lists (core/passes.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any

from .. import lowering  # noqa: F401  fills in the lowering rules
from ..capture.captured_call import CapturedCall
from ..capture.checks import keep_checks
from ..capture.decompose import decompose
from ..capture.effects import settled
from ..capture.errors import CaptureError
from ..capture.locations import NOTHING_KNOWN, Environment
from ..capture.program import capture_call, try_capture
from ..capture.programs import Programs, partition_call
from ..capture.sizes import NOTHING_CHANGES, Changing, check_marks
from ..codegen.llvm.module import NativeModule, emit_module
from ..core.garbage import uncollected
from ..core.index_data import guard_from_data, guard_to_data
from ..core.passes import Pass, PassLog, verifying
from ..core.symbols import Symbols
from ..graph.ir import Graph, print_graph, simplify_sizes, symbols_of, verify
from ..graph.passes import GRAPH_PASSES
from ..graph.subgraph import BodyProgram
from ..logs import logger, wanted
from ..loops.program import Program
from ..lowering.folding import KEPT, Folded, fold
from ..lowering.lower import lower
from ..lowering.origins import Origins
from ..lowering.updates import compose_row, compose_updates
from ..plan.passes import PLAN_PASSES, begin_planning
from ..plan.program import PlannedProgram
from ..plan.unfolding import unfold
from ..runtime import profile
from ..runtime.engine import Library, engine
from ..runtime.executable import Executable
from ..runtime.known_programs import admits, pack, recall, remember
from ..runtime.linking import link
from ..runtime.pieces import PiecewiseExecutable
from ..runtime.sized import SizedExecutable
from ..runtime.target import Target
from ..schedule.memory import moved_bytes
from ..schedule.passes import SCHEDULE_PASSES
from ..schedule.passes import show as show_program
from ..schedule.passes import verify as verify_program
from .bodies import compile_bodies
from .linking import DataSizes, describe, make_executable
from .pieces import compile_pieces, with_numbers
from .program_cache import program_key
from .usual_routines import prepare_routines_of

# --- a call ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CallToCapture:
    """A Python call, and what is known of the state around it."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    environment: Environment = NOTHING_KNOWN
    # a program without a graph is run to its end, each part of it once, instead of raising CaptureError
    or_run: bool = False
    changing: Changing = NOTHING_CHANGES  # which sizes of the arguments are symbols


@dataclass(frozen=True)
class CaptureResult:
    """A captured call; or, if there is no graph of it, what the call returned, and why."""

    call: CapturedCall | None
    returned: Any = None
    problem: CaptureError | None = None


def _capture(request: CallToCapture) -> CaptureResult:
    given = request.function, request.args, request.kwargs, request.environment, request.changing, compose_row
    captured = CaptureResult(*try_capture(*given)) if request.or_run else CaptureResult(capture_call(*given))
    call = captured.call
    if call is not None:
        around = request.environment.without_numbers_of(call.live.containers, call.live.counters)
        call.locations = list(settled(around, call.stores).places)
    return captured


def _decompose(call: CapturedCall) -> CapturedCall:
    """Replace operators that have no lowering by simpler ones."""
    replaced = decompose(call.graph)
    call.backward = [None if grad is None else replaced.get(grad, grad) for grad in call.backward]
    return call


def _keep_checks(call: CapturedCall) -> CapturedCall:
    """Let errors that depend on data be found although nobody reads the result."""
    keep_checks(call.graph, [value for value in call.backward if value is not None], call.tangents)
    return call


def _show_captured(captured: CaptureResult) -> str:
    if captured.call is None:
        return f"no graph: {captured.problem}"
    return "\n".join(
        [print_graph(captured.call.graph), *(f"then, eagerly: {c.name}" for c in captured.call.deferred)]
    )


def _verify_programs(programs: Programs) -> None:
    for graph in programs.graphs:
        verify(graph)


def _show_programs(programs: Programs) -> str:
    return "\n\n".join(map(print_graph, programs.graphs))


CAPTURE = Pass("capture", _capture, show=_show_captured, topic="graph")
CALL_PASSES: tuple[Pass, ...] = (
    Pass("decompose", _decompose, lambda call: verify(call.graph), lambda call: print_graph(call.graph)),
    Pass(
        "keep data checks",
        _keep_checks,
        lambda call: verify(call.graph),
        lambda call: print_graph(call.graph),
    ),
    Pass("partition", partition_call, _verify_programs, _show_programs),
)


# --- a program of it -------------------------------------------------------------------------------


@dataclass
class Compilation:
    """A graph on its way to native code: what each stage has made of it so far."""

    graph: Graph  # whole; after its passes, unless it is folded
    _: KW_ONLY
    use_cache: bool = True
    target: Target = field(default_factory=lambda: engine().target)
    folded: Folded | None = None  # the graph with fewer equal layers, if it has many
    program: Program | None = None  # definitions: loops over expressions, and templates
    schedule: Program | None = None  # the same on its way to kernels in order, and which run together
    planned: PlannedProgram | None = None  # how each kernel runs on the target, and where memory lies
    module: NativeModule | None = None  # LLVM IR
    code: bytes = b""
    description: dict[str, Any] = field(default_factory=dict)
    library: Library | None = None
    bodies: Mapping[str, BodyProgram] = field(default_factory=dict)  # of its control flow, compiled before
    llvm_seconds: dict[str, float] = field(default_factory=dict)
    symbols: Symbols | None = None  # of sizes that change
    keeps: tuple[int, ...] = KEPT  # how many equal layers to begin with, in turn; with none, all of them
    origins: Origins | None = None  # which nodes kernels are of, if somebody wants to know

    @property
    def seen(self) -> Graph:
        """The graph that passes look at."""
        return self.graph if self.folded is None else self.folded.graph

    @property
    def guards(self) -> list[Any]:
        """What was assumed of sizes, as data."""
        return [] if self.symbols is None else list(map(guard_to_data, self.symbols.guards))

    @property
    def symbols_left(self) -> Symbols | None:
        """The symbols, unless guards have made numbers of all of them."""
        return None if self.symbols is None else symbols_of(self.graph)


def _on_field(name: str, steps: Iterable[Pass]) -> list[Pass]:
    """Passes over a graph, or a planned program, as passes over that of a compilation."""
    return [_of_field(name, step) for step in steps]


def _of_field(name: str, step: Pass) -> Pass:
    def run(compilation: Compilation) -> Compilation:
        setattr(compilation, name, step.run(getattr(compilation, name)))
        return compilation

    def seen(look: Callable[[Any], Any] | None) -> Callable[[Compilation], Any] | None:
        return None if look is None else lambda compilation: look(getattr(compilation, name))

    return replace(step, run=run, verify=seen(step.verify), show=seen(step.show))


def _on_graph(step: Pass) -> Pass:
    """A pass over a graph, which it changes in place, as one over what passes of a compilation look at."""

    def run(compilation: Compilation) -> Compilation:
        step.run(compilation.seen)
        return compilation

    def seen(look: Callable[[Any], Any] | None) -> Callable[[Compilation], Any] | None:
        return None if look is None else lambda compilation: look(compilation.seen)

    return replace(step, run=run, verify=seen(step.verify), show=seen(step.show))


def _simplify_sizes(compilation: Compilation) -> Compilation:
    if compilation.symbols is not None:
        simplify_sizes(compilation.graph)
    return compilation


def _compile_bodies(compilation: Compilation) -> Compilation:
    compilation.bodies = compile_bodies(
        compilation.seen, lambda body: compile_graph(body, use_cache=compilation.use_cache)
    )
    return compilation


def _fold(compilation: Compilation) -> Compilation:
    kept = compilation.keeps[0] if compilation.keeps and not profile.enabled() else None
    compilation.folded = None if kept is None else fold(compilation.graph, kept)
    return compilation


def _lower(compilation: Compilation) -> Compilation:
    compilation.program = compilation.schedule = lower(compilation.seen, compilation.origins)
    return compilation


def _begin_planning(compilation: Compilation) -> Compilation:
    assert compilation.schedule is not None
    compilation.planned = begin_planning(compilation.schedule, compilation.target)
    return compilation


def _unfold(compilation: Compilation) -> Compilation:
    """All layers again; where the kernels of a few do not say how all are, begin with more, or with all."""
    while compilation.folded is not None:
        assert compilation.planned is not None
        whole = unfold(compilation.planned, compilation.folded)
        if whole is not None:
            compilation.planned = whole
            compilation.program = compilation.schedule = whole.schedule
            break
        compilation.keeps = tuple([kept for kept in compilation.keeps if kept > compilation.folded.kept])
        compilation = PassLog().run_all((*FOLD_PASSES, *PASSES_OVER_GRAPHS, *TO_PLANS), compilation)
    return compilation


def _emit(compilation: Compilation) -> Compilation:
    program, planned, symbols = compilation.program, compilation.planned, compilation.symbols_left
    assert program is not None
    assert planned is not None
    module = compilation.module = emit_module(planned)
    compilation.description = describe(compilation.graph, program, planned, module, symbols)
    return compilation


def _assemble(compilation: Compilation) -> Compilation:
    assert compilation.module is not None
    compilation.code, compilation.llvm_seconds = engine().compile(compilation.module.text)
    return compilation


def _link(compilation: Compilation) -> Compilation:
    compilation.library = link(compilation.description, compilation.code, compilation.bodies)
    return compilation


COMPOSE_UPDATES = Pass("compose updates", compose_updates, verify, print_graph)
FOLD_PASSES: tuple[Pass, ...] = (
    Pass("simplify sizes", _simplify_sizes, lambda c: verify(c.graph), lambda c: print_graph(c.graph)),
    Pass("fold layers", _fold, show=lambda c: "all layers stay" if c.folded is None else print_graph(c.seen)),
)
PASSES_OVER_GRAPHS: tuple[Pass, ...] = tuple(map(_on_graph, (COMPOSE_UPDATES, *GRAPH_PASSES)))
COMPILE_BODIES = Pass(
    "compile bodies", _compile_bodies, show=lambda c: "\n".join(c.bodies) or "no control flow"
)
TO_PLANS: tuple[Pass, ...] = (
    Pass("lower", _lower, lambda c: verify_program(c.program), lambda c: show_program(c.program), "lowered"),
    *_on_field("schedule", SCHEDULE_PASSES),
    Pass("begin planning", _begin_planning, show=lambda c: f"for {c.planned.target}"),
    *_on_field("planned", PLAN_PASSES[:-1]),
)
GENERATE_PASSES: tuple[Pass, ...] = (
    *TO_PLANS,
    Pass("unfold layers", _unfold, show=lambda c: str(c.planned)),
    *_on_field("planned", PLAN_PASSES[-1:]),
    Pass("emit", _emit, show=lambda c: c.module.text, topic="llvm"),
)
ASSEMBLE = Pass("assemble", _assemble, show=lambda c: engine().assembly(c.module.text), topic="assembly")
LINK = Pass("link", _link)
PROGRAM_PASSES: tuple[Pass, ...] = (
    *FOLD_PASSES,
    *PASSES_OVER_GRAPHS,
    COMPILE_BODIES,
    *GENERATE_PASSES,
    ASSEMBLE,
    LINK,
)

PIPELINE: tuple[Pass, ...] = (CAPTURE, *CALL_PASSES, *PROGRAM_PASSES)


# --- running them ----------------------------------------------------------------------------------


@dataclass
class Artifact:
    """An executable and the graph it computes; what the stages in between made is kept, or, for a program that
    came from the cache, made again when somebody wants to see it."""

    graph: Graph
    executable: Executable | SizedExecutable | PiecewiseExecutable
    log: PassLog
    stages: Compilation | None = None
    guards: Sequence[Any] = ()  # what the stages assumed of sizes that change, as data
    pieces: tuple[Artifact, ...] = ()  # of a program whose sizes are data; the other fields are of the last
    folded: bool = False  # the graph has not been through its passes: only a few of its layers were
    key: str | None = None  # for `stored_program`

    def graph_after_passes(self) -> Graph:
        """The whole graph, with all its layers, after the passes over it."""
        if self.folded:
            PassLog().run_all(PASSES_OVER_GRAPHS, Compilation(self.graph))
            self.folded = False
        return self.graph

    def generate(self) -> Compilation:
        """Make again what the passes made."""
        before = (*FOLD_PASSES, *PASSES_OVER_GRAPHS) if self.folded else ()
        return PassLog().run_all((*before, *GENERATE_PASSES), Compilation(self.graph))

    @property
    def fixed(self) -> Executable:
        """The executable of a program whose sizes do not change."""
        assert isinstance(self.executable, Executable)
        return self.executable

    @property
    def seconds(self) -> dict[str, float]:
        return self.log.seconds

    def _stages(self) -> Any:
        if self.stages is None:
            self.stages = self.generate()
        return self.stages

    @property
    def program(self) -> Program:
        return self._stages().program

    @property
    def schedule(self) -> Program:
        return self._stages().schedule

    @property
    def planned(self) -> PlannedProgram:
        return self._stages().planned

    @property
    def module(self) -> NativeModule:
        return self._stages().module


@dataclass(frozen=True)
class CompiledCall:
    """The programs of a captured call as native code."""

    programs: Programs
    forward: Artifact
    backward: Artifact | None


def compile_call(call: CapturedCall, *, use_cache: bool = True, log: PassLog | None = None) -> CompiledCall:
    """Compile the programs of a captured call; `log` keeps what the passes over the whole call made."""
    with uncollected():
        return compile_captured(call, use_cache=use_cache, log=log)


def compile_captured(
    call: CapturedCall, *, use_cache: bool = True, log: PassLog | None = None
) -> CompiledCall:
    """As `compile_call`, beside other threads: the collector is left alone."""
    log = log or PassLog()
    programs: Programs = log.run_all(CALL_PASSES, call)
    symbols = call.live.symbols
    prepare_routines_of(programs.forward, sized=bool(symbols.hints))
    forward = _compile_program(programs.forward, symbols, use_cache, log.keep)
    backward = None
    if programs.backward is not None:
        backward = _compile_program(programs.backward, symbols, use_cache, log.keep)
    if call.live.sizes:
        call.live.assume(symbols.guards)
        named = {dim.name: dim for dim in call.live.sizes}
        for artifact in (forward, backward):
            found = () if artifact is None else artifact.guards
            call.live.assume([guard_from_data(guard, named) for guard in found])
        check_marks(symbols.numbers)
    symbols.remembered.clear()
    return CompiledCall(programs, forward, backward)


def _compile_program(graph: Graph, symbols: Symbols, use_cache: bool, keep: bool) -> Artifact:
    """Compile a program of a call; one whose sizes are data, piece by piece."""

    def compiled(piece: Graph) -> Artifact:
        return compile_graph(piece, use_cache=use_cache, keep=keep, sized=bool(symbols.hints))

    if not graph.data_sizes and not symbols.assertions and not symbols.derived:
        return compiled(graph)
    executable, pieces = compile_pieces(graph, compiled, symbols)
    log = PassLog(keep)
    for i, piece in enumerate(pieces):
        log.seconds.update({f"piece {i + 1}: {name}": value for name, value in piece.seconds.items()})
    guards = [guard for piece in pieces for guard in piece.guards]
    return Artifact(pieces[-1].graph, executable, log, pieces[-1].stages, guards, tuple(pieces))


def compile_graph(
    graph: Graph, *, use_cache: bool = True, keep: bool = False, sized: bool = True
) -> Artifact:
    """Compile a functional graph for the host, or find it among those compiled before.

    With `keep`, the log of the artifact holds what every pass made, as text. `sized`: sizes of it may change.
    """
    log = PassLog(keep)
    compilation = Compilation(graph, symbols=symbols_of(graph) if sized else None, use_cache=use_cache)
    data = _data_sizes(graph, compilation.symbols, use_cache)
    log.run_all((*FOLD_PASSES, *PASSES_OVER_GRAPHS, COMPILE_BODIES), compilation)
    key = log.timed("key", program_key, graph, compilation.symbols_left, compilation.folded)
    known = log.timed("cache", recall, key, compilation.bodies) if use_cache else None
    if known is not None and not admits(known[0], compilation.symbols):  # other code for other sizes
        assert compilation.symbols is not None
        key = f"{key}-{'-'.join(map(str, compilation.symbols.hints.values()))}"
        known = log.timed("cache", recall, key, compilation.bodies)
    if known is None:
        log.run_all((*GENERATE_PASSES, ASSEMBLE, LINK), compilation)
        log.seconds.update({f"llvm {step}": value for step, value in compilation.llvm_seconds.items()})
        assert compilation.library is not None
        compilation.description["guards"] = compilation.guards
        compilation.description["folded"] = compilation.folded is not None
        known = compilation.description, compilation.library
        if key is not None:
            engine().cache.store(key, pack(compilation.description, compilation.code))
            remember(key, *known)
    if (
        compilation.folded is not None and not known[0]["folded"]
    ):  # what it calls are nodes of the whole graph
        compilation.folded = None
        log.run_all(PASSES_OVER_GRAPHS, compilation)
    artifact = Artifact(
        graph,
        make_executable(graph, known[0], known[1], None if data is None else data()),
        log,
        compilation if compilation.module else None,
        known[0]["guards"],
        folded=compilation.folded is not None,
        key=key,
    )
    _tell(artifact)
    if use_cache:
        artifact.stages = None  # they take more memory than the program; `explain` makes its own
    return artifact


def _data_sizes(graph: Graph, symbols: Symbols | None, use_cache: bool) -> Callable[[], DataSizes] | None:
    """What is to be known of sizes that are data when the program is compiled; None if there are none."""
    if symbols is None or not symbols.data:
        return None
    before = with_numbers(graph, None)  # as it is before its passes

    def compiled(sizes: Mapping[str, int]) -> Executable:
        with verifying(False):  # an operator may refuse a size that the program does not ask for
            return compile_graph(with_numbers(before, sizes), use_cache=use_cache).fixed

    names = [dim.name for dim in symbols.hints]
    return lambda: DataSizes(names, list(map(guard_to_data, symbols.guards)), compiled)


def _tell(artifact: Artifact) -> None:
    """What RUSHLIGHT_LOG asks to see of a whole program; of one from the cache, also what its passes made."""
    cached = artifact.stages is None
    if cached and any(step.topic is not None and wanted(step.topic) for step in (*GENERATE_PASSES, ASSEMBLE)):
        artifact.stages = artifact.generate()
        if wanted("assembly"):
            logger("assembly").info("%s", engine().assembly(artifact.module.text))
    if wanted("fusion"):
        logger("fusion").info("%s", "\n".join(artifact.schedule.notes))
    if wanted("time"):
        lines = [f"  {name:32} {1e3 * value:9.2f} ms" for name, value in artifact.seconds.items()]
        lines += [f"  {name:32} {count:12,} bytes" for name, count in moved_bytes(artifact.schedule).items()]
        logger("time").info("%s\n%s", "from the cache" if cached else "compiled", "\n".join(lines))
