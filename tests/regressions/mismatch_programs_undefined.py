"""More of mismatch_programs.py: programs of which something is undefined.

`undefined` names outputs whose values nothing defines, with the reason: their shape, dtype and strides must
agree all the same. `finite` says why the arguments are finite, if they are.
"""

NO_INTEGER = "NaN and infinity are converted to integers, of which the C standard says nothing"
ROUNDED = "truncates a number that is whole but for rounding"
TIED = "the place of the least of numbers that are equal but for rounding"
ILL_CONDITIONED = "the cosine of a number so large that its rounding decides"
COMPLEX_POWER = "infinite and NaN complex powers, in which libraries do not agree"

PROGRAMS = {
    9: {
        "specs": [((2, 0, 3), "float32", "c", False), ((2, 8, 5, 5), "float32", "c", False)],
        "numbers": [0.5],
        "undefined": {2: ROUNDED},
        "text": """
def program(x0, x1, k0):
    x1.addcmul_(x1, x1, value=-1.5)
    v5 = x1.var(-2, keepdim=False)
    v6 = L.erf(v5)
    v9 = v6.to(L.int16)
    return (v5, v6, v9, x0, x1,)
""",
    },
    13: {
        "specs": [((3,), "int64", "t", False)],
        "numbers": [0.5, 0],
        "undefined": {4: NO_INTEGER},
        "text": """
def program(x0, k0, k1):
    v0 = L.isinf(x0)
    v4 = v0.to(L.complex64)
    v6 = x0.min(-1)[1]
    v8 = L.true_divide(v6, v4)
    v10 = v8.to(L.int64)
    return (v0, v4, v6, v8, v10, x0,)
""",
    },
    14: {
        "specs": [
            ((4, 1), "float32", "c", False),
            ((4,), "bfloat16", "offset", False),
            ((2, 3, 4), "uint8", "slice", False),
            ((2, 3, 4), "complex64", "slice", False),
        ],
        "numbers": [7],
        "finite": COMPLEX_POWER,
        "text": """
def program(x0, x1, x2, x3, k0):
    v0 = x3 ** x1
    return (v0, x0, x1, x2, x3,)
""",
    },
    19: {
        "specs": [((1,), "float32", "t", False), ((2, 3, 4, 4), "float32", "c", False)],
        "views": [(1, "{0}.unsqueeze(0).expand(3, *{0}.shape)")],
        "numbers": [0],
        "undefined": {2: TIED},
        "text": """
def program(x0, x1, x2, k0):
    v0 = L.heaviside(x1, x1)
    v2 = v0.var((1, -4), keepdim=False)
    v5 = v2.argmin(-2, keepdim=True)
    return (v0, v2, v5, x0, x1, x2,)
""",
    },
    20: {
        "specs": [((7, 65), "int32", "inner", False), ((7, 65), "complex64", "c", False)],
        "numbers": [2],
        "undefined": {4: ILL_CONDITIONED},
        "finite": COMPLEX_POWER,
        "text": """
def program(x0, x1, k0):
    v0 = L.trunc(x0)
    v4 = x1 * 2 if 0 > 1 else x1 + 1
    v5 = v0 ** v4
    v7 = sum([v5 * i for i in range(3)])
    v8 = L.cos(v7)
    return (v0, v4, v5, v7, v8, x0, x1,)
""",
    },
    25: {
        "specs": [((2, 3, 4), "float32", "cl", False), ((2, 3, 4), "float32", "c", True)],
        "numbers": [1.5, 1.5],
        "undefined": {1: ROUNDED},
        "text": """
def program(x0, x1, k0, k1):
    v0 = L.nn.functional.cosine_similarity(x1, x1, dim=-1)
    v1 = v0 // True
    return (v0, v1, x0, x1,)
""",
    },
    27: {
        "specs": [((64, 17), "float32", "t", False)],
        "numbers": [7],
        "undefined": {1: NO_INTEGER},
        "text": """
def program(x0, k0):
    v1 = x0 / 0
    v4 = L.nn.functional.one_hot(v1.long().abs() % 5, 5)
    return (v1, v4, x0,)
""",
    },
    28: {
        "specs": [((4, 4), "float32", "cl", False)],
        "numbers": [7, -1],
        "undefined": {1: ROUNDED},
        "text": """
def program(x0, k0, k1):
    v0 = L.nn.functional.cosine_similarity(x0, x0, dim=-1)
    v2 = v0.to(L.uint8)
    return (v0, v2, x0,)
""",
    },
    29: {
        "specs": [((1,), "float32", "c", False)],
        "undefined": {3: NO_INTEGER},
        "text": """
def program(x0):
    v0 = x0.var(-1, keepdim=False)
    v1 = v0 ** x0
    v4 = L.xlogy(v0, v1)
    v5 = v4.to(L.int64)
    return (v0, v1, v4, v5, x0,)
""",
    },
    31: {
        "specs": [((4, 1), "int64", "c", False)],
        "views": [(0, "{0}.detach()")],
        "undefined": {1: NO_INTEGER},
        "text": """
def program(x0, x1):
    v2 = x0 / 0
    v3 = v2.to(L.int64)
    return (v2, v3, x0, x1,)
""",
    },
    38: {
        "specs": [
            ((64, 17), "float32", "inner", False),
            ((1,), "float32", "inner", False),
            ((2, 0, 3), "float32", "slice", False),
        ],
        "numbers": [7],
        "undefined": {1: NO_INTEGER},
        "text": """
def program(x0, x1, x2, k0):
    v3 = x1.var(0, keepdim=True)
    v9 = v3.to(L.int64)
    return (v3, v9, x0, x1, x2,)
""",
    },
    47: {
        "specs": [((3,), "float32", "c", True), ((0,), "float32", "inner", False)],
        "numbers": [0.5],
        "undefined": {1: NO_INTEGER},
        "text": """
def program(x0, x1, k0):
    v7 = x0 // 0
    v9 = v7.to(L.int64)
    return (v7, v9, x0, x1,)
""",
    },
}
