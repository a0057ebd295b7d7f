"""How many threads a training uses by default, and whether other programs use the cores."""

import math
import os
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")
BUSY = 2.0  # processes that want to run per core, from which on threads of one training wait for each other


def default_threads(threads: int) -> int:
    """The number of threads that torch chose, but no more than the container may use at once."""
    if "OMP_NUM_THREADS" in os.environ:
        return threads
    return max(math.ceil(min(threads, quota())), 1)


def quota(folder: Path = CGROUP) -> float:
    """The number of cores that the container may use, such as 1.5 with ``docker run --cpus 1.5``; inf: all."""
    for names in (("cpu.max",), ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us")):
        try:
            used, period, *_ = " ".join((folder / name).read_text() for name in names).split()
            if int(used) > 0 and int(period) > 0:
                return int(used) / int(period)
        except (OSError, ValueError):  # no such file; max: no limit
            continue
    return math.inf


def busy_note(threads: int) -> str:
    """A sentence if several threads are started on a machine whose cores are busy; empty otherwise."""
    if threads < 2 or "OMP_NUM_THREADS" in os.environ or not hasattr(os, "getloadavg"):
        return ""
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    if load < BUSY * cores:
        return ""
    return (
        f"the machine is busy with other programs (load {load:.1f}, {cores} core{'s' * (cores > 1)}), where {threads} "
        "threads wait for each other: train.threads=1 is probably faster"
    )
