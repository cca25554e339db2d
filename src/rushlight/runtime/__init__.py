"""Running native code.

The JIT engine, the object cache on disk, the thread pool and addresses of library routines.
"""
