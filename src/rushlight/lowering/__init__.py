"""Lowering: graph operators become definitions of buffers, as loops over recorded scalar bodies or as calls."""
