"""The LLVM backend: typed helpers over llvmlite's builder, vector mathematics, random numbers."""
