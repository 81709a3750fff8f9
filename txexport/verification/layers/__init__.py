"""Comparison of every component of the graphs with its PyTorch module, on the same inputs."""
