"""Small random programs whose compiled form once differed from eager execution, with their arguments.

A spec is (shape, dtype, layout, requires_grad); the layouts are contiguous, dimensions in reverse order (t),
every other row (slice), every other element (inner), behind other elements (offset), channels last (cl).
After the tensors of the specs come views of them, (which, expression), and numbers.
"""

PROGRAMS = {
    1: {
        "specs": [((3,), "float32", "c", True)],
        "views": [(0, "{0}.detach()")],
        "numbers": [2, 2],
        "text": """
def program(x0, x1, k0, k1):
    v5 = L.vstack([x0, x1])
    v7 = v5.to(L.complex64)
    v12 = L.true_divide(x1, v7)
    return (v5, v7, v12, x0, x1,)
""",
    },
    2: {
        "specs": [((1, 3, 1), "float32", "offset", False), ((64, 17), "int64", "offset", False)],
        "views": [(0, "{0}")],
        "numbers": [7],
        "text": """
def program(x0, x1, x2, k0):
    v0 = L.frac(x0)
    v2 = L.nn.functional.logsigmoid(v0)
    v3 = v2.to(L.int16)
    v7 = x0.permute(1, 2, 0)
    v9 = L.logical_or(v7, v3)
    return (v0, v2, v3, v7, v9, x0, x1, x2,)
""",
    },
    3: {
        "specs": [
            ((3, 4), "float32", "t", False),
            ((16,), "float32", "t", False),
            ((5, 7), "float32", "c", False),
            ((2, 0, 3), "float32", "offset", False),
        ],
        "views": [(3, "{0}.unsqueeze(0).expand(3, *{0}.shape)")],
        "numbers": [-1, -1],
        "text": """
def program(x0, x1, x2, x3, x4, k0, k1):
    v5 = L.expm1(x2)
    v13 = L.logical_not(v5)
    return (v5, v13, x0, x1, x2, x3, x4,)
""",
    },
    4: {
        "specs": [
            ((5, 7), "float32", "offset", False),
            ((3,), "float32", "inner", True),
            ((), "float32", "c", True),
            ((3,), "float64", "cl", True),
        ],
        "views": [(0, "{0}[1:]")],
        "numbers": [0],
        "text": """
def program(x0, x1, x2, x3, x4, k0):
    v3 = x0.unflatten(-2, (1, -1))
    x4.sub_(x2, alpha=2)
    return (v3, x0, x1, x2, x3, x4,)
""",
    },
    5: {
        "specs": [
            ((2, 3, 4), "float32", "t", False),
            ((4, 4), "float32", "t", False),
            ((7, 65), "float32", "c", False),
            ((3, 4), "float32", "c", False),
        ],
        "numbers": [0.5, -1],
        "text": """
def program(x0, x1, x2, x3, k0, k1):
    v2 = L.full_like(x1, k1)
    return (v2, x0, x1, x2, x3,)
""",
    },
    6: {
        "specs": [((2, 3, 4, 4), "float32", "c", True)],
        "numbers": [7, 1.5],
        "text": """
def program(x0, k0, k1):
    v0 = x0.to(L.int32)
    v1 = x0 + x0
    v2 = v0 @ v0
    v3 = v1.diagonal(-1)
    v4 = v3.narrow(2, 0, 1)
    v5 = L.stack([v3, v3], -3)
    v9 = v5.movedim(-3, -4)
    return (v0, v1, v2, v3, v4, v5, v9, x0,)
""",
    },
    7: {
        "specs": [((2, 8, 5, 5), "bfloat16", "c", False), ((5, 7), "float32", "c", False)],
        "views": [(0, "{0}")],
        "text": """
def program(x0, x1, x2):
    v0 = L.flipud(x1)
    v2 = x1.prod()
    return (v0, v2, x0, x1, x2,)
""",
    },
    8: {
        "specs": [((), "float32", "slice", True), ((130,), "float32", "offset", False)],
        "numbers": [0.5],
        "text": """
def program(x0, x1, k0):
    x1[-1] = x0
    return (x0, x1,)
""",
    },
    10: {
        "specs": [((), "bool", "c", False)],
        "text": """
def program(x0):
    x0.index_fill_(0, L.tensor([0]), 0.5)
    return (x0,)
""",
    },
    11: {
        "specs": [((1, 4), "float32", "c", False), ((3, 4), "float32", "cl", False)],
        "numbers": [3, 0.5],
        "text": """
def program(x0, x1, k0, k1):
    v0 = L.logical_or(x0, x1)
    v1 = v0.swapaxes(0, 0)
    v1.scatter_(1, x1.long().abs() * 0, k1)
    return (v0, v1, x0, x1,)
""",
    },
    12: {
        "specs": [
            ((2, 8, 5, 5), "bool", "c", False),
            ((2, 8, 5, 5), "float32", "c", False),
            ((2, 3), "float32", "c", False),
        ],
        "views": [(2, "{0}.unsqueeze(0).expand(3, *{0}.shape)")],
        "text": """
def program(x0, x1, x2, x3):
    v11 = L.full_like(x0, 0.5)
    return (v11, x0, x1, x2, x3,)
""",
    },
    15: {
        "specs": [((1,), "float32", "offset", False), ((4, 1), "complex64", "c", False)],
        "text": """
def program(x0, x1):
    v0 = L.nn.functional.triplet_margin_loss(x0, x0, x0)
    v1 = L.addcmul(v0, x1, v0, value=2)
    v3 = L.view_as_real(v1)
    v3.index_fill_(1, L.tensor([0]), 1)
    return (v0, v1, v3, x0, x1,)
""",
    },
    16: {
        "specs": [((4, 1), "bool", "c", False)],
        "numbers": [7, 0.5],
        "text": """
def program(x0, k0, k1):
    x0.masked_fill_(x0 > 0, k1)
    v1 = L.tanh(x0)
    return (v1, x0,)
""",
    },
    17: {
        "specs": [((2, 8, 5, 5), "float32", "c", False), ((2, 8, 5, 5), "float32", "cl", False)],
        "text": """
def program(x0, x1):
    v0 = L.bucketize(x0, L.tensor([-1., 0., 1.]))
    v1 = [v0, x0][1]
    v2 = x0 - x1
    v3 = L.exp2(x0)
    v4 = L.copysign(v2, x0)
    v5 = L.where(v2 > 0, x0, 0)
    v7 = x0.to(L.complex64)
    v8 = L.real(v7)
    return (v0, v1, v2, v3, v4, v5, v7, v8, x0, x1,)
""",
    },
    18: {
        "specs": [((7, 65), "complex64", "c", False), ((7, 65), "float32", "c", False)],
        "numbers": [0.5, -1],
        "text": """
def program(x0, x1, k0, k1):
    v0 = x0 / 3
    v1 = L.real(v0)
    return (v0, v1, x0, x1,)
""",
    },
    21: {
        "specs": [((1, 4), "float32", "c", True)],
        "text": """
def program(x0):
    v1 = x0.sum(-1, keepdim=False)
    v2 = L.autograd.grad((v1 * v1).sum(), x0, create_graph=True)[0]
    return (v1, v2, x0,)
""",
    },
    22: {
        "specs": [((4, 4), "float32", "t", True)],
        "views": [(0, "{0}.t()")],
        "text": """
def program(x0, x1):
    v0 = x1.trace()
    v2 = v0.detach().requires_grad_() * 2
    v5 = L.copysign(x1, x1)
    v5.sub_(v2, alpha=2)
    return (v0, v2, v5, x0, x1,)
""",
    },
    23: {
        "specs": [
            ((2, 3), "float32", "cl", True),
            ((2, 3), "float32", "cl", True),
            ((2, 3), "float32", "cl", True),
        ],
        "numbers": [0.5],
        "text": """
def program(x0, x1, x2, k0):
    v1 = L.isinf(x0)
    v1.index_fill_(-1, L.tensor([0]), 0.5)
    return (v1, x0, x1, x2,)
""",
    },
    24: {
        "specs": [((2, 3, 4, 4), "float32", "c", True), ((2, 3), "float32", "c", True)],
        "text": """
def program(x0, x1):
    v0 = L.nn.functional.softmin(x1, -2)
    v1 = L.autograd.grad((x1).float().sum(), x0, allow_unused=True, retain_graph=True)[0]
    if v1 is None: v1 = L.zeros(1)
    v2 = x0.logsumexp(1, keepdim=True)
    v3 = x0.tile(2)
    v4 = v3.detach()
    return (v0, v1, v2, v3, v4, x0, x1,)
""",
    },
    26: {
        "specs": [
            ((2, 8, 5, 5), "int32", "cl", False),
            ((1,), "float32", "t", True),
            ((2, 3, 4, 4), "float32", "t", True),
            ((2, 8, 5, 5), "float32", "c", True),
        ],
        "numbers": [0, 0.5],
        "text": """
def program(x0, x1, x2, x3, k0, k1):
    v4 = x2.select(2, -1)
    with L.no_grad(): x2.sub_(x2, alpha=0.125)
    v13 = x1 * v4
    return (v4, v13, x0, x1, x2, x3,)
""",
    },
    30: {
        "specs": [((7, 65), "float64", "inner", False), ((1, 4), "float32", "offset", True)],
        "views": [(1, "{0}")],
        "text": """
def program(x0, x1, x2):
    v3 = x2.prod()
    return (v3, x0, x1, x2,)
""",
    },
    32: {
        "specs": [((4, 4), "float32", "t", False)],
        "numbers": [1.5],
        "text": """
def program(x0, k0):
    v0 = L.sgn(x0)
    v1 = v0 if v0.dim() > 1 else v0 + 1
    v7 = L.full_like(v1, k0)
    return (v0, v1, v7, x0,)
""",
    },
    33: {
        "specs": [((4, 4), "float32", "c", True), ((4, 4), "float32", "cl", True)],
        "numbers": [7],
        "text": """
def program(x0, x1, k0):
    v1 = x1.to(L.float32)
    v3 = v1.prod(-1, keepdim=False)
    return (v1, v3, x0, x1,)
""",
    },
    34: {
        "specs": [
            ((4,), "float32", "c", True),
            ((4,), "bfloat16", "c", False),
            ((16,), "float32", "slice", True),
        ],
        "numbers": [0, -1],
        "text": """
def program(x0, x1, x2, k0, k1):
    v0 = L.nn.functional.hardswish(x2)
    v1 = x2 <= x2
    v2 = L.nn.functional.softmin(x1, 0)
    v3 = v0.unbind(0)[-1]
    v4 = L.flipud(x1)
    v5 = v2 / x0
    v6 = v4.topk(1, 0)[0]
    v7 = x2.tile(2)
    v13 = L.atleast_2d(v7)
    return (v0, v1, v2, v3, v4, v5, v6, v7, v13, x0, x1, x2,)
""",
    },
    35: {
        "specs": [
            ((4, 1), "bool", "cl", False),
            ((1,), "float32", "c", True),
            ((4, 1), "float32", "slice", True),
            ((4, 1), "complex64", "t", False),
        ],
        "text": """
def program(x0, x1, x2, x3):
    x3.pow_(2)
    v3 = x3 / x0
    return (v3, x0, x1, x2, x3,)
""",
    },
    36: {
        "specs": [
            ((0,), "complex64", "cl", False),
            ((0,), "float32", "offset", False),
            ((16,), "float32", "cl", False),
            ((5, 7), "int32", "c", False),
        ],
        "views": [(3, "{0}.unsqueeze(0).expand(3, *{0}.shape)")],
        "numbers": [-1, 3],
        "text": """
def program(x0, x1, x2, x3, x4, k0, k1):
    x4.index_fill_(0, L.tensor([0]), 0)
    return (x0, x1, x2, x3, x4,)
""",
    },
    37: {
        "specs": [
            ((2, 0, 3), "float32", "c", False),
            ((2, 0, 3), "int8", "c", False),
            ((2, 0, 3), "complex64", "c", False),
        ],
        "numbers": [3, 0],
        "text": """
def program(x0, x1, x2, k0, k1):
    v3 = x0.min(-1)[1]
    v4 = k0 // v3
    return (v3, v4, x0, x1, x2,)
""",
    },
    39: {
        "specs": [((4, 1), "float32", "inner", True)],
        "text": """
def program(x0):
    v0 = L.autograd.grad((x0).float().sum(), x0, allow_unused=True, retain_graph=True)[0]
    if v0 is None: v0 = L.zeros(1)
    v1 = [v0, v0][1]
    v1.index_fill_(-2, L.tensor([0]), -1.5)
    return (v0, v1, x0,)
""",
    },
    40: {
        "specs": [((7, 65), "float32", "c", False)],
        "views": [(0, "{0}")],
        "text": """
def program(x0, x1):
    v0 = L.nn.functional.pad(x1, (1, -1), "circular")
    v3 = v0.argmax(-2, keepdim=False)
    v4 = v3 - v3
    x1, v4 = v4, x1
    v13 = v4.prod()
    return (v0, v3, v4, v13, x0, x1,)
""",
    },
    41: {
        "specs": [((5, 7), "float16", "slice", False), ((7, 65), "float32", "slice", True)],
        "numbers": [2, 2],
        "text": """
def program(x0, x1, k0, k1):
    v0 = L.nn.functional.group_norm(x1, 1)
    v1 = x0.norm()
    v2 = v0.t()
    return (v0, v1, v2, x0, x1,)
""",
    },
    42: {
        "specs": [
            ((1, 4), "float32", "c", True),
            ((1, 4), "float64", "c", False),
            ((1, 4), "float32", "cl", True),
            ((1, 4), "float32", "inner", False),
        ],
        "text": """
def program(x0, x1, x2, x3):
    x1[:1] = x0
    return (x0, x1, x2, x3,)
""",
    },
    43: {
        "specs": [((3, 4), "float32", "c", True), ((7, 65), "float32", "cl", True)],
        "numbers": [-1],
        "text": """
def program(x0, x1, k0):
    v1 = x0.topk(1, -2)[0]
    v3 = x0 * x0.numel()
    v4 = L.nn.functional.hardtanh(v3)
    v5 = L.sin(v4)
    v6 = x1.to(L.float32)
    v7 = x1.repeat_interleave(2, 0)
    v8 = v7.squeeze()
    return (v1, v3, v4, v5, v6, v7, v8, x0, x1,)
""",
    },
    44: {
        "specs": [
            ((2, 3), "float32", "slice", False),
            ((2, 3, 4), "float32", "t", False),
            ((2, 3, 4), "float32", "t", False),
            ((2, 3, 4), "float32", "c", False),
        ],
        "numbers": [0, 1.5],
        "text": """
def program(x0, x1, x2, x3, k0, k1):
    v0 = x2 - x2
    v4 = L.zeros_like(v0) + 2
    v5 = L.zeros_like(x3) + 2
    return (v0, v4, v5, x0, x1, x2, x3,)
""",
    },
    45: {
        "specs": [
            ((64, 17), "float32", "c", True),
            ((64, 17), "float32", "c", True),
            ((64, 17), "float32", "c", False),
        ],
        "views": [(0, "{0}")],
        "text": """
def program(x0, x1, x2, x3):
    v1 = 0.5 // x0
    v3 = x2 * x2.numel()
    v4 = L.nn.functional.scaled_dot_product_attention(v1, v3, v3, is_causal=True)
    return (v1, v3, v4, x0, x1, x2, x3,)
""",
    },
    46: {
        "specs": [((0,), "int8", "offset", False)],
        "numbers": [-1, 2],
        "text": """
def program(x0, k0, k1):
    x0.copy_(x0.sort(0)[0])
    v11 = k1 // x0
    return (v11, x0,)
""",
    },
    48: {
        "specs": [
            ((0,), "float32", "c", True),
            ((2, 8, 5, 5), "float32", "cl", True),
            ((2, 8, 5, 5), "float32", "t", True),
        ],
        "numbers": [3, 0],
        "text": """
def program(x0, x1, x2, k0, k1):
    v0 = L.tensordot(x0, x0, 1)
    with L.no_grad(): x0.sub_(x0, alpha=0.125)
    v7 = x2.to(L.bool)
    v8 = v7.to(L.int32)
    v8.diagonal().mul_(2)
    return (v0, v7, v8, x0, x1, x2,)
""",
    },
}
