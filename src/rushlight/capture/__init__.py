"""Capture: a Python call recorded as a functional graph."""
