"""linear_operator: solves, determinants and products of structured matrices, and their gradients."""

import torch
from driver import numbers, serve
from linear_operator import operators

diagonal = numbers("diagonal", 200).abs() + 1.0
factor = numbers("factor", 200, 10)
left, right = numbers("left", 12, 12), numbers("right", 16, 16)
sides = numbers("sides", 200, 3)


def step():
    d, f = diagonal.clone().requires_grad_(), factor.clone().requires_grad_()
    low_rank = operators.LowRankRootLinearOperator(f).add_diagonal(d)
    quadratic, logdet = low_rank.inv_quad_logdet(sides, logdet=True)
    kronecker = operators.KroneckerProductLinearOperator(
        operators.DenseLinearOperator(left @ left.mT + 12 * torch.eye(12)),
        operators.DenseLinearOperator(right @ right.mT + 16 * torch.eye(16)),
    )
    product = kronecker @ numbers("vector", 192, 2)
    toeplitz = operators.ToeplitzLinearOperator(torch.exp(-torch.arange(64.0) / 8)) @ numbers("short", 64, 2)
    (quadratic + logdet + low_rank.solve(sides).square().sum()).backward()
    return [quadratic, logdet, d.grad, f.grad, product, toeplitz, kronecker.logdet()]


serve(step)
