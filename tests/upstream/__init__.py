"""PyTorch's own unit tests run on Rushlight: see README.md in this folder."""
