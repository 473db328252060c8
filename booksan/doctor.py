"""One line of the report."""

import os
import platform
import re
import resource
import shutil
import socket
import sqlite3
import ssl
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from email.utils import parsedate_to_datetime
from enum import StrEnum
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.text import Text

import booksan
from booksan.answers import existing
from booksan.broker.files import find_server
from booksan.cluster.credentials import queues_address, spool_directory
from booksan.cluster.paths import hosts_directory, why_taken
from booksan.cluster.registry import Health, ask_health, read_members
from booksan.errors import EXIT_NOT_WELL, BooksanError
from booksan.gateway.config import GATEWAY_FILE, read_gateway_config
from booksan.host.config import HOST_FILE, read_config
from booksan.membership.socket import ELECTION_FILE, read_memory
from booksan.messages import decode
from booksan.shards import queue_name
from booksan.spec import HOME
from booksan.state.database import check_database
from booksan.tickets import SECRET_FILE, load_keys
from booksan.topology.model import Address, HostPlan, Member, all_hosts
from booksan.topology.parse import load_topology
from booksan.transport import masked, open_transport
from booksan.transport.spool_consumer import MESSAGE_NAME
from booksan.worker.failures import letter_id
from booksan_client.wire import AUTHORITY, Broken
from booksan_common.commands import print_json
from booksan_common.files import state_home
from booksan_common.terminal import PatientConsole


