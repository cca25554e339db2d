"""Arguments for the derivative inventory of activations, losses and normalizations (see inventory_samples).

`by(t, f)` is f(t) without gradient: a value that a backward operator gets besides t and that follows from it.
"""

from __future__ import annotations

_NLL = "i([1, 0])"
_NLL2 = "i([[[1, 0]], [[2, 1]]])"
_STATS = "k(3), p(3)"

NN_SAMPLES: dict[str, list[str]] = {
    # activation
    "elu_backward": ["x(2, 3), 1.3, 1.1, 0.7, False, x(2, 3)", "x(2, 3), 1.3, 1.1, 0.7, True, x(2, 3)"],
    "gelu": ["x(2, 3)", "x(2, 3), approximate='tanh'"],
    "gelu_backward": ["x(2, 3), x(2, 3)", "x(2, 3), x(2, 3), approximate='tanh'"],
    "hardshrink": ["x(2, 3), 0.4"],
    "hardshrink_backward": ["x(2, 3), x(2, 3), 0.4"],
    "hardtanh": ["x(2, 3), -0.4, 0.5"],
    "hardtanh_backward": ["x(2, 3), x(2, 3), -0.4, 0.5"],
    "leaky_relu_backward": ["x(2, 3), x(2, 3), 0.2, False"],
    "log_sigmoid_backward": ["x(2, 3), (s := x(2, 3)), by(s, lambda v: (-v.abs()).exp())"],
    "_prelu_kernel": ["x(2, 3), x(3)"],
    "_prelu_kernel_backward": ["x(2, 3), x(2, 3), x(2, 3)"],
    "rrelu_with_noise": ["x(2, 3), k(2, 3), 0.2, 0.6, False", "x(2, 3), k(2, 3), 0.2, 0.6, True"],
    "rrelu_with_noise_": ["x(2, 3), k(2, 3), 0.2, 0.6, True"],
    "rrelu_with_noise_backward": [
        "x(2, 3), x(2, 3), k(2, 3), 0.2, 0.6, False, False",
        "x(2, 3), x(2, 3), k(2, 3), 0.2, 0.6, True, False",
    ],
    "softplus": ["x(2, 3)", "x(2, 3), 2.0, 0.5"],
    "softplus_backward": ["x(2, 3), x(2, 3), 1.5, 20.0", "x(2, 3), x(2, 3), 2.0, 0.5"],
    "softshrink": ["x(2, 3), 0.4"],
    "softshrink_backward": ["x(2, 3), x(2, 3), 0.4"],
    "threshold": ["x(2, 3), 0.1, 0.3"],
    "threshold_": ["x(2, 3), 0.1, 0.3"],
    # loss
    **{
        name: ["x(2, 3), x(2, 3)", "x(2, 3), x(2, 3), 0", "x(2, 3), x(2, 3), 2"]
        for name in ("mse_loss", "soft_margin_loss")
    },
    **{
        name: ["x(2, 3), x(2, 3), 1, 0.5", "x(2, 3), x(2, 3), 0, 0.5"]
        for name in ("smooth_l1_loss", "huber_loss")
    },
    **{
        f"{name}_backward": ["x(), x(2, 3), x(2, 3), 1", "x(2, 3), x(2, 3), x(2, 3), 0"]
        for name in ("mse_loss", "soft_margin_loss")
    },
    **{
        f"{name}_backward": ["x(), x(2, 3), x(2, 3), 1, 0.5", "x(2, 3), x(2, 3), x(2, 3), 0, 0.5"]
        for name in ("smooth_l1_loss", "huber_loss")
    },
    "binary_cross_entropy": ["u(2, 3), u(2, 3)", "u(2, 3), u(2, 3), p(2, 3), 0"],
    "binary_cross_entropy_backward": ["x(), u(2, 3), u(2, 3)", "x(2, 3), u(2, 3), u(2, 3), p(2, 3), 0"],
    "binary_cross_entropy_with_logits": ["x(2, 3), u(2, 3)", "x(2, 3), u(2, 3), p(3), p(3), 0"],
    "nll_loss_forward": [
        f"x(2, 3), {_NLL}, None, 1, -100",
        f"x(2, 3), {_NLL}, k(3), 0, 0",
        "x(3), i(2), None, 1, -100",
    ],
    "nll_loss_backward": [
        f"x(), x(2, 3), {_NLL}, None, 1, -100, n()",
        f"x(2), x(2, 3), {_NLL}, k(3), 0, 0, n()",
    ],
    "nll_loss2d_forward": [f"x(2, 3, 1, 2), {_NLL2}, None, 1, -100", f"x(2, 3, 1, 2), {_NLL2}, k(3), 0, 0"],
    "nll_loss2d_backward": [
        f"x(), x(2, 3, 1, 2), {_NLL2}, None, 1, -100, n()",
        f"x(2, 1, 2), x(2, 3, 1, 2), {_NLL2}, k(3), 0, 0, n()",
    ],
    "multi_margin_loss": [f"x(2, 3), {_NLL}", f"x(2, 3), {_NLL}, 2, 0.7, k(3), 0"],
    "multilabel_margin_loss_forward": [
        "x(2, 3), i([[1, -1, 0], [0, 2, -1]]), 1",
        "x(2, 3), i([[1, -1, 0], [0, 2, -1]]), 0",
    ],
    "_ctc_loss": ["x(4, 2, 3), i([[1, 2], [2, 1]]), (4, 3), (2, 1)"],
    "_ctc_loss.Tensor": ["x(4, 2, 3), i([[1, 2], [2, 1]]), i([4, 3]), i([2, 1])"],
    "_cudnn_ctc_loss": ["x(4, 2, 3), i([[1, 2], [2, 1]]), (4, 3), (2, 1), 0, True, False"],
    "_cudnn_ctc_loss.Tensor": ["x(4, 2, 3), i([[1, 2], [2, 1]]), i([4, 3]), i([2, 1]), 0, True, False"],
    # normalization
    "native_layer_norm": ["x(2, 3, 2), (3, 2), x(3, 2), x(3, 2), 1e-3", "x(2, 3), (3,), None, None, 1e-3"],
    "native_layer_norm_backward": [
        "x(2, 3), x(2, 3), (3,), k(2, 1), p(2, 1), x(3), x(3), (True, True, True)"
    ],
    "native_group_norm": ["x(2, 4, 3), x(4), x(4), 2, 4, 3, 2, 1e-3"],
    **{
        name: [
            "x(4, 3, 2), x(3), x(3), None, None, True, 0.1, 1e-3",
            f"x(4, 3, 2), x(3), x(3), {_STATS}, False, 0.1, 1e-3",
        ]
        for name in ("native_batch_norm", "cudnn_batch_norm", "miopen_batch_norm")
    },
    "_native_batch_norm_legit": [
        f"x(4, 3, 2), x(3), x(3), {_STATS}, False, 0.1, 1e-3",
        f"x(4, 3, 2), x(3), x(3), {_STATS.replace('p', 'n')}, True, 0.1, 1e-3",
    ],
    "_native_batch_norm_legit.no_stats": ["x(4, 3, 2), x(3), x(3), True, 0.1, 1e-3"],
    "_native_batch_norm_legit_no_training": [f"x(4, 3, 2), x(3), x(3), {_STATS}, 0.1, 1e-3"],
    "native_batch_norm_backward": [
        f"x(4, 3), x(4, 3), x(3), None, None, {_STATS}, True, 1e-3, (True, True, True)",
        f"x(4, 3), x(4, 3), x(3), {_STATS}, None, None, False, 1e-3, (True, True, True)",
    ],
    "miopen_batch_norm_backward": [f"x(4, 3), x(4, 3), x(3), None, None, {_STATS}, 1e-3"],
    "cudnn_batch_norm_backward": [f"x(4, 3), x(4, 3), x(3), None, None, {_STATS}, 1e-3, k(0)"],
    "_weight_norm_interface": ["x(3, 2), x(3, 1)", "x(3, 2), x(1, 2), 1"],
    # quantization
    "fake_quantize_per_tensor_affine_cachemask": ["x(2, 3), 0.1, 1, -5, 4"],
    "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams": [
        "x(2, 3), by(k(1), lambda v: v * 0 + 0.1), i([1]), i([1]), -5, 4"
    ],
    "fake_quantize_per_channel_affine_cachemask": [
        "x(2, 3), k(2).float() * 0 + 0.1, i([1, 0]).int(), 0, -5, 4"
    ],
    "_fake_quantize_learnable_per_tensor_affine": ["x(2, 3), u(1), x(1), -5, 4, 0.7"],
    "_fake_quantize_learnable_per_channel_affine": ["x(2, 3), u(2), x(2), 0, -5, 4, 0.7"],
    "_fused_moving_avg_obs_fq_helper": [
        "x(2, 3), i([1]), i([1]), k(1).float(), k(1).float() + 1, k(1).float(), i([1]).int(), 0.1, -5, 4, 0"
    ],
}
