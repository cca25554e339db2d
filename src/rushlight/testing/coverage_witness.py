"""Arguments with which coverage calls operators, in the words of inventory_samples.

Operators of the derivative table have theirs there. Those named here are the others whose arguments do not
follow from the schema.
"""

from __future__ import annotations

_RNN = "[x({rows}, 1), x({rows}, 2), x({rows}), x({rows})], True, 1, 0.0, False, False"
_CELLS = {"lstm": 8, "gru": 6, "rnn_tanh": 2, "rnn_relu": 2}
_NORM = "x(4, 3, 2), x(3), x(3), k(3), p(3)"
_STATS = "x(4, 3, 2), x(3), x(3), k(3), n(3)"
_SIZES = {
    "1d": ("x(1, 2, 5)", "(7,)"),
    "2d": ("x(1, 2, 3, 4)", "(5, 2)"),
    "3d": ("x(1, 2, 3, 2, 4)", "(2, 5, 3)"),
}
_HEADS = "x(1, 2, 3, 2), x(1, 2, 4, 2), x(1, 2, 4, 2)"
_GRIDS = {
    "": "0.1, 2",
    "tensor": "u(1).detach().float(), i([2])",
    "channel": "u(3).detach().float(), i([2, 0, -4]), 1",
}
_ENDS = {"Scalar_Tensor": "0.3, k()", "Tensor_Scalar": "k(), 0.3", "Tensor_Tensor": "k(), k()"}
_COLLECTIVES = {
    "all_reduce": "x(2, 3), 'sum', '0'",
    "all_reduce_": "x(2, 3), 'sum', '0'",
    "all_reduce_coalesced": "[x(2, 3)], 'sum', '0'",
    "all_reduce_coalesced_": "[x(2, 3)], 'sum', '0'",
    "all_gather_into_tensor": "x(2, 3), 1, '0'",
    "all_gather_into_tensor_coalesced": "[x(2, 3)], 1, '0'",
    "all_gather_into_tensor_out": "x(2, 3), 1, '0', out=k(2, 3)",
    "reduce_scatter_tensor": "x(2, 3), 'sum', 1, '0'",
    "reduce_scatter_tensor_coalesced": "[x(2, 3)], 'sum', 1, '0'",
    "reduce_scatter_tensor_out": "x(2, 3), 'sum', 1, '0', out=k(2, 3)",
    "all_to_all_single": "x(2, 3), (2,), (2,), '0'",
    "broadcast": "x(2, 3), 0, '0'",
    "broadcast_": "x(2, 3), 0, '0'",
    "wait_tensor": "x(2, 3)",
    "isend": "x(2, 3), 0, 0, '0'",
    "irecv": "x(2, 3), 0, 0, '0'",
    "batch_p2p_ops": "['isend'], (0,), (0,), [x(2, 3)], '0'",
}


def _vec(name: str) -> str:
    image, size = _SIZES[next(rank for rank in _SIZES if rank in name)]
    aligned = "" if "nearest" in name else ", False"
    return f"{image}, {size}{aligned}, None"


def _network(name: str) -> dict[str, str]:
    states = "[x(1, 2, 2), x(1, 2, 2)]" if name == "lstm" else "x(1, 2, 2)"
    rest = _RNN.format(rows=_CELLS[name])
    return {
        f"{name}.input": f"x(2, 2, 1), {states}, {rest}, False",
        f"{name}.data": f"x(3, 1), i([2, 1]), {states}, {rest}",
    }


