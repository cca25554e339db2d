"""How long a process waits for the others."""

from ..comm.group import DEFAULT_TIMEOUT

__all__ = ["default_pg_timeout"]

default_pg_timeout = DEFAULT_TIMEOUT
