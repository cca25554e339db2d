"""Derivatives of like-factories, clones and casts."""

from __future__ import annotations

from .declare import AUTO_LINEAR, derivative

derivative("clone", self=lambda grad: grad, result=AUTO_LINEAR)
derivative("_to_copy", self=lambda grad: grad, result=AUTO_LINEAR)
derivative("copy", src=lambda grad: grad, self=lambda grad: grad * 0)
