"""What a worker costs: memory and processor time, as the system tells them."""

from dataclasses import dataclass

import psutil


@dataclass(frozen=True)
class Figures:
    #: Bytes in memory, shared pages included.
    memory: int
    #: Seconds of processor time since its start.
    cpu: float


def figures_of(pid: int) -> Figures | None:
    """None when the process has just ended."""
    try:
        process = psutil.Process(pid)
        with process.oneshot():
            times = process.cpu_times()
            return Figures(process.memory_info().rss, round(times.user + times.system, 2))
    except psutil.Error:
        return None
