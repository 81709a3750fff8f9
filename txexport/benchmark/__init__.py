"""What runs a bundle fastest on this machine: engines, dtypes, precisions and threads, timed in turn."""

from txexport.errors import needed_for

with needed_for("bench"):
    from txexport.benchmark.benchmark import bench
    from txexport.benchmark.result import Benchmark, Candidate, Measured

__all__ = ["Benchmark", "Candidate", "Measured", "bench"]
