"""Public functions that are written by hand: what is not one operator of the registry."""
