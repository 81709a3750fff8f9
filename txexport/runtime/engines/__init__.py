"""What computes graphs: a file an engine."""
