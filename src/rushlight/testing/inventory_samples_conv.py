"""Arguments for the derivative inventory of convolutions and pools (see inventory_samples)."""

from __future__ import annotations

_SETTINGS = "(1,), (2,), (1,)"  # padding, stride, dilation
_INPUT = "x(2, 4, 5), x(6, 2, 3)"
_SPREAD = "x(2, 4, 3), x(4, 2, 3)"
_IMAGE, _BOX = "x(1, 2, 4, 5)", "x(1, 2, 3, 4, 3)"
_AT2, _AT3 = "i([[[[0, 3]], [[2, 5]]]])", "i([[[[[0, 3]]], [[[2, 5]]]]])"
_THREE = "(True, True, True)"


def _slow(rank: int) -> str:
    return (
        "x(1, 2, 4, 5), x(3, 2, 2, 3), (2, 3), x(3)"
        if rank == 2
        else "x(1, 2, 3, 3, 4), x(3, 2, 2, 2, 3), (2, 2, 3), x(3)"
    )


def _deep(rank: int) -> str:
    return (
        "x(1, 2, 4, 5), x(2, 1, 2, 3), (2, 3), x(2)"
        if rank == 2
        else "x(1, 2, 3, 3, 4), x(2, 1, 2, 2, 3), (2, 2, 3), x(2)"
    )


def _up(rank: int) -> str:
    return (
        "x(1, 2, 2, 3), x(2, 3, 2, 2), (2, 2), x(3)"
        if rank == 2
        else "x(1, 2, 2, 2, 2), x(2, 1, 2, 2, 2), (2, 2, 2), x(1)"
    )


