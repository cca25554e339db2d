"""Scheduling: which definitions share a kernel, how its loops run, and where its buffers lie."""
