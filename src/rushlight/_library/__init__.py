"""Operators that programs define: what `rushlight.library` is made of."""
