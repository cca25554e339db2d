"""What programs for `torchrun` import; processes are started, and started again, by `rushlight launch`."""
