"""Find the fastest way to run a bundle on this machine: times engines, dtypes, precisions and threads."""

from txexport.errors import needed_for

with needed_for("bench"):
    from txexport.benchmark.benchmark import bench
    from txexport.benchmark.result import Benchmark, Candidate, Measured

__all__ = ["Benchmark", "Candidate", "Measured", "bench"]
