"""Errors of processes that a launcher has started."""
