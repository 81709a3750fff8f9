"""The number of cores that a worker may use, by its scheduler."""

import sys


def share_of_cores() -> int | None:
    """The cores that Ray or Spark gave this worker, at least 1; None where neither runs it."""
    ray, pyspark = sys.modules.get("ray"), sys.modules.get("pyspark")
    if ray is not None and ray.is_initialized():
        context = ray.get_runtime_context()
        if context.get_task_id() is not None:  # not that of the driver
            return max(1, int(context.get_assigned_resources().get("CPU", 1)))
    task = None if pyspark is None else pyspark.TaskContext.get()
    return None if task is None else max(1, task.cpus())
