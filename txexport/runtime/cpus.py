"""The processors available to this process; a container may have fewer than the machine."""

import math
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

ROOT = Path("/")
# In Linux's control groups: version 2 has the first, "QUOTA PERIOD" or "max PERIOD", version 1 the others.
QUOTA = ("cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us")


def available(root: Path = ROOT) -> int:
    """Processors that this process may use: its CPU affinity, within the quotas of its control groups.

    A quota of 2.5 counts as 2: with 3 threads, all would be suspended together once it is used up. `root` is
    the folder of /proc and /sys.
    """
    return max(1, math.floor(min([_affinity(), *map(_quota, _groups(root))])))


def fewer() -> int | None:
    """`available` processors, or None where that is all of the machine's, which engines use by default."""
    processors = available()
    return processors if processors < (os.cpu_count() or 1) else None


def _affinity() -> int:
    """The number of processors of the process's CPU affinity."""
    try:
        return len(os.sched_getaffinity(0))
    except (AttributeError, OSError):  # only on Linux
        return os.cpu_count() or 1


def _groups(root: Path) -> Iterator[Path]:
    """Folders of the process's control groups, and of their parents."""
    mounts = root / "sys/fs/cgroup"
    for line in _read(root / "proc/self/cgroup").splitlines():
        controllers, _, name = line.partition(":")[2].partition(":")
        if controllers and "cpu" not in controllers.split(","):
            continue
        path = PurePosixPath(name.lstrip("/"))
        for mount in (mounts / (controllers or "unified"), mounts / "cpu" if controllers else mounts):
            yield mount / path
            yield from (mount / parent for parent in path.parents)


def _quota(group: Path) -> float:
    """A control group's CPU quota in processors; infinity where it has none."""
    numbers = " ".join(_read(group / name) for name in QUOTA).split()
    try:
        quota, period = map(int, numbers)
    except ValueError:  # "max", or a folder without these files
        return math.inf
    return quota / period if quota > 0 and period > 0 else math.inf  # -1 for none


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""
