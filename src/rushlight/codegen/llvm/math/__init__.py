"""Scalar instructions as vector code."""
from . import exponential, logarithm, trigonometric, inverse, power, error_functions, gamma, bessel, bessel_modified
from .registry import FUNCTIONS, Function
FUNCTIONS["pow"]=Function("pow",power.float_power,False)
