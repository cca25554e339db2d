"""How kernels run on a target: decisions taken once, as values that can be printed, checked and emitted.

In: the kernels of a schedule and a `Target`. Out: a `PlannedProgram`, a plan for each kernel and the layout of
their memory. Code generation is a function of it and takes no decision of its own.
"""
