"""Running native code: the JIT engine, the object cache on disk, the thread pool and addresses of library routines."""
