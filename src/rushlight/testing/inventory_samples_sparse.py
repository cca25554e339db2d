"""Arguments for the derivative inventory of sparse tensors (see inventory_samples).

`s("csr", 2, 4)` is a sparse leaf of that layout that lacks some of its elements, with two dense columns for
"hybrid" and duplicates for "uncoalesced"; `sk` is the same without gradient. `layout("sparse_csr")` is the
token.
"""

from __future__ import annotations

_MATRICES = ("coo", "csr", "csc", "bsr", "bsc")


def _each(text: str, layouts: tuple[str, ...] = _MATRICES) -> list[str]:
    """`text` with its leaf S in every layout."""
    return [text.replace("S", f's("{layout}", 2, 4)') for layout in layouts]


SPARSE_SAMPLES: dict[str, list[str]] = {
    # conversion
    "_to_dense": [
        *_each("S"),
        's("hybrid", 2, 4)',
        's("uncoalesced", 2, 4)',
        "x(2, 3)",
        's("coo", 2, 4), None, False',
        's("csr", 2, 4), None, False',
    ],
    "_to_sparse.sparse_dim": ["x(2, 3), 1", "x(2, 3), 2"],
    "_to_sparse": [
        "x(2, 3)",
        "x(2, 3), dense_dim=1",
        'x(2, 3), layout=layout("sparse_csr")',
        'x(2, 4), layout=layout("sparse_bsc"), blocksize=(1, 2)',
        *_each("S"),
    ],
    "_to_sparse_csr": ["x(2, 3)", "x(2, 3, 2), 1", "x(2, 2, 3)", *_each("S")],
    "_to_sparse_csc": ["x(2, 3)", "x(2, 3, 2), 1", "x(2, 2, 3)", *_each("S")],
    "_to_sparse_bsr": ["x(2, 4), (1, 2)", *_each("S, (2, 2)")],
    "_to_sparse_bsc": ["x(2, 4), (1, 2)", *_each("S, (2, 2)")],
    "sparse_mask": [
        *[f'x(2, 4), sk("{layout}", 2, 4)' for layout in _MATRICES],
        *[f's("{layout}", 2, 4), sk("{layout}", 2, 4)' for layout in _MATRICES],
    ],
    # members
    **{name: ['s("coo", 2, 4)'] for name in ("indices", "_indices", "_values")},
    **{name: ['s("csr", 2, 4)', 's("bsr", 2, 4)'] for name in ("crow_indices", "col_indices")},
    **{name: ['s("csc", 2, 4)', 's("bsc", 2, 4)'] for name in ("ccol_indices", "row_indices")},
    "values": [*_each("S"), 's("hybrid", 2, 4)'],
    "_coalesce": ['s("coo", 2, 4)', 's("uncoalesced", 2, 4)'],
    "_sparse_coo_tensor_with_dims_and_tensors": [
        "2, 0, (2, 3), i([[0, 1, 1], [2, 0, 2]]), x(3)",
        "2, 0, (2, 3), i([[0, 1, 1], [2, 0, 0]]), x(3)",
        "1, 1, (3, 2), i([[0, 2]]), x(2, 2)",
    ],
    "sparse_compressed_tensor.comp_plain_value_size": [
        'i([0, 1, 3]), i([2, 0, 2]), x(3), (2, 3), layout=layout("sparse_csr")',
        'i([0, 1, 1, 2]), i([1, 0]), x(2), (2, 3), layout=layout("sparse_csc")',
        'i([0, 1, 2]), i([1, 0]), x(2, 1, 2), (2, 4), layout=layout("sparse_bsr")',
        'i([0, 1, 2]), i([1, 0]), x(2, 1, 2), (2, 4), layout=layout("sparse_bsc")',
    ],
    # reductions
    "_sparse_sum.dim": [
        's("coo", 2, 4), (0,)',
        's("coo", 2, 4), (0, 1)',
        's("uncoalesced", 2, 4), (1,)',
        *[f's("hybrid", 2, 4), {dims}' for dims in ("(0,)", "(2,)", "(1, 2)", "(0, 1)")],
    ],
    "_sparse_softmax": [
        *[f's("coo", 2, 4), {dim}, False' for dim in (0, 1)],
        *[f's("hybrid", 2, 4), {dim}, False' for dim in (0, 1, 2)],
    ],
    "_sparse_log_softmax": [
        *[f's("coo", 2, 4), {dim}, False' for dim in (0, 1)],
        *[f's("hybrid", 2, 4), {dim}, False' for dim in (0, 1, 2)],
    ],
    # products
    "_sparse_addmm": _each("x(2, 3), S, x(4, 3), beta=0.5, alpha=1.5"),
    "_sparse_sparse_matmul": [
        f's("{layout}", 2, 4), s("{layout}", 4, 2)' for layout in ("coo", "csr", "csc")
    ],
    "sparse_sampled_addmm": [
        's("csr", 2, 4), x(2, 3), x(3, 4), beta=0.5, alpha=1.5',
        's("csc", 2, 4), x(2, 3), x(3, 4), beta=0.5, alpha=1.5',
    ],
    "_sparse_mm_reduce_impl": [
        f's("csr", 2, 4), x(4, 3), "{reduce}"' for reduce in ("sum", "mean", "amax", "amin")
    ],
}
