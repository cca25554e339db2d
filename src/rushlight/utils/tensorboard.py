"""Not available: writing events needs the classes of PyTorch's that make them."""

raise ImportError(
    "torch.utils.tensorboard is not available; tensorboardX has a SummaryWriter with the same "
    "methods that needs no torch"
)