class Level(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class Finding(NamedTuple):
    level: Level
    what: str
    found: str
    #: What to do; nothing when all is well.
    advice: str = ""


def ok(what: str, found: str) -> Finding:
    return Finding(Level.OK, what, found)


def warn(what: str, found: str, advice: str) -> Finding:
    return Finding(Level.WARN, what, found, advice)


def fail(what: str, found: str, advice: str) -> Finding:
    return Finding(Level.FAIL, what, found, advice)


# The disk with its room and permissions, the clock, and the limits of a process.

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


# Programs and libraries: which are there, and whether they are new enough.

#: RETURNING came with this one.
LEAST_SQLITE = (3, 35, 0)
LIBRARIES = ("polars", "pika")


def check_versions() -> Iterator[Finding]:
    yield ok("booksan", f"{booksan.__version__}, Python {platform.python_version()}")
    yield check_sqlite(sqlite3.sqlite_version_info)
    for name in LIBRARIES:
        yield check_library(name)
    yield check_server(find_server())


def check_sqlite(version: tuple[int, ...]) -> Finding:
    text, least = (".".join(map(str, one)) for one in (version, LEAST_SQLITE))
    if version < LEAST_SQLITE:
        advice = f"use a Python whose SQLite is {least} or newer"
        return fail("SQLite", f"{text} is too old", advice)
    return ok("SQLite", text)


def check_library(name: str) -> Finding:
    try:
        return ok(name, metadata.version(name))
    except metadata.PackageNotFoundError:
        return fail(name, "is not installed", f"install it: pip install {name}")


def check_server(server: Path | None) -> Finding:
    """Only `cluster up --with-broker` needs one on this machine."""
    if server is None:
        return warn(
            "RabbitMQ",
            "there is no rabbitmq-server on this machine",
            "install it if you want `cluster up --with-broker`; spools and brokers elsewhere "
            "need none",
        )
    found = re.search(r"rabbitmq_server-([0-9.]+)", str(server.resolve()))
    version = found[1] if found else _installed_version(server)
    return ok("RabbitMQ", " ".join(filter(None, (version, str(server)))))


def _installed_version(server: Path) -> str:
    """Debian keeps the version in the name of a directory beside the scripts."""
    libraries = server.resolve().parent.parent / "lib"
    names = sorted(path.name for path in libraries.glob("rabbitmq_server-*"))
    return names[-1].removeprefix("rabbitmq_server-") if names else ""


# The queues, the ports of a topology, and its hosts: their clocks, and if they hear each other.


def check_queues(address: str) -> Finding:
    spool = spool_directory(address)
    if spool is not None:
        return ok("queues", f"{masked(address)}, on this disk")
    try:
        with open_transport(address) as transport:
            transport.depth(queue_name(HOME, 0))
    except BooksanError as error:
        advice = "start the broker, or set BOOKSAN_QUEUES to the address of one that runs"
        return fail("queues", f"{masked(address)}: {error}", advice)
    return ok("queues", f"{masked(address)} answers")


def check_hosts(hosts: Iterable[HostPlan]) -> Iterator[Finding]:
    for host in hosts:
        try:
            answer = ask_health(host.url)
        except (Broken, ValueError) as error:
            if isinstance(error.__cause__, ssl.SSLCertVerificationError):
                advice = f"name the authority that signed it by {AUTHORITY}"
                yield fail(f"host {host.name}", f"its certificate is refused: {error}", advice)
            else:
                yield from _ports(host)
        else:
            yield from _running(host, answer) if answer.host == host.name else _ports(host)


def _running(host: HostPlan, answer: Health) -> Iterator[Finding]:
    what = f"host {host.name}"
    if answer.is_good:
        yield ok(what, f"is at work, {host.url}")
    else:
        yield fail(what, f"its gateway {host.url} says: {answer.status}", "look at its logs")
    yield from check_host_clock(host.name, _ahead(answer.date))


def _ahead(date: str | None) -> float | None:
    """How far a clock is ahead of ours, in seconds; None if it cannot be told."""
    try:
        return parsedate_to_datetime(date).timestamp() - time.time() if date else None
    except ValueError:
        return None


def check_host_clock(name: str, ahead: float | None) -> Iterator[Finding]:
    # The header has whole seconds, so one more is nothing.
    if ahead is not None and abs(ahead) > CLOCK_SECONDS + 1:
        yield warn(
            f"clock of {name}",
            f"is {ahead:+.0f} s off this machine's",
            "set the clocks of all hosts by NTP: runs expire by them",
        )


def _ports(host: HostPlan) -> Iterator[Finding]:
    what = f"host {host.name}"
    wanted = ((host.listen, socket.SOCK_STREAM), (host.address, socket.SOCK_DGRAM))
    taken = [(one, why) for one, kind in wanted if (why := why_taken(one, kind))]
    if not taken:
        yield ok(what, f"does not run; {host.listen} and {host.address} (UDP) are free")
    for address, why in taken:
        if _is_here(address):
            yield fail(
                what,
                f"{address}: {why}",
                "stop what uses it, change the topology, or use `cluster up --any-ports`",
            )
        else:
            yield warn(
                what,
                f"does not answer at {host.url}, and {address} is not of this machine",
                "run the doctor there",
            )


def _is_here(address: Address) -> bool:
    """An address that this machine can listen on, whether or not the port is taken."""
    return why_taken(address._replace(port=0), socket.SOCK_STREAM) is None


def check_secrets(members: Mapping[str, Member]) -> Iterator[Finding]:
    """A host hears whom it has the first secret of."""
    keys = {
        one.name: load_keys(one.data_dir)
        for one in members.values()
        if (one.data_dir / SECRET_FILE).exists()
    }
    deaf = [
        (name, other)
        for name, mine in keys.items()
        for other, theirs in keys.items()
        if theirs[0] not in mine
    ]
    for name, other in deaf:
        yield fail(
            f"host {name}",
            f"does not hear {other}: it does not know its secret",
            "start all hosts with the same secret; docs/service.md tells how it is changed",
        )
    if len(keys) > 1 and not deaf:
        yield ok("secrets", f"{len(keys)} hosts on this machine know each other's")


# What hosts and runs keep: databases, messages, letters, and the files that they start with.

#: Damages named one by one; one disk that fails has thousands.
MOST_NAMED = 10
RESTORE = "see docs/service.md, Damaged files; look at the disk before it is used again"


def check_data(directory: Path) -> Iterator[Finding]:
    """A data directory, or a spool: every file that can tell whether it is whole."""
    checked = 0
    damaged = []
    for path, check in _files(directory):
        checked += 1
        # Messages and databases come and go while a host works.
        if (why := _damage(path, check)) and path.exists():
            damaged.append(fail("data", f"{path} is damaged: {why}", RESTORE))
    yield from damaged[:MOST_NAMED]
    if len(damaged) > MOST_NAMED:
        yield fail("data", f"{len(damaged):,} files in {directory} are damaged", RESTORE)
    if checked and not damaged:
        yield ok("data", f"{checked:,} files in {directory} are whole")


def _files(directory: Path) -> Iterator[tuple[Path, Callable[[Path], object]]]:
    for name, check in _STARTS_WITH.items():
        if (directory / name).exists():
            yield directory / name, check
    for pattern, check in _KEPT.items():
        for path in sorted(directory.glob(pattern)):
            yield path, check


def _damage(path: Path, check: Callable[[Path], object]) -> str:
    """Why the file is not whole; nothing if it is."""
    try:
        check(path)
    except (BooksanError, OSError, ValueError, sqlite3.DatabaseError) as error:
        return str(error)
    return ""


def _check_message(path: Path) -> None:
    if MESSAGE_NAME.fullmatch(path.name):
        decode(path.read_bytes())


def _check_letter(path: Path) -> None:
    if letter_id(path.read_bytes()) != path.stem:
        raise ValueError("it does not fit its name, which is its digest")


def _check_secret(path: Path) -> None:
    if not path.read_bytes():
        raise ValueError("it is empty")


_STARTS_WITH: dict[str, Callable[[Path], object]] = {
    HOST_FILE: lambda path: read_config(path.parent),
    GATEWAY_FILE: lambda path: read_gateway_config(path.parent),
    ELECTION_FILE: read_memory,
    SECRET_FILE: _check_secret,
}
_KEPT: dict[str, Callable[[Path], object]] = {
    "shards/*.db": check_database,
    "clients/*/*.db": check_database,
    "queues/*/messages/*": _check_message,
    "letters/*/*.msg": _check_letter,
}


# `booksan doctor`: all checks, on a terminal or as JSON.

_COLOURS = {Level.OK: "green", Level.WARN: "yellow", Level.FAIL: "red"}


def doctor_command(config: str, data_dir: Path | None, *, as_json: bool) -> int:
    """The exit code: 0 when nothing failed."""
    findings = []
    console = PatientConsole()
    for finding in examine(config, data_dir):
        findings.append(finding)
        # At once: a broker that does not answer takes its time.
        if not as_json:
            _show(console, finding)
    code = EXIT_NOT_WELL if _failed(findings) else 0
    if as_json:
        found = [finding._asdict() for finding in findings]
        print_json({"ok": not _failed(findings), "findings": found, "exit_code": code})
    return code


def examine(config: str, data_dir: Path | None) -> Iterator[Finding]:
    yield from check_versions()
    yield from check_machine((data_dir or state_home()).absolute())
    try:
        topology = load_topology(config)
        shared = hosts_directory(topology.name)
        address = queues_address(topology, os.environ, None, shared / "spool")
        yield check_queues(address)
        members = read_members(shared)
    except BooksanError as error:
        yield fail("topology", str(error), "mend the file, or name another with --config")
        return
    yield from check_hosts(all_hosts(topology, members).values())
    kept = {one.data_dir for one in members.values()} | {data_dir, spool_directory(address)}
    for directory in sorted(each.absolute() for each in kept if each is not None):
        yield from check_data(directory)
    yield from check_secrets(members)


def _failed(findings: list[Finding]) -> bool:
    return any(finding.level is Level.FAIL for finding in findings)


def _show(console: Console, finding: Finding) -> None:
    line = Text.assemble(
        (f"{finding.level:<4}", _COLOURS[finding.level]), f"  {finding.what:<12} {finding.found}"
    )
    console.print(line, soft_wrap=True)
    if finding.advice:
        console.print(Text(f"      {finding.advice}"), soft_wrap=True)
