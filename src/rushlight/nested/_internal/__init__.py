"""Where PyTorch keeps the class of jagged nested tensors; programs import it from there."""
