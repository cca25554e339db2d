"""Every threshold of planning: its value, its unit, why, and where a change of it shows.

"(matmul)" names the file in benchmarks/ whose rows to run before and after a change; groups of values name it
once, at their heading. A value without one follows from sizes of caches, registers or buffers.
"""

from __future__ import annotations

# Nests: vectors.

MOST_REGISTERS = 4  # registers of a vector: hides the latency of an instruction (compiled: activations)
LONG_FOLD_REGISTERS = 2  # the same where what is folded takes LONG_FOLD or more
LONG_FOLD = 12  # instructions that hide the latency of a fold themselves (compiled: softmax)
FEW_STREAMS, MANY_STREAMS = 4, 8  # addresses in use up to which four, and two, registers do not spill
WASTE = 8  # a wider vector may compute an eighth of the loop twice, not more
LIMITED_REGISTERS = 2  # of a vector in rows that end early: wider ones would end later (training: GPT)

# Nests: the end of a loop, and transposes.

LONG_BODY = 12  # instructions from which a mask in every turn costs less than a second copy of the body
SQUARE_REGISTERS = 2  # registers along each side of a group of squares: they fill whole cache lines on both
SQUARE_BODY = 32  # instructions up to which a copy for every lane costs less than gathering; transposes

# Nests: rows.

MOST_ROWS = 8  # rows that take each step together (compiled: softmax, layer norm)
GROUP_BYTES = 1 << 14  # bytes of such rows: they stay in the first cache from one step to the next
ROW_BYTES = 1 << 14  # bytes of a row that is prefetched: it stays in the first cache until it is used

STACK_BYTES = 1 << 18  # bytes of the row temporaries of all rows that run together: they are on the stack

# Instructions.

# Instructions from which the code of one becomes a function of its own if a module uses it more than once;
# a shorter one takes not much longer than a call, around which no register keeps its contents.
WORTH_SHARING = 12
CALLED_TOO_OFTEN = ("exp", "exp_nonpositive")

# Constants of long polynomials (vector_math).

FEW_REGISTERS = 16  # vector registers, too few for the constants of two functions: they are in memory
MANY_COEFFICIENTS = 4  # coefficients of a polynomial from which that holds

# Products: tasks.

TASK_FLOPS = 800_000  # floating-point operations that are worth handing to another thread (matmul)
MOST_PRODUCT_TASKS = 64  # tasks of a product
SERIAL_COST = 4  # relative time of a single task, which leaves other threads idle
UNEVEN_PANELS = 1.01  # relative time where tasks differ in panels: epilogues run in narrower vectors

# Products: blocking (matmul; training: conv net).

DEPTH_BLOCK = 1024  # of the depth: a panel of the right operand and rows of the left stay in the second level
WINDOWS_BLOCK = 576  # of the depth, where rows of the left operand overlap, and are far from each other
ACROSS_BLOCK = 96  # of the depth, where a tile uses little of a line: it stays in the first level
CHUNK_ROWS = 96  # rows of the left operand, as deep as a block, that stay in the second level
TRIANGLE_TILES = 2  # tiles of a chunk of one depth, where rows of the left operand differ in it
EDGE_BYTES = 32768  # bytes on the stack for a chunk of edge tiles of one panel
MOST_HEIGHT = 16  # rows of a tile that the driver has offsets for
EPILOGUE_PANELS = 4  # panels after which an epilogue runs on their tiles: they are in the second level still
EPILOGUE_BYTES = 128  # bytes an epilogue computes side by side; more do not stay in registers

# Products: tiles.

MANY_REGISTERS = 32  # vector registers from which the larger tiles hold their sums
STEP_SUMS = 2  # sums whose time a step of a kernel takes besides those of its tile (matmul)
FEW_ROWS = 3  # rows up to which a tile has all of them, and more vectors
# Rows and vectors of the tiles to choose from, with the relative time of a multiplication: as many sums
# as registers hold, beside a row of the panel and one element (matmul).
TILES_MANY_REGISTERS = {(6, 4): 1.0, (8, 2): 1.0}
TILES = {(6, 2): 1.0, (4, 3): 1.06}
# Vectors of a tile of few rows, and of one where it has a single row or registers are many.
FEW_ROWS_VECTORS, ONE_ROW_VECTORS = 4, 8
MANY_SUMS = 16  # vectors of a tile, that take as long as it takes to fetch a line
FETCHED_STEPS = 32  # steps of a kernel, which take as long as it takes to fetch a line
FEW_LINES = 8  # cache lines of a tile that are fetched at once; more would hold up what the sums need
MOST_OTHERS = 3  # matrices that go with the result: a parameter and two moments of an optimizer
DOT_ROWS = 64  # rows up to which packing a transposed right operand costs more than the product

# Products: packing (matmul).

ENOUGH_ROWS = 128  # rows that use a panel, for copying it to pay
ENOUGH_DEPTH = 64  # depth of a panel, for copying it to pay
FEW_PANELS = 4  # panels up to which rows are near each other as they are, but for:
# Bytes between rows from which a panel has a quarter of the sets of the first level, or less; and the depth, and
# rows that use a panel, from which that costs more than a copy even if the left operand is not read across.
FAR_BYTES, FAR_DEPTH, FAR_ROWS = 1024, 512, 256
LEFT_ROWS, LEFT_DEPTH = 48, 48  # rows and depth of a left operand, for copying its tiles to pay
LEFT_COLUMNS, LEFT_COLUMNS_MANY_SUMS = 64, 1024  # columns of the result that use such a copy
COPIED_BYTES = 2048  # bytes that a task of copying reads of each k, which may be a page apart
COPIED_DEPTH = 128  # depth that a task of copying packs
TRANSPOSED_SLABS = 4  # slabs that a task of transposing packs

MOST_LANES = 64  # lanes of a vector on any machine, by which room for packed operands is rounded up

# Scans, scatters and sorts.

LONG_STEP = 12  # instructions of a step of a scan from which each lane runs a row of its own
MANY_ROWS = 16  # rows of such a scan that fill the lanes
POINT_WORK = 4  # instructions of a point of a scatter, apart from what it computes
WHOLE_ROWS = 64  # points of which a task's share of the last loop is a multiple: no vector or line is cut
MOST_SELECTED = 64  # elements of a row that are selected in one pass over it (sorting)
FEW_SELECTED = 8  # a selection takes an eighth of the row at most: more is sorted
BATCH = 8  # rows that a network sorts side by side: a vector of 8-byte elements on the widest machine
DIGITS = 256  # values of a digit of a radix sort, a byte: its counters fill half of the first level of cache
MOST_IN_NETWORK = 1024  # elements of a row that a network sorts sooner than digits do (sorting)
NETWORK_ROWS, SHORT_ROW = 4, 64  # rows, or elements of a row, from which and up to which a batch of rows pays
MOST_SORT_TASKS = 32  # tasks of a sort
FEW_SORT_TASKS = 8  # the same with rows of more than LONG_ROW elements: each task has scratch memory
LONG_ROW = 65536  # elements
SELECT_WORK, NETWORK_WORK, RADIX_WORK = 1, 16, 32  # instructions an element

# Memory.

LARGE_BUFFER = 4096  # bytes of a temporary that is placed by its size; smaller ones have a place of their own
