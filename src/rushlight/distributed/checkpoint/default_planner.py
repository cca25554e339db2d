"""Planners of one's own for checkpoints: not available."""

from ...core.missing import missing_class

__all__ = ["DefaultLoadPlanner", "DefaultSavePlanner"]

DefaultLoadPlanner, DefaultSavePlanner = (
    missing_class("distributed.checkpoint.default_planner", name, "save and load plan by themselves")
    for name in __all__
)