CONV_SAMPLES: dict[str, list[str]] = {
    # conv
    "conv_tbc": ["x(4, 2, 3), x(2, 3, 2), x(2), 1"],
    "convolution": [
        f"{_INPUT}, x(6), (2,), (1,), (1,), False, (0,), 2",
        f"{_SPREAD}, x(4), (2,), (1,), (1,), True, (1,), 2",
        "x(1, 2, 4, 3), x(2, 2, 2, 2), None, (1, 2), (0, 1), (2, 1), False, (0, 0), 1",
    ],
    "_convolution": [f"{_INPUT}, x(6), (2,), (1,), (1,), False, (0,), 2, False, False, False, False"],
    "convolution_overrideable": [f"{_INPUT}, x(6), (2,), (1,), (1,), False, (0,), 2"],
    "convolution_backward": [
        f"x(2, 6, 3), {_INPUT}, (6,), (2,), (1,), (1,), False, (0,), 2, {_THREE}",
        f"x(2, 4, 6), {_SPREAD}, (4,), (2,), (1,), (1,), True, (1,), 2, {_THREE}",
        f"x(2, 6, 3), {_INPUT}, None, (2,), (1,), (1,), False, (0,), 2, (False, True, False)",
    ],
    "convolution_backward_overrideable": [
        f"x(2, 6, 3), {_INPUT}, (2,), (1,), (1,), False, (0,), 2, {_THREE}"
    ],
    **{
        name: [f"{_INPUT}, x(6), {_SETTINGS}, 2, False, False"]
        for name in ("miopen_convolution", "miopen_depthwise_convolution")
    },
    **{name: [f"{_INPUT}, x(6), {_SETTINGS}, 2"] for name in ("mkldnn_convolution", "_mps_convolution")},
    "cudnn_convolution": [f"{_INPUT}, {_SETTINGS}, 2, False, False, False"],
    "miopen_convolution_transpose": [f"{_SPREAD}, x(4), (1,), (1,), (2,), (1,), 2, False, False"],
    "cudnn_convolution_transpose": [f"{_SPREAD}, (1,), (1,), (2,), (1,), 2, False, False, False"],
    "_mps_convolution_transpose": [f"{_SPREAD}, (1,), (1,), (2,), (1,), 2"],
    "mps_convolution_backward": [f"x(2, 4, 5), x(2, 6, 3), x(6, 2, 3), {_SETTINGS}, 2, {_THREE}"],
    "_nnpack_spatial_convolution": ["x(1, 2, 4, 4), x(3, 2, 3, 3), x(3), (1, 1)"],
    "slow_conv_dilated2d": ["x(1, 2, 4, 5), x(3, 2, 2, 3), (2, 3), x(3), (1, 2), (1, 1), (2, 1)"],
    "slow_conv_dilated3d": [_slow(3)],
    "slow_conv_transpose2d": [_up(2)],
    "slow_conv_transpose3d": [_up(3)],
    "_slow_conv2d_forward": [f"{_slow(2)}, (1, 2), (1, 0)"],
    "slow_conv3d_forward": [f"{_slow(3)}, (1, 1, 1), (1, 0, 0)"],
    "_slow_conv2d_backward.output_mask": [
        f"x(1, 3, 3, 2), x(1, 2, 4, 4), x(3, 2, 2, 2), (2, 2), (1, 2), (0, 0), {_THREE}"
    ],
    "_conv_depthwise2d": [f"{_deep(2)}, (1, 1), (1, 0), (1, 1)"],
    "conv_depthwise3d": [f"{_deep(3)}, (1, 1, 1), (1, 0, 0), (1, 1, 1)"],
    "im2col": [f"{_IMAGE}, (2, 2), (1, 2), (1, 0), (2, 1)"],
    "col2im": ["x(1, 8, 9), (4, 5), (2, 2), (1, 2), (1, 0), (2, 1)"],
    # pooling
    **{
        name: [f"{_IMAGE}, (2, 3), (2, 2), (1, 1)", f"{_IMAGE}, (2, 2), (2, 1), (0, 0), (1, 2), True"]
        for name in ("max_pool2d", "max_pool2d_with_indices", "mkldnn_max_pool2d")
    },
    **{
        name: [f"{_BOX}, (2, 2, 2), (1, 2, 1), (0, 1, 0)"]
        for name in ("max_pool3d_with_indices", "mkldnn_max_pool3d")
    },
    "max_pool2d_backward": [f"x(1, 2, 2, 2), {_IMAGE}, (2, 2)"],
    "max_pool2d_with_indices_backward": [
        f"x(1, 2, 1, 2), {_IMAGE}, (2, 2), (4, 3), (0, 0), (1, 1), False, {_AT2}"
    ],
    "max_pool3d_with_indices_backward": [
        f"x(1, 2, 1, 1, 2), {_BOX}, (2, 2, 2), (2, 4, 1), (0, 0, 0), (1, 1, 1), False, {_AT3}"
    ],
    "avg_pool2d": [f"{_IMAGE}, (2, 3), (2, 2), (1, 1), True, False", f"{_IMAGE}, (2, 2)"],
    "avg_pool3d": [f"{_BOX}, (2, 2, 2), (1, 2, 1), (1, 1, 1), False, True, 3"],
    "avg_pool2d_backward": [f"x(1, 2, 3, 3), {_IMAGE}, (2, 3), (2, 2), (1, 1), True, False, None"],
    "avg_pool3d_backward": [f"x(1, 2, 2, 2, 1), {_BOX}, (2, 2, 2), (1, 2, 2), (0, 0, 0), False, True, None"],
    **{
        name: [f"{_IMAGE}, (3, 2)", f"{_IMAGE}, (6, 5)"]
        for name in ("_adaptive_avg_pool2d", "adaptive_max_pool2d", "mkldnn_adaptive_avg_pool2d")
    },
    **{name: [f"{_BOX}, (2, 3, 1)"] for name in ("_adaptive_avg_pool3d", "adaptive_max_pool3d")},
    "_adaptive_avg_pool2d_backward": [f"x(1, 2, 3, 2), {_IMAGE}"],
    "_adaptive_avg_pool3d_backward": [f"x(1, 2, 2, 3, 1), {_BOX}"],
    "adaptive_max_pool2d_backward": [f"x(1, 2, 1, 2), {_IMAGE}, {_AT2}"],
    "adaptive_max_pool3d_backward": [f"x(1, 2, 1, 1, 2), {_BOX}, {_AT3}"],
    "fractional_max_pool2d": [f"{_IMAGE}, (2, 2), (2, 3), by(x(1, 2, 2), lambda v: v.abs())"],
    "fractional_max_pool3d": [f"{_BOX}, (2, 2, 2), (1, 2, 1), by(x(1, 2, 3), lambda v: v.abs())"],
    "fractional_max_pool2d_backward": [f"x(1, 2, 1, 2), {_IMAGE}, (2, 2), (1, 2), {_AT2}"],
    "fractional_max_pool3d_backward": [f"x(1, 2, 1, 1, 2), {_BOX}, (2, 2, 2), (1, 1, 2), {_AT3}"],
    "max_unpool2d": [f"x(1, 2, 1, 2), {_AT2}, (2, 4)"],
    "max_unpool3d": [f"x(1, 2, 1, 1, 2), {_AT3}, (1, 2, 4), (1, 1, 1), (0, 0, 0)"],
}
