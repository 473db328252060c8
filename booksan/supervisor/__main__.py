"""`python -m booksan.supervisor DATA_DIR`: run the workers that DATA_DIR/host.json names."""

import argparse
import os
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from booksan.errors import StateError, UsageError
from booksan.events import HOST_VARIABLE
from booksan.heartbeat import Heartbeats
from booksan.host.config import HostConfig, read_config
from booksan.host.logs import LOGS, SUPERVISOR_LOG, say, take_terminal
from booksan.host.status import (
    EXIT_CANNOT_START,
    EXIT_LOCKED,
    HostState,
    HostStatus,
    take_locks,
    write_status,
)
from booksan.membership.peers import Membership
from booksan.news import News
from booksan.supervisor.child import Nursery, Wakeup, make_parent_death
from booksan.supervisor.loop import Supervisor
from booksan.tickets import SECRET_FILE, load_keys

#: Seconds. A child that is being forked holds the lock for a moment after its parent's death.
_LOCK_TIMEOUT = 1.0


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse(arguments)
    data_dir = Path(options.data_dir).resolve()
    _open_standard_fds()
    take_terminal(data_dir)
    try:
        locks = take_locks(data_dir, options.wait_lock)
    except UsageError as error:
        say(f"cannot start: {error}")
        return EXIT_LOCKED
    except OSError as error:
        say(f"cannot start: {data_dir} cannot be used: {error.strerror}.")
        return EXIT_CANNOT_START
    wakeup = Wakeup()
    try:
        config = _prepare(data_dir)
    except UsageError as error:
        say(f"cannot start: {error}")
        _report_failure(data_dir, str(error))
        return EXIT_CANNOT_START
    if config.name:
        os.environ[HOST_VARIABLE] = config.name
    heartbeats = Heartbeats(len(config.workers))
    parent_death, news = make_parent_death(), News()
    nursery = Nursery(data_dir, config.entry, wakeup, parent_death, locks.workers, heartbeats, news)
    parent_fd = 0 if options.with_parent else None
    try:
        membership = _company(config, data_dir)
    except (StateError, UsageError) as error:
        say(f"cannot start: {error}")
        _report_failure(data_dir, str(error))
        return EXIT_CANNOT_START
    # With a parent it is the host of one command, which nobody else knows.
    meet = None if options.with_parent else partial(_company, data_dir=data_dir)
    try:
        return Supervisor(config, nursery, parent_fd, membership, meet).run()
    except BaseException as error:
        say(f"ends by an error of its own: {error}; see {data_dir / LOGS / SUPERVISOR_LOG}")
        raise


def _company(config: HostConfig, data_dir: Path) -> Membership | None:
    if config.election is None:
        return None
    secret = data_dir / SECRET_FILE
    try:
        # Not made here: it would be another one than that of the other hosts.
        secret.stat()
        keys = load_keys(data_dir)
    except OSError as error:
        raise UsageError(f"{error.filename or secret} cannot be read: {error.strerror}.") from None
    return Membership(config.election, keys, data_dir)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m booksan.supervisor", description=__doc__)
    parser.add_argument("data_dir", metavar="DATA_DIR", help="the directory that holds host.json")
    parser.add_argument(
        "--with-parent", action="store_true", help="drain and end when standard input ends"
    )
    parser.add_argument(
        "--wait-lock",
        type=float,
        default=_LOCK_TIMEOUT,
        metavar="SECONDS",
        help="how long to wait for another supervisor of the directory to end (%(default)s)",
    )
    return parser.parse_args(arguments)


def _open_standard_fds() -> None:
    """Fill 0, 1 and 2, so that no pipe of ours takes the place of a closed one."""
    fd = os.open(os.devnull, os.O_RDWR)
    while fd <= 2:
        fd = os.dup(fd)
    os.close(fd)


def _prepare(data_dir: Path) -> HostConfig:
    config = read_config(data_dir)
    try:
        (data_dir / LOGS).mkdir(exist_ok=True)
    except OSError as error:
        raise UsageError(f"{data_dir / LOGS} cannot be made: {error.strerror}.") from None
    return config


def _report_failure(data_dir: Path, error: str) -> None:
    # The exit code says the same, so a full disk costs only the words.
    with suppress(OSError):
        failed = HostStatus(os.getpid(), HostState.FAILED, 0, (), error, EXIT_CANNOT_START)
        write_status(data_dir, failed)


if __name__ == "__main__":
    # Not sys.exit: a late SIGTERM in the interpreter's own end would change the exit code.
    os._exit(main())
