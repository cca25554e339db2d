"""The passes of planning, in the order they run: from a schedule to the plans of its kernels and their memory.

Each takes a `PlannedProgram` and gives one with more in it; `begin_planning` makes the first, in which no
kernel has a plan.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..core.passes import Pass
from ..loops.kernels import Product, Scan, Scatter, Sort
from ..loops.plans import LoopPlan
from ..loops.program import Chain, Program, steps_of
from ..runtime.target import Target
from .causal_bounds import bound_rows
from .loops import plan_nest
from .memory import lay_out_memory
from .nest import NestPlan
from .program import KernelPlan, PlannedProgram
from .scan import plan_scan
from .scatter import plan_scatter
from .sharing import kernel_key, shared_instructions
from .sorting import plan_sort
from .tiling import plan_product


def begin_planning(schedule: Program, target: Target) -> PlannedProgram:
    """The program before planning."""
    return PlannedProgram(schedule, target)


def plan_nests(program: PlannedProgram) -> PlannedProgram:
    """Vector width, tail, interleaved rows and prefetches of each loop nest."""
    loops = [step for step in program.steps if isinstance(step, LoopPlan)]
    return program.with_plans({step.name: plan_nest(step, program.target) for step in loops})


def plan_products(program: PlannedProgram) -> PlannedProgram:
    """Tile, blocks, packing, tasks and epilogue of each matrix product."""
    plans: dict[str, KernelPlan] = {}
    for stage in program.stages:
        for unit in stage.units:
            shares = unit.shares if isinstance(unit, Chain) else 0
            for step in steps_of(unit):
                if isinstance(step, Product):
                    plans[step.name] = plan_product(step, program.target, shares)
    return program.with_plans(plans)


def plan_templates(program: PlannedProgram) -> PlannedProgram:
    """Scans, scatters and sorts."""
    plans: dict[str, KernelPlan] = {}
    for step in program.steps:
        match step:
            case Scan():
                plans[step.name] = plan_scan(step, program.target)
            case Scatter():
                plans[step.name] = plan_scatter(step, program.target)
            case Sort():
                plans[step.name] = plan_sort(step, program.target)
    return program.with_plans(plans)


def share_code(program: PlannedProgram) -> PlannedProgram:
    """Which nests have the same code, and which instructions become functions of their own."""
    first: dict[Any, NestPlan] = {}
    code_of: dict[str, str] = {}
    for step in program.steps:
        plan = program.plans.get(step.name)
        if type(plan) is NestPlan:
            code_of[plan.name] = first.setdefault(kernel_key(plan), plan).name
    shared = shared_instructions(plan.nest for plan in first.values())
    return replace(program, code_of=code_of, shared=shared)


PLAN_PASSES: tuple[Pass, ...] = (
    Pass("plan products", plan_products, PlannedProgram.verify_plans, str),
    Pass("plan nests", plan_nests, PlannedProgram.verify_plans, str),
    Pass("plan templates", plan_templates, PlannedProgram.verify_plans, str),
    Pass("bound rows", bound_rows, PlannedProgram.verify_plans, str),
    Pass("share code", share_code, PlannedProgram.verify_plans, str),
    Pass("lay out memory", lay_out_memory, PlannedProgram.verify, str, topic="plan"),
)


def plan_program(schedule: Program, target: Target) -> PlannedProgram:
    """All passes of planning, one after the other."""
    program = begin_planning(schedule, target)
    for each in PLAN_PASSES:
        program = each.run(program)
    return program