WITNESSES: dict[str, str] = {
    # numbers
    "item": "x(1)",
    "_local_scalar_dense": "x(1)",
    # bits
    **{
        f"__{name}__.{kind}": f"z(2, 3), {'2' if kind == 'Scalar' else 'z(2, 3)'}"
        for name in ("and", "or", "xor", "lshift", "rshift")
        for kind in ("Scalar", "Tensor")
    },
    # matmul
    "_addmm_activation": "x(2, 4), x(2, 3), x(3, 4), use_gelu=True",
    "_int_mm": "i8(2, 3), i8(3, 4)",
    "addmm.dtype": "x(2, 4), x(2, 3), x(3, 4), float64",
    "baddbmm.dtype": "x(2, 2, 4), x(2, 2, 3), x(2, 3, 4), float64",
    "bmm.dtype": "x(2, 2, 3), x(2, 3, 4), float64",
    "mm.dtype": "x(2, 3), x(3, 4), float64",
    "_grouped_mm": "x(5, 3), x(2, 3, 4), i([2, 5])",
    "_scaled_mm": "x(2, 3), x(3, 4), p(), p()",
    "_weight_int8pack_mm": "x(2, 3), i8(4, 3), x(4)",
    # normalization
    "_batch_norm_no_update": f"{_NORM}, 0.1, 1e-3",
    "_batch_norm_with_update": f"{_STATS}, 0.1, 1e-3",
    "_batch_norm_with_update_functional": f"{_STATS}, 0.1, 1e-3",
    "_native_batch_norm_legit_functional": f"{_STATS}, True, 0.1, 1e-3",
    "batch_norm_backward": "x(4, 3), x(4, 3), x(3), None, None, k(3), p(3), True, 1e-3, (True, True, "
    "True), k(0)",
    "_fused_rms_norm": "x(2, 3), (3,), x(3), 1e-3",
    "_fused_rms_norm_backward": "x(2, 3), x(2, 3), (3,), p(2, 1), x(3), (True, True)",
    "_weight_norm_interface_backward": "x(3, 2), x(3, 2), x(3, 1), p(3, 1), 0",
    "native_group_norm_backward": "x(2, 4, 3), x(2, 4, 3), k(2, 2), p(2, 2), x(4), 2, 4, 3, 2, (True, "
    "True, True)",
    # conv, resample, pooling
    "_convolution.deprecated": "x(2, 4, 5), x(6, 2, 3), x(6), (2,), (1,), (1,), False, (0,), 2, False, "
    "False, False",
    "channel_shuffle": "x(1, 4, 2), 2",
    "grid_sampler_2d_backward": "x(1, 2, 2, 2), x(1, 2, 4, 3), x(1, 2, 2, 2), 0, 0, False, (True, True)",
    **{
        f"{mark}upsample_{kind}.vec": _vec(kind)
        for mark, kinds in (
            (
                "",
                ("linear1d", "bilinear2d", "bicubic2d", "trilinear3d", "nearest1d", "nearest2d", "nearest3d"),
            ),
            (
                "_",
                (
                    "bilinear2d_aa",
                    "bicubic2d_aa",
                    "lanczos2d_aa",
                    "nearest_exact1d",
                    "nearest_exact2d",
                    "nearest_exact3d",
                ),
            ),
        )
        for kind in kinds
    },
    # embedding
    "_embedding_bag_backward": "x(2, 3), i([0, 2, 0]), i([0, 1]), i([0, 1, 1]), i([1, 2]), i([0, 1]), 4, "
    "False, 0, "
    "False, x(3)",
    "_embedding_bag_forward_only": "x(4, 3), i([0, 2, 0]), i([0, 1]), False, 0, False, x(3)",
    "_embedding_bag_per_sample_weights_backward": "x(2, 3), x(4, 3), i([0, 2, 0]), i([0, 1]), i([0, 1, "
    "1]), 0",
    # recurrent, attention
    **{key: text for name in _CELLS for key, text in _network(name).items()},
    "_scaled_dot_product_flash_attention_for_cpu": _HEADS,
    "_scaled_dot_product_attention_math_for_mps": _HEADS,
    "_scaled_dot_product_cudnn_attention": f"{_HEADS}, x(1, 2, 3, 4), True",
    "_scaled_dot_product_fused_attention_overrideable": f"{_HEADS}, x(1, 2, 3, 4)",
    "_scaled_dot_product_flash_attention_backward": f"x(1, 2, 3, 2), {_HEADS}, x(1, 2, 3, 2), p(1, 2, 3), "
    f"k(0), k(0), 3, 4, 0.0, False, k(0), k(0)",
    "_scaled_dot_product_cudnn_attention_backward": f"x(1, 2, 3, 2), {_HEADS}, x(1, 2, 3, 2), p(1, 2, 3), "
    f"k(0), k(0), "
    "x(1, 2, 3, 4), k(0), k(0), 3, 4, 0.0, False",
    "_scaled_dot_product_efficient_attention_backward": f"x(1, 2, 3, 2), {_HEADS}, x(1, 2, 3, 4), x(1, 2, "
    f"3, 2), "
    "p(1, 2, 3), k(0), k(0), 0.0, (True, True, True, True)",
    "_scaled_dot_product_fused_attention_overrideable_backward": f"x(1, 2, 3, 2), {_HEADS}, x(1, 2, 3, 4), "
    f"(True, "
    "True, True, True), x(1, 2, 3, 2), p(1, 2, 3), k(0), k(0), 3, 4, 0.0, False, k(0), k(0)",
    # foreach
    "_foreach_pow.Scalar": "[p(2, 3), p(3)], 1.3",
    **{f"_foreach_{name}": "[p(2, 3), p(3)]" for name in ("sqrt", "rsqrt")},
    # indexing, sorting, counting
    "_histogramdd_bin_edges": "k(5, 2), (3, 2)",
    "_histogramdd_from_bin_cts": "k(5, 2), (3, 2)",
    "_segment_reduce_backward": "x(2), k(2), x(5), 'sum', lengths=i([2, 3])",
    "_unsafe_masked_index": "x(4, 3), m(4, 3), [i([0, 2, 0, 1]).unsqueeze(1), i([0, 2, 1])], 0.5",
    "_unsafe_masked_index_put_accumulate": "x(4, 3), m(4, 3), [i([0, 2, 0, 1]).unsqueeze(1), i([0, 2, "
    "1])], x(4, 3)",
    "bincount": "z(5)",
    "bucketize.Scalar": "1.3, n(4)",
    "bucketize.Tensor": "x(2, 3), k(5).sort()[0]",
    "searchsorted.Tensor": "k(2, 5).sort()[0], x(2, 3)",
    "searchsorted.Scalar": "k(5).sort()[0], 0.3",
    "masked_scatter_backward": "x(2, 3), m(2, 3), (6,)",
    "repeat_interleave.Tensor": "i([1, 2])",
    **{
        f"scatter{mark}.reduce": "x(2, 3), 1, i([[0, 2], [1, 0]]), x(2, 2), reduce='add'"
        for mark in ("", "_")
    },
    **{
        f"scatter{mark}.value_reduce": "x(2, 3), 1, i([[0, 2], [1, 0]]), 0.5, reduce='multiply'"
        for mark in ("", "_")
    },
    **{
        f"where.{kind}": f"m(2, 3), {values}"
        for kind, values in (
            ("Scalar", "0.5, 1.3"),
            ("ScalarOther", "x(2, 3), 0.5"),
            ("ScalarSelf", "0.5, x(2, 3)"),
        )
    },
    "_functional_assert_async.msg": "m(1), 'as expected', k(2)",
    "_assert_async.msg": "m(1), 'as expected'",
    # linalg
    "linalg_ldl_factor_ex": "hermitian(3)",
    "linalg_ldl_solve": "lower(3), i32([1, 2, 3]), x(3, 2)",
    # creation and random
    **{f"linspace.{kind}": f"{ends}, 4" for kind, ends in _ENDS.items()},
    **{f"logspace.{kind}": f"{ends}, 4" for kind, ends in _ENDS.items()},
    "randint.low": "1, 9, (2, 3)",
    "randint.low_generator": "1, 9, (2, 3), generator=None",
    "randint_like.Tensor": "k(2, 3), i(9)",
    "randint_like.Tensor_generator": "k(2, 3), i(9), generator=None",
    "randint_like.low_dtype": "k(2, 3), 1, 9",
    "randint_like.low_generator_dtype": "k(2, 3), 1, 9, generator=None",
    # loss and activation
    "logit_backward": "x(2, 3), u(2, 3)",
    "nll_loss": "x(2, 3), i([1, 0])",
    "prelu": "x(2, 3), x(3)",
    **{
        f"float_power.{kind}": f"p(2, 3), {other}"
        for kind, other in (("Tensor_Scalar", "1.3"), ("Tensor_Tensor", "x(2, 3)"))
    },
    "_fused_moving_avg_obs_fq_helper_functional": "x(2, 3), i([1]), i([1]), k(1).float(), k(1).float() + 1, "
    "k(1).float(), i([1]).int(), 0.1, -5, 4, 0",
    "_amp_update_scale": "k(1).float(), i([1]).int(), k(1).float(), 2.0, 0.5, 3",
    **{
        f"quantized_decomposed::{name}.{kind}".removesuffix("."): f"{value}, {_GRIDS[kind]}, -128, 127, int8"
        for name, value in (("quantize_per_tensor", "k(2, 3).float()"), ("dequantize_per_tensor", "i8(2, 3)"))
        for kind in ("", "tensor")
    },
    "quantized_decomposed::quantize_per_channel": f"k(2, 3).float(), {_GRIDS['channel']}, -128, 127, int8",
    "quantized_decomposed::dequantize_per_channel": f"i8(2, 3), {_GRIDS['channel']}, -128, 127, int8",
    # special
    **{f"special_gamma{name}": "p(2, 3), p(2, 3)" for name in ("inc", "incc")},
    # shape
    "expand_copy": "x(2, 1), (2, 3)",
    "meshgrid": "[x(2), x(3)]",
    "meshgrid.indexing": "[x(2), x(3)], indexing='xy'",
    "permute_copy": "x(2, 3), (1, 0)",
    "reshape": "x(2, 3), (3, 2)",
    "resize": "x(2, 3), (2, 2)",
    "resize_as": "x(2, 3), k(4, 2)",
    "_assert_tensor_metadata": "k(2, 3), (2, 3)",
    "split.sizes": "x(2, 3), (1, 2), 1",
    "split_with_sizes_copy": "x(2, 3), (1, 2), 1",
    "view.dtype": "x(2, 4), int64",
    "view_copy": "x(2, 3), (3, 2)",
    "view_copy.dtype": "x(2, 4), int64",
    # collectives, in a group of one process
    **{f"_c10d_functional::{name}": text for name, text in _COLLECTIVES.items()},
}
