"""Which operators may have native kernels, and of what kind."""

from __future__ import annotations

from ..core.registry import Kind, OpDef

# Composites that are one kernel when nobody is to see the operators that they consist of, beside those with a
# derivative of their own, gradients, and operators over lists of tensors.
_COMPOSITES = """
_scaled_dot_product_attention_math _thnn_fused_lstm_cell _thnn_fused_lstm_cell_backward_impl
adaptive_avg_pool2d batch_norm conv1d conv2d conv3d cosine_similarity
cross_entropy_loss group_norm hstack instance_norm kl_div l1_loss layer_norm linear log_softmax.int matmul
max_pool1d max_pool2d max_pool3d native_batch_norm nll_loss nll_loss_nd norm.ScalarOpt_dim outer rms_norm
scaled_dot_product_attention softmax.int sort square tensordot upsample_bilinear2d upsample_bilinear2d.vec
upsample_nearest2d.vec var.dim vstack
"""
COMPOSITES = frozenset(_COMPOSITES.split())

# Operators whose kernels are made for one set of sizes. With sizes that change, dividing indices by them takes
# longer than all else in gradients of pooling and in gates of cells, and proving where windows end takes long in
# convolutions.
_OF_ONE_SIZE = """
_max_pool2d_gradient _max_pool3d_gradient _thnn_fused_lstm_cell _thnn_fused_lstm_cell_backward_impl
conv1d conv2d conv3d convolution convolution_backward mkldnn_rnn_layer mkldnn_rnn_layer_backward
"""
OF_ONE_SIZE = frozenset(_OF_ONE_SIZE.split())


# Operators whose kernels square in single precision what NumPy's and PyTorch's square in double: they would
# overflow where the result does not.
_SQUARED = frozenset(("std", "std_mean"))

# Operators whose code is so long that making it takes seconds.
_TOO_LONG = ("adaptive_max_pool", "miopen_rnn", "_cudnn_rnn", "lstm_mps")


def may_have_kernel(op: OpDef) -> bool:
    if op.name.startswith(_TOO_LONG) or op.random or op.data_dependent or op.family == "library":
        return False
    if op.schema.name in _SQUARED:
        return False
    if any(a.type.base == "Scalar" and a.type.is_list for a in op.schema.arguments):
        return False  # numbers that differ from call to call, and are no operands of their own
    if op.kind is Kind.COMPOSITE:
        name = op.schema.name
        return (
            op.derivative is not None
            or op.name in COMPOSITES
            or name.startswith("_foreach_")
            or name.endswith(("_backward", "_gradient"))
        )
    return op.kind is Kind.STRUCTURAL or (op.kind is Kind.POINTWISE and op.body is not None)
