"""Where a bundle goes wrong: every component of its graphs beside its PyTorch module, on the same inputs."""
