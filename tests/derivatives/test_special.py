"""Derivatives of special functions: at special points, to third order, and where PyTorch has none."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

import rushlight
from rushlight.autograd import gradcheck, gradgradcheck
from rushlight.ops.special_derivatives import RECURRENCES

inf, nan = math.inf, math.nan
EDGES = [-inf, -2.5, -2.0, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 2.0, 2.5, inf]

POINTS: list[tuple[str, Any]] = [
    *[(f"lib.{name}(x)", [*EDGES, nan]) for name in ("erf", "erfc", "erfinv", "lgamma", "digamma")],
    *[(f"lib.special.{name}(x)", [*EDGES, nan]) for name in ("entr", "ndtri", "ndtr", "i0e")],
    *[(f"lib.special.{name}(x)", EDGES) for name in ("i1", "i1e")],
    ("lib.i0(x)", EDGES),
    ("lib.special.erfcx(x)", [*EDGES[:-1], nan]),  # at inf PyTorch's is NaN
    ("lib.special.log_ndtr(x)", [*EDGES[1:], nan]),  # at -inf PyTorch's is NaN
    ("lib.polygamma(2, x)", EDGES[:-1]),
    ("lib.mvlgamma(x, 3)", [1.5, 2.0, inf, nan]),
    ("lib.special.xlog1py(x[0], x[1])", [[0.0, 0.0, 0.0, 2.0, 2.0, 0.0], [-1.0, -2.0, 1.0, -1.0, 0.5, nan]]),
    ("lib.special.xlog1py(x, -1.0)", [0.0, 2.0]),
    ("lib.special.xlog1py(0.0, x)", [-1.0, 2.0]),
]


@pytest.mark.parametrize(("expression", "value"), POINTS)
def test_special_points(first_order: Callable[..., None], expression: str, value: Any) -> None:
    first_order(expression, value)


# The first three derivatives, from mpmath with 60 digits.
REFERENCE: list[tuple[str, float, tuple[float, float, float]]] = [
    ("lib.igamma(x, like(x, 0.3))", 0.01, (-0.9087458022685458, -0.2899223483260613, 3.3759756216905976)),
    ("lib.igamma(x, like(x, 0.3))", 2.0, (-0.07982414399499675, 0.15876186094524034, -0.2788108734893483)),
    ("lib.igamma(x, like(x, 1.0))", 0.5, (-0.38983726432851057, -0.21349996749544506, 0.5462369278782955)),
    ("lib.igamma(x, like(x, 3.0))", 0.5, (-0.04724032644797375, -0.08598986897368568, -0.06251605647052302)),
    (
        "lib.igamma(x, like(x, 3.0))",
        1e-05,
        (-0.013048876012818912, -0.04949225129653745, -0.07782183864115431),
    ),
    (
        "lib.igamma(x, like(x, 40.0))",
        30.0,
        (-0.016025177168002572, -0.004621515312205224, -0.0007968139230806618),
    ),
    (
        "lib.igamma(x, like(x, 190.0))",
        200.0,
        (-0.02235282834155004, 0.0011470748278582699, 5.294370652713802e-05),
    ),
    ("lib.igammac(x, like(x, 9.0))", 5.0, (0.046122678499030345, 0.027414625916775, 0.006883004803024362)),
    (
        "lib.igamma(like(x, 5.0), x)",
        0.2,
        (5.4582050205198804e-05, 0.0010370589538987772, 0.014245915103556885),
    ),
    ("lib.igamma(like(x, 5.0), x)", 9.0, (0.03373715519219602, -0.018742863995664456, 0.008746669864643413)),
    ("lib.special.zeta(x, 0.3)", 1.5, (3.292037761731204, 24.819844614385932, -85.37485091528579)),
    (
        "lib.special.zeta(x, like(x, 1.0))",
        1.001,
        (-999999.9271940662, 1999999999.9909685, -6000000000002.6455),
    ),
    ("lib.special.zeta(x, like(x, 1.0))", 2.0, (-0.9375482543158438, 1.989280234298901, -6.000145802843045)),
    (
        "lib.special.zeta(x, 10.0)",
        50.0,
        (-2.323290026348298e-50, 5.351571024405943e-50, -1.2327243331493828e-49),
    ),
    ("lib.special.zeta(1.5, x)", 0.3, (-31.603858803371587, 255.38496019662108, -2962.8122199899335)),
    ("lib.special.erfcx(x)", -3.0, (-97237.06150316462, 615834.3467269868, -4083954.3263745797)),
    ("lib.special.erfcx(x)", 3.0, (-0.05437226000717287, 0.03176874231974267, -0.02687658611023545)),
    ("lib.special.erfcx(x)", 13.0, (-0.003309198615660565, 0.0005046797220447044, -0.00011512168947994575)),
    (
        "lib.special.erfcx(x)",
        1000.0,
        (-5.641887372654967e-07, 1.1283757819707055e-09, -3.3851205756878907e-12),
    ),
    ("lib.special.log_ndtr(x)", -30.0, (30.033259667433676, -0.9988962284881099, 7.309993015784438e-05)),
    ("lib.special.log_ndtr(x)", 0.5, (0.5091604338370335, -0.5138245643036329, 0.27099012446870785)),
    ("lib.special.bessel_j0(x)", 2.0, (-0.5767248077568734, 0.06447162473720103, 0.40030779344905454)),
    ("lib.special.bessel_j1(x)", -3.0, (-0.37307160774391224, 0.17702853833063945, 0.3240608403905941)),
    ("lib.special.bessel_j1(x)", 1e-09, (0.5, -3.75e-10, -0.375)),
    ("lib.special.bessel_j1(x)", 0.49, (0.45572663879922515, -0.17768648386823385, -0.3381364596276962)),
    ("lib.special.bessel_y0(x)", 2.0, (0.10703243154093754, -0.5638918884202139, 0.2016716205544038)),
    ("lib.special.bessel_y1(x)", 2.0, (0.5638918884202139, -0.2016716205544038, -0.15435202604767068)),
    ("lib.special.i1(x)", 1e-09, (0.5, 3.7500000000000005e-10, 0.375)),
    ("lib.special.i1(x)", 2.0, (1.4842668750174028, 1.2461626307879599, 1.2056597834727918)),
    ("lib.special.i1e(x)", -3.0, (-0.01943526356790907, -0.0016096787034987584, 0.00569343502520764)),
    ("lib.special.i1e(x)", 0.3, (0.2706111957432464, -0.5692120167652346, 1.071718042797166)),
    ("lib.special.modified_bessel_i0(x)", 2.0, (1.590636854637329, 1.4842668750174028, 1.2461626307879599)),
    ("lib.special.modified_bessel_i1(x)", 2.0, (1.4842668750174028, 1.2461626307879599, 1.2056597834727918)),
    (
        "lib.special.modified_bessel_k0(x)",
        2.0,
        (-0.13986588181652243, 0.18382681365779466, -0.26674575909955034),
    ),
    (
        "lib.special.modified_bessel_k1(x)",
        2.0,
        (-0.18382681365779466, 0.26674575909955034, -0.44407957049059776),
    ),
    (
        "lib.special.scaled_modified_bessel_k0(x)",
        2.0,
        (-0.19190863199791716, 0.13292115953850997, -0.15494178845836576),
    ),
    (
        "lib.special.scaled_modified_bessel_k1(x)",
        2.0,
        (-0.3248297915364271, 0.28786294799687573, -0.4097737930754578),
    ),
    ("lib.special.airy_ai(x)", -3.0, (0.3145837692165988, 1.1364428810329743, -1.3225656013274545)),
    ("lib.special.airy_ai(x)", 0.5, (-0.2249105326646839, 0.11584680324041674, 0.11923834014849154)),
    ("lib.special.spherical_bessel_j0(x)", 1e-09, (-3.3333333333333337e-10, -0.3333333333333333, 2e-10)),
    (
        "lib.special.spherical_bessel_j0(x)",
        0.29,
        (-0.09585613800420159, -0.32496534171183566, 0.05742120559589611),
    ),
    (
        "lib.special.spherical_bessel_j0(x)",
        20.0,
        (0.01812173996385053, -0.047459436532766436, -0.013285187610754635),
    ),
    ("lib.sinc(x)", 1e-09, (-3.289868133696453e-09, -3.289868133696453, 1.9481818206800487e-08)),
    ("lib.sinc(x)", -0.09, (0.293727839347168, -3.2113414495044177, -1.7367284668641556)),
    ("lib.sinc(x)", 2.2, (0.3290784154684206, -1.138517573376045, -2.076874985504967)),
    ("lib.special.chebyshev_polynomial_t(x, 9)", 0.3, (-8.69216256, -37.47548160000001, 727.082496)),
    (
        "lib.special.shifted_chebyshev_polynomial_t(x, like(x, 5.0))",
        0.1,
        (-1.2640000000000016, -271.35999999999996, 3955.2),
    ),
    (
        "lib.special.chebyshev_polynomial_u(x, 9)",
        0.3,
        (-10.90714112, -21.567283200000013, 1115.0929919999999),
    ),
    (
        "lib.special.shifted_chebyshev_polynomial_u(x, like(x, 5.0))",
        0.1,
        (20.191999999999997, -696.3199999999999, 8294.4),
    ),
    (
        "lib.special.chebyshev_polynomial_v(x, 9)",
        1.7,
        (124658.58021887997, 724391.9404031999, 3581207.304191999),
    ),
    (
        "lib.special.shifted_chebyshev_polynomial_v(x, like(x, 5.0))",
        0.1,
        (47.327999999999996, -1091.84, 10752.0),
    ),
    (
        "lib.special.chebyshev_polynomial_w(x, 9)",
        -0.7,
        (13.700551680000002, 45.39770879999989, -2524.2439679999998),
    ),
    (
        "lib.special.shifted_chebyshev_polynomial_w(x, like(x, 5.0))",
        0.1,
        (-6.944000000000002, -300.79999999999995, 5836.8),
    ),
    (
        "lib.special.hermite_polynomial_h(x, 9)",
        0.3,
        (10380.025082880002, -119957.1628032, -238054.69900800003),
    ),
    ("lib.special.hermite_polynomial_he(x, 9)", 1.7, (351.41978168999975, 5776.4806056, 7008.658776000001)),
    ("lib.special.laguerre_polynomial_l(x, 9)", 0.0, (-9.0, 36.0, -84.0)),
    ("lib.special.legendre_polynomial_p(x, 9)", 1.0, (45.0, 990.0, 13860.0)),
]


SCOPE = {"lib": rushlight, "like": rushlight.full_like, "inf": inf, "nan": nan}


def derivatives(expression: str, value: float, count: int) -> list[float]:
    """The first, second, ... derivative by repeated reverse mode."""
    x = rushlight.tensor(value, dtype=rushlight.float64, requires_grad=True)
    y = eval(expression, {**SCOPE, "x": x})
    found = []
    for _ in range(count):
        (y,) = rushlight.autograd.grad(y, x, create_graph=True)
        found.append(y.item())
    return found


@pytest.mark.parametrize(("expression", "value", "expected"), REFERENCE)
def test_against_reference(expression: str, value: float, expected: tuple[float, float, float]) -> None:
    assert derivatives(expression, value, 3) == pytest.approx(expected, rel=3e-11, abs=1e-13)


def tensor(*values: float) -> rushlight.Tensor:
    return rushlight.tensor(list(values), dtype=rushlight.float64, requires_grad=True)


FUNCTIONS_OF_TWO = [
    (rushlight.igamma, (0.6, 2.5, 9.0), (0.4, 1.7, 12.0)),
    (rushlight.igammac, (0.6, 2.5, 9.0), (0.4, 1.7, 12.0)),
    (rushlight.special.zeta, (1.7, 2.5, 6.0), (0.4, 1.7, 12.0)),
    (rushlight.special.xlog1py, (-0.7, 2.0, 0.3), (0.4, -0.6, 2.0)),
]


@pytest.mark.parametrize(("function", "first", "second"), FUNCTIONS_OF_TWO)
def test_functions_of_two_arguments(function: Any, first: Any, second: Any) -> None:
    """Both arguments, mixed derivatives and forward mode included, with broadcasting."""
    inputs = (tensor(*first).detach().reshape(3, 1).requires_grad_(), tensor(*second))
    assert gradcheck(function, inputs, check_forward_ad=True)
    assert gradgradcheck(function, inputs)


def test_slopes_batch() -> None:
    """vmap of a gradient runs the operators behind it on the whole batch, and warns of none."""
    a, x = tensor(0.5, 2.0, 9.0).detach(), tensor(0.3, 1.5, 12.0).detach()

    def total(a: Any, x: Any) -> Any:
        airy = rushlight.special.airy_ai(x)
        legendre = rushlight.special.legendre_polynomial_p(x, 4)
        return rushlight.igamma(a, x) + rushlight.special.zeta(a + 1, x) + airy + legendre

    slopes = rushlight.func.grad(total, argnums=(0, 1))
    batched = rushlight.func.vmap(slopes)(a, x)
    for i in range(3):
        for whole, single in zip(batched, slopes(a[i], x[i]), strict=True):
            assert whole[i].item() == pytest.approx(single.item(), rel=1e-12)


SLOPES_AT_EDGES = [
    # igamma is constant at x = 0 and x = inf, and not defined for negative arguments.
    ("lib.igamma(x, like(x, 0.0))", 2.0, 0.0),
    ("lib.igamma(x, like(x, inf))", 2.0, 0.0),
    ("lib.igamma(x, like(x, 1.0))", inf, 0.0),
    ("lib.igamma(x, like(x, -1.0))", 2.0, nan),
    ("lib.igamma(x, like(x, 1.0))", -2.0, nan),
    ("lib.igamma(x, like(x, nan))", 2.0, nan),
    ("lib.igamma(like(x, 1.0), x)", 0.0, 1.0),
    ("lib.special.zeta(x, 2.0)", 1.0, -inf),
    ("lib.special.zeta(x, 2.0)", 0.5, nan),
    ("lib.special.zeta(x, -1.5)", 2.0, nan),
    ("lib.special.bessel_j1(x)", 0.0, 0.5),
    ("lib.special.i1e(x)", 0.0, 0.5),
    ("lib.special.modified_bessel_k1(x)", 0.0, -inf),
    ("lib.special.spherical_bessel_j0(x)", 0.0, 0.0),
    ("lib.special.spherical_bessel_j0(x)", inf, 0.0),
    ("lib.special.airy_ai(x)", 2e6, 0.0),
    ("lib.special.erfcx(x)", inf, 0.0),
    ("lib.special.log_ndtr(x)", -inf, inf),
    ("lib.special.hermite_polynomial_h(x, 600)", 0.5, nan),  # as the polynomial itself
    ("lib.special.legendre_polynomial_p(x, 0)", 0.5, 0.0),
    ("lib.special.legendre_polynomial_p(x, -1)", 0.5, 0.0),
    ("lib.special.legendre_polynomial_p(x, 2.9)", 0.5, 1.5),  # the degree is truncated
    ("lib.special.chebyshev_polynomial_t(x, 100)", 1.0, 1e4),
]


@pytest.mark.parametrize(("expression", "value", "expected"), SLOPES_AT_EDGES)
def test_slopes_at_edges(expression: str, value: float, expected: float) -> None:
    assert derivatives(expression, value, 1) == pytest.approx([expected], nan_ok=True)


@pytest.mark.parametrize("name", sorted(RECURRENCES))
def test_recurrences_give_the_polynomials(name: str) -> None:
    """The derivatives at 0 up to the degree are those of the polynomial, which they determine."""
    polynomial = getattr(rushlight.special, name)
    x = tensor(0.0)
    coefficients = [polynomial(x, 5)]
    for k in range(1, 6):
        (slope,) = rushlight.autograd.grad(coefficients[-1] * math.factorial(k - 1), x, create_graph=True)
        coefficients.append(slope / math.factorial(k))
    points = rushlight.tensor([-0.8, 0.3, 1.6], dtype=rushlight.float64)
    by_powers = sum(c.detach() * points**k for k, c in enumerate(coefficients))
    assert by_powers.tolist() == pytest.approx(polynomial(points, 5).tolist(), rel=1e-12)


def test_degree_has_no_gradient() -> None:
    x, n = tensor(0.5), tensor(3.0)
    y = rushlight.special.legendre_polynomial_p(x, n)
    assert rushlight.autograd.grad(y, [x, n], allow_unused=True)[1] is None
    assert not rushlight.special.legendre_polynomial_p(0.5, n).requires_grad


def test_single_precision_rounds_once() -> None:
    """Slopes of gamma and zeta functions are computed in double precision."""
    a = rushlight.tensor([0.5, 100.0], requires_grad=True)
    x = rushlight.tensor([0.7, 95.0])
    (slope,) = rushlight.autograd.grad(rushlight.igamma(a, x).sum(), a)
    wide = a.detach().double().requires_grad_()
    (expected,) = rushlight.autograd.grad(rushlight.igamma(wide, x.double()).sum(), wide)
    assert slope.dtype is rushlight.float32
    assert slope.tolist() == pytest.approx(expected.tolist(), rel=1e-7)
