"""File formats: archives, safetensors, checkpoints, and pickles of which nothing is executed."""
