"""Leaves of either library, made of their values."""


def leaf(m, *values, **options):
    return m.tensor(list(values), requires_grad=True, **options)
