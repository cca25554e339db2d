"""Every threshold of scheduling: its value, its unit, why, and where a change of it shows.

"(training)" names the file in benchmarks/ whose rows to run before and after a change; a value without one
follows from what the code does with it. "Instructions" are those of `loops.expr.cost`: an addition is one.
"""

from __future__ import annotations

# Tasks; how their number follows from the work is in loops/plans.py, since it is worked out at calls, too.

SERIAL_WORK = 800_000  # instructions below which waking threads costs more than they save (compiled)
VECTOR_ROWS = 64  # points of a vectorized loop that tasks are cut at: no vector reaches into the next task
LINE_ROWS = 32  # rows of a transpose that tasks are cut at: whole cache lines of any dtype

# Transposes.

TRANSPOSE_BLOCK = 64  # points along which a block runs: so many cache lines are in use
TRANSPOSE_SQUARE = 16  # points from which transposing in registers is worth it
TRANSPOSE_ROWS = 8  # points of the loop across, at least
FAR_STRIDE = 16  # elements from which neighbours lie in different cache lines

# Fusion.

FEW_NUMBERS = 16  # elements of what counts as a few numbers, the scale factors of an optimizer for example
MANY_READERS = 8  # readers of a few numbers from which they say nothing about who belongs together
SLIGHT = 1024  # times more elements in a map than in what it shares, for that to be next to nothing
LARGE_MAP = 1 << 16  # elements of a map from which the number of rows matters
FEW_ROWS = 64  # rows that a large map has at least: tasks are made of rows
SHORT_ROW = 16  # elements that its rows have at least: vectors run along them

# Nests.

CHEAP_ROW = 2  # instructions an element up to which a row is computed again rather than stored and loaded
# Bytes of the row temporaries of a nest, on the stack of the thread that runs the row; longer rows would not
# stay in the core's second level of cache either, and are kept in the workspace.
ROW_BYTES = 1 << 18

# What is kept for later.

WORTH_SAVING = 12  # instructions of a function saved instead of its argument: a transcendental function
CHEAP_AGAIN = 2  # instructions up to which a map of a product is computed again by its readers
SMALL_BESIDE = 8  # times smaller than the product is what else such a map may read
LONG_WAIT = 16 << 20  # bytes touched between write and read, from which a result is in no cache any more
LARGE_RESULT = 1 << 18  # bytes of a result that is worth storing past the caches (training)

# Reductions in parts.

FEW_RESULTS = 16  # results below which a reduction has not a task for each
PART = 1 << 14  # elements that a part has at least
LARGE_PARTS = 4  # parts that a reduction must have elements for
SHORTEST_LOOP = 8  # points of the loop that is cut
MOST_PARTS = 512  # of a reduction with few results: the fewer terms a part has, the less it rounds
VECTOR_PART = 64  # elements that parts are cut at: whole vectors
TALL = 1 << 16  # elements of a matrix that is read in bands of rows rather than in columns,
MOST_TALL = (
    1 << 22
)  # and of one that may be read in columns because it was small in the call that was captured
MOST_ROWS = 1 << 11  # of such a one: each column is a sum of one term after the other, which rounds as often
BAND = 16  # rows of a band
NARROW = 256  # columns up to which a matrix is read in bands whoever else reads it,
HIGH = 1024  # if it has so many rows: its columns would not stay in cache

# Chains: one task runs a share of the work through several steps.

FEWEST_SHARES = 8  # a share runs on one thread
SHARE_BYTES = 1 << 19  # of all that a share touches: the second level of a core's cache
AHEAD = 32  # steps that are looked at for further links: longer searches take compile time

# Stages and memory.

LARGE_FILL = 1 << 14  # elements of a fill that runs right before its reader, to be in cache then
SHORT_ROWS_END = 32  # columns up to which it is not worth finding where rows of a triangle end
LARGE_BUFFER = 4096  # bytes from which the memory of a temporary is worth reusing in place
