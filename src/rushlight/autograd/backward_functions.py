"""The functions that run a plan backwards, written for it.

`values` gives what the formulas' parameters are picked from: gradients, then captures. `applied` gives the
gradients of the inputs, of these values. What depends on the plan alone is decided here, once: this is the way
that every recorded operator takes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..derivatives.declare import GRADS, NEEDS, Plan, Step, Take

Scope = dict[str, Any]


def write_plan(plan: Plan, count: int, scope: Scope) -> None:
    """Write the functions of a plan of an entry with `count` targets; `scope` has what they call."""
    names = {**scope, **{f"f{i}": step.function for i, step in enumerate(plan.steps)}}
    for i, unpack in enumerate(plan.unpack):
        names[f"u{i}"] = unpack
    plan.applied = _written(_applied(plan, count), dict(names))
    plan.values = _written(_values(plan), names)  # last: other threads look whether it is there


def _written(text: str, scope: Scope) -> Callable[..., Any]:
    exec(_code(text), scope)
    found: Callable[..., Any] = scope["run"]
    return found


@functools.cache
def _code(text: str) -> Any:
    """Plans of one form share their code."""
    return compile(text, __name__, "exec")


def _values(plan: Plan) -> str:
    lines = ["saved = node.saved", "if saved is FREED:", "    raise second_time()"]
    values = []
    for source in plan.lead:
        if source == GRADS:
            values.append("tuple(grads)")
        elif source == NEEDS:
            values.append("None")
        else:
            lines += [
                f"g{source} = grads[{source}]",
                f"if g{source} is None:",
                f"    g{source} = zeros(node._meta[{source}])",
            ]
            values.append(f"g{source}")
    if plan.captures:
        lines.append(f"{''.join(f's{i}, ' for i in range(len(plan.captures)))} = saved")
    for i, capture in enumerate(plan.captures):
        if capture[0] is Take.TENSOR:
            lines += [
                f"t = s{i}[0] if type(s{i}) is tuple else None",
                f"if t is None or t._node is not s{i}[2] or t._versions is not None and "
                f"t._versions.value != s{i}[1]:",
                f"    t{i} = u{i}(s{i}, node)",
                "else:",
                f"    t{i} = t",
            ]
            values.append(f"t{i}")
        else:
            values.append(f"s{i}" if plan.unpack[i] is None else f"u{i}(s{i}, node)")
    lines.append(f"return [{', '.join(values)}]")
    return "def run(node, grads):\n" + "".join(f"    {line}\n" for line in lines)


def _applied(plan: Plan, count: int) -> str:
    total = len(plan.lead) + len(plan.captures)
    lines = [f"{''.join(f'v{i}, ' for i in range(total))} = values"] if total else []
    several = [step for step in plan.steps if not step.single]
    if several:
        lines.append("edges = node._next")
    reached = {target for step in plan.steps for target in step.targets}
    found = [f"o{target}" if target in reached else "None" for target in range(count)]
    for i, step in enumerate(plan.steps):
        lines += _one(i, step) if step.single else _several(i, step)
    lines.append(f"return [{', '.join(found)}]")
    return "def run(node, values, wanted):\n" + "".join(f"    {line}\n" for line in lines)


def _one(i: int, step: Step) -> list[str]:
    target = step.targets[0]
    given = ["(True,)" if place == step.needs_at else f"v{place}" for place in step.places]
    return [f"o{target} = f{i}({', '.join(given)}) if wanted is None or wanted[{target}] else None"]


def _several(i: int, step: Step) -> list[str]:
    targets = step.targets
    lines = [
        f"n{target} = edges[{target}] is not None and (wanted is None or wanted[{target}])"
        for target in targets
    ]
    needs = "".join(f"n{target}, " for target in targets)
    outs = "".join(f"o{target}, " for target in targets)
    given = [f"({needs})" if place == step.needs_at else f"v{place}" for place in step.places]
    lines += [
        f"if {' or '.join(f'n{target}' for target in targets)}:",
        f"    {outs} = f{i}({', '.join(given)})",
    ]
    for target in targets:
        lines += [f"    if not n{target}:", f"        o{target} = None"]
    return [*lines, "else:", f"    {' = '.join(f'o{target}' for target in targets)} = None"]
