"""Messages between processes: MPI carries bytes, and what is reduced is reduced here, in the order of ranks.

`mpi.py` finds MPI and the processes, `group.py` is a group of them, `exchange.py` has every collective as a
generator of requests, `pending.py` runs these to their end, `reductions.py` combines what arrived.
"""
