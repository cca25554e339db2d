"""Triton: not used, since programs are compiled for the processor."""


def has_triton() -> bool:
    return False


def has_triton_package() -> bool:
    return False
