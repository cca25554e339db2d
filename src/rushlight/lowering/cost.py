"""Every threshold of lowering: its value, its unit, why, and where a change of it shows.

"(compiled)" names the file in benchmarks/ whose rows to run before and after a change; a value without one
follows from what the code does with it. "Instructions" are those of `loops.expr.cost`: an addition is one.
"""

from __future__ import annotations

# Expressions.

DEEPEST = 100  # operators in a row of which one expression is made; it is built by recursion
CHEAP = 4  # instructions up to which each user computes a value again: loading it takes as long (compiled)
CHEAP_INDEX = 16  # the same of what is computed from its index alone, which varies along few loops
MANY_TIMES = 64  # that an element is used, for a division to be made once
# Elements of a tensor, and instructions up to which it is computed again by its users, where nothing but one
# tensor of its size has to be read for that: it would not be in a cache any more (training: conv net).
LARGE, CHEAPER_THAN_MEMORY = 1 << 16, 8

# Parts.

SMALL = (
    256  # elements of a result that is chosen from its parts element by element: one kernel, not one a part
)
MOST_CHOSEN = 4  # parts of such a concatenation: each is a comparison an element
MOST_ROLLED = 2  # dimensions that are rolled by moving blocks: each doubles their number

# Membership.

FEW_VALUES = 32  # values that are compared one by one; more are sorted and searched

# Convolutions (training: conv net).

FEW_POSITIONS = (
    64  # positions of an image below which all images are one matrix: a product would have few rows
)
FEW_PRODUCTS = 16  # channels in times channels out of a group, for which a product would waste its vectors
LONG_SUM = 4096  # terms of a sum above which each image has one of its own: tasks share images
