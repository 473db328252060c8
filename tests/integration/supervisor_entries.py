"""Workers for the tests of the supervisor: each function is the whole life of one."""

import fcntl
import gc
import json
import os
import signal
import sys
from pathlib import Path

from booksan.heartbeat import beat


def steady(data_dir: Path, stage: str, shard: int) -> int:
    """Live until SIGTERM; leave a mark when another process of the same name lives too."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    own = os.open(data_dir / f"{stage}.{shard}.own", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(own, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        (data_dir / "overlap").touch()
    _mark(data_dir, f"ready.{stage}.{shard}.{os.getpid()}")
    signal.sigwait({signal.SIGTERM})
    return 0


def slow_to_finish(data_dir: Path, stage: str, shard: int) -> int:
    """Have a unit of work in hand at SIGTERM, and end it when the test says so."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    _mark(data_dir, f"ready.{stage}.{shard}.{os.getpid()}")
    signal.sigwait({signal.SIGTERM})
    _mark(data_dir, f"asked.{stage}.{shard}")
    (data_dir / "go").read_bytes()
    _mark(data_dir, f"finished.{stage}.{shard}")
    return 0


def _asked_to_end() -> bool:
    """Python gives something without a signal too, if the process stood still while it waited."""
    found = signal.sigtimedwait({signal.SIGTERM}, 0.02)
    return found is not None and found.si_signo == signal.SIGTERM


def beats(data_dir: Path, stage: str, shard: int) -> int:
    """Give signs of life until SIGTERM; shard 1 falls silent, once, when the test says so."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    _mark(data_dir, f"ready.{stage}.{shard}.{os.getpid()}")
    while not _asked_to_end():
        if not (shard == 1 and (data_dir / f"silence.{os.getpid()}").exists()):
            beat()
    return 0


def talks(data_dir: Path, stage: str, shard: int) -> int:
    """Say more than a log holds, and a last word when the test says so."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    for _ in range(9):
        print("x" * 1_048_576)
    _mark(data_dir, f"ready.{stage}.{shard}.{os.getpid()}")
    while not _asked_to_end():
        beat()
    print("the last word")
    return 0


def grows(data_dir: Path, stage: str, shard: int) -> int:
    """Shard 1 takes a lot of memory, once, when the test says so."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    _mark(data_dir, f"ready.{stage}.{shard}.{os.getpid()}")
    held = b""
    while not _asked_to_end():
        if shard == 1 and not held and (data_dir / f"grow.{os.getpid()}").exists():
            held = b"x" * 300_000_000
    _mark(data_dir, f"drained.{stage}.{shard}.{os.getpid()}")
    return 0


def stubborn(data_dir: Path, stage: str, shard: int) -> int:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _mark(data_dir, f"ready.{stage}.{shard}.{os.getpid()}")
    while True:
        signal.pause()


def broken(data_dir: Path, stage: str, shard: int) -> int:
    """Shard 0 works, the others do not."""
    if shard == 0:
        return steady(data_dir, stage, shard)
    raise ValueError("the reason of the test")


def misconfigured(data_dir: Path, stage: str, shard: int) -> int:
    if shard == 0:
        return steady(data_dir, stage, shard)
    print("the broker's address is missing", file=sys.stderr)
    return 78


def ends_once(data_dir: Path, stage: str, shard: int) -> int:
    """End by itself the first time."""
    if (data_dir / "ended").exists():
        return steady(data_dir, stage, shard)
    _mark(data_dir, "ended")
    return 0


def describes_itself(data_dir: Path, stage: str, shard: int) -> int:
    """Tell the test what this process was born with."""
    modules = sorted(sys.modules)
    ignored = [s.name for s in signal.Signals if signal.getsignal(s) == signal.SIG_IGN]
    default = [s.name for s in signal.Signals if signal.getsignal(s) == signal.SIG_DFL]
    found = {
        "modules": modules,
        "files": _open_files(),
        "ignored": ignored,
        "default": default,
        "blocked": [signal.Signals(s).name for s in signal.pthread_sigmask(signal.SIG_BLOCK, [])],
        "group": os.getpgid(0),
        "frozen": gc.get_freeze_count() > 0,
        "parent": os.getppid(),
        "threads": os.environ.get("POLARS_MAX_THREADS"),
    }
    print("said on stdout")
    _mark(data_dir, "description", json.dumps(found))
    return steady(data_dir, stage, shard)


def _open_files() -> dict[str, str]:
    found = {}
    for fd in Path("/proc/self/fd").iterdir():
        # The one that lists the directory is gone by now.
        if fd.exists():
            found[fd.name] = str(fd.readlink())
    return found


def _mark(data_dir: Path, name: str, text: str = "") -> None:
    temporary = data_dir / f"{name}.{os.getpid()}.part"
    temporary.write_text(text)
    temporary.replace(data_dir / name)
