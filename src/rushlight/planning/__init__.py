"""Planning past this machine: how long a training step takes in many processes, and how much memory each needs.

`plan_parallel(build, mesh, network)` compiles the program of one process of a mesh that need not exist, measures
its kernels here, and lets its collectives, as they stand in the graph, run on a network of four numbers.

    timeline.py   the program of one process: its kernels with their times, and where collectives begin and end
    network.py    what a network costs: latency, bandwidth, overhead of a message
    costs.py      the messages of a collective, round by round, as `comm` sends them
    simulate.py   both together: what is waited for, and how long
    plan.py       the whole, and memory
    calibrate.py  the four numbers of the network that ranks are on, measured
"""

from .network import Network
from .plan import Memory, Plan, RankProgram, compared, plan_parallel, table

__all__ = ["Memory", "Network", "Plan", "RankProgram", "compared", "plan_parallel", "table"]
