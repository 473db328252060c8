"""The disk with its room and permissions, the clock, and the limits of a process."""

import os
import resource
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from booksan.answers import existing
from booksan.doctor.finding import Finding, fail, ok, warn

#: Bytes. Below the first, a run of some size will not fit; below the other, hardly any.
SCARCE_SPACE = 1 << 30
NO_SPACE = 100 << 20

#: Each client has a database with its log at each shard, each batch some files of the spool.
SCARCE_FILES = 1024
NO_FILES = 256

#: Seconds that two clocks may differ: expiries are in hours and days.
CLOCK_SECONDS = 5.0

#: 2026-01-01: no clock that is right shows less.
EARLIEST = 1_767_225_600


def check_machine(directory: Path) -> Iterator[Finding]:
    yield check_space(shutil.disk_usage(existing(directory)).free, directory)
    yield from check_directory(directory)
    yield check_clock(time.time())
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield check_open_files(soft)


def check_space(free: int, directory: Path) -> Finding:
    found = f"{free / 1e9:,.1f} GB free where {directory} is"
    if free < NO_SPACE:
        return fail("disk", found, "make room, or use another disk by XDG_STATE_HOME or --data-dir")
    if free < SCARCE_SPACE:
        return warn("disk", found, "make room before you send much")
    return ok("disk", found)


def check_directory(directory: Path) -> Iterator[Finding]:
    """It can be written to, by its owner only, and its files get the time of the clock."""
    nearest = existing(directory)
    try:
        with tempfile.NamedTemporaryFile(dir=nearest, prefix=".booksan-doctor-") as file:
            file.write(b"x")
            file.flush()
            os.fsync(file.fileno())
            written = os.fstat(file.fileno()).st_mtime
    except OSError as error:
        advice = "give yourself the right to write there, or name another with --data-dir"
        yield fail("directory", f"{nearest} cannot be written to: {error.strerror}", advice)
        return
    mode = nearest.stat().st_mode
    if nearest == directory and mode & 0o022 and not mode & 0o1000:
        yield warn("directory", f"others can write to {nearest}", f"chmod go-w {nearest}")
    else:
        yield ok("directory", f"{nearest} can be written to")
    yield check_file_times(written - time.time(), nearest)


def check_file_times(difference: float, directory: Path) -> Finding:
    if abs(difference) > CLOCK_SECONDS:
        return warn(
            "file times",
            f"files in {directory} are dated {difference:+.0f} s off this machine's clock",
            "set the clocks of this machine and of the file server by NTP",
        )
    return ok("file times", "as the clock")


def check_clock(now: float) -> Finding:
    shown = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(now))
    if now < EARLIEST:
        return fail("clock", f"shows {shown}", "set it: runs expire by it")
    return ok("clock", shown)


def check_open_files(limit: int) -> Finding:
    if limit == resource.RLIM_INFINITY:
        return ok("open files", "no limit")
    found = f"{limit:,} at most in a process"
    if limit < NO_FILES:
        return fail("open files", found, f"raise it: ulimit -n {SCARCE_FILES} or more")
    if limit < SCARCE_FILES:
        return warn("open files", found, f"raise it for many clients: ulimit -n {SCARCE_FILES}")
    return ok("open files", found)
