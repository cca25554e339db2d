"""Modules as functions of tuples of their parameters."""

from ..func.functional_modules import (
    FunctionalModule,
    FunctionalModuleWithBuffers,
    combine_state_for_ensemble,
    functional_init,
    functional_init_with_buffers,
    make_functional,
    make_functional_with_buffers,
)

__all__ = [
    "FunctionalModule",
    "FunctionalModuleWithBuffers",
    "combine_state_for_ensemble",
    "functional_init",
    "functional_init_with_buffers",
    "make_functional",
    "make_functional_with_buffers",
]
